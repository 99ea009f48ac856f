package statebackend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
)

// A Topic holds the states of a run in memory. It writes them to the changelog of a ledger, together with the offsets
// of the records that the run has processed.
type Topic struct {
	*kafkaio.Ledger
	Memory *statestore.Memory
	// Migrated counts the states that were read, by the result of their migration.
	Migrated statestore.Migrated
	run      *account.Run
	log      *slog.Logger
}

// OpenTopic opens a ledger and resumes the states of the previous run. It sets the functions of ledger for states. With
// ledger.History it only checks the states.
func OpenTopic(ctx context.Context, ledger kafkaio.LedgerConfig, cfg Config) (*Topic, error) {
	t := &Topic{Memory: cfg.newMemory(), log: cfg.log()}
	written, unsealer := cfg.written(), &statestore.Unsealer{}
	ledger.Migrate, ledger.Log = cfg.Migrate, cfg.log()
	ledger.Seal = func(key string, state []byte) []byte { return written(key, state).Seal() }
	ledger.Unseal = unsealer.Unseal
	ledger.Open = func(found iter.Seq[*kafkaio.StoredState], keys, bytes int) (map[string]int64, error) {
		t.Memory = cfg.newMemory()
		if !ledger.History {
			t.Memory.Reserve(keys, bytes)
		}
		return t.migrate(ledger, unsealer.Open, found, cfg)
	}
	var err error
	if t.Ledger, err = kafkaio.OpenLedger(ctx, ledger); err != nil {
		return nil, err
	}
	t.run = account.From(t.Ledger.Context(ctx))
	account.WithValue(t.run, "", t.Memory)
	t.Ledger.TakeStates(func(key string, state []byte) bool {
		if statestore.Reserved(key) {
			return false
		}
		t.Memory.Restore(key, state)
		return true
	})
	return t, nil
}

// migrate migrates the states of a changelog to the configuration, and puts the states of keys into the memory. It
// returns the last offset of each partition that the states include. It marks states that cannot be read with an error,
// and states that are dropped as deleted. It returns an error if states belong to another configuration and cfg does
// not migrate them.
func (t *Topic) migrate(ledger kafkaio.LedgerConfig, open func(key string, b []byte) statestore.State, found iter.Seq[*kafkaio.StoredState], cfg Config) (included map[string]int64, err error) {
	var stored *kafkaio.StoredState
	topic := ledger.Changelog
	retained := false
	opened := func(yield func(statestore.State) bool) {
		for stored = range found {
			retained = false
			more := yield(open(stored.Key, stored.Bytes))
			if !retained {
				stored.Bytes, stored.Replaced, stored.Claimed = nil, true, true
			}
			if !more {
				return
			}
		}
	}
	a, err := statestore.Migrate(cfg.Filter, opened, cfg.migration(), "the changelog "+topic, func(s statestore.State, changed bool) {
		retained = true
		stored.Bytes, stored.Replaced, stored.Err = s.Bytes, changed, s.Err
		if s.Err == nil && !statestore.Reserved(s.Key) && !ledger.History {
			t.Memory.Restore(s.Key, s.Bytes)
			stored.Claimed = true
		}
	})
	if mismatch := new(statestore.MismatchError); errors.As(err, &mismatch) {
		return nil, fmt.Errorf("the changelog %s does not fit the config, %w", topic, mismatch)
	}
	if err != nil {
		return nil, err
	}
	if cfg.Check != nil {
		if err := cfg.Check(a); err != nil {
			return nil, err
		}
	}
	t.Migrated = a
	a.ResetDamaged(topic, cfg.log())
	if cfg.Migrate && ledger.ReplayedStates == nil && !ledger.History {
		cfg.log().Info("migrated the states to this config", "topic", topic, "states", a.String())
	}
	return a.Included, nil
}

// Execute runs a pipeline until its source ends, or until stop is closed. Then it processes the records that were read,
// and commits; the next run resumes there. The source reads the next records after all earlier ones are processed: no
// step is working, and no element is waiting except at the source. A step may emit any number of elements for each
// input, and a collection may have any number of readers. A sink has to store its elements before the end of a bundle,
// as kafkaio.Write does.
//
// States and offsets are committed while no step buffers results that a restart would lose. A GroupByKey buffers
// results until its window ends, and your own stateful function until each of its states is cleared, or dropped with
// its window. So a run that is killed loses nothing, and repeats the records since the last commit with the same
// values. If the windows of a stream overlap without a gap, or in the global window, nothing is committed before the
// source ends: use Flink there. The log warns if the pipeline stalls for 30 s, or if a step buffers results until the
// end of the source and nothing was committed for 30 s.
func (t *Topic) Execute(ctx context.Context, p *beam.Pipeline, stop <-chan struct{}) (err error) {
	err = Execute(t.run.In(ctx), p, t.log, func(ctx context.Context, suspend func()) {
		select {
		case <-stop:
		case <-ctx.Done():
			return
		}
		if t.Stop(); !t.Suspends() {
			return
		}
		if t.run.WaitIdle(ctx) {
			suspend()
		}
	})
	return errors.Join(err, t.Close(ctx, err == nil))
}
