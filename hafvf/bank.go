package hafvf

import (
	"fmt"
	"math"
	"slices"
)

// A Member is one filter of a bank, as NewFilter takes it.
type Member struct {
	Levels []Beta  `json:"levels"`
	Top    float64 `json:"top"`
}

// DefaultBank is the bank for a stream of unknown dynamics. Two members have fixed
// weights, of memories 67 and 5000, for streams that move slowly or not at all. The
// two-level filter follows streams that move at any other pace. With detection it
// lowers false alarms on drifts: on a random walk of steps of 0.05 standard
// deviations from 9 to 2.5 in 10,000 observations.
func DefaultBank() []Member {
	return []Member{
		DefaultMember(),
		{Levels: []Beta{}, Top: .985},
		{Levels: []Beta{}, Top: .9998},
	}
}

// DefaultForgetting is that of a bank's weights, unless told otherwise.
const DefaultForgetting = 0.999

// A Bank runs several filters of one model over the same stream and averages them
// (Bayesian model averaging): with posterior weights pᵢ, the shares, it predicts
//
//	p(x|past) = Σ pᵢ p(x|past, i),  pᵢ ∝ (pᵢ′ · p(x′|past′, i))^λ
//
// where ′ is the step before and λ the forgetting, which draws the shares towards
// equal ones, so that they follow the filter that has predicted best of late. A
// bank of one filter is that filter, bit by bit, in its states too.
//
// With detection, the bank also tells outliers from changes: see Detect.
//
// A bank owns its scratch: one per goroutine.
type Bank struct {
	members    []*Filter
	at         []int // where a member's part of the state begins; the first's is the last
	odds       int   // where the log-odds of the members begin
	detector   *detector
	detectorAt int
	forgetting float64

	gains    []float64 // log p(x|past, i) − log h(x)
	stats    []float64
	weighted []float64
	steps    []MemberStep
	mixture  mixture
}

// A MemberStep is the outcome of one step for one filter of a bank.
type MemberStep struct {
	Share float64 // posterior weight of the member in the bank, after the step
	Step
}

// An Outcome is that of one update of a bank.
type Outcome struct {
	Missing       bool
	LogPredictive float64      // log p(x|past) of the whole mixture, nats; NaN if missing
	Members       []MemberStep // valid until the next Update
	Heaviest      int          // the member of the largest share
	Detection     Detection    // zero without detection
}

// NewBank makes a bank of at least one member. The forgetting of the shares is
// in (0, 1]; detect is nil for a bank without detection. It panics where a
// setting is out of range.
func NewBank(model Model, members []Member, forgetting float64, detect *Detect) *Bank {
	if len(members) == 0 {
		panic("hafvf: bank without members")
	}
	if !(forgetting > 0 && forgetting <= 1) {
		panic(fmt.Sprintf("hafvf: forgetting %g of a bank is outside (0, 1]", forgetting))
	}
	b := &Bank{
		at:         make([]int, len(members)),
		forgetting: forgetting,
		gains:      make([]float64, len(members)),
		weighted:   make([]float64, model.Len()),
		steps:      make([]MemberStep, len(members)),
		mixture:    newMixture(model.Outputs()),
	}
	for _, m := range members {
		b.members = append(b.members, NewFilter(model, m.Levels, m.Top))
	}
	b.stats = b.members[0].stats
	end := 0
	for i, f := range b.members[1:] {
		b.at[i+1] = end
		end += f.stepLen()
	}
	b.odds = end
	end += len(members) - 1
	b.detectorAt = end
	if detect != nil {
		b.detector = newDetector(model, *detect)
		end += b.detector.size()
	}
	b.at[0] = end
	return b
}

// Model returns the bank's model.
func (b *Bank) Model() Model { return b.members[0].model }

// Use makes m the model of all members, as Filter.Use.
func (b *Bank) Use(m Model) {
	for _, f := range b.members {
		f.Use(m)
	}
	if b.detector != nil {
		b.detector.model, b.detector.line = m, m.NewLine()
	}
}

// Members returns the number of filters.
func (b *Bank) Members() int { return len(b.members) }

// Filter returns filter i, for reading its part of a state.
func (b *Bank) Filter(i int) *Filter { return b.members[i] }

// Detects reports whether the bank tells outliers from changes.
func (b *Bank) Detects() bool { return b.detector != nil }

// Dim is the length of the observation vectors that Update takes.
func (b *Bank) Dim() int { return b.members[0].Dim() }

// Check says why xs, the vectors of one step, are not observations of the model.
// NaN stands for a missing value and is fine.
func (b *Bank) Check(xs [][]float64) error { return b.members[0].Check(xs) }

// Regressors is the row at which a step is predicted, as Filter.Regressors.
func (b *Bank) Regressors(s State, xs [][]float64) []float64 {
	b.checkState(s)
	return b.members[0].Regressors(b.Member(s, 0), xs)
}

// StateLen is the number of floats in a state: those of the members, of which
// the first holds the window of a Sequential model, one less for their shares,
// and those of the detection.
func (b *Bank) StateLen() int { return b.at[0] + b.members[0].StateLen() }

// NewState returns the naive state.
func (b *Bank) NewState() State {
	s := make(State, b.StateLen())
	for i, f := range b.members {
		copy(b.Member(s, i), f.NewState())
	}
	if b.detector != nil {
		b.detector.init(b.detection(s))
	}
	return s
}

// Member is the part of the state that belongs to filter i, which it aliases.
// The window of a Sequential model is the first filter's alone.
func (b *Bank) Member(s State, i int) State {
	if i == 0 {
		return s[b.at[0]:]
	}
	return s[b.at[i] : b.at[i]+b.members[i].stepLen()]
}

func (b *Bank) detection(s State) detectorState {
	return detectorState(s[b.detectorAt:b.at[0]])
}

// oddsOf are the log-odds of members 1, 2, … against the first.
func (b *Bank) oddsOf(s State) []float64 { return s[b.odds : b.odds+len(b.members)-1] }

// Shares writes the weights of the members, which sum to one, to dst.
func (b *Bank) Shares(dst []float64, s State) {
	b.checkState(s)
	if len(dst) != len(b.members) {
		panic(badDst)
	}
	b.shares(dst, s, 1)
}

// shares writes the weights under the odds to the power of temper.
func (b *Bank) shares(dst []float64, s State, temper float64) {
	odds := b.oddsOf(s)
	if len(odds) == 0 {
		dst[0] = 1
		return
	}
	top := 0.0
	for _, o := range odds {
		top = math.Max(top, temper*o)
	}
	dst[0] = math.Exp(-top)
	sum := dst[0]
	for i, o := range odds {
		dst[i+1] = math.Exp(temper*o - top)
		sum += dst[i+1]
	}
	for i := range b.members {
		dst[i] /= sum
	}
}

// Update learns the J ≥ 0 observations xs of one step, which Check has passed,
// and returns what it found. A vector with a NaN in it is missing. A step without
// other vectors changes nothing but the window of a Sequential model and the
// number of steps seen. Update allocates nothing. It panics where the state or a
// vector has the wrong length.
func (b *Bank) Update(s State, xs ...[]float64) Outcome { return b.UpdateAfter(s, 1, xs...) }

// UpdateAfter is Update where elapsed units of time have passed since the last
// observation, as in Filter.UpdateAfter. Shares and detection go by observations.
func (b *Bank) UpdateAfter(s State, elapsed float64, xs ...[]float64) Outcome {
	first := b.members[0]
	first.checkStep(s, b.StateLen(), elapsed, xs)
	sequence := b.Member(s, 0)
	rows := first.rows(sequence, xs)
	out := Outcome{Members: b.steps, LogPredictive: math.NaN()}
	if b.detector != nil {
		b.detection(s)[atSteps]++
	}
	if base, ok := first.statistics(b.stats, rows); ok {
		b.learn(&out, s, elapsed, rows, base)
	} else {
		out.Missing = true
		for i, f := range b.members {
			b.steps[i].Step = f.skip(b.Member(s, i))
		}
		if b.detector != nil {
			out.Detection = b.detector.current(b.detection(s))
		}
	}
	first.push(sequence, xs)
	b.share(&out, s)
	return out
}

// share fills in the members' shares, and which is the largest.
func (b *Bank) share(out *Outcome, s State) {
	if len(b.members) == 1 {
		b.steps[0].Share = 1
		return
	}
	b.shares(b.gains, s, 1)
	for i, p := range b.gains {
		b.steps[i].Share = p
		if p > b.gains[out.Heaviest] {
			out.Heaviest = i
		}
	}
}

func (b *Bank) learn(out *Outcome, s State, elapsed float64, rows [][]float64, base float64) {
	for i, f := range b.members {
		f.prepare(b.Member(s, i), elapsed, b.stats)
		b.gains[i] = f.predictive(elapsed)
		b.steps[i].LogPredictive = b.gains[i] + base
	}
	gain := b.average(s)
	weight, stats := 1.0, b.stats
	last := len(b.members) - 1
	if b.detector != nil {
		// Every excursion forgets as the last member does: one that forgot less
		// would win for that alone. The predictive density must not depend on x, so
		// the weight before the observation is its prior mean. The weight after it
		// is the factor by which the member has scaled its sample.
		w := b.members[last].PriorWeightAfter(b.Member(s, last), elapsed)
		l := b.detection(s)
		gain = b.detector.weigh(l, b.stats, gain, w)
		weight, stats = l[atStay], b.weighted
		copy(stats, b.stats)
		b.Model().Scale(stats, weight)
	}
	out.LogPredictive = gain + base
	for i, o := range b.oddsOf(s) {
		b.oddsOf(s)[i] = o + weight*(b.gains[i+1]-b.gains[0])
	}
	for i, f := range b.members {
		f.update(&b.steps[i].Step, b.Member(s, i), elapsed, rows, stats, base, weight)
	}
	if b.detector == nil {
		return
	}
	l := b.detection(s)
	b.detector.learn(l, rows, b.stats, b.members[last].retained)
	out.Detection = b.detector.decide(l)
	if !out.Detection.Starts() {
		return
	}
	// Every member goes on from the excursion's sample. The levels stay: the
	// forgetting is a property of the stream, not of the regime.
	for i, f := range b.members {
		d := f.Sample(b.Member(s, i))
		copy(d, b.detector.likeliest(l)[ofSample:])
		b.steps[i].Memory = f.model.Memory(d)
	}
	b.detector.clear(l)
}

// average forgets the log-odds of the shares and returns the log of the mean of
// e^gains under them.
func (b *Bank) average(s State) float64 {
	odds := b.oddsOf(s)
	if len(odds) == 0 {
		return b.gains[0]
	}
	before, after := 0.0, b.gains[0]
	for i := range odds {
		odds[i] *= b.forgetting
		before = math.Max(before, odds[i])
		after = math.Max(after, odds[i]+b.gains[i+1])
	}
	norm, sum := math.Exp(-before), math.Exp(b.gains[0]-after)
	for i, o := range odds {
		norm += math.Exp(o - before)
		sum += math.Exp(o + b.gains[i+1] - after)
	}
	return math.Log(sum/norm) + (after - before)
}

// Predict writes mean and standard deviation of the next observation to slices of
// length Model.Outputs: those of the mixture of all members and, with detection,
// of the excursions, each with its weight at its prior mean. The mixture leaves
// out an excursion that would start at this very observation: its predictive is
// that of the naive prior, whose variance may be infinite. x gives the regressors
// where there are some.
func (b *Bank) Predict(mean, sd []float64, s State, x []float64) {
	b.PredictAfter(mean, sd, s, 1, x)
}

// PredictAfter is Predict for an observation after elapsed units of time.
func (b *Bank) PredictAfter(mean, sd []float64, s State, elapsed float64, x []float64) {
	b.checkMoments(mean, sd, s)
	b.mixture.reset(mean, sd)
	stay := 1.0
	if b.detector != nil {
		last := len(b.members) - 1
		w := b.members[last].PriorWeightAfter(b.Member(s, last), elapsed)
		l := b.detection(s)
		rho := l.persistence()
		stay = l[atStay]
		for j := range l.alive() {
			e := b.detector.excursion(l, j)
			stay += (1 - rho) * e[outlier]
			b.Model().Predict(b.mixture.mean, b.mixture.sd, e[ofSample:], w, x)
			b.mixture.add(rho*e[outlier] + e[change])
		}
	}
	b.predict(s, stay, elapsed, x)
}

// PredictRegime is PredictAfter in the running regime: of the members alone.
func (b *Bank) PredictRegime(mean, sd []float64, s State, elapsed float64, x []float64) {
	b.checkMoments(mean, sd, s)
	b.mixture.reset(mean, sd)
	b.predict(s, 1, elapsed, x)
}

func (b *Bank) predict(s State, stay, elapsed float64, x []float64) {
	b.shares(b.gains, s, b.forgetting)
	for i, f := range b.members {
		m := b.Member(s, i)
		f.model.Predict(b.mixture.mean, b.mixture.sd, f.Sample(m), f.PriorWeightAfter(m, elapsed), x)
		b.mixture.add(stay * b.gains[i])
	}
}

// Estimate writes mean and standard deviation of the likelihood's mean: of the
// mixture of all members and, with detection, of the excursions.
func (b *Bank) Estimate(mean, sd []float64, s State, x []float64) {
	b.checkMoments(mean, sd, s)
	b.mixture.reset(mean, sd)
	stay := 1.0
	if b.detector != nil {
		l := b.detection(s)
		stay = l[atStay]
		for j := range l.alive() {
			e := b.detector.excursion(l, j)
			b.Model().Estimate(b.mixture.mean, b.mixture.sd, e[ofSample:], x)
			b.mixture.add(e[outlier] + e[change])
		}
	}
	b.estimate(s, stay, x)
}

// Regime writes mean and standard deviation of the likelihood's mean in the
// running regime: the mixture of the members alone, which a burst of outliers
// doesn't move.
func (b *Bank) Regime(mean, sd []float64, s State, x []float64) {
	b.checkMoments(mean, sd, s)
	b.mixture.reset(mean, sd)
	b.estimate(s, 1, x)
}

func (b *Bank) estimate(s State, stay float64, x []float64) {
	b.shares(b.gains, s, 1)
	for i, f := range b.members {
		f.model.Estimate(b.mixture.mean, b.mixture.sd, f.Sample(b.Member(s, i)), x)
		b.mixture.add(stay * b.gains[i])
	}
}

// A mixture adds up mean and standard deviation of a mixture, component by
// component, by the law of total variance.
type mixture struct {
	mean, sd     []float64 // of the next component
	toMean, toSD []float64
	total        float64
}

func newMixture(n int) mixture {
	v := make([]float64, 2*n)
	return mixture{mean: v[:n], sd: v[n:]}
}

func (m *mixture) reset(mean, sd []float64) { m.toMean, m.toSD, m.total = mean, sd, 0 }

func (m *mixture) add(weight float64) {
	if weight == 0 {
		return
	}
	m.total += weight
	w := weight / m.total
	for i := range m.mean {
		if w == 1 {
			m.toMean[i], m.toSD[i] = m.mean[i], m.sd[i]
			continue
		}
		delta := m.mean[i] - m.toMean[i]
		m.toMean[i] += w * delta
		spread := math.Sqrt(w*(1-w)) * delta
		m.toSD[i] = math.Hypot(spread, math.Hypot(math.Sqrt(1-w)*m.toSD[i], math.Sqrt(w)*m.sd[i]))
	}
}

// ExcursionStarts appends to dst the steps (from 1) at which the present excursions
// started, oldest first. The Start of a later Detection is one of these or a later
// step, so that a caller who wants the time of a Start keeps the times of these.
func (b *Bank) ExcursionStarts(dst []int64, s State) []int64 {
	b.checkState(s)
	if b.detector == nil {
		return dst
	}
	l := b.detection(s)
	for j := range l.alive() {
		dst = append(dst, int64(b.detector.excursion(l, j)[startedAt]))
	}
	return dst
}

// DecodeState reads a state of this bank that Append wrote under the same
// fingerprint: the error wraps ErrOtherConfig where it was another, and no state
// is returned.
func (b *Bank) DecodeState(bytes []byte, fingerprint uint64) (State, error) {
	s, err := decodeFloats(bytes, fingerprint, b.StateLen())
	if err != nil {
		return nil, err
	}
	for i, f := range b.members {
		if err := f.valid(b.Member(s, i)); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(s[:b.at[0]], notFinite) {
		return nil, fmt.Errorf("state is corrupt: not finite")
	}
	if b.detector != nil {
		if err := b.detector.valid(b.detection(s)); err != nil {
			return nil, err
		}
	}
	return s, nil
}
