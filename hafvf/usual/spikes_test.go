package usual

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// A spiked stream has a value at every step, and a spike every day.
type spiked struct {
	step, length          time.Duration
	noise, spike, scatter float64
	comes                 func(day int) bool // days with a spike, counted from a Monday; nil: every day
	gone                  func(day int) bool // days without values around the spike; nil: no day
	bursts                float64            // other spikes per hour, at any time
}

// run lets a profile and an alarm follow a stream for some days. The spike occurs within ten minutes of usual, a time
// of the day. run calls alarmed for each alarm, with the time since the usual time of the nearest spike and whether the
// alarm is a missed spike.
func (c *spiked) run(t *testing.T, seed uint64, days int, usual time.Duration, alarmed func(day int, after time.Duration, missed bool)) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pace, err := NewPace(BudgetOver(DefaultBudgetTime, c.step), c.step, AutoRest, DefaultSettling)
	if err != nil {
		t.Fatal(err)
	}
	alarm, p := NewAlarm(pace), profileOf(DefaultProfile())
	s, a := p.NewState(), alarm.NewState()
	plan := p.NewPlan(s)
	calm, sinceAlarm := pace.Rest(), pace.Rest() // observations since the last unusual one, and since the last alarm
	for day := range days {
		start := usual + time.Duration(rng.IntN(21)-10)*time.Minute
		size := c.spike * math.Exp(c.scatter*rng.NormFloat64())
		for sinceMidnight := usual - 12*time.Hour; sinceMidnight < usual+12*time.Hour; sinceMidnight += c.step {
			y := rng.NormFloat64()
			if into := sinceMidnight - start; (c.comes == nil || c.comes(day)) && into >= 0 && into < c.length {
				y += size / c.noise
			}
			if rng.Float64() < c.bursts*c.step.Hours() {
				y += size / c.noise
			}
			if after := sinceMidnight - usual; c.gone != nil && c.gone(day) && after.Abs() < 30*time.Minute {
				continue
			}
			step := p.UpdatePlan(s, plan, pace, monday.AddDate(0, 0, day).Add(sinceMidnight), []float64{y}, Evidence{})
			covered := calm < pace.Rest()/2 // by the alarm before
			if alarm.Update(a, step.Score, Context{Covered: covered}, nil).Alarm != NoAlarm {
				sinceAlarm = 0
				alarmed(day, sinceMidnight-usual, false)
			}
			sinceAlarm++
			if calm++; step.Score >= 1 {
				calm = 0
			}
			if step.MissedSpike.Score >= math.Log10(pace.Budget()) && sinceAlarm >= pace.Rest() && alarm.Raise(a).Alarm != NoAlarm {
				sinceAlarm = 0
				alarmed(day, sinceMidnight-usual, true)
			}
		}
		if err := compact.Decode(compact.Encode(nil, plan, p.planForm(s)), &plan, p.planForm(s)); err != nil {
			t.Fatal(err)
		}
	}
}

// A daily spike that is missing on a day after three weeks raises an alarm within an hour, within the budget, in 9 of
// 10 streams. A jitter of ten minutes is usual: no spike that occurred counts as missed, and after the first week at
// most one spike in sixty raises an alarm.
func TestSpikes(t *testing.T) {
	for name, c := range map[string]spiked{
		"rows":                               {step: time.Minute, length: 15 * time.Minute, noise: 1.7, spike: 400, scatter: .05},
		"rows, every 5 minutes":              {step: 5 * time.Minute, length: 15 * time.Minute, noise: 1.7, spike: 400, scatter: .05},
		"rows of working days":               {step: 5 * time.Minute, length: 15 * time.Minute, noise: 1.7, spike: 400, scatter: .05, comes: func(day int) bool { return day%7 < 5 }},
		"a value":                            {step: time.Minute, length: time.Minute, noise: 3, spike: 5000, scatter: .3},
		"a value, every 5 minutes":           {step: 5 * time.Minute, length: 5 * time.Minute, noise: 3, spike: 5000, scatter: .3},
		"ten times as much, every 5 minutes": {step: 5 * time.Minute, length: 10 * time.Minute, noise: 10, spike: 100, scatter: .1},
		"45 minutes, every 5 minutes":        {step: 5 * time.Minute, length: 45 * time.Minute, noise: 10, spike: 400, scatter: .1},
		"a dip, every 5 minutes":             {step: 5 * time.Minute, length: 10 * time.Minute, noise: 10, spike: -400, scatter: .1},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "rows of working days" {
				expect.Long(t, "other spikes")
			}
			t.Parallel()
			streams, found, wrong, first, later := 10, 0, 0, 0, 0
			if c.step == time.Minute {
				streams = 4
			}
			comes := c.comes
			for seed := range uint64(streams) {
				missing := 21 + int(seed)%5 // a working day
				c := c
				c.comes = func(day int) bool { return day != missing && (comes == nil || comes(day)) }
				c.run(t, seed, missing+2, time.Duration(seed*71%1440)*time.Minute, func(day int, after time.Duration, missed bool) {
					near := after >= -time.Hour/2 && after < c.length+time.Hour
					switch {
					case missed && day == missing && after >= 0 && after <= time.Hour:
						found++
					case missed:
						wrong++
					case near && day < 7:
						first++
					case near:
						later++
					}
				})
			}
			t.Logf("%d of %d are found, %d are wrong; spikes alarm %d times in the first week, and %d times later", found, streams, wrong, first, later)
			if found < streams*9/10 || wrong > 0 || later > streams/4 {
				t.Errorf("%d of %d are found, and %d are wrong; spikes alarm %d times in the first week, and %d times later", found, streams, wrong, first, later)
			}
		})
	}
}

// A spike without habit, or in an hour with unknown values, is not missed. A spike that ends for good is missed at most
// five times, and then forgotten.
func TestSpikesNotMissed(t *testing.T) {
	expect.Long(t, "weeks of spikes")
	rows := spiked{step: 5 * time.Minute, length: 15 * time.Minute, noise: 1.7, spike: 400, scatter: .05}
	for name, c := range map[string]struct {
		change      func(*spiked)
		least, most int
	}{
		"every second day or so":  {func(c *spiked) { c.comes = func(day int) bool { return day*day*7%11 < 5 } }, 0, 0},
		"unknown":                 {func(c *spiked) { c.gone = func(day int) bool { return day == 24 || day == 30 } }, 0, 0},
		"six days a week":         {func(c *spiked) { c.comes = func(day int) bool { return day%7 != 4 } }, 0, 0},
		"fails in the first week": {func(c *spiked) { c.comes = func(day int) bool { return day != 6 && day != 13 } }, 0, 0},
		"at any hour":             {func(c *spiked) { c.bursts, c.step = 3, time.Minute }, 0, 0},
		"ends":                    {func(c *spiked) { c.comes = func(day int) bool { return day < 24 } }, 2, 5},
	} {
		seeds := uint64(5)
		if name == "at any hour" {
			seeds = 2
		}
		for seed := range seeds {
			c, stream, missed := c, rows, 0
			c.change(&stream)
			stream.run(t, seed, 35, 10*time.Hour+time.Duration(seed)*17*time.Minute, func(day int, _ time.Duration, isMissed bool) {
				if isMissed {
					missed++
				}
			})
			if missed < c.least || missed > c.most {
				t.Errorf("%s: %d are missed", name, missed)
			}
		}
	}
}

// A daily spike that is missing on one of the nights 14 to 16 is missed, and not on night 12.
func TestSpikesMissedInSecondWeek(t *testing.T) {
	expect.Long(t, "weeks of spikes")
	for missing, want := range map[int]int{11: 0, 13: 3, 14: 3, 15: 3} { // nights are counted from 1, days from 0
		found, wrong := 0, 0
		for seed := range uint64(3) {
			rows := spiked{step: time.Minute, length: 12 * time.Minute, noise: 1.7, spike: 300, scatter: .06}
			rows.comes = func(day int) bool { return day != missing }
			rows.run(t, seed, 18, 2*time.Hour+time.Duration(seed)*17*time.Minute, func(day int, _ time.Duration, missed bool) {
				switch {
				case missed && day == missing:
					found++
				case missed:
					wrong++
				}
			})
		}
		if found != want || wrong > 0 {
			t.Errorf("night %d: %d of 3 are found, want %d; %d others are wrong", missing+1, found, want, wrong)
		}
	}
}

// Batches of half an hour that run every six or eight hours are usual after two weeks, although they increase the
// standard deviation to more than a fifth of their size. A missing batch is reported.
func TestSpikesOfBatches(t *testing.T) {
	for _, hours := range []int{6, 8} {
		rng := rand.New(rand.NewPCG(uint64(hours), 1))
		st := newPlanStream(DefaultProfile(), time.Minute)
		highest, missed := 0., 0
		for st.n < 24*1440 {
			y, inBatch := rng.NormFloat64(), (st.n-100)%(60*hours) < 30 && st.n >= 100
			last := st.n/1440 == 23 && st.n%1440 < 60*hours+100
			if inBatch && !last {
				y += 15
			}
			d := st.take(Evidence{}, y)
			if inBatch && st.n > 14*1440 && !last {
				highest = max(highest, d.Score)
			}
			if d.MissedSpike.Score > 2 {
				missed++
			}
		}
		if highest > 1.5 || missed != 1 {
			t.Errorf("every %d hours: a score of %.3g in a batch, and %d missing batches, want 1", hours, highest, missed)
		}
	}
}
