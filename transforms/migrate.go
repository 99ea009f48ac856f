package transforms

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
)

// resumedCells takes over the cells of a previous job. It migrates cells that were written with other settings.
// With Host.Resumed, it counts the keys of all cells.
type resumedCells struct {
	mu        sync.Mutex
	migrators []*keyed.Migrator // one per goroutine
	counted   map[string]bool   // cells that are counted
	outcomes  map[string]int    // unlogged numbers of migrated keys, by outcome
	counts    map[string]int64  // unlogged counts, by the name of the counter
	bundle    map[string]int64  // logged counts of the bundle
}

func newResumedCells() *resumedCells {
	return &resumedCells{counted: map[string]bool{}, outcomes: map[string]int{}, counts: map[string]int64{}, bundle: map[string]int64{}}
}

// takeOver takes over a cell. Without cfg.Migrate, it returns an error that names a key if the state of the key
// does not fit cfg.
func (r *resumedCells) takeOver(states cellState, c *openCell, cfg stepConfig) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := 0
	if c.Settings != states.fingerprint && c.Len() > 0 {
		var err error
		if lost, err = r.migrate(states, c, cfg); err != nil {
			return err
		}
	}
	if cfg.Resumed && !r.counted[c.name] {
		r.counted[c.name] = true
		r.counts[ResumedCells]++
		r.counts[KeptKeys] += int64(c.Len() - lost)
		r.counts[LostKeys] += int64(lost)
	}
	return nil
}

// migrate converts the key states of a cell to cfg. It returns the number of keys whose state was dropped.
func (r *resumedCells) migrate(states cellState, c *openCell, cfg stepConfig) (lost int, err error) {
	written, err := c.ReadSettings(states.store(c.provider))
	if err != nil {
		return 0, err
	}
	if r.migrators == nil {
		r.migrators = make([]*keyed.Migrator, runtime.GOMAXPROCS(0))
		for i := range r.migrators {
			if r.migrators[i], err = keyed.NewMigrator(cfg.Config); err != nil {
				return 0, err
			}
		}
	}
	type outcome struct {
		state   []byte
		carried keyed.MigratedParts
		err     error
	}
	stored := c.States(written.ApplyTo(cfg.Config).Settings())
	if err := c.Err(); err != nil {
		return 0, err
	}
	outcomes := make([]outcome, len(stored))
	parallel.Do(len(stored), len(r.migrators), func(worker, i int) {
		m, o, s := r.migrators[worker], &outcomes[i], stored[i]
		if cfg.Migrate {
			o.state, o.carried, o.err = m.Migrate(s.Key, s.Bytes, s.Settings)
		} else {
			_, o.err = m.Check(s.Key, s.Bytes, s.Settings)
		}
	})
	for i, o := range outcomes {
		if o.err != nil {
			return 0, fmt.Errorf("key %q: %w", stored[i].Key, o.err)
		}
		if carried := o.carried.String(); carried != "" {
			c.Put(stored[i].Key, o.state)
			r.outcomes[carried]++
			r.counts[migratedKeys]++
			if len(o.carried.Kept) == 0 {
				lost++
			}
		}
	}
	c.agenda, c.last = agenda{}, time.Time{} // they were computed from the old states
	return lost, nil
}

// log logs the keys that were taken over. It is called before the keys have outputs.
func (r *resumedCells) log() {
	if resumed, lost := r.counts[KeptKeys], r.counts[LostKeys]; resumed+lost > 0 {
		slog.Info("resumed keys of the previous job", "kept", resumed, "reset", lost)
	}
	for carried, n := range r.outcomes {
		slog.Info("migrated states of another config", "keys", n, "what", carried)
	}
	for counter, n := range r.counts {
		r.bundle[counter] += n
	}
	clear(r.outcomes)
	clear(r.counts)
}

// report adds the counts of a bundle to the metrics, after the bundle was written.
func (r *resumedCells) report(ctx context.Context) {
	for counter, n := range r.bundle {
		beam.NewCounter("hafvf", counter).Inc(ctx, n)
	}
	clear(r.bundle)
}
