package promio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protowire"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/reminder"
	"hafvf/internal/series"
)

func init() {
	register.Function3x1((&writeFn{}).ProcessElement)
	dofn.Register(func(f *writeFn) any { return f.ProcessElement })
}

// A Sink is a server that accepts series by remote write, version 1.
type Sink struct {
	// Server has a URL. A URL without a path gets writePath.
	httpclient.Server
	// Key contains the labels that the source joins to keys. It is empty if a key is a series.
	Key []string
}

// sinkSection is the key of a sink in a config.
const sinkSection = "sink.prometheus"

// writePath is the path of remote write in Prometheus.
const writePath = "/api/v1/write"

// Write takes a PCollection<[]byte> of connectors.Chunks, which contain estimates with detection. It writes the
// samples of each estimate to the sink, and waits while the server is unavailable. It returns the records that the
// server refuses as a PCollection<connectors.Refused>.
func Write(s beam.Scope, sink Sink, col beam.PCollection) (refused beam.PCollection) {
	dofn.CheckInput("promio.Write", col, dofn.Bytes)
	return beam.ParDo(s.Scope("promio.Write"), &writeFn{Sink: sink}, col)
}

// CheckSink reads the files and secrets that the sink names. It does not connect.
func CheckSink(sink Sink) error {
	_, err := newWriter(sink, nil)
	return err
}

// maxRequestRecords is the maximum number of records in one request.
const maxRequestRecords = 2000

type writeFn struct {
	Sink Sink

	writer  *writer
	pending []sample
}

// A sample is a record with the values that are written.
type sample struct {
	key    string
	timeMS int64                     // in Unix milliseconds
	values [len(metricNames)]float64 // NaN for a missing value
	line   connectors.Line           // the record
}

// metricNames are in the order of sample.values.
var metricNames = [...]string{"hafvf_score", "hafvf_usual", "hafvf_usual_lower", "hafvf_usual_upper", "hafvf_alarm", "hafvf_threshold"}

// bandSD is the distance in standard deviations from the usual value to hafvf_usual_lower and hafvf_usual_upper.
const bandSD = 2

func (fn *writeFn) StartBundle(ctx context.Context, _ func(connectors.Refused)) (err error) {
	fn.pending = nil
	if fn.writer == nil {
		fn.writer, err = newWriter(fn.Sink, account.Value[*slog.Logger](account.From(ctx), ""))
	}
	return err
}

func (fn *writeFn) ProcessElement(ctx context.Context, chunk []byte, refuse func(connectors.Refused)) error {
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return err
		}
		s, err := sampleOf(line)
		if err != nil {
			refuse(s.refused(err.Error()))
			continue
		}
		if fn.pending = append(fn.pending, s); len(fn.pending) == maxRequestRecords {
			if err := fn.flush(ctx, refuse); err != nil {
				return err
			}
		}
	}
	return nil
}

func (fn *writeFn) flush(ctx context.Context, refuse func(connectors.Refused)) error {
	err := fn.writer.write(ctx, fn.pending, func(s *sample, reason string) { refuse(s.refused(reason)) })
	fn.pending = fn.pending[:0]
	return err
}

func (fn *writeFn) FinishBundle(ctx context.Context, refuse func(connectors.Refused)) error {
	return fn.flush(ctx, refuse)
}

// refused returns the record for the dead letter.
func (s *sample) refused(reason string) connectors.Refused {
	return connectors.Refused{Key: s.line.Key, ID: s.line.ID, Text: bytes.TrimSuffix(s.line.Text, []byte("\n")), Reason: "prometheus: " + reason}
}

// sampleOf decodes the record of an estimate. If the value is a vector, the usual values are NaN.
func sampleOf(line connectors.Line) (sample, error) {
	s := sample{key: string(line.Key), line: line}
	var r struct {
		Time   time.Time
		Detect struct {
			Usual            struct{ Mean, SD json.RawMessage }
			Score, Threshold *float64
			Alarm            *string
		}
	}
	if err := json.Unmarshal(line.Text, &r); err != nil {
		return s, err
	}
	if r.Time.IsZero() {
		return s, errors.New("the record has no time")
	}
	number := func(raw json.RawMessage) float64 {
		var v *float64
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return math.NaN()
		}
		return *v
	}
	mean, sd := number(r.Detect.Usual.Mean), number(r.Detect.Usual.SD)
	s.timeMS = r.Time.UnixMilli()
	s.values = [...]float64{math.NaN(), mean, mean - bandSD*sd, mean + bandSD*sd, 0, math.NaN()}
	if r.Detect.Score != nil {
		s.values[0] = *r.Detect.Score
	}
	if r.Detect.Alarm != nil {
		s.values[4] = 1
	}
	if r.Detect.Threshold != nil {
		s.values[5] = *r.Detect.Threshold
	}
	return s, nil
}

// A writer sends samples to a Sink.
type writer struct {
	sink   Sink
	url    string
	place  string
	client *httpclient.Client
	log    *slog.Logger
	labels map[string][]byte // encoded, by metric and key
	outage reminder.Reminder // while the server accepts no samples
}

func newWriter(sink Sink, log *slog.Logger) (*writer, error) {
	client, err := httpclient.New(sinkSection, sink.Server, httpclient.Bounds{Pause: retryPolicy.Last}, log)
	if err != nil {
		return nil, err
	}
	url := client.Base()
	if strings.Trim(url.Path, "/") == "" {
		url.Path = writePath
	}
	return &writer{sink: sink, url: url.String(), place: client.Place(), client: client, log: cmp.Or(log, discardLog), labels: map[string][]byte{}}, nil
}

// write sorts and sends samples, and calls refuse for each sample that the server refuses. It returns an error if
// the server accepts no samples.
func (w *writer) write(ctx context.Context, samples []sample, refuse func(s *sample, reason string)) error {
	slices.SortStableFunc(samples, func(a, b sample) int { return cmp.Compare(a.timeMS, b.timeMS) })
	return w.writePart(ctx, samples, map[string]string{}, refuse)
}

// writePart sends samples, which are sorted by time. If the server refuses a request, writePart sends the later
// half and then the earlier half, until each refused sample is alone. A server that refuses a sample of a key as
// too old or out of order would also refuse the earlier ones. They are therefore not sent, and get the same reason,
// which is in refused by key.
func (w *writer) writePart(ctx context.Context, samples []sample, refused map[string]string, refuse func(s *sample, reason string)) error {
	sending := samples
	if len(refused) > 0 {
		sending = nil
		for i := range samples {
			if reason := refused[samples[i].key]; reason != "" {
				refuse(&samples[i], reason)
			} else {
				sending = append(sending, samples[i])
			}
		}
	}
	if len(sending) == 0 {
		return nil
	}
	reason, err := w.send(ctx, sending)
	switch {
	case err != nil || reason == "":
		return err
	case len(sending) == 1:
		refuse(&sending[0], reason)
		refused[sending[0].key] = reason
		return nil
	}
	half := len(sending) / 2
	if err := w.writePart(ctx, sending[half:], refused, refuse); err != nil {
		return err
	}
	return w.writePart(ctx, sending[:half], refused, refuse)
}

// send sends samples in one request, and repeats it while the server is unavailable. reason is empty if
// the server accepts all of them, and otherwise says why it refuses some.
func (w *writer) send(ctx context.Context, samples []sample) (reason string, err error) {
	stopCtx, end := account.From(ctx).WithStopTimeout(ctx)
	defer end()
	body := snappy.Encode(nil, w.encode(samples))
	var lastErr error
	err = retryPolicy.Do(stopCtx, func(ctx context.Context) error { return w.post(ctx, body) }, func(err error) bool {
		if e, attempted := errors.AsType[*httpclient.AttemptError](err); !attempted || !e.Again {
			return false
		}
		lastErr = err
		if w.outage.Due(repeatInterval) {
			w.log.Warn("sink server unavailable: the run waits for it", "server", w.place, "reason", lastErr.Error())
		}
		return true
	})
	e, attempted := errors.AsType[*httpclient.AttemptError](err)
	switch {
	case err == nil:
		if lastErr != nil {
			w.log.Info("sink server available again", "server", w.place)
			w.outage = reminder.Reminder{}
		}
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case stopCtx.Err() != nil:
		return "", fmt.Errorf("%s accepts no samples: those of %s are not written: %w", w.place, message.Count(len(samples), "record", "records"), cmp.Or(lastErr, context.Cause(stopCtx)))
	case !attempted:
		return "", err
	}
	switch e.Code {
	case http.StatusBadRequest, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return e.Error(), nil
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%w; set %s.username and password, or headers", err, sinkSection)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		err = fmt.Errorf("%w; Prometheus accepts samples with --web.enable-remote-write-receiver; for other servers, %s.url needs their path", err, sinkSection)
	}
	return "", fmt.Errorf("%s: %w", w.place, err)
}

// post sends a request body once.
func (w *writer) post(ctx context.Context, body []byte) error {
	err := w.client.Post(ctx, w.url, http.Header{
		"Content-Encoding":                  {"snappy"},
		"Content-Type":                      {"application/x-protobuf"},
		"X-Prometheus-Remote-Write-Version": {"0.1.0"},
	}, body)
	if e, attempted := errors.AsType[*httpclient.AttemptError](err); attempted && e.Code != 0 {
		e.Err = fmt.Errorf("server returned HTTP status %s: %s", e.Status, message.Line(strings.TrimSpace(e.Text)))
	}
	return err
}

// Field numbers of the messages of remote write: WriteRequest.timeseries, TimeSeries.labels and samples, Label.name
// and value, Sample.value and timestamp.
const (
	requestSeries   = 1
	seriesLabels    = 1
	seriesSamples   = 2
	labelName       = 1
	labelValue      = 2
	sampleValue     = 1
	sampleTimestamp = 2
)

// encode returns the WriteRequest of samples, which are sorted by time.
func (w *writer) encode(samples []sample) []byte {
	var order []string
	byKey := map[string][]*sample{}
	for i := range samples {
		s := &samples[i]
		if byKey[s.key] == nil {
			order = append(order, s.key)
		}
		byKey[s.key] = append(byKey[s.key], s)
	}
	var b, timeSeries, point []byte
	for _, key := range order {
		for i, name := range metricNames {
			timeSeries = w.appendLabels(timeSeries[:0], name, key)
			hasPoint := false
			for _, s := range byKey[key] {
				if v := s.values[i]; !math.IsNaN(v) {
					hasPoint = true
					point = protowire.AppendTag(point[:0], sampleValue, protowire.Fixed64Type)
					point = protowire.AppendFixed64(point, math.Float64bits(v))
					point = protowire.AppendTag(point, sampleTimestamp, protowire.VarintType)
					point = protowire.AppendVarint(point, uint64(s.timeMS))
					timeSeries = appendMessage(timeSeries, seriesSamples, point)
				}
			}
			if hasPoint {
				b = appendMessage(b, requestSeries, timeSeries)
			}
		}
	}
	return b
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

// appendLabels appends the labels of a key's metric, sorted by name.
func (w *writer) appendLabels(b []byte, name, key string) []byte {
	id := name + "\x00" + key
	encoded, known := w.labels[id]
	if !known {
		labels := series.Labels(key, w.sink.Key)
		labels[model.MetricNameLabel] = name
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if labels[name] == "" {
				continue // an empty label is no label
			}
			label := protowire.AppendString(protowire.AppendTag(nil, labelName, protowire.BytesType), name)
			label = protowire.AppendString(protowire.AppendTag(label, labelValue, protowire.BytesType), labels[name])
			encoded = appendMessage(encoded, seriesLabels, label)
		}
		if len(w.labels) >= maxLabels {
			clear(w.labels)
		}
		w.labels[id] = encoded
	}
	return append(b, encoded...)
}

// maxLabels bounds the series whose encoded labels are cached.
const maxLabels = 1 << 18
