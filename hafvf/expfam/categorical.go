package expfam

import (
	"fmt"
	"math"

	"hafvf/internal/special"
)

func init() {
	Register("categorical", func(p Prior, dim int) (Model, error) {
		alpha := p.PositiveVector("alpha", dim)
		if len(alpha) < 2 {
			p.Fail("alpha", "needs at least two categories: add dim: 3, or alpha: [1, 1, 1]")
			return nil, p.Done()
		}
		return categorical{Natural: Natural{len(alpha)}, alpha: alpha}, p.Done()
	})
}

// categorical has x in {0, …, K−1} and a Dirichlet(alpha) prior on the probabilities.
//
//	T(x) = onehot(x),  B = Σ lnΓ(αᵢ) − lnΓ(Σαᵢ),  log h = 0
type categorical struct {
	Natural
	noScale
	alpha []float64
}

func (categorical) Dim() int          { return 1 }
func (m categorical) Categories() int { return len(m.alpha) }

func (m categorical) Check(x []float64) error {
	if err := checkCount(x[0]); err != nil {
		return err
	}
	if x[0] >= float64(len(m.alpha)) {
		return fmt.Errorf("x = %g is not one of the %d categories 0 … %d", x[0], len(m.alpha), len(m.alpha)-1)
	}
	return nil
}

func (categorical) Observe(d, x []float64, weight float64) { d[int(x[0])] += weight }

func (m categorical) PriorMemory() float64 { return m.Memory(m.alpha) }

func (categorical) Memory(d []float64) float64 {
	sum := 0.0
	for _, v := range d {
		sum += v
	}
	return sum
}

func (categorical) LogBase([]float64) float64 { return 0 }
func (m categorical) NewLine() Line           { return newDirichletLine(m.alpha) }

func (m categorical) Params() []Param { return []Param{{Name: "alpha", Rows: len(m.alpha)}} }

func (m categorical) Posterior(dst, d []float64) {
	for i, a := range m.alpha {
		dst[i] = a + d[i]
	}
}

func (m categorical) Outputs() int { return len(m.alpha) }

func (m categorical) Estimate(mean, sd, d, _ []float64) {
	total := m.total(d, 1)
	for i, a := range m.alpha {
		mean[i], sd[i] = betaMoments(a+d[i], m.others(i, d, 1, total))
	}
}

func (m categorical) Predict(mean, sd, d []float64, s float64, _ []float64) {
	total := m.total(d, s)
	for i, a := range m.alpha {
		p := (a + s*d[i]) / total
		mean[i], sd[i] = p, math.Sqrt(p*(m.others(i, d, s, total)/total))
	}
}

func (m categorical) Predictive(dst []Distribution, d []float64, s float64, _ []float64) {
	total := m.total(d, s)
	for i, a := range m.alpha {
		dst[i] = Distribution{law: indicator, a: (a + s*d[i]) / total, b: m.others(i, d, s, total) / total}
	}
}

func (m categorical) total(d []float64, s float64) float64 {
	total := 0.0
	for i, a := range m.alpha {
		total += a + s*d[i]
	}
	return total
}

// others returns the total without category i. If category i has most of the total, others sums the rest,
// because the difference would lose its digits.
func (m categorical) others(i int, d []float64, s, total float64) (rest float64) {
	if rest = total - m.alpha[i] - s*d[i]; rest > total/1024 {
		return rest
	}
	rest = 0
	for k, a := range m.alpha {
		if k != i {
			rest += a + s*d[k]
		}
	}
	return rest
}

// dirichletLine is the Dirichlet log-partition along α + s·d. Only categories in the new statistics contribute
// to the gain, so that one observation needs neither a log gamma function nor a digamma function.
type dirichletLine struct {
	alpha  []float64
	total  float64
	d, t   []float64
	dn, tn float64
}

func newDirichletLine(alpha []float64) *dirichletLine {
	return &dirichletLine{alpha: alpha, total: categorical{}.Memory(alpha)}
}

func (l *dirichletLine) Set(d, t []float64) {
	l.d, l.t = d, t
	l.dn, l.tn = 0, 0
	for i := range d {
		l.dn += d[i]
		l.tn += t[i]
	}
}

func (l *dirichletLine) Gain(s float64) float64 {
	if l.tn == 1 {
		// One observation: a single ratio, so that its logarithm is exact.
		p := 0.0
		for i, t := range l.t {
			if t == 1 {
				p = l.alpha[i] + s*l.d[i]
			}
		}
		if p > 0 {
			return math.Log(p / (l.total + s*l.dn))
		}
	}
	q := -special.LgammaDelta(l.total+s*l.dn, l.tn)
	for i, t := range l.t {
		if t != 0 {
			q += special.LgammaDelta(l.alpha[i]+s*l.d[i], t)
		}
	}
	return q
}

func (l *dirichletLine) Jet(s float64) Jet {
	var j Jet
	n := l.total + s*l.dn
	_, _, p1, p2, p3 := special.Polygammas(n, true)
	d0, d1 := special.DigammaDelta(n, l.tn)
	c := l.dn
	c2 := c * c
	j = Jet{Q1: -c * d0, Q2: -c2 * d1, F2: -c2 * p1, F3: -c2 * c * p2, F4: -c2 * c2 * p3}
	for i, t := range l.t {
		c := l.d[i]
		if c == 0 {
			continue
		}
		a := l.alpha[i] + s*c
		_, _, p1, p2, p3 := special.Polygammas(a, true)
		c2 := c * c
		j.F2 += c2 * p1
		j.F3 += c2 * c * p2
		j.F4 += c2 * c2 * p3
		if t != 0 {
			d0, d1 := special.DigammaDelta(a, t)
			j.Q1 += c * d0
			j.Q2 += c2 * d1
		}
	}
	return j
}
