package serve

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
	"hafvf/pipeline/records"
)

// A keyAnswer is a key's part of the answer to a batch. It receives the results of the key's observations.
type keyAnswer struct {
	model   *model
	batch   *batch
	key     string
	est     *keyed.Estimator
	e       keyed.KeyState
	memory  *keyed.Memory
	alerted bool // the caller wants alerts, and settings do not switch them off for the key

	state                    []byte
	rows                     int
	deadline                 int64
	indices, rejected        []int32 // in the batch, of rows and of rejects
	times                    []int64 // of rows
	columns                  columns
	records, alerts, rejects []byte
	err                      error
}

// notInBatch is the index of an observation of an earlier batch, and of an interval.
const notInBatch = -1

// maxRows is the maximum number of rows of a key in an answer.
var maxRows = 1 << 24

// batch answers a batch. Each key is processed by one goroutine, and several keys at a time.
func (s *Server) batch(payload []byte) ([]byte, error) {
	b, err := readBatch(payload)
	if err != nil {
		return nil, err
	}
	if uint64(b.model) >= uint64(len(s.models)) || s.models[b.model] == nil {
		return nil, failed("batch", "model %d is not among the last %d used: send its settings first", b.model, maxModels)
	}
	m := s.use(int(b.model))
	if b.flags&withTexts != 0 {
		b.readTimes(m.times)
	}
	if want := m.description.Length; want > 0 && len(b.times) > 0 && int(b.length) != want {
		return nil, failed("batch", "observations of %d numbers; %s takes %d", b.length, m.cfg.Filter.Family, want)
	}
	written, err := m.settingsOfStates(b)
	if err != nil {
		return nil, err
	}
	b.firstIndex = s.observations + 1
	s.observations += int64(len(b.times) / 8)
	answers, memories := make([]keyAnswer, len(b.parts)), make([]keyed.Memory, len(m.estimators))
	parallel.Do(len(answers), len(m.estimators), func(worker, i int) {
		a, key := &answers[i], b.parts[i].key
		alerted := b.flags&withAlerts != 0 && m.alerted.For(key, true)
		*a = keyAnswer{model: m, batch: b, key: key, est: m.estimator(worker), memory: &memories[worker], alerted: alerted}
		a.err = a.process(&b.parts[i], written, worker)
	})
	for i := range answers {
		a := &answers[i]
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
	return appendAnswer(answers, b.flags, len(m.description.Columns)), nil
}

// process opens the state of a key, processes its observations, and encodes the new state.
func (a *keyAnswer) process(p *part, written *writtenSettings, worker int) error {
	state, err := stateBytes(p.state)
	if err != nil {
		return err
	}
	if cached := a.model.states.take(a.model, p.key, p.state); cached != nil {
		a.e = *cached
		a.e.Bind(a.est)
	} else if a.e, err = a.est.Open(p.key, state); errors.Is(err, keyed.ErrOtherConfig) && written != nil {
		if state, err = written.migrated(worker, p.key, state); err == nil {
			a.e, err = a.est.Open(p.key, state)
		}
	}
	if err != nil {
		return err
	}
	if a.processAll(p); a.err != nil {
		return a.err
	}
	a.close(len(p.state))
	a.model.states.put(a.model, a.key, a.state, a.e)
	a.e, a.memory = keyed.KeyState{}, nil // a batch may have many keys
	return nil
}

// processAll processes the observations of a key, and then the observations that are due at the horizon of the batch.
func (a *keyAnswer) processAll(p *part) {
	b := a.batch
	accepts := a.est.Checker(a.key)
	x := make([]float64, b.length)
	xs := [][]float64{x}
	var o keyed.Observation
	for i := p.start; i < p.end && a.err == nil; i++ {
		o = keyed.Observation{Time: timeOf(b.time(i)), Index: b.firstIndex + int64(i)}
		for j := range x {
			x[j] = b.value(i, j)
		}
		if len(x) > 0 {
			o.X = xs
		}
		if len(x) > 1 {
			o.Shape = keyed.Vector
		}
		if b.ids != nil {
			o.ID = string(b.ids[i])
		}
		if wrong := b.wrong[i]; wrong != "" {
			a.reject(&o, wrong)
		} else if err := accepts(&o); err != nil {
			a.refuse(&o, err)
		} else {
			a.e.Process(a.memory, a, &o)
		}
		a.processDue()
	}
	if a.err != nil {
		return
	}
	switch b.horizon {
	case none:
	case end:
		a.e.End(timeOf(b.now))
	default:
		a.e.Release(timeOf(b.horizon))
	}
	a.processDue()
	if b.now == none || a.err != nil {
		return
	}
	if s, silent := a.e.ReportSilence(timeOf(b.now)); silent {
		a.alert(s.Alerts(a.key))
	}
	if b.horizon == end {
		a.processDue() // a silence that is not reported does not end intervals without events
	}
}

func (a *keyAnswer) processDue() {
	for a.err == nil && a.e.ProcessDue(a.memory, a) {
		if a.rows > maxRows || len(a.records)+8*len(a.columns.numbers) > maxFrameBytes {
			a.err = failed("batch", "more than %d rows, or %d bytes of them: there is a row for each interval between times that are far apart", maxRows, maxFrameBytes)
		}
	}
}

// refuse rejects an observation that the model cannot use. A number outside its domain may be an alarm.
func (a *keyAnswer) refuse(o *keyed.Observation, err error) {
	a.Rejected(o, err)
	if a.est.OutOfDomain(a.key, o) {
		if e := a.e.OutOfDomain(o); e != nil && !e.Detection.Muted {
			a.alert(e.Alerts(a.key))
		}
	}
}

// Estimated appends the row of an observation.
func (a *keyAnswer) Estimated(o *keyed.Observation, out *keyed.Estimate) {
	if out.SkipReason != "" {
		a.reject(o, out.SkipReason)
		return
	}
	a.rows++
	if a.batch.flags&withRecords != 0 {
		a.records = a.model.layout.AppendEstimate(a.records, records.Object, a.key, out)
	}
	a.alert(out.Alerts(a.key))
	if a.batch.flags&withColumns != 0 {
		a.indices, a.times = append(a.indices, a.indexOf(o)), append(a.times, nanoseconds(out.Time))
		a.model.appendRow(&a.columns, out)
	}
}

// Rejected appends a reject.
func (a *keyAnswer) Rejected(o *keyed.Observation, err error) { a.reject(o, err.Error()) }

// SilenceEnded appends the alerts of a silence that ended.
func (a *keyAnswer) SilenceEnded(s keyed.SilenceEvent) { a.alert(s.Alerts(a.key)) }

// Expired does nothing: an answer does not report it.
func (*keyAnswer) Expired() {}

// Rewound does nothing: an answer does not report it.
func (*keyAnswer) Rewound(time.Time, *keyed.Observation) {}

func (a *keyAnswer) alert(events []keyed.AlertEvent) {
	for _, t := range events {
		if a.alerted && t.Source == keyed.SourceAlarm && (a.batch.flags&withEnds != 0 || !t.BackToUsual()) {
			a.alerts = a.model.layout.AppendAlert(a.alerts, records.Object, t, "", nil)
		}
	}
}

func (a *keyAnswer) reject(o *keyed.Observation, reason string) {
	a.rejected = append(a.rejected, a.indexOf(o))
	a.rejects = records.AppendReject(a.rejects, records.SourcePlace{ID: o.ID}, "", reason)
}

// indexOf returns the index of an observation in the batch, or notInBatch.
func (a *keyAnswer) indexOf(o *keyed.Observation) int32 {
	return int32(max(o.Index-a.batch.firstIndex, notInBatch))
}

// close encodes the state and sets the deadline. A new key and a key that has expired have no state. oldSize is the
// size of the state before the batch, in bytes.
func (a *keyAnswer) close(oldSize int) {
	waits, _ := a.e.Waiting()
	expiry := a.e.Expiry()
	if a.deadline = none; a.e.IsNew() || !expiry.IsZero() && waits.IsZero() && a.batch.now != none && expiry.Before(timeOf(a.batch.now)) {
		return
	}
	if !expiry.IsZero() {
		expiry = expiry.Add(time.Nanosecond) // the key expires after it, not at it
	}
	if !waits.IsZero() {
		waits = waits.Add(a.est.MaxDelay())
	}
	for _, t := range []time.Time{waits, a.e.Deadline(), expiry} {
		if t := nanoseconds(t); t != none && (a.deadline == none || t < a.deadline) {
			a.deadline = t
		}
	}
	if a.batch.flags&withStates != 0 {
		a.state, _ = a.e.AppendBinary(make([]byte, checksumBytes, max(oldSize, checksumBytes)+64)) // a state grows little
		binary.LittleEndian.PutUint32(a.state, checksumOf(a.state))
	}
}

const checksumBytes = 4

func checksumOf(state []byte) uint32 { return crc32.ChecksumIEEE(state[checksumBytes:]) }

// stateBytes checks the checksum of a caller's state and removes it. It returns nil if there is no state.
func stateBytes(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < checksumBytes || binary.LittleEndian.Uint32(b) != checksumOf(b) {
		return nil, errors.New("the state is damaged: it has another checksum than its bytes; without its state the key begins anew")
	}
	return b[checksumBytes:], nil
}

// appendAnswer returns the payload of an answer; n is the number of columns.
func appendAnswer(answers []keyAnswer, flags uint32, n int) (b []byte) {
	order := binary.LittleEndian
	for i := range answers {
		a := &answers[i]
		b = append(order.AppendUint32(b, uint32(len(a.state))), a.state...)
		b = order.AppendUint32(order.AppendUint32(b, uint32(a.rows)), uint32(len(a.rejected)))
		b = order.AppendUint64(b, uint64(a.deadline))
	}
	for i := range answers {
		b = appendIndices(b, answers[i].indices)
	}
	for i := range answers {
		for _, t := range answers[i].times {
			b = order.AppendUint64(b, uint64(t))
		}
	}
	for j := 0; flags&withColumns != 0 && j < n; j++ {
		for i := range answers {
			for k := j; k < len(answers[i].columns.numbers); k += n {
				b = order.AppendUint64(b, math.Float64bits(answers[i].columns.numbers[k]))
			}
		}
	}
	for i := range answers {
		b = appendIndices(b, answers[i].rejected)
	}
	for _, lines := range []func(*keyAnswer) []byte{
		func(a *keyAnswer) []byte { return a.records }, func(a *keyAnswer) []byte { return a.alerts }, func(a *keyAnswer) []byte { return a.rejects },
	} {
		size := len(b)
		b = order.AppendUint32(b, 0)
		for i := range answers {
			b = append(b, lines(&answers[i])...)
		}
		order.PutUint32(b[size:], uint32(len(b)-size-4))
	}
	return b
}

func appendIndices(b []byte, indices []int32) []byte {
	for _, i := range indices {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return b
}
