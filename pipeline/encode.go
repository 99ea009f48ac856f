package pipeline

import (
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	register.DoFn4x0[string, transforms.Estimate, func([]byte), func([]byte)](&encodeEstimatesFn{})
	register.DoFn3x0[string, transforms.Smoothed, func([]byte)](&encodeSmoothedFn{})
	register.DoFn2x0[transforms.Rejected, func([]byte)](&encodeRejectedFn{})
}

// chunk is the number of bytes of lines that are emitted at once.
const chunk = 256 << 10

// An encoder gathers records as lines in chunks, and counts them for the run's summary.
type encoder struct {
	Run    string
	Layout records.Layout
	As     records.Form // of the records

	lines, alerts connectors.Chunk
	added         int // alerts, which come in addition to a line for every record
	run           *run
	tally         tally
}

func (fn *encoder) start() { fn.run = runOf(fn.Run) }

// flush emits the lines if there are at least so many bytes.
func (fn *encoder) flush(least int, emit, alert func([]byte)) {
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
	encoder
	Alerts   bool     // whether there is a sink for alerts
	Kinds    []string // of the alarms among them
	AlertsAs records.Form
}

func (fn *encodeEstimatesFn) StartBundle(_, _ func([]byte)) { fn.start() }

func (fn *encodeEstimatesFn) ProcessElement(key string, e transforms.Estimate, emit, alert func([]byte)) {
	fn.lines = fn.Layout.AppendEstimate(fn.lines.Begin([]byte(key), e.ID), fn.As, key, &e)
	for _, a := range fn.told(&e) {
		fn.added++
		fn.alerts = fn.Layout.AppendAlert(fn.alerts.Begin([]byte(key), e.ID), fn.AlertsAs, key, &e, a)
	}
	fn.tally.estimate(key, &e)
	fn.flush(chunk, emit, alert)
}

// told are the alerts of an estimate. An alarm of a change stands for the belief in it.
func (fn *encodeEstimatesFn) told(e *transforms.Estimate) (all []*transforms.Alert) {
	if !fn.Alerts {
		return nil
	}
	if e.Alarm != nil && slices.Contains(fn.Kinds, e.Alarm.Kind) {
		all = append(all, e.Alarm)
	}
	if e.Belief != nil && (all == nil || e.Belief.Kind != all[0].Kind) {
		all = append(all, e.Belief)
	}
	return all
}

func (fn *encodeEstimatesFn) FinishBundle(emit, alert func([]byte)) { fn.flush(0, emit, alert) }

// encodeSmoothedFn turns smoothed estimates into chunks of lines.
type encodeSmoothedFn struct{ encoder }

func (fn *encodeSmoothedFn) StartBundle(_ func([]byte)) { fn.start() }

func (fn *encodeSmoothedFn) ProcessElement(key string, s transforms.Smoothed, emit func([]byte)) {
	fn.lines = fn.Layout.AppendSmoothed(fn.lines.Begin([]byte(key), s.ID), fn.As, key, &s)
	fn.tally.smoothed(key, &s)
	fn.flush(chunk, emit, nil)
}

func (fn *encodeSmoothedFn) FinishBundle(emit func([]byte)) { fn.flush(0, emit, nil) }

// encodeRejectedFn turns what the filter rejected into dead-letter records.
type encodeRejectedFn struct{}

func (*encodeRejectedFn) ProcessElement(r transforms.Rejected, emit func([]byte)) {
	emit(records.AppendReject(connectors.Chunk(nil).Begin([]byte(r.Key), r.ID), records.Place{ID: r.ID, Log: r.Log, Seq: r.Seq}, r.Raw, r.Reason))
}
