package serve

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
	"hafvf/pipeline/records"
)

// An answer is what becomes of the observations of one key.
type answer struct {
	m       *model
	of      *batch
	key     string
	est     *keyed.Estimator
	e       keyed.KeyState
	alerted bool // alerts

	before  []time.Time // of the observations that waited before the batch, and wait still
	waiting []waiting   // those of the batch that wait, by time, ties as they came

	state                    []byte
	rows                     int
	deadline                 int64
	places, rejected         []int32
	times                    []int64
	sheet                    sheet
	records, alerts, rejects []byte
	err                      error
}

// A waiting is an observation of the batch that waits for earlier ones.
type waiting struct {
	at    time.Time
	place int32
}

// earlier is the place of what came before the batch, or is an interval.
const earlier = -1

// batch answers a batch. Its keys are worked in parallel, each by one goroutine.
func (s *Server) batch(payload []byte) ([]byte, error) {
	b, err := readBatch(payload)
	if err != nil {
		return nil, err
	}
	if uint64(b.model) >= uint64(len(s.models)) {
		return nil, failed("batch", "model %d is not known: send its settings first", b.model)
	}
	m := s.models[b.model]
	if want := m.description.Length; want > 0 && len(b.times) > 0 && int(b.length) != want {
		return nil, failed("batch", "observations of %d numbers; %s takes %d", b.length, m.cfg.Filter.Family, want)
	}
	before, err := m.before(b)
	if err != nil {
		return nil, err
	}
	all := make([]answer, len(b.parts))
	parallel.Do(len(all), len(m.estimators), func(worker, i int) {
		a := &all[i]
		*a = answer{m: m, of: b, key: b.parts[i].key, est: m.estimators[worker], alerted: b.flags&withAlerts != 0 && m.alerted.Of(b.parts[i].key, true)}
		a.err = a.work(&b.parts[i], before, worker)
	})
	for i := range all {
		a := &all[i]
		if a.err != nil {
			coded := &codedError{Code: "state", Text: a.err.Error()}
			if errors.Is(a.err, keyed.ErrOtherConfig) {
				coded.Code = "other_config"
			}
			errors.As(a.err, &coded)
			coded.Key = a.key
			return nil, coded
		}
	}
	return appendAll(all, b.flags, len(m.description.Columns)), nil
}

// work opens the state of a key, learns its observations, and closes it.
func (a *answer) work(p *part, before *writtenSettings, worker int) error {
	state, err := openState(p.state)
	if err != nil {
		return err
	}
	if found := a.m.kept.take(p.key, p.state); found != nil {
		a.e = *found
		a.e.Bind(a.est)
	} else if a.e, err = a.est.Open(p.key, state); errors.Is(err, keyed.ErrOtherConfig) && before != nil {
		if state, err = before.carry(worker, p.key, state); err == nil {
			a.e, err = a.est.Open(p.key, state)
		}
	}
	if err != nil {
		return err
	}
	if first, _ := a.e.Waiting(); !first.IsZero() && a.m.cfg.Aggregate == nil {
		old, err := a.est.Open(p.key, state)
		if err != nil {
			return err
		}
		old.End(time.Time{})
		for o, ok := old.Due(); ok; o, ok = old.Due() {
			a.before = append(a.before, o.Time)
		}
	}
	if a.learnAll(p); a.err != nil {
		return a.err
	}
	a.close(len(p.state))
	a.m.kept.put(a.key, a.state, a.e)
	a.e, a.before, a.waiting = keyed.KeyState{}, nil, nil // a batch may have many keys
	return nil
}

// learnAll has the key take its observations.
func (a *answer) learnAll(p *part) {
	var memory keyed.Memory
	var out keyed.Estimate
	check := a.est.CheckOf(a.key)
	x := make([]float64, a.of.length)
	xs := [][]float64{x}
	for i := p.from; i < p.to && a.err == nil; i++ {
		o := keyed.Observation{Time: timeOf(a.of.time(i))}
		for j := range x {
			x[j] = a.of.value(i, j)
		}
		if len(x) > 0 {
			o.X = xs
		}
		if len(x) > 1 {
			o.Shape = keyed.Vector
		}
		if a.of.ids != nil {
			o.ID = string(a.of.ids[i])
		}
		a.take(&memory, &out, &o, int32(i), check)
		a.due(&memory, &out)
	}
	switch now := timeOf(a.of.now); {
	case a.err != nil:
		return
	case a.of.horizon == none:
	case a.of.horizon == end:
		a.e.End(now)
	default:
		a.e.Release(timeOf(a.of.horizon))
	}
	a.due(&memory, &out)
	if a.of.now == none || a.err != nil {
		return
	}
	if s, silent := a.e.ReportSilence(timeOf(a.of.now)); silent {
		a.alert(s.Alerts(a.key))
	}
	if a.of.horizon == end {
		a.due(&memory, &out) // intervals without events go on after a silence that is not told
	}
}

// take takes an observation, or rejects it.
func (a *answer) take(memory *keyed.Memory, out *keyed.Estimate, o *keyed.Observation, place int32, check func(*keyed.Observation) error) {
	if err := check(o); err != nil {
		a.reject(o, place, err.Error())
		if a.est.OutOfDomain(a.key, o) {
			if e := a.e.OutOfDomain(o); e != nil && !e.Detection.Muted {
				a.alert(e.Alerts(a.key))
			}
		}
		return
	}
	now, err := a.e.Take(o)
	switch {
	case err != nil:
		a.reject(o, place, err.Error())
	case now:
		a.ended()
		a.learn(memory, out, o, place)
	case a.m.cfg.Aggregate == nil:
		at := len(a.waiting)
		for at > 0 && a.waiting[at-1].at.After(o.Time) {
			at--
		}
		a.waiting = slices.Insert(a.waiting, at, waiting{o.Time, place})
	}
}

// due learns what is due by now.
func (a *answer) due(memory *keyed.Memory, out *keyed.Estimate) {
	for {
		o, ok := a.e.Due()
		a.ended()
		if !ok {
			return
		}
		a.learn(memory, out, &o, a.placeOf(o.Time))
		if a.rows > mostRows || len(a.records)+8*len(a.sheet.numbers) > mostBytes {
			a.err = failed("batch", "more than %d rows, or %d bytes of them: there is a row for each interval between times that are far apart", mostRows, mostBytes)
			return
		}
	}
}

// mostRows is how many rows an answer has of one key.
var mostRows = 1 << 24

// placeOf is the place of an observation that has waited: of those at one time, those of before come first.
func (a *answer) placeOf(at time.Time) int32 {
	if len(a.before) > 0 && !a.before[0].After(at) {
		a.before = a.before[1:]
		return earlier
	}
	if len(a.waiting) == 0 || !a.waiting[0].at.Equal(at) {
		return earlier
	}
	place := a.waiting[0].place
	a.waiting = a.waiting[1:]
	return place
}

// ended tells of silences that are over.
func (a *answer) ended() {
	for _, s := range a.e.EndedSilences() {
		a.alert(s.Alerts(a.key))
	}
	a.e.Expired()
}

// learn makes the row of an observation: predict, then learn.
func (a *answer) learn(memory *keyed.Memory, out *keyed.Estimate, o *keyed.Observation, place int32) {
	a.e.Learn(memory, out, o)
	if out.SkipReason != "" {
		a.reject(o, place, out.SkipReason)
		return
	}
	a.rows++
	if a.of.flags&withRecords != 0 {
		a.records = a.m.layout.AppendEstimate(a.records, records.Object, a.key, out)
	}
	a.alert(out.Alerts(a.key))
	if a.of.flags&withColumns != 0 {
		a.places, a.times = append(a.places, place), append(a.times, nanoseconds(out.Time))
		a.m.appendRow(&a.sheet, out)
	}
}

func (a *answer) alert(all []keyed.AlertEvent) {
	for _, t := range all {
		if a.alerted && t.Basis == keyed.AlarmBasis && (a.of.flags&withEnds != 0 || !t.BackToUsual()) {
			a.alerts = a.m.layout.AppendAlert(a.alerts, records.Object, t, "", nil)
		}
	}
}

func (a *answer) reject(o *keyed.Observation, place int32, reason string) {
	a.rejected = append(a.rejected, place)
	a.rejects = records.AppendReject(a.rejects, records.SourcePlace{ID: o.ID}, "", reason)
}

// close encodes the state, which had so many bytes, unless nothing is known of the key, or it has expired by now.
func (a *answer) close(was int) {
	waits, _ := a.e.Waiting()
	expiry := a.e.Expiry()
	if a.deadline = none; a.e.IsNew() || !expiry.IsZero() && waits.IsZero() && a.of.now != none && expiry.Before(timeOf(a.of.now)) {
		return
	}
	if !expiry.IsZero() {
		expiry = expiry.Add(time.Nanosecond) // after it, not at it
	}
	if !waits.IsZero() {
		waits = waits.Add(a.est.MaxDelay())
	}
	for _, t := range []time.Time{waits, a.e.Deadline(), expiry} {
		if t := nanoseconds(t); t != none && (a.deadline == none || t < a.deadline) {
			a.deadline = t
		}
	}
	if a.of.flags&withStates != 0 {
		a.state, _ = a.e.AppendBinary(make([]byte, checksumBytes, max(was, checksumBytes)+64)) // it grows little
		binary.LittleEndian.PutUint32(a.state, checksumOf(a.state))
	}
}

const checksumBytes = 4

func checksumOf(state []byte) uint32 { return crc32.ChecksumIEEE(state[checksumBytes:]) }

// openState returns the bytes of a state that the caller has kept; nil for none.
func openState(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < checksumBytes || binary.LittleEndian.Uint32(b) != checksumOf(b) {
		return nil, errors.New("the state is damaged: it has another checksum than its bytes")
	}
	return b[checksumBytes:], nil
}

// appendAll is the payload of an answer with so many columns.
func appendAll(all []answer, flags uint32, columns int) (b []byte) {
	n := binary.LittleEndian
	for i := range all {
		a := &all[i]
		b = append(n.AppendUint32(b, uint32(len(a.state))), a.state...)
		b = n.AppendUint32(n.AppendUint32(b, uint32(a.rows)), uint32(len(a.rejected)))
		b = n.AppendUint64(b, uint64(a.deadline))
	}
	for i := range all {
		b = appendPlaces(b, all[i].places)
	}
	for i := range all {
		for _, t := range all[i].times {
			b = n.AppendUint64(b, uint64(t))
		}
	}
	for j := 0; flags&withColumns != 0 && j < columns; j++ {
		for i := range all {
			for k := j; k < len(all[i].sheet.numbers); k += columns {
				b = n.AppendUint64(b, math.Float64bits(all[i].sheet.numbers[k]))
			}
		}
	}
	for i := range all {
		b = appendPlaces(b, all[i].rejected)
	}
	for _, of := range []func(*answer) []byte{
		func(a *answer) []byte { return a.records }, func(a *answer) []byte { return a.alerts }, func(a *answer) []byte { return a.rejects },
	} {
		size := len(b)
		b = n.AppendUint32(b, 0)
		for i := range all {
			b = append(b, of(&all[i])...)
		}
		n.PutUint32(b[size:], uint32(len(b)-size-4))
	}
	return b
}

func appendPlaces(b []byte, places []int32) []byte {
	for _, p := range places {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
	}
	return b
}
