package keyed

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"hafvf/hafvf/usual"
	"hafvf/internal/testing/expect"
)

// watched returns the estimates of a key whose values vary by 1 around 20, with times if step is not 0. From
// observation from on, edit changes the values.
func watched(t *testing.T, cfg Config, n, from int, step time.Duration, edit func(i int, x float64) float64) (estimates []Estimate) {
	t.Helper()
	if step == 0 {
		cfg.Order = Arrival
	}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	rng := rand.New(rand.NewPCG(2, 3))
	for i := range n {
		o := Value(time.Time{}, fmt.Sprint(i), 20+rng.NormFloat64())
		if i >= from {
			o.X[0][0] = edit(i-from, o.X[0][0])
		}
		if step != 0 {
			o.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * step)
		}
		estimates = append(estimates, est.Estimate(track, o))
	}
	return estimates
}

// An episode lasts until its key is calm. Its end is reported with the ID and the start of the onset, with the worst
// value, and says where the values are.
func TestEpisodeEnds(t *testing.T) {
	const start, n = 2500, 4000
	for _, c := range []struct {
		name   string
		timed  bool
		with   func(i int, usual float64) float64 // the values from position start on
		alarms []int                              // positions, counted from start
		ends   []string
	}{
		{"two hours", true, func(i int, x float64) float64 {
			if i < 24 {
				return x + 6
			}
			return x
		}, []int{0}, []string{`^back 2500 k back to usual since 2026-01-09 18:20, after 2 h: worst 26.8 at 17:15, usual 19.8 ± 1.[012].$`}},
		{"a quarter of an hour", true, func(i int, x float64) float64 {
			if i < 3 {
				return x + 10
			}
			return x
		}, []int{0}, []string{`^back 2500 k back to usual since 2026-01-09 16:35, after 15 min: worst`}},
		{"for good", true, func(_ int, x float64) float64 { return x + 5 },
			[]int{0}, []string{`^new 2500 k stays above usual since 2026-01-09 21:10, after 4 h 50 min: usual from now on, worst 26.8 at 18:45, usual before 16:20 20.1 ± 1.[012].$`}},
		{"twice", true, func(i int, x float64) float64 {
			if i < 12 || i >= 500 && i < 512 {
				return x - 9
			}
			return x
		}, []int{0, 500}, []string{`^back 2500 k back to usual .*: worst 9\.\d+ at .*, usual`, `^back 3000 k back`}},
		{"to the other side", true, func(i int, x float64) float64 {
			switch {
			case i < 100:
				return x + 8
			case i < 130:
				return x - 20
			}
			return x
		}, []int{0, 100}, []string{`^new 2500 k stays above usual .*: usual from now on, worst 2`, `^back 2600 k back to usual .*: worst -`}},
		{"a little, for good", true, func(_ int, x float64) float64 { return x + 1.7 }, []int{11},
			[]string{`^still 2511 k is quiet since .*, still above usual: worst .*, usual before 17:15 20.1 ± 1.[012].$`}},
		{"no times", false, func(i int, x float64) float64 {
			if i < 24 {
				return x + 6
			}
			return x
		}, []int{1}, []string{`^back 2501 k back to usual: worst 2[678]\.\d+, usual 20\.\d ± 1\.[012]\.$`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var alarms []int
			var ends []string
			step := 5 * time.Minute
			if !c.timed {
				step = 0
			}
			for i, e := range watched(t, Recommended("normal"), n, start, step, c.with)[start:] {
				if e.Alarm != nil {
					alarms = append(alarms, i)
				}
				r := e.Recovered
				if r == nil {
					continue
				}
				ends = append(ends, string(r.Level)+" "+r.ID+" "+r.Message)
				if !(math.Abs(r.Size) > 2 && r.Score > 3) || r.Episode.State != EpisodeClosed || r.Episode.ID != r.ID || r.Kind != RecoveredAlarm || !r.BackToUsual() || c.timed == r.Start.IsZero() || !e.Alerts("k")[0].Time.Equal(e.Time) {
					t.Errorf("size %g, score %g, %s from %v to %v", r.Size, r.Score, r.Kind, r.Start, e.Time)
				}
				b, _ := e.AppendBinary(nil)
				var read Estimate
				fatal(t, read.UnmarshalBinary(b))
				if diff := gocmp.Diff(r, read.Recovered, cmpopts.EquateNaNs()); diff != "" {
					t.Errorf("decoded: %s", diff)
				}
			}
			if !slices.EqualFunc(ends, c.ends, func(got, want string) bool { return regexp.MustCompile(want).MatchString(got) }) {
				t.Errorf("ends %q, want %q", ends, c.ends)
			}
			if !slices.Equal(alarms, c.alarms) {
				t.Errorf("alarms at %v, want %v", alarms, c.alarms)
			}
		})
	}
}

// A shift ends with the level "new" or "still". A slow drift of 25 standard deviations in a week is not lost: a key is
// reported again and again, its last report is within a quarter of the drift, and no end says that it is back to usual
// after the drift has left two standard deviations.
func TestStaysAndDrifts(t *testing.T) {
	expect.Long(t, "days of a drift")
	for day := range 5 {
		ends := 0
		for _, e := range watched(t, Recommended("normal"), (day+3)*288, day*288+200, 5*time.Minute, func(_ int, x float64) float64 { return x + 7 })[day*288+200:] {
			if r := e.Recovered; r != nil && e.N < int64(day*288+500) {
				if ends++; r.Level == LevelBack {
					t.Errorf("day %d: %s", day, r.Message)
				}
			}
		}
		if ends != 1 {
			t.Errorf("day %d: %d ends", day, ends)
		}
	}
	const start, keys = 2880, 8
	alarms := 0
	for seed := range uint64(keys) {
		rng := rand.New(rand.NewPCG(seed, 3))
		est := newEstimator(t, Recommended("normal"))
		track, last := est.NewTrack("k"), 0.
		for i := range start + 2016 {
			drift := max(0, float64(i-start)/80)
			e := est.Estimate(track, Value(time.Date(2026, 3, 2, 0, 5*i, 0, 0, time.UTC), "", 20+rng.NormFloat64()+drift))
			if drift == 0 {
				continue
			}
			if r := e.Recovered; r != nil && r.Level == LevelBack && drift > 2 {
				t.Errorf("key %d, at a drift of %.1f: %s", seed, drift, r.Message)
			}
			if e.Alarm == nil {
				continue
			}
			alarms++
			if last = e.X[0][0] - 20; drift > 3 && math.Abs(e.Alarm.Usual.Mean[0]-20) > 2 {
				t.Errorf("key %d, at a drift of %.1f, is reported against %.1f", seed, drift, e.Alarm.Usual.Mean[0])
			}
		}
		if last < .75*25 {
			t.Errorf("key %d: the last report is %.1f above the level before the drift", seed, last)
		}
	}
	if alarms < 45 {
		t.Errorf("%d reports of %d drifts", alarms, keys)
	}
}

// worsening are deviations, in standard deviations, of the observations of an event that becomes worse.
var worsening = map[string]func(i int) float64{
	"in two steps":   func(i int) float64 { return [...]float64{8, 36}[min(1, i/12)] },
	"in three steps": func(i int) float64 { return [...]float64{8, 20, 36}[min(2, i/12)] },
	"slowly":         func(i int) float64 { return 8 + 28*float64(max(0, i-12))/48 },
	"in a line":      func(i int) float64 { return 36 * float64(i) / 60 },
	"exponentially":  func(i int) float64 { return 36 * (1 - math.Exp(-.075*float64(i))) },
	"other side":     func(i int) float64 { return [...]float64{8, -36}[min(1, i/12)] },
}

// An event that becomes worse is reported again, at most three times, at any step. An event that stays the same is
// reported once; at steps of an hour, where a single value is enough, a small first value may be followed by another
// report. The return is no alarm.
func TestEpisodesThatBecomeWorse(t *testing.T) {
	shapes := maps.Clone(worsening)
	for _, size := range []float64{8, 36} {
		shapes[fmt.Sprint("stays at ", size)] = func(int) float64 { return size }
	}
	for _, step := range []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		again := 0
		for seed := range uint64(2) {
			rng := rand.New(rand.NewPCG(seed, uint64(step)))
			est := newEstimator(t, Recommended("normal"))
			track, start := est.NewTrack("k"), min(int(21*day/step), 10*288)
			for i := range start {
				est.Estimate(track, Value(time.Unix(0, 0).Add(time.Duration(i)*step), "", 20+.25*rng.NormFloat64()))
			}
			before, _ := track.AppendBinary(nil)
			for _, name := range slices.Sorted(maps.Keys(shapes)) {
				deviation := shapes[name]
				c := reportsOf(t, restored(t, est, before), start, step, rng, deviation)
				stays := strings.HasPrefix(name, "stays")
				if stays {
					again += c.again
				}
				if c.onsets == 0 || c.after > 0 || c.again > c.onsets*(maxReports-1) || !stays && c.again == 0 || stays && c.onsets > 1 {
					t.Errorf("every %v, %s, key %d: %+v", step, name, seed, c)
				}
			}
		}
		if again > 1 {
			t.Errorf("every %v: %d further reports of events that stay the same", step, again)
		}
	}
}

type reportCounts struct{ onsets, again, after int }

// reportsOf counts the reports of an event of 60 observations after start observations: onsets, later reports, and
// alarms in the 12 observations after its end.
func reportsOf(t *testing.T, track *Track, start int, step time.Duration, rng *rand.Rand, deviation func(i int) float64) (c reportCounts) {
	t.Helper()
	est, episode := newEstimator(t, Recommended("normal")), ""
	for i := range 72 {
		x := 20 + .25*rng.NormFloat64()
		if i < 60 {
			x += .25 * deviation(i)
		}
		e := est.Estimate(track, Value(time.Unix(0, 0).Add(time.Duration(start+i)*step), strconv.Itoa(i), x))
		if e.Alarm == nil {
			continue
		}
		r := e.Alarm.Episode
		switch worse := r.State == EpisodeWorse; {
		case i >= 60:
			c.after++
		case worse && (r.ID != episode || r.ID == e.ID || r.Reports < 2 || math.Abs(e.Alarm.Usual.Mean[0]-20) > .3 || e.Alarm.Kind != string(usual.NoveltyAlarm)):
			t.Errorf("%+v of episode %s: %s", r, episode, e.Alarm.Message)
		case worse:
			c.again++
		default:
			c.onsets++
			episode = r.ID
		}
	}
	return c
}

// A second event of the same size, two hours or more after the first, is an alarm of its own.
func TestSecondEvent(t *testing.T) {
	for _, c := range []struct {
		step time.Duration
		gap  int // observations
	}{{5 * time.Minute, 24}, {5 * time.Minute, 48}, {10 * time.Minute, 12}, {time.Hour, 6}} {
		found := 0
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, 8))
			est := newEstimator(t, Recommended("normal"))
			track := est.NewTrack("k")
			start := int(6 * day / c.step)
			second := start + 3 + c.gap
			alarmed := false
			for i := range second + 3 {
				x := 20 + rng.NormFloat64()
				if i >= start && i < start+3 || i >= second {
					x += 10
				}
				e := est.Estimate(track, Value(time.Unix(0, 0).Add(time.Duration(i)*c.step), "", x))
				alarmed = alarmed || i >= second && e.Alarm != nil
			}
			if alarmed {
				found++
			}
		}
		if found < 5 {
			t.Errorf("every %v, after %d: %d of 6 second events raise an alarm", c.step, c.gap, found)
		}
	}
}

// In any stream, the first n observations begin at most n/P + 9 episodes, and each is reported again at most three
// times. A report and the end are never in one observation.
func TestEpisodeBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Recommended("normal")
		budget := rapid.SampledFrom([]float64{1, 2.875, 30, 500}).Draw(t, "budget")
		cfg.Alarms.Budget, cfg.Alarms.BudgetTime = budget, 0
		cfg.Alarms.Rest = rapid.SampledFrom([]int{0, 1, 5, usual.AutoRest}).Draw(t, "rest")
		step := rapid.SampledFrom([]time.Duration{time.Minute, 15 * time.Minute, time.Hour, day}).Draw(t, "step")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		est, err := NewEstimator(cfg)
		if err != nil {
			t.Fatal(err)
		}
		track := est.NewTrack("k")
		level, often := 0., rapid.SampledFrom([]int{2, 5, 40}).Draw(t, "often")
		begun, again := 0, map[string]int{}
		for i := range rapid.SampledFrom([]int{200, 800}).Draw(t, "length") {
			switch rng.IntN(often) {
			case 0:
				level += 3 * rng.NormFloat64() * math.Abs(level+1)
			case 1:
				level = 0
			}
			x := level + rng.NormFloat64()
			e := est.Estimate(track, Value(time.Unix(0, 0).Add(time.Duration(i)*step), strconv.Itoa(i), x))
			if e.Alarm == nil {
				continue
			}
			switch r := e.Alarm.Episode; {
			case e.Recovered != nil:
				t.Fatalf("observation %d ends an episode and reports one", i)
			case r.State == EpisodeWorse:
				if again[r.ID]++; again[r.ID] > maxReports-1 || int(r.Reports) != again[r.ID]+1 {
					t.Fatalf("%d further reports of an episode: %+v", again[r.ID], r)
				}
			default:
				if begun++; float64(begun) > float64(i+1)/budget+9 {
					t.Fatalf("%d episodes in %d observations at a budget of %g", begun, i+1, budget)
				}
			}
		}
	})
}

// Usual values are never shown on a side of zero on which the key has had no values.
func TestUsualKeepsItsSign(t *testing.T) {
	for _, sign := range []float64{1, -1} {
		est := newEstimator(t, Recommended("normal"))
		track, rng := est.NewTrack("k"), rand.New(rand.NewPCG(1, 2))
		for i := range 24 * 28 {
			x := 2 + 100*math.Max(0, math.Sin(2*math.Pi*float64(i)/24)) // its harmonics fall below zero at night
			if i > 24*14 && i%24 == 6 {
				x *= 50
			}
			e := est.Estimate(track, Value(time.Unix(int64(3600*i), 0), "", sign*(x+.1*rng.Float64())))
			if u := e.Detection.Usual.Mean[0]; u*sign < 0 {
				t.Fatalf("observation %d: usual is %g", i, u)
			}
			if e.Alarm != nil && e.Alarm.Usual.Mean[0]*sign < 0 {
				t.Fatalf("observation %d: %s", i, e.Alarm.Message)
			}
		}
	}
}

// The present state of an open episode has the last value, the worst value so far and the ID of the onset. It is no alert
// and changes no state.
func TestEpisodeOngoing(t *testing.T) {
	est := newEstimator(t, Recommended("normal"))
	track := est.NewTrack("k")
	rng := rand.New(rand.NewPCG(2, 3))
	start, id, n := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "", 0
	for i := range 2600 {
		x := 20 + rng.NormFloat64()
		switch {
		case i >= 2500 && i < 2520:
			x += 5 + float64(i-2500)
		case i == 2520:
			x = math.NaN()
		case i > 2520 && i < 2530:
			x += 15
		}
		e := est.Estimate(track, Value(start.Add(time.Duration(i)*5*time.Minute), fmt.Sprint(i), x))
		before := must(track.AppendBinary(nil))
		a, ok := est.Ongoing(track, &e)
		if !bytes.Equal(before, must(track.AppendBinary(nil))) {
			t.Fatalf("%d: Ongoing has changed the state", i)
		}
		ep := e.Detection.Episode
		if e.Alarm != nil && !e.Alarm.IsWorse() {
			id = e.ID
		}
		if want := ep != nil && ep.State == EpisodeOpen && e.Alarm == nil && !e.Missing; ok != want {
			t.Fatalf("%d: ok is %v, want %v: %+v", i, ok, want, ep)
		}
		if !ok {
			continue
		}
		n++
		if a.ID != id || a.Key != "k" || a.Kind != "novelty" || a.Source != SourceOngoing || !a.Start.Equal(ep.Since) || !a.Time.Equal(e.Time) || a.X[0][0] != x || a.Episode != ep || len(e.Alerts("k")) > 0 {
			t.Errorf("%d: %+v", i, a)
		}
		if i == 2525 && !regexp.MustCompile(`^k ×1\.[78] since 2026-01-09 16:20 \(2 h 5 min\): 3[3-7].*, worst 4\d.* at 17:5\d, usual before 16:20 20\.\d ± 1\.[012]\.$`).MatchString(a.Message) {
			t.Errorf("%d: %s", i, a.Message)
		}
	}
	if n < 20 {
		t.Errorf("%d present states", n)
	}
}

// After an episode the profile is restored. Another episode soon after it is learned, because episodes may be normal
// for the stream.
func TestEpisodesBecomeNormal(t *testing.T) {
	sd := func(estimates []Estimate, i int) float64 { return estimates[i].Detection.Usual.SD[0] }
	estimates := watched(t, Recommended("normal"), 1100, 0, 5*time.Minute, func(i int, x float64) float64 {
		if i >= 700 && i < 705 || i >= 900 && i < 905 {
			return x + 100
		}
		return x
	})
	if first, second := sd(estimates, 760)/sd(estimates, 700), sd(estimates, 960)/sd(estimates, 700); first > 1.3 || second < 3 {
		t.Errorf("the sd is %.3g times its earlier value after the first episode, and %.3g times after the second", first, second)
	}
}
