package hafvf

import (
	"fmt"
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// A Member is one filter of a bank, as NewFilter takes it.
type Member struct {
	Levels []Beta  `json:"levels,omitempty"` // naive priors of w, b, …, bottom up; none: the weight is Top
	Top    float64 `json:"top"`              // γ in [0, 1]: 1 never forgets, 0 forgets all
	// AR makes the member an autoregression of that order, at most 8, with
	// intercept: it predicts a value from the stream's last ones. Zero is the
	// bank's own model. Others are for the family normal alone, whose prior sets
	// theirs, and not for the first member.
	AR int `json:"ar,omitempty"`
}

// DefaultBank is the bank for a stream of unknown dynamics. Two members have fixed
// weights, of memories 67 and 5000, for streams that move slowly or not at all. The
// two-level filter follows streams that move at any other pace. With detection it
// lowers false alarms on drifts: on a random walk of steps of 0.05 standard
// deviations from 9 to 2.5 in 10,000 observations.
func DefaultBank() []Member {
	return []Member{
		DefaultMember(),
		{Top: .985},
		{Top: .9998},
	}
}

// DefaultBankOf is the default bank for values of a family: DefaultBank, and for
// normal a member that regresses on the last three values. With detection it lowers
// false changes on streams of autocorrelation .5, .8 and .95 from 5, 115 and 185 in
// 10,000 observations to none. On thirteen kinds of streams without autocorrelation
// the mean log predictive stays within .0001 nats, and F1 of the changes within .007:
// on t₃ noise without a change, false ones go from .08 to .25 in 10,000.
//
// The order is three because that raises fewer false alarms on real streams than one
// (development part of the Numenta Anomaly Benchmark: score 74.9 against 71.2). It
// costs on streams of autocorrelation .8 with jumps of 3 to 6 standard deviations,
// where F1 is .58 against .93. At .95 either order hides most such jumps, as such a
// stream makes large ones by itself.
func DefaultBankOf(family string) []Member {
	bank := DefaultBank()
	if family == "normal" {
		bank = append(bank, Member{Top: .9998, AR: 3})
	}
	return bank
}

// DefaultForgetting is that of a bank's weights, unless told otherwise.
const DefaultForgetting = 0.999

// A Bank runs several filters over the same stream and averages them (Bayesian
// model averaging): with posterior weights pᵢ, the shares, it predicts
//
//	p(x|past) = Σ pᵢ p(x|past, i),  pᵢ ∝ (pᵢ′ · p(x′|past′, i))^λ
//
// where ′ is the step before and λ the forgetting, which draws the shares towards
// equal ones, so that they follow the filter that has predicted best of late. A
// bank of one filter is that filter, bit by bit, in its states too.
//
// With detection, the bank also tells outliers from changes: see Detect.
//
// Most members have the bank's model. Members with AR regress the values on the
// last ones, in units of the prior: with mu, kappa, alpha and beta of the bank's
// normal model,
//
//	x ~ N(c₀ + Σ cᵢuᵢ, σ²),  uᵢ = (xₜ₋ᵢ − mu)/√(beta/alpha)
//	c₀|σ² ~ N(mu, σ²/kappa),  cᵢ|σ² ~ N(0, σ²),  σ² ~ InvGamma(alpha, beta)
//
// A last value that there isn't yet counts as mu. A missing observation leaves the
// last values as they are. The observations of one step have the same last values,
// and their mean is the next step's.
//
// A bank owns its scratch: one per goroutine.
type Bank struct {
	members    []*Filter
	views      []view // the first is that of the bank's model
	of         []int  // the view that a member has
	at, ends   []int  // where a member's part of the state begins and ends; the first's is the last
	odds       int    // where the log-odds of the members begin
	detector   *detector
	detectorAt int
	lagsAt     int // where the last values begin
	forgetting float64

	gains   []float64      // log p(x|past, i) − log h(x)
	known   temperedShares // of the last call of shares
	steps   []MemberOutcome
	mixture mixture
	running mixture               // of the members alone, with the scratch of mixture
	laws    []expfam.Distribution // of PredictAll
	parts   []mixturePart
	mixed   mixed // of Interval
}

// A view is a model of the stream's values, and what a step is to it.
type view struct {
	model    Model
	order    int // of the last values that a row has before the value; 0 in the first view
	at       int // where its sample begins in an excursion
	rows     [][]float64
	flat     []float64 // the rows of a view of an order above 0
	stats    []float64 // ΣT(x)
	weighted []float64 // stats, times the weight that the observation has
}

// see sets the rows, of the last values lags and the values of xs, and their
// statistics.
func (v *view) see(lags []float64, xs [][]float64) {
	v.flat, v.rows = v.flat[:0], v.rows[:0]
	for _, x := range xs {
		if !expfam.Incomplete(x) {
			v.flat = append(append(v.flat, lags[:v.order]...), x[0])
		}
	}
	n := v.order + 1
	for at := 0; at < len(v.flat); at += n {
		v.rows = append(v.rows, v.flat[at:at+n])
	}
	clear(v.stats)
	observe(v.model, v.stats, v.rows, 1)
}

// A MemberOutcome is the outcome of one step for one filter of a bank.
type MemberOutcome struct {
	Share float64 // posterior weight of the member in the bank, after the step
	Step
}

// An Outcome is that of one update of a bank.
type Outcome struct {
	Missing       bool
	LogPredictive float64         // log p(x|past) of the whole mixture, nats; NaN if missing
	Members       []MemberOutcome // valid until the next Update
	Heaviest      int             // of the members of the bank's own model, the one of the largest share
	Detection     Hypotheses      // zero without detection
}

// NewBank makes a bank of at least one member. The forgetting of the shares is
// in (0, 1]; detect is nil for a bank without detection. It panics where a
// setting is out of range, or a member has an AR that it cannot have.
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
		steps:      make([]MemberOutcome, len(members)),
		mixture:    newMixture(model.Outputs()),
		parts:      make([]mixturePart, 0, len(members)+maxExcursions+2),
	}
	b.running.mean, b.running.sd = b.mixture.mean, b.mixture.sd
	b.view(model, 0)
	for i, m := range members {
		if err := m.CheckAR(model, i); err != nil {
			panic(fmt.Sprintf("hafvf: bank.%d.ar: %v", i, err))
		}
		v := b.view(model, m.AR)
		b.of = append(b.of, v)
		b.members = append(b.members, NewFilter(b.views[v].model, m.Levels, m.Top))
	}
	end := 0
	for i, f := range b.members[1:] {
		b.at[i+1] = end
		end += f.stepLen()
	}
	b.odds = end
	end += len(members) - 1
	b.detectorAt = end
	if detect != nil {
		b.detector = newDetector(b.views, *detect)
		end += b.detector.first + maxExcursions*b.detector.stride
	}
	b.lagsAt = end
	b.at[0] = end + b.order()
	for i, f := range b.members {
		b.ends = append(b.ends, b.at[i]+f.stepLen())
	}
	b.ends[0] = b.at[0] + b.members[0].StateLen()
	return b
}

// view returns the index of the view of that order, which it adds where there is
// none.
func (b *Bank) view(model Model, order int) int {
	end := ofSample
	for i, v := range b.views {
		if v.order == order {
			return i
		}
		end = v.at + len(v.stats)
	}
	m := viewModel(model, order)
	b.views = append(b.views, view{model: m, order: order, at: end, stats: make([]float64, m.Len()), weighted: make([]float64, m.Len())})
	return len(b.views) - 1
}

// viewModel is the model that a view of a bank of model m has.
func viewModel(m Model, order int) Model {
	if order == 0 {
		return m
	}
	lagged, ok := expfam.NewLagged(m, order)
	if !ok {
		panic(badModel)
	}
	return lagged
}

// order is the number of last values in a state.
func (b *Bank) order() (order int) {
	for _, v := range b.views {
		order = max(order, v.order)
	}
	return order
}

// Model returns the bank's model.
func (b *Bank) Model() Model { return b.views[0].model }

// Use makes m the model of all members, as Filter.Use.
func (b *Bank) Use(m Model) {
	for i := range b.views {
		b.views[i].model = viewModel(m, b.views[i].order)
	}
	for i, f := range b.members {
		f.Use(b.views[b.of[i]].model)
	}
	if b.detector != nil {
		b.detector.use(m)
	}
}

// WithoutELBO has members without levels leave the ELBO of their steps NaN, and others make it a lower bound of
// what it is, which saves time if nobody reads it.
func (b *Bank) WithoutELBO() {
	for _, f := range b.members {
		f.unbound = true
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

// Regressors is the row at which a step is predicted, as Filter.Regressors.
func (b *Bank) Regressors(s State, xs [][]float64) []float64 {
	b.checkState(s)
	return b.members[0].Regressors(b.Member(s, 0), xs)
}

// StateLen is the number of floats in a state: those of the members, of which
// the first holds the window of a Sequential model, one less for their shares,
// those of the detection, and the last values where a member has AR.
func (b *Bank) StateLen() int { return b.ends[0] }

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
func (b *Bank) Member(s State, i int) State { return s[b.at[i]:b.ends[i]] }

func (b *Bank) detection(s State) detectorState {
	return detectorState(s[b.detectorAt:b.lagsAt])
}

// lags are the last values, latest first, as the regressors of the members with AR.
func (b *Bank) lags(s State) []float64 { return s[b.lagsAt:b.at[0]] }

// push adds the mean of a step to the last values.
func (b *Bank) push(s State, xs [][]float64) {
	lags := b.lags(s)
	if len(lags) == 0 {
		return
	}
	mean, n := 0.0, 0.0
	for _, x := range xs {
		if !expfam.Incomplete(x) {
			n++
			mean += (x[0] - mean) / n
		}
	}
	copy(lags[1:], lags)
	lags[0] = b.views[1].model.(expfam.Lagged).Standard(mean)
}

// regressors is what member i predicts from: x where it has the bank's model, else
// the last values.
func (b *Bank) regressors(i int, s State, x []float64) []float64 {
	if b.of[i] == 0 {
		return x
	}
	return b.lags(s)
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

// temperedShares are those under odds to the power of temper.
type temperedShares struct {
	odds, of []float64
	temper   float64
}

// shares writes the weights under the odds to the power of temper.
func (b *Bank) shares(dst []float64, s State, temper float64) {
	odds := b.oddsOf(s)
	if len(odds) == 0 {
		dst[0] = 1
		return
	}
	if temper == b.known.temper && slices.Equal(odds, b.known.odds) {
		copy(dst, b.known.of)
		return
	}
	top := 0.0
	for _, o := range odds {
		top = math.Max(top, temper*o)
	}
	dst[0] = special.Exp(-top)
	sum := dst[0]
	for i, o := range odds {
		dst[i+1] = special.Exp(temper*o - top)
		sum += dst[i+1]
	}
	for i := range b.members {
		dst[i] /= sum
	}
	b.known = temperedShares{append(b.known.odds[:0], odds...), append(b.known.of[:0], dst...), temper}
}

// Update learns the J ≥ 0 observations xs of one step, which Filter.Check passes,
// and returns what it found. A vector with a NaN in it is missing. A step without
// other vectors changes nothing but the window of a Sequential model, as in
// Filter.Update, and the number of steps seen. Update allocates nothing. It panics
// where the state or a vector has the wrong length.
func (b *Bank) Update(s State, xs ...[]float64) Outcome { return b.UpdateAfter(s, 1, xs...) }

// Recall replaces the value that the window of a Sequential model took at the last update. It
// does nothing if the model is none.
func (b *Bank) Recall(s State, last float64) {
	if first := b.members[0]; first.seq != nil {
		first.window(b.Member(s, 0))[0] = last
	}
}

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
	own := &b.views[0]
	own.rows = append(own.rows[:0], rows...)
	if base, ok := first.statistics(own.stats, rows); ok && first.imputed(sequence) == 0 {
		for i := 1; i < len(b.views); i++ {
			b.views[i].see(b.lags(s), xs)
		}
		b.learn(&out, s, elapsed, base)
		b.push(s, xs)
	} else {
		out.Missing = true
		for i, f := range b.members {
			b.steps[i].Step = f.skip(b.Member(s, i))
		}
		if b.detector != nil {
			out.Detection = b.detector.current(b.detection(s))
		}
	}
	mean, sd := first.moments[0][:], first.moments[1][:]
	if first.lacks(xs) {
		b.PredictAfter(mean, sd, s, elapsed, first.Row(sequence, first.unknown))
	}
	first.push(sequence, xs, mean[0])
	b.share(&out, s)
	return out
}

// share fills in the members' shares, and which is the heaviest.
func (b *Bank) share(out *Outcome, s State) {
	if len(b.members) == 1 {
		b.steps[0].Share = 1
		return
	}
	b.shares(b.gains, s, 1)
	for i, p := range b.gains {
		b.steps[i].Share = p
		if b.of[i] == 0 && p > b.gains[out.Heaviest] {
			out.Heaviest = i
		}
	}
}

func (b *Bank) learn(out *Outcome, s State, elapsed float64, base float64) {
	for i, f := range b.members {
		f.prepare(b.Member(s, i), elapsed, b.views[b.of[i]].stats)
		b.gains[i] = f.predictive(elapsed)
		b.steps[i].LogPredictive = b.gains[i] + base
	}
	gain := b.average(s)
	weight := 1.0
	last := len(b.members) - 1
	if b.detector != nil {
		// Every excursion forgets as the last member does: one that forgot less
		// would win for that alone. The predictive density must not depend on x, so
		// the weight before the observation is its prior mean. The weight after it
		// is the factor by which the member has scaled its sample.
		w := b.members[last].PriorWeightAfter(b.Member(s, last), elapsed)
		l := b.detection(s)
		gain = b.detector.weigh(l, gain, w, b.members[last].Sample(b.Member(s, last)))
		weight = l[atStay]
		for i := range b.views {
			v := &b.views[i]
			copy(v.weighted, v.stats)
			v.model.Scale(v.weighted, weight)
		}
	}
	out.LogPredictive = gain + base
	for i, o := range b.oddsOf(s) {
		b.oddsOf(s)[i] = o + weight*(b.gains[i+1]-b.gains[0])
	}
	for i, f := range b.members {
		v := &b.views[b.of[i]]
		stats := v.stats
		if b.detector != nil {
			stats = v.weighted
		}
		f.update(&b.steps[i].Step, b.Member(s, i), elapsed, v.rows, stats, base, weight)
	}
	if b.detector == nil {
		return
	}
	l := b.detection(s)
	b.detector.learn(l, b.members[last].retained)
	out.Detection = b.detector.decide(l, b.members[last].Sample(b.Member(s, last)))
	if !out.Detection.Starts() {
		return
	}
	// Every member goes on from the excursion's sample of its model. The levels
	// stay: the forgetting is a property of the stream, not of the regime.
	for i, f := range b.members {
		d := f.Sample(b.Member(s, i))
		copy(d, b.detector.sample(b.detector.likeliest(l), b.of[i]))
		b.steps[i].Memory = f.model.Memory(d)
		b.steps[i].Learned = f.model.Memory(b.views[b.of[i]].stats) // all of it is of the new regime
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
	norm, sum := special.Exp(-before), special.Exp(b.gains[0]-after)
	for i, o := range odds {
		norm += special.Exp(o - before)
		sum += special.Exp(o + b.gains[i+1] - after)
	}
	return special.Log(sum/norm) + (after - before)
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
	b.PredictAll(&Prediction{Mean: mean, SD: sd}, s, elapsed, x)
}

// PredictRegime is PredictAfter in the running regime: of the members alone.
func (b *Bank) PredictRegime(mean, sd []float64, s State, elapsed float64, x []float64) {
	b.begin(mean, sd, nil, nil, s)
	b.laws = b.laws[:0]
	parts := b.regime(b.parts[:0], s, 1, elapsed, x)
	for i := range parts {
		b.moments(&parts[i], false)
		b.mixture.add(parts[i].weight)
	}
}

// begin begins the mixture that writes to mean and sd and, unless regimeMean is nil, that of the members alone.
func (b *Bank) begin(mean, sd, regimeMean, regimeSD []float64, s State) {
	b.checkMoments(mean, sd, s)
	if regimeMean != nil {
		b.checkMoments(regimeMean, regimeSD, s)
	}
	b.mixture.reset(mean, sd)
	b.running.reset(regimeMean, regimeSD)
}

// moments writes those of a component to the mixture's next. They are those of its distributions, which are added to laws,
// if these are asked for, or the line that makes them shares work with what comes next.
func (b *Bank) moments(p *mixturePart, laws bool) {
	if !laws && p.line == nil {
		p.model.Predict(b.mixture.mean, b.mixture.sd, p.sample, p.w, p.regressors)
		return
	}
	at := len(b.laws)
	b.addLaws(p)
	for k, d := range b.laws[at:] {
		b.mixture.mean[k], b.mixture.sd[k] = d.Moments()
	}
}

// A mixturePart is one component of a mixture that predicts: a sample under a model.
type mixturePart struct {
	model      Model
	line       expfam.PredictiveLine // of the model; nil if it is none
	sample     []float64
	w          float64 // of memory
	weight     float64 // of the component
	regressors []float64
}

// hypotheses are the components of the next observation: excursions and members. What
// would start at the very observation is counted to the members.
func (b *Bank) hypotheses(s State, elapsed float64, x []float64) []mixturePart {
	b.parts = b.parts[:0]
	stay := 1.0
	if b.detector != nil {
		last := len(b.members) - 1
		regime := b.Member(s, last)
		w := b.members[last].PriorWeightAfter(regime, elapsed)
		l := b.detection(s)
		rho, model := l.persistence(), b.detector.excursions(l, b.members[last].Sample(regime))
		stay = l[atStay]
		for j := range l.alive() {
			e := b.detector.excursion(l, j)
			stay += (1 - rho) * e[outlier]
			b.parts = append(b.parts, mixturePart{model, nil, b.detector.sample(e, 0), w, rho*e[outlier] + e[change], x})
		}
	}
	b.parts = b.regime(b.parts, s, stay, elapsed, x)
	return b.parts
}

// regime appends the members to parts, with the total weight stay.
func (b *Bank) regime(parts []mixturePart, s State, stay, elapsed float64, x []float64) []mixturePart {
	b.shares(b.gains, s, b.forgetting)
	for i, f := range b.members {
		m := b.Member(s, i)
		parts = append(parts, mixturePart{f.model, f.law, f.Sample(m), f.PriorWeightAfter(m, elapsed), stay * b.gains[i], b.regressors(i, s, x)})
	}
	return parts
}

// Estimate writes mean and standard deviation of the likelihood's mean: of the
// mixture of all members and, with detection, of the excursions. That of a member
// with AR is the mean of the next observation.
func (b *Bank) Estimate(mean, sd []float64, s State, x []float64) {
	b.EstimateAll(mean, sd, nil, nil, s, x)
}

// EstimateAll is Estimate and, unless regimeMean is nil, Regime in one pass.
func (b *Bank) EstimateAll(mean, sd, regimeMean, regimeSD []float64, s State, x []float64) {
	b.begin(mean, sd, regimeMean, regimeSD, s)
	stay := 1.0
	if b.detector != nil {
		l, last := b.detection(s), len(b.members)-1
		model := b.detector.excursions(l, b.members[last].Sample(b.Member(s, last)))
		stay = l[atStay]
		for j := range l.alive() {
			e := b.detector.excursion(l, j)
			model.Estimate(b.mixture.mean, b.mixture.sd, b.detector.sample(e, 0), x)
			b.mixture.add(e[outlier] + e[change])
		}
	}
	b.estimate(s, stay, x)
}

// Regime writes mean and standard deviation of the likelihood's mean in the
// running regime: the mixture of the members alone, which a burst of outliers
// doesn't move.
func (b *Bank) Regime(mean, sd []float64, s State, x []float64) {
	b.begin(mean, sd, nil, nil, s)
	b.estimate(s, 1, x)
}

func (b *Bank) estimate(s State, stay float64, x []float64) {
	b.shares(b.gains, s, 1)
	for i, f := range b.members {
		f.model.Estimate(b.mixture.mean, b.mixture.sd, f.Sample(b.Member(s, i)), b.regressors(i, s, x))
		b.mixture.add(stay * b.gains[i])
		if b.running.toMean != nil {
			b.running.add(b.gains[i])
		}
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
		m.toSD[i] = linear.Hypot(spread, linear.Hypot(math.Sqrt(1-w)*m.toSD[i], math.Sqrt(w)*m.sd[i]))
	}
}

// ExcursionStarts appends to dst the steps (from 1) at which the present excursions
// started, oldest first. The Start of later Hypotheses is one of these or a later
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
