package hafvf_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"hafvf/hafvf"
	"hafvf/hafvf/segments"
	"hafvf/internal/testing/familytest"
)

var tcpdDir = flag.String("tcpd", "", "folder with series of the Turing Change Point Dataset, annotations.json and published_default_scores.json")

// tcpdSeries returns the series of the folder by name, z-scored. It leaves out uk_coal_employ, for which most
// published methods have no score.
func tcpdSeries(t testing.TB) map[string][]float64 {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(*tcpdDir, "*.json")))
	out := map[string][]float64{}
	for _, file := range files {
		var s struct {
			Name   string
			Series []struct{ Raw []*float64 }
		}
		familytest.ReadJSON(t, file, &s)
		if len(s.Series) != 1 || s.Name == "uk_coal_employ" {
			continue
		}
		x := make([]float64, len(s.Series[0].Raw))
		for i, v := range s.Series[0].Raw {
			x[i] = math.NaN()
			if v != nil {
				x[i] = *v
			}
		}
		zScore(x)
		out[s.Name] = x
	}
	if len(out) == 0 {
		t.Fatalf("no series in %q", *tcpdDir)
	}
	return out
}

// zScore scales the values that are not missing to mean 0 and variance 1.
func zScore(x []float64) {
	mean, variance := stat.PopMeanVariance(slices.DeleteFunc(slices.Clone(x), math.IsNaN), nil)
	for i := range x {
		x[i] = (x[i] - mean) / math.Sqrt(variance)
	}
}

// covering measures how well the segments between changes cover the segments of the annotators (van den Burg
// and Williams 2020, equation 6), averaged over the annotators.
func covering(annotations map[string][]int, changes []int, n int) float64 {
	segments := func(changes []int) [][2]int {
		var out [][2]int
		from := 0
		for _, c := range append(slices.Clone(changes), n) {
			if c > from {
				out = append(out, [2]int{from, c})
				from = c
			}
		}
		return out
	}
	found := segments(changes)
	sum := 0.0
	for _, a := range annotations {
		for _, s := range segments(a) {
			best := 0.0
			for _, f := range found {
				both := float64(max(0, min(s[1], f[1])-max(s[0], f[0])))
				either := float64(max(s[1], f[1])-min(s[0], f[0])) - max(0, float64(max(s[0], f[0])-min(s[1], f[1])))
				best = max(best, both/either)
			}
			sum += best * float64(s[1]-s[0]) / float64(n)
		}
	}
	return sum / float64(len(annotations))
}

// f1 returns the F₁ of the changes within a margin. Precision is against all annotators together, and recall is
// the mean over them. Index 0 counts as a change of every annotator (van den Burg and Williams 2020, section
// 4.2).
func f1(annotations map[string][]int, changes []int, margin int) float64 {
	withStart := func(list []int) []int {
		return slices.Compact(slices.Sorted(slices.Values(append([]int{0}, list...))))
	}
	changes = withStart(changes)
	hits := func(truth []int) float64 {
		free := slices.Clone(changes)
		n := 0
		for _, t := range truth {
			near := slices.DeleteFunc(slices.Clone(free), func(c int) bool { return max(c-t, t-c) > margin })
			if len(near) == 0 {
				continue
			}
			best := slices.MinFunc(near, func(a, b int) int {
				return cmp.Or(cmp.Compare(max(a-t, t-a), max(b-t, t-b)), cmp.Compare(a, b))
			})
			free = slices.DeleteFunc(free, func(c int) bool { return c == best })
			n++
		}
		return float64(n)
	}
	var merged []int
	recall := 0.0
	for _, a := range annotations {
		a = withStart(a)
		merged = append(merged, a...)
		recall += hits(a) / float64(len(a)) / float64(len(annotations))
	}
	precision := hits(withStart(merged)) / float64(len(changes))
	return 2 * precision * recall / (precision + recall)
}

func TestScores(t *testing.T) {
	annotations := map[string][]int{"a": {10}, "b": {}}
	for _, c := range []struct {
		changes         []int
		covering, score float64
	}{
		{nil, (.5 + 1) / 2, 2 * .75 / 1.75},                                   // P 1, R (1/2 + 1)/2
		{[]int{10}, (1 + .5) / 2, 1},                                          // P 1, R 1
		{[]int{15}, (10./15/2 + .5*.5 + .75) / 2, 1},                          // within the margin
		{[]int{3, 10}, ((10*.7+10*1)/20 + .5) / 2, 2 * (2. / 3) / (1 + 2./3)}, // P 2/3
	} {
		got := covering(annotations, c.changes, 20)
		if math.Abs(got-c.covering) > 1e-12 {
			t.Errorf("covering of %v is %g, want %g", c.changes, got, c.covering)
		}
		if got := f1(annotations, c.changes, 5); math.Abs(got-c.score) > 1e-12 {
			t.Errorf("F1 of %v is %g, want %g", c.changes, got, c.score)
		}
	}
}

// BenchmarkTCPD prints covering and F1 per series of the Turing Change Point Dataset, for the changes of both
// ways of smoothing, next to the published scores of other methods with their default settings:
//
//	go test ./hafvf -run - -bench 'TCPD$' -benchtime 1x -tcpd DIR
func BenchmarkTCPD(b *testing.B) {
	if *tcpdDir == "" {
		b.Skip("-tcpd DIR names no dataset")
	}
	m := familytest.New(b, "normal", nil)
	f := hafvf.NewFilter(m, []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, 1)
	smoother := segments.NewSegmenter(m, 10)
	series := tcpdSeries(b)
	for _, method := range []struct {
		name    string
		changes func(steps [][][]float64) []int
	}{
		{"segments", func(steps [][][]float64) []int { return smoother.Smooth(steps).Changes() }},
		{"segments, own prior", func(steps [][][]float64) []int {
			own := segments.NewSegmenter(m, 10)
			own.Fit(slices.Concat(steps...))
			return own.Smooth(steps).Changes()
		}},
		{"one weight", func(steps [][][]float64) []int { return hafvf.Changes(f.Smooth(steps).Evidence, 10) }},
	} {
		b.Run(method.name, func(b *testing.B) {
			found := map[string][]int{}
			for b.Loop() {
				for name, x := range series {
					found[name] = method.changes(familytest.Single(x))
				}
			}
			cover, score := tcpdTable(b, series, found)
			b.ReportMetric(cover, "covering")
			b.ReportMetric(score, "F1")
		})
	}
}

// tcpdTable prints the scores of found per series, and returns their means.
func tcpdTable(t testing.TB, series map[string][]float64, found map[string][]int) (cover, score float64) {
	t.Helper()
	var annotations map[string]map[string][]int
	familytest.ReadJSON(t, filepath.Join(*tcpdDir, "annotations.json"), &annotations)
	var published struct {
		Cover map[string]map[string]*float64 `json:"default_cover"`
		F1    map[string]map[string]*float64 `json:"default_f1"`
	}
	familytest.ReadJSON(t, filepath.Join(*tcpdDir, "published_default_scores.json"), &published)
	names := slices.Sorted(maps.Keys(series))
	methods := slices.Sorted(maps.Keys(published.Cover[names[0]]))
	for _, kind := range []struct {
		title string
		score func(name string) float64
		other map[string]map[string]*float64
		mean  *float64
	}{
		{"covering", func(n string) float64 { return covering(annotations[n], found[n], len(series[n])) }, published.Cover, &cover},
		{"F1, margin 5", func(n string) float64 { return f1(annotations[n], found[n], 5) }, published.F1, &score},
	} {
		fmt.Printf("\n%-18s %8s", kind.title, "hafvf")
		for _, m := range methods {
			fmt.Printf(" %8s", m)
		}
		means := make([]float64, len(methods))
		for _, n := range names {
			own := kind.score(n)
			*kind.mean += own / float64(len(names))
			fmt.Printf("\n%-18s %8.3f", n, own)
			for i, m := range methods {
				v := kind.other[n][m]
				if v == nil {
					fmt.Printf(" %8s", "–")
					continue
				}
				means[i] += *v / float64(len(names))
				fmt.Printf(" %8.3f", *v)
			}
		}
		fmt.Printf("\n%-18s %8.3f", "mean, – is 0", *kind.mean)
		for i := range methods {
			fmt.Printf(" %8.3f", means[i])
		}
		fmt.Println()
	}
	return cover, score
}
