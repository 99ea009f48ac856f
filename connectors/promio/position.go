package promio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"hafvf/internal/account"
)

// A Position is the time up to which a source has been read. If a run carries a Position, see
// account.WithValue, Read starts there.
type Position struct {
	// Begin is where the previous run stopped, or where this run begins. If it is zero, Read uses Source.Begin.
	Begin time.Time
	// Until, if not zero, is where the source ends. An unbounded source waits there until it is suspended.
	Until time.Time

	mu         sync.Mutex
	handedOver time.Time
}

// positionMagic begins an encoded Position. A state file may contain the FileMarks of file sources instead.
var positionMagic = []byte("prometheus\n")

// IsPosition reports whether b is an encoded Position.
func IsPosition(b []byte) bool { return bytes.HasPrefix(b, positionMagic) }

// ParsePosition decodes the output of AppendBinary. If b is not a Position, it returns one whose Begin is zero.
func ParsePosition(b []byte) (*Position, error) {
	if !IsPosition(b) {
		return &Position{}, nil
	}
	b = b[len(positionMagic):]
	ms, n := binary.Varint(b)
	if n <= 0 || n != len(b) {
		return nil, errors.New("the stored position of the query is damaged")
	}
	begin := time.UnixMilli(ms).UTC()
	return &Position{Begin: begin, handedOver: begin}, nil
}

// Start sets Begin. AppendBinary appends t until the source has handed over points.
func (p *Position) Start(t time.Time) { p.Begin, p.handedOver = t, t }

// Reached reports whether the source has handed over all points before Until. It returns false if Until is zero.
func (p *Position) Reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.Until.IsZero() && !p.handedOver.Before(p.Until)
}

// AppendBinary appends the end of the points that were handed over last, or nothing if there were none. The error
// is always nil.
func (p *Position) AppendBinary(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handedOver.IsZero() {
		return b, nil
	}
	return binary.AppendVarint(append(b, positionMagic...), p.handedOver.UnixMilli()), nil
}

var errSuspending = errors.New("the run is being suspended")

// handOver hands over n points whose times are before the given time, and stores that time in p if p is not nil. If
// the run is being suspended, handOver hands over nothing, waits until ctx ends and returns its cause.
func (p *Position) handOver(ctx context.Context, run *account.Run, n int, before time.Time) error {
	err := run.HandOver(ctx, n, func() error {
		if run.Suspended() {
			return errSuspending
		}
		if p != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.handedOver = before
		}
		return nil
	})
	if err == errSuspending {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}
