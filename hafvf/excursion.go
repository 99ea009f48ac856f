package hafvf

import (
	"errors"
	"fmt"
	"math"
)

// Detect are the settings of detection; the zero value is the default.
//
// The weight of memory alone tells outliers and changes badly apart: both make
// the filter forget. Detection leaves the bank as it is while something odd goes
// on. The bank is the hypothesis "stay", of probability P; against it stand up
// to eight excursions, each a posterior grown from the naive prior since the
// observation at which it started, with two masses: that of an accident, an
// outlier or a short burst, after which the stream returns to the bank, and that
// of a lasting change. Their probabilities are filtered by what each hypothesis
// predicts:
//
//	stay      → an accident, with probability h_b, or a change, with h_c, starts
//	accident  → goes on with probability ρ, else returns to stay
//	change    → lasts
//
// The bank learns an observation with the weight P, so that what happens in an
// excursion leaves its memory alone: T(x) counts P times, and a filter with levels
// learns about its forgetting only where P is above one half. An excursion whose
// change becomes all but certain takes the bank's place: every member goes on from
// its sample, with the levels it had. h_b, h_c, ρ, and what accidents look like,
// are learned along the way.
//
// A new regime is compared with the naive prior, which therefore has to be of the
// scale of the data. Observations that depend on each other beyond what the model
// says, such as those of an autocorrelated stream, look like changes.
type Detect struct {
	// Commit is the probability above which a change is taken for certain, in
	// (0, 1); zero stands for 0.95. Where changes turn out to be frequent, it
	// takes more: their prior odds beyond 1 in 1000 count nothing.
	Commit float64 `json:"commit,omitempty"`
	// MinLength is the number of observations a new regime has to have before it
	// is committed to, so that shorter bursts count as outliers; zero stands for 5.
	MinLength int `json:"min_length,omitempty"`
}

// Settings that aren't the user's. A strength is a number of observations; the
// probabilities start at the means given, and are learned.
const (
	maxExcursions = 8

	accidentMean, accidentStrength = 0.01, 200.  // h_b
	changeMean, changeStrength     = 1e-3, 2000. // h_c
	persistMean, persistStrength   = 0.4, 20.    // ρ
	maxPersist                     = 0.5
	noStart                        = 1e-12 // h_b and h_c at the first two observations, which say nothing yet

	classForgetting = 0.99 // per accident, of what accidents look like
	minLearned      = 0.1  // bounds of the share of the learned class
	maxLearned      = 0.9
	maxBoost        = 50. // nats by which the learned class may surpass the naive prior
	negligible      = 1e-4
	oldest          = 200 // observations after which an excursion is dropped
	leastStay       = 1e-12
	leastBefore     = 1e-280 // of P before an observation
	revisable       = 20     // observations between changes, below which the later corrects the earlier
)

// A Kind is what detection says of a step.
type Kind string

const (
	None     Kind = "none"
	Outlier  Kind = "outlier"  // an accident is more probable than all else
	Change   Kind = "change"   // a new regime starts
	Revision Kind = "revision" // the regime just started, started later
)

// A Detection is what detection says after a step, in probabilities that sum to
// one, before a change resets them.
type Detection struct {
	Kind                  Kind
	Stay, Outlier, Change float64
	// Start is the first step, from 1, of the new regime, or of what would be one:
	// the excursion that is most probably a change; 0 where there is none. Missing
	// observations count as steps.
	Start int64
	Delay int64 // steps from Start to this one; 0 unless the regime starts
	Age   int64 // steps since the start of the regime that ran before this one
}

// Odds are the log odds, in nats, of an accident where the step is an Outlier, and
// otherwise of a change.
func (d Detection) Odds() float64 {
	p, rest := d.Change, d.Stay+d.Outlier
	if d.Kind == Outlier {
		p, rest = d.Outlier, d.Stay+d.Change
	}
	const least = 1e-300
	return math.Log(p+least) - math.Log(rest+least)
}

// Starts reports whether the bank has taken up a new regime.
func (d Detection) Starts() bool { return d.Kind == Change || d.Kind == Revision }

// A layerState is the detection's part of a state: the head below, the sample of
// the learned class of accidents, the statistics of the last observation, and
// the excursions, oldest first, those that aren't alive zero. The prior of a
// probability is held as (events, trials).
type layerState []float64

const (
	atSteps    = iota // steps seen
	atStart           // the step at which the running regime started
	atAge             // observations since, missing ones left out
	atStay            // P
	atAlive           // number of excursions
	atAccident        // h_b
	_
	atChange // h_c
	_
	atPersist // ρ
	_
	atNaive     // accidents from the naive prior
	atLearned   // accidents from the learned class
	atLastShare // probability that the last accident to start was of the learned class
	layerHead
)

// The entries of an excursion, before its sample.
const (
	accident  = iota // mass b
	lasting          // mass c
	startedAt        // step
	age              // observations since, missing ones left out
	ofSample
)

func (l layerState) alive() int { return int(l[atAlive]) }

func (l layerState) mean(at int) float64 { return l[at] / l[at+1] }

func (l layerState) persistence() float64 { return math.Min(l.mean(atPersist), maxPersist) }

// layer runs the detection over states. It owns the scratch.
type layer struct {
	model     Model
	commit    float64
	minLength float64
	line      Line
	scratch   []float64
	gains     [maxExcursions]float64 // log p(x|excursion) − log h(x)

	// Of the last weigh:
	changes  float64 // h_c
	returned float64 // share of what has returned in P before the observation
	single   float64 // of what has returned from excursions of length one
	learned  float64 // probability that an accident starting now is of the learned class
}

func newLayer(model Model, d Detect) *layer {
	if d.Commit == 0 {
		d.Commit = 0.95
	}
	if d.MinLength == 0 {
		d.MinLength = 5
	}
	if err := d.valid(); err != nil {
		panic("hafvf: detect." + err.Error())
	}
	return &layer{
		model: model, commit: d.Commit, minLength: float64(d.MinLength),
		line: model.NewLine(), scratch: make([]float64, model.Len()),
	}
}

func (d Detect) valid() error {
	if !(d.Commit >= 0 && d.Commit < 1) {
		return fmt.Errorf("commit: %g is outside (0, 1)", d.Commit)
	}
	if d.MinLength < 0 {
		return fmt.Errorf("min_length: %d is below zero", d.MinLength)
	}
	return nil
}

func (y *layer) size() int {
	return layerHead + 2*y.model.Len() + maxExcursions*y.stride()
}

func (y *layer) stride() int { return ofSample + y.model.Len() }

func (y *layer) class(l layerState) []float64 {
	return l[layerHead : layerHead+y.model.Len()]
}

func (y *layer) last(l layerState) []float64 {
	n := y.model.Len()
	return l[layerHead+n : layerHead+2*n]
}

func (y *layer) excursion(l layerState, j int) []float64 {
	at := layerHead + 2*y.model.Len() + j*y.stride()
	return l[at : at+y.stride()]
}

func (y *layer) init(l layerState) {
	l[atStart], l[atAge], l[atStay] = 1, -1, 1
	l[atAccident], l[atAccident+1] = accidentMean*accidentStrength, accidentStrength
	l[atChange], l[atChange+1] = changeMean*changeStrength, changeStrength
	l[atPersist], l[atPersist+1] = persistMean*persistStrength, persistStrength
	l[atNaive], l[atLearned], l[atLastShare] = 1, 1, 0.5
}

// remove takes excursion j out.
func (y *layer) remove(l layerState, j int) {
	n := l.alive()
	from := layerHead + 2*y.model.Len() + j*y.stride()
	end := layerHead + 2*y.model.Len() + n*y.stride()
	copy(l[from:end], l[from+y.stride():end])
	clear(l[end-y.stride() : end])
	l[atAlive]--
}

// thin merges the two neighbours of which one has least mass for the time
// between them, relative to how long ago that was: the heavier takes over the
// other's masses.
func (y *layer) thin(l layerState) {
	least, lose, keep := math.Inf(1), 0, 0
	for j := range l.alive() - 1 {
		e, f := y.excursion(l, j), y.excursion(l, j+1)
		me, mf := e[accident]+e[lasting], f[accident]+f[lasting]
		if v := math.Min(me, mf) * (e[age] - f[age]) / (e[age] + 1); v < least {
			least = v
			lose, keep = j+1, j
			if me < mf {
				lose, keep = j, j+1
			}
		}
	}
	e, f := y.excursion(l, keep), y.excursion(l, lose)
	e[accident] += f[accident]
	e[lasting] += f[lasting]
	y.remove(l, lose)
}

// weigh moves the masses to the next observation, of the statistics stats, lets
// an excursion start there, and conditions the masses on the observation. stay
// is log p(x|stay) − log h(x), w the weight by which excursions are forgotten
// before it. It returns log p(x|past) − log h(x).
func (y *layer) weigh(l layerState, stats []float64, stay, w float64) float64 {
	l[atAge]++
	accidents, rho := l.mean(atAccident), l.persistence()
	y.changes = l.mean(atChange)
	if l[atAge] <= 1 {
		accidents, y.changes = noStart, noStart
	}

	// The masses before the observation.
	returned, single := 0.0, 0.0
	for j := range l.alive() {
		e := y.excursion(l, j)
		e[age]++
		r := (1 - rho) * e[accident]
		returned += r
		if e[age] == 1 {
			single += r
		}
		e[accident] *= rho
	}
	was := l[atStay]
	p := math.Max(was*(1-accidents-y.changes)+returned, leastBefore)
	y.returned, y.single = returned/p, single/p

	if l.alive() == maxExcursions {
		y.thin(l)
	}
	n := l.alive()
	for j := range n {
		y.line.Set(y.excursion(l, j)[ofSample:], stats)
		y.gains[j] = y.line.Gain(w)
	}
	naive, boost := y.accident(l, stats)
	e := y.excursion(l, n)
	e[accident], e[lasting] = was*accidents*math.Exp(boost), was*y.changes
	e[startedAt] = l[atSteps]
	y.gains[n] = naive
	l[atAlive]++

	// Bayes' rule, relative to the largest term.
	top := math.Log(p) + stay
	for j := range n + 1 {
		e := y.excursion(l, j)
		top = math.Max(top, math.Log(e[accident]+e[lasting])+y.gains[j])
	}
	l[atStay] = math.Exp(math.Log(p) + stay - top)
	sum := l[atStay]
	for j := range n + 1 {
		// The masses may be as small as e^gain is large.
		e := y.excursion(l, j)
		if m := e[accident] + e[lasting]; m > 0 {
			now := math.Exp(math.Log(m) + y.gains[j] - top)
			e[accident] = now * (e[accident] / m)
			e[lasting] = now * (e[lasting] / m)
		}
		sum += e[accident] + e[lasting]
	}
	y.rescale(l, 1/sum)
	return top + math.Log(sum)
}

// accident predicts the start of an accident: by the naive prior, whose log
// density less log h(x) is naive, and by what accidents have looked like before;
// boost is what this mixture adds.
func (y *layer) accident(l layerState, stats []float64) (naive, boost float64) {
	y.line.Set(y.class(l), stats)
	naive = y.line.Gain(0)
	ratio := y.line.Gain(1) - naive
	v := l[atLearned] / (l[atNaive] + l[atLearned])
	v = math.Max(minLearned, math.Min(maxLearned, v))
	if ratio > 0 {
		rest := (1 - v) * math.Exp(-ratio)
		y.learned = v / (v + rest)
		return naive, math.Min(ratio+math.Log(v+rest), maxBoost)
	}
	y.learned = v * math.Exp(ratio) / (1 - v + v*math.Exp(ratio))
	return naive, math.Log1p(v * math.Expm1(ratio))
}

func (y *layer) rescale(l layerState, by float64) {
	l[atStay] *= by
	for j := range l.alive() {
		e := y.excursion(l, j)
		e[accident] *= by
		e[lasting] *= by
	}
}

// learn forgets in every excursion by w, and teaches it the rows, of the
// statistics stats; what has returned, one step late, teaches the probabilities
// and what accidents look like.
func (y *layer) learn(l layerState, rows [][]float64, stats []float64, w float64) {
	m := y.model
	goesOn := 0.0
	for j := range l.alive() {
		e := y.excursion(l, j)
		m.Scale(e[ofSample:], w)
		observe(m, e[ofSample:], rows, 1)
		if e[age] > 0 {
			goesOn += e[accident]
		}
	}
	stay := l[atStay]
	if g := stay * y.single; g > 0 {
		keep := 1 - (1-classForgetting)*g
		m.Scale(y.class(l), keep)
		copy(y.scratch, y.last(l))
		m.Scale(y.scratch, g)
		m.Merge(y.class(l), y.scratch)
		l[atNaive] = 1 + keep*(l[atNaive]-1) + g*(1-l[atLastShare])
		l[atLearned] = 1 + keep*(l[atLearned]-1) + g*l[atLastShare]
	}
	l[atLastShare] = y.learned
	copy(y.last(l), stats)
	returned := stay * y.returned
	l[atAccident] += returned
	l[atAccident+1]++
	l[atChange+1]++
	l[atPersist] += goesOn
	l[atPersist+1] += goesOn + returned
}

// current is what the masses say, with the excursion that is most probably a
// change as its start.
func (y *layer) current(l layerState) Detection {
	d := Detection{Kind: None, Stay: l[atStay], Age: int64(l[atSteps] - l[atStart])}
	most := -1.0
	for j := range l.alive() {
		e := y.excursion(l, j)
		d.Outlier += e[accident]
		d.Change += e[lasting]
		if e[lasting] > most {
			most, d.Start = e[lasting], int64(e[startedAt])
		}
	}
	if d.Outlier > 0.5 {
		d.Kind = Outlier
	}
	return d
}

// likeliest is the excursion that is most probably a change.
func (y *layer) likeliest(l layerState) []float64 {
	best := y.excursion(l, 0)
	for j := range l.alive() {
		if e := y.excursion(l, j); e[lasting] > best[lasting] {
			best = e
		}
	}
	return best
}

// decide says what the step was. Unless a regime starts, it drops excursions
// that don't matter.
func (y *layer) decide(l layerState) Detection {
	d := y.current(l)
	e := y.likeliest(l)
	// Prior odds beyond those at the start count nothing: a stream that changes
	// often would get ever easier to convince.
	rest := (d.Stay + d.Outlier) * math.Max(1, y.changes/changeMean)
	if d.Change > y.commit*(d.Change+rest) && e[age] < l[atAge] && e[age]+1 >= y.minLength {
		d.Kind, d.Delay = Change, int64(l[atSteps]-e[startedAt])
		if l[atStart] > 1 && l[atAge]-e[age] < revisable {
			d.Kind = Revision
		} else {
			l[atChange]++
			l[atStart], l[atAge] = e[startedAt], e[age]
		}
		return d
	}
	dropped := false
	for j := l.alive() - 1; j >= 0; j-- {
		if e := y.excursion(l, j); e[accident]+e[lasting] <= negligible || e[age] >= oldest {
			y.remove(l, j)
			dropped = true
		}
	}
	if dropped {
		l[atStay] = math.Max(l[atStay], leastStay)
		sum := l[atStay]
		for j := range l.alive() {
			e := y.excursion(l, j)
			sum += e[accident] + e[lasting]
		}
		y.rescale(l, 1/sum)
	}
	return d
}

// clear ends all excursions.
func (y *layer) clear(l layerState) {
	for l.alive() > 0 {
		y.remove(l, l.alive()-1)
	}
	l[atStay] = 1
}

// valid says why l, whose entries are finite, is not a state of the detection.
func (y *layer) valid(l layerState) error {
	corrupt := errors.New("state is corrupt: detection")
	whole := func(v, least, most float64) bool { return v == math.Trunc(v) && v >= least && v <= most }
	if !whole(l[atSteps], 0, maxCount) || !whole(l[atStart], 1, math.Max(l[atSteps], 1)) ||
		!whole(l[atAge], -1, l[atSteps]-1) || !whole(l[atAlive], 0, maxExcursions) {
		return corrupt
	}
	for _, at := range [...]int{atAccident, atChange, atPersist} {
		if !(l[at] > 0 && l[at] <= l[at+1]) {
			return corrupt
		}
	}
	if !(l[atNaive] >= 1 && l[atLearned] >= 1 && l[atLastShare] >= 0 && l[atLastShare] <= 1) ||
		y.model.Memory(y.class(l)) < 0 || y.model.Memory(y.last(l)) < 0 {
		return corrupt
	}
	sum, older := l[atStay], l[atAge]+1
	if sum < 0 {
		return corrupt
	}
	for j := range maxExcursions {
		e := y.excursion(l, j)
		if j >= l.alive() {
			for _, v := range e {
				if v != 0 {
					return corrupt
				}
			}
			continue
		}
		if !(e[accident] >= 0 && e[lasting] >= 0) || !whole(e[startedAt], 1, l[atSteps]) ||
			!whole(e[age], 0, older-1) || y.model.Memory(e[ofSample:]) < 0 {
			return corrupt
		}
		older = e[age]
		sum += e[accident] + e[lasting]
	}
	if math.Abs(sum-1) > 1e-6 {
		return corrupt
	}
	return nil
}
