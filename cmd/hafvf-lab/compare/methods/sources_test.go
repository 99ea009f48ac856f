package methods

import (
	_ "embed"
	"hafvf/internal/testing/expect"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"
)

// nile is the annual flow of the Nile at Aswan, 1871 to 1970, in 10⁸ m³ (data set Nile of R; Durbin and Koopman 2012,
// section 2.2.5).
var nile = []float64{
	1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
	1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
	831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
	781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890,
	744, 749, 838, 1050, 918, 986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
}

// Durbin and Koopman 2012 give σ²ε = 15,099 and σ²η = 1,469.1 for the Nile. KFAS gives 15098.53, 1469.178 and the
// diffuse log-likelihood -632.5456, to which the diffuse first observation adds nothing.
func TestKalmanNile(t *testing.T) {
	l := fitLevel(nile)
	near(t, l.noise, 15098.53, 2, "variance of the observation")
	near(t, l.noise*l.q, 1469.178, .5, "variance of the level")
	logLikelihood, _ := profile(nile, l.q)
	near(t, logLikelihood, -632.5456, 1e-4, "log-likelihood")
	// The product of the predictive densities of the filter is the likelihood.
	k, sum := &kalman{level: l, due: math.MaxInt}, 0.0
	for _, x := range nile {
		if v := k.Update(x).LogPredictive; !math.IsNaN(v) {
			sum += v
		}
	}
	near(t, sum, logLikelihood, 1e-9, "sum of log predictive densities")
}

// The smoother equals the joint posterior of all levels, computed from the precision matrix of the random walk and
// the observations. No figure of a source was at hand.
func TestSmootherEqualsPosterior(t *testing.T) {
	const q, noise, n = .3, 4., 40
	x := nile[:n]
	precision := mat.NewSymDense(n, nil)
	for i := range n {
		precision.SetSym(i, i, precision.At(i, i)+1)
		if i > 0 {
			precision.SetSym(i, i, precision.At(i, i)+1/q)
			precision.SetSym(i-1, i-1, precision.At(i-1, i-1)+1/q)
			precision.SetSym(i-1, i, -1/q)
		}
	}
	var c mat.Cholesky
	var mean mat.VecDense
	var covariance mat.SymDense
	if !c.Factorize(precision) || c.SolveVecTo(&mean, mat.NewVecDense(n, x)) != nil || c.InverseTo(&covariance) != nil {
		t.Fatal("the precision has no inverse")
	}
	s := smooth(x, level{q: q, noise: noise})
	for i := range n {
		if sd := math.Sqrt(noise * covariance.At(i, i)); math.Abs(s.mean[i]-mean.AtVec(i)) > 1e-8 || math.Abs(s.sd[i]-sd) > 1e-10 {
			t.Errorf("level %d: %g ± %g, want %g ± %g", i, s.mean[i], s.sd[i], mean.AtVec(i), sd)
		}
	}
}

// hgfTrajectory holds mean and precision of both levels after the first inputs of the test of
// HierarchicalGaussianFiltering.jl (canonical_continuous2level_states.csv; its canonical_python_trajectory.csv, from
// the predecessor of pyhgf, has the same values). The parameters are log π_u = -log 1e-4, ω₁ = -13 and ω₂ = -2. The
// first row holds the initial beliefs.
var hgfTrajectory = [][4]float64{
	{1.04, 10000, 1, 10},
	{1.0377859183728282, 19421.14485405236, .9968176766176965, 4.262927405210326},
	{1.0356343652765874, 27356.60292609981, .9912464787404184, 2.7209034885694074},
	{1.035713779037935, 33449.45748763647, .9806517544115745, 2.014066431783733},
	{1.0353401374634459, 37837.840713206024, .9670953712384849, 1.6112573856990209},
	{1.0341075009575311, 40889.081568333735, .9536645358955237, 1.351150979981181},
	{1.033803281682517, 42978.899265017484, .9347556018580616, 1.1746056078573477},
	{1.0331951876898318, 44454.99733651431, .9146351446059363, 1.0458580024708237},
	{1.0330644963665083, 45541.48467524502, .8915131520928045, .9494312809099394},
	{1.0312619059104464, 46402.64425222021, .880266008130474, .8673018470409876},
	{1.0298242777889768, 47035.15331582184, .8632002296383864, .8047601979020058},
	{1.027233329897654, 47566.67561802711, .8688802063536627, .7434596979987801},
	{1.0252623519883792, 47861.16502505841, .8598656651059841, .7000455235214001},
}

// The inputs are exchange rates with four decimals. They follow from the trajectory: a mean moves by π_u/π₁ of the
// distance to the input.
func TestHGFTrajectory(t *testing.T) {
	first := hgfTrajectory[0]
	s := hgfState{levels: 2, params: hgfParams{math.Log(1e4), -13, -2}, mu: [maxHGF]float64{first[0], first[2]}, pi: [maxHGF]float64{first[1], first[3]}}
	for i, want := range hgfTrajectory[1:] {
		u := s.mu[0] + (want[0]-s.mu[0])*want[1]/1e4
		u = math.Round(u*1e4) / 1e4
		if _, ok := s.update(u); !ok {
			t.Fatalf("input %d: a precision is not positive", i+1)
		}
		for j, got := range [4]float64{s.mu[0], s.pi[0], s.mu[1], s.pi[1]} {
			near(t, got/want[j], 1, 1e-9, "input ", i+1, ": number ", j, " as a share of the expected one")
		}
	}
}

// The test test_input_continuous of ghgf, the predecessor of pyhgf: three inputs of .5 move levels of infinite
// precision, and then an input of 1e5 makes a precision negative.
func TestHGFNegativePrecision(t *testing.T) {
	s := hgfState{levels: 2, params: hgfParams{0, -12, -2}, mu: [maxHGF]float64{1.04, 1}, pi: [maxHGF]float64{math.Inf(1), math.Inf(1)}}
	for i := range 3 {
		if _, ok := s.update(.5); !ok {
			t.Fatalf("input %d: a precision is not positive", i)
		}
		if i == 0 && (math.Abs(s.mu[0]-1.0399909812322021) > 1e-15 || math.Abs(s.mu[1]-.99999925013985835) > 1e-15) {
			t.Errorf("means %.17g and %.17g, want 1.0399909812322021 and .99999925013985835", s.mu[0], s.mu[1])
		}
	}
	if _, ok := s.update(1e5); ok {
		t.Error("no precision is negative")
	}
}

// A third level that is certain and constant adds its mean to ω₂. No figure of a source was at hand for three levels.
func TestHGFThirdLevel(t *testing.T) {
	two := hgfState{levels: 2, params: hgfParams{0, -3, -2 + .7}, mu: [maxHGF]float64{0, 1}, pi: [maxHGF]float64{1, 10}}
	three := hgfState{levels: 3, params: hgfParams{0, -3, -2, -40}, mu: [maxHGF]float64{0, 1, .7}, pi: [maxHGF]float64{1, 10, 1e15}}
	moving := three
	moving.pi[2] = 1
	for i, u := range normals(30) {
		two.update(u / 10)
		three.update(u / 10)
		moving.update(u / 10)
		for j := range 2 {
			if math.Abs(two.mu[j]-three.mu[j]) > 1e-9 || math.Abs(two.pi[j]/three.pi[j]-1) > 1e-9 {
				t.Fatalf("input %d, level %d: %g and %g with two levels, %g and %g with three", i, j, two.mu[j], two.pi[j], three.mu[j], three.pi[j])
			}
		}
	}
	if math.Abs(moving.mu[2]-.7) < 1e-3 {
		t.Error("a third level with variance did not move")
	}
}

// A nig is the conjugate posterior of a normal distribution, with textbook parameters.
type nig struct{ mu, kappa, alpha, beta float64 }

func (p nig) after(x float64) nig {
	return nig{(p.kappa*p.mu + x) / (p.kappa + 1), p.kappa + 1, p.alpha + .5, p.beta + p.kappa*(x-p.mu)*(x-p.mu)/(2*(p.kappa+1))}
}

// logPredictive returns the log density of Student's t distribution.
func (p nig) logPredictive(x float64) float64 {
	nu, scale2 := 2*p.alpha, p.beta*(p.kappa+1)/(p.alpha*p.kappa)
	up, _ := math.Lgamma((nu + 1) / 2)
	low, _ := math.Lgamma(nu / 2)
	return up - low - .5*math.Log(nu*math.Pi*scale2) - (nu+1)/2*math.Log1p((x-p.mu)*(x-p.mu)/(nu*scale2))
}

// start returns the start of a normal stream with the prior of Begin, and the same prior as naive.
func start(t *testing.T, first []float64) (s Start, naive nig) {
	t.Helper()
	s = expect.Get(Begin("normal", first))(t)
	p := make([]float64, 4)
	s.Model.Posterior(p, make([]float64, s.Model.Len()))
	return s, nig{p[0], p[1], p[2], p[3]}
}

// Without pruning, Bayesian online changepoint detection equals the average over all 2ⁿ⁻¹ segmentations of a short
// series.
func TestBOCPDEnumeration(t *testing.T) {
	x := []float64{.2, -.4, .1, 5, 5.6, 4.8, 4.9, 0, .3, -.2}
	const hazard = .1
	s, naive := start(t, x)
	evidence := func(n int) float64 {
		var terms []float64
		for cuts := range 1 << (n - 1) {
			l, p := 0.0, naive
			for i := range n {
				switch {
				case i == 0:
				case cuts>>(i-1)&1 == 1:
					l += math.Log(hazard)
					p = naive
				default:
					l += math.Log1p(-hazard)
				}
				l += p.logPredictive(x[i])
				p = p.after(x[i])
			}
			terms = append(terms, l)
		}
		return logSum(terms...)
	}
	b := newBOCPD(s, hazard, 0, 0)
	sum := 0.0
	for i, v := range x {
		sum += b.Update(v).LogPredictive
		near(t, sum, evidence(i+1), 1e-10, "log evidence of ", i+1, " observations")
	}
}

// Pruning costs little. After one outlier the plain form reports a change, and the robust form does not.
func TestBOCPDPruning(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	x := make([]float64, 1200)
	for i := range x {
		x[i] = rng.NormFloat64()
		if i >= 800 {
			x[i] += 4
		}
	}
	x[400] = 9
	s, _ := start(t, x[:50])
	unpruned, pruned, robust := newBOCPD(s, 1e-3, 0, 0), newBOCPD(s, 1e-3, 0, 1e-6), newBOCPD(s, 1e-3, .01, 1e-6)
	lost, nReported, robustStarts := 0.0, 0, []int{}
	for i, v := range x {
		a, b, c := unpruned.Update(v), pruned.Update(v), robust.Update(v)
		lost += a.LogPredictive - b.LogPredictive
		if b.Change && i > 50 {
			nReported++
		}
		if c.Change && i > 50 {
			robustStarts = append(robustStarts, i-c.Age)
		}
	}
	near(t, lost, 0, .1, "nats that pruning loses")
	if pruned.Bytes()*2 > unpruned.Bytes() {
		t.Errorf("%d bytes, %d without pruning", pruned.Bytes(), unpruned.Bytes())
	}
	if nReported < 2 || len(robustStarts) != 1 || robustStarts[0] != 800 {
		t.Errorf("%d changes reported, and by the robust form at %v; want at least 2, and 800", nReported, robustStarts)
	}
}

// At weight w the sample is exponentially weighted. Its posterior follows from textbook formulas.
func TestForgetting(t *testing.T) {
	x := normals(40)
	s, naive := start(t, x)
	const w = .9
	f := newForgetting(s, w)
	for i, v := range x {
		// θ₀ + w·d of the past, by sums.
		n, sum, square := 0.0, 0.0, 0.0
		for j, u := range x[:i] {
			c := math.Pow(w, float64(i-j))
			n += c
			sum += c * u
			square += c * u * u
		}
		p := nig{mu: (naive.kappa*naive.mu + sum) / (naive.kappa + n), kappa: naive.kappa + n, alpha: naive.alpha + n/2}
		p.beta = naive.beta + .5*(square+naive.kappa*naive.mu*naive.mu-p.kappa*p.mu*p.mu)
		near(t, f.Update(v).LogPredictive, p.logPredictive(v), 1e-9, "observation ", i, ": log predictive")
	}
	// For a stream without changes, hindsight selects a weight near 1.
	whole := normals(400)[:200]
	s.Whole = whole
	if f := bestForgetting(s).(*forgetting); f.w < .9995 {
		t.Errorf("weight %g of a stationary stream", f.w)
	}
}

// E[w] of the truncated exponential distribution; and for both mixtures the fixed point, which maximises the bound of
// the source. The maximum is found on a grid. The sources give no figures of single steps.
func TestMixtures(t *testing.T) {
	for _, omega := range []float64{-30, -2, -1e-4, 0, .5, 3, 100} {
		density := func(w float64) float64 { return math.Exp(omega * (w - 1)) }
		want := quad.Fixed(func(w float64) float64 { return w * density(w) }, 0, 1, 200, nil, 0) / quad.Fixed(density, 0, 1, 200, nil, 0)
		near(t, truncatedMean(omega), want, 1e-7, "ω = ", omega)
	}
	x := append(normals(30)[:12], 9)
	s, _ := start(t, x)
	const gamma = 20
	a, b := newTruncated(s, gamma), newLinear(s, 99, 1)
	for i, v := range x {
		// E_q[log p(x, z|w)] − E_q[log q(z)] as a function of q(z) = θ₀ + wd + T(x), with E[w] = w.
		bound := func(f *stabilised, w float64) float64 {
			trial := append([]float64(nil), f.d...)
			f.learn(trial, w)
			q, past, empty := make([]float64, 4), make([]float64, 4), make([]float64, 3)
			naive := make([]float64, 4)
			f.Posterior(q, trial)
			f.Posterior(past, f.d)
			f.Posterior(naive, empty)
			precision, logVariance := q[2]/q[3], math.Log(q[3])-mathext.Digamma(q[2])
			likelihood := -.5 * (math.Log(2*math.Pi) + logVariance + precision*(v-q[0])*(v-q[0]) + 1/q[1])
			return likelihood + w*expectedLog("normal", q, past) + (1-w)*expectedLog("normal", q, naive) - expectedLog("normal", q, q)
		}
		a.see(v)
		b.see(v)
		prior := mathext.Digamma(b.a) - mathext.Digamma(b.b)
		// Entropies of q(w) with mean w, plus the expectation of the log prior.
		truncatedTerm := func(omega float64) float64 {
			w := truncatedMean(omega)
			logZ := omega + math.Log(-math.Expm1(-omega)/omega)
			return gamma*w - (omega*w - logZ)
		}
		bernoulliTerm := func(w float64) float64 { return prior*w - w*math.Log(w) - (1-w)*math.Log1p(-w) }
		bestA, maxA, bestB, maxB := 0.0, math.Inf(-1), 0.0, math.Inf(-1)
		for omega := -149.995; omega < 150; omega += .01 {
			if l := bound(&a.stabilised, truncatedMean(omega)) + truncatedTerm(omega); l > maxA {
				bestA, maxA = truncatedMean(omega), l
			}
		}
		for logit := -12.; logit < 12; logit += .002 {
			w := 1 / (1 + math.Exp(-logit))
			if l := bound(&b.stabilised, w) + bernoulliTerm(w); l > maxB {
				bestB, maxB = w, l
			}
		}
		oldA, oldB := b.a, b.b
		nA := a.d[0]
		a.Update(v)
		b.Update(v)
		if i > 0 {
			near(t, (a.d[0]-1)/nA, bestA, 2e-3, "observation ", i, ": weight of the truncated exponential")
		}
		near(t, b.a-oldA, bestB, 2e-3, "observation ", i, ": weight of the linear mixture")
		near(t, b.b-oldB, 1-bestB, 2e-3, "observation ", i, ": forgotten share of the linear mixture")
	}
}

// betaOfLogs inverts meanLogs.
func TestBetaOfLogs(t *testing.T) {
	for _, want := range []betaPrior{{.9, .1}, {1, 1}, {30, 2}, {.05, 4}, {500, 3}} {
		logW, log1W := want.meanLogs()
		got := betaOfLogs(logW, log1W, betaPrior{1, 1})
		if math.Abs(got.a/want.a-1) > 1e-7 || math.Abs(got.b/want.b-1) > 1e-7 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	// ψ′(1) = π²/6, ψ′(½) = π²/2 (Abramowitz and Stegun, 6.4).
	if a, b := trigamma(1), trigamma(.5); math.Abs(a-math.Pi*math.Pi/6) > 1e-12 || math.Abs(b-math.Pi*math.Pi/2) > 1e-12 {
		t.Errorf("ψ′(1) = %g, ψ′(½) = %g", a, b)
	}
	rng := rand.New(rand.NewPCG(1, 4))
	sum, n := 0.0, 100000.0
	for range int(n) {
		w, logW, log1W := betaPrior{.9, .1}.rand(rng)
		sum += w
		if math.Abs(math.Exp(logW)-w) > 1e-12 || math.Abs(math.Exp(logW)+math.Exp(log1W)-1) > 1e-12 {
			t.Fatalf("w = %g with the logarithms %g and %g", w, logW, log1W)
		}
	}
	if math.Abs(sum/n-.9) > 5*math.Sqrt(.9*.1/2/n) {
		t.Errorf("the mean of draws from Beta(.9, .1) is %g", sum/n)
	}
}

// The particle filter against the same model, integrated on a grid of the log-odds of w and b over all histories of a
// short series. The tolerance is four standard errors of the mean over independent filters, plus .3 % for the error
// of a finite number of particles.
func TestParticleGrid(t *testing.T) {
	x := []float64{.3, -.5, 4, 3.7}
	s, _ := start(t, x)
	const filters, n = 30, 2000
	sums, squares := make([]float64, len(x)), make([]float64, len(x))
	for i := range filters {
		s.Seed = uint64(i)
		p := newParticle(s, n)
		for j, v := range x {
			l := math.Exp(p.Update(v).LogPredictive)
			sums[j] += l / filters
			squares[j] += l * l / filters
		}
	}
	for j, want := range particleGrid(s, x) {
		se := math.Sqrt((squares[j] - sums[j]*sums[j]) / filters)
		t.Logf("observation %d: density %.5f ± %.5f, on the grid %.5f", j, sums[j], se, want)
		near(t, sums[j], want, 4*se+.003*want, "observation ", j, ": density")
	}
}

// particleGrid returns the predictive densities of the observations, by integration on a grid.
func particleGrid(s Start, x []float64) (densities []float64) {
	type node struct{ w, logW, log1W float64 }
	grid := func(lo, hi, step float64) (nodes []node) {
		for u := lo; u <= hi; u += step {
			w := 1 / (1 + math.Exp(-u))
			nodes = append(nodes, node{w, -math.Log1p(math.Exp(-u)), -u - math.Log1p(math.Exp(-u))})
		}
		return nodes
	}
	density := func(n node, p betaPrior) float64 { // as a function of the log-odds
		return math.Exp(p.a*n.logW + p.b*n.log1W - mathext.Lbeta(p.a, p.b))
	}
	const stepW, stepB = 1.25, .5
	ws, bs := grid(-30, 160, stepW), grid(-25, 25, stepB)
	naiveW, naiveB := betaPrior{.9, .1}, betaPrior{1, 1}
	posteriorW, posteriorB := naiveW, naiveB
	c := newConjugate(s.Model)
	type history struct {
		d []float64
		p float64
	}
	histories := []history{{make([]float64, s.Model.Len()), 1}}
	for _, v := range x {
		c.see(v)
		evidence := 0.0
		var logs [4]float64
		likelihood := make([]float64, len(ws)) // by w
		prior := make([]float64, len(ws))
		var next []history
		for i, w := range ws {
			for _, h := range histories {
				l := h.p * math.Exp(c.predictive(h.d, w.w))
				likelihood[i] += l
			}
			for _, b := range bs {
				p := density(b, naiveB.towards(posteriorB, 1)) * stepB * density(w, naiveW.towards(posteriorW, b.w)) * stepW
				prior[i] += p
				e := p * likelihood[i]
				evidence += e
				for j, l := range [4]float64{w.logW, w.log1W, b.logW, b.log1W} {
					logs[j] += e * l
				}
			}
		}
		densities = append(densities, evidence)
		posteriorW = betaOfLogs(logs[0]/evidence, logs[1]/evidence, posteriorW)
		posteriorB = betaOfLogs(logs[2]/evidence, logs[3]/evidence, posteriorB)
		for _, h := range histories {
			for i, w := range ws {
				p := h.p * prior[i] * math.Exp(c.predictive(h.d, w.w)) / evidence
				if p < 1e-9 {
					continue
				}
				d := append([]float64(nil), h.d...)
				c.learn(d, w.w)
				next = append(next, history{d, p})
			}
		}
		if len(densities) == 1 { // all histories are the same: nothing was forgotten
			next = []history{{next[0].d, 1}}
		}
		histories = next
	}
	return densities
}

// meanRunLength returns the mean number of standard normal observations, moved by shift, until the chart raises an
// alarm.
func meanRunLength(c chart, shift float64, runs int) float64 {
	rng := rand.New(rand.NewPCG(1, 5))
	n := 0
	for range runs {
		c.reset()
		for {
			n++
			if alarm, _ := c.watch(rng.NormFloat64() + shift); alarm {
				break
			}
		}
	}
	return float64(n) / float64(runs)
}

// Montgomery, Introduction to Statistical Quality Control, chapter 9: average run lengths of the two-sided tabular
// CUSUM with k = ½, and of the EWMA chart with λ = .1 and L = 2.814 (after Lucas and Saccucci 1990). The tolerance is
// four standard errors plus half a unit of the table's last digit.
func TestAverageRunLengths(t *testing.T) {
	for _, c := range []struct {
		name              string
		chart             chart
		shift, want, unit float64
		runs              int
	}{
		{"CUSUM h = 4, no shift", &cusum{k: .5, h: 4}, 0, 168, 1, 20000},
		{"CUSUM h = 4, shift 1", &cusum{k: .5, h: 4}, 1, 8.38, .01, 20000},
		{"CUSUM h = 5, no shift", &cusum{k: .5, h: 5}, 0, 465, 1, 20000},
		{"CUSUM h = 5, shift 1", &cusum{k: .5, h: 5}, 1, 10.4, .1, 20000},
		{"EWMA, no shift", &ewma{lambda: .1, width: 2.814}, 0, 500, 1, 20000},
		{"EWMA, shift 1", &ewma{lambda: .1, width: 2.814}, 1, 10.3, .1, 20000},
	} {
		got := meanRunLength(c.chart, c.shift, c.runs)
		t.Logf("%s: %.4g observations, want %g", c.name, got, c.want)
		// The standard deviation of a run length is smaller than its mean.
		near(t, got, c.want, 4*c.want/math.Sqrt(float64(c.runs))+c.unit/2, c.name)
	}
}

// river is the stream of the examples of river.drift: random.Random(12345), 1,000 choices of 0 and 1, then 1,000 of 4
// to 7.
//
//go:embed testdata/river.txt
var river string

// For this stream the documentation of River reports "Change detected at index 1023, input value: 4" for ADWIN and
// "Change detected at index 1006, input value: 5" for PageHinkley, and nothing else.
func TestDriftDetectors(t *testing.T) {
	stream := strings.ReplaceAll(river, "\n", "")
	if len(stream) != 2000 {
		t.Fatalf("%d values", len(stream))
	}
	for _, c := range []struct {
		name     string
		follower Follower
		index    int
		value    float64
	}{
		{"ADWIN", newADWIN(.002), 1023, 4},
		{"Page–Hinkley", &pageHinkley{delta: .005, threshold: 50, alpha: .9999}, 1006, 5},
	} {
		var changes []int
		for i, digit := range stream {
			x := float64(digit - '0')
			if c.follower.Update(x).Change {
				changes = append(changes, i)
				expect.Same(t, c.value, x, c.name)
			}
		}
		if len(changes) != 1 || changes[0] != c.index {
			t.Errorf("%s: changes at %v, want %d", c.name, changes, c.index)
		}
	}
}

// The estimate of ADWIN is the mean of its window, which is cut at a change.
func TestADWINWindow(t *testing.T) {
	a := newADWIN(.002)
	stream := strings.ReplaceAll(river, "\n", "")
	for i, digit := range stream {
		step := a.Update(float64(digit - '0'))
		mean, n := 0.0, int(a.n)
		for _, d := range stream[i+1-n : i+1] {
			mean += float64(d-'0') / float64(n)
		}
		if math.Abs(step.Mean-mean) > 1e-9 {
			t.Fatalf("observation %d: mean %g, that of the last %d is %g", i, step.Mean, n, mean)
		}
	}
	if a.n > 1050 {
		t.Errorf("a window of %g, but there was a change 1000 observations ago", a.n)
	}
}
