package promio

import (
	"cmp"
	"context"
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

	"hafvf/internal/message"
	"hafvf/internal/series"
)

// A Source says what to ask of a server.
type Source struct {
	Server
	Query string
	// Step is the time between points, which are at multiples of it.
	Step time.Duration
	// Start is the time of the first point, or if that is zero, Ago is how long before the
	// present it is.
	Start time.Time
	Ago   time.Duration
	// Delay is the age at which a point is final.
	Delay time.Duration
	// Key are the labels that make the key of a series. None: all of them do.
	Key []string
	// MaxSeries is the largest number of series that an answer may have.
	MaxSeries int
	// Bounded ends the source at what is final at its start.
	Bounded bool
}

// section is the key of a source in a config.
const section = "source.prometheus"

// A Series has the points of a series in a window of time.
type Series struct {
	Key    string       // see Source.Key
	Metric model.Metric // its labels
	Points []model.SamplePair
	// Reason is why the series is none that can be used: its key is empty, or its points are no
	// numbers. It has a point for each of these.
	Reason string
}

// maxSteps is how many steps one query has at most. Servers answer 11,000.
const maxSteps = 10_000

// windowPoints is how many points an answer should have.
const windowPoints = 1 << 17

// firstSteps are the steps of the first query, before it is known how many series there are, and
// emptySteps the most of a query after one that has found none.
const (
	firstSteps = 16
	emptySteps = 512
)

// A reader asks a server for one window after the other.
type reader struct {
	src   Source
	place string
	api   v1.API
	log   *slog.Logger
	steps int // of the next query
	away  time.Time
	told  time.Time
}

func newReader(src Source, log *slog.Logger) (*reader, error) {
	base, err := src.base(section)
	if err != nil {
		return nil, err
	}
	t, err := newTransport(src.Server, section)
	if err != nil {
		return nil, err
	}
	c, err := api.NewClient(api.Config{Address: base.String(), Client: t.client()})
	if err != nil {
		return nil, fmt.Errorf("%s.url: %w", section, withoutURL(err))
	}
	return &reader{src: src, place: place(base), api: v1.NewAPI(c), log: log, steps: firstSteps}, nil
}

// Check reads the files and secrets that the source names. It does not connect.
func Check(src Source) error {
	_, err := newReader(src, slog.New(slog.DiscardHandler))
	return err
}

// final is the latest time of which the point is final.
func (src Source) final(now time.Time) time.Time {
	return src.onGrid(now.Add(-src.Delay).Add(time.Millisecond - src.Step))
}

// Begin is the time of the first point of a source that begins now.
func (src Source) Begin(now time.Time) time.Time {
	start := src.Start
	if start.IsZero() {
		start = now.Add(-src.Ago)
	}
	return src.onGrid(start)
}

// onGrid is the first time of a point that is not before t. Times are multiples of the step since
// 1970.
func (src Source) onGrid(t time.Time) time.Time {
	step := src.Step.Milliseconds()
	ms := t.UnixMilli()
	if over := ms % step; over > 0 {
		ms += step - over
	}
	return time.UnixMilli(ms).UTC()
}

// ErrAway is the error of a server that does not answer.
var ErrAway = errors.New("does not answer")

// An answerError is an answer other than 2xx, or no answer, with what another attempt may do.
type answerError struct {
	error
	again  bool // the same may be answered later
	shrink bool // less may be answered
}

func (e *answerError) Unwrap() error { return e.error }

// ask asks once for n steps from a time on.
func (r *reader) ask(ctx context.Context, from time.Time, n int) ([]Series, error) {
	within, code := withCode(ctx)
	end := from.Add(time.Duration(n-1) * r.src.Step)
	value, _, _, err := r.api.QueryRange(within, r.src.Query, v1.Range{Start: from, End: end, Step: r.src.Step})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, r.failure(err, int(code.Load()))
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("%s answers the query with a %s, where series are due", r.place, value.Type())
	}
	if len(matrix) > r.src.MaxSeries {
		return nil, fmt.Errorf("%s: the query returns %d series, and max_series is %d: narrow the query, or raise %s.max_series", r.place, len(matrix), r.src.MaxSeries, section)
	}
	return r.src.keyed(matrix), nil
}

// failure says what the server refuses, or that it does not answer.
func (r *reader) failure(err error, code int) error {
	said := &v1.Error{}
	answered := errors.As(err, &said)
	switch {
	case errors.As(err, new(*secretError)):
		return withoutURL(err)
	case errors.Is(err, errTooLong):
		return &answerError{error: fmt.Errorf("%s: %w", r.place, errTooLong), shrink: true}
	case code == 0 || !answered:
		return &answerError{error: fmt.Errorf("%s %w: %w", r.place, ErrAway, withoutURL(err)), again: true, shrink: errors.Is(err, context.DeadlineExceeded)}
	}
	text := said.Msg
	if detail := strings.TrimSpace(said.Detail); detail != "" {
		text += ": " + detail
	}
	e := &answerError{error: fmt.Errorf("%s answers %d %s: %s", r.place, code, http.StatusText(code), message.Printable(text))}
	switch {
	case code == http.StatusUnprocessableEntity:
		e.shrink = true // too much for a query, among others
	case code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout:
		e.again, e.shrink = true, true // it took too long, among others
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code >= 500 || code/100 == 2:
		e.again = true
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.error = fmt.Errorf("%w; set %s.username and password, or headers", e.error, section)
	case code == http.StatusNotFound || code/100 == 3:
		e.error = fmt.Errorf("%w; %s.url is the URL in front of /api/v1/query_range", e.error, section)
	}
	return e
}

// next asks for at most so many steps from a time on, again and again as long as that may help.
// It returns how many steps were answered.
func (r *reader) next(ctx context.Context, from time.Time, most int) (all []Series, steps int, err error) {
	err = patience.Do(ctx, func(ctx context.Context) (err error) {
		for {
			steps = min(r.steps, most, maxSteps)
			all, err = r.ask(ctx, from, steps)
			e := (*answerError)(nil)
			if !errors.As(err, &e) || !e.shrink || steps == 1 {
				return err
			}
			r.steps = (steps + 1) / 2
			if e.again {
				return err
			}
		}
	}, func(err error) bool {
		e := (*answerError)(nil)
		if !errors.As(err, &e) || !e.again {
			return false
		}
		r.outage(err)
		return true
	})
	if err != nil {
		return nil, 0, err
	}
	r.outage(nil)
	most = emptySteps
	if len(all) > 0 {
		most = min(max(1, windowPoints/len(all)), maxSteps)
	}
	r.steps = min(most, 4*max(r.steps, steps)) // a window that was too much is tried again by and by
	return all, steps, nil
}

// outage notes whether the server answers, and says so in the log: at once, and once a minute as
// long as it does not.
func (r *reader) outage(why error) {
	now := time.Now()
	switch {
	case why != nil:
		if r.away.IsZero() {
			r.away = now
		}
		if now.Sub(r.told) >= repeats {
			r.told = now
			r.log.Warn("the server of the source does not answer; the run waits for it", "reason", why.Error())
		}
	case !r.away.IsZero():
		r.log.Info("the server of the source answers again", "server", r.place, "after", now.Sub(r.away).Round(time.Second).String())
		r.away, r.told = time.Time{}, time.Time{}
	}
}

// keyed are the series of an answer, sorted by key.
func (src Source) keyed(matrix model.Matrix) []Series {
	all := make([]Series, 0, len(matrix))
	for _, stream := range matrix {
		s := Series{Metric: stream.Metric, Points: stream.Values}
		if s.Key = src.keyOf(stream.Metric); s.Key == "" {
			s.Reason = "the key is empty: the series has none of the labels " + strings.Join(src.Key, ", ")
		}
		all = append(all, s)
		if h := stream.Histograms; len(h) > 0 {
			none := Series{Key: s.Key, Metric: s.Metric, Reason: "a histogram is no number: take histogram_quantile, histogram_avg or the like in the query"}
			for _, p := range h {
				none.Points = append(none.Points, model.SamplePair{Timestamp: p.Timestamp})
			}
			all = append(all, none)
		}
	}
	slices.SortStableFunc(all, func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Metric.String(), b.Metric.String()))
	})
	return all
}

// noLabels is the key of the series without labels, which a sum over all series is.
const noLabels = "{}"

// keyOf is the key of a series; empty if it has no label that the key takes.
func (src Source) keyOf(m model.Metric) string {
	if len(src.Key) > 0 {
		parts, some := make([]string, len(src.Key)), false
		for i, label := range src.Key {
			parts[i] = string(m[model.LabelName(label)])
			some = some || parts[i] != ""
		}
		switch {
		case !some:
			return ""
		case len(parts) == 1:
			return parts[0]
		}
		return series.Join(parts)
	}
	labels := make(map[string]string, len(m))
	for name, value := range m {
		labels[string(name)] = string(value)
	}
	return cmp.Or(series.Key(labels), noLabels)
}

// Last asks once for the last points that are final, about as many as most of all series.
func Last(ctx context.Context, src Source, most int) ([]Series, error) {
	r, err := newReader(src, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	final := src.final(time.Now())
	all, err := r.ask(ctx, final, 1)
	if err != nil {
		return nil, err
	}
	steps := min(maxSteps, max(2, most/max(1, len(all))))
	for {
		all, err := r.ask(ctx, final.Add(-time.Duration(steps-1)*src.Step), steps)
		if e := (*answerError)(nil); errors.As(err, &e) && e.shrink && steps > 2 {
			steps /= 2
			continue
		}
		return all, err
	}
}
