package usual

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const gapWeeks = 8

// gapStreams draw streams of events of eight weeks that begin on a Monday in UTC.
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
	"beat": func(rng *rand.Rand) (all []time.Time) {
		for i := range gapWeeks * 7 * 24 * 60 {
			all = append(all, monday.Add(time.Duration(i)*time.Minute+time.Duration(rng.IntN(2000))*time.Millisecond))
		}
		return all
	},
	// Every quarter of an hour or so, a burst of twenty events.
	"bursts": func(rng *rand.Rand) (all []time.Time) {
		for _, at := range poisson(rng, func(int) float64 { return 4 }) {
			for i := range 20 {
				all = append(all, at.Add(time.Duration(i)*time.Second+time.Duration(rng.IntN(900))*time.Millisecond))
			}
		}
		slices.SortFunc(all, time.Time.Compare)
		return all
	},
	// Now and then twenty times as many for ten minutes.
	"now and then bursts": func(rng *rand.Rand) []time.Time {
		all := poisson(rng, dayNight)
		for _, at := range poisson(rng, func(int) float64 { return 1. / 48 }) {
			for range 200 {
				all = append(all, at.Add(time.Duration(rng.Float64()*600e9)))
			}
		}
		slices.SortFunc(all, time.Time.Compare)
		return all
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

// dayNight is the rate in hour h, per hour: 60 by day, 2 by night.
func dayNight(h int) float64 {
	if h%24 < 6 || h%24 >= 22 {
		return 2
	}
	return 60
}

// poisson draws events at a rate per hour.
func poisson(rng *rand.Rand, rate func(hour int) float64) (all []time.Time) {
	for h := range gapWeeks * 7 * 24 {
		r := rate(h)
		for x := rng.ExpFloat64() / max(r, 1e-9); x < 1; x += rng.ExpFloat64() / r {
			all = append(all, monday.Add(time.Duration((float64(h)+x)*3600e9)))
		}
	}
	return all
}

// TestGaps has streams of events with a rhythm, which raise at most one false silence in four
// weeks each, and then end by day: that is told within log(events in four weeks) + 5 usual gaps.
func TestGaps(t *testing.T) {
	m := NewGapModel(time.UTC, 0, DefaultBudgetTime)
	for name, draw := range gapStreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := 20
			total, most, late := 0, 0, 0.
			ends, lates := 0, 0
			for seed := range seeds {
				all := draw(rand.New(rand.NewPCG(uint64(seed), 1)))
				var g Gaps
				var silences [2]int
				for i := 1; i < len(all); i++ {
					if at := m.Next(&g, all[i-1], all[i], time.Time{}); !at.IsZero() {
						silences[min(1, int(all[i].Sub(monday).Hours())/(4*7*24))]++
						if testing.Verbose() && (seed < 3 && name != "holidays" || seed < 20 && (name == "office" || name=="day and night" || name == "holidays" && all[i].Sub(all[i-1])< 24*time.Hour)) {
							fmt.Println(name, seed, all[i-1].Format("01-02 Mon 15:04:05"), all[i].Sub(all[i-1]).Round(time.Second), at.Sub(all[i-1]).Round(time.Second), m.tailBound(&g), g.pace())
						}
					}
					// It ends by day in one of the last five weeks.
					if i+1 < len(all) && i%997 == 0 {
						if d, h := all[i].Sub(monday).Hours(), all[i].Hour(); d > 21*24 && h >= 9 && h < 15 && all[i].Weekday() >= 1 && all[i].Weekday() <= 5 && m.Usual(&g, all[i]) > 0 {
							usual := time.Minute
							if name == "rare" {
								usual = time.Hour
							}
							if strings.Contains(name, "bursts") {
								usual = m.Usual(&g, all[i])
							}
							after := m.Deadline(&g, all[i]).Sub(all[i])
							lim := math.Log(float64(len(all))/2) + 5
							late = max(late, float64(after)/float64(usual)/lim)
							ends++
							if float64(after)/float64(usual)/lim > 1 {
								lates++
							}
						}
					}
				}
				total += silences[0] + silences[1]
				most = max(most, silences[0], silences[1])
			}
			t.Logf("%d silences of %d keys, at most %d in four weeks; an end is told after at most %.2f of the bound, %d of %d too late", total, seeds, most, late, lates, ends)
			if most > 1 {
				t.Errorf("%d false silences in four weeks", most)
			}
		})
	}
}
