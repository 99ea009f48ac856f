// Package retry repeats requests that have failed. All connectors repeat them in this way.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A Policy says when a request is repeated, and for how long. The pauses between attempts
// double from First to Last. Each is up to half longer by chance, so that many clients do
// not come back together.
type Policy struct {
	First, Last time.Duration
	// Budget is the time from the first attempt within which the last one begins. Zero is
	// no limit.
	Budget time.Duration
}

// An Asker is an error of a server that asks to be left alone for a while.
type Asker interface {
	error
	RetryAfter() time.Duration
}

// Do calls attempt until it succeeds. The context of attempt ends with the budget. After
// each error Do calls again, which reports whether another attempt may help.
//
// Do returns the error of an attempt if no other may help or the budget is spent, and the
// cause of ctx if ctx has ended.
func (p Policy) Do(ctx context.Context, attempt func(context.Context) error, again func(error) bool) error {
	within, start := ctx, time.Now()
	if p.Budget > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, p.Budget)
		defer cancel()
	}
	var last error
	for tries := 1; ; tries++ {
		err := attempt(within)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if last == nil || within.Err() == nil {
			last = err // an error of the spent budget says less
		}
		pause := p.PauseAfter(tries, err)
		if !again(err) || p.Budget > 0 && time.Since(start)+pause > p.Budget {
			return last
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// PauseAfter is a pause after so many attempts, the last of which had that error.
func (p Policy) PauseAfter(tries int, err error) time.Duration {
	pause := p.Pause(tries)
	if asker, ok := errors.AsType[Asker](err); ok {
		pause = max(pause, asker.RetryAfter())
	}
	return pause
}

// Pause is a pause after so many attempts.
func (p Policy) Pause(tries int) time.Duration {
	pause := p.First
	for ; tries > 1 && pause < p.Last; tries-- {
		pause *= 2
	}
	pause = min(pause, p.Last)
	return pause + rand.N(pause/2+1)
}
