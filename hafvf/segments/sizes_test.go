package segments

import (
	"bytes"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
	"hafvf/testdata"
)

// Edges of the bundled series of servers are where a person sees them: in 825cc2 a fall and its end, in ac20cd
// a fall, its bottom, its end and the rise at the end. The series also have shifts of a twentieth of these
// sizes, which are no edges.
func TestEdgesOfServers(t *testing.T) {
	rows := expect.Get(csv.NewReader(bytes.NewReader(testdata.CloudCSV)).ReadAll())(t)
	series := map[string][][]float64{}
	for _, row := range rows[1:] {
		v := expect.Get(strconv.ParseFloat(row[2], 64))(t)
		series[row[0]] = append(series[row[0]], []float64{v})
	}
	for key, want := range map[string][]int{
		"ec2_cpu_825cc2": {1192, 1322},
		"ec2_cpu_ac20cd": {379, 421, 592, 3576},
		"rds_cpu_cc0c53": {1814},
		"rds_cpu_e47b3b": {658, 2297},
	} {
		xs := series[key]
		m := familytest.New(t, "normal", nil).(expfam.Fitted)
		var steps [][][]float64
		for i := range xs {
			steps = append(steps, xs[i:i+1])
		}
		got := NewSegmenter(m.Fit(m.LocationScale(xs)), 10).Smooth(steps).Changes()
		if !slices.EqualFunc(got, want, func(a, b int) bool { return max(a-b, b-a) <= 2 }) {
			t.Errorf("%s has edges at %v, want about %v", key, got, want)
		}
	}
}

// sampleOf returns the sample of the given observations.
func sampleOf(m expfam.Model, values ...[]float64) []float64 {
	d := make([]float64, m.Len())
	for _, x := range values {
		m.Observe(d, x, 1)
	}
	return d
}

// The prior of sizes follows its definition: for two levels at distance δ, one of which has a quarter of the
// observations, V is 3/16 of δ².
func TestSizesOfLevels(t *testing.T) {
	m := familytest.New(t, "poisson", expfam.Params{"shape": 1e-9, "rate": 1e-9})
	level := func(v float64, n int) block {
		var x [][]float64
		for range n {
			x = append(x, []float64{v})
		}
		return block{regular: float64(n), d: sampleOf(m, x...)}
	}
	// Counts with means 4 and 9 have standard deviations 2 and 3, up to the contribution of 1000 observations.
	blocks := []block{level(4, 1000), level(4, 2000), level(9, 1000)}
	z := newSizes(m, blocks)
	const square = 5*5 + 1
	if v := z.variance[0]; math.Abs(v/(3./16*square)-1) > 1e-3 {
		t.Errorf("variance %g, want %g", v, 3./16*square)
	}
	if p := z.logPrior(&blocks[1], &blocks[2]); math.Abs(p+3./16) > 1e-3 {
		t.Errorf("log prior %g, want %g", p, -3./16)
	}
	small := level(5, 1000)
	if p, want := z.logPrior(&blocks[1], &small), -3./16*square/(1+math.Pow(math.Sqrt(5)-2, 2)); math.Abs(p/want-1) > 1e-2 {
		t.Errorf("log prior of a small change %g, want %g", p, want)
	}
}

// With several coordinates, the coordinate with the largest change counts. The units of the coordinates do not
// matter.
func TestSizesOfCoordinates(t *testing.T) {
	m := familytest.New(t, "mvnormal", expfam.Params{"mu": []float64{0, 0}})
	rng := rand.New(rand.NewPCG(5, 20))
	var steps [][][]float64
	for i := range 900 {
		x := []float64{1e3 * (rng.NormFloat64() + 40*float64(i/300%2)), 1e-3 * (rng.NormFloat64() + 6*float64(i/450))}
		steps = append(steps, [][]float64{x})
	}
	f := m.(expfam.Fitted)
	var xs [][]float64
	for _, step := range steps {
		xs = append(xs, step[0])
	}
	expect.Same(t, []int{300, 450, 600}, NewSegmenter(f.Fit(f.LocationScale(xs)), 10).Smooth(steps).Changes(), "edges")
}
