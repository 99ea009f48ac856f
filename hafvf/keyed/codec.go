package keyed

import (
	"encoding/binary"
	"math"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/compact"
)

// Observations and what becomes of them have a compact binary form, for states and for what
// crosses the stages of a runner: JSON neither knows NaN nor is fast. The errors of
// AppendBinary are always nil.

// AppendBinary appends the encoded observation to b. Observations that are appended to each
// other are read by Observations.
func (o *Observation) AppendBinary(b []byte) ([]byte, error) {
	return appendObservation(b, o), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (o *Observation) UnmarshalBinary(b []byte) (err error) {
	*o, err = decodeAll(b, (*decoder).observation)
	return err
}

// AppendBinary appends the encoded estimate to b.
func (e *Estimate) AppendBinary(b []byte) ([]byte, error) { return appendEstimate(b, *e), nil }

// UnmarshalBinary decodes what AppendBinary encoded.
func (e *Estimate) UnmarshalBinary(b []byte) (err error) {
	*e, err = decodeAll(b, (*decoder).estimate)
	return err
}

// AppendBinary appends the alert to b, without its key and basis.
func (t *AlertEvent) AppendBinary(b []byte) ([]byte, error) {
	of := Estimate{Time: t.Time, ID: t.ID, N: t.N, X: t.X, Shape: t.Shape, Predicted: t.Predicted}
	return appendAlert(appendEstimate(b, of), t.Alert), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (t *AlertEvent) UnmarshalBinary(b []byte) (err error) {
	*t, err = decodeAll(b, func(r *decoder) AlertEvent {
		of := r.estimate()
		return of.event("", of.ID, r.alert(), AlarmBasis)
	})
	return err
}

// AppendBinary appends the encoded rejection to b.
func (r *Rejected) AppendBinary(b []byte) ([]byte, error) {
	b = compact.AppendString(b, r.Key)
	b = compact.AppendString(b, r.Reason)
	b = compact.AppendFlags(b, r.Reset, r.Panic != nil)
	if r.Panic != nil {
		b = compact.AppendString(b, r.Panic.Value)
		b = compact.AppendString(b, r.Panic.Stack)
	}
	return appendObservation(b, &r.Observation), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (r *Rejected) UnmarshalBinary(b []byte) (err error) {
	*r, err = decodeAll(b, func(from *decoder) Rejected {
		all := Rejected{Key: from.Text(), Reason: from.Text()}
		var panicked bool
		if all.Reset, panicked, _ = from.Flags(); panicked {
			all.Panic = &PanicError{Value: from.Text(), Stack: from.Text()}
		}
		all.Observation = from.observation()
		return all
	})
	return err
}

// Observations reads observations that were appended to each other.
type Observations struct{ r decoder }

// ReadObservations returns the observations of b. Their strings are cut from text, which is b
// as one string, so that they take no memory of their own. They do where text is empty.
func ReadObservations(b []byte, text string) Observations {
	return Observations{decoder{Reader: compact.Reader{B: b, Source: text}}}
}

// More reports whether there is another observation.
func (all *Observations) More() bool { return len(all.r.B) > 0 }

// Next returns the next observation. Its X is in the memory of x, which may be nil.
func (all *Observations) Next(x [][]float64) (Observation, error) {
	o := all.r.observationIn(x)
	if all.r.Bad {
		return o, compact.ErrCut
	}
	return o, nil
}

func appendObservation(b []byte, o *Observation) []byte {
	b = compact.AppendTime(b, o.Time)
	b = compact.AppendString(b, o.ID)
	b = binary.AppendVarint(b, o.Seq)
	b = compact.AppendString(b, o.Log)
	at := len(b)
	b = appendShape(b, o.Shape, o.Aggregated, o.Events)
	b = compact.AppendVectors(b, o.X)
	b = compact.AppendString(b, o.Raw)
	if o.OutOfDomain {
		b[at] |= outsideBit
	}
	if !o.LogTime.IsZero() {
		b[at] |= logTimeBit
		b = compact.AppendTimeNear(b, o.LogTime, o.Time)
	}
	if o.Trial != 0 || o.Session != "" {
		b[at] |= trialBit
		b = compact.AppendString(binary.AppendVarint(b, o.Trial), o.Session)
	}
	if o.Carried != "" {
		b[at] |= carriedBit
		b = compact.AppendString(b, o.Carried)
	}
	return b
}

// aggregatedBit stands beside the shape: the number of events follows. logTimeBit says that the
// time of the log stands at the end of an observation, trialBit that trial and session do, carriedBit
// that Carried does, and outsideBit that it is OutOfDomain.
const (
	aggregatedBit = 0x80
	logTimeBit    = 0x40
	outsideBit    = 0x20
	trialBit      = 0x10
	carriedBit    = 0x08
)

func appendShape(b []byte, shape Shape, aggregated bool, events int64) []byte {
	if !aggregated {
		return append(b, byte(shape))
	}
	return binary.AppendUvarint(append(b, byte(shape)|aggregatedBit), uint64(events))
}

func (r *decoder) shape() (shape Shape, aggregated bool, events int64) {
	s := r.Byte()
	if aggregated = s&aggregatedBit != 0; aggregated {
		events = int64(r.Uvarint())
	}
	return Shape(s &^ aggregatedBit), aggregated, events
}

func (r *decoder) observation() Observation { return r.observationIn(nil) }

// observationIn reads an observation into the memory of x, which may be nil.
func (r *decoder) observationIn(x [][]float64) Observation {
	o := Observation{Time: r.Time(), ID: r.Text(), Seq: r.Varint(), Log: r.Text()}
	o.Shape, o.Aggregated, o.Events = r.shape()
	o.X, o.Raw = r.Vectors(x), r.Text()
	o.OutOfDomain = o.Shape&outsideBit != 0
	o.Shape &^= outsideBit
	if o.Shape&logTimeBit != 0 {
		o.Shape &^= logTimeBit
		o.LogTime = r.TimeNear(o.Time)
	}
	if o.Shape&trialBit != 0 {
		o.Shape &^= trialBit
		o.Trial, o.Session = r.Varint(), r.Text()
	}
	if o.Shape&carriedBit != 0 {
		o.Shape &^= carriedBit
		o.Carried = r.Text()
	}
	return o
}

func appendEstimate(b []byte, e Estimate) []byte {
	b = compact.AppendTime(b, e.Time)
	b = compact.AppendString(b, e.ID)
	b = binary.AppendUvarint(b, uint64(e.N))
	at := len(b)
	b = appendShape(b, e.Shape, e.Aggregated, e.Events)
	if e.Carried != "" {
		b[at] |= carriedBit
		b = compact.AppendString(b, e.Carried)
	}
	b = compact.AppendVectors(b, e.X)
	b = appendMoments(b, e.Predicted)
	b = appendMoments(b, e.Estimate)
	for _, v := range [][]float64{e.Lower, e.Upper, e.Levels, e.Posterior, {e.LogPredictive, e.ELBO, e.Weight, e.Memory, e.LearningRate}} {
		b = compact.AppendFloats(b, v)
	}
	b = binary.AppendUvarint(b, uint64(e.Iterations))
	b = compact.AppendFlags(b, e.Converged, e.Missing, e.Silence != nil)
	if e.Silence != nil {
		b = appendSilence(b, e.Silence)
	}
	b = compact.AppendFlags(b, e.WarmUp, e.Detection != nil, e.Recovered != nil)
	if t := e.Recovered; t != nil {
		b = appendAlert(compact.AppendString(b, t.ID), t.Alert)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Bank)))
	for _, m := range e.Bank {
		b = compact.AppendFloats(b, []float64{m.Share, m.Weight, m.Memory, m.LogPredictive})
	}
	d := e.Detection
	if d == nil {
		return b
	}
	b = appendMoments(b, e.Regime)
	b = compact.AppendString(b, string(d.Kind))
	b = compact.AppendFloats(b, []float64{d.Stay, d.Outlier, d.Change})
	b = compact.AppendTime(b, d.Start)
	for _, n := range []int64{d.StartN, d.Delay, d.Age} {
		b = binary.AppendVarint(b, n)
	}
	b = appendMoments(compact.AppendFloats(b, []float64{d.Score, d.Threshold}), d.Usual)
	b = compact.AppendFlags(compact.AppendFlags(b, d.Muted, d.Resting), e.Alarm != nil, e.Belief != nil)
	for _, a := range []*Alert{e.Alarm, e.Belief} {
		if a != nil {
			b = appendAlert(b, a)
		}
	}
	return binary.AppendVarint(binary.AppendVarint(b, int64(e.Pace.Step)), int64(e.Pace.Budget))
}

func appendAlert(b []byte, a *Alert) []byte {
	b = compact.AppendString(b, a.Kind)
	b = compact.AppendString(b, a.Corrects)
	b = compact.AppendTime(b, a.Start)
	b = binary.AppendVarint(b, a.Delay)
	b = compact.AppendFloats(b, []float64{a.LogOdds, a.Size, a.Score, a.Threshold})
	b = binary.AppendUvarint(b, uint64(a.Output))
	b = appendMoments(b, a.Before)
	b = appendMoments(b, a.After)
	b = appendMoments(b, a.Usual)
	return compact.AppendString(b, a.Message)
}

func (r *decoder) alert() *Alert {
	a := &Alert{Kind: r.Text(), Corrects: r.Text(), Start: r.Time(), Delay: r.Varint()}
	r.Numbers(&a.LogOdds, &a.Size, &a.Score, &a.Threshold)
	a.Output = int(r.Uvarint())
	a.Before, a.After, a.Usual, a.Message = r.moments(), r.moments(), r.moments(), r.Text()
	return a
}

// filtered reads what the filter says in numbers. Alerts in states of before have no learning rate.
func (r *decoder) filtered(e *Estimate) {
	all := []*float64{&e.LogPredictive, &e.ELBO, &e.Weight, &e.Memory, &e.LearningRate}
	v := r.Floats()
	if len(v) == len(all)-1 {
		v = append(v, math.NaN())
	}
	if len(v) != len(all) {
		r.Fail()
		return
	}
	for i, p := range all {
		*p = v[i]
	}
}

func (r *decoder) estimate() Estimate {
	e := Estimate{Time: r.Time(), ID: r.Text(), N: int64(r.Uvarint())}
	e.Shape, e.Aggregated, e.Events = r.shape()
	if e.Shape&carriedBit != 0 {
		e.Shape &^= carriedBit
		e.Carried = r.Text()
	}
	e.X, e.Predicted, e.Estimate = r.Vectors(nil), r.moments(), r.moments()
	e.Lower, e.Upper = r.Floats(), r.Floats()
	e.Levels, e.Posterior = r.Floats(), r.Floats()
	r.filtered(&e)
	e.Iterations = int(r.Uvarint())
	var silent bool
	if e.Converged, e.Missing, silent = r.Flags(); silent {
		e.Silence = r.silence()
	}
	var detects, recovered bool
	if e.WarmUp, detects, recovered = r.Flags(); recovered {
		e.Recovered = &EndedAlarm{r.Text(), r.alert()}
	}
	for range r.Count(1) {
		var m MemberStep
		r.Numbers(&m.Share, &m.Weight, &m.Memory, &m.LogPredictive)
		e.Bank = append(e.Bank, m)
	}
	if !detects {
		return e
	}
	e.Regime = r.moments()
	d := &Detection{Kind: hafvf.Kind(r.Text())}
	r.Numbers(&d.Stay, &d.Outlier, &d.Change)
	d.Start, d.StartN, d.Delay, d.Age = r.Time(), r.Varint(), r.Varint(), r.Varint()
	r.Numbers(&d.Score, &d.Threshold)
	d.Usual = r.moments()
	e.Detection = d
	d.Muted, d.Resting, _ = r.Flags()
	alarm, belief, _ := r.Flags()
	if alarm {
		e.Alarm = r.alert()
	}
	if belief {
		e.Belief = r.alert()
	}
	e.Pace = Pace{time.Duration(r.Varint()), time.Duration(r.Varint())}
	return e
}

func appendMoments(b []byte, m Moments) []byte {
	return compact.AppendFloats(compact.AppendFloats(b, m.Mean), m.SD)
}

func (r *decoder) moments() Moments { return Moments{r.Floats(), r.Floats()} }

// AppendBinary appends the encoded posterior to b. The error is always nil.
func (s *Smoothed) AppendBinary(b []byte) ([]byte, error) {
	b = compact.AppendTime(b, s.Time)
	b = compact.AppendString(compact.AppendString(compact.AppendString(b, s.ID), s.Origin), s.Carried)
	b = appendShape(b, s.Shape, s.Aggregated, s.Events)
	b = compact.AppendVectors(b, s.X)
	for _, v := range [][]float64{s.Estimate.Mean, s.Estimate.SD, s.Posterior, s.Forward.Levels, s.Backward.Levels,
		{s.Memory, s.Forward.Weight, s.Forward.Memory, s.Backward.Weight, s.Backward.Memory, s.ChangeEvidence, s.Outlier}} {
		b = compact.AppendFloats(b, v)
	}
	b = appendPoint(appendPoint(b, s.Session.Start), s.Session.End)
	for _, n := range []int64{s.N, s.Session.N, s.Revision} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = compact.AppendString(b, s.Split)
	b = compact.AppendFlags(b, s.Change, s.Missing, s.Changed)
	b = compact.AppendFlags(b, s.Segment != nil)
	if p := s.ChangeInterval; s.Change {
		b = compact.AppendTime(compact.AppendTime(b, p.From), p.To)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.FromN)), uint64(p.ToN))
		b = compact.AppendFloats(b, []float64{p.Probability})
	}
	if g := s.Segment; g != nil {
		b = binary.AppendUvarint(appendPoint(b, g.Start), uint64(g.N))
		b = compact.AppendFloats(appendMoments(b, g.Estimate), g.Before)
	}
	return b, nil
}

func appendPoint(b []byte, p Point) []byte {
	return binary.AppendVarint(compact.AppendTime(b, p.Time), p.Trial)
}

func (r *decoder) point() Point { return Point{r.Time(), r.Varint()} }

// UnmarshalBinary decodes what AppendBinary encoded.
func (s *Smoothed) UnmarshalBinary(b []byte) (err error) {
	*s, err = decodeAll(b, (*decoder).smoothed)
	return err
}

func (r *decoder) smoothed() Smoothed {
	s := Smoothed{Time: r.Time(), ID: r.Text(), Origin: r.Text(), Carried: r.Text()}
	s.Shape, s.Aggregated, s.Events = r.shape()
	s.X = r.Vectors(nil)
	for _, v := range []*[]float64{&s.Estimate.Mean, &s.Estimate.SD, &s.Posterior, &s.Forward.Levels, &s.Backward.Levels} {
		*v = r.Floats()
	}
	r.Numbers(&s.Memory, &s.Forward.Weight, &s.Forward.Memory, &s.Backward.Weight, &s.Backward.Memory, &s.ChangeEvidence, &s.Outlier)
	s.Session.Start, s.Session.End = r.point(), r.point()
	s.N, s.Session.N, s.Revision = int64(r.Uvarint()), int64(r.Uvarint()), int64(r.Uvarint())
	s.Split = r.Text()
	s.Change, s.Missing, s.Changed = r.Flags()
	segment, _, _ := r.Flags()
	if s.Change {
		s.ChangeInterval = ChangeInterval{From: r.Time(), To: r.Time(), FromN: int64(r.Uvarint()), ToN: int64(r.Uvarint())}
		r.Numbers(&s.ChangeInterval.Probability)
	}
	if segment {
		s.Segment = &Segment{Start: r.point(), N: int64(r.Uvarint()), Estimate: r.moments(), Before: r.Floats()}
	}
	return s
}
