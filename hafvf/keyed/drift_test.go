package keyed

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
)

// sessionOf smooths a session with one value per day, or per trial without times, and returns the Session of its
// records.
func sessionOf(t *testing.T, cfg SmoothConfig, values []float64) Session {
	t.Helper()
	var observations []Observation
	for i, x := range values {
		o := Value(time.Time{}, "", x)
		if cfg.Order != Arrival {
			o.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i)
		}
		observations = append(observations, o)
	}
	var last Session
	checked(NewSmoother(cfg)).Smooth("k", observations, 0, func(s Smoothed) {
		if s.N > 1 && !cmp.Equal(last, s.Session) {
			t.Fatalf("record %d has the session %+v, the previous record %+v", s.N, s.Session, last)
		}
		last = s.Session
	})
	return last
}

func dailySessions() SmoothConfig { return RecommendedSmoothing("normal", 240*time.Hour) }

// series returns n values of next.
func series(n int, next func(i int) float64) (values []float64) {
	for i := range n {
		values = append(values, next(i))
	}
	return values
}

// In sessions that are lines, the interval covers the rate as often as its probability. A random walk wanders.
func TestDrift(t *testing.T) {
	const n, sessions = 100, 40
	rng := rand.New(rand.NewPCG(71, 4))
	found, covered := 0, 0
	for range sessions {
		rate := .04 + .06*rng.Float64()
		d := sessionOf(t, dailySessions(), series(n, func(i int) float64 { return 50 - rate*float64(i) + rng.NormFloat64() })).Drift
		if d != nil {
			found++
			if d.Lower <= -rate && -rate <= d.Upper {
				covered++
			}
		}
	}
	t.Logf("lines: %d of %d drift, %d with the rate in the interval", found, sessions, covered)
	if share := float64(covered) / float64(found); found < sessions*9/10 || share < .85 {
		t.Errorf("of %d lines %d drift, %d with the rate in the interval", sessions, found, covered)
	}
	level := 0.
	walk := series(n, func(int) float64 { level += rng.NormFloat64(); return level })
	if s := sessionOf(t, dailySessions(), walk); s.Drift != nil || !s.Wanders {
		t.Errorf("a walk: %+v", s)
	}
}

// The rate is per day or trial, on the data's scale and without the season. Missing values and outliers do not count.
func TestRateOfDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 5))
	line := series(100, func(i int) float64 { return 500 + 1.5*float64(i) + 5*rng.NormFloat64() })
	weekly := slices.Clone(line)
	line[20], line[50] = math.NaN(), 5000
	for i := range weekly {
		weekly[i] += 100 * math.Sin(2*math.Pi*float64(i)/7)
	}
	grown := series(100, func(i int) float64 { return 100 * math.Exp(float64(i)/99*math.Log(3)+.05*rng.NormFloat64()) })
	season, scale, trials := dailySessions(), dailySessions(), dailySessions()
	season.Filter.Season = &usual.RhythmConfig{Seasons: []usual.Season{{Period: 7 * 24 * time.Hour, Harmonics: 3}}}
	scale.Filter.Scale = hafvf.Log
	trials.Order, trials.Gap = Arrival, 0
	for name, c := range map[string]struct {
		cfg      SmoothConfig
		values   []float64
		from, to float64
	}{
		"linear": {dailySessions(), line, 500, 648.5},
		"season": {season, weekly, 500, 648.5},
		"scale":  {scale, grown, 100, 300},
		"trials": {trials, line, 500, 648.5},
	} {
		d := sessionOf(t, c.cfg, c.values).Drift
		if d == nil {
			t.Errorf("%s: no drift", name)
			continue
		}
		if rate := (c.to - c.from) / 99; !(d.Lower <= rate && rate <= d.Upper) || math.Abs(d.Rate-(d.To-d.From)/99) > 1e-9 || math.Abs(d.From-c.from) > .02*c.from || math.Abs(d.To-c.to) > .02*c.to || !d.Positive {
			t.Errorf("%s: %+v, from %g to %g", name, *d, c.from, c.to)
		}
	}
	divided := dailySessions()
	divided.Max = 50
	if s := sessionOf(t, divided, line); s.Moves() {
		t.Errorf("a session that is divided: %+v", s)
	}
}
