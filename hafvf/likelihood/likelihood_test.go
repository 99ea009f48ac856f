package likelihood

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// near fails unless got is within tolerance of want, or both are NaN.
func near(t *testing.T, got, want, tolerance float64, what string) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) && !(math.IsNaN(got) && math.IsNaN(want)) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// For a parabola, the interval of the profile is known: 1.96 standard deviations on either side, for any
// correlation.
func TestParabola(t *testing.T) {
	const rho, sd = .9, .02
	p := Problem{Parameters: []Parameter{NewParameter(0, Real), NewParameter(1, Positive)}, Evidence: func(values []float64) float64 {
		x, y := (values[0]-250)/sd, math.Log(values[1]/40)
		return 7 - (x*x-2*rho*x*y+y*y)/2/(1-rho*rho)
	}}
	m := p.Maximise()
	width := math.Sqrt(2 * Fall)
	expect.Same(t, Converged, m.Outcome)
	near(t, m.Evidence, 7, 1e-3, "evidence")
	near(t, p.Peak()[0], 250, .02*sd, "the peak")
	near(t, m.Values[0], 250, .02*sd, "the maximum")
	near(t, m.Lower[0], 250-width*sd, .02*sd, "lower")
	near(t, m.Upper[0], 250+width*sd, .02*sd, "upper")
	near(t, math.Log(m.Lower[1]/40), -width, .02, "lower of the other")
	near(t, math.Log(m.Upper[1]/40), width, .02, "upper of the other")
}

// If a profile rises above the first maximum, the search continues there.
func TestJump(t *testing.T) {
	m := Problem{Parameters: []Parameter{NewParameter(1, Positive)}, Evidence: func(values []float64) float64 {
		u := math.Log(values[0])
		if u > .6 && u < 1.4 {
			return 3 - 200*(u-1)*(u-1)
		}
		return -u * u
	}}.Maximise()
	near(t, math.Log(m.Values[0]), 1, .01, "the maximum")
	near(t, m.Evidence, 3, .01, "evidence")
}

// A share whose evidence increases up to 1 is at its bound. The search fails if there is no evidence anywhere.
func TestOutcomes(t *testing.T) {
	m := Problem{Parameters: []Parameter{NewParameter(.5, Share)}, Evidence: func(values []float64) float64 { return 10 * values[0] }}.Maximise()
	expect.Same(t, AtBound, m.Outcome)
	expect.Same(t, []float64{1}, m.Values)
	near(t, m.Lower[0], 1-Fall/10, .01, "lower")
	near(t, m.Upper[0], math.NaN(), 0, "upper")
	m = Problem{Parameters: []Parameter{NewParameter(.5, Share)}, Evidence: func(values []float64) float64 { return math.Inf(-1) }}.Maximise()
	expect.Same(t, Failed, m.Outcome)
}

// tosses returns tosses of a coin whose chance reverses after the given number of tosses.
func tosses(seed uint64, every int) (values [][]float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for t := range 300 {
		x := 0.
		if (rng.Float64() < .85) == (t/every%2 == 0) {
			x = 1
		}
		values = append(values, []float64{x})
	}
	return values
}

// levelProblem returns the problem of fitting α and β of the only level to xs.
func levelProblem(xs [][]float64) Problem {
	return Problem{Parameters: []Parameter{NewShape(.9), NewShape(.1)}, Pairs: [][2]int{{0, 1}}, Evidence: func(values []float64) (nats float64) {
		f := hafvf.NewFilter(bernoulli, []hafvf.Beta{{Alpha: values[0], Beta: values[1]}}, 1)
		s := f.NewState()
		for _, x := range xs {
			nats += f.Update(s, x).LogPredictive
		}
		return nats
	}}
}

var bernoulli = func() hafvf.Model {
	f, err := hafvf.Config{Family: "bernoulli"}.Filter()
	if err != nil {
		panic(err)
	}
	return f.Model()
}()

// No point of a grid has more evidence than the maximum, whether it is inside or on the ridge of large sums,
// where the upper sides of both intervals are open. The profile at an end of an interval, from a separate grid,
// is 1.92 nats below the maximum.
func TestGrid(t *testing.T) {
	for _, seed := range []uint64{0, 1} {
		p := levelProblem(tosses(seed, 40))
		m := p.Maximise()
		best := math.Inf(-1)
		for mean := 0.; mean <= 4; mean += .5 {
			for sum := -2.; sum <= 7; sum += .5 {
				c := math.Min(math.Exp(sum), maxSum)
				best = math.Max(best, p.Evidence([]float64{expit(mean) * c, (1 - expit(mean)) * c}))
			}
		}
		if m.Evidence < best {
			t.Errorf("seed %d: evidence %g, on a grid %g", seed, m.Evidence, best)
		}
		expect.Same(t, AtBound, m.Outcome, seed)
		near(t, m.Upper[0]+m.Upper[1], math.NaN(), 0, "upper")
		profile := math.Inf(-1)
		for beta := -6.; beta < 6; beta += .1 {
			profile = math.Max(profile, p.Evidence([]float64{m.Lower[0], math.Exp(beta)}))
		}
		near(t, m.Evidence-profile, Fall, .05, "the fall")
		if seed == 1 {
			near(t, m.Values[0]+m.Values[1], maxSum, 1e-6, "the sum")
			expect.Same(t, m.Values, p.Maximise().Values, "once more")
		}
	}
}
