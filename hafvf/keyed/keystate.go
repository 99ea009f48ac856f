package keyed

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/compact"
)

// A KeyState is the state of one key: its track, and the observations that wait for earlier ones. It takes
// observations in the order of their arrival, and learns them in the order of Config.Order. It is not safe for
// concurrent use.
type KeyState struct {
	*Track
	est         *Estimator
	clock       time.Time     // latest event time so far
	released    time.Time     // event time of the last released observation
	waiting     []Observation // by time, equal times in the order of arrival
	included    []Offset      // last learned or waiting observation of each log
	lateRun     lateRun       // the last late observations in a row
	rewoundFrom time.Time     // time from which the last observation set the key back; zero if it did not
	horizon     time.Time     // no observation up to this time is expected any more
	lead        int           // multiples of ExpiryPart by which the log was ahead of the key, see Expiry

	intervals     intervals      // open intervals of Config.Aggregate
	endedSilences []SilenceEvent // silences that have ended and are not reported yet
	expired       bool           // Config.Expire has reset the key, and this is not reported yet
}

// A lateRun is a run of late observations of a key, each not before the previous one.
type lateRun struct {
	n    int
	last time.Time
}

// An Offset is the position of an observation in its log.
type Offset struct {
	Log string
	Seq int64
}

// Open returns the KeyState of a key whose state AppendBinary encoded. nil is the state of a key without
// observations. If the state was written with another configuration, the error wraps ErrOtherConfig.
func (est *Estimator) Open(key string, state []byte) (KeyState, error) {
	if state == nil {
		return KeyState{Track: est.NewTrack(key), est: est}, nil
	}
	return est.decodeKeyState(key, state)
}

// Bind gives the KeyState to another estimator with the same configuration. The previous estimator can then process
// other keys at the same time.
func (e *KeyState) Bind(est *Estimator) {
	e.est = est
	est.bind(e.Track)
}

// release records that an observation at t is learned next.
func (e *KeyState) release(t time.Time) {
	if e.expires(e.released, t) {
		e.expireTrack()
	}
	e.released = t
}

// IsNew reports whether the key has no learned, waiting or included observation.
func (e *KeyState) IsNew() bool {
	return e.n == 0 && e.clock.IsZero() && len(e.included) == 0 && len(e.waiting) == 0
}

// Deadline returns the time at which to call ReportSilence: when the key becomes silent or, if it is silent, when
// the observation that ends the silence is due. It returns the zero time if there is no such time, as without
// Config.Silence.
func (e *KeyState) Deadline() time.Time {
	cfg := &e.est.cfg
	if cfg.Silence == nil {
		return time.Time{}
	}
	last := clock.Later(e.heartbeat.last, e.clock) // the clock, if an observation waits
	deadline := e.stages.silences.deadline(e.heartbeat, &e.rules.quiet, last)
	switch {
	case e.expires(last, deadline): // the key expires before
		return time.Time{}
	case !deadline.IsZero():
		return deadline.Add(e.est.MaxDelay())
	case len(e.waiting) > 0 || len(e.intervals.unseenEvents) > 0:
		return last.Add(e.est.MaxDelay())
	}
	return time.Time{}
}

// Deadline is KeyState.Deadline for an encoded KeyState of the key. It decodes only the start of the state, and
// returns the errors of CheckState that it finds there.
func (est *Estimator) Deadline(key string, state []byte) (time.Time, error) {
	if est.cfg.Silence == nil {
		return time.Time{}, nil
	}
	e, err := est.beginKeyState(key, coderOf(state))
	if err != nil {
		return time.Time{}, err
	}
	return e.Deadline(), nil
}

// ReportSilence returns the silence of a key that is silent at now, and marks it as reported. silent is false if
// the key is not silent, or if the silence is already reported. With detection, the silence is charged to the key's
// budget. If the budget is used up, the silence is not reported.
func (e *KeyState) ReportSilence(now time.Time) (s SilenceEvent, silent bool) {
	deadline := e.Deadline()
	if deadline.IsZero() || deadline.After(now) || !e.stages.silences.report(e.heartbeat, &e.rules.quiet, e.pays) {
		return SilenceEvent{}, false
	}
	return e.silent(), true
}

// AppendBinary appends the encoded KeyState to b. The error is always nil.
func (e *KeyState) AppendBinary(b []byte) ([]byte, error) { return e.append(b), nil }

const (
	rewindAfter = 5           // late observations in a row that set the key back
	skew        = time.Minute // maximum difference of correct clocks
	farAhead    = time.Hour   // a device's clock is this far ahead only by a fault
)

// isWrong counts a late observation, and sets late.Ahead. It reports whether the released time is now known to be
// wrong.
func (e *KeyState) isWrong(late *LateError) bool {
	now := e.est.now()
	ahead := late.Released.Sub(now)
	late.Ahead = ahead > skew && late.Time.Sub(now) <= skew && (ahead > farAhead || now.Sub(late.Time) < ahead)
	if !late.Ahead || late.Time.Before(e.lateRun.last) {
		e.lateRun = lateRun{}
	}
	if late.Ahead {
		e.lateRun = lateRun{e.lateRun.n + 1, late.Time}
	}
	return e.lateRun.n == rewindAfter
}

// rewind sets the key back to the next observation.
func (e *KeyState) rewind() {
	e.clock, e.released, e.rewoundFrom, e.lead = time.Time{}, time.Time{}, e.released, 0
	if in := &e.intervals; !in.next.IsZero() {
		e.rewoundFrom, in.next, in.until, in.busy = in.next, time.Time{}, time.Time{}, time.Time{}
		in.unseenEvents, in.counter = nil, counter{}
	}
	if e.heartbeat != nil {
		e.heartbeat.rewind()
	}
}

// formatTag is the first byte of an encoded KeyState. The head of a cell starts with other bytes, see package
// statestore.
const formatTag = 12

// oldestFormat is the first byte of the oldest states that this program reads.
const oldestFormat = formatOfLasting

// errFormat is the error for a state of an older format.
var errFormat = errors.New("state has the format of another version of this program: start without it")

// ErrNewer means that a newer version of this program wrote a state. This version must not reset the key.
var ErrNewer = compact.ErrNewer

// checkFormat returns an error if this program cannot read the format of a state.
func checkFormat(b []byte) error {
	switch {
	case len(b) == 0 || b[0] >= oldestFormat && b[0] <= formatTag:
		return nil
	case b[0] > formatTag:
		return fmt.Errorf("state has the format %d, and this program reads formats up to %d: %w", b[0], formatTag, ErrNewer)
	}
	return errFormat
}

// lateRunTag precedes the late run in the state of a key whose last observation was late. Without tags, the state
// continues with the time in the encoding of compact.AppendTime, which starts with none of the tags.
const lateRunTag = 6

// leadTag precedes the lead in a state that has one.
const leadTag = 5

// spreadTag precedes the spread in a state that has learned one.
const spreadTag = 4

// intervalsTag follows formatTag in a state that has intervals.
const intervalsTag = 7

func (e *KeyState) append(b []byte) []byte {
	c := coderOf(b)
	c.Writes, c.width = true, e.spread
	if e.est != nil && e.est.aggregator != nil {
		c.waiting.first, c.waiting.last = e.span()
		in := compact.Codec{Writes: true}
		e.intervalsForm(&in)
		c.intervals = string(in.B)
	}
	e.form(c)
	e.Track.append(c)
	return c.B
}

func offsetsForm(c *compact.Codec, offsets *[]Offset) {
	compact.List(c, offsets, 2, func(p *Offset) {
		compact.Texts(c, &p.Log)
		compact.Signed(c, &p.Seq)
	})
}

// Waiting returns the times of the first and the last waiting observation; zero if none waits. With
// Config.Aggregate, it returns the ends of the first and the last interval.
func (e *KeyState) Waiting() (first, last time.Time) {
	if e.est != nil && e.est.aggregator != nil {
		return e.span()
	}
	if len(e.waiting) == 0 {
		return time.Time{}, time.Time{}
	}
	return e.waiting[0].Time, e.waiting[len(e.waiting)-1].Time
}

// StateBytes is an encoded KeyState. Its methods decode only the start.
type StateBytes []byte

func (b StateBytes) begin() (e KeyState, r *coder) {
	r = coderOf(b)
	e.form(r)
	return e, r
}

// Waiting is KeyState.Waiting for an encoded state.
func (b StateBytes) Waiting() (first, last time.Time) {
	e, r := b.begin()
	if r.waiting == (span{}) {
		return e.Waiting()
	}
	return r.waiting.first, r.waiting.last
}

// InWarmUp reports whether the warm-up, which sets the prior of the key, is not over.
func (b StateBytes) InWarmUp() bool {
	_, r := b.begin()
	for range 3 { // the counts of a track
		r.Uvarint()
	}
	r.near(new(time.Time))
	var priorIsSet bool
	r.Bits(&priorIsSet)
	return !priorIsSet && !r.Bad
}

// IncludedOffsets returns the last offset of each log that the KeyState includes.
func (e *KeyState) IncludedOffsets() []Offset { return e.included }

// IncludedOffsets is KeyState.IncludedOffsets for an encoded state.
func (b StateBytes) IncludedOffsets() ([]Offset, error) {
	if err := checkFormat(b); err != nil {
		return nil, err
	}
	e, r := b.begin()
	if r.Bad {
		return nil, compact.ErrCut
	}
	return e.included, nil
}

// AppendBinary appends the track to b, encoded as a KeyState. The error is always nil.
func (t *Track) AppendBinary(b []byte) ([]byte, error) {
	e := KeyState{Track: t}
	return e.append(b), nil
}

// RestoreTrack decodes a track that AppendBinary encoded. The track continues as if it had not been encoded. If it
// was written with another configuration, the error wraps ErrOtherConfig. RestoreTrack also reads a KeyState
// without waiting observations.
func (est *Estimator) RestoreTrack(key string, b []byte) (*Track, error) {
	e, err := est.decodeKeyState(key, b)
	if err != nil {
		return nil, err
	}
	if n := len(e.waiting); n > 0 {
		return nil, fmt.Errorf("%d observations wait in the state; a track cannot store them: use Estimator.Open", n)
	}
	return e.Track, nil
}

// form encodes or decodes the part of the state before the track.
func (e *KeyState) form(c *coder) {
	e.head(c)
	compact.List(&c.Codec, &e.waiting, 1, func(o *Observation) {
		w := *o
		if c.Writes && w.ID == sourceID(o) {
			w.ID = sameID
		}
		if observationForm(&c.Codec, &w); c.Writes {
			return
		}
		if *o = w; w.ID == sameID {
			o.ID = sourceID(o)
		}
	})
	offsetsForm(&c.Codec, &e.included)
}

// head encodes or decodes the part of the state before the waiting observations. The times of the intervals precede
// the intervals, so that StateBytes.Waiting finds them.
func (e *KeyState) head(c *coder) {
	c.format = formatTag
	compact.Bytes(&c.Codec, &c.format)
	c.Check(c.format >= oldestFormat && c.format <= formatTag)
	if c.tagged(intervalsTag, c.intervals != "") { // a Track has none
		c.Times(&c.waiting.first, &c.waiting.last)
		compact.Texts(&c.Codec, &c.intervals)
	}
	if c.tagged(leadTag, e.lead > 0) {
		compact.Unsigned(&c.Codec, &e.lead)
		c.Check(e.lead > 0)
	}
	if c.tagged(spreadTag, c.width.learned) {
		c.width.form(&c.Codec)
	}
	if run := &e.lateRun; c.tagged(lateRunTag, run.n > 0) {
		compact.Unsigned(&c.Codec, &run.n)
		c.Times(&run.last)
		c.Check(run.n > 0 && run.n < rewindAfter)
	}
	c.Times(&e.clock)
	c.clock = e.clock
	c.near(&e.released)
}

// sameID replaces, in a state, the ID of an observation that equals its sourceID.
const sameID = "\x00"

// sourceID returns the ID of an observation of a topic: log and position.
func sourceID(o *Observation) string {
	if o.Log == "" {
		return ""
	}
	return o.Log + "-" + strconv.FormatInt(o.Seq, 10)
}

// CheckState returns an error if b is not a state of the key that KeyState.AppendBinary or Track.AppendBinary wrote
// with the estimator's configuration. If the configurations differ, the error wraps ErrOtherConfig. included has
// the last offset of each log whose observations the state includes.
func (est *Estimator) CheckState(key string, b []byte) (included []Offset, err error) {
	e, err := est.decodeKeyState(key, b)
	return e.included, err
}

// ResetsProfile reports whether a key with this state relearns its usual values, because AlarmConfig has other seasons,
// another zone or another order than when the state was written.
func (est *Estimator) ResetsProfile(key string, b []byte) bool {
	e, err := est.decodeKeyState(key, b)
	return err == nil && e.decisions.alarm != nil && e.decisions.standard == nil
}

func (est *Estimator) decodeKeyState(key string, b []byte) (KeyState, error) {
	r := coderOf(b)
	e, err := est.beginKeyState(key, r)
	if err == nil {
		err = e.decodeBody(r)
	}
	return e, err
}

// beginKeyState decodes a KeyState up to the part that decodeBody reads.
func (est *Estimator) beginKeyState(key string, r *coder) (e KeyState, err error) {
	if err := checkFormat(r.B); err != nil {
		return e, err
	}
	e.form(r)
	e.est = est
	if e.Track, err = est.decodeHead(key, r); err != nil {
		return e, err
	}
	if r.intervals != "" { // a Track has none
		if est.aggregator == nil {
			return e, errors.New("state is corrupt: intervals that the configuration does not have")
		}
		c := compact.Codec{Reader: compact.Reader{B: []byte(r.intervals)}}
		if e.intervalsForm(&c); c.Bad || len(c.B) > 0 {
			return e, compact.ErrCut
		}
	}
	for _, o := range e.waiting {
		if err := e.stages.check(&o); err != nil {
			return e, fmt.Errorf("state is corrupt: %w", err)
		}
	}
	return e, nil
}

// repeats reports whether the state already includes the observation, as after a restart. If not, it includes the
// observation now.
func (e *KeyState) repeats(o *Observation) bool {
	if o.Log == "" {
		return false
	}
	for i := range e.included {
		if p := &e.included[i]; p.Log == o.Log {
			if o.Seq <= p.Seq {
				return true
			}
			p.Seq = o.Seq
			return false
		}
	}
	e.included = append(e.included, Offset{Log: strings.Clone(o.Log), Seq: o.Seq})
	return false
}

// WaitingOffsets returns the offsets of the waiting observations, and the first offset in each log of each open
// interval.
func (e *KeyState) WaitingOffsets() (offsets []Offset) {
	for i := range e.intervals.open {
		offsets = append(offsets, e.intervals.open[i].offsets...)
	}
	for _, o := range e.waiting {
		if o.Log != "" {
			offsets = append(offsets, Offset{Log: strings.Clone(o.Log), Seq: o.Seq})
		}
	}
	return offsets
}

// admit adds an observation to the waiting ones, unless it is due at once. The error is a *LateError or a
// *TooManyWaitingError. admit does not retain an observation that is due.
func (e *KeyState) admit(o *Observation) (due bool, err error) {
	if e.est.aggregator != nil {
		return false, e.addEvent(o)
	}
	lateness := e.est.cfg.Lateness
	if o.Time.Before(e.released) {
		lag := e.clock.Sub(o.Time)
		return false, &LateError{Time: o.Time, Released: e.released, Behind: lag, Idle: lag <= lateness}
	}
	e.lateRun = lateRun{}
	e.clock = clock.Later(e.clock, o.Time)
	if len(e.waiting) == 0 && !o.Time.After(e.clock.Add(-lateness)) {
		e.release(o.Time)
		return true, nil
	}
	if len(e.waiting) >= maxWaiting && e.waiting[0].Time.After(e.clock.Add(-lateness)) {
		return false, &TooManyWaitingError{lateness}
	}
	index, _ := slices.BinarySearchFunc(e.waiting, o.Time, func(w Observation, t time.Time) int {
		if w.Time.After(t) {
			return 1
		}
		return -1
	})
	w := o.Clone()
	w.Raw, w.LogTime = "", time.Time{} // only a rejection would need Raw, and take has used LogTime
	e.waiting = slices.Insert(e.waiting, index, w)
	return false, nil
}

// maxWaiting is the maximum number of waiting observations of a key.
const maxWaiting = 100_000

// TooManyWaitingError is the error for an observation that would have to wait although maxWaiting observations of
// its key wait.
type TooManyWaitingError struct{ Lateness time.Duration }

func (e *TooManyWaitingError) Error() string {
	return fmt.Sprintf("too many records wait: %d of this key are within %v of its latest one: set a smaller lateness, or use finer keys", maxWaiting, e.Lateness)
}

// LateError is the error for an observation that arrives after a later one of its key was released.
type LateError struct {
	Time     time.Time     // of the observation
	Released time.Time     // time of the last released observation
	Behind   time.Duration // from the observation to the latest time of the key
	// Idle means that the observation is within the lateness of its key. The later observation was released because
	// the watermark had passed it.
	Idle bool
	// Ahead means that the released time is ahead of the clock. After five such observations in a row, the key is
	// set back to them, see Process.
	Ahead bool
	// Closed means that Released is the time up to which intervals are closed.
	Closed bool
}

func (l *LateError) Error() string {
	text := fmt.Sprintf("late: %s is before %s, which this key has already released", stamp(l.Time), stamp(l.Released))
	if l.Closed {
		text = fmt.Sprintf("late: %s is before %s, up to which the intervals of this key are closed", stamp(l.Time), stamp(l.Released))
	}
	switch {
	case l.Ahead:
		return text + fmt.Sprintf(" ahead of the clock: the key resumes at the %dth such record in a row", rewindAfter)
	case l.Idle:
		return text + ", as the watermark had passed it"
	}
	return text
}
