package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// An alarm lasts until its key is back to usual. Its end is told of its own id, with its start and
// its peak, also of a key whose state is stored and read between any two observations.
func TestLasting(t *testing.T) {
	const at, n = 2500, 4000
	for _, c := range []struct {
		name   string
		timed  bool
		with   func(i int, usual float64) float64 // the values from at on
		alarms []int                              // from there
		ends   []string
	}{
		{"two hours", true, func(i int, x float64) float64 {
			if i < 24 {
				return x + 6
			}
			return x
		}, []int{0}, []string{`^2500 k: x is back to usual since \d\d:\d\d, after \dh\d+m; it was farthest at 1[67]:\d5 with 2[678]\.\d+, usual (20|19\.\d) ± 1\.0\.$`}},
		{"for good", true, func(_ int, x float64) float64 { return x + 5 },
			[]int{0}, []string{`^2500 k: x stays above usual, which is no alarm any more since \d\d:\d\d, after \d+h\d+m; it was farthest at`}},
		{"twice", true, func(i int, x float64) float64 {
			if i < 12 || i >= 500 && i < 512 {
				return x - 9
			}
			return x
		}, []int{0, 502}, []string{`^2500 k: x is back to usual .* with 9\.\d+, usual`, `^3002 k: x is back`}},
		{"to the other side", true, func(i int, x float64) float64 {
			switch {
			case i < 100:
				return x + 8
			case i < 130:
				return x - 20
			}
			return x
		}, []int{0, 100}, []string{`^2500 k: x is back to usual .* with -0`}},
		{"a little, for good", true, func(_ int, x float64) float64 { return x + 1.7 }, []int{11},
			[]string{`^2511 k: x stays above usual, which is no alarm any more since`}},
		{"no times", false, func(i int, x float64) float64 {
			if i < 24 {
				return x + 6
			}
			return x
		}, []int{0}, []string{`^2500 k: x is back to usual; it was farthest with 2[678]\.\d+, usual 20\.\d ± 1\.0\.$`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Recommended("normal")
			if !c.timed {
				cfg.Order = Arrival
			}
			est := newEstimator(t, cfg)
			track := est.NewTrack("k")
			rng := rand.New(rand.NewPCG(2, 3))
			var alarms []int
			var ends []string
			var state []byte
			for i := range n {
				o := Value(time.Time{}, fmt.Sprint(i), 20+rng.NormFloat64())
				if i >= at {
					o.X[0][0] = c.with(i-at, o.X[0][0])
				}
				if c.timed {
					o.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 5 * time.Minute)
				}
				if i == at {
					state, _ = track.AppendBinary(nil)
				}
				e := est.Estimate(track, o)
				if i < at {
					continue
				}
				if i < at+700 {
					stored, err := est.RestoreTrack("k", state)
					if err != nil {
						t.Fatal(err)
					}
					if diff := gocmp.Diff(e, est.Estimate(stored, o), cmpopts.EquateNaNs()); diff != "" {
						t.Fatalf("after a restart, at %d: %s", i, diff)
					}
					state, _ = stored.AppendBinary(nil)
				}
				if e.Alarm != nil {
					alarms = append(alarms, i-at)
				}
				r := e.Recovered
				if r == nil {
					continue
				}
				ends = append(ends, r.ID+" "+r.Message)
				if !(math.Abs(r.Size) > 3 && r.Score > 4) || r.Kind != RecoveredAlarm || !r.BackToUsual() || c.timed == r.Start.IsZero() || !e.Alerts("k")[0].Of.Time.Equal(o.Time) {
					t.Errorf("size %g, score %g, %s from %v to %v", r.Size, r.Score, r.Kind, r.Start, o.Time)
				}
				b, _ := e.AppendBinary(nil)
				var read Estimate
				if err := read.UnmarshalBinary(b); err != nil {
					t.Fatal(err)
				}
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
