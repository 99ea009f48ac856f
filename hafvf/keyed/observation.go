package keyed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/hafvf/expfam"
)

// Shape is the form in which the value of an observation was written. Output uses the same form.
type Shape uint8

const (
	Scalar Shape = iota // one number
	Vector              // one vector
	List                // a list of vectors: J observations of one step
	// Forget marks a request to delete the key and all its state. The observation has neither time nor value.
	Forget
)

// An Observation is one step of a key: its values at one time.
type Observation struct {
	// Time is the event time. The zero Time means no time, which the order EventTime rejects.
	Time time.Time
	// Trial is the number of the observation in its session, in the order Trials.
	Trial int64
	// Session distinguishes sessions of a key in orders without times. It may be empty.
	Session string
	// ID identifies the observation for users. It is part of the estimate and must be deterministic, so that
	// repeated output can be recognised.
	ID string
	// Seq is the position of the observation in its source. It orders observations of a key at equal times. Equal
	// Seq keep their order of arrival, if the runner preserves one.
	Seq int64
	// Log names the log in which Seq is a position; empty if the source is not a log. Positions in a log increase: a
	// KeyState skips an observation if it includes the same or a later position of the log.
	Log string
	// LogTime is the time that the log had reached before this observation, if it is later than Time; else zero.
	// Config.Expire uses it, see KeyState.Expiry.
	LogTime time.Time
	// X holds the J vectors of the step. A vector that contains NaN is missing. An observation without a complete
	// vector is a missing observation.
	X [][]float64
	// Shape is the form in which X was written.
	Shape Shape
	// Aggregated reports that the observation summarises an interval, of Events events.
	Aggregated bool
	Events     int64
	// Falls describes the falls of a counter in the interval; nil if there are none. It is used for statistics, and
	// no state stores it.
	Falls *CounterFalls
	// Partial reports that the input ended inside the interval, or that a counter fell and at least a quarter of
	// its increase may be wrong. A partial observation raises no alarm, because its low value means nothing.
	Partial bool
	// Index is a number that the caller gives the observation. It stays while the observation waits; no state stores it.
	Index int64
	// OutOfDomain marks an observation that the caller must pass to KeyState.OutOfDomain.
	OutOfDomain bool
	// ExtraFields is a JSON object with the other fields of the source record; it may be empty.
	ExtraFields string
	// Raw is the input record of the observation, to be written if the observation is rejected. It may be empty.
	Raw string
}

// Clone returns a copy that does not share X.
func (o *Observation) Clone() Observation {
	c := *o
	c.X = slices.Clone(o.X)
	for i, x := range c.X {
		c.X[i] = slices.Clone(x)
	}
	return c
}

// A Point is the position of an observation in its session: a time or, in orders without times, a trial.
type Point struct {
	Time  time.Time
	Trial int64
}

func (o *Observation) Point() Point { return Point{o.Time, o.Trial} }

// Compare orders the points of one session.
func (p Point) Compare(other Point) int {
	return cmp.Or(p.Time.Compare(other.Time), cmp.Compare(p.Trial, other.Trial))
}

// Compare orders observations by their points, and equal points by Seq.
func (o Observation) Compare(other Observation) int {
	return cmp.Or(o.Point().Compare(other.Point()), cmp.Compare(o.Seq, other.Seq))
}

// Value returns an observation of one number. NaN means that the number is missing.
func Value(t time.Time, id string, x float64) Observation {
	return Observation{Time: t, ID: id, X: [][]float64{{x}}}
}

// An Estimate is the filter's prediction of one observation, and its posterior after it. Numbers that do not apply
// or are undefined are NaN; infinite numbers are ±Inf.
type Estimate struct {
	Time time.Time
	ID   string
	N    int64 // position among the key's observations, from 1
	X    [][]float64
	Shape
	Aggregated  bool
	Events      int64
	Falls       *CounterFalls // of the observation; not encoded with the estimate
	ExtraFields string        // of the observation

	// Predicted is the predicted mean and standard deviation of one observation, before X, with the weight at its
	// prior mean. For the family normal with detection, Predicted, the interval and LogPredictive also depend on
	// the size of recent deviations.
	Predicted Moments
	// Lower and Upper bound the central predictive interval before X, one entry per output. They are nil without
	// Config.Interval.
	Lower, Upper []float64
	// Estimate is the mean and standard deviation of the likelihood's mean after X.
	Estimate Moments

	LogPredictive float64 // nats, joint over the step

	// Values of the filter; in a bank, of the member with the largest share:
	ELBO   float64 // nats
	Weight float64 // E[w]
	Memory float64 // θ^η − θ₀^η
	// LearningRate is this observation's part of Memory and the prior's memory together: the step size with which
	// it moved the estimate, see hafvf.Filter.LearningRate. For a bank it is the mean of the members' rates,
	// weighted by their shares after the observation.
	LearningRate float64
	Levels       []float64 // alpha, beta of every level, bottom up
	Posterior    []float64 // in the order of the model's Params; nil with Config.OmitPosterior
	Iterations   int
	Converged    bool

	Silence *Silence // silence of the key that this observation ended; nil if there was none
	Missing bool
	// Quiet reports that the observation is in a QuietTime, and counts as missing.
	Quiet bool
	// SkipReason is the reason why the observation was not learned; empty if it was learned. The state of the key
	// is then unchanged, and the numbers of the estimate are NaN.
	SkipReason string
	// Panic is the cause of SkipReason if the mathematics of the key panicked; else nil.
	Panic *PanicError
	// Reset reports that the key was reset before this observation, because it could not learn the previous ones.
	Reset  bool
	WarmUp bool         // the observation is in the warm-up, which sets the prior
	Bank   []MemberStep // one entry per member; nil without a bank

	// With detection:
	Detection *Detection
	Regime    Moments // of the likelihood's mean, for the running regime alone
	Alarm     *Alert  // nil if the observation raised no alarm
	Belief    *Alert  // alert requested by AlertConfig.Beliefs; nil if there is none
	// Recovered is the end of an episode; nil if none ended, or if a FalseMark suppressed its reports.
	Recovered *EndedAlarm
	// Pace is the pace of the key, for consumers that compare the alarms of many keys. It is set when the warm-up
	// ends, with every alarm, and if N is a power of two; else it is zero.
	Pace Pace
}

// An EndedAlarm is the end of an episode.
type EndedAlarm struct {
	ID string // of the onset
	*Alert
}

// A Pace is the median step of a key's observations, and how often the key may raise an alarm.
type Pace struct {
	Step   time.Duration // median step of the warm-up
	Budget time.Duration // time per alarm
}

// A MemberStep describes one step of a filter in a bank.
type MemberStep struct {
	Share         float64 // posterior weight of the filter in the bank after the step
	Weight        float64 // E[w]
	Memory        float64 // θ^η − θ₀^η
	LogPredictive float64 // nats
}

// Moments are means and standard deviations, one entry per output of the model.
type Moments struct{ Mean, SD []float64 }

// A Rejected is an observation that could not be used.
type Rejected struct {
	Key string
	Observation
	Reason string
	Reset  bool        // the key was reset; there is no observation
	Panic  *PanicError // the cause if the mathematics of the key panicked; else nil
}

// unknown returns moments that are all NaN.
func unknown(outputs int) Moments {
	nan := []float64{math.NaN()}
	return Moments{slices.Repeat(nan, outputs), slices.Repeat(nan, outputs)}
}

// complete returns the vectors of a step that are not missing.
func complete(step [][]float64) (xs [][]float64) {
	for _, x := range step {
		if !slices.ContainsFunc(x, math.IsNaN) {
			xs = append(xs, x)
		}
	}
	return xs
}

// withoutEmptyTrials returns the step with each vector of no trials replaced by a missing one. It returns step
// itself if there is nothing to replace, or if the model m counts no trials.
func withoutEmptyTrials(m expfam.Model, step [][]float64) [][]float64 {
	counted, ok := m.(expfam.Counted)
	if !ok {
		return step
	}
	empty := func(x []float64) bool { return len(x) == m.Dim() && counted.Trials(x) == 0 }
	if !slices.ContainsFunc(step, empty) {
		return step
	}
	step = slices.Clone(step)
	for i, x := range step {
		if empty(x) {
			step[i] = []float64{math.NaN()}
		}
	}
	return step
}

// A Memory provides the slices of estimates, so that an estimate needs no allocations. The zero value is ready for
// use.
type Memory struct {
	floats    []float64
	bank      []MemberStep
	detection *Detection
	due       Observation // that KeyState.ProcessDue learns
	out       Estimate    // of KeyState.Process and ProcessDue
}

// reset makes the memory available to the next estimate.
func (m *Memory) reset() { m.floats = m.floats[:0] }

// alloc returns n floats, valid until reset. Their content is undefined.
func (m *Memory) alloc(n int) []float64 {
	if len(m.floats)+n > cap(m.floats) {
		m.floats = make([]float64, 0, n+2*cap(m.floats)) // slices of the old array are still in use
	}
	start := len(m.floats)
	m.floats = m.floats[:start+n]
	return m.floats[start : start+n : start+n]
}

func (m *Memory) detectionBuffer() *Detection {
	if m.detection == nil {
		m.detection = &Detection{}
	}
	return m.detection
}

// vectorCopies copies vectors into memory that it reuses.
type vectorCopies struct {
	flat []float64
	rows [][]float64
}

// copy returns copies of the vectors, each with prefix in front. They are valid until the next call.
func (c *vectorCopies) copy(xs [][]float64, prefix ...float64) [][]float64 {
	c.flat, c.rows = c.flat[:0], c.rows[:0]
	for _, x := range xs {
		c.flat = append(append(c.flat, prefix...), x...)
	}
	slice := slicer(c.flat)
	for _, x := range xs {
		c.rows = append(c.rows, slice(len(prefix)+len(x)))
	}
	return c.rows
}

// slicer returns a function that cuts slices of length n off floats, so that the slices of a record share one
// allocation.
func slicer(floats []float64) func(n int) []float64 {
	return func(n int) []float64 {
		v := floats[:n:n]
		floats = floats[n:]
		return v
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Order is the order in which a key's observations are learned.
type Order string

const (
	// EventTime releases an observation when its key has seen a time Lateness later, the watermark has passed its
	// time plus Lateness, or the input has ended. An observation earlier than a released one is rejected as late.
	// Equal times keep their order of arrival.
	EventTime Order = "event_time"
	// Arrival learns observations in the order in which they arrive.
	Arrival Order = "arrival"
	// Trials, for smoothing only, orders observations by Trial.
	Trials Order = "trials"
)

// CheckTimes returns an error unless the order uses the times of observations.
func (o Order) CheckTimes() error {
	if o != EventTime {
		return fmt.Errorf("needs the times of records: order must be %s", EventTime)
	}
	return nil
}

// A regime holds the running regime before an observation: mean and sd of its mean, and mean and sd of one
// observation. See stages.regimeBefore.
type regime struct {
	estimate              Moments
	predicted, predictive []float64
}
