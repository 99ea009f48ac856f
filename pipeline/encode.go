package pipeline

import (
	"context"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/connectors/webhook"
	"hafvf/hafvf/keyed"
	"hafvf/internal/dofn"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	transforms.RegisterEncoder(asRecords, func(ctx context.Context, text string) transforms.Encoder { return newEncoder(ctx, text) })
	transforms.RegisterSmoothedEncoder(asRecords, func(ctx context.Context, text string) transforms.SmoothedEncoder { return newEncoder(ctx, text) })
	register.Function3x0((&encodeRejectedFn{}).ProcessElement)
	dofn.Register(func(f *encodeRejectedFn) any { return f.ProcessElement })
	register.Function3x0((&encodeRefusedFn{}).ProcessElement)
	dofn.Register(func(f *encodeRefusedFn) any { return f.ProcessElement })
}

// asRecords is the name of the encoders. Their setting is the text of an encoding.
const asRecords = "records"

// encoding is the setting of an encoder.
type encoding struct {
	Layout   records.Layout
	As       records.Form // of the records
	Alerts   bool         // whether there is a sink for alerts
	Kinds    []string     // of the alarms among them
	AlertsAs records.Form
}

// An encoder turns estimates into lines, each with its key and id, and counts them for the
// run's summary.
type encoder struct {
	encoding
	run   *run
	tally tally
}

func newEncoder(ctx context.Context, text string) *encoder {
	return &encoder{encoding: settingOf[encoding](text), run: runOf(ctx)}
}

func (e *encoder) Estimate(to *transforms.Encoded, key string, of *keyed.Estimate) {
	e.tally.estimate(key, of)
	to.Records = e.Layout.AppendEstimate(connectors.Chunk(to.Records).Begin([]byte(key), of.ID), e.As, key, of)
	to.Lines++
	if e.Alerts {
		for _, told := range told(key, of, e.Kinds) {
			e.alert(to, key, told)
		}
	}
}

func (e *encoder) Silent(to *transforms.Encoded, key string, s keyed.Silent) {
	if e.Alerts && slices.Contains(e.Kinds, keyed.SilentAlarm) {
		e.alert(to, key, s.Alert(key))
	}
}

func (e *encoder) alert(to *transforms.Encoded, key string, t keyed.Told) {
	to.Alerts = e.Layout.AppendAlert(connectors.Chunk(to.Alerts).Begin([]byte(key), t.Of.ID), e.AlertsAs, key, t.Of, t.Alert)
	to.Lines++
}

func (e *encoder) Smoothed(to *transforms.Encoded, key string, s *keyed.Smoothed) {
	e.tally.smoothed(key, s)
	to.Records = e.Layout.AppendSmoothed(connectors.Chunk(to.Records).Begin([]byte(key), s.ID), e.As, key, s)
	to.Lines++
}

func (e *encoder) Flush() { e.tally.flush(e.run) }

// told are the alerts of an estimate, among them the alarms of these kinds. An alarm of a
// change stands for the belief in it.
func told(key string, e *keyed.Estimate, kinds []string) (all []keyed.Told) {
	if e.Silence != nil {
		all = slices.DeleteFunc(e.Silence.Alerts(key, e), func(t keyed.Told) bool { return !slices.Contains(kinds, t.Kind) })
	}
	alarmed := e.Alarm != nil && slices.Contains(kinds, e.Alarm.Kind)
	if alarmed {
		all = append(all, keyed.Told{Of: e, Alert: e.Alarm})
	}
	if e.Belief != nil && !(alarmed && e.Belief.Kind == e.Alarm.Kind) {
		all = append(all, keyed.Told{Of: e, Alert: e.Belief})
	}
	return all
}

// encodeRejectedFn turns what the filter rejected into dead-letter records.
type encodeRejectedFn struct{}

func (fn *encodeRejectedFn) ProcessElement(ctx context.Context, r keyed.Rejected, emit func([]byte)) {
	runOf(ctx).reject(r.Reason, r.ID, r.Raw)
	emit(records.AppendReject(connectors.Chunk(nil).Begin([]byte(r.Key), r.ID), records.Place{ID: r.ID, Log: r.Log, Seq: r.Seq}, r.Raw, r.Reason))
}

// encodeRefusedFn turns what a webhook did not take into dead-letter records.
type encodeRefusedFn struct{}

func (fn *encodeRefusedFn) ProcessElement(ctx context.Context, r webhook.Refused, emit func([]byte)) {
	if run := runOf(ctx); run != nil {
		run.log.Error("an alert was not delivered; it is in the dead letter", "key", string(r.Key), "id", r.ID, "reason", r.Reason)
	}
	emit(records.AppendReject(connectors.Chunk(nil).Begin(r.Key, r.ID), records.Place{ID: r.ID}, string(r.Text), r.Reason))
}
