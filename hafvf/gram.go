package hafvf

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"

	"hafvf/hafvf/internal/special"
)

// gram is the shared core of mvnormal, regression and ar: m targets y given p
// regressors u,
//
//	y|u ~ N(Bᵀu, Σ),  B|Σ ~ matrix normal(M₀, K⁻¹, Σ),  Σ ~ InvWishart(Λ, ν).
//
// With G = K-block and cross terms in one (p+m)×(p+m) Gram matrix of v = (u, y),
// learning is G += v·vᵀ, and log|Λ| = log|G| − log|G_uu|:
//
//	B(θ) = −(m/2) log|G_uu| − (ν/2) log|Λ| + (νm/2) ln 2 + Σᵢ lnΓ((ν+1−i)/2)
//
// A sample is (count n, R), R the upper triangular factor of Σ v′v′ᵀ in the
// prior's own coordinates, v′ = G₀⁻ᵀᐟ²v, where G₀ is the identity. A factor keeps
// twice the digits of the matrix, and the singular values σ of R turn every
// determinant along the line into a product: |I + s·RᵀR| = Π(1 + s·σ²).
type gram struct {
	p, m   int
	rK     triangle    // RᵀR = K
	rL     triangle    // RᵀR = Λ₀
	mean   [][]float64 // M₀ by target
	nu     float64
	perNat float64 // (m ln 2 − ln|Λ₀|)/2, the part of f linear in ν
}

func newGram(rK, rL triangle, mean [][]float64, nu float64) gram {
	g := gram{p: rK.n, m: rL.n, rK: rK, rL: rL, mean: mean, nu: nu}
	for i := range g.m {
		g.perNat += 0.5*math.Ln2 - math.Log(rL.at(i, i))
	}
	return g
}

func (g gram) size() int { return g.p + g.m }

// Len implements Model.
func (g gram) Len() int { return 1 + triangleLen(g.size()) }

func (g gram) factor(d []float64) triangle { return triangle{n: g.size(), v: d[1:]} }

// Scale implements Model.
func (g gram) Scale(d []float64, w float64) {
	d[0] *= w
	root := math.Sqrt(w)
	for i := range d[1:] {
		d[1+i] *= root
	}
}

// Merge implements Model.
func (g gram) Merge(d, e []float64) {
	d[0] += e[0]
	r, q := g.factor(d), g.factor(e)
	var stack [16]float64
	row := append(stack[:0], make([]float64, g.size())...)
	for i := range row {
		for j := range row {
			row[j] = q.at(i, j)
		}
		r.add(row)
	}
}

// Memory implements Model.
func (g gram) Memory(d []float64) float64 { return d[0] }

// LogBase implements Model.
func (g gram) LogBase([]float64) float64 { return -0.5 * float64(g.m) * log2Pi }

// observe adds weight·v′v′ᵀ for v = (u, y), which it overwrites.
func (g gram) observe(d, v []float64, weight float64) {
	u, y := v[:g.p], v[g.p:]
	for k := range y {
		y[k] -= dot(g.mean[k], u)
	}
	g.rK.solveT(u)
	g.rL.solveT(y)
	if weight != 1 {
		root := math.Sqrt(weight)
		for i := range v {
			v[i] *= root
		}
	}
	d[0] += weight
	g.factor(d).add(v)
}

// A gramPosterior is θ₀ + s·d: the factor of the Gram matrix, and ν.
type gramPosterior struct {
	gram
	r  triangle
	nu float64
}

func (g gram) at(d []float64, s float64) gramPosterior {
	size := g.size()
	r := newTriangle(size)
	for i := range size {
		r.set(i, i, 1)
	}
	q := g.factor(d)
	root := math.Sqrt(s)
	row := make([]float64, size)
	for i := range size {
		for j := range size {
			row[j] = root * q.at(i, j)
		}
		r.add(row)
	}
	return gramPosterior{gram: g, r: r, nu: g.nu + s*d[0]}
}

// precision returns K of the posterior.
func (g gramPosterior) precision() [][]float64 {
	out := make([][]float64, g.p)
	prod := productOfTriangles(g.r, 0, g.rK)
	for i := range out {
		out[i] = make([]float64, g.p)
		for j := range out[i] {
			for k := range g.p {
				out[i][j] += prod.at(k, i) * prod.at(k, j)
			}
		}
	}
	return out
}

// scale returns Λ of the posterior.
func (g gramPosterior) scale() [][]float64 {
	out := make([][]float64, g.m)
	prod := productOfTriangles(g.r, g.p, g.rL)
	for i := range out {
		out[i] = make([]float64, g.m)
		for j := range out[i] {
			for k := range g.m {
				out[i][j] += prod.at(k, i) * prod.at(k, j)
			}
		}
	}
	return out
}

// coefficients returns B of the posterior, by target.
func (g gramPosterior) coefficients() [][]float64 {
	out := make([][]float64, g.m)
	white := make([][]float64, g.m)
	for k := range g.m {
		white[k] = make([]float64, g.p)
		for i := range g.p {
			white[k][i] = g.r.at(i, g.p+k)
		}
		g.r.solve(white[k])
		g.rK.solve(white[k])
	}
	for k := range g.m {
		out[k] = make([]float64, g.p)
		for i := range g.p {
			out[k][i] = g.mean[k][i]
			for l := 0; l <= k; l++ {
				out[k][i] += white[l][i] * g.rL.at(l, k)
			}
		}
	}
	return out
}

// moments writes mean and standard deviation of the likelihood's mean at the
// regressors u, or with noise = 1 of an observation there.
func (g gramPosterior) moments(mean, sd, u []float64, noise float64) {
	loc, scale2, dof := g.student(u, noise)
	for k := range g.m {
		mean[k], sd[k] = studentMoments(loc[k], scale2[k], dof)
	}
}

// predictive is the distribution of target k of an observation at u.
func (g gramPosterior) predictive(k int, u []float64) Distribution {
	loc, scale2, dof := g.student(u, 1)
	return student(loc[k], scale2[k], dof)
}

// student returns the marginal Student distributions of the targets at u.
func (g gramPosterior) student(u []float64, noise float64) (loc, scale2 []float64, dof float64) {
	z := append([]float64(nil), u...)
	g.rK.solveT(z)
	g.r.solveT(z)
	leverage := dot(z, z)
	dof = g.nu - float64(g.m) + 1
	white := make([]float64, g.m)
	for k := range white {
		for i := range z {
			white[k] += g.r.at(i, g.p+k) * z[i]
		}
	}
	loc, scale2 = make([]float64, g.m), make([]float64, g.m)
	prod := productOfTriangles(g.r, g.p, g.rL)
	for k := range g.m {
		loc[k] = dot(g.mean[k], u)
		for l := 0; l <= k; l++ {
			loc[k] += white[l] * g.rL.at(l, k)
			scale2[k] += prod.at(l, k) * prod.at(l, k)
		}
		scale2[k] *= (leverage + noise) / dof
	}
	return loc, scale2, dof
}

// NewLine implements Model.
func (g gram) NewLine() Line {
	return &gramLine{gram: g, uu: newSpectrum(g.p), all: newSpectrum(g.size())}
}

// gramLine is the log-partition along the line, in the two spectra of G_uu and G.
type gramLine struct {
	gram
	uu, all spectrum
	n, j    float64
}

func (l *gramLine) Set(d, t []float64) {
	l.n, l.j = d[0], t[0]
	r, q := l.factor(d), l.factor(t)
	l.uu.set(r, q)
	l.all.set(r, q)
}

func (l *gramLine) Gain(s float64) float64 {
	m, nu := float64(l.m), l.nu+s*l.n
	uu, all := l.uu.at(s), l.all.at(s)
	q := -m/2*uu.gain - (nu+l.j)/2*(all.gain-uu.gain) - l.j/2*(all.log-uu.log) + l.j*l.perNat
	for i := range l.m {
		q += special.LgammaDelta((nu-float64(i))/2, l.j/2)
	}
	return q
}

func (l *gramLine) Jet(s float64) Jet {
	m, nu, n := float64(l.m), l.nu+s*l.n, l.n
	uu, all := l.uu.at(s), l.all.at(s)
	var h [4]float64 // derivatives of log|Λ|
	for k := range h {
		h[k] = all.d[k] - uu.d[k]
	}
	e0, e1, e2 := all.gain-uu.gain, all.gain1-uu.gain1, all.gain2-uu.gain2
	jet := Jet{
		F2: -m/2*uu.d[1] - n*h[0] - nu/2*h[1],
		F3: -m/2*uu.d[2] - 1.5*n*h[1] - nu/2*h[2],
		F4: -m/2*uu.d[3] - 2*n*h[2] - nu/2*h[3],
		Q1: -m/2*uu.gain1 - n/2*e0 - (nu+l.j)/2*e1 - l.j/2*h[0],
		Q2: -m/2*uu.gain2 - n*e1 - (nu+l.j)/2*e2 - l.j/2*h[1],
	}
	c := n / 2
	for i := range l.m {
		a := (nu - float64(i)) / 2
		_, p1, p2, p3 := special.Polygamma(a)
		d0, d1 := special.DigammaDelta(a, l.j/2)
		jet.F2 += c * c * p1
		jet.F3 += c * c * c * p2
		jet.F4 += c * c * c * c * p3
		jet.Q1 += c * d0
		jet.Q2 += c * c * d1
	}
	return jet
}

// A spectrum diagonalises the leading n×n block of I + s·RᵀR, and holds the rows
// of new statistics in the same basis.
type spectrum struct {
	n      int
	a, vt  blas64.General
	sigma  []float64
	work   []float64
	lambda []float64
	rows   []float64 // k rows of n
	k      int
	f, y   []float64 // scratch of at
}

func newSpectrum(n int) spectrum {
	sp := spectrum{
		n:      n,
		a:      blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)},
		vt:     blas64.General{Rows: n, Cols: n, Stride: n, Data: make([]float64, n*n)},
		sigma:  make([]float64, n),
		lambda: make([]float64, n),
		rows:   make([]float64, n*n),
		f:      make([]float64, triangleLen(n)),
		y:      make([]float64, n*n),
	}
	query := make([]float64, 1)
	lapack64.Gesvd(lapack.SVDNone, lapack.SVDAll, sp.a, blas64.General{Rows: 1, Cols: 1, Stride: 1}, sp.vt, sp.sigma, query, -1)
	sp.work = make([]float64, int(query[0]))
	return sp
}

// set takes the leading blocks of the sample's factor r and of the new
// statistics' factor q.
func (sp *spectrum) set(r, q triangle) {
	n := sp.n
	for i := range n {
		for j := range n {
			sp.a.Data[i*n+j] = r.at(i, j)
		}
	}
	if n == 1 {
		sp.sigma[0], sp.vt.Data[0] = math.Abs(sp.a.Data[0]), 1
	} else if !lapack64.Gesvd(lapack.SVDNone, lapack.SVDAll, sp.a, blas64.General{Rows: 1, Cols: 1, Stride: 1}, sp.vt, sp.sigma, sp.work, len(sp.work)) {
		panic("hafvf: singular values did not converge")
	}
	for i, s := range sp.sigma {
		sp.lambda[i] = s * s
	}
	sp.k = 0
	for i := range n {
		empty := true
		for j := i; j < n; j++ {
			empty = empty && q.at(i, j) == 0
		}
		if empty {
			continue
		}
		row := sp.rows[sp.k*n : (sp.k+1)*n]
		for e := range n {
			row[e] = 0
			for j := i; j < n; j++ {
				row[e] += sp.vt.Data[e*n+j] * q.at(i, j)
			}
		}
		sp.k++
	}
}

// determinants holds log|I + sRᵀR| with four derivatives, and the gain that the new
// statistics add to it with two.
type determinants struct {
	log                float64
	d                  [4]float64
	gain, gain1, gain2 float64
}

func (sp *spectrum) at(s float64) determinants {
	var out determinants
	for _, l := range sp.lambda {
		out.log += math.Log1p(s * l)
		r := l / (1 + s*l)
		r2 := r * r
		out.d[0] += r
		out.d[1] -= r2
		out.d[2] += 2 * r2 * r
		out.d[3] -= 6 * r2 * r2
	}
	k, n := sp.k, sp.n
	if k == 1 {
		var g, g1, g2 float64
		for i, l := range sp.lambda {
			w := 1 / (1 + s*l)
			c := sp.rows[i] * sp.rows[i] * w
			r := l * w
			g += c
			g1 -= c * r
			g2 += 2 * c * r * r
		}
		out.gain = math.Log1p(g)
		out.gain1 = g1 / (1 + g)
		out.gain2 = g2/(1+g) - out.gain1*out.gain1
		return out
	}
	// The k×k matrix is FᵀF = I + Σ w·c·cᵀ over the columns c of rows, w = 1/(1+sλ)
	// with w′ = −wr, w″ = 2wr², r = λw: with y = F⁻ᵀc·√w, the traces are sums of
	// products of the y. Built as a factor, it stays definite at any scale.
	f := triangle{k, sp.f[:triangleLen(k)]}
	clear(f.v)
	for a := range k {
		f.set(a, a, 1)
	}
	column := func(i int) []float64 {
		y, root := sp.y[i*k:(i+1)*k], 1/math.Sqrt(1+s*sp.lambda[i])
		for a := range y {
			y[a] = sp.rows[a*n+i] * root
		}
		return y
	}
	for i := range n {
		f.add(column(i))
	}
	for a := range k {
		out.gain += 2 * math.Log(f.at(a, a))
	}
	for i, l := range sp.lambda {
		y := column(i)
		f.solveT(y)
		r := l / (1 + s*l)
		size := dot(y, y)
		out.gain1 -= r * size
		out.gain2 += r * r * (2*size - size*size)
		for j := range i {
			l := sp.lambda[j]
			c := dot(y, sp.y[j*k:(j+1)*k])
			out.gain2 -= 2 * r * (l / (1 + s*l)) * c * c
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
