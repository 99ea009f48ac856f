package hafvf

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"hafvf/hafvf/expfam"
	"hafvf/internal/domain"
	"hafvf/internal/linear"
	"hafvf/internal/special"
)

// Detect holds the settings of detection. The zero value means the defaults.
//
// The weight of memory alone does not separate outliers from changes: both make the filter forget. Detection is
// Bayesian model averaging over hypotheses. One hypothesis is "stay": the bank is right. Its posterior
// probability is P. Up to eight excursions compete with it. An excursion is a posterior that starts from the
// naive prior at one observation and learns from there on. It has two posterior probabilities: that it is an
// outlier or a short burst of outliers, after which the stream returns to the bank, and that it is a lasting
// change. Each observation updates all probabilities with the predictive densities of the hypotheses, after
// these transitions:
//
//	stay     → an outlier starts with probability h_b, a change with h_c
//	outlier  → continues with probability ρ, else returns to stay
//	change   → lasts
//
// The bank learns an observation with the weight P, so that an excursion does not affect its memory: T(x)
// counts P times, and a filter with levels learns about its forgetting only if P is above one half. When a
// change becomes almost certain, every member continues from the excursion's sample and keeps its levels. The
// detection learns h_b, h_c, ρ and the distribution of outliers from the stream.
//
// A new regime starts from the naive prior, which therefore must have the scale of the data. Dependent
// observations look like changes if the members do not model the dependence, for example in autocorrelated
// streams: see DefaultBankFor. The bank's own model weighs the excursions, whatever models the members have.
type Detect struct {
	// Commit is the probability above which a change counts as certain, in (0, 1). 0 means the Commit of
	// DefaultDetect. Prior odds of a change above 1 in 1000 do not count, so that a stream that changes often
	// needs more evidence.
	Commit float64 `json:"commit,omitempty"`
	// MinLength is the minimum run length of a new regime when a change is reported: shorter bursts are
	// outliers. 0 means the MinLength of DefaultDetect.
	MinLength int `json:"min_length,omitempty"`
}

// Fixed constants of the detection. The probabilities have Beta priors with the given mean, and with a strength
// in observations.
const (
	maxExcursions = 8

	outlierMean, outlierStrength = 0.01, 200.  // h_b
	changeMean, changeStrength   = 1e-3, 2000. // h_c
	persistMean, persistStrength = 0.4, 20.    // ρ
	maxPersist                   = 0.5
	noStart                      = 1e-12 // h_b and h_c at the first two observations

	classForgetting = 0.99 // forgetting of the outlier class, per outlier
	minLearned      = 0.1  // minimum and maximum prior probability of the outlier class
	maxLearned      = 0.9
	maxBoost        = 50. // maximum nats by which the outlier class may exceed the naive prior
	negligible      = 1e-4
	maxAge          = 200  // number of observations after which an excursion is dropped, see expfam.Informed
	fullyInformed   = 0.6  // information from which on a model counts as fully informed
	minInformed     = 0.04 // minimum of the squared information ratio: an excursion lives at most 5000 observations
	minStay         = 1e-12
	minBefore       = 1e-280 // minimum of P before an observation
	revisable       = 20     // a change fewer observations after another one corrects it
)

// A Kind is the verdict of the detection on a step.
type Kind string

const (
	None     Kind = "none"
	Outlier  Kind = "outlier"  // more probable than stay and change together
	Change   Kind = "change"   // a new regime starts
	Revision Kind = "revision" // the regime that has just started began later than reported
)

// Hypotheses holds the posterior probabilities of the hypotheses after a step, before a change resets them.
// They sum to one.
type Hypotheses struct {
	Kind                  Kind
	Stay, Outlier, Change float64
	// Start is the changepoint, the first step (from 1) of the new regime. Without a change it is the start of
	// the excursion that is most probably a change, or 0 without an excursion. Missing observations count as
	// steps.
	Start int64
	Delay int64 // steps from Start to this step; 0 unless the regime starts
	Age   int64 // steps since the start of the regime that ran before this step
}

// LogOdds returns the posterior log-odds in nats: of an outlier if Kind is Outlier, and of a change otherwise.
func (d Hypotheses) LogOdds() float64 {
	p, rest := d.Change, d.Stay+d.Outlier
	if d.Kind == Outlier {
		p, rest = d.Outlier, d.Stay+d.Change
	}
	const tiny = 1e-300
	return special.Log(p+tiny) - special.Log(rest+tiny)
}

// Starts reports whether the bank has switched to a new regime at this step.
func (d Hypotheses) Starts() bool { return d.Kind == Change || d.Kind == Revision }

// A detectorState is the detection's part of a state: the head below, the sample of the outlier class, the
// statistics of the last observation, and the excursions. The excursions are ordered from oldest to newest;
// unused ones are zero. A probability is stored as (events, trials).
type detectorState []float64

const (
	atSteps   = iota // steps seen
	atStart          // step at which the running regime started
	atAge            // observations since then, without missing ones
	atStay           // P
	atAlive          // number of excursions
	atOutlier        // h_b
	_
	atChange // h_c
	_
	atPersist // ρ
	_
	atNaive     // outliers from the naive prior
	atLearned   // outliers from the outlier class
	atLastShare // probability that the last outlier to start was of the outlier class
	detectorHead
)

// The entries of an excursion, before its samples.
const (
	outlier   = iota // posterior weight b
	change           // posterior weight c
	startedAt        // step
	age              // observations since then, without missing ones
	sampleAt
)

func (ds detectorState) alive() int { return int(ds[atAlive]) }

func (ds detectorState) mean(index int) float64 { return ds[index] / ds[index+1] }

func (ds detectorState) persistence() float64 { return math.Min(ds.mean(atPersist), maxPersist) }

// starts returns h_b and h_c at the next observation.
func (ds detectorState) starts() (outliers, changes float64) {
	if ds[atAge] <= 0 {
		return noStart, noStart
	}
	return ds.mean(atOutlier), ds.mean(atChange)
}

// learned returns the prior probability that an outlier belongs to the class of earlier outliers.
func (ds detectorState) learned() float64 {
	return math.Max(minLearned, math.Min(maxLearned, ds[atLearned]/(ds[atNaive]+ds[atLearned])))
}

// A detector runs the detection on states. It owns its scratch.
type detector struct {
	views         []view // views of the bank
	excursionsAt  int    // start of the excursions in a state
	stride        int    // floats in an excursion, which has a sample per view
	commit        float64
	minLength     float64
	informed      expfam.Informed // the bank's model if it is Informed, otherwise nil
	line          expfam.Line
	reference     Model // the model with the reference prior; nil if the model is not Informed
	referenceLine expfam.Line
	scratch       []float64
	gains         [maxExcursions]float64 // log p(x|excursion) − log h(x)

	// weigh sets the following fields.
	changes  float64 // h_c
	returned float64 // share of P, before the observation, that has returned from outliers
	single   float64 // part of returned from excursions of length one
	learned  float64 // probability that an outlier starting now belongs to the outlier class
}

func newDetector(views []view, d Detect) *detector {
	if err := d.valid(); err != nil {
		panic("hafvf: detect." + err.Error())
	}
	d = d.withDefaults()
	model, last := views[0].model, views[len(views)-1]
	dr := &detector{
		views: views, excursionsAt: detectorHead + 2*model.Len(), stride: last.offset + last.model.Len(),
		commit: d.Commit, minLength: float64(d.MinLength),
		scratch: make([]float64, model.Len()),
	}
	dr.use(model)
	return dr
}

// use sets the model that weighs excursions and outliers.
func (dr *detector) use(m Model) {
	dr.line, dr.informed, dr.reference, dr.referenceLine = m.NewLine(), nil, nil, nil
	if i, ok := m.(expfam.Informed); ok {
		dr.informed, dr.reference = i, i.Reference()
		dr.referenceLine = dr.reference.NewLine()
	}
}

// model returns the bank's model. It alone weighs excursions and outliers, whatever models the members have:
// excursions with AR miss changes on streams without autocorrelation.
func (dr *detector) model() Model { return dr.views[0].model }

// usesReference reports whether excursions from the running regime start from the reference prior. regime is
// the last member's sample.
func (dr *detector) usesReference(ds detectorState, regime []float64) bool {
	return dr.informed != nil && ds[atAge] >= maxAge && dr.informed.Information(regime) < fullyInformed
}

// excursionModel returns the model that predicts under an excursion from the running regime.
func (dr *detector) excursionModel(ds detectorState, regime []float64) Model {
	if dr.usesReference(ds, regime) {
		return dr.reference
	}
	return dr.model()
}

// DefaultDetect returns the settings that replace zeros in a Detect.
func DefaultDetect() Detect { return Detect{Commit: 0.95, MinLength: 5} }

func (d Detect) withDefaults() Detect {
	standard := DefaultDetect()
	return Detect{Commit: cmp.Or(d.Commit, standard.Commit), MinLength: cmp.Or(d.MinLength, standard.MinLength)}
}

func (d Detect) valid() error {
	d = d.withDefaults()
	if d.MinLength < 1 {
		return fmt.Errorf("min_length: must be at least 1, not %d", d.MinLength)
	}
	return domain.Commit.Check("commit", d.Commit)
}

// sample returns an excursion's sample for a view. It aliases excursion.
func (dr *detector) sample(excursion []float64, view int) []float64 {
	v := &dr.views[view]
	return excursion[v.offset : v.offset+len(v.stats)]
}

func (dr *detector) class(ds detectorState) []float64 {
	return ds[detectorHead : detectorHead+dr.model().Len()]
}

func (dr *detector) lastStats(ds detectorState) []float64 {
	n := dr.model().Len()
	return ds[detectorHead+n : detectorHead+2*n]
}

func (dr *detector) excursion(ds detectorState, j int) []float64 {
	start := dr.excursionsAt + j*dr.stride
	return ds[start : start+dr.stride]
}

func (dr *detector) init(ds detectorState) {
	ds[atStart], ds[atAge], ds[atStay] = 1, -1, 1
	ds[atOutlier], ds[atOutlier+1] = outlierMean*outlierStrength, outlierStrength
	ds[atChange], ds[atChange+1] = changeMean*changeStrength, changeStrength
	ds[atPersist], ds[atPersist+1] = persistMean*persistStrength, persistStrength
	ds[atNaive], ds[atLearned], ds[atLastShare] = 1, 1, 0.5
}

// remove removes excursion j.
func (dr *detector) remove(ds detectorState, j int) {
	n := ds.alive()
	start, end := dr.excursionsAt+j*dr.stride, dr.excursionsAt+n*dr.stride
	copy(ds[start:end], ds[start+dr.stride:end])
	clear(ds[end-dr.stride : end])
	ds[atAlive]--
}

// thin makes room for an excursion by merging two neighbours: the more probable one adds the probabilities of
// the other to its own. thin chooses the pair with the smallest product of the smaller probability and the time
// between the two, relative to their age.
func (dr *detector) thin(ds detectorState) {
	minCost, lose, keep := math.Inf(1), 0, 0
	for j := range ds.alive() - 1 {
		e, f := dr.excursion(ds, j), dr.excursion(ds, j+1)
		me, mf := e[outlier]+e[change], f[outlier]+f[change]
		if v := math.Min(me, mf) * (e[age] - f[age]) / (e[age] + 1); v < minCost {
			minCost = v
			lose, keep = j+1, j
			if me < mf {
				lose, keep = j, j+1
			}
		}
	}
	e, f := dr.excursion(ds, keep), dr.excursion(ds, lose)
	e[outlier] += f[outlier]
	e[change] += f[change]
	dr.remove(ds, lose)
}

// weigh applies the transitions, starts an excursion at the observation in the views, and conditions the
// probabilities on the observation. stay is log p(x|stay) − log h(x), w the weight by which excursions forget
// before it, and regime the last member's sample. It returns log p(x|past) − log h(x).
func (dr *detector) weigh(ds detectorState, stay, w float64, regime []float64) float64 {
	stats, line := dr.views[0].stats, dr.line
	if dr.usesReference(ds, regime) {
		line = dr.referenceLine
	}
	rho := ds.persistence()
	outliers, changes := ds.starts()
	dr.changes = changes
	ds[atAge]++

	// The probabilities before the observation.
	returned, single := 0.0, 0.0
	for j := range ds.alive() {
		e := dr.excursion(ds, j)
		e[age]++
		r := (1 - rho) * e[outlier]
		returned += r
		if e[age] == 1 {
			single += r
		}
		e[outlier] *= rho
	}
	prevStay := ds[atStay]
	p := math.Max(prevStay*(1-outliers-dr.changes)+returned, minBefore)
	dr.returned, dr.single = returned/p, single/p

	if ds.alive() == maxExcursions {
		dr.thin(ds)
	}
	n := ds.alive()
	for j := range n {
		line.Set(dr.sample(dr.excursion(ds, j), 0), stats)
		dr.gains[j] = line.Gain(w)
	}
	naive, boost := dr.outlierGain(ds, stats)
	e := dr.excursion(ds, n)
	e[outlier], e[change] = prevStay*outliers*special.Exp(boost), prevStay*dr.changes
	e[startedAt] = ds[atSteps]
	dr.gains[n] = naive
	ds[atAlive]++

	// Bayes' rule, relative to the largest term.
	top := special.Log(p) + stay
	for j := range n + 1 {
		e := dr.excursion(ds, j)
		top = math.Max(top, special.Log(e[outlier]+e[change])+dr.gains[j])
	}
	ds[atStay] = special.Exp(special.Log(p) + stay - top)
	sum := ds[atStay]
	for j := range n + 1 {
		// A probability can be as small as e^gain is large.
		e := dr.excursion(ds, j)
		if m := e[outlier] + e[change]; m > 0 {
			now := special.Exp(special.Log(m) + dr.gains[j] - top)
			e[outlier] = now * (e[outlier] / m)
			e[change] = now * (e[change] / m)
		}
		sum += e[outlier] + e[change]
	}
	dr.rescale(ds, 1/sum)
	return top + special.Log(sum)
}

// outlierGain returns the log predictive density, without log h(x), of an observation that starts an outlier:
// naive under the naive prior, and naive + boost under the mixture of the naive prior and the class of earlier
// outliers. boost is at most maxBoost.
func (dr *detector) outlierGain(ds detectorState, stats []float64) (naive, boost float64) {
	dr.line.Set(dr.class(ds), stats)
	naive = dr.line.Gain(0)
	ratio := dr.line.Gain(1) - naive
	v := ds.learned()
	if ratio > 0 {
		rest := (1 - v) * special.Exp(-ratio)
		dr.learned = v / (v + rest)
		return naive, math.Min(ratio+special.Log(v+rest), maxBoost)
	}
	dr.learned = v * special.Exp(ratio) / (1 - v + v*special.Exp(ratio))
	return naive, math.Log1p(v * math.Expm1(ratio))
}

func (dr *detector) rescale(ds detectorState, factor float64) {
	ds[atStay] *= factor
	for j := range ds.alive() {
		e := dr.excursion(ds, j)
		e[outlier] *= factor
		e[change] *= factor
	}
}

// learn scales every excursion's samples by w and adds the observation in the views. The probability that has
// returned from outliers, known one step late, updates h_b, ρ and the outlier class.
func (dr *detector) learn(ds detectorState, w float64) {
	m := dr.model()
	continuing := 0.0
	for j := range ds.alive() {
		e := dr.excursion(ds, j)
		for i := range dr.views {
			v := &dr.views[i]
			d := dr.sample(e, i)
			v.model.Scale(d, w)
			observe(v.model, d, v.rows, 1)
		}
		if e[age] > 0 {
			continuing += e[outlier]
		}
	}
	stay := ds[atStay]
	if g := stay * dr.single; g > 0 {
		keep := 1 - (1-classForgetting)*g
		m.Scale(dr.class(ds), keep)
		copy(dr.scratch, dr.lastStats(ds))
		m.Scale(dr.scratch, g)
		m.Merge(dr.class(ds), dr.scratch)
		ds[atNaive] = 1 + keep*(ds[atNaive]-1) + g*(1-ds[atLastShare])
		ds[atLearned] = 1 + keep*(ds[atLearned]-1) + g*ds[atLastShare]
	}
	ds[atLastShare] = dr.learned
	copy(dr.lastStats(ds), dr.views[0].stats)
	returned := stay * dr.returned
	ds[atOutlier] += returned
	ds[atOutlier+1]++
	ds[atChange+1]++
	ds[atPersist] += continuing
	ds[atPersist+1] += continuing + returned
}

// current returns the probabilities, and the start of the excursion that is most probably a change.
func (dr *detector) current(ds detectorState) Hypotheses {
	d := Hypotheses{Kind: None, Stay: ds[atStay], Age: int64(ds[atSteps] - ds[atStart])}
	largest := -1.0
	for j := range ds.alive() {
		e := dr.excursion(ds, j)
		d.Outlier += e[outlier]
		d.Change += e[change]
		if e[change] > largest {
			largest, d.Start = e[change], int64(e[startedAt])
		}
	}
	if d.Outlier > 0.5 {
		d.Kind = Outlier
	}
	return d
}

// mostProbableChange returns the excursion with the largest probability of a change.
func (dr *detector) mostProbableChange(ds detectorState) []float64 {
	best := dr.excursion(ds, 0)
	for j := range ds.alive() {
		if e := dr.excursion(ds, j); e[change] > best[change] {
			best = e
		}
	}
	return best
}

// decide returns the verdict on the step. regime is the sample of the last member. If the verdict is no change,
// decide drops excursions that are too improbable or too old.
func (dr *detector) decide(ds detectorState, regime []float64) Hypotheses {
	d := dr.current(ds)
	e := dr.mostProbableChange(ds)
	// Prior odds above the initial ones do not count: otherwise every change would make the next one easier.
	rest := (d.Stay + d.Outlier) * math.Max(1, dr.changes/changeMean)
	if d.Change > dr.commit*(d.Change+rest) && e[age] < ds[atAge] && e[age]+1 >= dr.minLength {
		d.Kind, d.Delay = Change, int64(ds[atSteps]-e[startedAt])
		if ds[atStart] > 1 && ds[atAge]-e[age] < revisable {
			d.Kind = Revision
		} else {
			ds[atChange]++
			ds[atStart], ds[atAge] = e[startedAt], e[age]
		}
		return d
	}
	dropped, known := false, 1.
	if dr.informed != nil {
		known = dr.informed.Information(regime) / fullyInformed
		known = math.Max(minInformed, math.Min(1, known*known))
	}
	for j := ds.alive() - 1; j >= 0; j-- {
		e := dr.excursion(ds, j)
		if e[outlier]+e[change] <= negligible*known || e[age]*known >= maxAge {
			dr.remove(ds, j)
			dropped = true
		}
	}
	if dropped {
		ds[atStay] = math.Max(ds[atStay], minStay)
		sum := ds[atStay]
		for j := range ds.alive() {
			e := dr.excursion(ds, j)
			sum += e[outlier] + e[change]
		}
		dr.rescale(ds, 1/sum)
	}
	return d
}

// clear removes all excursions.
func (dr *detector) clear(ds detectorState) {
	clear(ds[dr.excursionsAt:])
	ds[atAlive], ds[atStay] = 0, 1
}

// valid returns an error if ds, whose entries are finite, is not a state of the detection.
func (dr *detector) valid(ds detectorState) error {
	corrupt := errors.New("state is corrupt: detection")
	whole := func(v, lo, hi float64) bool { return v == math.Trunc(v) && v >= lo && v <= hi }
	if !whole(ds[atSteps], 0, expfam.MaxCount) || !whole(ds[atStart], 1, math.Max(ds[atSteps], 1)) ||
		!whole(ds[atAge], -1, ds[atSteps]-1) || !whole(ds[atAlive], 0, maxExcursions) {
		return corrupt
	}
	for _, index := range [...]int{atOutlier, atChange, atPersist} {
		if !(ds[index] > 0 && ds[index] <= ds[index+1]) {
			return corrupt
		}
	}
	if !(ds[atNaive] >= 1 && ds[atLearned] >= 1 && ds[atLastShare] >= 0 && ds[atLastShare] <= 1) ||
		dr.model().Memory(dr.class(ds)) < 0 || dr.model().Memory(dr.lastStats(ds)) < 0 {
		return corrupt
	}
	sum, older := ds[atStay], ds[atAge]+1
	if sum < 0 {
		return corrupt
	}
	for j := range maxExcursions {
		e := dr.excursion(ds, j)
		if j >= ds.alive() {
			if !linear.Zeros(e) {
				return corrupt
			}
			continue
		}
		if !(e[outlier] >= 0 && e[change] >= 0) || !whole(e[startedAt], 1, ds[atSteps]) || !whole(e[age], 0, older-1) {
			return corrupt
		}
		for i, v := range dr.views {
			if v.model.Memory(dr.sample(e, i)) < 0 {
				return corrupt
			}
		}
		older = e[age]
		sum += e[outlier] + e[change]
	}
	if math.Abs(sum-1) > 1e-6 {
		return corrupt
	}
	return nil
}
