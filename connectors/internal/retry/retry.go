// Package retry repeats failed requests, for all connectors.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A Policy determines how long and how often a request is repeated. The pauses between attempts double from First to
// Last. A random extra of up to half a pause keeps many clients from retrying at the same time.
type Policy struct {
	First, Last time.Duration
	// Budget is the time, from the start of the first attempt, within which the last attempt starts. Zero means no
	// limit.
	Budget time.Duration
}

// An Asker is an error of a server that asks for a pause.
type Asker interface {
	error
	RetryAfter() time.Duration
}

// Do calls attempt until it succeeds. The context of attempt ends with the budget. After each error, Do calls
// retryable, which reports whether another attempt may help.
//
// If no other attempt may help or the budget is spent, Do returns the error of an attempt. If ctx has ended, it
// returns the cause of ctx.
func (p Policy) Do(ctx context.Context, attempt func(context.Context) error, retryable func(error) bool) error {
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
			last = err // an error because the budget is spent says less
		}
		pause := p.PauseAfter(tries, err)
		if !retryable(err) || p.Budget > 0 && time.Since(start)+pause > p.Budget {
			return last
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// PauseAfter returns the pause after tries attempts, where err is the last error. It is at least the pause that
// an Asker asks for.
func (p Policy) PauseAfter(tries int, err error) time.Duration {
	pause := p.Pause(tries)
	if asker, ok := errors.AsType[Asker](err); ok {
		pause = max(pause, asker.RetryAfter())
	}
	return pause
}

// Pause returns the pause after tries attempts, with its random extra.
func (p Policy) Pause(tries int) time.Duration {
	pause := p.First
	for ; tries > 1 && pause < p.Last; tries-- {
		pause *= 2
	}
	pause = min(pause, p.Last)
	return pause + rand.N(pause/2+1)
}
