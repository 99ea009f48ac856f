package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errPasses = errors.New("passes")
	errFinal  = errors.New("is final")
)

func again(err error) bool { return !errors.Is(err, errFinal) }

// asks is the error of a server that asks for a pause.
type asks time.Duration

func (a asks) Error() string             { return "asks" }
func (a asks) RetryAfter() time.Duration { return time.Duration(a) }

func TestPauses(t *testing.T) {
	p := Policy{First: 100 * time.Millisecond, Last: time.Second}
	for tries, minPause := range []time.Duration{1: 100, 2: 200, 3: 400, 4: 800, 5: 1000, 6: 1000, 1000: 1000} {
		if minPause == 0 {
			continue
		}
		minPause *= time.Millisecond
		for range 100 {
			if got := p.Pause(tries); got < minPause || got > minPause+minPause/2 {
				t.Fatalf("after %d attempts %s, want %s and up to half more", tries, got, minPause)
			}
		}
	}
}

func TestDo(t *testing.T) {
	p := Policy{First: time.Second, Last: 4 * time.Second, Budget: time.Minute}
	gone := errors.New("the user has gone")
	for _, test := range []struct {
		name             string
		attempt          func(ctx context.Context, tries int) error
		want             error
		minTime, maxTime time.Duration
	}{
		{"succeeds", func(context.Context, int) error { return nil }, nil, 0, 0},
		{"succeeds at last", func(_ context.Context, tries int) error {
			if tries < 4 {
				return errPasses
			}
			return nil
		}, nil, 7 * time.Second, 10500 * time.Millisecond},
		{"is final", func(_ context.Context, tries int) error {
			if tries < 2 {
				return errPasses
			}
			return errFinal
		}, errFinal, time.Second, 1500 * time.Millisecond},
		{"never succeeds", func(context.Context, int) error { return errPasses }, errPasses, 54 * time.Second, time.Minute},
		{"is asked for a pause", func(_ context.Context, tries int) error {
			if tries < 2 {
				return asks(20 * time.Second)
			}
			return nil
		}, nil, 20 * time.Second, 20 * time.Second},
		{"is asked for too long a pause", func(context.Context, int) error { return asks(2 * time.Minute) }, asks(2 * time.Minute), 0, 0},
		{"hangs after an error", func(ctx context.Context, tries int) error {
			if tries < 2 {
				return errPasses
			}
			<-ctx.Done()
			return ctx.Err()
		}, errPasses, time.Minute, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, tries := time.Now(), 0
				err := p.Do(t.Context(), func(ctx context.Context) error { tries++; return test.attempt(ctx, tries) }, again)
				if took := time.Since(start); err != test.want || took < test.minTime || took > test.maxTime {
					t.Errorf("%v after %s, want %v after %s to %s", err, took, test.want, test.minTime, test.maxTime)
				}
			})
		})
	}
	t.Run("is cancelled in a pause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
			start := time.Now()
			err := p.Do(ctx, func(context.Context) error { return errPasses }, again)
			if took := time.Since(start); err != gone || took != 100*time.Millisecond {
				t.Errorf("%v after %s", err, took)
			}
		})
	})
}
