package transforms

import (
	"cmp"
	"context"
	"encoding/json"
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

// jobSettings are the settings of all keys of a configuration. A cell is stored with them.
type jobSettings struct {
	keyed.Settings              // of the keys that match no rule
	Keys           []keyed.Rule `json:"keys,omitempty"`
}

// settingsOf returns those of c.
func settingsOf(c keyed.Config) jobSettings {
	all := jobSettings{Settings: keyed.Settings{Order: cmp.Or(c.Order, keyed.EventTime), TimeUnit: c.TimeUnit, Filter: c.Filter.Canonical()}}
	for _, r := range c.Keys {
		all.Keys = append(all.Keys, keyed.Rule{Match: r.Match, Filter: r.Filter.Canonical()})
	}
	return all
}

// text is the JSON form.
func (s jobSettings) text() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic("transforms: settings are not JSON: " + err.Error())
	}
	return string(text)
}

// in returns c with these settings.
func (s jobSettings) in(c keyed.Config) keyed.Config {
	c = s.In(c)
	c.Keys = s.Keys
	return c
}

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
	from, err := keyed.ParseSettings[jobSettings](text)
	if err != nil {
		return err
	}
	written := from.in(cfg.Config).Settings()
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
