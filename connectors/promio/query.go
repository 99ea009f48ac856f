package promio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"hafvf/internal/domain"
	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/reminder"
	"hafvf/internal/secret"
	"hafvf/internal/series"
)

// A Source describes a query and its server.
type Source struct {
	httpclient.Server
	Query string
	// Step is the time between points. Their times are multiples of Step.
	Step time.Duration
	// Start is the time of the first point. If Start is zero, the first point is Ago before the present.
	Start time.Time
	Ago   time.Duration
	// Delay is the age from which a point is final.
	Delay time.Duration
	// Key contains the labels that make the key of a series. If it is empty, the key consists of all labels.
	Key []string
	// MaxSeries is the maximum number of series in an answer.
	MaxSeries int
	// Bounded ends the source at the latest point that is final when it starts.
	Bounded bool
	// Partial says how to handle partial answers: with Take they are accepted, otherwise the query is repeated.
	Partial string
	// Attempts is the number of partial answers in a row after which a query fails. Zero means no limit.
	Attempts int
}

// Values of Source.Partial.
const (
	Wait = "wait"
	Take = "take"
)

// section is the key of a source in a config.
const section = "source.prometheus"

// A Series contains the points of one series in a time window.
type Series struct {
	Key    string       // see Source.Key
	Metric model.Metric // its labels
	Points []model.SamplePair
	// Reason is why the series cannot be used: its key is empty, or its points are histograms. It is empty for a usable
	// series. For histograms, Points contains their times with zero values.
	Reason string
}

// maxQuerySteps is the maximum number of steps in one query. Servers accept 11,000.
const maxQuerySteps = 10_000

// windowPoints is the target for the number of points in an answer.
const windowPoints = 1 << 17

// firstSteps is the number of steps in the first query, when the number of series is unknown. emptySteps is the
// maximum for a query after one that returned no series.
const (
	firstSteps = 16
	emptySteps = 512
)

// A windowReader queries a server for consecutive windows.
type windowReader struct {
	src      Source
	place    string
	hide     func(quoted string) string // removes secrets from a text of the server
	recorder *recorder
	api      v1.API
	log      *slog.Logger
	tally    *Tally
	steps    int // steps of the next query

	answered       bool              // a query has succeeded
	partialErr     error             // why the last accepted answer is partial; nil if it is complete
	partialAnswers int               // consecutive partial answers
	outage         reminder.Reminder // while there is no complete answer
	partial        bool              // the outage consists of partial answers
	notes          map[string]bool   // annotations that are already logged
}

// A recorder is an api.Client that keeps the parts of the last answer that the API drops.
type recorder struct {
	api.Client
	code int // HTTP status; 0 if there was no answer
	body []byte
}

func (r *recorder) Do(ctx context.Context, req *http.Request) (*http.Response, []byte, error) {
	r.code, r.body = 0, nil
	resp, body, err := r.Client.Do(ctx, req)
	if err == nil {
		r.code, r.body = resp.StatusCode, body
	}
	return resp, body, err
}

// partial reports whether the last answer has VictoriaMetrics' mark of a partial answer.
func (r *recorder) partial() bool {
	var quoted struct{ IsPartial bool }
	return bytes.Contains(r.body, []byte(`"isPartial"`)) && json.Unmarshal(r.body, &quoted) == nil && quoted.IsPartial
}

func newReader(src Source, log *slog.Logger, tally *Tally) (*windowReader, error) {
	client, err := httpclient.New(section, src.Server, httpclient.Bounds{Answer: maxAnswer}, log)
	if err != nil {
		return nil, err
	}
	c, err := api.NewClient(api.Config{Address: client.Base().String(), Client: client.HTTP()})
	if err != nil {
		return nil, fmt.Errorf("%s.url: %w", section, httpclient.Bare(err))
	}
	rec := &recorder{Client: c}
	return &windowReader{src: src, place: client.Place(), hide: client.Hidden, recorder: rec, api: v1.NewAPI(rec), log: cmp.Or(log, discardLog), tally: cmp.Or(tally, &Tally{}), steps: firstSteps, notes: map[string]bool{}}, nil
}

// Check reads the files and secrets that the source names. It does not connect.
func Check(src Source) error {
	_, err := newReader(src, nil, nil)
	return err
}

// lastFinal returns the time of the latest point that is final at now.
func (src Source) lastFinal(now time.Time) time.Time {
	return src.alignUp(now.Add(-src.Delay).Add(time.Millisecond - src.Step))
}

// Begin returns the time of the first point of a source that starts at now.
func (src Source) Begin(now time.Time) time.Time {
	start := src.Start
	if start.IsZero() {
		start = now.Add(-src.Ago)
	}
	return src.alignUp(start)
}

// alignUp returns the first time at or after t that is a multiple of the step since 1970.
func (src Source) alignUp(t time.Time) time.Time {
	step := src.Step.Milliseconds()
	ms := t.UnixMilli()
	if excess := ms % step; excess > 0 {
		ms += step - excess
	}
	return time.UnixMilli(ms).UTC()
}

// ErrAway means that a server does not answer.
var ErrAway = errors.New("does not answer")

// ask sends one query for n steps that begin at start.
func (r *windowReader) ask(ctx context.Context, start time.Time, n int) ([]Series, error) {
	defer func() { r.recorder.body = nil }()
	r.partialErr = nil
	end := start.Add(time.Duration(n-1) * r.src.Step)
	value, warnings, infos, err := r.api.QueryRange(ctx, r.src.Query, v1.Range{Start: start, End: end, Step: r.src.Step})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, r.responseError(err)
	}
	matrix, ok := value.(model.Matrix)
	if value == nil || slices.Contains(matrix, nil) { // JSON without data, for example from a proxy
		return nil, r.responseError(&v1.Error{Type: v1.ErrBadResponse, Msg: "the answer contains no query data"})
	}
	if !ok {
		return nil, fmt.Errorf("%s answers the query with a %s instead of series", r.place, value.Type())
	}
	r.answered = true
	if err := r.checkWhole(warnings, infos); err != nil {
		return nil, err
	}
	if len(matrix) > r.src.MaxSeries {
		return nil, fmt.Errorf("%s: the query returns %d series, and max_series is %d: narrow the query, or raise %s.max_series", r.place, len(matrix), r.src.MaxSeries, section)
	}
	found, dropped := r.src.keyed(matrix, start, end)
	r.tally.Dropped.Add(int64(dropped))
	return found, nil
}

// annotations begin a server's notes about the query itself. They come with every answer.
var annotations = []string{"PromQL warning:", "PromQL info:"}

// maxNotes bounds the remembered annotations, which may contain names of metrics.
const maxNotes = 1000

// checkWhole returns an error if the last answer is partial and Source.Partial is not Take. Thanos and Mimir send
// partial answers while a store is unavailable. It logs each annotation once.
func (r *windowReader) checkWhole(warnings v1.Warnings, infos v1.Infos) error {
	reason := ""
	for _, text := range slices.Concat(warnings, v1.Warnings(infos)) {
		annotates := func(prefix string) bool { return strings.HasPrefix(text, prefix) }
		switch {
		case !slices.ContainsFunc(annotations, annotates) && slices.Contains(warnings, text):
			reason = cmp.Or(reason, message.Printable(r.hide(text)))
		case !r.notes[text] && len(r.notes) < maxNotes:
			r.notes[text] = true
			r.log.Warn("source server sent a note about the query", "note", message.Printable(r.hide(text)))
		}
	}
	if r.recorder.partial() {
		reason = cmp.Or(reason, "isPartial is true")
	}
	if reason == "" {
		r.partialAnswers = 0
		return nil
	}
	r.tally.Partial.Add(1)
	e := &answerError{error: fmt.Errorf("%s answers in part: %s; set %s.partial to take to accept partial answers", r.place, reason, section), temporary: true, shrink: true, partial: true}
	if r.src.Partial != Take {
		return e
	}
	r.partialErr = e
	return nil
}

// responseError turns an error of the API into an error that names the server and its answer, or wraps ErrAway if
// there was no answer.
func (r *windowReader) responseError(err error) error {
	quoted, code := &v1.Error{}, r.recorder.code
	answered := errors.As(err, &quoted)
	switch {
	case errors.As(err, new(*httpclient.SecretError)):
		return httpclient.Bare(err)
	case errors.As(err, new(httpclient.TooLong)):
		return &answerError{error: fmt.Errorf("%s: %w", r.place, httpclient.Bare(err)), shrink: true}
	case code == 0 || !answered:
		return &answerError{error: fmt.Errorf("%s %w: %w", r.place, ErrAway, httpclient.Bare(err)), temporary: true, shrink: errors.Is(err, context.DeadlineExceeded)}
	case code/100 == 2 && quoted.Type == v1.ErrBadResponse && !r.answered:
		words := strings.Join(strings.Fields(r.hide(string(r.recorder.body[:min(len(r.recorder.body), 2*secret.MaxBytes)]))), " ")
		return fmt.Errorf("%s does not answer like Prometheus: %s; %s.url is the URL in front of /api/v1/query_range, and a login goes into username and password, or headers", r.place, message.Printable(words), section)
	}
	text, detail := r.hide(quoted.Msg), strings.TrimSpace(quoted.Detail)
	switch {
	case detail != "" && code/100 == 3:
		text = detail
	case detail != "":
		text += ": " + detail
	}
	e := &answerError{error: fmt.Errorf("%s answers %d %s: %s", r.place, code, http.StatusText(code), message.Printable(text))}
	switch {
	case code == http.StatusUnprocessableEntity:
		e.shrink = true // may mean that the query is too large
	case code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout:
		e.temporary, e.shrink = true, true // may mean that the query took too long
	case httpclient.Temporary(code) || code/100 == 2:
		e.temporary = true
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.error = fmt.Errorf("%w; set %s.username and password, or headers", e.error, section)
	case code == http.StatusNotFound || code/100 == 3:
		e.error = fmt.Errorf("%w; %s.url is the URL in front of /api/v1/query_range", e.error, section)
	}
	return e
}

// shouldRetry reports whether to repeat a query after err. If so, it logs the outage.
func (r *windowReader) shouldRetry(err error) bool {
	e := (*answerError)(nil)
	if !errors.As(err, &e) || !e.temporary {
		return false
	}
	if !e.partial {
		r.partialAnswers = 0
	} else if r.partialAnswers++; r.partialAnswers == r.src.Attempts {
		return false
	}
	r.logOutage(e)
	return true
}

// next queries at most maxSteps steps from start, and repeats the query while that may help. It returns the series
// and the number of steps that were answered.
func (r *windowReader) next(ctx context.Context, start time.Time, maxSteps int) (found []Series, steps int, err error) {
	err = retryPolicy.Do(ctx, func(ctx context.Context) (err error) {
		for {
			steps = min(r.steps, maxSteps, maxQuerySteps)
			found, err = r.ask(ctx, start, steps)
			e := (*answerError)(nil)
			if !errors.As(err, &e) || !e.shrink || steps == 1 {
				return err
			}
			r.steps = (steps + 1) / 2
			if e.temporary {
				return err
			}
		}
	}, r.shouldRetry)
	if err != nil {
		return nil, 0, err
	}
	r.logOutage(r.partialErr)
	maxSteps = emptySteps
	if len(found) > 0 {
		maxSteps = min(max(1, windowPoints/len(found)), maxQuerySteps)
	}
	r.steps = min(maxSteps, 4*max(r.steps, steps)) // after a window that was too large, grow again step by step
	return found, steps, nil
}

// logOutage records whether the server answers and its answers are complete; a nil error means that they are.
// During an outage it warns at once and then every minute.
func (r *windowReader) logOutage(err error) {
	if err == nil {
		if !r.outage.Since.IsZero() {
			r.log.Info("source server available again", "server", r.place, "after", r.outage.Lasts().Round(time.Second).String())
		}
		r.outage = reminder.Reminder{}
		return
	}
	e := (*answerError)(nil)
	if partial := errors.As(err, &e) && e.partial; partial != r.partial {
		r.partial, r.outage = partial, reminder.Reminder{Since: r.outage.Since} // warn at once
	}
	if !r.outage.Due(repeatInterval) {
		return
	}
	text := "source server unavailable: the run waits for it"
	switch {
	case r.partial && r.src.Partial == Take:
		text = "source server answers in part: the run accepts partial answers"
	case r.partial:
		text = "source server answers in part: the run waits for complete answers"
	}
	r.log.Warn(text, "reason", err.Error())
}

// keyed returns the series of an answer, sorted by key. It drops and counts points outside the window from start to
// end, and all but the first point of a series at the same time.
func (src Source) keyed(matrix model.Matrix, start, end time.Time) (sorted []Series, dropped int) {
	sorted = make([]Series, 0, len(matrix))
	for _, stream := range matrix {
		s := Series{Metric: stream.Metric, Points: stream.Values}
		if s.Key = src.keyOf(stream.Metric); s.Key == "" {
			s.Reason = "the key is empty: the series has none of the labels " + strings.Join(src.Key, ", ")
		}
		sorted = append(sorted, s)
		if h := stream.Histograms; len(h) > 0 {
			unusable := Series{Key: s.Key, Metric: s.Metric, Reason: "a histogram is not a number: use histogram_quantile, histogram_avg or a similar function in the query"}
			for _, p := range h {
				unusable.Points = append(unusable.Points, model.SamplePair{Timestamp: p.Timestamp})
			}
			sorted = append(sorted, unusable)
		}
	}
	slices.SortStableFunc(sorted, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Metric.String(), b.Metric.String()), cmp.Compare(a.Reason, b.Reason))
	})
	merged := sorted[:0]
	for _, s := range sorted {
		n := len(merged)
		if n > 0 && merged[n-1].Key == s.Key && merged[n-1].Reason == s.Reason && merged[n-1].Metric.Equal(s.Metric) {
			merged[n-1].Points = append(merged[n-1].Points, s.Points...) // the same series again
		} else {
			merged = append(merged, s)
		}
	}
	clear(sorted[len(merged):])
	for i := range merged {
		before := len(merged[i].Points)
		merged[i].Points = inWindow(merged[i].Points, model.TimeFromUnixNano(start.UnixNano()), model.TimeFromUnixNano(end.UnixNano()))
		dropped += before - len(merged[i].Points)
	}
	return slices.DeleteFunc(merged, func(s Series) bool { return len(s.Points) == 0 }), dropped
}

// inWindow returns the points from start to end, both included, sorted by time. It keeps the first of several points
// at the same time.
func inWindow(points []model.SamplePair, start, end model.Time) []model.SamplePair {
	points = slices.DeleteFunc(points, func(p model.SamplePair) bool { return p.Timestamp < start || p.Timestamp > end })
	slices.SortStableFunc(points, func(a, b model.SamplePair) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return slices.CompactFunc(points, func(a, b model.SamplePair) bool { return a.Timestamp == b.Timestamp })
}

// noLabels is the key of a series without labels, such as a sum over all series.
const noLabels = "{}"

// keyOf returns the key of a series. It is empty if the series has none of the labels in Source.Key.
func (src Source) keyOf(m model.Metric) string {
	if len(src.Key) > 0 {
		parts, found := make([]string, len(src.Key)), false
		for i, label := range src.Key {
			parts[i] = string(m[model.LabelName(label)])
			found = found || parts[i] != ""
		}
		switch {
		case !found:
			return ""
		case len(parts) == 1:
			return parts[0]
		}
		return domain.JoinKey(parts)
	}
	labels := make(map[string]string, len(m))
	for name, value := range m {
		labels[string(name)] = string(value)
	}
	return cmp.Or(series.Key(labels), noLabels)
}

// lastAttempts is Source.Attempts of the queries of Last.
const lastAttempts = 3

// Last queries the latest final points of all series, about maxPoints in total. It does not wait for an unavailable
// server.
func Last(ctx context.Context, src Source, maxPoints int) ([]Series, error) {
	src.Attempts = lastAttempts
	r, err := newReader(src, nil, nil)
	if err != nil {
		return nil, err
	}
	ask := func(start time.Time, n int) (found []Series, err error) {
		err = retryPolicy.Do(ctx, func(ctx context.Context) error {
			found, err = r.ask(ctx, start, n)
			return err
		}, func(err error) bool {
			e := (*answerError)(nil)
			return errors.As(err, &e) && e.partial && r.shouldRetry(err)
		})
		return found, err
	}
	final := src.lastFinal(time.Now())
	found, err := ask(final, 1)
	if err != nil {
		return nil, err
	}
	steps := min(maxQuerySteps, max(2, maxPoints/max(1, len(found))))
	for {
		found, err := ask(final.Add(-time.Duration(steps-1)*src.Step), steps)
		if e := (*answerError)(nil); errors.As(err, &e) && e.shrink && !e.partial && steps > 2 {
			steps /= 2
			continue
		}
		return found, err
	}
}
