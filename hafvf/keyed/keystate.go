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

// A KeyState is what is known of one key: its track, and the observations that wait for earlier
// ones. It takes the observations of a key as they come, and says which of them are to be
// learned now. It is not safe for concurrent use.
type KeyState struct {
	*Track
	est         *Estimator
	clock       time.Time     // latest event time seen
	released    time.Time     // event time of the last observation released
	waiting     []Observation // by time, ties in the order of arrival
	included    []Offset      // per log, the last one learned or waiting
	lateRun     lateRun       // of late observations, that ends here
	rewoundFrom time.Time     // from which the last observation has turned the key back; zero: not
	horizon     time.Time     // up to which nothing earlier than what waits is to come
	lead        int           // parts of Config.Expire by which its log was ahead of the clock: see Expiry

	intervals     intervals      // of Config.Aggregate
	endedSilences []SilenceEvent // silences that are over, to be told
	expired       bool           // the key has begun anew, and that is not told
}

// A lateRun is one of observations of a key that came one after the other, each no earlier than
// the one before.
type lateRun struct {
	n    int
	last time.Time
}

// An Offset is the position of an observation in its log.
type Offset struct {
	Log string
	Seq int64
}

// Open returns the entity of a key whose state AppendBinary encoded; nil is the state of a
// key before its first observation. If it was written under another configuration, the error
// wraps ErrOtherConfig.
func (est *Estimator) Open(key string, state []byte) (KeyState, error) {
	if state == nil {
		return KeyState{Track: est.NewTrack(key), est: est}, nil
	}
	return est.decodeKeyState(key, state)
}

// Bind gives the entity to another estimator of the same configuration, which goes on with
// it. The estimator before may then work for other keys at the same time.
func (e *KeyState) Bind(est *Estimator) {
	e.est = est
	est.bind(e.Track)
}

// release notes that an observation of that time is learned next.
func (e *KeyState) release(at time.Time) {
	if e.expires(e.released, at) {
		e.expireTrack()
	}
	e.released = at
}

// IsNew reports whether nothing is known of the key.
func (e *KeyState) IsNew() bool {
	return e.n == 0 && e.clock.IsZero() && len(e.included) == 0 && len(e.waiting) == 0
}

// Deadline is when the key has to be looked at: when it becomes silent, or, where it is so
// already, when the observation that ends this has waited long enough. It is zero where there
// is nothing to look for, as without Config.Silence.
func (e *KeyState) Deadline() time.Time {
	cfg := &e.est.cfg
	if cfg.Silence == nil {
		return time.Time{}
	}
	last := clock.Later(e.heartbeat.last, e.clock) // the clock where an observation waits
	deadline := e.stages.silences.deadline(e.heartbeat, &e.rules.quiet, last)
	switch {
	case e.expires(last, deadline): // the key is forgotten before
		return time.Time{}
	case !deadline.IsZero():
		return deadline.Add(e.est.MaxDelay())
	case len(e.waiting) > 0 || len(e.intervals.unseenEvents) > 0:
		return last.Add(e.est.MaxDelay())
	}
	return time.Time{}
}

// Deadline is KeyState.Deadline of the encoded entity of a key. It does not decode what the filters
// know. The error is CheckState's, as far as it reads.
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

// ReportSilence returns the silence of a key that is silent by now, and notes that it is told. It reports
// whether there is one that was not told yet. With detection the budget of the key's alarms pays
// it. If that is used up, it is not told.
func (e *KeyState) ReportSilence(now time.Time) (s SilenceEvent, silent bool) {
	deadline := e.Deadline()
	if deadline.IsZero() || deadline.After(now) || !e.stages.silences.report(e.heartbeat, &e.rules.quiet, e.pays) {
		return SilenceEvent{}, false
	}
	return e.silent(), true
}

// AppendBinary appends the encoded entity to b. The error is always nil.
func (e *KeyState) AppendBinary(b []byte) ([]byte, error) { return e.append(b), nil }

const (
	rewindAfter = 5           // late observations in a row
	skew        = time.Minute // by which clocks that are right differ
	farAhead    = time.Hour   // of the clock, as no clock of a device is by chance
)

// isWrong notes that an observation is late, and reports whether what the key has released is
// known to be wrong by now.
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

// rewind has the key go back to the observation that comes next.
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

// formatTag begins every encoded KeyState. It is none of the heads of cells, see package statestore.
const formatTag = 10

// errFormat is the error of a state of a former format.
var errFormat = errors.New("state has the format of another version of this program: start without it")

// ErrNewer means that a newer version of this program wrote a state. This version must not reset its key.
var ErrNewer = compact.ErrNewer

// checkFormat returns an error if a state has a format that this program does not read.
func checkFormat(b []byte) error {
	switch {
	case len(b) == 0 || b[0] == formatTag:
		return nil
	case b[0] > formatTag:
		return fmt.Errorf("state has the format %d, and this program reads formats up to %d: %w", b[0], formatTag, ErrNewer)
	}
	return errFormat
}

// lateRunTag is where the time of an encoded entity begins, by compact.AppendTime, in one whose
// last observation was late. Then the run stands before the time.
const lateRunTag = 6

// leadTag stands before that in one that has a lead.
const leadTag = 5

// spreadTag stands before that in one that has learned a spread.
const spreadTag = 4

// intervalsTag stands after formatTag in an encoded entity that has intervals.
const intervalsTag = 7

// append encodes the entity.
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

func offsetsForm(c *compact.Codec, all *[]Offset) {
	compact.List(c, all, 2, func(p *Offset) {
		compact.Texts(c, &p.Log)
		compact.Signed(c, &p.Seq)
	})
}

// Waiting returns the times of the first and the last observation that waits, zero where
// none does. With Config.Aggregate they are the ends of the first and the last interval.
func (e *KeyState) Waiting() (first, last time.Time) {
	if e.est != nil && e.est.aggregator != nil {
		return e.span()
	}
	if len(e.waiting) == 0 {
		return time.Time{}, time.Time{}
	}
	return e.waiting[0].Time, e.waiting[len(e.waiting)-1].Time
}

// StateBytes is an encoded KeyState, of which the methods decode the beginning alone.
type StateBytes []byte

func (b StateBytes) begin() (e KeyState, r *coder) {
	r = coderOf(b)
	e.form(r)
	return e, r
}

// Waiting is KeyState.Waiting of the state.
func (b StateBytes) Waiting() (first, last time.Time) {
	e, r := b.begin()
	if r.waiting == (span{}) {
		return e.Waiting()
	}
	return r.waiting.first, r.waiting.last
}

// InWarmUp reports whether the first observations are still setting the prior of the key.
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

// IncludedOffsets are the last places of each log that the entity includes.
func (e *KeyState) IncludedOffsets() []Offset { return e.included }

// IncludedOffsets returns the last place of each log that the state includes.
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

// AppendBinary appends the encoded track to b, in the encoding of a KeyState. The error is
// always nil.
func (t *Track) AppendBinary(b []byte) ([]byte, error) {
	e := KeyState{Track: t}
	return e.append(b), nil
}

// RestoreTrack decodes a track that AppendBinary encoded. The track continues as if it had
// never been saved. If it was written under another configuration, the error wraps
// ErrOtherConfig. RestoreTrack also reads a KeyState, unless observations wait
// in it.
func (est *Estimator) RestoreTrack(key string, b []byte) (*Track, error) {
	e, err := est.decodeKeyState(key, b)
	if err != nil {
		return nil, err
	}
	if n := len(e.waiting); n > 0 {
		return nil, fmt.Errorf("%d observations wait in the state, which a track cannot hold", n)
	}
	return e.Track, nil
}

// form is that of what stands before the track.
func (e *KeyState) form(c *coder) {
	e.head(c)
	compact.List(&c.Codec, &e.waiting, 1, func(o *Observation) {
		w := *o
		if c.Writes && w.ID == smoothedID(o) {
			w.ID = sameID
		}
		if observationForm(&c.Codec, &w); c.Writes {
			return
		}
		if *o = w; w.ID == sameID {
			o.ID = smoothedID(o)
		}
	})
	offsetsForm(&c.Codec, &e.included)
}

// head is what stands before that. Times of span are in front of intervals, so that Waiting finds them.
func (e *KeyState) head(c *coder) {
	c.Check(c.tagged(formatTag, true))
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

// sameID stands in a state for the ID of an observation that is its smoothedID.
const sameID = "\x00"

// smoothedID is the ID that the observations of a topic have: log and position.
func smoothedID(o *Observation) string {
	if o.Log == "" {
		return ""
	}
	return o.Log + "-" + strconv.FormatInt(o.Seq, 10)
}

// CheckState says why b is not a state of the key that KeyState.AppendBinary or
// Track.AppendBinary wrote under the estimator's configuration. The error wraps ErrOtherConfig
// where the state belongs to another configuration. Of each log that the state
// includes observations of it returns the last place.
func (est *Estimator) CheckState(key string, b []byte) (included []Offset, err error) {
	e, err := est.decodeKeyState(key, b)
	return e.included, err
}

// ResetsProfile reports whether the key with that state learns its usual values again, as AlarmConfig has other
// seasons, another zone or order than when it was written.
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

// beginKeyState decodes an entity up to what its filters know, which Track.withoutTail reads.
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

// repeats reports whether the state includes the observation already, as happens
// after a restart, and notes that it does now.
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

// WaitingOffsets returns the places of the waiting observations, and of each open interval the first
// place in each log.
func (e *KeyState) WaitingOffsets() (all []Offset) {
	for i := range e.intervals.open {
		all = append(all, e.intervals.open[i].offsets...)
	}
	for _, o := range e.waiting {
		if o.Log != "" {
			all = append(all, Offset{Log: strings.Clone(o.Log), Seq: o.Seq})
		}
	}
	return all
}

// admit adds an observation to those that wait, unless it is due at once, or says why it
// is late or not kept. It keeps nothing of an observation that is due.
func (e *KeyState) admit(o *Observation) (due bool, err error) {
	if e.est.aggregator != nil {
		return false, e.addEvent(o)
	}
	lateness := e.est.cfg.Lateness
	if o.Time.Before(e.released) {
		behind := e.clock.Sub(o.Time)
		return false, &LateError{Time: o.Time, Released: e.released, Behind: behind, Idle: behind <= lateness}
	}
	e.lateRun = lateRun{}
	e.clock = clock.Later(e.clock, o.Time)
	if len(e.waiting) == 0 && !o.Time.After(e.clock.Add(-lateness)) {
		e.release(o.Time)
		return true, nil
	}
	if len(e.waiting) >= mostWaiting && e.waiting[0].Time.After(e.clock.Add(-lateness)) {
		return false, &TooManyWaitingError{lateness}
	}
	at, _ := slices.BinarySearchFunc(e.waiting, o.Time, func(w Observation, t time.Time) int {
		if w.Time.After(t) {
			return 1
		}
		return -1
	})
	w := o.Clone()
	w.Raw, w.LogTime = "", time.Time{} // only a rejection would need the one, and Take has seen the other
	e.waiting = slices.Insert(e.waiting, at, w)
	return false, nil
}

// mostWaiting is how many observations of a key wait at most.
const mostWaiting = 100_000

// TooManyWaitingError is the error of an observation that would wait, of a key of which mostWaiting wait.
type TooManyWaitingError struct{ Lateness time.Duration }

func (f *TooManyWaitingError) Error() string {
	return fmt.Sprintf("too many wait: %d records of this key are within %v of its latest one; set a smaller lateness, or more keys", mostWaiting, f.Lateness)
}

// LateError is the error of an observation that comes after a later one of its key was released.
type LateError struct {
	Time     time.Time     // of the observation
	Released time.Time     // of the last one that was released
	Behind   time.Duration // from the observation to the latest that the key has shown
	// Idle reports that the observation is within the lateness of its key. What is released was
	// released because the watermark had passed it.
	Idle bool
	// Ahead reports that what is released is ahead of the clock. After some such observations
	// the key goes back to them.
	Ahead bool
	// Closed reports that Released is the time up to which intervals are closed.
	Closed bool
}

func (l *LateError) Error() string {
	text := fmt.Sprintf("late: %s is before %s, which this key has already released", stamp(l.Time), stamp(l.Released))
	if l.Closed {
		text = fmt.Sprintf("late: %s is before %s, up to which the intervals of this key are closed", stamp(l.Time), stamp(l.Released))
	}
	switch {
	case l.Ahead:
		return text + fmt.Sprintf(" ahead of the clock: the key goes on from the %dth such record in a row", rewindAfter)
	case l.Idle:
		return text + ", as the watermark had passed it"
	}
	return text
}
