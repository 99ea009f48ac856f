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

	"hafvf/internal/httpclient"
	"hafvf/internal/message"
	"hafvf/internal/reminder"
	"hafvf/internal/secret"
	"hafvf/internal/series"
)

// A Source says what to ask of a server.
type Source struct {
	httpclient.Server
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
	// Partial is Take, if an answer is taken of which the server says that it is not whole.
	// Otherwise the server is asked again.
	Partial string
	// Attempts is how often a server is asked that answers in part. Zero is as often as it takes.
	Attempts int
}

// What becomes of a partial answer.
const (
	Wait = "wait"
	Take = "take"
)

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

// A windowReader asks a server for one window after the other.
type windowReader struct {
	src      Source
	place    string
	hides    func(quoted string) string // secrets that a server repeats
	listener *listener
	api      v1.API
	log      *slog.Logger
	tally    *Tally
	steps    int // of the next query

	answered bool              // a query was
	taken    error             // why the last answer, which was taken, is not whole; nil if it is
	parts    int               // attempts that were answered in part, one after the other
	away     reminder.Reminder // there is no whole answer
	partial  bool              // there is one in part
	notes    map[string]bool
}

// A listener hands requests on, and keeps of the last answer what the API leaves out.
type listener struct {
	api.Client
	code int // 0 if there was none
	body []byte
}

func (l *listener) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	l.code, l.body = 0, nil
	answer, body, err := l.Client.Do(ctx, r)
	if err == nil {
		l.code, l.body = answer.StatusCode, body
	}
	return answer, body, err
}

// partial reports whether the answer says so as VictoriaMetrics does.
func (l *listener) partial() bool {
	var quoted struct{ IsPartial bool }
	return bytes.Contains(l.body, []byte(`"isPartial"`)) && json.Unmarshal(l.body, &quoted) == nil && quoted.IsPartial
}

func newReader(src Source, log *slog.Logger, tally *Tally) (*windowReader, error) {
	to, err := httpclient.New(section, src.Server, httpclient.Bounds{Answer: maxAnswer}, log)
	if err != nil {
		return nil, err
	}
	c, err := api.NewClient(api.Config{Address: to.Base().String(), Client: to.HTTP()})
	if err != nil {
		return nil, fmt.Errorf("%s.url: %w", section, httpclient.Bare(err))
	}
	l := &listener{Client: c}
	return &windowReader{src: src, place: to.Place(), hides: to.Hidden, listener: l, api: v1.NewAPI(l), log: cmp.Or(log, quiet), tally: cmp.Or(tally, &Tally{}), steps: firstSteps, notes: map[string]bool{}}, nil
}

// Check reads the files and secrets that the source names. It does not connect.
func Check(src Source) error {
	_, err := newReader(src, nil, nil)
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

// ask asks once for n steps from a time on.
func (r *windowReader) ask(ctx context.Context, from time.Time, n int) ([]Series, error) {
	defer func() { r.listener.body = nil }()
	r.taken = nil
	end := from.Add(time.Duration(n-1) * r.src.Step)
	value, warnings, infos, err := r.api.QueryRange(ctx, r.src.Query, v1.Range{Start: from, End: end, Step: r.src.Step})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, r.failure(err)
	}
	matrix, ok := value.(model.Matrix)
	if value == nil || slices.Contains(matrix, nil) { // JSON without data, as of a proxy
		return nil, r.failure(&v1.Error{Type: v1.ErrBadResponse, Msg: "the answer has no data of a query"})
	}
	if !ok {
		return nil, fmt.Errorf("%s answers the query with a %s, where series are due", r.place, value.Type())
	}
	r.answered = true
	if err := r.whole(warnings, infos); err != nil {
		return nil, err
	}
	if len(matrix) > r.src.MaxSeries {
		return nil, fmt.Errorf("%s: the query returns %d series, and max_series is %d: narrow the query, or raise %s.max_series", r.place, len(matrix), r.src.MaxSeries, section)
	}
	all, dropped := r.src.keyed(matrix, from, end)
	r.tally.Dropped.Add(int64(dropped))
	return all, nil
}

// annotations begin what a server notes of the query itself, which is so for every answer.
var annotations = []string{"PromQL warning:", "PromQL info:"}

// maxNotes bounds the annotations that are known: they may name metrics.
const maxNotes = 1000

// whole returns an error if the server says that its last answer is partial, as Thanos and Mimir
// do while a store is away, unless such an answer is taken. It tells the log of annotations, each
// once.
func (r *windowReader) whole(warnings v1.Warnings, infos v1.Infos) error {
	why := ""
	for _, text := range slices.Concat(warnings, v1.Warnings(infos)) {
		annotates := func(prefix string) bool { return strings.HasPrefix(text, prefix) }
		switch {
		case !slices.ContainsFunc(annotations, annotates) && slices.Contains(warnings, text):
			why = cmp.Or(why, message.Printable(r.hides(text)))
		case !r.notes[text] && len(r.notes) < maxNotes:
			r.notes[text] = true
			r.log.Warn("the server of the source notes something of the query", "note", message.Printable(r.hides(text)))
		}
	}
	if r.listener.partial() {
		why = cmp.Or(why, "isPartial is true")
	}
	if why == "" {
		r.parts = 0
		return nil
	}
	r.tally.Partial.Add(1)
	e := &answerError{error: fmt.Errorf("%s answers in part: %s; %s.partial: take takes what there is", r.place, why, section), again: true, shrink: true, partial: true}
	if r.src.Partial != Take {
		return e
	}
	r.taken = e
	return nil
}

// failure says what the server refuses, or that it does not answer.
func (r *windowReader) failure(err error) error {
	quoted, code := &v1.Error{}, r.listener.code
	answered := errors.As(err, &quoted)
	switch {
	case errors.As(err, new(*httpclient.SecretError)):
		return httpclient.Bare(err)
	case errors.As(err, new(httpclient.TooLong)):
		return &answerError{error: fmt.Errorf("%s: %w", r.place, httpclient.Bare(err)), shrink: true}
	case code == 0 || !answered:
		return &answerError{error: fmt.Errorf("%s %w: %w", r.place, ErrAway, httpclient.Bare(err)), again: true, shrink: errors.Is(err, context.DeadlineExceeded)}
	case code/100 == 2 && quoted.Type == v1.ErrBadResponse && !r.answered:
		words := strings.Join(strings.Fields(r.hides(string(r.listener.body[:min(len(r.listener.body), 2*secret.MaxBytes)]))), " ")
		return fmt.Errorf("%s answers the query with what is none of Prometheus: %s; %s.url is the URL in front of /api/v1/query_range, and a login goes into username and password, or headers", r.place, message.Printable(words), section)
	}
	text, detail := r.hides(quoted.Msg), strings.TrimSpace(quoted.Detail)
	switch {
	case detail != "" && code/100 == 3:
		text = detail
	case detail != "":
		text += ": " + detail
	}
	e := &answerError{error: fmt.Errorf("%s answers %d %s: %s", r.place, code, http.StatusText(code), message.Printable(text))}
	switch {
	case code == http.StatusUnprocessableEntity:
		e.shrink = true // too much for a query, among others
	case code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout:
		e.again, e.shrink = true, true // it took too long, among others
	case httpclient.Temporary(code) || code/100 == 2:
		e.again = true
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		e.error = fmt.Errorf("%w; set %s.username and password, or headers", e.error, section)
	case code == http.StatusNotFound || code/100 == 3:
		e.error = fmt.Errorf("%w; %s.url is the URL in front of /api/v1/query_range", e.error, section)
	}
	return e
}

// again reports whether the server is to be asked again after an error, and tells the log that it
// is.
func (r *windowReader) again(err error) bool {
	e := (*answerError)(nil)
	if !errors.As(err, &e) || !e.again {
		return false
	}
	if !e.partial {
		r.parts = 0
	} else if r.parts++; r.parts == r.src.Attempts {
		return false
	}
	r.outage(e)
	return true
}

// next asks for at most so many steps from a time on, again and again as long as that may help.
// It returns how many steps were answered.
func (r *windowReader) next(ctx context.Context, from time.Time, most int) (all []Series, steps int, err error) {
	err = outageTimeout.Do(ctx, func(ctx context.Context) (err error) {
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
	}, r.again)
	if err != nil {
		return nil, 0, err
	}
	r.outage(r.taken)
	most = emptySteps
	if len(all) > 0 {
		most = min(max(1, windowPoints/len(all)), maxSteps)
	}
	r.steps = min(most, 4*max(r.steps, steps)) // a window that was too much is tried again by and by
	return all, steps, nil
}

// outage notes whether the server answers, and in whole, and says so in the log: at once, and once
// a minute as long as it does not.
func (r *windowReader) outage(why error) {
	if why == nil {
		if !r.away.Since.IsZero() {
			r.log.Info("the server of the source answers again", "server", r.place, "after", r.away.Lasts().Round(time.Second).String())
		}
		r.away = reminder.Reminder{}
		return
	}
	e := (*answerError)(nil)
	if partial := errors.As(why, &e) && e.partial; partial != r.partial {
		r.partial, r.away = partial, reminder.Reminder{Since: r.away.Since} // that is news
	}
	if !r.away.Due(repeats) {
		return
	}
	words := "the server of the source does not answer; the run waits for it"
	switch {
	case r.partial && r.src.Partial == Take:
		words = "the server of the source answers in part; the run takes what there is"
	case r.partial:
		words = "the server of the source answers in part; the run waits for the rest"
	}
	r.log.Warn(words, "reason", why.Error())
}

// keyed are the series of an answer, sorted by key. Points outside of the window that was asked for,
// and those of a series at one time but for the first, are dropped, and counted.
func (src Source) keyed(matrix model.Matrix, from, end time.Time) (all []Series, dropped int) {
	all = make([]Series, 0, len(matrix))
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
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Metric.String(), b.Metric.String()), cmp.Compare(a.Reason, b.Reason))
	})
	kept := all[:0]
	for _, s := range all {
		n := len(kept)
		if n > 0 && kept[n-1].Key == s.Key && kept[n-1].Reason == s.Reason && kept[n-1].Metric.Equal(s.Metric) {
			kept[n-1].Points = append(kept[n-1].Points, s.Points...) // the same series again
		} else {
			kept = append(kept, s)
		}
	}
	clear(all[len(kept):])
	for i := range kept {
		had := len(kept[i].Points)
		kept[i].Points = within(kept[i].Points, model.TimeFromUnixNano(from.UnixNano()), model.TimeFromUnixNano(end.UnixNano()))
		dropped += had - len(kept[i].Points)
	}
	return slices.DeleteFunc(kept, func(s Series) bool { return len(s.Points) == 0 }), dropped
}

// within are the points of a window, in the order of their times, and of one time the first.
func within(points []model.SamplePair, from, end model.Time) []model.SamplePair {
	points = slices.DeleteFunc(points, func(p model.SamplePair) bool { return p.Timestamp < from || p.Timestamp > end })
	slices.SortStableFunc(points, func(a, b model.SamplePair) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	return slices.CompactFunc(points, func(a, b model.SamplePair) bool { return a.Timestamp == b.Timestamp })
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

// lastAttempts is how often Last asks a server that answers in part.
const lastAttempts = 3

// Last asks for the last points that are final, about as many as most of all series. It does not
// wait for a server that is away.
func Last(ctx context.Context, src Source, most int) ([]Series, error) {
	src.Attempts = lastAttempts
	r, err := newReader(src, nil, nil)
	if err != nil {
		return nil, err
	}
	ask := func(from time.Time, n int) (all []Series, err error) {
		err = outageTimeout.Do(ctx, func(ctx context.Context) error {
			all, err = r.ask(ctx, from, n)
			return err
		}, func(err error) bool {
			e := (*answerError)(nil)
			return errors.As(err, &e) && e.partial && r.again(err)
		})
		return all, err
	}
	final := src.final(time.Now())
	all, err := ask(final, 1)
	if err != nil {
		return nil, err
	}
	steps := min(maxSteps, max(2, most/max(1, len(all))))
	for {
		all, err := ask(final.Add(-time.Duration(steps-1)*src.Step), steps)
		if e := (*answerError)(nil); errors.As(err, &e) && e.shrink && !e.partial && steps > 2 {
			steps /= 2
			continue
		}
		return all, err
	}
}
