package usual

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/domain"
	"hafvf/internal/linear"
)

// RhythmConfig contains the settings of a Rhythm. Their JSON form is stable.
type RhythmConfig struct {
	Seasons []Season `json:"seasons"`        // at least one
	Zone    string   `json:"zone,omitempty"` // zone of the seasons and holidays, an IANA name; default UTC
	// Holidays are local dates, such as 2006-01-02, on which nothing is learned.
	Holidays []string `json:"holidays,omitempty"`
	// Like are local dates that the seasons treat as another day of the week.
	Like Holidays `json:"like,omitzero"`
}

// Fixed settings of a Rhythm.
const (
	rhythmMemory    = 5.   // longest periods after which a season weighs 1/e
	rhythmLevel     = .985 // forgetting of the level, per observation
	rhythmPrecision = 1.   // π
	rhythmRestore   = .9   // share of the prior below which it is restored
	rhythmBound     = 6.   // largest learned distance from the expected value, in standard deviations
	rhythmKnown     = 8.   // observations after which a standard deviation is known
)

// A Rhythm learns the season of a stream of vectors: the part of the values that recurs with the local time. It is a
// Bayesian linear regression of every coordinate on a constant, the level, and the harmonics u of the seasons,
//
//	x ~ N(c₀ + cᵀu, σ²),  c|σ² ~ N(0, σ²/π),  c₀ flat
//
// At any time the season has mean and variance
//
//	E[cᵀu] and h·σ²,  h = uᵀ Cov(c) u / σ²
//
// The level belongs to the stream, not to the season: the next stage, a Filter or a Bank, receives the values less
// their season.
//
// A season fades towards its prior by e⁻¹ in five of its longest periods, and by at most as much between two
// observations, so that a single wrong time does not forget it. The level also fades by .985 per observation, so that
// a stream that drifts has a season too. A Rhythm stores the upper triangular factor R of the precision K = RᵀR, with
// the constant first. Hence
//
//	p(c₀, c) = p(c)·p(c₀|c)
//
// where the first row is p(c₀|c), and the others are p(c). ForgetLevel clears the first row: a new regime starts with
// an unknown level and the known season.
//
// A single value has a bounded influence. Let r be the residual of x from c₀ + cᵀu, and v·σ² the variance of r, both
// before x is learned. A Rhythm learns r as at most 6·√(v·s), where s is the mean of the learned r²/v, with the memory
// of the level. Thus an outlier of any size counts as one of six standard deviations, and s can hardly double. A
// lasting change is learned after a few values.
//
// The coordinates share the factor. An update takes about p² multiplications for the p regressors, which are 15 under
// DefaultSeasons, and from time to time p³/6.
//
// A Rhythm owns its scratch memory: use one per goroutine.
type Rhythm struct {
	dim      int
	seasons  []Season
	calendar *Calendar
	holidays map[int64]bool // by days since 1 January 1970
	size     int            // p
	memory   float64        // seconds
	row      []float64      // regressors and values
	solved   []float64      // scratch of expect
	expected []float64      // scratch of bound
	faded    State          // scratch of Predict and Expect
}

// NewRhythm returns a Rhythm of vectors of length dim, at least 1. An error names the invalid setting.
func NewRhythm(c RhythmConfig, dim int) (*Rhythm, error) {
	if dim < 1 {
		return nil, fmt.Errorf("dim: must be at least 1, not %d", dim)
	}
	if len(c.Seasons) == 0 {
		return nil, errors.New("seasons: must have at least one")
	}
	r := &Rhythm{dim: dim, seasons: slices.Clone(c.Seasons), holidays: map[int64]bool{}, size: 1 + harmonics(c.Seasons)}
	for i, s := range c.Seasons {
		if err := s.valid(); err != nil {
			return nil, fmt.Errorf("seasons.%d.%w", i, err)
		}
		r.memory = math.Max(r.memory, rhythmMemory*s.Period.Seconds())
	}
	zone, err := domain.Zone(c.Zone) // UTC where it is empty
	if err != nil {
		return nil, fmt.Errorf("zone: %w", err)
	}
	if r.calendar, err = NewCalendar(zone, c.Like); err != nil {
		return nil, fmt.Errorf("like: %w", err)
	}
	for i, date := range c.Holidays {
		t, err := domain.Date(date)
		if err != nil {
			return nil, fmt.Errorf("holidays.%d: %w", i, err)
		}
		r.holidays[t.Unix()/secondsOfDay] = true
	}
	r.row, r.solved, r.expected = make([]float64, r.size+dim), make([]float64, r.size), make([]float64, dim)
	r.faded = make(State, r.StateLen())
	return r, nil
}

// Lasting turns off the fading of the season, for a session that is complete.
func (r *Rhythm) Lasting() { r.memory = math.Inf(1) }

// Seasonal returns an error that explains why values of a family have no season, or nil if they can have one.
func Seasonal(family string) error {
	switch family {
	case "normal", "mvnormal", "regression", "ar", "exponential", "poisson":
		return nil
	case "binomial":
		return errors.New("shares of trials have no season: a season is added to a number, and a share ends at 0 and 1")
	case "bernoulli", "categorical":
		return fmt.Errorf("values of %s have no season: a season is added to a number, and these are categories", family)
	}
	return fmt.Errorf("values of %s have no season", family)
}

const secondsOfDay = 24 * 60 * 60

// Indices of a state, before its factor. The factor has the first p rows of the factor of (u, x), packed by rows:
// regressors, and then for each coordinate the right-hand side.
const (
	lastTime   = iota // Unix seconds of the last observation
	priorShare        // share of the prior that remains since it was restored
	residuals         // number of learned residuals, decayed
	factorStart
)

// StateLen returns the number of floats in a state: 139 for one coordinate under DefaultSeasons.
func (r *Rhythm) StateLen() int { return r.squaresStart() + r.dim }

func (r *Rhythm) squaresStart() int { return factorStart + linear.TriangleLen(r.size) + r.size*r.dim }

// squares returns the sums of the squares of the residuals, by coordinate.
func (r *Rhythm) squares(s State) []float64 { return s[r.squaresStart():] }

// NewState returns the state of a stream before its first observation.
func (r *Rhythm) NewState() State {
	s := make(State, r.StateLen())
	r.restore(s)
	return s
}

func (r *Rhythm) factor(s State) linear.Triangle {
	return linear.Triangle{N: r.size + r.dim, V: s[factorStart:r.squaresStart()]}
}

// restore adds the forgotten part of the prior.
func (r *Rhythm) restore(s State) {
	root := math.Sqrt((1 - s[priorShare]) * rhythmPrecision)
	for i := 1; i < r.size; i++ {
		clear(r.row)
		r.row[i] = root
		r.factor(s).AddTop(r.row, r.size)
	}
	s[priorShare] = 1
}

// fade turns s into the state just before an observation at t.
func (r *Rhythm) fade(s State, t time.Time) {
	now := float64(t.Unix()) + float64(t.Nanosecond())*1e-9
	if passed := now - s[lastTime]; passed <= 0 {
		if passed < -r.memory {
			s[lastTime] = now // the previous time was wrong
		}
		return
	}
	w := math.Exp(math.Max(-1, (s[lastTime]-now)/r.memory))
	s[lastTime] = now
	if w == 1 {
		return
	}
	linear.Scale(r.factor(s).V, math.Sqrt(w))
	if s[priorShare] *= w; s[priorShare] < rhythmRestore {
		r.restore(s)
	}
}

// Predict writes the mean of the season at t to mean. It returns the season's variance in units of the variance of the
// values around it. It does not change s.
func (r *Rhythm) Predict(mean []float64, s State, t time.Time) (variance float64) {
	mustHave(s, r.StateLen(), wrongState)
	mustHave(mean, r.dim, wrongDst)
	copy(r.faded, s)
	r.fade(r.faded, t)
	u := r.row[:r.size]
	seasonal(u[1:], r.seasons, r.calendar, t)
	return r.expect(mean, r.factor(r.faded), u, 1, 0)
}

// Learn learns the observation x at t with a weight in [0, 1], the probability that x belongs to the current regime. It
// does nothing on a holiday, or if x has a NaN. The standard deviations that bound the influence of x are at least
// minSD, so that changes after a run of equal values are learned too.
//
// Learn allocates nothing. It panics if s, x or minSD has the wrong length.
func (r *Rhythm) Learn(s State, t time.Time, x []float64, weight float64, minSD []float64) {
	mustHave(s, r.StateLen(), wrongState)
	mustHave(x, r.dim, wrongDim)
	mustHave(minSD, r.dim, wrongDim)
	if weight == 0 || incomplete(x) || r.Holiday(t) {
		return
	}
	r.fade(s, t)
	f := r.factor(s)
	forget := math.Pow(rhythmLevel, weight)
	linear.Scale(f.V[:f.N], math.Sqrt(forget))
	r.row[0] = 1
	seasonal(r.row[1:r.size], r.seasons, r.calendar, t)
	copy(r.row[r.size:], x)
	if !math.IsInf(r.memory, 1) { // a complete session learns all values without a bound
		r.bound(s, weight, forget, minSD)
	}
	if weight != 1 {
		linear.Scale(r.row, math.Sqrt(weight))
	}
	f.AddTop(r.row, r.size)
}

// bound limits the values in r.row by the residuals learned before. It does nothing while the level is unknown.
func (r *Rhythm) bound(s State, weight, forget float64, minSD []float64) {
	f := r.factor(s)
	if f.V[0] == 0 {
		return
	}
	root := math.Sqrt(r.expect(r.expected, f, r.row[:r.size], 0, 1))
	n := &s[residuals]
	for k, squares := 0, r.squares(s); k < r.dim; k++ {
		x := &r.row[r.size+k]
		z := (*x - r.expected[k]) / root
		if *n >= rhythmKnown {
			if limit := rhythmBound * math.Max(math.Sqrt(squares[k] / *n), minSD[k]); math.Abs(z) > limit {
				z = math.Copysign(limit, z)
				*x = r.expected[k] + z*root
			}
		}
		squares[k] = forget*squares[k] + weight*z*z
	}
	*n = forget**n + weight
}

// expect writes the expected mean at the regressors u to mean, using regressors from index first on; with first = 0
// this includes the level. It returns its variance plus the given variance.
func (r *Rhythm) expect(mean []float64, f linear.Triangle, u []float64, first int, variance float64) float64 {
	clear(mean)
	copy(r.solved, u)
	for i := first; i < r.size; i++ { // R⁻ᵀu
		row := f.Row(i)
		z := r.solved[i] / row[0]
		variance += z * z
		rest := r.solved[i+1:]
		linear.Axpy(rest, -z, row[1:])
		linear.Axpy(mean, z, row[1+len(rest):])
	}
	return variance
}

// Expect writes the expected mean of an observation at t, with level and season, and the standard deviation of its
// residual. If the level is unknown or too few residuals are known, the mean is 0 and the standard deviation +Inf.
// Expect does not change s.
func (r *Rhythm) Expect(mean, sd []float64, s State, t time.Time) {
	mustHave(s, r.StateLen(), wrongState)
	mustHave(mean, r.dim, wrongDst)
	mustHave(sd, r.dim, wrongDst)
	copy(r.faded, s)
	r.fade(r.faded, t)
	f, n := r.factor(r.faded), s[residuals]
	if f.V[0] == 0 || n < rhythmKnown {
		for k := range mean {
			mean[k], sd[k] = 0, math.Inf(1)
		}
		return
	}
	u := r.row[:r.size]
	u[0] = 1
	seasonal(u[1:], r.seasons, r.calendar, t)
	variance := r.expect(mean, f, u, 0, 1)
	for k, square := range r.squares(s) {
		sd[k] = math.Sqrt(variance * square / n)
	}
}

// ForgetLevel makes the level unknown, as at the start of a new regime. The season remains.
func (r *Rhythm) ForgetLevel(s State) {
	mustHave(s, r.StateLen(), wrongState)
	clear(s[factorStart : factorStart+r.size+r.dim])
}

// Holiday reports whether the local date of t is one of the holidays, on which nothing is learned.
func (r *Rhythm) Holiday(t time.Time) bool {
	if len(r.holidays) == 0 {
		return false
	}
	y, m, d := t.In(r.calendar.Zone()).Date()
	return r.holidays[time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()/secondsOfDay]
}

// Valid returns an error if s, decoded from bytes, is not a state of the rhythm.
func (r *Rhythm) Valid(s State) error {
	if len(s) != r.StateLen() {
		return fmt.Errorf("state is corrupt: season of %d floats, want %d", len(s), r.StateLen())
	}
	negative := func(v float64) bool { return v < 0 }
	ok := linear.Finite(s) && s[priorShare] >= rhythmRestore && s[priorShare] <= 1 &&
		s[residuals] >= 0 && !slices.ContainsFunc(r.squares(s), negative)
	f := r.factor(s)
	for i := range r.size {
		// The prior keeps all of them above zero, except that of the level.
		ok = ok && (f.At(i, i) > 0 || i == 0 && f.At(0, 0) == 0)
	}
	if !ok {
		return errors.New("state is corrupt: season")
	}
	return nil
}
