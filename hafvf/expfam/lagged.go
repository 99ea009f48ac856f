package expfam

import (
	"math"
	"slices"

	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// MaxAR is the maximum order of Lagged.
const MaxAR = 8

// A Lagged is the autoregression of order p that belongs to a normal model. It regresses the values of the
// bank's stream on the previous values,
//
//	x ~ N(c₀ + Σ cᵢuᵢ, σ²),  uᵢ = (xₜ₋ᵢ − mu)/s,  s = √(beta/alpha)
//	c₀|σ² ~ N(mu, σ²/kappa),  cᵢ|σ² ~ N(0, σ²),  σ² ~ InvGamma(alpha, beta)
//
// with mu, kappa, alpha and beta of the normal model. It is equivariant: values in other units, under the prior
// in those units, give the same inference.
//
// A row is u₁, …, u_p, x. A sample has the layout of a regression on u₁, …, u_p, 1.
type Lagged struct {
	layout
	prior        normal
	order        int
	unit         float64 // s
	rootK, rootL float64 // √kappa, √(2·beta)
}

// NewLagged returns the autoregression of the given order, from 1 to MaxAR, with the prior of the model m. The
// second result is false if m is not of the family normal.
func NewLagged(m Model, order int) (Lagged, bool) {
	n, ok := m.(normal)
	return Lagged{
		layout: layout{order + 1, 1}, prior: n, order: order,
		unit: math.Sqrt(n.beta / n.alpha), rootK: math.Sqrt(n.kappa), rootL: math.Sqrt(2 * n.beta),
	}, ok
}

// regression returns the same model with its matrices, which most steps do not need.
func (m Lagged) regression() regression {
	p := m.order + 1
	rK, rL, mean := linear.NewTriangle(p), linear.NewTriangle(1), make([]float64, p)
	for i := range m.order {
		rK.Set(i, i, 1)
	}
	rK.Set(m.order, m.order, m.rootK)
	rL.Set(0, 0, m.rootL)
	mean[m.order] = m.prior.mu
	return regression{newGram(rK, rL, [][]float64{mean}, 2*m.prior.alpha)}
}

// Dim implements Model, as do the methods below.
func (m Lagged) Dim() int                    { return m.order + 1 }
func (m Lagged) Check(x []float64) error     { return CheckFinite(x) }
func (m Lagged) PriorMemory() float64        { return 2 * m.prior.alpha }
func (m Lagged) LogBase(x []float64) float64 { return m.prior.LogBase(x) }
func (m Lagged) NewLine() Line               { return &laggedLine{m: m, s: math.NaN()} }
func (m Lagged) Params() []Param             { return m.regression().Params() }
func (m Lagged) Posterior(dst, d []float64)  { m.regression().Posterior(dst, d) }
func (m Lagged) Outputs() int                { return 1 }

func (m Lagged) Estimate(mean, sd, d, row []float64) {
	mean[0], sd[0] = studentMoments(m.student(d, 1, row, 0))
}

func (m Lagged) Predict(mean, sd, d []float64, s float64, row []float64) {
	mean[0], sd[0] = studentMoments(m.student(d, s, row, 1))
}

func (m Lagged) Predictive(dst []Distribution, d []float64, s float64, row []float64) {
	dst[0] = Student(m.student(d, s, row, 1))
}

// Standard converts x to a regressor.
func (m Lagged) Standard(x float64) float64 { return (x - m.prior.mu) / m.unit }

// A laggedRow is a row in the coordinates of the sample, see gram.
type laggedRow [MaxAR + 2]float64

func (m Lagged) Observe(d, row []float64, weight float64) {
	var stack laggedRow
	v := stack[:m.order+2]
	copy(v, row[:m.order])
	v[m.order], v[m.order+1] = 1/m.rootK, (row[m.order]-m.prior.mu)/m.rootL
	if weight != 1 {
		linear.Scale(v, math.Sqrt(weight))
	}
	d[0] += weight
	m.layout.factor(d).Add(v)
}

// A laggedFactor is the upper triangular factor of a Gram matrix.
type laggedFactor [(MaxAR + 2) * (MaxAR + 3) / 2]float64

// factor writes the factor of I + s·RᵀR to f. R is the factor of the sample d.
func (m Lagged) factor(f *laggedFactor, d []float64, s float64) linear.Triangle {
	var scratch laggedFactor
	n := m.order + 2
	r := linear.Triangle{N: n, V: f[:linear.TriangleLen(n)]}
	r.Line(m.layout.factor(d), s, scratch[:len(r.V)])
	return r
}

// add adds RᵀR to the matrix with the factor r. R is the factor of the sample d.
func (m Lagged) add(r linear.Triangle, d []float64) {
	var stack laggedRow
	row := stack[:r.N]
	q := m.layout.factor(d)
	for i := range row {
		if entries := q.Row(i); !linear.Zeros(entries) {
			copy(row[i:], entries)
			r.Add(row)
			clear(row)
		}
	}
}

// student returns location, squared scale and degrees of freedom of the likelihood's mean at the previous
// values in row or, with noise = 1, of an observation there.
func (m Lagged) student(d []float64, s float64, row []float64, noise float64) (loc, scale2, dof float64) {
	var factor laggedFactor
	return m.studentFrom(m.factor(&factor, d, s), d, s, row, noise)
}

// studentFrom is student for the given factor of I + s·RᵀR.
func (m Lagged) studentFrom(r linear.Triangle, d []float64, s float64, row []float64, noise float64) (loc, scale2, dof float64) {
	var stack laggedRow
	z := stack[:m.order+1]
	copy(z, row[:m.order])
	z[m.order] = 1 / m.rootK
	r.SolveT(z)
	location := 0.0
	for i, v := range z {
		location += v * r.At(i, m.order+1)
	}
	nu := 2*m.prior.alpha + s*d[0]
	scale := m.rootL * r.At(m.order+1, m.order+1)
	return m.prior.mu + m.rootL*location, scale * scale * (linear.Dot(z, z) + noise) / nu, nu
}

// laggedLine is the log-partition along the line, as gramLine, to which it delegates the derivatives. A gain
// needs none of the prior's matrices, and no heap.
type laggedLine struct {
	m    Lagged
	d, t []float64
	jets *gramLine // for the derivatives; nil until the first Jet
	set  bool      // whether jets is set to d and t

	knownFactor laggedFactor // factor of I + s·RᵀR for knownSample
	knownSample [1 + len(laggedFactor{})]float64
	s           float64 // NaN if knownFactor is not set
}

// factor is Lagged.factor, but returns the result of the last call again if d and s are the same.
func (l *laggedLine) factor(d []float64, s float64) linear.Triangle {
	n := l.m.order + 2
	if s == l.s && slices.Equal(d, l.knownSample[:len(d)]) {
		return linear.Triangle{N: n, V: l.knownFactor[:linear.TriangleLen(n)]}
	}
	l.s = s
	copy(l.knownSample[:], d)
	return l.m.factor(&l.knownFactor, d, s)
}

// Predictive implements PredictiveLine.
func (l *laggedLine) Predictive(dst []Distribution, d []float64, s float64, row []float64) {
	dst[0] = Student(l.m.studentFrom(l.factor(d, s), d, s, row, 1))
}

func (l *laggedLine) Set(d, t []float64) { l.d, l.t, l.set = d, t, false }

// Gain returns the same as gramLine.Gain, from the diagonals f and g of the factors of the Gram matrix before
// and after the new statistics:
//
//	½ log|Λ| = ln f_yy + const,  ½ log|G_uu| = Σ ln f_uu
func (l *laggedLine) Gain(s float64) float64 {
	m, n := &l.m, l.m.order+2
	f := l.factor(l.d, s)
	after := l.knownFactor
	g := linear.Triangle{N: n, V: after[:linear.TriangleLen(n)]}
	m.add(g, l.t)
	leverage := 1.0
	for i := range n - 1 {
		leverage *= g.At(i, i) / f.At(i, i)
	}
	y, j := f.At(n-1, n-1), l.t[0]
	nu := 2*m.prior.alpha + s*l.d[0]
	return special.LgammaDelta(nu/2, j/2) - math.Log(leverage) - (nu+j)*math.Log(g.At(n-1, n-1)/y) - j*math.Log(y*m.rootL/math.Sqrt2)
}

func (l *laggedLine) Jet(s float64) Jet {
	if l.jets == nil {
		l.jets = l.m.regression().NewLine().(*gramLine)
	}
	if !l.set {
		l.jets.Set(l.d, l.t)
		l.set = true
	}
	return l.jets.Jet(s)
}
