package keyed

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf/usual"
)

// An alarm lasts until its key is back to usual. Its end is reported with the ID and the start of the alarm, and with
// its peak.
func TestLasting(t *testing.T) {
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
		}, []int{0}, []string{`^2500 k back to usual since .*\d\d:\d\d, after \d h \d+ min: worst 2[678]\.\d+ at .*1[67]:\d5, usual (20|19\.\d) ± 1\.0\.$`}},
		{"for good", true, func(_ int, x float64) float64 { return x + 5 },
			[]int{0}, []string{`^2500 k stays above usual, alarm over since .*\d\d:\d\d, after \d+ h( \d+ min)?: worst \d`}},
		{"twice", true, func(i int, x float64) float64 {
			if i < 12 || i >= 500 && i < 512 {
				return x - 9
			}
			return x
		}, []int{0, 500}, []string{`^2500 k back to usual .*: worst 9\.\d+ at .*, usual`, `^3000 k back`}},
		{"to the other side", true, func(i int, x float64) float64 {
			switch {
			case i < 100:
				return x + 8
			case i < 130:
				return x - 20
			}
			return x
		}, []int{0, 100}, []string{`^2500 k stays above usual, .*: worst 2`, `^2600 k stays below usual, .*: worst -[01]\.`}},
		{"a little, for good", true, func(_ int, x float64) float64 { return x + 1.7 }, []int{11},
			[]string{`^2511 k stays above usual, alarm over since`}},
		{"no times", false, func(i int, x float64) float64 {
			if i < 24 {
				return x + 6
			}
			return x
		}, []int{1}, []string{`^2501 k back to usual: worst 2[678]\.\d+, usual 20\.\d ± 1\.0\.$`}},
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
				ends = append(ends, r.ID+" "+r.Message)
				if !(math.Abs(r.Size) > 3 && r.Score > 3) || r.Kind != RecoveredAlarm || !r.BackToUsual() || c.timed == r.Start.IsZero() || !e.Alerts("k")[0].Time.Equal(e.Time) {
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

// An outage that recurs soon after its end raises an alarm, or is counted as resting or muted. The return of the values
// raises no alarm: they score below 1 unless they are unusual themselves.
func TestOutageRecurs(t *testing.T) {
	const start, length = 4 * 1440, 30
	rng := rand.New(rand.NewPCG(5, 1))
	for k := range 12 {
		gap := []int{20, 45, 70}[k%3]
		est := newEstimator(t, Recommended("normal"))
		track := est.NewTrack("k")
		alerted, counted := 0, 0
		for i := range start + 300 {
			x, posAgain := 100+5*rng.NormFloat64(), i-start-length-gap
			first, recurs := i >= start && i < start+length, posAgain >= 0 && posAgain < length
			if first || recurs {
				x -= 60
			}
			e := est.Estimate(track, Value(time.Date(2026, 3, 2, 0, i+17*k, 0, 0, time.UTC), "", x))
			d := e.Detection
			switch {
			case i < start:
			case first && e.Alarm != nil:
				alerted++
			case recurs && (e.Alarm != nil || d.Resting || d.Muted):
				counted++
			case !first && !recurs && e.Alarm != nil:
				t.Errorf("key %d: an alarm at %g, %d minutes after the start", k, x, i-start)
			case i >= start+length && i < start+length+20 && math.Abs(x-100) < 5 && d.Score >= 1:
				t.Errorf("key %d: %g scores %g, %d minutes after the end", k, x, d.Score, i-start-length)
			}
		}
		if alerted != 1 || counted == 0 {
			t.Errorf("key %d: the outage raises %d alarms; %d observations alarm or are counted when it recurs after %d minutes", k, alerted, counted, gap)
		}
	}
}

// A shift in the first days ends with "stays above usual". A drift raises another alarm, a novelty that the budget pays
// for, each time it has moved another full step from the usual value before its first alarm.
func TestStaysAndDrifts(t *testing.T) {
	for day := range 5 {
		ends := 0
		for _, e := range watched(t, Recommended("normal"), (day+3)*288, day*288+200, 5*time.Minute, func(_ int, x float64) float64 { return x + 7 })[day*288+200:] {
			if r := e.Recovered; r != nil && e.N < int64(day*288+500) {
				if ends++; !strings.Contains(r.Message, "stays above usual, alarm over") {
					t.Errorf("day %d: %s", day, r.Message)
				}
			}
		}
		if ends != 1 {
			t.Errorf("day %d: %d ends", day, ends)
		}
	}
	const start = 2880
	var escalations []string
	estimates := watched(t, Recommended("normal"), start+2016, start, 5*time.Minute, func(i int, x float64) float64 { return x + float64(i)/80 })
	for _, e := range estimates[start:] {
		if e.Alarm != nil && strings.Contains(e.Alarm.Message, "worse than at") {
			escalations = append(escalations, e.Alarm.Message)
			if e.Alarm.Kind != string(usual.NoveltyAlarm) || math.Abs(e.Alarm.Usual.Mean[0]-20) > 1 || e.Alarm.Size < 4 {
				t.Errorf("%+v", e.Alarm)
			}
		}
	}
	if len(escalations) < 3 {
		t.Errorf("a drift of 25 standard deviations raises %d further alarms: %q", len(escalations), escalations)
	}
}
