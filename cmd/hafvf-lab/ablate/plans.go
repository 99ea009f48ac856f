package ablate

import (
	"math"
	"slices"
	"time"
)

const plansZone = "Europe/Berlin"

// A weekly plan gives the level of a key at a local time, in units of its peak.
type weeklyPlan struct {
	name  string
	level func(t time.Time, step time.Duration) float64
}

func hourOf(t time.Time) float64             { return float64(t.Hour()) + float64(t.Minute())/60 }
func working(t time.Time) bool               { return t.Weekday() != time.Saturday && t.Weekday() != time.Sunday }
func in(t time.Time, from, end float64) bool { return hourOf(t) >= from && hourOf(t) < end }

// wave is a smooth day of the given peak hour plus six.
func wave(t time.Time, from, weekend float64) float64 {
	x := math.Sin(2 * math.Pi * (hourOf(t) - from) / 24)
	if !working(t) {
		return weekend * x
	}
	return x
}

func choose(b bool, yes, no float64) float64 {
	if b {
		return yes
	}
	return no
}

// runs returns the hours that a job takes.
func runs(step time.Duration) float64 { return max(step, 15*time.Minute).Hours() }

var weeklyPlans = []weeklyPlan{
	{"office", func(t time.Time, _ time.Duration) float64 { return choose(working(t) && in(t, 8, 18), 1, .08) }},
	{"two-shifts", func(t time.Time, _ time.Duration) float64 {
		return choose(working(t) && in(t, 6, 22) || t.Weekday() == time.Saturday && in(t, 6, 14), 1, .07)
	}},
	{"three-shifts", func(t time.Time, _ time.Duration) float64 {
		return choose(working(t) || t.Weekday() == time.Saturday && in(t, 0, 6) || t.Weekday() == time.Sunday && in(t, 22, 24), 1, .1)
	}},
	{"batch", func(t time.Time, _ time.Duration) float64 {
		if (t.Weekday() == time.Tuesday || t.Weekday() == time.Thursday) && in(t, 4, 6) {
			return 1
		}
		return choose(working(t) && in(t, 9, 17), .55, .3)
	}},
	{"job", func(t time.Time, step time.Duration) float64 { return choose(in(t, 2, 2+runs(step)), 3, .5) }},
	{"job-and-load", func(t time.Time, step time.Duration) float64 {
		return choose(in(t, 4.5, 4.5+runs(step)), 2.5, 0) + .5 + .3*wave(t, 9, .6)
	}},
	{"weekly", func(t time.Time, _ time.Duration) float64 {
		return choose(t.Weekday() == time.Sunday && in(t, 3, 5), 2, .5+.2*wave(t, 8, 1))
	}},
	{"month-end", func(t time.Time, _ time.Duration) float64 {
		return .3 + choose(t.AddDate(0, 0, 1).Day() == 1 && in(t, 18, 22), .9, 0) + choose(working(t) && in(t, 8, 18), .5, 0)
	}},
	{"lunch", func(t time.Time, _ time.Duration) float64 {
		return choose(working(t) && in(t, 8, 18), choose(in(t, 12, 13), .5, 1), .1)
	}},
	{"smooth", func(t time.Time, _ time.Duration) float64 { return .6 + .4*wave(t, 9, .5) }},
	{"flat", func(time.Time, time.Duration) float64 { return .5 }},
}

// plans returns four keys of each weekly plan, with incidents: spikes, shifts, drops, and work that does not take
// place.
func plans(seed uint64, step time.Duration, days int) (drawn []*series) {
	const each = 4
	zone, err := time.LoadLocation(plansZone)
	if err != nil {
		panic("ablate: " + err.Error())
	}
	start := time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)
	n := int(time.Duration(days) * 24 * time.Hour / step)
	for p, plan := range weeklyPlans {
		base := make([]float64, n)
		for i := range base {
			base[i] = plan.level(start.Add(time.Duration(i)*step).In(zone), step)
		}
		for j := range each {
			d := newDraws(seed, uint64(p*each+j))
			s := &series{name: plan.name, countFrom: float64(start.Unix()), tolerance: max(3600, 2*step.Seconds())}
			for i := range n {
				s.times = append(s.times, float64(start.Unix())+float64(i)*step.Seconds())
			}
			s.x = d.planned(base, step, days, func(from, end int) {
				s.incidents = append(s.incidents, window{s.times[from], s.times[end-1]})
			})
			drawn = append(drawn, s)
		}
	}
	return drawn
}

// planned draws a key of a plan, and calls add for its incidents.
func (d draws) planned(base []float64, step time.Duration, days int, add func(start, end int)) []float64 {
	n := len(base)
	peak, spread := math.Exp(3+.7*d.NormFloat64()), []float64{.03, .06, .12}[d.IntN(3)]
	phi := []float64{0, .5, .8}[d.IntN(3)]
	if step >= time.Hour {
		phi = []float64{0, .4}[d.IntN(2)]
	}
	multiplies := d.Float64() < .6
	noise, x := d.ar(n, phi, math.Sqrt(1-phi*phi)), make([]float64, n)
	scale := func(i int) float64 { return spread * choose(multiplies, base[i], 1) } // sd
	for i := range x {
		x[i] = base[i] + spread*noise[i]
		if multiplies {
			x[i] = base[i] * math.Exp(spread*noise[i])
		}
	}
	middle := slices.Sorted(slices.Values(base))[n/2]
	for _, incidentDay := range d.apart(days) {
		hours := func(h float64) int { return max(1, int(h/step.Hours())) }
		kind, from := d.IntN(4), int(incidentDay*24/step.Hours())
		end, size := from, []float64{6, 12}[d.IntN(2)]
		if kind == 3 { // the next work within eight hours does not take place
			limit := min(n, from+hours(8))
			for from < limit && base[from] <= 1.5*middle {
				from++
			}
			if from == limit {
				kind = 2
			}
			for end = from; end < n && base[end] > 1.5*middle && end < from+hours(8); end++ {
				x[end] = middle * (1 + spread*noise[end])
			}
		}
		switch kind {
		case 0: // spike
			end = from + hours(.25)
		case 1: // shift
			end = from + hours(d.uniform(4, 12))
			size *= float64(2*d.IntN(2) - 1)
		case 2: // drop
			end = from + hours(d.uniform(2, 6))
		}
		end = min(n, end)
		for i := from; i < end && kind < 3; i++ {
			if kind == 2 {
				x[i] = min(x[i], .15*base[i])
			} else {
				x[i] += size * max(scale(i), .5*spread)
			}
		}
		add(from, end)
	}
	for i := range x {
		x[i] *= peak
	}
	return x
}

// apart draws days of incidents, one in three weeks and at least two, four days apart and after the eighth day.
func (d draws) apart(days int) (drawn []float64) {
	for range 200 {
		t := d.uniform(8, float64(days-2))
		if len(drawn) < max(2, days/21) && !slices.ContainsFunc(drawn, func(u float64) bool { return math.Abs(t-u) <= 4 }) {
			drawn = append(drawn, t)
		}
	}
	slices.Sort(drawn)
	return drawn
}
