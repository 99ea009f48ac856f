package transforms

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
)

// migratingCells carries cells over that were written with other settings.
type migratingCells struct {
	mu        sync.Mutex
	migrators []*keyed.Migrator // one per goroutine
	outcomes  map[string]int    // the number of keys of the bundle, by what was carried over
}

// over carries the entities of a cell over to cfg. Without cfg.Migrate it says which of them
// cannot go on as they are.
func (a *migratingCells) over(of cellState, c *openCell, cfg stepConfig) error {
	if c.Settings == of.own || c.Len() == 0 {
		return nil
	}
	written, err := c.ReadSettings(of.in(c.to))
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.migrators == nil {
		a.migrators = make([]*keyed.Migrator, runtime.GOMAXPROCS(0))
		for i := range a.migrators {
			if a.migrators[i], err = keyed.NewMigrator(cfg.Config); err != nil {
				return err
			}
		}
	}
	type outcome struct {
		entity  []byte
		carried keyed.MigratedParts
		err     error
	}
	stored := c.States(written.In(cfg.Config).Settings())
	if err := c.Err(); err != nil {
		return err
	}
	all := make([]outcome, len(stored))
	parallel.Do(len(stored), len(a.migrators), func(worker, i int) {
		m, o, s := a.migrators[worker], &all[i], stored[i]
		if cfg.Migrate {
			o.entity, o.carried, o.err = m.Migrate(s.Key, s.Bytes, s.Settings)
		} else {
			_, o.err = m.Check(s.Key, s.Bytes, s.Settings)
		}
	})
	if a.outcomes == nil {
		a.outcomes = map[string]int{}
	}
	for i, o := range all {
		if o.err != nil {
			return fmt.Errorf("key %q: %w", stored[i].Key, o.err)
		}
		if carried := o.carried.String(); carried != "" {
			c.Put(stored[i].Key, o.entity)
			a.outcomes[carried]++
		}
	}
	c.agenda, c.last = agenda{}, time.Time{} // of the states before
	return nil
}

// report reports what was carried over in a bundle that is written.
func (a *migratingCells) report(ctx context.Context) {
	for carried, n := range a.outcomes {
		migratedCounter.Inc(ctx, int64(n))
		slog.Info("states of another config are carried over to this one", "keys", n, "what", carried)
	}
	a.outcomes = nil
}
