package special

import "math"

// Exp, Log and Log1p take about half the time of package math, with errors below two ulps. All three look up a
// table by the leading bits and sum a short series (Tang 1989, 1990).

const (
	expBits = 6
	logBits = 7
)

// expTable has the bits of 2^(i/64).
var expTable = func() (t [1 << expBits]uint64) {
	for i := range t {
		t[i] = math.Float64bits(math.Exp2(float64(i) / (1 << expBits)))
	}
	return t
}()

// Exp returns eˣ.
func Exp(x float64) float64 {
	if !(x > -700 && x < 700) {
		return math.Exp(x)
	}
	const (
		n     = 1 << expBits
		hi    = 6.93147180369123816490e-01 / n // ln 2 with so few bits that the product with k is exact
		lo    = 1.90821492927058770002e-10 / n
		round = 0x1.8p52
	)
	t := x*(n/math.Ln2) + round
	k := int64(math.Float64bits(t) << 12 >> 12)
	f := t - round
	r := (x - f*hi) - f*lo
	r2 := r * r
	p := r + r2*((0.5+r*(1./6))+r2*(1./24+r*(1./120)))
	s := math.Float64frombits(expTable[k&(n-1)] + uint64(k>>expBits)<<52)
	return s + s*p
}

// logTable has for each interval of [0x1.6p-1, 0x1.6p0) the middle c, 1/c and ln c; the interval around 1 has c =
// 1.
var logTable = func() (t [1 << logBits]struct{ c, inv, log float64 }) {
	for i := range t {
		z := math.Float64frombits(logOffset + uint64(i)<<(52-logBits))
		end := math.Float64frombits(logOffset + uint64(i+1)<<(52-logBits))
		c := (z + end) / 2
		t[i].c, t[i].inv, t[i].log = c, 1/c, math.Log(c)
	}
	return t
}()

const logOffset = 0x3fe6000000000000

// Log returns ln x.
func Log(x float64) float64 {
	bits := math.Float64bits(x)
	if bits-1<<52 >= 0x7ff<<52-1<<52 {
		if x > 0 && x < 1 {
			return Log(x*0x1p54) - 54*math.Ln2 // subnormal, which math.Log gets wrong on amd64
		}
		return math.Log(x) // zero, negative, infinite, NaN
	}
	if d := x - 1; d > -0x1p-8 && d < 0x1p-8 {
		return logSeries(d)
	}
	bits -= logOffset
	e := &logTable[bits>>(52-logBits)&(1<<logBits-1)]
	k := int64(bits) >> 52
	z := math.Float64frombits(bits&(1<<52-1) + logOffset)
	return (float64(k)*math.Ln2 + e.log) + logSeries((z-e.c)*e.inv)
}

// logSeries returns ln(1+r) for |r| ≤ 2⁻⁸.
func logSeries(r float64) float64 {
	r2 := r * r
	return r - r2*((0.5-r*(1./3))+r2*((1./4-r*(1./5))+r2*(1./6-r*(1./7))))
}

// Log1p returns ln(1+x).
func Log1p(x float64) float64 {
	if x > -0x1p-8 && x < 0x1p-8 {
		return logSeries(x)
	}
	u := 1 + x
	if !(x > -1 && x < 1) {
		return Log(u)
	}
	return Log(u) + (x-(u-1))/u
}

// LogAndLog1p returns Log(x) and Log1p(y), bit for bit, in one call.
func LogAndLog1p(x, y float64) (log, log1p float64) {
	a := math.Float64bits(x)
	if d := x - 1; a-1<<52 >= 0x7ff<<52-1<<52 || d > -0x1p-8 && d < 0x1p-8 || !(y >= 0 && y < 0x1p50) {
		return Log(x), Log1p(y)
	}
	a -= logOffset
	e := &logTable[a>>(52-logBits)&(1<<logBits-1)]
	z := math.Float64frombits(a&(1<<52-1) + logOffset)
	log = (float64(int64(a)>>52)*math.Ln2 + e.log) + logSeries((z-e.c)*e.inv)
	if y < 0x1p-8 {
		return log, logSeries(y)
	}
	u := 1 + y
	a = math.Float64bits(u) - logOffset
	e = &logTable[a>>(52-logBits)&(1<<logBits-1)]
	z = math.Float64frombits(a&(1<<52-1) + logOffset)
	log1p = (float64(int64(a)>>52)*math.Ln2 + e.log) + logSeries((z-e.c)*e.inv)
	if y < 1 {
		log1p += (y - (u - 1)) / u
	}
	return log, log1p
}

// LogSumExp returns log Σ exp v. For an empty v it returns −∞.
func LogSumExp(v []float64) float64 {
	top := math.Inf(-1)
	for _, x := range v {
		top = math.Max(top, x)
	}
	if math.IsInf(top, 0) {
		return top
	}
	sum := 0.0
	for _, x := range v {
		sum += Exp(x - top)
	}
	return top + Log(sum)
}

// Logistic returns w = 1/(1+e^−x) with log w and log(1−w), which keep digits that rounding w and 1−w loses.
func Logistic(x float64) (w, logW, log1W float64) {
	e := math.Exp(-math.Abs(x))
	l := -math.Log1p(e)
	w = 1 / (1 + e)
	if x < 0 {
		return w * e, l + x, l
	}
	return w, l, l - x
}
