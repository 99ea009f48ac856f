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

// A Topic has the states of a run in memory, and writes them to the changelog of a ledger, together
// with the offsets that the run has read and dealt with.
type Topic struct {
	*kafkaio.Ledger
	Memory *statestore.Memory
	// Migrated says what has become of the states that were read.
	Migrated statestore.Migrated
	run      *account.Run
	log      *slog.Logger
}

// OpenTopic opens the ledger of to, whose functions for states it sets, and takes over the states of
// the run before; in a run of the past it only says what would become of them.
func OpenTopic(ctx context.Context, to kafkaio.LedgerConfig, cfg Config) (*Topic, error) {
	t := &Topic{Memory: statestore.NewMemory(), log: cfg.log()}
	written, unsealer := cfg.written(), &statestore.Unsealer{}
	to.Migrate, to.Log = cfg.Migrate, cfg.log()
	to.Seal = func(key string, state []byte) []byte { return written(key, state).Seal() }
	to.Unseal = unsealer.Unseal
	to.Open = func(found iter.Seq[*kafkaio.StoredState], keys, bytes int) (map[string]int64, error) {
		t.Memory = statestore.NewMemory()
		if !to.History {
			t.Memory.Expect(keys, bytes)
		}
		return t.migrate(to, unsealer.Open, found, cfg)
	}
	var err error
	if t.Ledger, err = kafkaio.OpenLedger(ctx, to); err != nil {
		return nil, err
	}
	t.run = account.From(t.Ledger.In(ctx))
	account.WithValue(t.run, "", t.Memory)
	t.Ledger.Take(func(key string, state []byte) bool {
		if statestore.Reserved(key) {
			return false
		}
		t.Memory.Restore(key, state)
		return true
	})
	return t, nil
}

// migrate opens what a changelog holds for a run of this configuration, and puts the states of keys
// into the memory. It returns the last offset of each partition that the states include. The
// error says that states belong to another configuration. Those that cannot be read have errors of
// their own. Those that are left out are deleted.
func (t *Topic) migrate(to kafkaio.LedgerConfig, open func(key string, b []byte) statestore.State, found iter.Seq[*kafkaio.StoredState], cfg Config) (included map[string]int64, err error) {
	var at *kafkaio.StoredState
	topic := to.Changelog
	kept := false
	opened := func(yield func(statestore.State) bool) {
		for at = range found {
			kept = false
			more := yield(open(at.Key, at.Bytes))
			if !kept {
				at.Bytes, at.Replaced, at.Taken = nil, true, true
			}
			if !more {
				return
			}
		}
	}
	a, err := statestore.Migrate(cfg.Filter, opened, cfg.migration(), "the changelog "+topic, func(s statestore.State, changed bool) {
		kept = true
		at.Bytes, at.Replaced, at.Err = s.Bytes, changed, s.Err
		if s.Err == nil && !statestore.Reserved(s.Key) && !to.History {
			t.Memory.Restore(s.Key, s.Bytes)
			at.Taken = true
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
	if cfg.Migrate && to.Learned == nil && !to.History {
		cfg.log().Info("states are carried over to this config", "topic", topic, "states", a.String())
	}
	return a.Included, nil
}

// Execute runs a pipeline until its source ends, or until stop is closed: then what was read is dealt with
// and committed, and the next run goes on there. The next records are read when all that was read before is
// dealt with: no step works, and no element waits but at the source. A step may put out none, one or several
// elements of one, and a collection may have several readers, or none. A sink has to store what it takes
// before the end of a bundle, as kafkaio.Write does.
//
// States and offsets are committed when, besides, no step keeps anything back that a restart would lose. A
// GroupByKey does while a window goes on, and so does a stateful function of yours as long as some state of it
// is not cleared, or forgotten with its window. So a run that is killed loses nothing, and repeats what came
// since the last commit, with the same values. If the windows of a stream overlap without end, nothing is
// committed before that ends: use Flink there. The log warns if nothing moves for 30 s while records wait.
func (t *Topic) Execute(ctx context.Context, p *beam.Pipeline, stop <-chan struct{}) (err error) {
	err = Execute(ctx, t.run, p, t.log, func(ctx context.Context, suspend func()) {
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
