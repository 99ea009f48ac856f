// Package statebackend stores the states of a filter that runs in this process: in a file, or in a compacted topic of
// Kafka. A run resumes with the states of the previous run.
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
	"hafvf/transforms"
)

// Config is the configuration of a job's filter and of its stored states.
type Config struct {
	// Filter is the configuration of the filter. States of another configuration are an error, which wraps a
	// *statestore.MismatchError and names the setting. A filter of the job with another configuration fails the job:
	// use Filter.
	Filter keyed.Config
	// Migrate converts states that were written under another configuration, as far as their parts mean the same: see
	// keyed.Migrator.
	Migrate bool
	// Leave, with Migrate, drops states without a part that can be converted. Without it they are an error.
	DropIncompatible bool
	// Check, if not nil, receives the result of the migration of a topic's states. If it returns an error, OpenTopic
	// returns the error, and nothing is migrated.
	Check func(statestore.Migrated) error
	// Log is the log of the job. Default: slog.Default().
	Log *slog.Logger
}

// Filter adds the job's filter to its pipeline: transforms.FilterParsed with the configuration c.Filter.
func Filter[T any](s beam.Scope, c Config, observe func(T) (string, keyed.Observation, error), col beam.PCollection, options ...transforms.Option) transforms.FilterOutput {
	return transforms.FilterParsed(s, c.Filter, observe, col, options...)
}

func (c Config) log() *slog.Logger { return cmp.Or(c.Log, slog.Default()) }

// newMemory returns a memory for the states of the job's filter.
func (c Config) newMemory() *statestore.Memory {
	m := statestore.NewMemory()
	m.Settings = new(c.Filter.AllSettings())
	return m
}

func (c Config) migration() statestore.Policy {
	switch {
	case c.DropIncompatible:
		return statestore.DropIncompatible
	case c.Migrate:
		return statestore.Convert
	}
	return statestore.Refuse
}

// written returns a function that returns the stored form of a key's state.
func (c Config) written() func(key string, state []byte) statestore.State {
	settings := c.Filter.Settings()
	return func(key string, state []byte) statestore.State {
		_, text := settings(key)
		return statestore.State{Key: key, Settings: text, Bytes: state}
	}
}

// expiry returns a function that returns the time at which the key of a state expires. It panics if the configuration
// is invalid.
func (c Config) expiry() func(state []byte) time.Time {
	est, err := keyed.NewEstimator(c.Filter)
	if err != nil {
		panic("statebackend: " + err.Error())
	}
	return est.Expiry
}

// Execute runs a pipeline in the context of a Topic or a File. follow runs next to the pipeline until its context ends.
// It may call suspend while the run is idle: that ends the pipeline without an error. If the pipeline stalls, the log
// names the step.
func Execute(ctx context.Context, p *beam.Pipeline, log *slog.Logger, follow func(ctx context.Context, suspend func())) error {
	run := account.From(ctx)
	running, cancel := context.WithCancelCause(ctx)
	var followers sync.WaitGroup
	followers.Go(func() { follow(running, func() { cancel(errSuspended) }) })
	followers.Go(func() { watch(running, run, log) })
	_, err := direct.Execute(running, p)
	if context.Cause(running) == errSuspended {
		err = nil
	}
	cancel(nil)
	followers.Wait()
	return err
}

// stallLogAfter is the time without progress after which watch warns, and stallLogEvery the time until it warns of the
// same step again. Tests set less.
var stallLogAfter, stallLogEvery = 30 * time.Second, time.Hour

// watch warns of steps without progress until ctx ends. It does not warn while an output waits: the output logs that
// itself.
func watch(ctx context.Context, run *account.Run, log *slog.Logger) {
	tick := time.NewTicker(stallLogAfter / 10)
	defer tick.Stop()
	logged := map[string]*reminder.Reminder{} // by step
	due := func(step string, start time.Time) bool {
		if step == "" || time.Since(start) < stallLogAfter {
			return false
		}
		if logged[step] == nil {
			logged[step] = &reminder.Reminder{}
		}
		return logged[step].Due(stallLogEvery)
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
		if step, start := runner.Stalled(); due(step, start) {
			log.Warn("pipeline stalled: records are waiting at a step", "step", step, "for", time.Since(start).Round(time.Second).String())
		}
		if step, start, records := run.Buffering(); due(step, start) {
			log.Warn("records are not committed: a step still buffers their results", "step", step, "records", records, "for", time.Since(start).Round(time.Second).String())
		}
	}
}

var errSuspended = errors.New("suspended")
