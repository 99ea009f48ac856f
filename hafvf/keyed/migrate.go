package keyed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hafvf/hafvf"
	"hafvf/internal/message"
)

// A Migrator checks whether states of keys belong to a configuration, and converts states that were written with
// other settings. It is not safe for concurrent use.
type Migrator struct {
	cfg      Config
	settings func(key string) (Settings, string)
	est      *Estimator
	changes  map[[2]string]*change // by settings texts: of the state, of the configuration
}

// A change is a difference between the settings of a state and those of the configuration.
type change struct {
	from  Settings   // of the state
	names []string   // settings that differ
	est   *Estimator // estimator of from; nil until it is needed
}

// NewMigrator returns a Migrator to the configuration cfg. The error names what is wrong with cfg.
func NewMigrator(cfg Config) (*Migrator, error) {
	est, err := NewEstimator(cfg)
	return &Migrator{cfg.withDefaults(), cfg.Settings(), est, map[[2]string]*change{}}, err
}

// Check reports why the state b of the key, which was written with the settings text written, cannot be resumed
// without Migrate. The error is nil if it can. The error wraps ErrOtherConfig and names the settings that differ,
// if they are the reason. If written is empty, Check assumes the settings of the configuration: jobs with cells: 0
// store states without settings. Check returns the last offset of each log that the state includes, as
// Estimator.CheckState does.
func (m *Migrator) Check(key string, b []byte, written string) (included []Offset, err error) {
	included, err = m.est.CheckState(key, b)
	own, text := m.settings(key)
	if written == "" || written == text || err != nil && !errors.Is(err, ErrOtherConfig) {
		return included, err
	}
	c, parseErr := m.change(written, own, text)
	if parseErr != nil {
		return included, cmp.Or(err, parseErr)
	}
	if err == nil {
		return included, nil // the texts differ, but mean the same
	}
	return included, fmt.Errorf("%w: it was written with other %s", ErrOtherConfig, message.List(c.names))
}

// Unchanged reports whether the key has the settings text written, so that a state with it can be resumed unchanged.
func (m *Migrator) Unchanged(key, written string) bool {
	_, text := m.settings(key)
	return written == text
}

// change returns the change from the settings in the text written to own, whose text is ownText.
func (m *Migrator) change(written string, own Settings, ownText string) (*change, error) {
	key := [2]string{written, ownText}
	if c := m.changes[key]; c != nil {
		return c, nil
	}
	from, err := ParseSettings[Settings](written)
	if err != nil {
		return nil, err
	}
	c := &change{from: from, names: from.Diff(own, m.cfg.NameKeys)}
	m.changes[key] = c
	return c, nil
}

// Migrate returns a state of the key for this configuration, and the parts of b that it carried over. If b fits,
// Migrate returns b itself, without parts. The error wraps ErrOtherConfig if no part of the state keeps its
// meaning.
//
// Migrate carries over each part by itself:
//
//   - the effective samples, unless the season differs, or the prior now comes from the data (prior: auto);
//   - levels, shares of a bank and detection, as Bank.MigrateState describes;
//   - the profile and the alarm debt, which depend on the values and not on the filter;
//   - the number of observations, and the waiting observations.
func (m *Migrator) Migrate(key string, b []byte, written string) (migrated []byte, carried MigratedParts, err error) {
	own, text := m.settings(key)
	if _, err = m.Check(key, b, written); err == nil {
		return b, carried, nil
	}
	if !errors.Is(err, ErrOtherConfig) || written == "" || written == text {
		return nil, carried, err
	}
	c, err := m.change(written, own, text)
	if err != nil {
		return nil, carried, err
	}
	adapted := own
	adapted.Filter.Family, adapted.Filter.Scale, adapted.Aggregate = c.from.Filter.Family, c.from.Filter.Scale, c.from.Aggregate
	if differing := adapted.Diff(own, m.cfg.NameKeys); len(differing) > 0 {
		return nil, carried, fmt.Errorf("%w: it has another %s, and no part of it can be used", ErrOtherConfig, message.List(differing))
	}
	if c.est == nil {
		if c.est, err = NewEstimator(c.from.ApplyTo(m.cfg)); err != nil {
			return nil, carried, fmt.Errorf("the settings that it was written with: %w", err)
		}
	}
	e, err := c.est.decodeKeyState(key, b)
	if err != nil {
		return nil, carried, err
	}
	if c.from.Order != own.Order && len(e.waiting) > 0 {
		return nil, carried, fmt.Errorf("%w: %s in it, which a run in the order %s would never learn: let a run with the old config end first",
			ErrOtherConfig, message.Count(len(e.waiting), "observation waits", "observations wait"), own.Order)
	}
	target := m.est.chains.ofKey(key)
	if a, b := c.est.chains.ofKey(key).checks.Model(), target.checks.Model(); a.Len() != b.Len() || a.Dim() != b.Dim() {
		return nil, carried, fmt.Errorf("%w: its model has other dimensions (model.dim or the prior)", ErrOtherConfig)
	}
	e.Track, carried = m.est.carry(e.Track, c.from.TimeUnit == own.TimeUnit)
	e.est = m.est
	return e.append(nil), carried, nil
}

// MigratedParts names the parts of a state that were carried over, and the parts that were reset.
type MigratedParts struct{ Kept, Reset []string }

func (p *MigratedParts) add(name string, retained bool) {
	if retained {
		p.Kept = append(p.Kept, name)
	} else {
		p.Reset = append(p.Reset, name)
	}
}

// String returns the parts as text. It is empty if there are no parts.
func (p MigratedParts) String() string {
	var text []string
	if len(p.Kept) > 0 {
		text = append(text, message.List(p.Kept)+" kept")
	}
	if len(p.Reset) > 0 {
		verb := " start over"
		if len(p.Reset) == 1 && !strings.HasSuffix(p.Reset[0], "s") {
			verb = " starts over"
		}
		text = append(text, message.List(p.Reset)+verb)
	}
	return strings.Join(text, "; ")
}

// carry returns a track of this estimator with the parts of oldTrack's state whose meaning is the same here, and lists
// these parts. The other parts are new. oldTrack's estimator must have the same family, dimension and scale. samePace
// reports that both estimators have the same time unit; if it is false, all levels are new.
func (est *Estimator) carry(oldTrack *Track, samePace bool) (*Track, MigratedParts) {
	t := est.NewTrack(oldTrack.key)
	target, oldStages := t.stages, oldTrack.stages
	t.n, t.last = oldTrack.n, oldTrack.last
	if t.heartbeat != nil && oldTrack.heartbeat != nil {
		t.heartbeat = oldTrack.heartbeat
	}
	cfg, oldCfg := target.cfg.Canonical(), oldStages.cfg.Canonical()
	samePrior := same(cfg.Prior, oldCfg.Prior) && (target.fitted == nil) == (oldStages.fitted == nil)
	keepSamples := same(cfg.Season, oldCfg.Season)
	if target.fitted == nil {
		keepSamples = keepSamples && oldTrack.priorSet
	} else if keepSamples = keepSamples && samePrior && (oldTrack.priorSet || cfg.WarmUp == oldCfg.WarmUp); keepSamples {
		// The data have set the prior, or are setting it.
		t.priorSet, t.warmUp, t.locationScale = oldTrack.priorSet, oldTrack.warmUp, oldTrack.locationScale
	}
	var parts MigratedParts
	var carried hafvf.MigratedState
	if keepSamples {
		oldStages.usePrior(oldTrack)
		t.state, carried = target.bank.MigrateState(oldStages.bank, oldTrack.state, samePrior, samePace)
		t.rhythm = oldTrack.rhythm
		if target.spreads {
			t.spread = oldTrack.spread
		}
	}
	parts.add("samples", keepSamples)
	if slices.ContainsFunc(cfg.Members(), func(m hafvf.Member) bool { return len(m.Levels) > 0 }) {
		parts.add("levels", carried.Levels)
	}
	if target.bank.Members() > 1 {
		parts.add("shares", carried.Shares)
	}
	if target.season != nil {
		parts.add("season", keepSamples)
	}
	if target.bank.Detects() {
		if parts.add("detection", carried.Detection); carried.Detection {
			t.steps, t.starts = oldTrack.steps, oldTrack.starts
		}
		keepAlarms := oldStages.decider != nil && (oldTrack.decisions.standard != nil || len(oldTrack.decisions.warmUp) < target.decider.warmUp)
		if parts.add("alarms", keepAlarms); keepAlarms {
			t.decisions, t.alerts = oldTrack.decisions, oldTrack.alerts
		}
	}
	return t, parts
}
