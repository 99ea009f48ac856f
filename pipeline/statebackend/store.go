// Package statebackend keeps the states of the keys of a filter that runs in this process: in a file, or in
// a compacted topic of Kafka. A run goes on with the states of the run before.
package statebackend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/reminder"
	"hafvf/pipeline/direct"
)

// Config says which states are kept.
type Config struct {
	// Filter is the configuration of the filter that the states are of. States of another one are an
	// error, which wraps a *statestore.MismatchError and names the setting.
	Filter keyed.Config
	// Migrate has states carried over that were written under another configuration, as far as they
	// mean the same, see keyed.Migrator.
	Migrate bool
	// Leave has states left out, with Migrate, of which nothing means the same. Otherwise they are an
	// error.
	Leave bool
	// Check, if set, is told of the states of a topic what becomes of them. Its error is that of OpenTopic, which
	// has taken nothing over then.
	Check func(statestore.Migrated) error
	Log   *slog.Logger // default: none
}

func (c Config) log() *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

func (c Config) migration() statestore.Policy {
	switch {
	case c.Leave:
		return statestore.Leave
	case c.Migrate:
		return statestore.Carry
	}
	return statestore.Refuse
}

// written returns the function that makes what is stored of the state of a key.
func (c Config) written() func(key string, state []byte) statestore.State {
	settings := c.Filter.Settings()
	return func(key string, state []byte) statestore.State {
		_, text := settings(key)
		return statestore.State{Key: key, Settings: text, Bytes: state}
	}
}

// expiry returns the function that says when the key of a state expires. It panics if the
// configuration is impossible.
func (c Config) expiry() func(state []byte) time.Time {
	est, err := keyed.NewEstimator(c.Filter)
	if err != nil {
		panic("store: " + err.Error())
	}
	return est.Expiry
}

// Execute runs a pipeline with an account. follow goes on beside the pipeline until its context
// ends. It may call suspend when the run rests: that ends the pipeline, without an error. If nothing moves
// any more, the log says where.
func Execute(ctx context.Context, run *account.Run, p *beam.Pipeline, log *slog.Logger, follow func(ctx context.Context, suspend func())) error {
	running, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { follow(running, func() { cancel(errSuspended) }) })
	beside.Go(func() { watch(running, run, log) })
	_, err := direct.Execute(run.In(running), p)
	if context.Cause(running) == errSuspended {
		err = nil
	}
	cancel(nil)
	beside.Wait()
	return err
}

// stallLogAfter is for how long nothing moves before the log says so, and stallLogEvery is when it says so once more.
// Tests have less.
var stallLogAfter, stallLogEvery = 30 * time.Second, time.Hour

// watch warns of what does not move until ctx ends. What an output waits for, that says itself.
func watch(ctx context.Context, run *account.Run, log *slog.Logger) {
	tick := time.NewTicker(stallLogAfter / 10)
	defer tick.Stop()
	var logged reminder.Reminder
	var of string
	due := func(step string, since time.Time) bool {
		if step == "" || time.Since(since) < stallLogAfter {
			return false
		}
		if step != of {
			of, logged = step, reminder.Reminder{}
		}
		return logged.Due(stallLogEvery)
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		runner := account.Value[account.Runner](run, "")
		if runner == nil || run.Waits() {
			continue
		}
		step, since := runner.Stalled()
		if due(step, since) {
			log.Warn("nothing moves: records wait at a step", "step", step, "for", time.Since(since).Round(time.Second).String())
		}
		if step != "" {
			continue
		}
		if step, since, records := run.Buffering(); due(step, since) {
			log.Warn("records wait, and are not committed: a step keeps back what came of them", "step", step, "records", records, "for", time.Since(since).Round(time.Second).String())
		}
	}
}

var errSuspended = errors.New("suspended")
