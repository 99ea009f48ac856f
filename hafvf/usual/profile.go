package usual

import (
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/internal/linear"
)

// ProfileConfig contains the settings of a Profile. The zero value means one coordinate with the level view alone.
type ProfileConfig struct {
	Dim      int       // coordinates of an observation; zero means 1
	Seasons  []Season  // seasons of the season view; empty means no such view
	Calendar *Calendar // local time of the seasons and the plan; nil means UTC
	Order    int       // order of the autoregressive view, at most MaxOrder; zero means no such view
	// Indicators means that a vector indicates one of several categories: it has no plan by the hour.
	Indicators bool
}

// DefaultProfile returns the settings for a stream of numbers with times: all three views. For a stream without times,
// clear Seasons.
func DefaultProfile() ProfileConfig {
	return ProfileConfig{Seasons: DefaultSeasons(), Order: 3}
}

// Fixed settings. The scores in testdata/traces depend on them.
const (
	profileForgetting = .9998 // of profiles and calibrators, per observation
	profileShape      = 1.    // of the prior of σ²
	profileRate       = 1.
	constantPrecision = .01 // of the coefficients' priors
	otherPrecision    = 1.
	meanForgetting    = .9   // of the running mean: its length is 10
	maxSurprise       = 21.5 // standard deviations
	calibratorShape   = 1.   // of the prior of σ², and of the mean
	calibratorRate    = .01
	calibratorWorth   = .01
	calibratorBound   = 7. // largest distance of a learned mean, standard deviations
	fastBehind        = .3 // subtracted from the fast score
	innovationPart    = .5 // largest weight of the move score
	innovationAhead   = 1. // a new value scores at most this above the move score, if values repeat
	unsurprising      = 1. // surprises below this are not unusual
	stepBehind        = 5. // subtracted from the move score of a step
	stepAhead         = 4. // largest increase of the score by that
)

const (
	// MaxOrder is the largest order of the autoregressive view.
	MaxOrder = 16
	// maxStandardized bounds standardised values, so that products of several values and their sums stay finite.
	maxStandardized = 1e20
)

// A Profile learns what is usual for a stream, and scores how unusual an observation is. It never freezes and never
// restarts, for any input. It does not depend on the predictions of a Bank: predicting well and being normal are two
// questions.
//
// A profile has up to three views of the standardised value y. They are Bayesian linear regressions with memory
// w = .9998,
//
//	y ~ N(cᵀu, σ²),  c|σ² ~ N(0, σ² diag(π)⁻¹),  σ² ~ InvGamma(1, 1),  π = .01, 1, 1, …
//
// which differ in their regressors u:
//
//	level   1                                                   F1 .02 on planted_5min
//	season  1, the harmonics of the seasons                     F1 .04 on planted_5min
//	ar      1, the harmonics of the seasons, the last values of the coordinate
//	                                                            F1 .01 on planted_5min
//
// so that the regressors of a view are the first regressors of the next view. The harmonics of the week have F1 .08 on
// plans_1h, the last values F1 .04 on planted_1h, and those before the last one F1 .02 on asd. With A = Σuuᵀ, h = Σuy,
// s = Σy² and n = Σ1, all multiplied by w before an observation, Λ = A + diag(π) = LLᵀ, ζ = L⁻¹h and v = L⁻¹u, a view
// predicts Student's t with 2a degrees of freedom,
//
//	mean vᵀζ,  scale √(b/a·(1 + vᵀv)),  a = 1 + n/2,  b = 1 + (s − ζᵀζ)/2
//
// where a view of k regressors uses the leading k×k block of L: one matrix and one factorisation serve all views. A
// view then computes
//
//	surprise z    the normal equivalent of (y − mean)/scale, at most 21.5
//	mean c        the running mean of z over about ten observations
//	score q       −log₁₀ P(Z > e), e the normal equivalent of c under the calibrator
//
// The calibrator is such a regression of c on 1 alone. It learns the distribution of the running mean in this stream;
// values beyond 7 standard deviations count as 7 (F1 .01 on plans_5min). At steps of two minutes or less, the last
// view's mean is a root mean square, so that an incident of few observations is not diluted (F1 .02 on smd).
//
// Two more scores use a single observation: fast, from the last view's surprise and its learned tail (F1 .04 on
// plans_15min), and move, from |y − previous value| and the residual of the last view (F1 .10 on planted_1d). Their
// weights depend on the slowness w of the Pace, and on the share r of values that repeated the previous value:
//
//	g = max(mean of the views' scores, fast − .3)
//	q = (1 − u)·g + u·move,  u = w/2·(1 − r²)
//	score (1 − r)·q + r·min(q, cap)
//
// where cap is move + 1 for a new value, 0 for a repeated value whose surprises are all below 1, and else infinite. The
// cap has F1 .03 on smd. If no value repeats and the stream is not slow, the score is g. At steps of two to 15 minutes
// with fast ≥ 1, the score is at least min(move − 5, score + 4): a step may be larger than the fast score can express
// (F1 .02 on planted_5min). The score is meant for an Alarm.
//
// The precision π of a harmonic is 1 + n·ρ⁴, where ρ is the length of the mean of exp(iφ) over its phases φ: while
// little of its period has been seen, it is similar to the constant, and would extrapolate (F1 .04 on planted_1min). A
// value far from usual is learned as a nearer one, and a new level is learned at once; see farBound.
//
// The last view is ar by default, season if Order is zero, and level if there are no seasons either.
//
// The coordinates of a vector share constant and seasons, and each has its own last values. The surprise of a view is
// the largest surprise of the coordinates: an incident often shows in few of them, and the calibrator learns the
// distribution of this maximum, also for dependent coordinates. Move and residual are maxima as well. A vector is
// repeated if all its coordinates are. A change of the dependence between coordinates shows in their residuals
// together: see joint. Its score is the score of the step if it is larger.
//
// An update takes about k³/6 multiplications for the k regressors of the largest view, which are 18 by default, and as
// many for the rest.
//
// A Profile owns its scratch memory: use one per goroutine.
type Profile struct {
	dim      int
	seasons  []Season
	calendar *Calendar
	leaps    bool // result of Calendar.leaps
	common   int  // regressors that the coordinates share
	moments  moments
	size     int    // regressors of the largest view
	sizes    [3]int // regressors of the views
	views    int

	u, v, zeta []float64
	precision  []float64   // π
	shared     []float64   // A of the shared regressors
	own        [][]float64 // rows of L up to the diagonal
	factor     [][]float64 // rows of L in use: the shared ones may belong to a tick
	inverse    []float64   // inverse of the diagonal of L
	ticks      [ticks]tick
	tick       uint8      // index of the last tick
	places     [256]uint8 // indices of ticks, by hashOf
	steps      []ViewStep
	expects    int       // index of the view with the usual mean: season, or level without seasons
	mean, sd   []float64 // expected by that view
	season     []float64 // result of Seasonal
	accepted   bool      // the current update has accepted a level
	slots      int       // slots of a plan's offsets: hours of the week or of the day; 0 means no plan by the hour
	lately     []float64 // as ProfileStep.RecentSpread
	spread     []float64 // as ProfileStep.Spread
	offset     []float64 // as ProfileStep.Offset
	evidence   Evidence  // evidence of the current update, and
	phase      phase     // its phase, and
	monthDay   int       // the result of Calendar.monthDay
	now        time.Time
	missed     MissedSpike
	joint      *joint // nil for one coordinate and for indicators
}

// A ViewStep is the outcome of one step for one view.
type ViewStep struct {
	Surprise float64 // z, the largest of the coordinates
	Mean     float64 // c
	Score    float64 // q
}

// A ProfileStep is the outcome of one step. After a missing observation its numbers are NaN. Its slices are valid until
// the next Update.
type ProfileStep struct {
	Score    float64
	Fast     float64    // score of the last view's surprise alone
	Repeated bool       // equal values in a row cause the score
	Accepted bool       // an unusual level is usual from now on
	Joint    bool       // the coordinates together cause the score: their dependence has changed
	Pair     [2]int     // the two coordinates that show it best, if Joint
	Views    []ViewStep // level, season and ar, if the profile has these views
	// Mean and SD are expected for each coordinate by level and seasons, before the observation. SD is infinite
	// before the first observation.
	Mean, SD []float64
	// Spread is the factor of SD for the hour and the number of events.
	Spread []float64
	// RecentSpread is the recent spread over SD, the long-term spread.
	RecentSpread []float64
	// Offset is the part of Mean that is the plan's offset for the hour of the week.
	Offset      []float64
	MissedSpike MissedSpike // a usual spike that did not occur, in an hour that had ended by the observation
}

// NewProfile returns a profile. An error names the invalid setting.
func NewProfile(c ProfileConfig) (*Profile, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	common := 1 + harmonics(c.Seasons)
	p := &Profile{
		dim:      max(1, c.Dim),
		seasons:  slices.Clone(c.Seasons),
		calendar: c.Calendar,
		common:   common,
		size:     common + c.Order,
	}
	for _, k := range []int{1, common, p.size} {
		if p.views == 0 || k > p.sizes[p.views-1] {
			p.sizes[p.views] = k
			p.views++
		}
	}
	p.u, p.v, p.zeta = make([]float64, p.size), make([]float64, p.size), make([]float64, p.size)
	p.precision = slices.Repeat([]float64{otherPrecision}, p.size)
	p.precision[0], p.u[0] = constantPrecision, 1
	p.moments = newMoments(c.Seasons)
	p.shared = make([]float64, linear.TriangleLen(p.common))
	p.own = rowsOf(p.size)
	p.factor = slices.Clone(p.own)
	p.inverse = make([]float64, p.size)
	if p.dim > 1 && !c.Indicators {
		p.joint = newJoint(p.dim)
	}
	p.steps = make([]ViewStep, p.views)
	p.expects = slices.Index(p.sizes[:], common)
	for _, v := range []*[]float64{&p.mean, &p.sd, &p.season, &p.lately, &p.spread, &p.offset} {
		*v = make([]float64, p.dim)
	}
	if len(c.Seasons) > 0 && !c.Indicators {
		p.slots = daySlots
		if slices.ContainsFunc(c.Seasons, func(s Season) bool { return s.Period == weekSlots*time.Hour }) {
			p.slots = weekSlots
		}
	}
	return p, nil
}

// Validate returns an error that names an invalid setting. It takes microseconds, NewProfile takes milliseconds.
func (c ProfileConfig) Validate() error {
	if c.Dim < 0 {
		return fmt.Errorf("dim: must be at least 1, not %d", c.Dim)
	}
	if c.Order < 0 || c.Order > MaxOrder {
		return fmt.Errorf("order: must be in 0, …, %d, not %d", MaxOrder, c.Order)
	}
	for i, s := range c.Seasons {
		if err := s.valid(); err != nil {
			return fmt.Errorf("seasons.%d.%w", i, err)
		}
	}
	return nil
}

// A state consists of n and the moments of the seasons, which determine the matrix A of the shared regressors; the
// total weight of the running means, which is the same for all views; the views, the tail, the move and the repeats;
// the coordinates; and the joint score. A matrix is its lower triangle, packed by rows.

// Indices of a view's part of a state.
const (
	sumOfMean   = iota // Σz, or Σz² for a root mean square, forgotten by meanForgetting
	calibratorH        // Σc
	calibratorS        // Σc²
	viewLen
)

const aloneLen = tailLen + innovationLen + repeatsLen

func (p *Profile) order() int { return p.size - p.common }

// lags returns the number of stored last values: the order of the ar view, and at least one.
func (p *Profile) lags() int { return max(1, p.order()) }

// coordinateLen returns the number of floats for one coordinate: h, s, the last values with the latest first, the rows
// of the matrix for the ar view, and the streak.
func (p *Profile) coordinateLen() int {
	return p.size + 1 + p.lags() + linear.TriangleLen(p.size) - linear.TriangleLen(p.common) + streakLen
}

// A coordinateState is a coordinate's part of a state.
type coordinateState struct {
	values []float64 // the next fields except the streak
	h      []float64
	s      *float64
	last   []float64
	matrix []float64
	streak streak
}

// sums returns n and the moments of the seasons.
func (p *Profile) sums(s State) []float64 { return s[:p.moments.len()] }

// together returns the state of the joint score, which is not nil.
func (p *Profile) together(s State) State { return s[len(s)-p.joint.len():] }

// total returns the total weight of the running means.
func (p *Profile) total(s State) *float64 { return &s[p.moments.len()] }

func (p *Profile) view(s State, i int) []float64 {
	start := p.moments.len() + 1 + i*viewLen
	return s[start : start+viewLen]
}

// ForgetSurprises resets the running means of the views. Otherwise they would remain unusual after an event, for as
// long as it lasted (F1 .05 on plans_1h). It does nothing for a pace that is not slow.
func (p *Profile) ForgetSurprises(s State, pace Pace) {
	if pace.slow == 0 {
		return
	}
	for i := range p.views {
		p.view(s, i)[sumOfMean] = 0
	}
	if pace.fine { // a root mean square of 1
		p.view(s, p.views-1)[sumOfMean] = *p.total(s)
	}
	if p.joint != nil { // a normal equivalent of 0
		p.together(s)[jointView+sumOfMean] = -minSurprise * *p.total(s)
	}
}

// alone returns tail, move and repeats, the parts of a state whose scores need no mean over several observations.
func (p *Profile) alone(s State) (tail, innovation, repeats) {
	s = s[p.moments.len()+1+p.views*viewLen:][:aloneLen]
	return tail(s[:tailLen]), innovation(s[tailLen:][:innovationLen]), repeats(s[tailLen+innovationLen:])
}

func (p *Profile) coordinate(s State, i int) coordinateState {
	n := p.coordinateLen()
	c := s[p.moments.len()+1+p.views*viewLen+aloneLen+i*n:][:n]
	c, streak := c[:n-streakLen], c[n-streakLen:]
	last := c[p.size+1:]
	return coordinateState{values: c, streak: streak, h: c[:p.size], s: &c[p.size], last: last[:p.lags()], matrix: last[p.lags():]}
}

// StateLen returns the number of floats in a state: 171 for one coordinate under DefaultProfile, and 25 with the level
// view alone.
func (p *Profile) StateLen() int {
	return p.moments.len() + 1 + p.views*viewLen + aloneLen + p.dim*p.coordinateLen() + p.joint.len()
}

// NewState returns the state of a stream before its first observation.
func (p *Profile) NewState() State { return make(State, p.StateLen()) }

// Update scores the observation y at time t and learns it. The step of the pace must be the same for all observations
// of the stream. The values are standardised by a location and a scale that stay the same for the stream, for example
// by LocationScale over its warm-up. The observations of the warm-up are learned too, but their scores are not for an
// Alarm. Values above 1e20 in magnitude count as 1e20. Without seasons, t does not matter.
//
// A NaN in y makes the observation missing. It then changes nothing; the last values remain.
//
// Update allocates nothing. It panics if the state or y has the wrong length.
func (p *Profile) Update(s State, pace Pace, t time.Time, y []float64) ProfileStep {
	return p.UpdatePlan(s, nil, pace, t, y, Evidence{})
}

// UpdatePlan is Update for a stream with a plan, which it also updates, and for an observation with evidence. A nil
// plan means none.
func (p *Profile) UpdatePlan(s State, plan Plan, pace Pace, t time.Time, y []float64, e Evidence) ProfileStep {
	mustHave(s, p.StateLen(), wrongState)
	mustHave(y, p.dim, wrongDim)
	if plan != nil && len(plan) != p.dim {
		panic(wrongState)
	}
	if incomplete(y) {
		for i := range p.steps {
			p.steps[i] = ViewStep{math.NaN(), math.NaN(), math.NaN()}
		}
		for i := range y {
			p.mean[i], p.sd[i], p.spread[i], p.lately[i], p.offset[i] = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
		}
		return ProfileStep{Score: math.NaN(), Fast: math.NaN(), Views: p.steps, Mean: p.mean, SD: p.sd, Spread: p.spread, RecentSpread: p.lately, Offset: p.offset}
	}
	sums := p.sums(s)
	before := sums[0] // weight of the previous observations
	n := p.share(sums, t)
	for i := range p.steps {
		p.steps[i].Surprise = 0
	}
	p.accepted, p.evidence, p.now, p.missed = false, e, t, MissedSpike{}
	if p.slots > 0 && pace.hours {
		p.phase, _ = p.calendar.phase(t)
	}
	p.monthDay = p.calendar.monthDay(t)
	p.leaps = p.calendar.leaps(t, max(1, p.order()), pace.day)
	repeated := before > 0
	var sizes [2]float64 // of move and residual
	for i, v := range y {
		c := p.coordinate(s, i)
		v = within(within(v, maxStandardized)-c.streak[streakLevel], maxStandardized)
		if seen := c.streak[streakSeen]; before > 0 {
			repeated = repeated && v == seen
		}
		var own *coordinatePlan
		if plan != nil {
			own = &plan[i]
		}
		move, residual := p.learn(c, own, i, n, v, &pace)
		if p.leaps {
			continue
		}
		if before > 0 {
			sizes[0] = max(sizes[0], min(math.Abs(move), 2*maxStandardized))
		}
		sizes[1] = max(sizes[1], min(math.Abs(residual), 2*maxStandardized))
	}

	total := p.total(s)
	*total = meanForgetting**total + 1
	sum, surprise := 0.0, 0.0
	for i := range p.steps {
		step := &p.steps[i]
		p.calibrate(step, p.view(s, i), *total, n, pace.fine && i == p.views-1)
		sum += step.Score
		surprise = max(surprise, step.Surprise)
	}
	d := ProfileStep{Accepted: p.accepted, Views: p.steps, Mean: p.mean, SD: p.sd, Spread: p.spread, RecentSpread: p.lately, Offset: p.offset, MissedSpike: p.missed}
	p.combine(&d, s, &pace, before, sum/float64(p.views), surprise, sizes, repeated)
	if p.joint != nil && !p.leaps {
		if score := p.scoreJoint(p.together(s), *total); score > d.Score {
			d.Score, d.Repeated, d.Joint, d.Pair = score, false, true, p.joint.pair(p.together(s))
		}
	}
	return d
}

// combine computes the scores of a step. mean is the mean of the views' scores, surprise their largest surprise, sizes
// are move and residual, and before is the weight of the previous observations.
func (p *Profile) combine(d *ProfileStep, s State, pace *Pace, before, mean, surprise float64, sizes [2]float64, repeated bool) {
	tail, move, repeats := p.alone(s)
	d.Fast = tail.update(p.steps[p.views-1].Surprise, before)
	score := max(mean, d.Fast-fastBehind)

	share := move.repeats(before)
	stuck := repeats.update(repeated, float64(p.evidence.Uncounted), before, move[innovationNew], share) - stuckBehind
	moveShare := innovationPart * pace.slow * (1 - share*share)
	moveScore := 0.
	if repeated {
		move.forget()
	} else {
		moveScore = move.update(sizes, share, moveShare > 0 || share > 0 || pace.steps)
	}
	round(p.surprises(s))
	score = (1-moveShare)*score + moveShare*moveScore
	limit := score
	switch {
	case !repeated:
		limit = min(score, moveScore+innovationAhead)
	case surprise < unsurprising:
		limit = min(score, 0)
	}
	score = (1-share)*score + share*limit
	if pace.steps && d.Fast >= unsurprising {
		score = max(score, min(moveScore-stepBehind, score+stepAhead))
	}
	d.Repeated = stuck >= max(score, unsurprising)
	d.Score = max(score, stuck)
}

// Seasonal returns by how much the seasons and the plan raise the usual value of each coordinate between two times,
// according to the state s. The result is valid until the next call. It is zero without seasons, or if from is zero.
func (p *Profile) Seasonal(s State, plan Plan, from, end time.Time) []float64 {
	clear(p.season)
	if len(p.seasons) == 0 || from.IsZero() {
		return p.season
	}
	u, before := p.u[:p.common], p.v[:p.common]
	seasonal(u[1:], p.seasons, p.calendar, from)
	copy(before, u)
	seasonal(u[1:], p.seasons, p.calendar, end)
	for i := range u {
		u[i] -= before[i]
	}
	copy(p.factor, p.own)
	p.moments.expand(p.shared, p.sums(s))
	p.factorize(p.shared, 0, p.common)
	p.substitute(p.v, u, p.common)
	u[0] = 1
	for i := range p.season {
		p.substitute(p.zeta, p.coordinate(s, i).h, p.common)
		p.season[i] = linear.Dot(p.v[:p.common], p.zeta)
		if plan != nil {
			p.season[i] += plan[i].offset(p, end) - plan[i].offset(p, from)
		}
	}
	return p.season
}

// regress forgets a part of the sums of a coordinate, and computes L, v and ζ of its next value.
func (p *Profile) regress(c coordinateState) {
	copy(p.u[p.common:], c.last)
	linear.Scale(c.h, profileForgetting)
	*c.s *= profileForgetting
	linear.Scale(c.matrix, profileForgetting)
	p.factorize(c.matrix, p.common, p.size)
	p.substitutePair(p.v, p.u, p.zeta, c.h, p.size)
}

// learn scores the value y of a coordinate under all views, and learns it. n is Σ1 before it. It returns the move, y
// less the previous value, and the residual of the last view.
func (p *Profile) learn(c coordinateState, plan *coordinatePlan, output int, n, y float64, pace *Pace) (move, residual float64) {
	p.regress(c)
	a := profileShape + n/2
	var mean, scale [3]float64          // of the views
	sum, fit, leverage := 0.0, 0.0, 0.0 // vᵀζ, ζᵀζ, vᵀv of the leading block
	k := 0
	for i := range p.steps {
		for ; k < p.sizes[i]; k++ {
			sum += p.v[k] * p.zeta[k]
			fit += p.zeta[k] * p.zeta[k]
			leverage += p.v[k] * p.v[k]
		}
		b := profileRate + max(0, (*c.s-fit)/2)
		mean[i], scale[i] = sum, math.Sqrt(b/a*(1+leverage))
	}
	usual, sd := mean[p.expects], scale[p.expects]*math.Sqrt(a/(a-1)) // of Student's t
	original := y
	if plan != nil && pace.spikes && p.slots > 0 && plan.spikes.record(p, pace, output, n, y, usual, sd*plan.lately.narrow(pace)) {
		y = usual
	}
	value := planned{y: y, raw: y, scatter: 1, lately: 1}
	seen := &c.streak[streakSeen]
	move = y - *seen
	if plan != nil {
		value = plan.prepare(p, pace, n, y, usual, sd)
		move = value.y - plan.seen
	}
	before := 0.      // z of the previous view
	followed := false // y is not unusual for the last view
	for i := range p.steps {
		z := normalEquivalent((value.y-mean[i])/scale[i], 2*a)
		if p.leaps && p.order() > 0 && i == p.views-1 { // the last values do not come from the previous day
			z = min(z, before)
		}
		before = z
		followed = z <= unsurprising
		p.steps[i].Surprise = max(p.steps[i].Surprise, min(z, maxSurprise))
	}

	residual, level := value.y-sum, c.streak[streakLevel]
	if p.joint != nil {
		p.joint.residuals[output] = within(residual/scale[p.views-1], maxSurprise)
	}
	*seen, y = original, value.y
	p.mean[output], p.sd[output], p.offset[output] = usual+value.offset, sd*value.scatter, 0
	p.spread[output], p.lately[output] = value.scatter, value.lately
	if value.weekly {
		p.offset[output] = value.offset
	}
	if n >= pace.news {
		wider := 1.
		if !pace.fine { // at fine steps, bursts are a habit
			wider = max(1, value.lately)
		}
		learned, accepted := c.streak.learn(value.raw, usual, p.sd[output]*wider, pace, followed)
		y = value.learned(learned, usual)
		p.accepted = p.accepted || accepted
	}
	if plan != nil {
		plan.seen = value.y - (c.streak[streakLevel]-level)/value.scatter
	}
	p.mean[output] += level

	// A product that is rounded before it is added makes sums of the same products equal on every machine: Append
	// relies on it.
	p.add(c.matrix, p.common, p.size)
	for i, u := range p.u {
		c.h[i] += float64(u * y)
	}
	*c.s += float64(y * y)
	for lag := 1; lag <= p.order(); lag++ {
		round(p.lagged(c, lag)[1:p.common])
	}
	copy(c.last[1:], c.last)
	c.last[0] = y
	return move, residual
}

// calibrate computes the score of a view from its surprise. root means that the mean is a root mean square.
func (p *Profile) calibrate(step *ViewStep, view []float64, total, n float64, root bool) {
	z := step.Surprise
	if root {
		z *= z
	}
	view[sumOfMean] = meanForgetting*view[sumOfMean] + z
	c := view[sumOfMean] / total
	if root {
		c = math.Sqrt(c)
	}
	view[calibratorH] *= profileForgetting
	view[calibratorS] *= profileForgetting
	h, s := view[calibratorH], view[calibratorS]
	a, lambda := calibratorShape+n/2, calibratorWorth+n
	mean := h / lambda
	b := calibratorRate + (s-h*mean)/2
	e := (c - mean) / math.Sqrt(b/a*(1+1/lambda))
	step.Mean = c
	if n >= warmUpWeight {
		c = min(c, mean+calibratorBound*math.Sqrt(b/a))
	}
	view[calibratorH] += c
	view[calibratorS] += c * c
	step.Score = minusLog10Tail(math.Copysign(normalEquivalent(e, 2*a), e))
	if p.accepted { // the unusual level is usual from now on; F1 .003 on plans_5min; .011 at 16f064d3
		if root {
			mean *= mean
		}
		view[sumOfMean] = mean * total
	}
}
