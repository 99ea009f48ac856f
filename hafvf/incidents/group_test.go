package incidents

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

// The oracle is the regularised incomplete beta function: P(N ≥ c) = I_x(c, r).
func TestSurprise(t *testing.T) {
	for _, r := range []float64{1, 1.3, 2.9, 3} {
		for _, mean := range []float64{1e-9, 1e-3, .1, 1, 12, 300} {
			for _, c := range []int{1, 2, 3, 7, 30, 400, 2000} {
				want := 0.
				if float64(c) > mean {
					want = -math.Log10(mathext.RegIncBeta(float64(c), r, mean/(r+mean)))
				}
				if math.IsInf(want, 1) || want > 300 {
					continue
				}
				if got := surprise(c, mean, r, 0); math.Abs(got-want) > 1e-9*max(1, want) {
					t.Errorf("c %d, mean %g, shape %g: %.12g, want %.12g", c, mean, r, got, want)
				}
				if got := surprise(c, mean, r, want+.01); got != 0 && math.Abs(got-want) > 1e-9*max(1, want) {
					t.Errorf("c %d, mean %g, shape %g: %.12g where less is needed than %.12g", c, mean, r, got, want)
				}
				if got := surprise(c, mean, r, want-.01); want > .01 && math.Abs(got-want) > 1e-9*max(1, want) {
					t.Errorf("c %d, mean %g, shape %g: %.12g where %.12g is enough", c, mean, r, got, want)
				}
			}
		}
	}
}

// The oracle counts one by one.
func TestRecentDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := expect.Get(New(Config{}))(t)
		var keys []*key
		for _, name := range []string{"a/1", "a/2", "a/3", "b/1", "b/2"} {
			keys = append(keys, f.registered(registration{name: name, step: second, allowed: 1e-6}, false))
		}
		keep := moment(rapid.IntRange(1, 60).Draw(t, "keep"))
		now := moment(0)
		var alarms []*alarm
		for range rapid.IntRange(0, 200).Draw(t, "alarms") {
			now += moment(rapid.IntRange(0, 3).Draw(t, "gap"))
			a := &alarm{key: rapid.SampledFrom(keys).Draw(t, "key"), takenAt: now}
			alarms = append(alarms, a)
			for i, g := range a.key.groups {
				g.recent.add(a, i, keep)
			}
			if rapid.IntRange(0, 40).Draw(t, "forget") == 0 {
				for i, g := range a.key.groups {
					g.recent.forget(a.key, i)
				}
				a.key.latest = nil
				for _, b := range alarms {
					if b.key == a.key {
						b.key = nil
					}
				}
			}
			g := f.groups[rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group")]
			start := now - moment(rapid.IntRange(0, int(keep)).Draw(t, "window"))
			want := map[*key]bool{}
			for _, b := range alarms {
				if b.takenAt > start && b.key != nil && slices.Contains(b.key.groups, g) {
					want[b.key] = true
				}
			}
			if got := g.recent.distinct(start); got != len(want) {
				t.Fatalf("%d keys later than %d at %d, want %d", got, start, now, len(want))
			}
		}
	})
}

func TestFleetCommon(t *testing.T) {
	f := expect.Get(New(Config{}))(t)
	for _, c := range [][3]string{
		{"", "a", ""}, {"a", "a", "a"}, {"a", "a/b", "a"}, {"a/b", "a/c", "a"}, {"ab", "a", ""}, {"a/b", "a/bc", "a"},
		{"a/b:c", "a/b/c", "a/b"}, {"a//b", "a//c", "a/"}, {"", "", ""}, {"a/b", "c/b", ""},
	} {
		if got, back := f.common(c[0], c[1]), f.common(c[1], c[0]); got != c[2] || back != c[2] {
			t.Errorf("common of %q and %q is %q and %q, want %q", c[0], c[1], got, back, c[2])
		}
	}
}
