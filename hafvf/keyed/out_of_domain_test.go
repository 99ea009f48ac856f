package keyed

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
)

// After the warm-up, a value outside the family's domain raises an alarm. The alarm is reported once while such
// values go on, with or without valid values between them, and its end is reported too.
func TestOutOfDomain(t *testing.T) {
	start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		minus  func(i int) bool
		alarms []int
		ends   int
		muted  int
	}{
		"none":              {func(int) bool { return false }, nil, 0, 0},
		"warm-up":           {func(i int) bool { return i == 20 }, nil, 0, 0},
		"one":               {func(i int) bool { return i == 1000 }, []int{1000}, 1, 0},
		"before its end":    {func(i int) bool { return i == 1000 || i == 1029 }, []int{1000}, 1, 0},
		"after its end":     {func(i int) bool { return i == 1000 || i == 1050 }, []int{1000, 1050}, 2, 0},
		"each minute":       {func(i int) bool { return i >= 1000 }, []int{1000}, 0, 0},
		"every other":       {func(i int) bool { return i >= 1000 && i < 1800 && i%2 == 0 }, []int{1000}, 1, 0},
		"more than is paid": {func(i int) bool { return i >= 100 && i%100 == 0 }, []int{100, 200, 300, 400, 500, 600, 700, 800, 900}, 9, 10},
	} {
		t.Run(name, func(t *testing.T) {
			est := newEstimator(t, Recommended("poisson"))
			e := open(t, est, nil)
			var alarms []int
			ends, muted := 0, 0
			for i := range 2000 {
				var out Estimate
				o := Value(start.Add(time.Duration(i)*time.Minute), fmt.Sprint(i), float64(i%7))
				if c.minus(i) {
					o.X[0][0] = -5
					if !est.OutOfDomain("k", &o) {
						t.Fatal("OutOfDomain is false")
					}
					if e, err := est.Open("k", must(e.AppendBinary(nil))); err != nil || e.OutOfDomain(&Observation{Time: start, X: o.X}) != nil {
						t.Error(err, "a late observation raised an alarm")
					}
					found := e.OutOfDomain(&o)
					if found == nil {
						continue
					}
					if found.Detection.Muted {
						muted++
						continue
					}
					alarms = append(alarms, i)
					a := found.Alarm
					want := "k impossible at " + o.Time.Format("2006-01-02 15:04") + ": -5, outside the domain of the family poisson (x = -5 is below zero)."
					if got := found.Alerts("k"); len(got) != 1 || a.Kind != "novelty" || found.ID != o.ID || a.Message != want || !math.IsNaN(a.Score+a.Threshold+a.Size) || math.Abs(a.Usual.Mean[0]-3) > 1 {
						t.Errorf("%+v", a)
					}
					continue
				}
				if now, err := e.take(&o); err != nil || !now {
					t.Fatal(now, err)
				}
				learnNow(&e, &out, &o)
				if d := out.Detection; math.IsNaN(d.Score) && !math.IsNaN(d.Usual.Mean[0]) {
					t.Errorf("%d: no score, and usual is %v", i, d.Usual)
				}
				if out.Recovered != nil {
					if ends++; out.Recovered.ID != fmt.Sprint(alarms[len(alarms)-1]) {
						t.Errorf("%+v", out.Recovered)
					}
				}
			}
			if !slices.Equal(alarms, c.alarms) || ends != c.ends || muted != c.muted {
				t.Errorf("alarms at %v, %d ends and %d muted, want %v, %d and %d", alarms, ends, muted, c.alarms, c.ends, c.muted)
			}
		})
	}
}

// OutOfDomain is false for observations that are rejected for another reason, and always without detection.
func TestOutOfDomainOnlyNumbers(t *testing.T) {
	now := time.Unix(0, 0).UTC()
	cfg := Recommended("binomial")
	est, blind := newEstimator(t, cfg), newEstimator(t, Config{Filter: hafvf.Config{Family: "binomial"}})
	for _, c := range []struct {
		o    Observation
		want bool
	}{
		{Observation{Time: now, X: [][]float64{{5, 3}}, Shape: Vector}, true},
		{Observation{Time: now, X: [][]float64{{3, 5}}, Shape: Vector}, false},
		{Observation{Time: now, X: [][]float64{{5}}}, false},
		{Observation{X: [][]float64{{5, 3}}, Shape: Vector}, false},
		{Observation{Time: now, X: [][]float64{{math.NaN(), -1}}, Shape: Vector}, false},
	} {
		if got := est.OutOfDomain("k", &c.o); got != c.want || blind.OutOfDomain("k", &c.o) {
			t.Errorf("%v at %v: %t", c.o.X, c.o.Time, got)
		}
	}
	e := open(t, est, nil)
	if o := (Observation{Time: now, X: [][]float64{{5, 3}}, Shape: Vector, Log: "l", Seq: 1}); e.OutOfDomain(&o) != nil || !e.IsNew() {
		t.Error("an observation out of the domain created a state")
	}
}
