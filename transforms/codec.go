package transforms

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf"
)

// Observations, estimates and rejections cross stages in a compact binary form:
// the runner's default for structs neither knows NaN nor is fast.

func init() {
	beam.RegisterCoder(reflect.TypeFor[Observation](),
		func(o Observation) []byte { return appendObservation(nil, o) },
		func(b []byte) (Observation, error) { return decodeAll(b, (*reader).observation) })
	beam.RegisterCoder(reflect.TypeFor[Estimate](),
		func(e Estimate) []byte { return appendEstimate(nil, e) },
		func(b []byte) (Estimate, error) { return decodeAll(b, (*reader).estimate) })
	beam.RegisterCoder(reflect.TypeFor[Silent](),
		func(s Silent) []byte { return appendSilent(nil, s) },
		func(b []byte) (Silent, error) { return decodeAll(b, (*reader).silent) })
	beam.RegisterCoder(reflect.TypeFor[Smoothed](),
		func(s Smoothed) []byte { return appendSmoothed(nil, s) },
		func(b []byte) (Smoothed, error) { return decodeAll(b, (*reader).smoothed) })
	beam.RegisterCoder(reflect.TypeFor[Rejected](),
		func(r Rejected) []byte {
			b := appendString(nil, r.Key)
			b = appendString(b, r.Reason)
			return appendObservation(b, r.Observation)
		},
		func(b []byte) (Rejected, error) {
			return decodeAll(b, func(r *reader) Rejected {
				return Rejected{Key: r.string(), Reason: r.string(), Observation: r.observation()}
			})
		})
}

var errCut = errors.New("transforms: record is cut short or malformed")

func decodeAll[T any](b []byte, decode func(*reader) T) (T, error) {
	r := &reader{b: b}
	v := decode(r)
	if r.bad || len(r.b) != 0 {
		var zero T
		return zero, errCut
	}
	return v, nil
}

func appendObservation(b []byte, o Observation) []byte { return appendFields(b, &o, o.ID, o.Raw) }

// appendFields appends an observation with another ID and Raw.
func appendFields(b []byte, o *Observation, id, raw string) []byte {
	b = appendTime(b, o.Time)
	b = appendString(b, id)
	b = binary.AppendVarint(b, o.Seq)
	b = appendString(b, o.Log)
	b = append(b, byte(o.Shape))
	b = appendVectors(b, o.X)
	return appendString(b, raw)
}

func (r *reader) observation() Observation { return r.observationIn(nil) }

// observationIn reads an observation into the memory of x, which may be nil.
func (r *reader) observationIn(x [][]float64) Observation {
	return Observation{Time: r.time(), ID: r.string(), Seq: r.varint(), Log: r.string(), Shape: Shape(r.byte()), X: r.vectors(x), Raw: r.string()}
}

func appendEstimate(b []byte, e Estimate) []byte {
	b = appendTime(b, e.Time)
	b = appendString(b, e.ID)
	b = binary.AppendUvarint(b, uint64(e.N))
	b = append(b, byte(e.Shape))
	b = appendVectors(b, e.X)
	b = appendMoments(b, e.Predicted)
	b = appendMoments(b, e.Estimate)
	for _, v := range [][]float64{e.Lower, e.Upper, e.Levels, e.Posterior, {e.LogPredictive, e.ELBO, e.Weight, e.Memory}} {
		b = appendFloats(b, v)
	}
	b = binary.AppendUvarint(b, uint64(e.Iterations))
	b = appendFlags(b, e.Converged, e.Missing, e.Silence != nil)
	if e.Silence != nil {
		b = appendSilence(b, e.Silence)
	}
	b = appendFlags(b, e.WarmUp, e.Detection != nil)
	b = binary.AppendUvarint(b, uint64(len(e.Bank)))
	for _, m := range e.Bank {
		b = appendFloats(b, []float64{m.Share, m.Weight, m.Memory, m.LogPredictive})
	}
	d := e.Detection
	if d == nil {
		return b
	}
	b = appendMoments(b, e.Regime)
	b = appendString(b, string(d.Kind))
	b = appendFloats(b, []float64{d.Stay, d.Outlier, d.Change})
	b = appendTime(b, d.Start)
	for _, n := range []int64{d.StartN, d.Delay, d.Age} {
		b = binary.AppendVarint(b, n)
	}
	b = appendFloats(b, []float64{d.Score, d.Threshold})
	b = appendFlags(b, e.Alarm != nil, e.Belief != nil)
	for _, a := range []*Alert{e.Alarm, e.Belief} {
		if a != nil {
			b = appendAlert(b, a)
		}
	}
	return b
}

func appendAlert(b []byte, a *Alert) []byte {
	b = appendString(b, a.Kind)
	b = appendString(b, a.Corrects)
	b = appendTime(b, a.Start)
	b = binary.AppendVarint(b, a.Delay)
	b = appendFloats(b, []float64{a.LogOdds, a.Size})
	b = binary.AppendUvarint(b, uint64(a.Output))
	b = appendMoments(b, a.Before)
	return appendMoments(b, a.After)
}

func (r *reader) alert() *Alert {
	a := &Alert{Kind: r.string(), Corrects: r.string(), Start: r.time(), Delay: r.varint()}
	r.numbers(&a.LogOdds, &a.Size)
	a.Output = int(r.uvarint())
	a.Before, a.After = r.moments(), r.moments()
	return a
}

func appendSilence(b []byte, s *Silence) []byte {
	b = binary.AppendVarint(appendTime(b, s.Since), int64(s.Bound))
	return appendFlags(b, s.Told)
}

func (r *reader) silence() *Silence {
	s := &Silence{Since: r.time(), Bound: time.Duration(r.varint())}
	s.Told, _, _ = r.flags()
	return s
}

func appendSilent(b []byte, s Silent) []byte {
	b = binary.AppendVarint(appendSilence(b, &s.Silence), s.N)
	return binary.AppendVarint(b, int64(s.Outputs))
}

func (r *reader) silent() Silent { return Silent{*r.silence(), r.varint(), int(r.varint())} }

func (r *reader) estimate() Estimate {
	e := Estimate{Time: r.time(), ID: r.string(), N: int64(r.uvarint()), Shape: Shape(r.byte()), X: r.vectors(nil), Predicted: r.moments(), Estimate: r.moments()}
	e.Lower, e.Upper = r.floats(), r.floats()
	e.Levels, e.Posterior = r.floats(), r.floats()
	r.numbers(&e.LogPredictive, &e.ELBO, &e.Weight, &e.Memory)
	e.Iterations = int(r.uvarint())
	var silent bool
	if e.Converged, e.Missing, silent = r.flags(); silent {
		e.Silence = r.silence()
	}
	var detects bool
	e.WarmUp, detects, _ = r.flags()
	for range r.count(1) {
		var m MemberStep
		r.numbers(&m.Share, &m.Weight, &m.Memory, &m.LogPredictive)
		e.Bank = append(e.Bank, m)
	}
	if !detects {
		return e
	}
	e.Regime = r.moments()
	d := &Detection{Kind: hafvf.Kind(r.string())}
	r.numbers(&d.Stay, &d.Outlier, &d.Change)
	d.Start, d.StartN, d.Delay, d.Age = r.time(), r.varint(), r.varint(), r.varint()
	r.numbers(&d.Score, &d.Threshold)
	e.Detection = d
	alarm, belief, _ := r.flags()
	if alarm {
		e.Alarm = r.alert()
	}
	if belief {
		e.Belief = r.alert()
	}
	return e
}

func appendMoments(b []byte, m Moments) []byte {
	return appendFloats(appendFloats(b, m.Mean), m.SD)
}

func (r *reader) moments() Moments { return Moments{r.floats(), r.floats()} }

// numbers reads floats of a known number.
func (r *reader) numbers(to ...*float64) {
	v := r.floats()
	if len(v) != len(to) {
		r.fail()
		return
	}
	for i, p := range to {
		*p = v[i]
	}
}

func appendSmoothed(b []byte, s Smoothed) []byte {
	b = appendTime(b, s.Time)
	b = appendString(b, s.ID)
	b = append(b, byte(s.Shape))
	b = appendVectors(b, s.X)
	for _, v := range [][]float64{s.Estimate.Mean, s.Estimate.SD, s.Posterior, s.Forward.Levels, s.Backward.Levels,
		{s.Memory, s.Forward.Weight, s.Forward.Memory, s.Backward.Weight, s.Backward.Memory, s.ChangeEvidence, s.Outlier}} {
		b = appendFloats(b, v)
	}
	b = appendTime(b, s.Session.Start)
	b = appendTime(b, s.Session.End)
	for _, n := range []int64{s.N, s.Session.N, s.Revision} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = appendString(b, s.Split)
	b = appendFlags(b, s.Change, s.Missing, s.Changed)
	b = appendFlags(b, s.Segment != nil)
	if g := s.Segment; g != nil {
		b = binary.AppendUvarint(appendTime(b, g.Start), uint64(g.N))
		b = appendFloats(appendMoments(b, g.Estimate), g.Before)
	}
	return b
}

func (r *reader) smoothed() Smoothed {
	s := Smoothed{Time: r.time(), ID: r.string(), Shape: Shape(r.byte()), X: r.vectors(nil)}
	for _, v := range []*[]float64{&s.Estimate.Mean, &s.Estimate.SD, &s.Posterior, &s.Forward.Levels, &s.Backward.Levels} {
		*v = r.floats()
	}
	r.numbers(&s.Memory, &s.Forward.Weight, &s.Forward.Memory, &s.Backward.Weight, &s.Backward.Memory, &s.ChangeEvidence, &s.Outlier)
	s.Session.Start, s.Session.End = r.time(), r.time()
	s.N, s.Session.N, s.Revision = int64(r.uvarint()), int64(r.uvarint()), int64(r.uvarint())
	s.Split = r.string()
	s.Change, s.Missing, s.Changed = r.flags()
	if there, _, _ := r.flags(); there {
		s.Segment = &Segment{Start: r.time(), N: int64(r.uvarint()), Estimate: r.moments(), Before: r.floats()}
	}
	return s
}

// appendFlags appends up to three booleans as a byte.
func appendFlags(b []byte, all ...bool) []byte {
	flags := byte(0)
	for i, on := range all {
		if on {
			flags |= 1 << i
		}
	}
	return append(b, flags)
}

func (r *reader) flags() (first, second, third bool) {
	flags := r.byte()
	return flags&1 != 0, flags&2 != 0, flags&4 != 0
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, 0)
	}
	b = append(b, 1)
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendFloats(b []byte, v []float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

func appendVectors(b []byte, x [][]float64) []byte {
	b = binary.AppendUvarint(b, uint64(len(x)))
	for _, v := range x {
		b = appendFloats(b, v)
	}
	return b
}

// A reader takes values off the front of b. A value that does not fit sets bad, and
// all later values are zero.
type reader struct {
	b    []byte
	text string // that ends as b does; strings are cut from it. Where it is empty they are copies
	bad  bool
}

func (r *reader) fail() {
	r.bad, r.b = true, nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// count reads the number of entries of at least size bytes each.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) string() string {
	n := r.count(1)
	rest := r.b
	r.b = rest[n:]
	if at := len(r.text) - len(rest); at >= 0 {
		return r.text[at : at+n]
	}
	return string(rest[:n])
}

func (r *reader) floats() []float64 { return r.floatsIn(nil) }

// floatsIn reads floats into the memory of v, which may be nil. None are nil.
func (r *reader) floatsIn(v []float64) []float64 {
	n := r.count(8)
	if n == 0 {
		return nil
	}
	if cap(v) < n {
		v = make([]float64, n)
	}
	v = v[:n]
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(r.b[8*i:]))
	}
	r.b = r.b[8*n:]
	return v
}

// vectors reads vectors into the memory of v, which may be nil.
func (r *reader) vectors(v [][]float64) [][]float64 {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	if cap(v) < n {
		v = make([][]float64, n)
	}
	v = v[:n]
	for i := range v {
		v[i] = r.floatsIn(v[i])
	}
	return v
}

func (r *reader) time() time.Time {
	switch r.byte() {
	case 0:
		return time.Time{}
	case 1:
		sec := r.varint()
		nsec := r.uvarint()
		if nsec >= 1e9 {
			r.fail()
			return time.Time{}
		}
		return time.Unix(sec, int64(nsec)).UTC()
	}
	r.fail()
	return time.Time{}
}
