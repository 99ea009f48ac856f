package transforms

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
)

// carrying carries cells over that were written with other settings.
type carrying struct {
	mu        sync.Mutex
	migrators []*keyed.Migrator // one per goroutine
	outcomes  map[string]int    // the number of keys of the bundle, by what was carried over
}

// over carries the entities of a cell over to cfg. Without cfg.Migrate it says which of them
// cannot go on as they are.
func (a *carrying) over(states cellState, c *opened, cfg Config) error {
	if c.settings == states.own || len(c.at) == 0 {
		return nil
	}
	text, err := states.readSettings(c.to, c.cell)
	if err != nil {
		return err
	}
	from, err := keyed.ParseSettings[keyed.AllSettings](text)
	if err != nil {
		return err
	}
	written := from.In(cfg.Config).Settings()
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
		carried string
		err     error
	}
	keys := slices.Sorted(maps.Keys(c.at))
	all := make([]outcome, len(keys))
	parallel.Do(len(keys), len(a.migrators), func(worker, i int) {
		m, o, b := a.migrators[worker], &all[i], c.entity(keys[i])
		_, settings := written(keys[i])
		if cfg.Migrate {
			o.entity, o.carried, o.err = m.Migrate(keys[i], b, settings)
		} else {
			_, o.err = m.Check(keys[i], b, settings)
		}
	})
	if a.outcomes == nil {
		a.outcomes = map[string]int{}
	}
	for i, o := range all {
		if o.err != nil {
			return fmt.Errorf("key %q: %w", keys[i], o.err)
		}
		if o.carried != "" {
			c.put(keys[i], o.entity)
			a.outcomes[o.carried]++
		}
	}
	c.waits, c.deadlines, c.watched = nil, nil, time.Time{} // of the states before
	return nil
}

// report reports what was carried over in a bundle that is written.
func (a *carrying) report(ctx context.Context) {
	for carried, n := range a.outcomes {
		migratedCounter.Inc(ctx, int64(n))
		slog.Info("states of another config are carried over to this one", "keys", n, "what", carried)
	}
	a.outcomes = nil
}
