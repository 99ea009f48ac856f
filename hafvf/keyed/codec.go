package keyed

import (
	"encoding/binary"

	"hafvf/internal/compact"
)

// Observations, estimates, alerts and rejections have a compact binary encoding, for states and for the stages of a
// runner. JSON is slower and has no NaN. The errors of AppendBinary are always nil.

// AppendBinary appends the encoded observation to b. ReadObservations reads concatenated observations.
func (o *Observation) AppendBinary(b []byte) ([]byte, error) {
	return appendObservation(b, o), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (o *Observation) UnmarshalBinary(b []byte) error {
	r := compact.Reader{B: b}
	if *o = readObservationIn(&r, nil); r.Bad || len(r.B) > 0 {
		*o = Observation{}
		return compact.ErrCut
	}
	return nil
}

// AppendBinary appends the encoded estimate to b.
func (e *Estimate) AppendBinary(b []byte) ([]byte, error) {
	return compact.Encode(b, *e, estimateForm), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (e *Estimate) UnmarshalBinary(b []byte) error { return compact.Decode(b, e, estimateForm) }

// AppendBinary appends the alert to b, without its key and source.
func (t *AlertEvent) AppendBinary(b []byte) ([]byte, error) {
	return compact.Encode(b, *t, alertEventForm), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (t *AlertEvent) UnmarshalBinary(b []byte) error { return compact.Decode(b, t, alertEventForm) }

// AppendBinary appends the encoded rejection to b.
func (r *Rejected) AppendBinary(b []byte) ([]byte, error) {
	return compact.Encode(b, *r, rejectedForm), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (r *Rejected) UnmarshalBinary(b []byte) error { return compact.Decode(b, r, rejectedForm) }

// AppendBinary appends the encoded posterior to b. The error is always nil.
func (s *Smoothed) AppendBinary(b []byte) ([]byte, error) {
	return compact.Encode(b, *s, smoothedForm), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (s *Smoothed) UnmarshalBinary(b []byte) error { return compact.Decode(b, s, smoothedForm) }

// Observations is a reader of concatenated observations, see ReadObservations.
type Observations struct{ r compact.Reader }

// ReadObservations returns a reader of the observations in b. text is b as a string, or empty. If text is not empty,
// the strings of the observations are substrings of it, and need no memory of their own.
func ReadObservations(b []byte, text string) Observations {
	return Observations{compact.Reader{B: b, Source: text}}
}

// More reports whether there is another observation.
func (s *Observations) More() bool { return len(s.r.B) > 0 }

// Next returns the next observation. Its X uses the memory of x, which may be nil.
func (s *Observations) Next(x [][]float64) (Observation, error) {
	o := readObservationIn(&s.r, x)
	if s.r.Bad {
		return o, compact.ErrCut
	}
	return o, nil
}

func appendObservation(b []byte, o *Observation) []byte {
	b = compact.AppendTime(b, o.Time)
	b = compact.AppendString(b, o.ID)
	b = binary.AppendVarint(b, o.Seq)
	b = compact.AppendString(b, o.Log)
	shapeIndex := len(b)
	b = appendShape(b, o.Shape, o.Aggregated, o.Events)
	b = compact.AppendVectors(b, o.X)
	b = compact.AppendString(b, o.Raw)
	if o.OutOfDomain {
		b[shapeIndex] |= outsideBit
	}
	if !o.LogTime.IsZero() {
		b[shapeIndex] |= logTimeBit
		b = compact.AppendTimeNear(b, o.LogTime, o.Time)
	}
	if o.Trial != 0 || o.Session != "" {
		b[shapeIndex] |= trialBit
		b = compact.AppendString(binary.AppendVarint(b, o.Trial), o.Session)
	}
	if o.ExtraFields != "" {
		b[shapeIndex] |= carriedBit
		b = compact.AppendString(b, o.ExtraFields)
	}
	return b
}

// Flags in the byte of the shape.
const (
	aggregatedBit = 0x80 // the number of events follows
	logTimeBit    = 0x40 // LogTime is at the end of the observation
	outsideBit    = 0x20 // OutOfDomain is true
	trialBit      = 0x10 // Trial and Session are at the end of the observation
	carriedBit    = 0x08 // ExtraFields is at the end of the observation, or follows the shape of an estimate
)

func appendShape(b []byte, shape Shape, aggregated bool, events int64) []byte {
	if !aggregated {
		return append(b, byte(shape))
	}
	return binary.AppendUvarint(append(b, byte(shape)|aggregatedBit), uint64(events))
}

func readShape(r *compact.Reader) (shape Shape, aggregated bool, events int64) {
	s := r.Byte()
	if aggregated = s&aggregatedBit != 0; aggregated {
		events = int64(r.Uvarint())
	}
	return Shape(s &^ aggregatedBit), aggregated, events
}

func observationForm(c *compact.Codec, o *Observation) {
	if c.Writes {
		c.B = appendObservation(c.B, o)
	} else {
		*o = readObservationIn(&c.Reader, nil)
	}
}

// readObservationIn reads an observation into the memory of x, which may be nil.
func readObservationIn(r *compact.Reader, x [][]float64) Observation {
	o := Observation{Time: r.Time(), ID: r.Text(), Seq: r.Varint(), Log: r.Text()}
	o.Shape, o.Aggregated, o.Events = readShape(r)
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
		o.ExtraFields = r.Text()
	}
	return o
}

func rejectedForm(c *compact.Codec, r *Rejected) {
	compact.Texts(c, &r.Key, &r.Reason)
	panicked, none := r.Panic != nil, false
	if c.Bits(&r.Reset, &panicked, &none); panicked {
		p := compact.Ref(&r.Panic)
		compact.Texts(c, &p.Value, &p.Stack)
	}
	observationForm(c, &r.Observation)
}

func alertEventForm(c *compact.Codec, t *AlertEvent) {
	e := Estimate{Time: t.Time, ID: t.ID, N: t.N, X: t.X, Shape: t.Shape, Predicted: t.Predicted}
	estimateForm(c, &e)
	if alertForm(c, compact.Ref(&t.Alert)); !c.Writes {
		*t = e.event("", e.ID, t.Alert, SourceAlarm)
	}
}

func estimateForm(c *compact.Codec, e *Estimate) {
	c.Times(&e.Time)
	compact.Texts(c, &e.ID)
	compact.Unsigned(c, &e.N)
	shape := e.Shape
	if e.ExtraFields != "" {
		shape |= carriedBit
	}
	shapeForm(c, &shape, &e.Aggregated, &e.Events)
	if e.Shape = shape &^ carriedBit; shape&carriedBit != 0 {
		compact.Texts(c, &e.ExtraFields)
	}
	vectorsForm(c, &e.X)
	momentsForm(c, &e.Predicted, &e.Estimate)
	c.Lists(&e.Lower, &e.Upper, &e.Levels, &e.Posterior)
	c.Scalars(&e.LogPredictive, &e.ELBO, &e.Weight, &e.Memory, &e.LearningRate)
	compact.Unsigned(c, &e.Iterations)
	silent, detects, recovered := e.Silence != nil, e.Detection != nil, e.Recovered != nil
	if c.Bits(&e.Converged, &e.Missing, &silent, &e.Quiet); silent {
		silenceForm(c, compact.Ref(&e.Silence))
	}
	if c.Bits(&e.WarmUp, &detects, &recovered); recovered {
		t := compact.Ref(&e.Recovered)
		compact.Texts(c, &t.ID)
		alertForm(c, compact.Ref(&t.Alert))
	}
	compact.List(c, &e.Bank, 1, func(m *MemberStep) { c.Scalars(&m.Share, &m.Weight, &m.Memory, &m.LogPredictive) })
	if !detects {
		return
	}
	momentsForm(c, &e.Regime)
	d := compact.Ref(&e.Detection)
	compact.Texts(c, &d.Kind)
	c.Scalars(&d.Stay, &d.Outlier, &d.Change)
	c.Times(&d.Start)
	compact.Signed(c, &d.StartN, &d.Delay, &d.Age)
	c.Scalars(&d.Score, &d.Threshold)
	momentsForm(c, &d.Usual)
	alarm, belief, none := e.Alarm != nil, e.Belief != nil, false
	inEpisode := d.Episode != nil
	if c.Bits(&d.Muted, &d.Resting, &inEpisode); inEpisode {
		episodeReportForm(c, compact.Ref(&d.Episode))
	}
	if c.Bits(&alarm, &belief, &none); alarm {
		alertForm(c, compact.Ref(&e.Alarm))
	}
	if belief {
		alertForm(c, compact.Ref(&e.Belief))
	}
	compact.Signed(c, &e.Pace.Step, &e.Pace.Budget)
}

// episodeTag precedes an alert with an episode. Alerts of older states start with the length of their kind.
const episodeTag = 1

func alertForm(c *compact.Codec, a *Alert) {
	inEpisode := a.Episode != nil
	if !c.Writes {
		inEpisode = len(c.B) > 0 && c.B[0] == episodeTag
	}
	if tag := byte(episodeTag); inEpisode {
		compact.Bytes(c, &tag)
		episodeReportForm(c, compact.Ref(&a.Episode))
		compact.Texts(c, &a.Level)
		c.Times(&a.NormalFrom)
	}
	compact.Texts(c, &a.Kind, &a.Corrects)
	c.Times(&a.Start)
	compact.Signed(c, &a.Delay)
	c.Scalars(&a.LogOdds, &a.Size, &a.Score, &a.Threshold)
	compact.Unsigned(c, &a.Output)
	momentsForm(c, &a.Before, &a.After, &a.Usual)
	compact.Texts(c, &a.Message)
}

func episodeReportForm(c *compact.Codec, r *EpisodeReport) {
	compact.Texts(c, &r.ID)
	compact.Texts(c, &r.State)
	c.Times(&r.Since, &r.Worst.Time)
	compact.Unsigned(c, &r.Reports)
	compact.Unsigned(c, &r.Worst.Output)
	momentsForm(c, &r.UsualBefore)
	c.Scalars(&r.Worst.Value, &r.Worst.Size)
}

func momentsForm(c *compact.Codec, moments ...*Moments) {
	for _, m := range moments {
		c.Lists(&m.Mean, &m.SD)
	}
}

func vectorsForm(c *compact.Codec, x *[][]float64) {
	compact.Each(c, []*[][]float64{x}, compact.AppendVectors, func(r *compact.Reader) [][]float64 { return r.Vectors(nil) })
}

func shapeForm(c *compact.Codec, shape *Shape, aggregated *bool, events *int64) {
	if c.Writes {
		c.B = appendShape(c.B, *shape, *aggregated, *events)
	} else {
		*shape, *aggregated, *events = readShape(&c.Reader)
	}
}

func pointForm(c *compact.Codec, p *Point) {
	c.Times(&p.Time)
	compact.Signed(c, &p.Trial)
}

func smoothedForm(c *compact.Codec, s *Smoothed) {
	c.Times(&s.Time)
	compact.Texts(c, &s.ID, &s.Origin, &s.ExtraFields)
	shapeForm(c, &s.Shape, &s.Aggregated, &s.Events)
	vectorsForm(c, &s.X)
	momentsForm(c, &s.Estimate)
	c.Lists(&s.Posterior, &s.Forward.Levels, &s.Backward.Levels)
	c.Scalars(&s.Memory, &s.Forward.Weight, &s.Forward.Memory, &s.Backward.Weight, &s.Backward.Memory, &s.ChangeEvidence, &s.Outlier)
	pointForm(c, &s.Session.Start)
	pointForm(c, &s.Session.End)
	compact.Unsigned(c, &s.N, &s.Session.N, &s.Revision)
	compact.Texts(c, &s.Split, &s.Session.Kind)
	c.Scalars(&s.Session.Against)
	segment, drift := s.Segment != nil, s.Session.Drift != nil
	c.Bits(&s.Change, &s.Missing, &s.Changed)
	c.Bits(&segment, &drift, &s.Session.Wanders)
	if p := &s.ChangeInterval; s.Change {
		c.Times(&p.From, &p.To)
		compact.Unsigned(c, &p.FromN, &p.ToN)
		c.Scalars(&p.Probability)
	}
	if segment {
		g := compact.Ref(&s.Segment)
		pointForm(c, &g.Start)
		compact.Unsigned(c, &g.N)
		momentsForm(c, &g.Estimate, &g.Before)
		c.Lists(&g.Scatter)
	}
	if drift {
		d, none := compact.Ref(&s.Session.Drift), false
		c.Scalars(&d.Rate, &d.Lower, &d.Upper, &d.From, &d.To)
		c.Bits(&d.Positive, &none, &none)
	}
}
