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

// RhythmConfig are the settings of a Rhythm. Their JSON form is stable.
type RhythmConfig struct {
	Seasons []Season `json:"seasons"`        // at least one
	Zone    string   `json:"zone,omitempty"` // of the seasons and holidays, an IANA name; default UTC
	// Holidays are local dates, 2006-01-02. What comes on them is not learned.
	Holidays []string `json:"holidays,omitempty"`
}

// Settings of a Rhythm that aren't the user's.
const (
	rhythmMemory    = 5.   // longest periods after which a season weighs 1/e
	rhythmLevel     = .985 // forgetting of the level, per observation
	rhythmPrecision = 1.   // π
	rhythmRestore   = .9   // share of the prior below which it is put back
)

// A Rhythm learns the season of a stream of vectors: the part of the values that
// recurs with the local time. It is a Bayesian linear regression of every coordinate
// on a constant, the level, and the harmonics u of the seasons,
//
//	x ~ N(c₀ + cᵀu, σ²),  c|σ² ~ N(0, σ²/π),  c₀ flat
//
// whose season, at any time, has mean and variance
//
//	E[cᵀu] and h·σ²,  h = uᵀ Cov(c) u / σ²
//
// The level is the stream's, not the season's: what follows it, a Filter or a Bank,
// takes the values less their season.
//
// A season fades by e⁻¹ in five of its longest periods, towards its prior. The level
// fades by .985 an observation besides, so that a stream that drifts has a season
// too. A rhythm holds the upper triangular factor R of the precision, RᵀR = K, in
// which the constant stands first. It follows that
//
//	p(c₀, c) = p(c)·p(c₀|c)
//
// where all rows but the first are p(c), and the first is p(c₀|c): ForgetLevel clears
// it, and a new regime begins with another level and the season as it is known.
//
// The coordinates share the factor. An update takes about p² multiplications for the
// p regressors, which are 15 under DefaultSeasons, and from time to time p³/6.
//
// A Rhythm owns its scratch: one per goroutine.
type Rhythm struct {
	dim      int
	seasons  []Season
	zone     *time.Location
	holidays map[int64]bool // by the days since 1 January 1970
	size     int            // p
	memory   float64        // seconds
	row      []float64      // regressors and values
	faded    State          // scratch of Predict
}

// NewRhythm makes a rhythm of vectors of length dim, at least 1. An error names what
// is wrong with c.
func NewRhythm(c RhythmConfig, dim int) (*Rhythm, error) {
	if dim < 1 {
		return nil, fmt.Errorf("dim: must be at least 1, not %d", dim)
	}
	if len(c.Seasons) == 0 {
		return nil, errors.New("seasons: there is none")
	}
	r := &Rhythm{dim: dim, seasons: slices.Clone(c.Seasons), holidays: map[int64]bool{}, size: 1 + harmonics(c.Seasons)}
	for i, s := range c.Seasons {
		if err := s.valid(); err != nil {
			return nil, fmt.Errorf("seasons.%d.%w", i, err)
		}
		r.memory = math.Max(r.memory, rhythmMemory*s.Period.Seconds())
	}
	var err error
	if r.zone, err = domain.Zone(c.Zone); err != nil { // UTC where it is empty
		return nil, fmt.Errorf("zone: %w", err)
	}
	for i, date := range c.Holidays {
		t, err := domain.Date(date)
		if err != nil {
			return nil, fmt.Errorf("holidays.%d: %w", i, err)
		}
		r.holidays[t.Unix()/secondsOfDay] = true
	}
	r.row = make([]float64, r.size+dim)
	r.faded = make(State, r.StateLen())
	return r, nil
}

// Lasting makes the season one that does not fade, of a session that is over.
func (r *Rhythm) Lasting() { r.memory = math.Inf(1) }

// Seasonal says why values of a family have no season; nil where they may have one.
func Seasonal(family string) error {
	switch family {
	case "normal", "mvnormal", "regression", "ar", "exponential", "poisson":
		return nil
	case "bernoulli", "categorical":
		return fmt.Errorf("values of %s have none: a season is added to a number, and these are categories", family)
	}
	return fmt.Errorf("values of %s have none", family)
}

const secondsOfDay = 24 * 60 * 60

// The entries of a state before its factor. The factor is the first p rows of that of
// (u, x), packed by rows: regressors, then for each coordinate the right-hand side.
const (
	lastAt     = iota // seconds since 1970 of the last observation
	priorShare        // what is left of the prior since it was put back
	ofFactor
)

// Dim is the length of the vectors that Learn takes.
func (r *Rhythm) Dim() int { return r.dim }

// StateLen is the number of floats in a state: 137 for one coordinate under
// DefaultSeasons.
func (r *Rhythm) StateLen() int { return ofFactor + linear.TriangleLen(r.size) + r.size*r.dim }

// NewState returns the state of a stream before its first observation.
func (r *Rhythm) NewState() State {
	s := make(State, r.StateLen())
	r.restore(s)
	return s
}

func (r *Rhythm) factor(s State) linear.Triangle {
	return linear.Triangle{N: r.size + r.dim, V: s[ofFactor:]}
}

// restore puts back what has been forgotten of the prior.
func (r *Rhythm) restore(s State) {
	root := math.Sqrt((1 - s[priorShare]) * rhythmPrecision)
	for i := 1; i < r.size; i++ {
		clear(r.row)
		r.row[i] = root
		r.factor(s).AddTop(r.row, r.size)
	}
	s[priorShare] = 1
}

// fade makes s the state before an observation at t.
func (r *Rhythm) fade(s State, t time.Time) {
	now := float64(t.Unix()) + float64(t.Nanosecond())*1e-9
	if now <= s[lastAt] {
		return
	}
	w := math.Exp((s[lastAt] - now) / r.memory)
	s[lastAt] = now
	if w == 1 {
		return
	}
	root := math.Sqrt(w)
	for i := range s[ofFactor:] {
		s[ofFactor+i] *= root
	}
	if s[priorShare] *= w; s[priorShare] < rhythmRestore {
		r.restore(s)
	}
}

// Predict writes the mean of the season at t to mean, and returns the variance that
// it has in units of that of the values around it. The state stays as it is.
func (r *Rhythm) Predict(mean []float64, s State, t time.Time) (variance float64) {
	if len(s) != r.StateLen() {
		panic(wrongState)
	}
	if len(mean) != r.dim {
		panic(wrongDst)
	}
	copy(r.faded, s)
	r.fade(r.faded, t)
	u := r.row[:r.size]
	seasonal(u[1:], r.seasons, r.zone, t)
	clear(mean)
	f := r.factor(r.faded)
	for i := 1; i < r.size; i++ { // z = R⁻ᵀu
		row := f.V[f.Index(i, i):f.Index(i, f.N)]
		z := u[i] / row[0]
		variance += z * z
		rest := u[i+1:]
		for j := range rest {
			rest[j] -= row[1+j] * z
		}
		for k, v := range row[1+len(rest):] {
			mean[k] += z * v
		}
	}
	return variance
}

// Learn learns the observation x at t with a weight in [0, 1]: the probability that it
// belongs to the running regime. It does nothing on a holiday, and where x has a NaN.
//
// Learn allocates nothing. It panics where the state or x has the wrong length.
func (r *Rhythm) Learn(s State, t time.Time, x []float64, weight float64) {
	if len(s) != r.StateLen() {
		panic(wrongState)
	}
	if len(x) != r.dim {
		panic(wrongDim)
	}
	if weight == 0 || incomplete(x) || r.Holiday(t) {
		return
	}
	r.fade(s, t)
	f := r.factor(s)
	root := math.Sqrt(math.Pow(rhythmLevel, weight))
	for i := range f.V[:f.N] {
		f.V[i] *= root
	}
	r.row[0] = 1
	seasonal(r.row[1:r.size], r.seasons, r.zone, t)
	copy(r.row[r.size:], x)
	if weight != 1 {
		root := math.Sqrt(weight)
		for i := range r.row {
			r.row[i] *= root
		}
	}
	f.AddTop(r.row, r.size)
}

// ForgetLevel makes the level unknown, as at the start of a new regime. The season
// stays.
func (r *Rhythm) ForgetLevel(s State) {
	if len(s) != r.StateLen() {
		panic(wrongState)
	}
	clear(s[ofFactor : ofFactor+r.size+r.dim])
}

// Holiday reports whether the local date of t is one of the holidays.
func (r *Rhythm) Holiday(t time.Time) bool {
	if len(r.holidays) == 0 {
		return false
	}
	y, m, d := t.In(r.zone).Date()
	return r.holidays[time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()/secondsOfDay]
}

// Valid says why s, which was decoded from bytes, is not a state of the rhythm.
func (r *Rhythm) Valid(s State) error {
	if len(s) != r.StateLen() {
		return fmt.Errorf("state is corrupt: season of %d floats, want %d", len(s), r.StateLen())
	}
	ok := !slices.ContainsFunc(s, infinite) && s[priorShare] >= rhythmRestore && s[priorShare] <= 1
	f := r.factor(s)
	for i := range r.size {
		// The prior keeps all of them above zero but that of the level.
		ok = ok && (f.At(i, i) > 0 || i == 0 && f.At(0, 0) == 0)
	}
	if !ok {
		return errors.New("state is corrupt: season")
	}
	return nil
}
