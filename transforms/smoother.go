package transforms

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"hafvf/hafvf"
)

// A Smoothed is the posterior at one observation given its whole session. Numbers
// that do not apply or are undefined are NaN; infinite ones are ±Inf.
type Smoothed struct {
	Time time.Time
	// ID is key/time/k, k = 0, 1, … among equal times of the key: it depends
	// neither on the source nor on the session's bounds, so that a later
	// revision replaces an earlier one.
	ID string
	N  int64 // position in the session, from 1
	X  [][]float64
	Shape

	Estimate          Moments   // of the likelihood's mean
	Memory            float64   // θ^η − θ₀^η: forward + backward − J
	Posterior         []float64 // as the model's Params describe it
	Forward, Backward Pass

	Session  Session
	Revision int64 // how often the session was emitted before, with less in it
	// Split says why the session was cut into parts, each smoothed on its own. It is
	// "" where it was not.
	Split string

	ChangeEvidence float64 // log Bayes factor, nats, of a change between the observation before and this one; NaN on the first
	Change         bool    // on the first observation of a new regime

	Missing bool
}

// A Pass is one direction's part in a smoothed observation.
type Pass struct {
	Weight float64 // E[w]
	Memory float64
	Levels []float64 // alpha, beta of every level, bottom up
}

// A Session is a key's observations between two gaps.
type Session struct {
	Start, End time.Time // of the first and the last observation
	N          int64
}

// A Smoother smooths sessions without a pipeline, as Smooth does. It is not safe for
// concurrent use.
type Smoother struct {
	cfg     SmoothConfig
	filters ruled[smoothingFilter]
	params  int
}

type smoothingFilter struct {
	*hafvf.Filter
	fits  bool // each session sets its prior
	scale *scaling
}

// NewSmoother makes a smoother. An error names what is wrong with cfg.
func NewSmoother(cfg SmoothConfig) (*Smoother, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	filters, err := newRuled(cfg.Filter, cfg.Keys, newSmoothingFilter)
	if err != nil {
		return nil, err
	}
	sm := &Smoother{cfg: cfg, filters: filters}
	for _, p := range filters.rest.Model().Params() {
		sm.params += p.Size()
	}
	return sm, nil
}

func newSmoothingFilter(cfg hafvf.Config) (f smoothingFilter, err error) {
	if len(cfg.Bank) > 0 || cfg.Detect != nil {
		return f, errors.New("a bank or detection is for the filter, not for smoothing")
	}
	if cfg.Season != nil {
		return f, errors.New("season: is for the filter; smoothing has none yet")
	}
	bank, err := cfg.NewBank()
	if err != nil {
		return f, err
	}
	return smoothingFilter{bank.Filter(0), cfg.WarmUp > 0, newScaling(cfg, bank)}, nil
}

// filter returns the filter of the key's session.
func (sm *Smoother) filter(key string, steps [][][]float64) *hafvf.Filter {
	f := sm.filters.of(key)
	if f.fits {
		var xs [][]float64
		for _, step := range steps {
			xs = append(xs, complete(step)...)
		}
		if len(xs) == 0 {
			xs = [][]float64{make([]float64, f.Dim())} // any prior will do: there is nothing to learn
		}
		base := f.Model().(hafvf.Fitted)
		f.Use(base.Fit(base.LocationScale(xs)))
	}
	return f.Filter
}

// Check says why o is not an observation of the key that Smooth takes.
func (sm *Smoother) Check(key string, o Observation) error {
	switch {
	case key == "":
		return errors.New("empty key")
	case o.Time.IsZero():
		return errors.New("no time; a session needs one")
	}
	f := sm.filters.of(key)
	return f.scale.check(f, o)
}

// Smooth sorts the observations of a key's session, which Check has passed, by time
// and Seq, in place, and calls emit for each. It returns how many updates did not
// converge.
func (sm *Smoother) Smooth(key string, observations []Observation, revision int64, emit func(Smoothed)) (notConverged int) {
	sortByTime(observations)
	n := len(observations)
	parts := (n + sm.cfg.Max - 1) / sm.cfg.Max
	k := 0 // among equal times
	scale := sm.filters.of(key).scale
	for part := range parts {
		from, to := part*n/parts, (part+1)*n/parts
		steps := make([][][]float64, to-from)
		for i, o := range observations[from:to] {
			scaled, _ := scale.to(o)
			steps[i] = scaled.X
		}
		f := sm.filter(key, steps)
		s := f.Smooth(steps)
		notConverged += s.NotConverged
		changes := hafvf.Changes(s.Evidence, sm.cfg.Odds)
		split := ""
		if parts > 1 {
			split = fmt.Sprintf("%d observations, at most %d are smoothed as one: part %d of %d", n, sm.cfg.Max, part+1, parts)
		}
		for t, o := range observations[from:to] {
			if i := from + t; i > 0 && o.Time.Equal(observations[i-1].Time) {
				k++
			} else {
				k = 0
			}
			out := sm.at(f, s, t)
			scale.moments(out.Estimate)
			if len(changes) > 0 && changes[0] == t {
				out.Change, changes = true, changes[1:]
			}
			out.Time, out.N, out.X, out.Shape = o.Time, int64(from+t+1), o.X, o.Shape
			out.ID = fmt.Sprintf("%s/%s/%d", key, stamp(o.Time), k)
			out.Session = Session{observations[0].Time, observations[n-1].Time, int64(n)}
			out.Revision, out.Split = revision, split
			emit(out)
		}
	}
	return notConverged
}

// at returns the posterior at step t.
func (sm *Smoother) at(f *hafvf.Filter, s *hafvf.Smoothed, t int) Smoothed {
	m := f.Model()
	outputs, levels := m.Outputs(), 2*f.Levels()
	cut := cutter(make([]float64, 2*outputs+2*levels+sm.params))
	out := Smoothed{
		Estimate: Moments{cut(outputs), cut(outputs)}, Posterior: cut(sm.params),
		Memory: s.Memory(t), ChangeEvidence: s.Evidence[t], Missing: s.Missing[t],
	}
	s.Estimate(out.Estimate.Mean, out.Estimate.SD, t)
	m.Posterior(out.Posterior, s.Sample(t))
	for _, dir := range []struct {
		to   *Pass
		from hafvf.Pass
	}{{&out.Forward, s.Forward(t)}, {&out.Backward, s.Backward(t)}} {
		*dir.to = Pass{dir.from.Weight, dir.from.Memory, cut(levels)}
		copyLevels(dir.to.Levels, f, dir.from.State)
	}
	return out
}

// sortByTime sorts by time and place in the source.
func sortByTime(observations []Observation) {
	slices.SortStableFunc(observations, func(a, b Observation) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Seq, b.Seq))
	})
}
