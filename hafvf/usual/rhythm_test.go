package usual

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"hafvf/internal/testing/expect"
)

// none has no minimum standard deviation, for one coordinate. unbounded has bounds without effect, for two.
var none, unbounded = make([]float64, 1), []float64{1e9, 1e9}

func newRhythm(t testing.TB, c RhythmConfig, dim int) *Rhythm {
	t.Helper()
	r := expect.Get(NewRhythm(c, dim))(t)
	return r
}

// A denseRhythm is the regression of a Rhythm as normal equations.
type denseRhythm struct {
	k       *mat.SymDense // precision
	h       []*mat.VecDense
	last    time.Time
	share   float64
	memory  float64
	regress func(t time.Time) []float64
}

func newDenseRhythm(size, dim int, memory float64, regress func(time.Time) []float64) *denseRhythm {
	d := &denseRhythm{k: mat.NewSymDense(size, nil), memory: memory, share: 1, regress: regress}
	for i := 1; i < size; i++ {
		d.k.SetSym(i, i, rhythmPrecision)
	}
	for range dim {
		d.h = append(d.h, mat.NewVecDense(size, nil))
	}
	return d
}

func (d *denseRhythm) fade(t time.Time) {
	if d.last.IsZero() {
		d.last = t
	}
	w := math.Exp(math.Max(-1, -t.Sub(d.last).Seconds()/d.memory))
	d.last = t
	d.k.ScaleSym(w, d.k)
	for _, h := range d.h {
		h.ScaleVec(w, h)
	}
	if d.share *= w; d.share < rhythmRestore {
		for i := 1; i < d.k.SymmetricDim(); i++ {
			d.k.SetSym(i, i, d.k.At(i, i)+(1-d.share)*rhythmPrecision)
		}
		d.share = 1
	}
}

// scaleLevel raises p(c₀|c) to the given power: with the first row K₀, it subtracts (1 − power)·K₀ᵀK₀/K₀₀.
func (d *denseRhythm) scaleLevel(power float64) {
	n, k00 := d.k.SymmetricDim(), d.k.At(0, 0)
	if k00 == 0 {
		return
	}
	row := mat.NewVecDense(n, nil)
	for i := range n {
		row.SetVec(i, d.k.At(0, i))
	}
	for _, h := range d.h {
		h.AddScaledVec(h, -(1-power)*h.AtVec(0)/k00, row)
	}
	d.k.SymRankOne(d.k, -(1-power)/k00, row)
	if power == 0 { // clear the rounding errors
		for i := range n {
			d.k.SetSym(0, i, 0)
		}
		for _, h := range d.h {
			h.SetVec(0, 0)
		}
	}
}

func (d *denseRhythm) learn(t time.Time, x []float64, weight float64) {
	d.fade(t)
	d.scaleLevel(math.Pow(rhythmLevel, weight))
	u := mat.NewVecDense(d.k.SymmetricDim(), append([]float64{1}, d.regress(t)...))
	d.k.SymRankOne(d.k, weight, u)
	for i, v := range x {
		d.h[i].AddScaledVec(d.h[i], weight*v, u)
	}
}

// predict marginalises the level: the Schur complement of its precision, if it has one.
func (d *denseRhythm) predict(t testing.TB, at time.Time) (mean []float64, variance float64) {
	t.Helper()
	faded := *d
	faded.k, faded.h = mat.NewSymDense(d.k.SymmetricDim(), nil), nil
	faded.k.CopySym(d.k)
	for _, h := range d.h {
		faded.h = append(faded.h, mat.VecDenseCopyOf(h))
	}
	d = &faded
	d.fade(at)
	n := d.k.SymmetricDim() - 1
	k := mat.NewSymDense(n, nil)
	k00 := d.k.At(0, 0)
	rest := func(a, b float64) float64 {
		if k00 == 0 {
			return 0
		}
		return a * b / k00
	}
	for i := range n {
		for j := i; j < n; j++ {
			k.SetSym(i, j, d.k.At(1+i, 1+j)-rest(d.k.At(0, 1+i), d.k.At(0, 1+j)))
		}
	}
	var c mat.Cholesky
	if !c.Factorize(k) {
		t.Fatal("not positive definite")
	}
	u, z := mat.NewVecDense(n, d.regress(at)), mat.NewVecDense(n, nil)
	expect.OK(t, c.SolveVecTo(z, u))
	for _, h := range d.h {
		m := 0.
		for i := range n {
			m += z.AtVec(i) * (h.AtVec(1+i) - rest(d.k.At(0, 1+i), h.AtVec(0)))
		}
		mean = append(mean, m)
	}
	return mean, mat.Dot(u, z)
}

// A Rhythm is the Bayesian regression of its doc comment, with the level marginalised. The reference uses the normal
// equations; the data have gaps, weights, missing values and new regimes.
func TestRhythmMatchesDenseRegression(t *testing.T) {
	c := RhythmConfig{Seasons: []Season{{24 * time.Hour, 3}, {168 * time.Hour, 2}}, Zone: "Europe/Berlin"}
	r := newRhythm(t, c, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	dense := newDenseRhythm(11, 2, 5*7*24*3600, func(now time.Time) []float64 {
		u := make([]float64, 10)
		seasonal(u, c.Seasons, r.calendar, now)
		return u
	})
	s, mean := r.NewState(), make([]float64, 2)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3000 {
		variance := r.Predict(mean, s, now)
		want, h := dense.predict(t, now)
		if math.Abs(variance/h-1) > 1e-10 || math.Abs(mean[0]-want[0]) > 1e-10*20 || math.Abs(mean[1]-want[1]) > 1e-10*1000 {
			t.Fatalf("observation %d: mean %v, variance %g, want %v and %g", i, mean, variance, want, h)
		}
		x := []float64{10*math.Sin(2*math.Pi*float64(i)/24) + rng.NormFloat64(), 1000 + rng.NormFloat64()}
		weight := 1.
		if i%5 == 0 {
			weight = rng.Float64()
		}
		switch {
		case i%7 == 3:
			r.Learn(s, now, []float64{math.NaN(), 1}, 1, unbounded)
		case i%11 == 3:
			r.Learn(s, now, x, 0, unbounded)
		default:
			r.Learn(s, now, x, weight, unbounded)
			dense.learn(now, x, weight)
		}
		if i%400 == 399 {
			r.ForgetLevel(s)
			dense.scaleLevel(0)
		}
		now = now.Add(time.Duration(rng.IntN(150)) * time.Minute)
		if i%900 == 899 {
			now = now.Add(40 * 24 * time.Hour)
		}
	}
}

// A holiday is a local date, on which nothing is learned.
func TestRhythmHolidays(t *testing.T) {
	r := newRhythm(t, RhythmConfig{Seasons: DefaultSeasons(), Zone: "Europe/Berlin", Holidays: []string{"2026-12-25"}}, 1)
	begin := time.Date(2026, 12, 24, 23, 0, 0, 0, time.UTC) // midnight in Berlin
	for d, learned := range map[time.Duration]bool{-time.Second: true, 0: false, 23*time.Hour + 59*time.Minute: false, 24 * time.Hour: true} {
		s := r.NewState()
		r.Learn(s, begin.Add(d), []float64{1}, 1, none)
		if learns := !reflect.DeepEqual(s, r.NewState()); learns != learned {
			t.Errorf("%v after midnight: learned %v, want %v", d, learns, learned)
		}
	}
}

func TestRhythmErrors(t *testing.T) {
	day := []Season{{24 * time.Hour, 1}}
	for want, c := range map[string]RhythmConfig{
		"seasons: must have at least one":                                                         {},
		"seasons.1.period: must be greater than 0, not 0s":                                        {Seasons: append(day, Season{0, 1})},
		`zone: "Europe/Berlim" is not a time zone: use an IANA name such as UTC or Europe/Berlin`: {Seasons: day, Zone: "Europe/Berlim"},
		`holidays.1: "25.12.2026" is not a date such as 2026-12-25`:                               {Seasons: day, Holidays: []string{"2026-12-24", "25.12.2026"}},
	} {
		if _, err := NewRhythm(c, 1); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Valid refuses values that are not a state of the rhythm.
func TestRhythmValid(t *testing.T) {
	r := newRhythm(t, RhythmConfig{Seasons: DefaultSeasons()}, 1)
	s := r.NewState()
	r.Learn(s, time.Unix(1e9, 0), []float64{3}, 1, none)
	if err := r.Valid(s); err != nil || len(s) != 139 {
		t.Fatalf("%d floats: %v", len(s), err)
	}
	for name, change := range map[string]func(s State) State{
		"short":    func(s State) State { return s[1:] },
		"NaN":      func(s State) State { s[9] = math.NaN(); return s },
		"share":    func(s State) State { s[priorShare] = 2; return s },
		"diagonal": func(s State) State { f := r.factor(s); f.Set(3, 3, 0); return s },
	} {
		if err := r.Valid(change(append(State{}, s...))); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestRhythmAllocatesNothing(t *testing.T) {
	r := newRhythm(t, RhythmConfig{Seasons: DefaultSeasons()}, 1)
	s, x, mean := r.NewState(), []float64{1}, make([]float64, 1)
	now := time.Unix(1_800_000_000, 0)
	if n := testing.AllocsPerRun(500, func() {
		now = now.Add(time.Hour)
		r.Predict(mean, s, now)
		r.Learn(s, now, x, .5, none)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
