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
	found     map[string]int64  // counts of cells that were read, by counter, that the log has not yet
	bundle    map[string]int64  // those of the bundle that it has
}

func newResumedCells() *resumedCells {
	return &resumedCells{counted: map[string]bool{}, outcomes: map[string]int{}, found: map[string]int64{}, bundle: map[string]int64{}}
}

// take takes over a cell. Without cfg.Migrate the error says which of its entities cannot go on as
// they are.
func (a *resumedCells) take(of cellState, c *openCell, cfg stepConfig) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	lost := 0
	if c.Settings != of.own && c.Len() > 0 {
		var err error
		if lost, err = a.migrate(of, c, cfg); err != nil {
			return err
		}
	}
	if cfg.Resumed && !a.counted[c.name] {
		a.counted[c.name] = true
		a.found[ResumedCells]++
		a.found[KeptKeys] += int64(c.Len() - lost)
		a.found[LostKeys] += int64(lost)
	}
	return nil
}

// migrate carries the entities of a cell over to cfg, and returns of how many nothing is kept.
func (a *resumedCells) migrate(of cellState, c *openCell, cfg stepConfig) (lost int, err error) {
	written, err := c.ReadSettings(of.in(c.to))
	if err != nil {
		return 0, err
	}
	if a.migrators == nil {
		a.migrators = make([]*keyed.Migrator, runtime.GOMAXPROCS(0))
		for i := range a.migrators {
			if a.migrators[i], err = keyed.NewMigrator(cfg.Config); err != nil {
				return 0, err
			}
		}
	}
	type outcome struct {
		entity  []byte
		carried keyed.MigratedParts
		err     error
	}
	stored := c.States(written.ApplyTo(cfg.Config).Settings())
	if err := c.Err(); err != nil {
		return 0, err
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
	for i, o := range all {
		if o.err != nil {
			return 0, fmt.Errorf("key %q: %w", stored[i].Key, o.err)
		}
		if carried := o.carried.String(); carried != "" {
			c.Put(stored[i].Key, o.entity)
			a.outcomes[carried]++
			a.found[migratedKeys]++
			if len(o.carried.Kept) == 0 {
				lost++
			}
		}
	}
	c.agenda, c.last = agenda{}, time.Time{} // of the states before
	return lost, nil
}

// log says what was taken over, before the keys have outputs.
func (a *resumedCells) log() {
	if kept, lost := a.found[KeptKeys], a.found[LostKeys]; kept+lost > 0 {
		slog.Info("keys go on from the job before", "kept", kept, "begin_anew", lost)
	}
	for carried, n := range a.outcomes {
		slog.Info("states of another config are carried over to this one", "keys", n, "what", carried)
	}
	for counter, n := range a.found {
		a.bundle[counter] += n
	}
	clear(a.outcomes)
	clear(a.found)
}

// report counts what was taken over in a bundle that is written.
func (a *resumedCells) report(ctx context.Context) {
	for counter, n := range a.bundle {
		beam.NewCounter("hafvf", counter).Inc(ctx, n)
	}
	clear(a.bundle)
}
