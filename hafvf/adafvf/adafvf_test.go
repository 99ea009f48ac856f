package adafvf

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/internal/beta"
	"hafvf/internal/testing/expect"
)

// logEvidence returns the mean over coordinates of log p(g) under the posterior after forgetting: a Student's
// t, written with the log-partition.
func logEvidence(p *Prior, s *group, rho, omega float64, grads []float64) float64 {
	sum := 0.0
	for i, g := range grads {
		k, m, a, b := forget(p, s, rho, omega, i)
		k1 := k + 1
		b1 := b + 0.5*k/k1*(g-m)*(g-m)
		sum += partition(k1, a+0.5, b1) - partition(k, a, b)
	}
	return sum / float64(len(grads))
}

func forget(p *Prior, s *group, rho, omega float64, i int) (k, m, a, b float64) {
	k = p.Kappa + rho*(s.kappa-p.Kappa)
	m = rho * s.kappa * s.m[i] / k
	a = p.Alpha + omega*(s.alpha-p.Alpha)
	b = p.Beta + omega*(s.beta[i]-p.Beta) + 0.5*rho*(1-rho)*s.kappa*p.Kappa*s.m[i]*s.m[i]/k
	return k, m, a, b
}

// partition returns the log-normaliser of NormalGamma(m, κ, α, β).
func partition(k, a, b float64) float64 {
	l, _ := math.Lgamma(a)
	return l - a*math.Log(b) - 0.5*math.Log(k)
}

// derivative returns the first derivative by central differences, extrapolated twice.
func derivative(f func(float64) float64, x, h float64) float64 {
	d := func(h float64) float64 { return (f(x+h) - f(x-h)) / (2 * h) }
	a, b, c := d(h), d(h/2), d(h/4)
	ab, bc := (4*b-a)/3, (4*c-b)/3
	return (16*bc - ab) / 15
}

// randomGroup returns a group in the middle of training, and a gradient.
func randomGroup(rng *rand.Rand, p *Prior, n int) (*group, []float64) {
	s := &group{kappa: p.Kappa + math.Exp(3*rng.Float64()), alpha: p.Alpha + math.Exp(4*rng.Float64()-1)}
	var grads []float64
	for range n {
		scale := math.Exp(4*rng.Float64() - 4)
		s.m = append(s.m, scale*rng.NormFloat64())
		s.beta = append(s.beta, p.Beta+(s.alpha-p.Alpha)*scale*scale*(0.5+rng.Float64()))
		grads = append(grads, 2*scale*rng.NormFloat64())
	}
	return s, grads
}

func TestCurveAgainstDifferencesOfTheELBO(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := &Prior{1e-10, 2, 1e-6}
	for range 200 {
		n := 1 + rng.IntN(5)
		s, grads := randomGroup(rng, p, n)
		w := Decays{0.05 + 0.93*rng.Float64(), 0.05 + 0.93*rng.Float64()}
		rho, omega := w.W1*w.W2, w.W2
		c := pooled(p, s, w, grads, 0, 1)
		curveAt := func(rho, omega float64) curve {
			return pooled(p, s, Decays{rho / omega, omega}, grads, 0, 1)
		}
		h := 0.02 * math.Min(rho, 1-omega)
		// The log-partition before the gradient. S are its second derivatives, and its first derivative is
		// −E[T]·d.
		naive := func(rho, omega float64) float64 {
			sum := 0.0
			for i := range grads {
				k, _, a, b := forget(p, s, rho, omega, i)
				sum += partition(k, a, b)
			}
			return sum / float64(n)
		}
		second := func(f func(float64) float64, x float64) float64 {
			return derivative(func(y float64) float64 { return derivative(f, y, h) }, x, h)
		}
		along := func(f func(rho, omega float64) float64, rhoFree bool) func(float64) float64 {
			if rhoFree {
				return func(x float64) float64 { return f(x, omega) }
			}
			return func(x float64) float64 { return f(rho, x) }
		}
		field := func(get func(curve) float64, rhoFree bool) func(float64) float64 {
			return along(func(r, o float64) float64 { return get(curveAt(r, o)) }, rhoFree)
		}
		value := func(r, o float64) float64 { return logEvidence(p, s, r, o, grads) }
		for _, c := range []struct {
			name      string
			got, want float64
			scale     float64
		}{
			{"δ_ρ", c.rho, derivative(along(value, true), rho, h), 0.1},
			{"δ_ω", c.omega, derivative(along(value, false), omega, h), 0.1},
			{"S_ρρ", c.rho2, second(along(naive, true), rho), 0.01},
			{"S_ωω", c.omega2, second(along(naive, false), omega), 0.01},
			{"∂S_ρρ", c.rho3, derivative(field(func(c curve) float64 { return c.rho2 }, true), rho, h), 0},
			{"∂S_ωω", c.omega3, derivative(field(func(c curve) float64 { return c.omega2 }, false), omega, h), 0},
			{"∂²S_ρρ", c.rho4, derivative(field(func(c curve) float64 { return c.rho3 }, true), rho, h), 0},
			{"∂²S_ωω", c.omega4, derivative(field(func(c curve) float64 { return c.omega3 }, false), omega, h), 0},
			{"∂δ_ρ/∂ρ", c.rhoAfter - c.rho2, derivative(field(func(c curve) float64 { return c.rho }, true), rho, h), 0},
			{"∂δ_ω/∂ω", c.omegaAfter - c.omega2, derivative(field(func(c curve) float64 { return c.omega }, false), omega, h), 0},
			{"∂δ_ρ/∂ω", c.across, derivative(field(func(c curve) float64 { return c.rho }, false), omega, h), 0.01},
		} {
			if !(math.Abs(c.got-c.want) <= 1e-6*(math.Abs(c.want)+c.scale)) {
				t.Errorf("κ = %g, α = %g, ρ = %g, ω = %g: %s = %.10g, differences give %.10g", s.kappa, s.alpha, rho, omega, c.name, c.got, c.want)
			}
		}
	}
}

// The value by which two starts are compared is the ELBO whose slopes the climb follows.
func TestEvidence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := &Prior{1e-10, 2, 1e-6}
	for range 100 {
		s, grads := randomGroup(rng, p, 4)
		both := func(rho, omega float64) (got, want float64) {
			return evidence(p, s, Decays{rho / omega, omega}, grads, 0, 1), logEvidence(p, s, rho, omega, grads)
		}
		a, wantA := both(0.5, 0.7)
		b, wantB := both(0.2+0.5*rng.Float64(), 0.8)
		if math.Abs((a-b)-(wantA-wantB)) > 1e-10*(1+math.Abs(a)+math.Abs(b)) {
			t.Errorf("difference %.12g, want %.12g", a-b, wantA-wantB)
		}
	}
}

// At the end of a full climb, φ is the fixed point φ̂ + u₁ + u₂ + u₃ of Proposition 1 at every level. Where
// learn stops earlier, the weights are close to it.
func TestClimbEndsAtProposition1(t *testing.T) {
	for pooling, maxLeft := range map[float64]float64{0: 0.01, 0.5: 0.05, 1: 0.2} {
		c := expect.Get(Config{Pooling: pooling}.complete())(t)
		s := newSolver(&c)
		left := 0.0
		rng := rand.New(rand.NewPCG(1, 3))
		for range 200 {
			g, grads := randomGroup(rng, s.prior, 8)
			for i := range g.phi {
				g.phi[i] = s.naive[i]
				g.phi[i].Alpha *= 1 + 3*rng.Float64()
				g.phi[i].Beta *= 1 + 3*rng.Float64()
			}
			w := s.learn(g, grads, 1)
			var z point
			for i, phi := range g.phi {
				z[i] = coordinates(phi)
			}
			for range 5 {
				z = s.climb(z, 1e-10)
			}
			s.evaluate(&z)
			for i := range s.levels {
				l := &s.levels[i]
				u := l.Increment()
				a := l.Prior.Alpha + u.U1[0] + u.U2[0] + u.U3[0]
				b := l.Prior.Beta + u.U1[1] + u.U2[1] + u.U3[1]
				if math.Abs(a-l.A) > 1e-6*(1+l.A) || math.Abs(b-l.B) > 1e-6*(1+l.B) {
					t.Errorf("pooling %g, level %d: φ = (%.9g, %.9g), Proposition 1 has (%.9g, %.9g)", pooling, i, l.A, l.B, a, b)
				}
			}
			left = math.Max(left, math.Max(math.Abs(w.W1-s.levels[0].M), math.Abs(w.W2-s.levels[1].M)))
		}
		if left > maxLeft {
			t.Errorf("pooling %g: a weight stops %.2g from its maximum", pooling, left)
		}
		t.Logf("pooling %g: weights stop at most %.2g from their maximum", pooling, left)
	}
}

// A weight that has been learned to be near zero returns to the naive weight, if the gradient comes from the
// same place as the previous one.
func TestLowWeightsAreLeft(t *testing.T) {
	c := expect.Get(Config{Pooling: 1}.complete())(t)
	s := newSolver(&c)
	g := &group{kappa: 20, alpha: 12, phi: s.naive}
	g.phi[0] = beta.Dist{Alpha: 0.02, Beta: 20}
	var grads []float64
	for i := range 20 {
		m := 0.1 * math.Sin(float64(i))
		g.m, g.beta = append(g.m, m), append(g.beta, 10*0.01)
		grads = append(grads, m+0.05*math.Cos(float64(3*i)))
	}
	w := s.learn(g, grads, 1)
	if w.W1 < 0.5 || w.W2 < 0.5 {
		t.Errorf("w₁ = %g, w₂ = %g", w.W1, w.W2)
	}
}
