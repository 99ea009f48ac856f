package pipeline

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	register.DoFn4x0[string, transforms.Estimate, func([]byte), func([]byte)](&encodeEstimatesFn{})
	register.DoFn3x0[string, transforms.Smoothed, func([]byte)](&encodeSmoothedFn{})
	register.DoFn2x0[transforms.Rejected, func([]byte)](&encodeRejectedFn{})
}

// chunk is how many bytes of lines cross to the sink at once.
const chunk = 256 << 10

// An encoder gathers records as lines, in chunks, and notes them in the run's
// summary.
type encoder struct {
	Run    string
	Layout records.Layout

	lines, alerts connectors.Chunk
	run           *run
	tally         tally
}

func (fn *encoder) start() { fn.run = runOf(fn.Run) }

// flush emits lines once there are enough of them.
func (fn *encoder) flush(least int, emit, alert func([]byte)) {
	if len(fn.lines) < least {
		return
	}
	if len(fn.lines) > 0 {
		emit(fn.lines)
		fn.lines = nil
	}
	if len(fn.alerts) > 0 {
		alert(fn.alerts)
		fn.alerts = nil
	}
	if fn.run != nil {
		fn.run.note(&fn.tally)
	}
	fn.tally = tally{}
}

// more adds a line that comes in addition to what was counted as in flight.
func (fn *encoder) more() {
	if fn.run != nil {
		fn.run.add(1)
	}
}

// encodeEstimatesFn turns estimates into chunks of JSON lines, and their alerts.
type encodeEstimatesFn struct {
	encoder
	Alerts bool // somebody takes them; otherwise they would be in flight for ever
}

func (fn *encodeEstimatesFn) StartBundle(_, _ func([]byte)) { fn.start() }

func (fn *encodeEstimatesFn) ProcessElement(key string, e transforms.Estimate, emit, alert func([]byte)) {
	fn.lines = fn.Layout.AppendEstimate(fn.lines.Begin([]byte(key), e.ID), key, &e)
	if fn.Alerts && e.Alert != nil {
		fn.more()
		fn.alerts = fn.Layout.AppendAlert(fn.alerts.Begin([]byte(key), e.ID), key, &e)
	}
	fn.tally.estimate(key, &e)
	fn.flush(chunk, emit, alert)
}

func (fn *encodeEstimatesFn) FinishBundle(emit, alert func([]byte)) { fn.flush(0, emit, alert) }

// encodeSmoothedFn turns smoothed estimates into chunks of JSON lines.
type encodeSmoothedFn struct{ encoder }

func (fn *encodeSmoothedFn) StartBundle(_ func([]byte)) { fn.start() }

func (fn *encodeSmoothedFn) ProcessElement(key string, s transforms.Smoothed, emit func([]byte)) {
	fn.more()
	fn.lines = fn.Layout.AppendSmoothed(fn.lines.Begin([]byte(key), s.ID), key, &s)
	fn.tally.smoothed(key, &s)
	fn.flush(chunk, emit, nil)
}

func (fn *encodeSmoothedFn) FinishBundle(emit func([]byte)) { fn.flush(0, emit, nil) }

// encodeRejectedFn turns what the filter rejected into dead-letter records.
type encodeRejectedFn struct{}

func (*encodeRejectedFn) ProcessElement(r transforms.Rejected, emit func([]byte)) {
	emit(records.AppendReject(connectors.Chunk(nil).Begin([]byte(r.Key), r.ID), records.Place{ID: r.ID, Log: r.Log, Seq: r.Seq}, r.Raw, r.Reason))
}
