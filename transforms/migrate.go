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

// resumedCells takes over the cells of a job before: it carries over those that were written with
// other settings, and with Host.Resumed counts the keys of all.
type resumedCells struct {
	mu        sync.Mutex
	migrators []*keyed.Migrator // one per goroutine
	counted   map[string]bool   // the cells that are counted
	outcomes  map[string]int    // the number of keys, by what was carried over, that the log has not yet
	counts    map[string]int64  // counts of cells that were read, by counter, that the log has not yet
	bundle    map[string]int64  // those of the bundle that it has
}

func newResumedCells() *resumedCells {
	return &resumedCells{counted: map[string]bool{}, outcomes: map[string]int{}, counts: map[string]int64{}, bundle: map[string]int64{}}
}

// take takes over a cell. Without cfg.Migrate the error says which of its entities cannot go on as
// they are.
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

// migrate carries the entities of a cell over to cfg, and returns of how many nothing is kept.
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
	stored := c.States(written.In(cfg.Config).Settings())
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
	c.agenda, c.last = agenda{}, time.Time{} // of the states before
	return lost, nil
}

// log says what was taken over, before the keys have outputs.
func (r *resumedCells) log() {
	if resumed, lost := r.counts[KeptKeys], r.counts[LostKeys]; resumed+lost > 0 {
		slog.Info("keys go on from the job before", "kept", resumed, "begin_anew", lost)
	}
	for carried, n := range r.outcomes {
		slog.Info("states of another config are carried over to this one", "keys", n, "what", carried)
	}
	for counter, n := range r.counts {
		r.bundle[counter] += n
	}
	clear(r.outcomes)
	clear(r.counts)
}

// report counts what was taken over in a bundle that is written.
func (r *resumedCells) report(ctx context.Context) {
	for counter, n := range r.bundle {
		beam.NewCounter("hafvf", counter).Inc(ctx, n)
	}
	clear(r.bundle)
}
