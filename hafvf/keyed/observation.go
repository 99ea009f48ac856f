package keyed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/hafvf/expfam"
)

// Shape says how the value of an observation was written, so that it can go out
// as it came in.
type Shape uint8

const (
	Scalar Shape = iota // one number
	Vector              // one vector
	List                // a list of vectors: J observations of one step
	// Forget is no form. The observation has neither time nor value: its key is to be forgotten,
	// with all that is known of it.
	Forget
)

// An Observation is what one entity showed at one time.
type Observation struct {
	// Time is the event time; the zero Time means that there is none, which
	// the order EventTime does not accept.
	Time time.Time
	// Trial is the number of the observation in its session, where that goes by Trials.
	Trial int64
	// Session tells sessions without times of one key apart. It may be empty.
	Session string
	// ID names the observation to the outside, deterministically: it goes into
	// the estimate and makes repeated output recognisable.
	ID string
	// Seq orders observations of a key at equal times: their place in the source.
	// Where it is equal too, the order of arrival holds, as far as the runner
	// keeps one.
	Seq int64
	// Log names the log in which Seq is a position, where the source is one. The
	// positions of a log grow: a KeyState skips an observation if it includes its
	// position or a later one. It may be empty.
	Log string
	// LogTime is the time that its log had passed before it, if that is later than Time; zero
	// otherwise. Config.Expire counts by it: see KeyState.Expiry.
	LogTime time.Time
	// X holds the J vectors of the step. A vector with a NaN in it is missing; an
	// observation without another vector is a missing observation.
	X [][]float64
	// Shape is the form in which X was given.
	Shape Shape
	// Aggregated reports that the observation is that of an interval, which had so many Events.
	Aggregated bool
	Events     int64
	// Falls are those of a counter in the interval, nil if there are none. They are for counts, and in no state.
	Falls *CounterFalls
	// Partial reports that the input ended before the interval, or that a counter has fallen and at
	// least a quarter of its increase may be wrong. It raises no alarm: that there is less in it
	// means nothing.
	Partial bool
	// OutOfDomain marks an observation for KeyState.OutOfDomain, on its way to that.
	OutOfDomain bool
	// Carried is a JSON object of what else the source had beside the value, or empty.
	Carried string
	// Raw is the input that the observation was read from, for the record of its
	// rejection. It may be empty.
	Raw string
}

// Clone returns a copy with an X of its own.
func (o *Observation) Clone() Observation {
	c := *o
	c.X = slices.Clone(o.X)
	for i, x := range c.X {
		c.X[i] = slices.Clone(x)
	}
	return c
}

// A Point is where an observation stands in its session: at a time or, where there are none, at a
// trial.
type Point struct {
	Time  time.Time
	Trial int64
}

// Point returns the point of the observation.
func (o *Observation) Point() Point { return Point{o.Time, o.Trial} }

// Compare orders points of one session.
func (p Point) Compare(other Point) int {
	return cmp.Or(p.Time.Compare(other.Time), cmp.Compare(p.Trial, other.Trial))
}

// Compare orders observations by their points in the session and then in the source.
func (o Observation) Compare(other Observation) int {
	return cmp.Or(o.Point().Compare(other.Point()), cmp.Compare(o.Seq, other.Seq))
}

// Value is an observation of one number; NaN stands for a missing one.
func Value(t time.Time, id string, x float64) Observation {
	return Observation{Time: t, ID: id, X: [][]float64{{x}}}
}

// An Estimate is the filter's prediction of one observation and its posterior after
// it. Numbers that do not apply or are undefined are NaN; infinite ones are ±Inf.
type Estimate struct {
	Time time.Time
	ID   string
	N    int64 // position among the key's observations, from 1
	X    [][]float64
	Shape
	Aggregated bool
	Events     int64
	Falls      *CounterFalls // those of the observation, in no encoded estimate
	Carried    string        // that of the observation

	// Predicted is mean and standard deviation of one observation, before X was
	// seen and with the weight at its prior mean. Of the family normal with detection it, the
	// interval and LogPredictive also go by how far values have been off of late.
	Predicted Moments
	// Lower and Upper bound the central predictive interval before X was seen, one
	// entry per output; nil without Config.Interval.
	Lower, Upper []float64
	// Estimate is mean and standard deviation of the likelihood's mean after X.
	Estimate Moments

	LogPredictive float64 // nats, joint over the step

	// Of the filter; in a bank, of the member with the largest share:
	ELBO   float64 // nats
	Weight float64 // E[w]
	Memory float64 // θ^η − θ₀^η
	// LearningRate is the share of Memory, with that of the prior, that this observation has added: the
	// step with which it moved the estimate, see hafvf.Filter.LearningRate. Of a bank it is the mean of the
	// members', by their shares after the observation.
	LearningRate float64
	Levels       []float64 // alpha, beta of every level, bottom up
	Posterior    []float64 // as the model's Params describe it; nil with Config.Brief
	Iterations   int
	Converged    bool

	Silence *Silence // of the key, which this observation ends; nil where there was none
	Missing bool
	// Quiet says that the observation is of a QuietTime, and counts as missing.
	Quiet bool
	// SkipReason says why the observation was not learned: its key is as before, and the numbers
	// of the estimate are NaN. It is empty if the observation was learned.
	SkipReason string
	// Panic is the reason where the mathematics of the key panicked; else nil.
	Panic *PanicError
	// Reset reports that the key began anew with this observation, because it could not learn
	// those before.
	Reset  bool
	WarmUp bool         // the first observations are still setting the prior
	Bank   []MemberStep // where a bank is configured

	// With detection:
	Detection *Detection
	Regime    Moments // of the likelihood's mean in the running regime alone
	Alarm     *Alert  // the decision; nil where there is none
	Belief    *Alert  // what AlertConfig.Beliefs asks for; nil where there is nothing to tell
	// Recovered is the end of an alarm that has lasted, see AlarmConfig.Lasting. It is nil where none
	// has ended.
	Recovered *EndedAlarm
	// Pace is that of the key, for those who look at the alarms of many keys. It is there when the
	// warm-up ends, with every alarm, and where N is a power of two; else zero.
	Pace Pace
}

// An EndedAlarm is the end of an alarm that has lasted.
type EndedAlarm struct {
	ID string // of the alarm
	*Alert
}

// A Pace says how far the observations of a key are apart, and how often it may raise an alarm.
type Pace struct {
	Step   time.Duration // median of the warm-up
	Budget time.Duration // of one alarm
}

// A MemberStep is the step of one filter of a bank.
type MemberStep struct {
	Share         float64 // posterior weight of the filter in the bank, after the step
	Weight        float64 // E[w]
	Memory        float64 // θ^η − θ₀^η
	LogPredictive float64 // nats
}

// Moments are mean and standard deviation, one entry per output of the model.
type Moments struct{ Mean, SD []float64 }

// A Rejected is an observation that could not be used.
type Rejected struct {
	Key string
	Observation
	Reason string
	Reset  bool        // there is no observation: the key has begun anew
	Panic  *PanicError // the reason where the mathematics of the key panicked; else nil
}

// unknown are moments that are not known.
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

// tried returns a step of the model in which observations without a trial are missing.
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

// A Memory gives estimates their slices and the like, so that none is allocated for each. Its
// zero value is ready.
type Memory struct {
	floats    []float64
	bank      []MemberStep
	detection *Detection
}

// reset gives what was given to the next estimate.
func (m *Memory) reset() { m.floats = m.floats[:0] }

// take returns n floats.
func (m *Memory) alloc(n int) []float64 {
	if len(m.floats)+n > cap(m.floats) {
		m.floats = make([]float64, 0, n+2*cap(m.floats)) // those of before are still in use
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

// vectorCopies are copies of vectors in memory that the next ones get too.
type vectorCopies struct {
	flat []float64
	rows [][]float64
}

// of returns copies of vectors, each of them behind the numbers before. They are valid until the next call.
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

// slicer returns a function that cuts slices off floats: the slices of a record
// share one allocation.
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
	// EventTime releases an observation once its key has seen a time Lateness
	// later, the watermark has passed that time, or the input has ended. An
	// observation before one that its key has released is rejected as late. Equal
	// times keep their order of arrival.
	EventTime Order = "event_time"
	// Arrival takes observations as they come.
	Arrival Order = "arrival"
	// Trials is for smoothing: observations are in the order of the numbers of their trials.
	Trials Order = "trials"
)

// CheckTimes says why nothing goes by the times of observations under the order.
func (o Order) CheckTimes() error {
	if o != EventTime {
		return fmt.Errorf("is by the times of records: order must be %s", EventTime)
	}
	return nil
}

// A regime holds the running regime before an observation: mean and sd of its mean,
// and those of one observation. See stages.regimeBefore.
type regime struct {
	estimate              Moments
	predicted, predictive []float64
}
