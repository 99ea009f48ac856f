package hafvf

import (
	"fmt"
	"math"
	"slices"

	"hafvf/hafvf/expfam"
	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// A Member configures one filter of a bank, with the arguments of NewFilter.
type Member struct {
	Levels []Beta  `json:"levels,omitempty"` // naive priors of w, b, …, bottom up; without levels the weight is Top
	Top    float64 `json:"top"`              // γ in [0, 1]: 1 forgets nothing, 0 forgets everything
	// AR makes the member an autoregression of this order, at most 8, with intercept: it predicts a value from
	// the previous values of the stream. 0 is the bank's own model. Other orders need the family normal, whose
	// prior sets the prior of the regression. The first member must have order 0.
	AR int `json:"ar,omitempty"`
}

// DefaultBank returns the members for a stream of unknown dynamics. Two members have fixed weights, with
// memories of 67 and 5000 observations, for streams that move slowly or not at all. The two-level filter
// follows streams that move at any other pace. With detection it lowers the false alarms on a random walk with
// steps of 0.05 standard deviations from 9 to 2.5 in 10,000 observations.
func DefaultBank() []Member {
	return []Member{
		DefaultMember(),
		{Top: .985},
		{Top: .9998},
	}
}

// DefaultBankFor returns the default members for a family: DefaultBank, and for normal also a member that
// regresses on the last three values. With detection this member lowers the false changes on streams with
// autocorrelation .5, .8 and .95 from 5, 115 and 185 in 10,000 observations to none. On thirteen kinds of
// streams without autocorrelation the mean log predictive changes by at most .0001 nats, and F1 of the changes
// by at most .007: on t₃ noise without a change, false changes rise from .08 to .25 in 10,000.
//
// Order three raises fewer false alarms on real streams than order one (development part of the Numenta Anomaly
// Benchmark: score 74.9 against 71.2). Its cost appears on streams of autocorrelation .8 with jumps of 3 to 6
// standard deviations, where F1 is .58 against .93. At .95 either order hides most such jumps, because such a
// stream makes large jumps by itself.
func DefaultBankFor(family string) []Member {
	bank := DefaultBank()
	if family == "normal" {
		bank = append(bank, Member{Top: .9998, AR: 3})
	}
	return bank
}

// DefaultForgetting is the default forgetting of a bank's shares.
const DefaultForgetting = 0.999

// A Bank runs several filters over the same stream and averages them (Bayesian model averaging). With the
// posterior weights pᵢ, called shares, it predicts
//
//	p(x|past) = Σ pᵢ p(x|past, i),  pᵢ ∝ (pᵢ′ · p(x′|past′, i))^λ
//
// where ′ marks the previous step and λ is the forgetting. The forgetting draws the shares towards equality, so
// that they follow the filter that has predicted best recently. A bank with one filter equals that filter bit
// by bit, including its states.
//
// With detection, the bank also distinguishes outliers from changes: see Detect.
//
// Most members have the bank's model. Members with AR regress the values on the previous ones, in units of the
// prior. With mu, kappa, alpha and beta of the bank's normal model, they are
//
//	x ~ N(c₀ + Σ cᵢuᵢ, σ²),  uᵢ = (xₜ₋ᵢ − mu)/√(beta/alpha)
//	c₀|σ² ~ N(mu, σ²/kappa),  cᵢ|σ² ~ N(0, σ²),  σ² ~ InvGamma(alpha, beta)
//
// Before the stream has enough values, mu replaces a previous value. A missing observation leaves the previous
// values unchanged. All observations of one step have the same previous values; their mean becomes the newest
// previous value of the next step.
//
// A Bank owns its scratch and is not safe for concurrent use: use one bank per goroutine.
type Bank struct {
	members      []*Filter
	views        []view // the bank's model, then the models of members with AR
	viewIndex    []int  // index into views, per member
	starts, ends []int  // bounds of each member's part of a state; the first member's part is the last
	oddsAt       int    // start of the members' log-odds in a state
	detector     *detector
	detectorAt   int
	lagsAt       int // start of the previous values in a state
	forgetting   float64

	gains         []float64      // log p(x|past, i) − log h(x)
	lastShares    temperedShares // result of the last call of shares
	steps         []MemberOutcome
	mixture       mixture
	regimeMixture mixture               // mixture of the members alone; shares its scratch with mixture
	laws          []expfam.Distribution // distributions of the components, for PredictAll
	parts         []mixturePart
	mixed         mixed // scratch of PredictAll
	estimated     mixtureMoments
}

// A view is one model of the stream's values, with the current step as that model sees it.
type view struct {
	model    Model
	order    int // number of previous values before the value in a row; 0 in the first view
	offset   int // start of this view's sample in an excursion
	rows     [][]float64
	flat     []float64 // storage of the rows, if order > 0
	stats    []float64 // ΣT(x)
	weighted []float64 // stats times the weight of the observation
}

// setRows sets rows from the previous values lags and the values of xs, skips incomplete vectors, and sums
// their statistics into stats.
func (v *view) setRows(lags []float64, xs [][]float64) {
	v.flat, v.rows = v.flat[:0], v.rows[:0]
	for _, x := range xs {
		if !expfam.Incomplete(x) {
			v.flat = append(append(v.flat, lags[:v.order]...), x[0])
		}
	}
	n := v.order + 1
	for i := 0; i < len(v.flat); i += n {
		v.rows = append(v.rows, v.flat[i:i+n])
	}
	clear(v.stats)
	observe(v.model, v.stats, v.rows, 1)
}

// NewBank returns a bank. members must not be empty, and forgetting is the forgetting of the shares, in (0, 1].
// If detect is nil, the bank has no detection. NewBank panics if a setting is out of range, or if
// Member.CheckAR rejects a member.
func NewBank(model Model, members []Member, forgetting float64, detect *Detect) *Bank {
	if len(members) == 0 {
		panic("hafvf: bank without members")
	}
	if !(forgetting > 0 && forgetting <= 1) {
		panic(fmt.Sprintf("hafvf: forgetting %g of a bank is outside (0, 1]", forgetting))
	}
	b := &Bank{
		starts:     make([]int, len(members)),
		forgetting: forgetting,
		gains:      make([]float64, len(members)),
		steps:      make([]MemberOutcome, len(members)),
		mixture:    newMixture(model.Outputs()),
		parts:      make([]mixturePart, 0, len(members)+maxExcursions+2),
	}
	b.regimeMixture.mean, b.regimeMixture.sd = b.mixture.mean, b.mixture.sd
	b.view(model, 0)
	for i, m := range members {
		if err := m.CheckAR(model, i); err != nil {
			panic(fmt.Sprintf("hafvf: bank.%d.ar: %v", i, err))
		}
		v := b.view(model, m.AR)
		b.viewIndex = append(b.viewIndex, v)
		b.members = append(b.members, NewFilter(b.views[v].model, m.Levels, m.Top))
	}
	end := 0
	for i, f := range b.members[1:] {
		b.starts[i+1] = end
		end += f.stepLen()
	}
	b.oddsAt = end
	end += len(members) - 1
	b.detectorAt = end
	if detect != nil {
		b.detector = newDetector(b.views, *detect)
		end += b.detector.excursionsAt + maxExcursions*b.detector.stride
	}
	b.lagsAt = end
	b.starts[0] = end + b.maxOrder()
	for i, f := range b.members {
		b.ends = append(b.ends, b.starts[i]+f.stepLen())
	}
	b.ends[0] = b.starts[0] + b.members[0].StateLen()
	return b
}

// view returns the index of the view with the given order. It adds the view if it is missing.
func (b *Bank) view(model Model, order int) int {
	end := sampleAt
	for i, v := range b.views {
		if v.order == order {
			return i
		}
		end = v.offset + len(v.stats)
	}
	m := viewModel(model, order)
	b.views = append(b.views, view{model: m, order: order, offset: end, stats: make([]float64, m.Len()), weighted: make([]float64, m.Len())})
	return len(b.views) - 1
}

// viewModel returns the model of the view with the given order, in a bank with model m.
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

// maxOrder returns the number of previous values in a state.
func (b *Bank) maxOrder() (order int) {
	for _, v := range b.views {
		order = max(order, v.order)
	}
	return order
}

// Model returns the bank's model.
func (b *Bank) Model() Model { return b.views[0].model }

// Use makes m the model of all members. As with Filter.Use, m may differ from the present model in its prior
// only.
func (b *Bank) Use(m Model) {
	for i := range b.views {
		b.views[i].model = viewModel(m, b.views[i].order)
	}
	for i, f := range b.members {
		f.Use(b.views[b.viewIndex[i]].model)
	}
	if b.detector != nil {
		b.detector.use(m)
	}
}

// SkipELBO saves time if nobody reads the ELBO of the steps. Afterwards the ELBO is NaN for members without
// levels, and a lower bound for the others.
func (b *Bank) SkipELBO() {
	for _, f := range b.members {
		f.skipELBO = true
	}
}

// Members returns the number of filters.
func (b *Bank) Members() int { return len(b.members) }

// Filter returns filter i, for reading its part of a state.
func (b *Bank) Filter(i int) *Filter { return b.members[i] }

// Detects reports whether the bank has detection.
func (b *Bank) Detects() bool { return b.detector != nil }

// Dim returns the length of the observation vectors of Update.
func (b *Bank) Dim() int { return b.members[0].Dim() }

// Regressors returns the row at which a step is predicted, as Filter.Regressors does.
func (b *Bank) Regressors(s State, xs [][]float64) []float64 {
	b.checkState(s)
	return b.members[0].Regressors(b.Member(s, 0), xs)
}

// StateLen returns the number of floats in a state: the states of the members (only the first one holds the
// window of a Sequential model), the log-odds of all members but the first, the state of the detection, and the
// previous values for members with AR.
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

// Member returns the part of the state that belongs to filter i. It aliases s. Only the first filter's part has
// the window of a Sequential model.
func (b *Bank) Member(s State, i int) State { return s[b.starts[i]:b.ends[i]] }

func (b *Bank) detection(s State) detectorState {
	return detectorState(s[b.detectorAt:b.lagsAt])
}

// lags returns the previous values, latest first, which are the regressors of members with AR.
func (b *Bank) lags(s State) []float64 { return s[b.lagsAt:b.starts[0]] }

// push adds the mean of a step to the previous values.
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

// regressors returns the regressors of member i: x if the member has the bank's model, and the previous values
// otherwise.
func (b *Bank) regressors(i int, s State, x []float64) []float64 {
	if b.viewIndex[i] == 0 {
		return x
	}
	return b.lags(s)
}

// logOdds returns the log-odds of members 1, 2, … against the first. It aliases s.
func (b *Bank) logOdds(s State) []float64 { return s[b.oddsAt : b.oddsAt+len(b.members)-1] }

// Shares writes the weights of the members, which sum to one, to dst. It panics if dst has the wrong length.
func (b *Bank) Shares(dst []float64, s State) {
	b.checkState(s)
	if len(dst) != len(b.members) {
		panic(badDst)
	}
	b.shares(dst, s, 1)
}

// temperedShares caches shares that were computed from odds to the power of temper.
type temperedShares struct {
	odds, shares []float64
	temper       float64
}

// shares writes the weights under the odds to the power of temper to dst.
func (b *Bank) shares(dst []float64, s State, temper float64) {
	odds := b.logOdds(s)
	if len(odds) == 0 {
		dst[0] = 1
		return
	}
	if temper == b.lastShares.temper && slices.Equal(odds, b.lastShares.odds) {
		copy(dst, b.lastShares.shares)
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
	b.lastShares = temperedShares{append(b.lastShares.odds[:0], odds...), append(b.lastShares.shares[:0], dst...), temper}
}

// Update learns the J ≥ 0 observations xs of one step, which must have passed Filter.Check. A vector that
// contains a NaN is missing. If all vectors are missing, Update changes only the number of steps and, as
// Filter.Update, the window of a Sequential model. Update allocates nothing. It panics if the state or a vector
// has the wrong length.
func (b *Bank) Update(s State, xs ...[]float64) Outcome { return b.UpdateAfter(s, 1, xs...) }

// ReplaceLast replaces the value that the last update put into the window of a Sequential model. It does nothing for
// other models.
func (b *Bank) ReplaceLast(s State, last float64) {
	if first := b.members[0]; first.seq != nil {
		first.window(b.Member(s, 0))[0] = last
	}
}

// UpdateAfter is Update if elapsed units of time have passed since the last observation, as in
// Filter.UpdateAfter. Shares and detection count observations, not time.
func (b *Bank) UpdateAfter(s State, elapsed float64, xs ...[]float64) Outcome {
	first := b.members[0]
	first.checkStep(s, b.StateLen(), elapsed, xs)
	sequence := b.Member(s, 0)
	rows := first.rows(sequence, xs)
	out := Outcome{Members: b.steps, LogPredictive: math.NaN(), bank: b, state: s}
	if b.detector != nil {
		b.detection(s)[atSteps]++
	}
	own := &b.views[0]
	own.rows = append(own.rows[:0], rows...)
	if base, ok := first.statistics(own.stats, rows); ok && first.imputed(sequence) == 0 {
		for i := 1; i < len(b.views); i++ {
			b.views[i].setRows(b.lags(s), xs)
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
	if first.lacksValue(xs) {
		b.PredictAfter(mean, sd, s, elapsed, first.Row(sequence, first.unknown))
	}
	first.push(sequence, xs, mean[0])
	b.share(&out, s)
	return out
}

// share fills in the members' shares and the heaviest member.
func (b *Bank) share(out *Outcome, s State) {
	if len(b.members) == 1 {
		b.steps[0].Share = 1
		return
	}
	b.shares(b.gains, s, 1)
	for i, p := range b.gains {
		b.steps[i].Share = p
		if b.viewIndex[i] == 0 && p > b.gains[out.Heaviest] {
			out.Heaviest = i
		}
	}
}

func (b *Bank) learn(out *Outcome, s State, elapsed float64, base float64) {
	for i, f := range b.members {
		f.prepare(b.Member(s, i), elapsed, b.views[b.viewIndex[i]].stats)
		b.gains[i] = f.predictive(elapsed)
		b.steps[i].LogPredictive = b.gains[i] + base
	}
	gain := b.average(s)
	weight := 1.0
	last := len(b.members) - 1
	if b.detector != nil {
		// Every excursion forgets at the rate of the last member: an excursion that forgot less would win for
		// that reason alone. The predictive density must not depend on x, so the weight before the observation
		// is its prior mean. The weight after the observation is the factor by which the member has scaled its
		// sample.
		w := b.members[last].PriorWeightAfter(b.Member(s, last), elapsed)
		ds := b.detection(s)
		gain = b.detector.weigh(ds, gain, w, b.members[last].Sample(b.Member(s, last)))
		weight = ds[atStay]
		for i := range b.views {
			v := &b.views[i]
			copy(v.weighted, v.stats)
			v.model.Scale(v.weighted, weight)
		}
	}
	out.LogPredictive = gain + base
	for i, o := range b.logOdds(s) {
		b.logOdds(s)[i] = o + weight*(b.gains[i+1]-b.gains[0])
	}
	for i, f := range b.members {
		v := &b.views[b.viewIndex[i]]
		stats := v.stats
		if b.detector != nil {
			stats = v.weighted
		}
		f.update(&b.steps[i].Step, b.Member(s, i), elapsed, v.rows, stats, base, weight)
	}
	if b.detector == nil {
		return
	}
	ds := b.detection(s)
	b.detector.learn(ds, b.members[last].retained)
	out.Detection = b.detector.decide(ds, b.members[last].Sample(b.Member(s, last)))
	if !out.Detection.Starts() {
		return
	}
	// Every member continues from the excursion's sample under its model. The levels stay, because the
	// forgetting is a property of the stream and not of the regime.
	for i, f := range b.members {
		d := f.Sample(b.Member(s, i))
		copy(d, b.detector.sample(b.detector.mostProbableChange(ds), b.viewIndex[i]))
		b.steps[i].Memory = f.model.Memory(d)
		b.steps[i].Learned = f.model.Memory(b.views[b.viewIndex[i]].stats) // the new regime has learned all of it
	}
	b.detector.clear(ds)
}

// average forgets the log-odds of the shares, and returns the log of the mean of e^gains under the resulting
// shares.
func (b *Bank) average(s State) float64 {
	odds := b.logOdds(s)
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

// Predict writes mean and standard deviation of the next observation to slices of length Model.Outputs. They
// describe the mixture of all members and, with detection, of the excursions, each with its weight at its prior
// mean. The mixture leaves out an excursion that would start at the next observation: its predictive comes from
// the naive prior, whose variance may be infinite. x holds the regressors, if the model has any.
func (b *Bank) Predict(mean, sd []float64, s State, x []float64) {
	b.PredictAfter(mean, sd, s, 1, x)
}

// PredictAfter is Predict for an observation after elapsed units of time.
func (b *Bank) PredictAfter(mean, sd []float64, s State, elapsed float64, x []float64) {
	b.PredictAll(&Prediction{Mean: mean, SD: sd}, s, elapsed, x)
}

// PredictRegime is PredictAfter for the running regime alone: the mixture of the members without excursions.
func (b *Bank) PredictRegime(mean, sd []float64, s State, elapsed float64, x []float64) {
	b.begin(mean, sd, nil, nil, s)
	b.laws = b.laws[:0]
	parts := b.regime(b.parts[:0], s, 1, elapsed, x)
	for i := range parts {
		b.moments(&parts[i], false)
		b.mixture.add(parts[i].weight)
	}
}

// begin starts the mixture that writes to mean and sd. Unless regimeMean is nil, it also starts the mixture of
// the members alone.
func (b *Bank) begin(mean, sd, regimeMean, regimeSD []float64, s State) {
	b.checkMoments(mean, sd, s)
	if regimeMean != nil {
		b.checkMoments(regimeMean, regimeSD, s)
	}
	b.mixture.reset(mean, sd)
	b.regimeMixture.reset(regimeMean, regimeSD)
}

// moments writes the moments of a component to the mixture's next component. If laws is true or the component
// has a line, moments also appends the component's distributions to b.laws. With a line this shares work with
// the gain that is computed next.
func (b *Bank) moments(p *mixturePart, laws bool) {
	if !laws && p.line == nil {
		p.model.Predict(b.mixture.mean, b.mixture.sd, p.sample, p.w, p.regressors)
		return
	}
	start := len(b.laws)
	b.addLaws(p)
	for k, d := range b.laws[start:] {
		b.mixture.mean[k], b.mixture.sd[k] = d.Moments()
	}
}

// A mixturePart is one component of a predictive mixture: a sample under a model.
type mixturePart struct {
	model      Model
	line       expfam.PredictiveLine // line of the model; nil if the model has no PredictiveLine
	sample     []float64
	w          float64 // weight of the memory
	weight     float64 // weight of the component
	regressors []float64
}

// hypotheses returns the components that predict the next observation: first the excursions, then the members.
// The probability that an excursion starts at the next observation counts towards the members.
func (b *Bank) hypotheses(s State, elapsed float64, x []float64) []mixturePart {
	b.parts = b.parts[:0]
	stay := 1.0
	if b.detector != nil {
		last := len(b.members) - 1
		regime := b.Member(s, last)
		w := b.members[last].PriorWeightAfter(regime, elapsed)
		ds := b.detection(s)
		rho, model := ds.persistence(), b.detector.excursionModel(ds, b.members[last].Sample(regime))
		stay = ds[atStay]
		for j := range ds.alive() {
			e := b.detector.excursion(ds, j)
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

// Estimate writes mean and standard deviation of the likelihood's mean, under the mixture of all members and,
// with detection, of the excursions. A member with AR contributes the mean of the next observation.
func (b *Bank) Estimate(mean, sd []float64, s State, x []float64) {
	b.EstimateAll(mean, sd, nil, nil, s, x)
}

// EstimateAll is Estimate and, unless regimeMean is nil, also EstimateRegime in one pass.
func (b *Bank) EstimateAll(mean, sd, regimeMean, regimeSD []float64, s State, x []float64) {
	b.begin(mean, sd, regimeMean, regimeSD, s)
	stay := 1.0
	if b.detector != nil {
		ds, last := b.detection(s), len(b.members)-1
		model := b.detector.excursionModel(ds, b.members[last].Sample(b.Member(s, last)))
		stay = ds[atStay]
		for j := range ds.alive() {
			e := b.detector.excursion(ds, j)
			model.Estimate(b.mixture.mean, b.mixture.sd, b.detector.sample(e, 0), x)
			b.mixture.add(e[outlier] + e[change])
		}
	}
	b.estimate(s, stay, x)
}

// EstimateRegime writes mean and standard deviation of the likelihood's mean in the running regime: the mixture of the
// members without excursions, which a burst of outliers does not move.
func (b *Bank) EstimateRegime(mean, sd []float64, s State, x []float64) {
	b.begin(mean, sd, nil, nil, s)
	b.estimate(s, 1, x)
}

func (b *Bank) estimate(s State, stay float64, x []float64) {
	b.shares(b.gains, s, 1)
	for i, f := range b.members {
		f.model.Estimate(b.mixture.mean, b.mixture.sd, f.Sample(b.Member(s, i)), b.regressors(i, s, x))
		b.mixture.add(stay * b.gains[i])
		if b.regimeMixture.toMean != nil {
			b.regimeMixture.add(b.gains[i])
		}
	}
}

// A mixture accumulates mean and standard deviation of a mixture, component by component, by the law of total
// variance.
type mixture struct {
	mean, sd     []float64 // moments of the next component
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

// ExcursionStarts appends to dst the steps (from 1) at which the present excursions started, oldest first. The
// Start of later Hypotheses is one of these or a later step. To know the time of a Start, keep the times of
// these steps.
func (b *Bank) ExcursionStarts(dst []int64, s State) []int64 {
	b.checkState(s)
	if b.detector == nil {
		return dst
	}
	ds := b.detection(s)
	for j := range ds.alive() {
		dst = append(dst, int64(b.detector.excursion(ds, j)[startedAt]))
	}
	return dst
}
