package pipeline

import (
	"runtime"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/connectors/webhook"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/parallel"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	register.Function4x0((&encodeEstimatesFn{}).ProcessElement)
	dofn.Register(func(f *encodeEstimatesFn) any { return f.ProcessElement })
	register.Function3x0((&encodeSilentFn{}).ProcessElement)
	dofn.Register(func(f *encodeSilentFn) any { return f.ProcessElement })
	register.Function3x0((&encodeSmoothedFn{}).ProcessElement)
	dofn.Register(func(f *encodeSmoothedFn) any { return f.ProcessElement })
	register.Function2x0((&encodeRejectedFn{}).ProcessElement)
	dofn.Register(func(f *encodeRejectedFn) any { return f.ProcessElement })
	register.Function2x0((&encodeRefusedFn{}).ProcessElement)
	dofn.Register(func(f *encodeRefusedFn) any { return f.ProcessElement })
}

// chunk is the number of bytes of lines that are emitted at once.
const chunk = 256 << 10

// waiting is the number of records that are encoded together, in parallel.
const waiting = 1024

// An encoder gathers records as lines in chunks, and counts them for the run's summary.
type encoder[T any] struct {
	Run    string
	Layout records.Layout
	As     records.Form // of the records

	waiting       []keyed[T]
	lines, alerts connectors.Chunk
	added         int // alerts, which come in addition to a line for every record
	run           *run
	tally         tally
}

// keyed is a record with its key.
type keyed[T any] struct {
	key    string
	record T
}

func (fn *encoder[T]) start() { fn.run = runOf(fn.Run) }

// A stretch is what one goroutine makes of its part of the waiting records.
type stretch struct {
	lines, alerts connectors.Chunk
	added         int
}

// add adds a record to those that wait.
func (fn *encoder[T]) add(key string, record T, encode func(to *stretch, key string, record *T), emit, alert func([]byte)) {
	fn.waiting = append(fn.waiting, keyed[T]{key, record})
	if len(fn.waiting) == waiting {
		fn.drain(encode)
		fn.flush(chunk, emit, alert)
	}
}

// finish emits what is left.
func (fn *encoder[T]) finish(encode func(to *stretch, key string, record *T), emit, alert func([]byte)) {
	fn.drain(encode)
	fn.flush(0, emit, alert)
}

// drain encodes the waiting records, each goroutine a stretch of them, and adds the
// stretches in their order.
func (fn *encoder[T]) drain(encode func(to *stretch, key string, record *T)) {
	stretches := make([]stretch, runtime.GOMAXPROCS(0))
	parallel.Stretches(len(fn.waiting), len(stretches), func(i, from, end int) {
		part := fn.waiting[from:end]
		for j := range part {
			encode(&stretches[i], part[j].key, &part[j].record)
		}
	})
	for _, s := range stretches {
		fn.lines = append(fn.lines, s.lines...)
		fn.alerts = append(fn.alerts, s.alerts...)
		fn.added += s.added
	}
	clear(fn.waiting)
	fn.waiting = fn.waiting[:0]
}

// flush emits the lines if there are at least so many bytes.
func (fn *encoder[T]) flush(least int, emit, alert func([]byte)) {
	if len(fn.lines) < least {
		return
	}
	if len(fn.lines) > 0 {
		emit(fn.lines)
		fn.lines = nil
	}
	if len(fn.alerts) > 0 {
		account.Of(fn.Run).Report(account.Report{Emitted: fn.added})
		alert(fn.alerts)
		fn.alerts, fn.added = nil, 0
	}
	if fn.run != nil {
		fn.run.note(&fn.tally)
	}
	fn.tally = tally{}
}

// encodeEstimatesFn turns estimates into chunks of lines, and their alerts.
type encodeEstimatesFn struct {
	encoder[transforms.Estimate]
	Alerts   bool     // whether there is a sink for alerts
	Kinds    []string // of the alarms among them
	AlertsAs records.Form
}

func (fn *encodeEstimatesFn) StartBundle(_, _ func([]byte)) { fn.start() }

func (fn *encodeEstimatesFn) ProcessElement(key string, e transforms.Estimate, emit, alert func([]byte)) {
	fn.tally.estimate(key, &e)
	fn.add(key, e, fn.encode, emit, alert)
}

func (fn *encodeEstimatesFn) FinishBundle(emit, alert func([]byte)) {
	fn.finish(fn.encode, emit, alert)
}

func (fn *encodeEstimatesFn) encode(to *stretch, key string, e *transforms.Estimate) {
	to.lines = fn.Layout.AppendEstimate(to.lines.Begin([]byte(key), e.ID), fn.As, key, e)
	for _, a := range fn.told(key, e) {
		to.added++
		to.alerts = fn.Layout.AppendAlert(to.alerts.Begin([]byte(key), a.Of.ID), fn.AlertsAs, key, a.Of, a.Alert)
	}
}

// told are the alerts of an estimate. An alarm of a change stands for the belief in it.
func (fn *encodeEstimatesFn) told(key string, e *transforms.Estimate) (all []transforms.Told) {
	if !fn.Alerts {
		return nil
	}
	if e.Silence != nil {
		all = slices.DeleteFunc(e.Silence.Alerts(key, e), func(t transforms.Told) bool { return !slices.Contains(fn.Kinds, t.Kind) })
	}
	alarmed := e.Alarm != nil && slices.Contains(fn.Kinds, e.Alarm.Kind)
	if alarmed {
		all = append(all, transforms.Told{Of: e, Alert: e.Alarm})
	}
	if e.Belief != nil && !(alarmed && e.Belief.Kind == e.Alarm.Kind) {
		all = append(all, transforms.Told{Of: e, Alert: e.Belief})
	}
	return all
}

// encodeSilentFn turns keys that are silent into chunks of one alert each.
type encodeSilentFn struct {
	Run    string
	Layout records.Layout
	Alerts bool // whether there is a sink for them
	As     records.Form

	unwanted int
}

func (fn *encodeSilentFn) ProcessElement(key string, s transforms.Silent, alert func([]byte)) {
	if !fn.Alerts {
		fn.unwanted++
		return
	}
	told := s.Alert(key)
	alert(fn.Layout.AppendAlert(connectors.Chunk(nil).Begin([]byte(key), told.Of.ID), fn.As, key, told.Of, told.Alert))
}

func (fn *encodeSilentFn) FinishBundle(func([]byte)) {
	account.Of(fn.Run).Stored(fn.unwanted)
	fn.unwanted = 0
}

// encodeSmoothedFn turns smoothed estimates into chunks of lines.
type encodeSmoothedFn struct{ encoder[transforms.Smoothed] }

func (fn *encodeSmoothedFn) StartBundle(_ func([]byte)) { fn.start() }

func (fn *encodeSmoothedFn) ProcessElement(key string, s transforms.Smoothed, emit func([]byte)) {
	fn.tally.smoothed(key, &s)
	fn.add(key, s, fn.encode, emit, nil)
}

func (fn *encodeSmoothedFn) FinishBundle(emit func([]byte)) { fn.finish(fn.encode, emit, nil) }

func (fn *encodeSmoothedFn) encode(to *stretch, key string, s *transforms.Smoothed) {
	to.lines = fn.Layout.AppendSmoothed(to.lines.Begin([]byte(key), s.ID), fn.As, key, s)
}

// encodeRejectedFn turns what the filter rejected into dead-letter records.
type encodeRejectedFn struct{ Run string }

func (fn *encodeRejectedFn) ProcessElement(r transforms.Rejected, emit func([]byte)) {
	runOf(fn.Run).reject(r.Reason, r.ID, r.Raw)
	emit(records.AppendReject(connectors.Chunk(nil).Begin([]byte(r.Key), r.ID), records.Place{ID: r.ID, Log: r.Log, Seq: r.Seq}, r.Raw, r.Reason))
}

// encodeRefusedFn turns what a webhook did not take into dead-letter records.
type encodeRefusedFn struct{ Run string }

func (fn *encodeRefusedFn) ProcessElement(r webhook.Refused, emit func([]byte)) {
	if run := runOf(fn.Run); run != nil {
		run.log.Error("an alert was not delivered; it is in the dead letter", "key", string(r.Key), "id", r.ID, "reason", r.Reason)
	}
	emit(records.AppendReject(connectors.Chunk(nil).Begin(r.Key, r.ID), records.Place{ID: r.ID}, string(r.Text), r.Reason))
}
