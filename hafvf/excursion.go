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

// Detect are the settings of detection; the zero value is the default.
//
// The weight of memory alone tells outliers and changes badly apart: both make
// the filter forget. Detection is Bayesian model averaging over hypotheses. The
// bank is the hypothesis "stay", of posterior probability P. Up to eight
// excursions stand against it. An excursion is a posterior that has grown from the
// naive prior since the observation at which it started. It has two posterior
// probabilities: that it is an outlier or a short burst of them, after which the
// stream returns to the bank, and that it is a lasting change. Each observation
// updates all of them by the predictive densities of the hypotheses, after these
// transitions:
//
//	stay     → an outlier starts with probability h_b, a change with h_c
//	outlier  → goes on with probability ρ, else returns to stay
//	change   → lasts
//
// The bank learns an observation with the weight P, so that an excursion leaves
// its memory alone: T(x) counts P times, and a filter with levels learns about its
// forgetting only where P is above one half. When the changepoint of an excursion
// becomes all but certain, every member goes on from the excursion's sample, with
// the levels it had. The detection learns h_b, h_c, ρ and the distribution of
// outliers along the way.
//
// A new regime starts from the naive prior, which therefore has to be of the scale
// of the data. Observations that depend on each other beyond what the members say,
// such as those of an autocorrelated stream, look like changes: see DefaultBankOf.
// Whatever models the members have, the bank's own weighs the excursions.
type Detect struct {
	// Commit is the probability above which a change is taken for certain, in
	// (0, 1); zero stands for that of DefaultDetect. Prior odds of a change above 1 in 1000 do not
	// count, so that a stream that changes often needs more evidence.
	Commit float64 `json:"commit,omitempty"`
	// MinLength is the least run length of a new regime at its commit: shorter
	// bursts are outliers. Zero stands for that of DefaultDetect.
	MinLength int `json:"min_length,omitempty"`
}

// Settings that aren't the user's. The probabilities have Beta priors, each of the
// given mean and of a strength in observations.
const (
	maxExcursions = 8

	outlierMean, outlierStrength = 0.01, 200.  // h_b
	changeMean, changeStrength   = 1e-3, 2000. // h_c
	persistMean, persistStrength = 0.4, 20.    // ρ
	maxPersist                   = 0.5
	noStart                      = 1e-12 // h_b and h_c at the first two observations

	classForgetting = 0.99 // of the outlier class, per outlier
	minLearned      = 0.1  // bounds of the prior probability of the outlier class
	maxLearned      = 0.9
	maxBoost        = 50. // nats by which the outlier class may surpass the naive prior
	negligible      = 1e-4
	oldest          = 200  // observations after which an excursion is dropped, see expfam.Informed
	fullyInformed   = 0.6  // of informed: at least as much is as good as all
	leastInformed   = 0.04 // of informed, squared: an excursion lives at most 5000 observations
	leastStay       = 1e-12
	leastBefore     = 1e-280 // of P before an observation
	revisable       = 20     // observations between changes, below which the later corrects the earlier
)

// A Kind is the verdict of the detection on a step.
type Kind string

const (
	None     Kind = "none"
	Outlier  Kind = "outlier"  // more probable than stay and change together
	Change   Kind = "change"   // a new regime starts
	Revision Kind = "revision" // the regime that just started began later than reported
)

// Hypotheses hold the posterior probabilities of the hypotheses after a step,
// before a change resets them. They sum to one.
type Hypotheses struct {
	Kind                  Kind
	Stay, Outlier, Change float64
	// Start is the changepoint, the first step (from 1) of the new regime. Without
	// a change it is that of the excursion which is most probably one, 0 where
	// there is no excursion. Missing observations count as steps.
	Start int64
	Delay int64 // steps from Start to this one; 0 unless the regime starts
	Age   int64 // steps since the start of the regime that ran before this one
}

// LogOdds is the posterior log-odds, in nats, of an outlier where Kind is Outlier,
// and of a change otherwise.
func (d Hypotheses) LogOdds() float64 {
	p, rest := d.Change, d.Stay+d.Outlier
	if d.Kind == Outlier {
		p, rest = d.Outlier, d.Stay+d.Change
	}
	const least = 1e-300
	return special.Log(p+least) - special.Log(rest+least)
}

// Starts reports whether the bank has committed to a new regime at this step.
func (d Hypotheses) Starts() bool { return d.Kind == Change || d.Kind == Revision }

// A detectorState is the detection's part of a state: the head below, the sample of
// the outlier class, the statistics of the last observation, and the excursions.
// The excursions stand oldest first; unused ones are zero. A probability is held
// as (events, trials).
type detectorState []float64

const (
	atSteps   = iota // steps seen
	atStart          // the step at which the running regime started
	atAge            // observations since, missing ones left out
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
	age              // observations since, missing ones left out
	ofSample
)

func (l detectorState) alive() int { return int(l[atAlive]) }

func (l detectorState) mean(at int) float64 { return l[at] / l[at+1] }

func (l detectorState) persistence() float64 { return math.Min(l.mean(atPersist), maxPersist) }

// starts are h_b and h_c at the next observation.
func (l detectorState) starts() (outliers, changes float64) {
	if l[atAge] <= 0 {
		return noStart, noStart
	}
	return l.mean(atOutlier), l.mean(atChange)
}

// learned is the prior probability that an outlier is of the class of earlier ones.
func (l detectorState) learned() float64 {
	return math.Max(minLearned, math.Min(maxLearned, l[atLearned]/(l[atNaive]+l[atLearned])))
}

// A detector runs the detection over states. It owns the scratch.
type detector struct {
	views     []view // the bank's
	first     int    // where the excursions begin in a state
	stride    int    // floats in an excursion, which has a sample of every view
	commit    float64
	minLength float64
	informed  expfam.Informed // the bank's model, where it is one
	line      expfam.Line
	rare      Model // with the reference prior; nil where the model isn't informed
	rareLine  expfam.Line
	scratch   []float64
	gains     [maxExcursions]float64 // log p(x|excursion) − log h(x)

	// Set by weigh:
	changes  float64 // h_c
	returned float64 // share of P, before the observation, that has returned from outliers
	single   float64 // the part of returned from excursions of length one
	learned  float64 // probability that an outlier starting now is of the outlier class
}

func newDetector(views []view, d Detect) *detector {
	if err := d.valid(); err != nil {
		panic("hafvf: detect." + err.Error())
	}
	d = d.withDefaults()
	model, last := views[0].model, views[len(views)-1]
	dr := &detector{
		views: views, first: detectorHead + 2*model.Len(), stride: last.at + last.model.Len(),
		commit: d.Commit, minLength: float64(d.MinLength),
		scratch: make([]float64, model.Len()),
	}
	dr.use(model)
	return dr
}

// use makes m the model that weighs excursions and outliers.
func (dr *detector) use(m Model) {
	dr.line, dr.informed, dr.rare, dr.rareLine = m.NewLine(), nil, nil, nil
	if i, ok := m.(expfam.Informed); ok {
		dr.informed, dr.rare = i, i.Reference()
		dr.rareLine = dr.rare.NewLine()
	}
}

// model is the bank's. It alone weighs excursions and outliers, whatever models
// the members have: excursions that take the last values lose changes on streams
// without autocorrelation.
func (dr *detector) model() Model { return dr.views[0].model }

// runsRare reports whether excursions from the running regime, whose sample is the
// last member's, have the reference prior.
func (dr *detector) runsRare(l detectorState, regime []float64) bool {
	return dr.informed != nil && l[atAge] >= oldest && dr.informed.Information(regime) < fullyInformed
}

// excursions is the model that predicts under an excursion from the running regime.
func (dr *detector) excursions(l detectorState, regime []float64) Model {
	if dr.runsRare(l, regime) {
		return dr.rare
	}
	return dr.model()
}

// DefaultDetect are the settings that zeros in a Detect stand for.
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

// sample is the sample that an excursion has for a view.
func (dr *detector) sample(excursion []float64, view int) []float64 {
	v := &dr.views[view]
	return excursion[v.at : v.at+len(v.stats)]
}

func (dr *detector) class(l detectorState) []float64 {
	return l[detectorHead : detectorHead+dr.model().Len()]
}

func (dr *detector) last(l detectorState) []float64 {
	n := dr.model().Len()
	return l[detectorHead+n : detectorHead+2*n]
}

func (dr *detector) excursion(l detectorState, j int) []float64 {
	at := dr.first + j*dr.stride
	return l[at : at+dr.stride]
}

func (dr *detector) init(l detectorState) {
	l[atStart], l[atAge], l[atStay] = 1, -1, 1
	l[atOutlier], l[atOutlier+1] = outlierMean*outlierStrength, outlierStrength
	l[atChange], l[atChange+1] = changeMean*changeStrength, changeStrength
	l[atPersist], l[atPersist+1] = persistMean*persistStrength, persistStrength
	l[atNaive], l[atLearned], l[atLastShare] = 1, 1, 0.5
}

// remove takes excursion j out.
func (dr *detector) remove(l detectorState, j int) {
	n := l.alive()
	from, end := dr.first+j*dr.stride, dr.first+n*dr.stride
	copy(l[from:end], l[from+dr.stride:end])
	clear(l[end-dr.stride : end])
	l[atAlive]--
}

// thin makes room for an excursion: it merges two neighbours, and the more
// probable one takes over the probabilities of the other. It takes the pair with
// the least product of the smaller probability and the time between the two,
// relative to their age.
func (dr *detector) thin(l detectorState) {
	least, lose, keep := math.Inf(1), 0, 0
	for j := range l.alive() - 1 {
		e, f := dr.excursion(l, j), dr.excursion(l, j+1)
		me, mf := e[outlier]+e[change], f[outlier]+f[change]
		if v := math.Min(me, mf) * (e[age] - f[age]) / (e[age] + 1); v < least {
			least = v
			lose, keep = j+1, j
			if me < mf {
				lose, keep = j, j+1
			}
		}
	}
	e, f := dr.excursion(l, keep), dr.excursion(l, lose)
	e[outlier] += f[outlier]
	e[change] += f[change]
	dr.remove(l, lose)
}

// weigh applies the transitions, lets an excursion start at the observation that
// the views have seen, and conditions the probabilities on it. stay is
// log p(x|stay) − log h(x), w the weight by which excursions forget before it, and
// regime the last member's sample.
// It returns log p(x|past) − log h(x).
func (dr *detector) weigh(l detectorState, stay, w float64, regime []float64) float64 {
	stats, line := dr.views[0].stats, dr.line
	if dr.runsRare(l, regime) {
		line = dr.rareLine
	}
	rho := l.persistence()
	outliers, changes := l.starts()
	dr.changes = changes
	l[atAge]++

	// The probabilities before the observation.
	returned, single := 0.0, 0.0
	for j := range l.alive() {
		e := dr.excursion(l, j)
		e[age]++
		r := (1 - rho) * e[outlier]
		returned += r
		if e[age] == 1 {
			single += r
		}
		e[outlier] *= rho
	}
	was := l[atStay]
	p := math.Max(was*(1-outliers-dr.changes)+returned, leastBefore)
	dr.returned, dr.single = returned/p, single/p

	if l.alive() == maxExcursions {
		dr.thin(l)
	}
	n := l.alive()
	for j := range n {
		line.Set(dr.sample(dr.excursion(l, j), 0), stats)
		dr.gains[j] = line.Gain(w)
	}
	naive, boost := dr.outlierGain(l, stats)
	e := dr.excursion(l, n)
	e[outlier], e[change] = was*outliers*special.Exp(boost), was*dr.changes
	e[startedAt] = l[atSteps]
	dr.gains[n] = naive
	l[atAlive]++

	// Bayes' rule, relative to the largest term.
	top := special.Log(p) + stay
	for j := range n + 1 {
		e := dr.excursion(l, j)
		top = math.Max(top, special.Log(e[outlier]+e[change])+dr.gains[j])
	}
	l[atStay] = special.Exp(special.Log(p) + stay - top)
	sum := l[atStay]
	for j := range n + 1 {
		// A probability may be as small as e^gain is large.
		e := dr.excursion(l, j)
		if m := e[outlier] + e[change]; m > 0 {
			now := special.Exp(special.Log(m) + dr.gains[j] - top)
			e[outlier] = now * (e[outlier] / m)
			e[change] = now * (e[change] / m)
		}
		sum += e[outlier] + e[change]
	}
	dr.rescale(l, 1/sum)
	return top + special.Log(sum)
}

// outlierGain is the log predictive density, less log h(x), of an observation that
// starts an outlier: naive under the naive prior, and naive + boost under the
// mixture of the naive prior and the class of earlier outliers.
func (dr *detector) outlierGain(l detectorState, stats []float64) (naive, boost float64) {
	dr.line.Set(dr.class(l), stats)
	naive = dr.line.Gain(0)
	ratio := dr.line.Gain(1) - naive
	v := l.learned()
	if ratio > 0 {
		rest := (1 - v) * special.Exp(-ratio)
		dr.learned = v / (v + rest)
		return naive, math.Min(ratio+special.Log(v+rest), maxBoost)
	}
	dr.learned = v * special.Exp(ratio) / (1 - v + v*special.Exp(ratio))
	return naive, math.Log1p(v * math.Expm1(ratio))
}

func (dr *detector) rescale(l detectorState, by float64) {
	l[atStay] *= by
	for j := range l.alive() {
		e := dr.excursion(l, j)
		e[outlier] *= by
		e[change] *= by
	}
}

// learn scales every excursion's samples by w and adds the observation that the
// views have seen. What returned from outliers, known one step late, updates h_b, ρ
// and the outlier class.
func (dr *detector) learn(l detectorState, w float64) {
	m := dr.model()
	goesOn := 0.0
	for j := range l.alive() {
		e := dr.excursion(l, j)
		for i := range dr.views {
			v := &dr.views[i]
			d := dr.sample(e, i)
			v.model.Scale(d, w)
			observe(v.model, d, v.rows, 1)
		}
		if e[age] > 0 {
			goesOn += e[outlier]
		}
	}
	stay := l[atStay]
	if g := stay * dr.single; g > 0 {
		keep := 1 - (1-classForgetting)*g
		m.Scale(dr.class(l), keep)
		copy(dr.scratch, dr.last(l))
		m.Scale(dr.scratch, g)
		m.Merge(dr.class(l), dr.scratch)
		l[atNaive] = 1 + keep*(l[atNaive]-1) + g*(1-l[atLastShare])
		l[atLearned] = 1 + keep*(l[atLearned]-1) + g*l[atLastShare]
	}
	l[atLastShare] = dr.learned
	copy(dr.last(l), dr.views[0].stats)
	returned := stay * dr.returned
	l[atOutlier] += returned
	l[atOutlier+1]++
	l[atChange+1]++
	l[atPersist] += goesOn
	l[atPersist+1] += goesOn + returned
}

// current reports the probabilities, and the start of the excursion that is most
// probably a change.
func (dr *detector) current(l detectorState) Hypotheses {
	d := Hypotheses{Kind: None, Stay: l[atStay], Age: int64(l[atSteps] - l[atStart])}
	most := -1.0
	for j := range l.alive() {
		e := dr.excursion(l, j)
		d.Outlier += e[outlier]
		d.Change += e[change]
		if e[change] > most {
			most, d.Start = e[change], int64(e[startedAt])
		}
	}
	if d.Outlier > 0.5 {
		d.Kind = Outlier
	}
	return d
}

// likeliest is the excursion that is most probably a change.
func (dr *detector) likeliest(l detectorState) []float64 {
	best := dr.excursion(l, 0)
	for j := range l.alive() {
		if e := dr.excursion(l, j); e[change] > best[change] {
			best = e
		}
	}
	return best
}

// decide gives the verdict on the step, where regime is the sample of the last member.
// Unless it is a change, excursions that are too improbable or too old are dropped.
func (dr *detector) decide(l detectorState, regime []float64) Hypotheses {
	d := dr.current(l)
	e := dr.likeliest(l)
	// Prior odds above the initial ones do not count: otherwise every change would
	// make the next one easier.
	rest := (d.Stay + d.Outlier) * math.Max(1, dr.changes/changeMean)
	if d.Change > dr.commit*(d.Change+rest) && e[age] < l[atAge] && e[age]+1 >= dr.minLength {
		d.Kind, d.Delay = Change, int64(l[atSteps]-e[startedAt])
		if l[atStart] > 1 && l[atAge]-e[age] < revisable {
			d.Kind = Revision
		} else {
			l[atChange]++
			l[atStart], l[atAge] = e[startedAt], e[age]
		}
		return d
	}
	dropped, known := false, 1.
	if dr.informed != nil {
		known = dr.informed.Information(regime) / fullyInformed
		known = math.Max(leastInformed, math.Min(1, known*known))
	}
	for j := l.alive() - 1; j >= 0; j-- {
		e := dr.excursion(l, j)
		if e[outlier]+e[change] <= negligible*known || e[age]*known >= oldest {
			dr.remove(l, j)
			dropped = true
		}
	}
	if dropped {
		l[atStay] = math.Max(l[atStay], leastStay)
		sum := l[atStay]
		for j := range l.alive() {
			e := dr.excursion(l, j)
			sum += e[outlier] + e[change]
		}
		dr.rescale(l, 1/sum)
	}
	return d
}

// clear ends all excursions.
func (dr *detector) clear(l detectorState) {
	clear(l[dr.first:])
	l[atAlive], l[atStay] = 0, 1
}

// valid says why l, whose entries are finite, is not a state of the detection.
func (dr *detector) valid(l detectorState) error {
	corrupt := errors.New("state is corrupt: detection")
	whole := func(v, least, most float64) bool { return v == math.Trunc(v) && v >= least && v <= most }
	if !whole(l[atSteps], 0, expfam.MaxCount) || !whole(l[atStart], 1, math.Max(l[atSteps], 1)) ||
		!whole(l[atAge], -1, l[atSteps]-1) || !whole(l[atAlive], 0, maxExcursions) {
		return corrupt
	}
	for _, at := range [...]int{atOutlier, atChange, atPersist} {
		if !(l[at] > 0 && l[at] <= l[at+1]) {
			return corrupt
		}
	}
	if !(l[atNaive] >= 1 && l[atLearned] >= 1 && l[atLastShare] >= 0 && l[atLastShare] <= 1) ||
		dr.model().Memory(dr.class(l)) < 0 || dr.model().Memory(dr.last(l)) < 0 {
		return corrupt
	}
	sum, older := l[atStay], l[atAge]+1
	if sum < 0 {
		return corrupt
	}
	for j := range maxExcursions {
		e := dr.excursion(l, j)
		if j >= l.alive() {
			if !linear.Zeros(e) {
				return corrupt
			}
			continue
		}
		if !(e[outlier] >= 0 && e[change] >= 0) || !whole(e[startedAt], 1, l[atSteps]) || !whole(e[age], 0, older-1) {
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
