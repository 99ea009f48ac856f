package adafvf

import (
	"math"
	"math/rand/v2"
	"testing"
)

// logEvidence is the mean over coordinates of log p(g) under the forgotten
// posterior: a Student's t, written with the log-partition.
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

// partition is the log-normaliser of NormalGamma(m, κ, α, β).
func partition(k, a, b float64) float64 {
	l, _ := math.Lgamma(a)
	return l - a*math.Log(b) - 0.5*math.Log(k)
}

// derivative is the first derivative by central differences, extrapolated twice.
func derivative(f func(float64) float64, at, h float64) float64 {
	d := func(h float64) float64 { return (f(at+h) - f(at-h)) / (2 * h) }
	a, b, c := d(h), d(h/2), d(h/4)
	ab, bc := (4*b-a)/3, (4*c-b)/3
	return (16*bc - ab) / 15
}

// randomGroup is a group in the midst of training.
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
		at := func(rho, omega float64) curve {
			return pooled(p, s, Decays{rho / omega, omega}, grads, 0, 1)
		}
		h := 0.02 * math.Min(rho, 1-omega)
		// The log-partition before the gradient, of which S are the second
		// derivatives, and the first is −E[T]·d.
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
			return along(func(r, o float64) float64 { return get(at(r, o)) }, rhoFree)
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
