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

// A Position is how far a source was read: to before a time. A run that carries a Position, see
// account.WithValue, has Read begin there.
type Position struct {
	// Begin is where the run before has stopped, or this one begins; zero if Read is to find that.
	Begin time.Time
	// Until, if set, is where the source ends or, if it has no end, waits to be suspended.
	Until time.Time

	mu         sync.Mutex
	handedOver time.Time
}

// positionMagic begins an encoded Position. A file of states may hold that of files instead.
var positionMagic = []byte("prometheus\n")

// IsPosition reports whether b is an encoded Position.
func IsPosition(b []byte) bool { return bytes.HasPrefix(b, positionMagic) }

// ParsePosition reads what AppendBinary has written. What is no Position gives one without a
// Begin.
func ParsePosition(b []byte) (*Position, error) {
	if !IsPosition(b) {
		return &Position{}, nil
	}
	b = b[len(positionMagic):]
	ms, n := binary.Varint(b)
	if n <= 0 || n != len(b) {
		return nil, errors.New("how far the query was asked is damaged")
	}
	begin := time.UnixMilli(ms).UTC()
	return &Position{Begin: begin, handedOver: begin}, nil
}

// Start has the source begin at a time, which AppendBinary appends until more is handed over.
func (p *Position) Start(t time.Time) { p.Begin, p.handedOver = t, t }

// Reached reports whether all before Until was handed over.
func (p *Position) Reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.Until.IsZero() && !p.handedOver.Before(p.Until)
}

// AppendBinary appends the position that was handed over last. The error is always nil.
func (p *Position) AppendBinary(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handedOver.IsZero() {
		return b, nil
	}
	return binary.AppendVarint(append(b, positionMagic...), p.handedOver.UnixMilli()), nil
}

var errSuspending = errors.New("the run is being suspended")

// handOver hands n points over, which are all before a time. A run that is being suspended takes
// none: it is cancelled as soon as nothing is in flight.
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
