package experiment

import "math"

// A wiener is the logarithm of a first-passage density, in nats, with its derivatives.
type wiener struct {
	log, t, v, a, w float64
}

// firstPassage returns the log density of the decision time t > 0 (s) of a Wiener process with drift v and unit
// variance per second. The process starts at w·a, 0 < w < 1, and leaves (0, a) at a if upper is true, else at 0. The
// formulas are equations 1 and 5 (large times) and 6 (small times) of Navarro and Fuss (2009), with u = t/a²:
//
//	f(t|v,a,w) = a⁻² exp(−vaw − v²t/2) f(u|0,1,w)
func firstPassage(t, v, a, w float64, upper bool) wiener {
	if upper {
		p := firstPassage(t, -v, a, 1-w, false)
		p.v, p.w = -p.v, -p.w
		return p
	}
	u := t / (a * a)
	log, du, dw := unitPassage(u, w)
	return wiener{
		log: log - 2*math.Log(a) - v*a*w - v*v*t/2,
		t:   du/(a*a) - v*v/2,
		v:   -a*w - v*t,
		a:   (-2*u*du-2)/a - v*w,
		w:   dw - v*a,
	}
}

// smallTime is the largest u at which the small-time series is used. There both series need five or six terms for
// full precision.
const smallTime = 0.35

// negligible is the exponent below which a term is lost in rounding.
const negligible = -42

// unitPassage returns log f(u|0,1,w) with its derivatives in u and w. The first term of either series is taken out of
// the logarithm, so that no density underflows.
func unitPassage(u, w float64) (log, du, dw float64) {
	if u > smallTime {
		// π e^(−π²u/2) Σ k e^(−(k²−1)π²u/2) sin kπw
		const rate = math.Pi * math.Pi / 2
		var sum, sumU, sumW float64
		sin1, cos1 := math.Sincos(math.Pi * w)
		sin, cos := sin1, cos1
		for k := 1.0; ; k++ {
			x := (k*k - 1) * rate
			if -x*u < negligible {
				break
			}
			e := k * math.Exp(-x*u)
			sum += e * sin
			sumU -= x * e * sin
			sumW += k * math.Pi * e * cos
			sin, cos = sin*cos1+cos*sin1, cos*cos1-sin*sin1
		}
		return math.Log(math.Pi*sum) - rate*u, sumU/sum - rate, sumW / sum
	}
	// (2πu³)^(−½) e^(−w²/2u) Σ (w+2k) e^(−2k(w+k)/u), k = 0, −1, 1, −2, …
	r := 1 / u
	sum, sumU, sumW := w, 0.0, 1.0
	for k := 1.0; -2*k*(k-w)*r >= negligible; k++ {
		for _, k := range [2]float64{-k, k} {
			x := 2 * k * (w + k) * r
			e := math.Exp(-x)
			sum += (w + 2*k) * e
			sumU += (w + 2*k) * x * r * e
			sumW += (1 - (w+2*k)*2*k*r) * e
		}
	}
	log = math.Log(sum) - 0.5*math.Log(2*math.Pi) - 1.5*math.Log(u) - 0.5*w*w*r
	return log, sumU/sum + (0.5*w*w*r-1.5)*r, sumW/sum - w*r
}
