package expfam

import (
	"math"

	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// gram is the common core of mvnormal, regression and ar: m targets y given p regressors u,
//
//	y|u ~ N(Bᵀu, Σ),  B|Σ ~ matrix normal(M₀, K⁻¹, Σ),  Σ ~ InvWishart(Λ, ν).
//
// Let G be the (p+m)×(p+m) Gram matrix of v = (u, y), with the block K and the cross terms. Learning adds
// v·vᵀ to G, and log|Λ| = log|G| − log|G_uu|:
//
//	B(θ) = −(m/2) log|G_uu| − (ν/2) log|Λ| + (νm/2) ln 2 + Σᵢ lnΓ((ν+1−i)/2)
//
// A sample is (count n, R), where R is the upper triangular factor of Σ v′v′ᵀ in the prior's own coordinates,
// v′ = G₀⁻ᵀᐟ²v, in which G₀ is the identity. A factor keeps twice the digits of the matrix, and the singular
// values σ of R turn every determinant along the line into a product: |I + s·RᵀR| = Π(1 + s·σ²).
type gram struct {
	layout
	rK       linear.Triangle // RᵀR = K
	rL       linear.Triangle // RᵀR = Λ₀
	mean     [][]float64     // M₀ by target
	nu       float64
	perNat   float64 // (m ln 2 − ln|Λ₀|)/2, the part of f linear in ν
	diagonal bool    // whether K is diagonal
}

func newGram(rK, rL linear.Triangle, mean [][]float64, nu float64) gram {
	g := gram{layout: layout{rK.N, rL.N}, rK: rK, rL: rL, mean: mean, nu: nu, diagonal: true}
	for i := range g.p {
		g.diagonal = g.diagonal && linear.Zeros(rK.Row(i)[1:])
	}
	for i := range g.m {
		g.perNat += 0.5*math.Ln2 - math.Log(rL.At(i, i))
	}
	return g
}

// A layout describes samples of p regressors and m targets.
type layout struct{ p, m int }

func (l layout) size() int { return l.p + l.m }

// Len implements Model.
func (l layout) Len() int { return 1 + linear.TriangleLen(l.size()) }

func (l layout) factor(d []float64) linear.Triangle { return linear.Triangle{N: l.size(), V: d[1:]} }

// Scale implements Model.
func (layout) Scale(d []float64, w float64) {
	d[0] *= w
	linear.Scale(d[1:], math.Sqrt(w))
}

// Merge implements Model.
func (l layout) Merge(d, e []float64) {
	d[0] += e[0]
	r, q := l.factor(d), l.factor(e)
	var stack [64]float64
	row := append(stack[:0], make([]float64, l.size())...)
	for i := range row {
		clear(row[:i])
		copy(row[i:], q.Row(i))
		r.Add(row)
	}
}

// Memory implements Model.
func (layout) Memory(d []float64) float64 { return d[0] }

// LogBase implements Model.
func (g gram) LogBase([]float64) float64 { return -0.5 * float64(g.m) * log2Pi }

// observe adds weight·v′v′ᵀ for v = (u, y) to the sample d. It overwrites v.
func (g gram) observe(d, v []float64, weight float64) {
	u, y := v[:g.p], v[g.p:]
	for k := range y {
		y[k] -= linear.Dot(g.mean[k], u)
	}
	g.standardise(u)
	g.rL.SolveT(y)
	if weight != 1 {
		linear.Scale(v, math.Sqrt(weight))
	}
	d[0] += weight
	g.factor(d).Add(v)
}

func (g gram) core() gram { return g }

// A relative model has samples in the coordinates of its prior.
type relative interface{ core() gram }

// Rebase converts d, a sample of the model source, to a sample of m and writes it to dst. The two models may
// differ in their prior only.
func Rebase(dst, d []float64, m, source Model) {
	if target, ok := m.(relative); ok {
		target.core().rebase(dst, d, source.(relative).core())
		return
	}
	copy(dst, d)
}

// rebase converts d, a sample of source, to this prior's coordinates and writes it to dst. The rows of its
// factor are observations that are equivalent to the original ones.
func (g gram) rebase(dst, d []float64, source gram) {
	clear(dst)
	r := source.factor(d)
	for i := range r.N {
		white := append(make([]float64, i), r.Row(i)...)
		v := make([]float64, r.N)
		u, y := v[:g.p], v[g.p:]
		for j := range u {
			for k := range j + 1 {
				u[j] += source.rK.At(k, j) * white[k]
			}
		}
		for j := range y {
			y[j] = linear.Dot(source.mean[j], u)
			for k := range j + 1 {
				y[j] += source.rL.At(k, j) * white[g.p+k]
			}
		}
		g.observe(dst, v, 1)
	}
	dst[0] = d[0]
}

// standardise converts regressors to the coordinates in which the prior's K is the identity.
func (g gram) standardise(u []float64) {
	if !g.diagonal {
		g.rK.SolveT(u)
		return
	}
	for i := range u {
		u[i] /= g.rK.V[g.rK.Index(i, i)]
	}
}

// A gramPosterior is θ₀ + s·d: the factor of the Gram matrix, and ν.
type gramPosterior struct {
	gram
	r  linear.Triangle
	nu float64
}

func (g gram) posteriorAt(d []float64, s float64) gramPosterior {
	return g.posterior(d, s, make([]float64, g.scratch()))
}

// scratch returns the number of floats that posterior needs.
func (g gram) scratch() int { return 2 * linear.TriangleLen(g.size()) }

// posterior is posteriorAt with the given scratch.
func (g gram) posterior(d []float64, s float64, scratch []float64) gramPosterior {
	n := linear.TriangleLen(g.size())
	r := linear.Triangle{N: g.size(), V: scratch[:n]}
	r.Line(g.factor(d), s, scratch[n:])
	return gramPosterior{gram: g, r: r, nu: g.nu + s*d[0]}
}

// precision writes K of the posterior to dst, by rows, and returns its length.
func (g gramPosterior) precision(dst []float64) int {
	return linear.ProductOfTriangles(g.r, 0, g.rK).Square(dst)
}

// scale writes Λ of the posterior to dst, by rows, and returns its length.
func (g gramPosterior) scale(dst []float64) int {
	return linear.ProductOfTriangles(g.r, g.p, g.rL).Square(dst)
}

// coefficients returns B of the posterior, by target.
func (g gramPosterior) coefficients() [][]float64 {
	out := make([][]float64, g.m)
	white := make([][]float64, g.m)
	for k := range g.m {
		white[k] = make([]float64, g.p)
		for i := range g.p {
			white[k][i] = g.r.At(i, g.p+k)
		}
		g.r.Solve(white[k])
		g.rK.Solve(white[k])
	}
	for k := range g.m {
		out[k] = make([]float64, g.p)
		for i := range g.p {
			out[k][i] = g.mean[k][i]
			for l := 0; l <= k; l++ {
				out[k][i] += white[l][i] * g.rL.At(l, k)
			}
		}
	}
	return out
}

// moments writes mean and standard deviation, under θ₀ + s·d, of the likelihood's mean at the regressors u or,
// with noise = 1, of an observation there.
func (g gram) moments(mean, sd, d []float64, s float64, u []float64, noise float64) {
	g.each(d, s, u, noise, func(k int, loc, scale2, dof float64) { mean[k], sd[k] = studentMoments(loc, scale2, dof) })
}

// predictive writes the distributions, under θ₀ + s·d, of the targets of an observation at the regressors u.
func (g gram) predictive(dst []Distribution, d []float64, s float64, u []float64) {
	g.each(d, s, u, 1, func(k int, loc, scale2, dof float64) { dst[k] = Student(loc, scale2, dof) })
}

// each calls do with the Student distribution of each target; the arguments are those of moments.
func (g gram) each(d []float64, s float64, u []float64, noise float64, do func(k int, loc, scale2, dof float64)) {
	var small [64]float64
	buffer := small[:]
	if n := g.scratch() + len(u); n > len(small) {
		var large [1024]float64 // enough for 30 rows; more rows allocate
		buffer = append(large[:0], make([]float64, n)...)
	}
	posterior := g.posterior(d, s, buffer[len(u):])
	z := buffer[:len(u)]
	posterior.whiten(z, u)
	for k := range g.m {
		loc, scale2, dof := posterior.student(z, u, k, noise)
		do(k, loc, scale2, dof)
	}
}

// whiten writes the regressors u to z, in coordinates in which K is the identity.
func (g gramPosterior) whiten(z, u []float64) {
	copy(z, u)
	g.standardise(z)
	g.r.SolveT(z)
}

// student returns the marginal Student distribution of target k at the regressors u. z holds the whitened
// regressors.
func (g gramPosterior) student(z, u []float64, k int, noise float64) (loc, scale2, dof float64) {
	loc, dof = linear.Dot(g.mean[k], u), g.nu-float64(g.m)+1
	for l := 0; l <= k; l++ {
		white, scale := 0.0, 0.0
		for i, v := range z {
			white += g.r.At(i, g.p+l) * v
		}
		for i := l; i <= k; i++ {
			scale += g.r.At(g.p+l, g.p+i) * g.rL.At(i, k)
		}
		loc += white * g.rL.At(l, k)
		scale2 += scale * scale
	}
	return loc, scale2 * (linear.Dot(z, z) + noise) / dof, dof
}

// NewLine implements Model.
func (g gram) NewLine() Line {
	n := g.size()
	return &gramLine{
		gram: g, uu: newSpectrum(g.p), full: newSpectrum(n),
		rows: make([]float64, n*n), before: linear.NewTriangle(n), origin: linear.NewTriangle(n),
		scratch: linear.NewTriangle(n), z: make([]float64, n),
	}
}

// gramLine is the log-partition along the line. A gain at one weight uses a triangular factor. Derivatives, and
// gains at further weights, use spectra, in which they are sums over the singular values.
type gramLine struct {
	gram
	d    []float64
	n, j float64
	rows []float64 // rows of the new statistics' factor that are not zero, in full length
	k    int       // number of rows

	s                       float64         // weight of before; 0 if before is not set
	before, origin, scratch linear.Triangle // factors at s and at 0, without the new statistics
	z                       []float64

	spectral bool // whether uu is set for d and the rows, and also full unless schur holds
	uu, full spectrum
}

func (l *gramLine) Set(d, t []float64) {
	l.d, l.n, l.j = d, d[0], t[0]
	l.k, l.s, l.spectral = 0, 0, false
	n, q := l.size(), l.factor(t)
	for i := range n {
		if entries := q.Row(i); !linear.Zeros(entries) {
			row := l.rows[l.k*n : (l.k+1)*n]
			clear(row[:i])
			copy(row[i:], entries)
			l.k++
		}
	}
}

// Weigh multiplies the new statistics by w.
func (l *gramLine) Weigh(w float64) {
	root := math.Sqrt(w)
	l.j *= w
	linear.Scale(l.rows[:l.k*l.size()], root)
	if l.spectral {
		linear.Scale(l.uu.rows[:l.uu.k*l.uu.n], root)
		linear.Scale(l.full.rows[:l.full.k*l.full.n], root)
	}
}

// schur reports whether schurGain and schurAt apply, which need one target and one new row. Otherwise the
// spectrum of the whole matrix is needed too.
func (l *gramLine) schur() bool { return l.m == 1 && l.k == 1 }

func (l *gramLine) diagonalise() {
	if l.spectral {
		return
	}
	l.spectral = true
	r := l.factor(l.d)
	l.uu.set(r, l.rows[:l.k*l.size()], l.size())
	if l.full.k = 0; !l.schur() {
		l.full.set(r, l.rows[:l.k*l.size()], l.size())
	}
}

// Gain returns
//
//	q(s) = −(m/2)·Δlog|G_uu| − (ν+j)/2·Δlog|Λ| − (j/2)·log|Λ| + Σᵢ Δ lnΓ((ν+1−i)/2)
func (l *gramLine) Gain(s float64) float64 {
	uu, lambda, log := 0.0, 0.0, 0.0
	switch {
	case s == 0 || s == l.s || l.s == 0 && !l.spectral:
		uu, lambda, log = l.factored(s)
	default:
		l.diagonalise()
		if l.schur() {
			uu, lambda, log = l.schurGain(s)
			break
		}
		u, a := l.uu.evaluate(s), l.full.evaluate(s)
		uu, lambda, log = u.gain, a.gain-u.gain, a.log-u.log
	}
	nu := l.nu + s*l.n
	q := -float64(l.m)/2*uu - (nu+l.j)/2*lambda - l.j/2*log + l.j*l.perNat
	for i := range l.m {
		q += special.LgammaDelta((nu-float64(i))/2, l.j/2)
	}
	return q
}

// factored returns the gains of log|G_uu| and log|Λ|, and log|Λ| before the new statistics, from triangular
// factors. It keeps the factor before the new statistics for another gain at s.
func (l *gramLine) factored(s float64) (uu, lambda, log float64) {
	f, n, p := l.before, l.size(), l.p
	switch {
	case s == 0:
		f = l.origin
		f.Identity()
	case s != l.s:
		l.s = s
		f.Line(l.factor(l.d), s, l.scratch.V)
	}
	for i := p; i < n; i++ {
		log += 2 * special.Log(f.At(i, i))
	}
	if l.k == 1 {
		z := l.z
		copy(z, l.rows[:n])
		f.SolveT(z)
		leverage := 1 + linear.Dot(z[:p], z[:p])
		return special.Log(leverage), special.Log1p(linear.Dot(z[p:], z[p:]) / leverage), log
	}
	g := l.scratch
	copy(g.V, f.V)
	for i := range l.k {
		copy(l.z, l.rows[i*n:(i+1)*n])
		g.Add(l.z)
	}
	for i := range n {
		gain := 2 * special.Log(g.At(i, i)/f.At(i, i))
		if i < p {
			uu += gain
		} else {
			lambda += gain
		}
	}
	return uu, lambda, log
}

func (l *gramLine) Jet(s float64) Jet {
	l.diagonalise()
	var uu determinants
	var h [4]float64 // derivatives of log|Λ|
	var e0, e1, e2 float64
	if l.schur() {
		uu, h, e0, e1, e2 = l.schurAt(s)
	} else {
		uu = l.uu.evaluate(s)
		full := l.full.evaluate(s)
		for k := range h {
			h[k] = full.d[k] - uu.d[k]
		}
		e0, e1, e2 = full.gain-uu.gain, full.gain1-uu.gain1, full.gain2-uu.gain2
	}
	m, nu, n := float64(l.m), l.nu+s*l.n, l.n
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
		_, _, p1, p2, p3 := special.Polygammas(a, true)
		d0, d1 := special.DigammaDelta(a, l.j/2)
		jet.F2 += c * c * p1
		jet.F3 += c * c * c * p2
		jet.F4 += c * c * c * c * p3
		jet.Q1 += c * d0
		jet.Q2 += c * c * d1
	}
	return jet
}

// With one target and one new row (u, y), the spectrum of G_uu is enough. In its basis, with w = 1/(1+sλ), R's
// last column (c, ρ) and the regressors b of the row,
//
//	Λ = 1 + s·ρ² + s·Σ c²w,  leverage = Σ b²w,  residual = y − s·Σ bσc·w
//
// and Λ grows by residual²/(1 + leverage). The derivatives of s·w are w², −2w²r, 6w²r² and −24w²r³ with r = λw.
// The derivatives of Λ and of its logarithm are therefore sums without cancellation.

// schurGain returns the same as factored, from the spectrum.
func (l *gramLine) schurGain(s float64) (uu, lambda, log float64) {
	sp := &l.uu
	rho, residual := l.rho(), l.rows[l.p]
	leverage, scale := 1.0, 1+s*rho*rho
	for i, v := range sp.lambda {
		w := 1 / (1 + s*v)
		b, c := sp.rows[i], sp.c[i]
		leverage += b * b * w
		scale += s * c * c * w
		residual -= s * b * sp.sigma[i] * c * w
	}
	return special.Log(leverage), special.Log1p(residual * (residual / (leverage * scale))), special.Log(scale)
}

// rho returns the last entry of the sample's factor.
func (l *gramLine) rho() float64 { return l.d[len(l.d)-1] }

// schurAt returns the determinants and derivatives for Jet.
func (l *gramLine) schurAt(s float64) (uu determinants, h [4]float64, e0, e1, e2 float64) {
	sp := &l.uu
	rho := l.rho()
	var a, f [3]float64                       // 1 + leverage and residual, with derivatives
	p := [5]float64{1 + s*rho*rho, rho * rho} // Λ with derivatives
	a[0], f[0] = 1, l.rows[l.p]
	for i, v := range sp.lambda {
		w := 1 / (1 + s*v)
		r := v * w
		r2 := r * r
		uu.d[1] -= r2
		uu.d[2] += 2 * r2 * r
		uu.d[3] -= 6 * r2 * r2
		b, c := sp.rows[i], sp.c[i]
		bb := b * b * w
		a[0] += bb
		a[1] -= bb * r
		a[2] += 2 * bb * r2
		cross := b * sp.sigma[i] * c * w
		f[0] -= s * cross
		f[1] -= cross * w
		f[2] += 2 * cross * w * r
		cc := c * c * w
		p[0] += s * cc
		cc *= w
		p[1] += cc
		p[2] -= 2 * cc * r
		p[3] += 6 * cc * r2
		p[4] -= 24 * cc * r2 * r
	}
	g1, g2 := a[1]/a[0], a[2]/a[0]
	uu.gain1, uu.gain2 = g1, g2-g1*g1

	h1, h2, h3, h4 := p[1]/p[0], p[2]/p[0], p[3]/p[0], p[4]/p[0]
	h[0] = h1
	h[1] = h2 - h1*h1
	h[2] = h3 - 3*h2*h1 + 2*h1*h1*h1
	h[3] = h4 - 4*h3*h1 - 3*h2*h2 + 12*h2*h1*h1 - 6*h1*h1*h1*h1

	// x = residual²/((1 + leverage)·Λ), from its parts relative to √((1 + leverage)·Λ).
	root := math.Sqrt(a[0] * p[0])
	f0, f1, f2 := f[0]/root, f[1]/root, f[2]/root
	x := f0 * f0
	n1 := 2*f0*f1 - x*g1 // of residual²/(1 + leverage), over Λ
	n2 := 2*(f1*f1+f0*f2) - 2*n1*g1 - x*g2
	x1 := n1 - x*h1
	x2 := n2 - 2*x1*h1 - x*h2
	e1 = x1 / (1 + x)
	return uu, h, special.Log1p(x), e1, x2/(1+x) - e1*e1
}

// A spectrum diagonalises the leading n×n block of I + s·RᵀR, and holds the rows of new statistics in the same
// basis.
type spectrum struct {
	n      int
	a      []float64 // scratch of set
	sigma  []float64
	lambda []float64 // σ²
	c      []float64 // column n of R, in the basis of the left singular vectors
	e, w   []float64 // scratch of set
	rows   []float64 // k rows of n entries
	k      int
	f, y   []float64 // scratch of evaluate
}

func newSpectrum(n int) spectrum {
	v := make([]float64, 5*n)
	return spectrum{
		n: n, sigma: v[:n], lambda: v[n : 2*n], c: v[2*n : 3*n], e: v[3*n : 4*n], w: v[4*n:],
		a: make([]float64, n*n), rows: make([]float64, n*n), y: make([]float64, n*n),
		f: make([]float64, linear.TriangleLen(n)),
	}
}

// set sets the leading block of the sample's factor r, and rows with the given stride.
func (sp *spectrum) set(r linear.Triangle, rows []float64, stride int) {
	n := sp.n
	for i := range n {
		row := sp.a[i*n : (i+1)*n]
		clear(row[:i])
		copy(row[i:], r.Row(i))
		sp.c[i] = 0
		if n < r.N {
			sp.c[i] = r.At(i, n)
		}
	}
	sp.k = 0
	clear(sp.rows[:n]) // the single row of schur may be zero
	for ; len(rows) > 0; rows = rows[stride:] {
		if !linear.Zeros(rows[:n]) {
			copy(sp.rows[sp.k*n:(sp.k+1)*n], rows[:n])
			sp.k++
		}
	}
	sp.decompose()
	for i, v := range sp.sigma {
		sp.lambda[i] = v * v
	}
}

// determinants holds log|I + sRᵀR| with four derivatives, and the gain that the new statistics add to it with
// two derivatives.
type determinants struct {
	log                float64
	d                  [4]float64
	gain, gain1, gain2 float64
}

func (sp *spectrum) evaluate(s float64) determinants {
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
	// The k×k matrix is FᵀF = I + Σ w·c·cᵀ over the columns c of rows, w = 1/(1+sλ) with w′ = −wr, w″ = 2wr², r
	// = λw. With y = F⁻ᵀc·√w, the traces are sums of products of the y. Built as a factor, the matrix stays
	// definite at any scale.
	f := linear.Triangle{N: k, V: sp.f[:linear.TriangleLen(k)]}
	clear(f.V)
	for a := range k {
		f.Set(a, a, 1)
	}
	column := func(i int) []float64 {
		y, root := sp.y[i*k:(i+1)*k], 1/math.Sqrt(1+s*sp.lambda[i])
		for a := range y {
			y[a] = sp.rows[a*n+i] * root
		}
		return y
	}
	for i := range n {
		f.Add(column(i))
	}
	for a := range k {
		out.gain += 2 * math.Log(f.At(a, a))
	}
	for i, l := range sp.lambda {
		y := column(i)
		f.SolveT(y)
		r := l / (1 + s*l)
		size := linear.Dot(y, y)
		out.gain1 -= r * size
		out.gain2 += r * r * (2*size - size*size)
		for j := range i {
			l := sp.lambda[j]
			c := linear.Dot(y, sp.y[j*k:(j+1)*k])
			out.gain2 -= 2 * r * (l / (1 + s*l)) * c * c
		}
	}
	return out
}
