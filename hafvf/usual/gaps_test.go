package usual

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"hafvf/internal/compact"
)

const gapWeeks = 8

// gapStreams draw event streams of eight weeks that begin on a Monday in UTC.
var gapStreams = map[string]func(rng *rand.Rand) []time.Time{
	"day and night": func(rng *rand.Rand) []time.Time { return poisson(rng, dayNight) },
	"week": func(rng *rand.Rand) []time.Time {
		return poisson(rng, func(h int) float64 {
			if h/24%7 >= 5 {
				return 2
			}
			return dayNight(h)
		})
	},
	"office": func(rng *rand.Rand) []time.Time {
		return poisson(rng, func(h int) float64 {
			if d := h / 24 % 7; d >= 5 || h%24 < 8 || h%24 >= 18 {
				return 0
			}
			return 60
		})
	},
	"rare": func(rng *rand.Rand) []time.Time { return poisson(rng, func(int) float64 { return 1 }) },
	"beat": func(rng *rand.Rand) []time.Time { return beats(rng, func(time.Time) bool { return true }) },
	"weekdays": func(rng *rand.Rand) []time.Time {
		return beats(rng, func(now time.Time) bool { return now.Weekday() != time.Saturday && now.Weekday() != time.Sunday })
	},
	"office beat": func(rng *rand.Rand) []time.Time {
		return beats(rng, func(now time.Time) bool {
			return now.Weekday() != time.Saturday && now.Weekday() != time.Sunday && now.Hour() >= 8 && now.Hour() < 18
		})
	},
	// About every quarter of an hour, a burst of twenty events.
	"bursts": func(rng *rand.Rand) (events []time.Time) {
		for _, now := range poisson(rng, func(int) float64 { return 4 }) {
			for i := range 20 {
				events = append(events, now.Add(time.Duration(i)*time.Second+time.Duration(rng.IntN(900))*time.Millisecond))
			}
		}
		slices.SortFunc(events, time.Time.Compare)
		return events
	},
	// By day, occasional bursts of ten minutes at twenty times the rate.
	"now and then bursts": func(rng *rand.Rand) []time.Time {
		events := poisson(rng, dayNight)
		for _, now := range poisson(rng, func(h int) float64 { return dayNight(h) / 60 / 24 }) {
			for range 200 {
				events = append(events, now.Add(time.Duration(rng.Float64()*600e9)))
			}
		}
		slices.SortFunc(events, time.Time.Compare)
		return events
	},
	"holidays": func(rng *rand.Rand) []time.Time {
		return poisson(rng, func(h int) float64 {
			if day := h / 24; day == 17 || day == 45 {
				return 0
			}
			return dayNight(h)
		})
	},
}

var monday = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// dayNight returns the rate per hour in hour h: 60 by day, 2 by night.
func dayNight(h int) float64 {
	if h%24 < 6 || h%24 >= 22 {
		return 2
	}
	return 60
}

// poisson draws events with the given rate per hour.
func poisson(rng *rand.Rand, rate func(hour int) float64) (events []time.Time) {
	for h := range gapWeeks * 7 * 24 {
		r := rate(h)
		for x := rng.ExpFloat64() / max(r, 1e-9); x < 1; x += rng.ExpFloat64() / r {
			events = append(events, monday.Add(time.Duration((float64(h)+x)*3600e9)))
		}
	}
	return events
}

// beats returns an event per minute while active.
func beats(rng *rand.Rand, active func(time.Time) bool) (events []time.Time) {
	for i := range gapWeeks * 7 * 24 * 60 {
		now := monday.Add(time.Duration(i)*time.Minute + time.Duration(rng.IntN(2000))*time.Millisecond)
		if active(now) {
			events = append(events, now)
		}
	}
	return events
}

// usually is the mean gap by day of the streams with independent events.
var usually = map[string]time.Duration{
	"day and night": time.Minute, "week": time.Minute, "office": time.Minute, "beat": time.Minute, "holidays": time.Minute, "rare": time.Hour,
}

// Three keys of each stream raise at most one false silence in four weeks each; of 20 keys with bursts or holidays, one
// or two raise two. If they end by day, 98 in a hundred ends are detected within log(events in four weeks) + 5 usual
// gaps, and the others at most 1.3 times as late.
func TestGaps(t *testing.T) {
	m := NewGapModel(nil, 0, DefaultBudgetTime)
	for name, draw := range gapStreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := 3
			if name == "rare" { // few ends in each stream
				seeds = 20
			}
			total, most, ends, late := 0, 0, 0, 0
			longest := 0.
			for seed := range seeds {
				events := draw(rand.New(rand.NewPCG(uint64(seed), 1)))
				allowed := math.Log(float64(len(events))/2) + 5
				var g Gaps
				var silences [2]int
				for i := 1; i < len(events); i++ {
					silent := m.Observe(&g, events[i-1], events[i], time.Time{})
					if !silent.IsZero() {
						silences[min(1, int(events[i].Sub(monday).Hours())/(4*7*24))]++
						if !silent.After(events[i-1]) || !silent.Before(events[i]) {
							t.Fatalf("silent at %v between %v and %v", silent, events[i-1], events[i])
						}
					}
					week, hour := events[i].Sub(monday).Hours()/(7*24), events[i].Hour()
					if usual := usually[name]; usual > 0 && i%97 == 0 && week > 2 && week-math.Floor(week) < 5./7 && hour >= 9 && hour < 15 {
						gaps := float64(m.Deadline(&g, events[i]).Sub(events[i])) / float64(usual) / allowed
						longest = max(longest, gaps)
						if ends++; gaps > 1 {
							late++
						}
					}
				}
				total += silences[0] + silences[1]
				most = max(most, silences[0], silences[1])
			}
			t.Logf("%d silences of %d keys in eight weeks, at most %d of a key in four; of %d ends %d are told late, at most %.2f times the time", total, seeds, most, ends, late, longest)
			lateShare := .02
			if name == "rare" { // 168 events a week carry less information about the tail
				lateShare = .1
			}
			if most > 1 {
				t.Errorf("%d false silences in four weeks", most)
			}
			if float64(late) > lateShare*float64(ends) || longest > 1.3 {
				t.Errorf("of %d ends %d are told late, by up to %.2f times the time", ends, late, longest)
			}
		})
	}
}

// A key that ends in its first hours is silent after four days, or after ten beats if it was regular for an hour. A key
// with fewer than ten gaps is never silent.
func TestGapsYoungStream(t *testing.T) {
	m := NewGapModel(nil, 0, DefaultBudgetTime)
	for name, steps := range map[string][2]time.Duration{"regular": {time.Minute, time.Minute}, "not": {time.Minute, 2 * time.Minute}, "a burst": {time.Second, time.Second}} {
		var g Gaps
		now := monday
		for i := range 600 {
			next, want := now.Add(steps[i%2]), 96*time.Hour
			if name == "regular" && i >= 99 {
				want = 10 * time.Minute
			}
			m.Observe(&g, now, next, time.Time{})
			now = next
			if deadline := m.Deadline(&g, now); deadline.IsZero() != (i < 9) || i >= 9 && deadline.Sub(now).Round(time.Second) != want {
				t.Fatalf("%s, after %d gaps: %v", name, i+1, deadline.Sub(now))
			}
		}
	}
}

// freeDays are choices of free days, 0 is Monday.
var freeDays = map[string][]int{"Fri and Sat": {4, 5}, "Thu and Fri": {3, 4}, "Fri": {4}, "Mon": {0}, "Sat and Sun": {5, 6}, "Wed": {2}, "none": nil}

// daily draws events with a rate per hour from one hour of the day up to another, except for free days, counted from 0.
func daily(seed uint64, perHour float64, from, end int, free func(day int) bool) []time.Time {
	return poisson(rand.New(rand.NewPCG(seed, 4)), func(h int) float64 {
		if free(h/24) || h%24 < from || h%24 >= end {
			return 0
		}
		return perHour
	})
}

// silencesOf returns the silences of a stream of events, from which drop removes some. A nil drop removes none.
func silencesOf(events []time.Time, drop func(time.Time) bool) (silences []time.Time) {
	m := NewGapModel(nil, 0, DefaultBudgetTime)
	var g Gaps
	last := events[0]
	for _, now := range events[1:] {
		if drop != nil && drop(now) {
			continue
		}
		if silent := m.Observe(&g, last, now, time.Time{}); !silent.IsZero() {
			silences = append(silences, silent)
		}
		last = now
	}
	return silences
}

// A stream that works on some days of the week raises at most one false silence in eight weeks, for every choice of
// free days. If it stops for five hours on a working day of week 6, it is silent within the first two.
func TestGapsFreeDays(t *testing.T) {
	for name, days := range freeDays {
		free := func(day int) bool { return slices.Contains(days, day%7) }
		for seed := range uint64(2) {
			events := daily(seed, 20, 9, 18, free)
			if silences := silencesOf(events, nil); len(silences) > 1 {
				t.Errorf("free: %s, seed %d: %d false silences, from %v on", name, seed, len(silences), silences[0])
			}
			stop := monday.AddDate(0, 0, 5*7+1).Add(11 * time.Hour)
			stopped := silencesOf(events, func(now time.Time) bool { return now.After(stop) && now.Before(stop.Add(5*time.Hour)) })
			if !slices.ContainsFunc(stopped, func(silent time.Time) bool { return silent.After(stop) && silent.Before(stop.Add(2*time.Hour)) }) {
				t.Errorf("free: %s, seed %d: the stop at %v is not found, but %v", name, seed, stop, stopped)
			}
		}
	}
}

// A day that becomes free in week 4 causes two silences, although it is too long for a pause. A day that is not free any
// more from week 5 on causes none.
func TestGapsFreeDayChanges(t *testing.T) {
	const friday, saturday = 4, 5
	for seed := range uint64(2) {
		silences := silencesOf(daily(seed, 20, 0, 24, func(day int) bool { return day%7 == friday && day >= 21 }), nil)
		if len(silences) < 2 || len(silences) > 3 {
			t.Errorf("seed %d: silences of a stream whose Fridays become free: %v", seed, silences)
		}
		silences = silencesOf(daily(seed, 40, 9, 18, func(day int) bool { return day%7 >= saturday || day%7 == friday && day < 28 }), nil)
		if len(silences) > 1 {
			t.Errorf("seed %d: silences of a stream whose Fridays become working days: %v", seed, silences)
		}
	}
}

// Until the classes are found, a stream that never rests has a class from Monday to Friday, and other streams have none.
func TestGapsFirstDays(t *testing.T) {
	for name, test := range map[string]struct {
		working func(hour int) bool
		silent  time.Duration // after the end on Wednesday, at most
	}{
		"all day":      {func(int) bool { return true }, 20 * time.Minute},
		"but a break":  {func(hour int) bool { return hour < 2 || hour >= 5 }, 20 * time.Minute},
		"by day alone": {func(hour int) bool { return hour >= 9 && hour < 18 }, firstHours * time.Hour},
	} {
		m, g := NewGapModel(nil, 0, DefaultBudgetTime), Gaps{}
		last := monday
		for now := monday; now.Before(monday.AddDate(0, 0, 2).Add(11 * time.Hour)); now = now.Add(time.Minute) {
			if test.working(now.Hour()) && now.After(last) {
				m.Observe(&g, last, now, time.Time{})
				last = now
			}
		}
		if silent := m.Deadline(&g, last).Sub(last); silent > test.silent || silent < test.silent/4 {
			t.Errorf("%s: silent after %v", name, silent)
		}
	}
}

// Gaps of the format with weekdays, Saturdays and Sundays keep their rates and hours.
func TestGapsDecodeFormer(t *testing.T) {
	former := make([]byte, 9, 60)
	for _, slot := range []struct {
		i        int
		rate     float32
		exposure uint32
	}{{9, 20, 246}, {20, .5, 3}, {33, 7, 100}, {57, 0, 102}} {
		former[slot.i/8] |= 1 << (slot.i % 8)
		former = binary.BigEndian.AppendUint32(former, math.Float32bits(slot.rate)|slot.exposure)
	}
	former = append(former, minGaps)
	for range 8 {
		former = binary.BigEndian.AppendUint32(former, math.Float32bits(1))
	}
	former = append(former, 0) // pauseUntil
	var g Gaps
	if rest, err := g.DecodeFormer(former); err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d bytes are left", err, len(rest))
	}
	for _, want := range []struct {
		slot, days int
		rate, x    float64
	}{{9, 5, 20, 20.5}, {2*24 + 9, 5, 20, 20.5}, {20, 5, .5, .25}, {5*24 + 9, 1, 7, 100. / 12}, {6*24 + 9, 1, 0, 8.5}, {10, 5, 0, 0}} {
		rate, hours, days := g.pool(want.slot)
		if days != want.days || math.Abs(rate-want.rate) > 1e-9 || math.Abs(hours-want.x) > 1e-9 {
			t.Errorf("slot %d: rate %v in %v hours of %d days, want %+v", want.slot, rate, hours, days, want)
		}
	}
	for n := range former {
		if _, err := new(Gaps).DecodeFormer(former[:n]); err == nil {
			t.Fatalf("%d of %d bytes are read", n, len(former))
		}
	}
}

// A rate that falls for good causes few silences.
func TestGapsFallingRate(t *testing.T) {
	m := NewGapModel(nil, 0, DefaultBudgetTime)
	for seed := range 10 {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		events := poisson(rng, func(h int) float64 {
			if h > 3*7*24 {
				return 2
			}
			return 60
		})
		var g Gaps
		silences := 0
		for i := 1; i < len(events); i++ {
			if !m.Observe(&g, events[i-1], events[i], time.Time{}).IsZero() {
				silences++
			}
		}
		if silences > 3 {
			t.Errorf("seed %d: %d silences of a key that speaks every half hour in place of every minute", seed, silences)
		}
	}
}

// Gaps continue after decoding, and truncated bytes are refused.
func TestGapsEncoding(t *testing.T) {
	m := NewGapModel(nil, 2000, 0)
	var g Gaps
	events := gapStreams["holidays"](rand.New(rand.NewPCG(1, 3)))
	for i := 1; i < len(events); i++ {
		m.Observe(&g, events[i-1], events[i], time.Time{})
		if i%5000 != 0 && i > 20 {
			continue
		}
		form := func(c *compact.Codec, g *Gaps) { g.form(c) }
		b := compact.Encode(nil, g, form)
		var read Gaps
		if err := compact.Decode(b, &read, form); err != nil || read != g {
			t.Fatalf("%v: %+v, want %+v", err, read, g)
		}
		for n := range b {
			if compact.Decode(b[:n], &read, form) == nil {
				t.Fatalf("%d of %d bytes are read", n, len(b))
			}
		}
		if len(b) > 420 {
			t.Errorf("%d bytes", len(b))
		}
	}
}

// A slot holds the minimum rate. A lower rate is zero.
func TestGapSlotRate(t *testing.T) {
	for perHour, holds := range map[float64]bool{minRate: true, minRate / 2: false, 0: false} {
		var s gapSlot
		if s.setRate(perHour); holds != (s.perHour() > 0) {
			t.Errorf("a rate of %g is stored as %g", perHour, s.perHour())
		}
	}
}
