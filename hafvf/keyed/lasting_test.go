package keyed

import (
	"math"
	"regexp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// An alarm lasts until its key is back to usual. Its end is told of its own id, with its start and
// its peak.
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
			var alarms []int
			var ends []string
			step := 5 * time.Minute
			if !c.timed {
				step = 0
			}
			for i, e := range watched(t, Recommended("normal"), n, at, step, c.with)[at:] {
				if e.Alarm != nil {
					alarms = append(alarms, i)
				}
				r := e.Recovered
				if r == nil {
					continue
				}
				ends = append(ends, r.ID+" "+r.Message)
				if !(math.Abs(r.Size) > 3 && r.Score > 3) || r.Kind != RecoveredAlarm || !r.BackToUsual() || c.timed == r.Start.IsZero() || !e.Alerts("k")[0].Of.Time.Equal(e.Time) {
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
