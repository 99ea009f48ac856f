package promio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protowire"

	"hafvf/connectors"
	"hafvf/connectors/internal/retry"
	"hafvf/internal/account"
	"hafvf/internal/httpclient"
	"hafvf/internal/secret"
	"hafvf/internal/testing/badserver"
	"hafvf/internal/testing/expect"
)

// Points are at multiples of the step since 1970 for any start, and are final after the delay.
func TestSourceGrid(t *testing.T) {
	src := Source{Step: 7 * time.Minute, Delay: time.Minute, Ago: time.Hour}
	now := time.UnixMilli(7 * 60_000 * 1000).UTC()
	for _, c := range []struct{ got, want time.Time }{
		{src.alignUp(now), now},
		{src.alignUp(now.Add(time.Millisecond)), now.Add(src.Step)},
		{src.lastFinal(now), now.Add(-src.Step)},
		{src.lastFinal(now.Add(time.Minute)), now},
		{src.lastFinal(now.Add(time.Minute - time.Millisecond)), now.Add(-src.Step)},
		{src.Begin(now), now.Add(-8 * src.Step)},
	} {
		if !c.got.Equal(c.want) {
			t.Errorf("%v instead of %v", c.got, c.want)
		}
	}
}

// A store accepts remote write. It refuses requests that contain a sample before oldest.
type store struct {
	oldest int64
	codes  []int // of the next answers

	mu       sync.Mutex
	requests int
	samples  map[string]bool // name, key and time
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if len(s.codes) > 0 {
		w.WriteHeader(s.codes[0])
		s.codes = s.codes[1:]
		return
	}
	packed, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	b, err := snappy.Decode(nil, packed)
	if err != nil {
		panic(err)
	}
	var ids []string
	for _, series := range messages(b, requestSeries) {
		name := ""
		for _, label := range messages(series, seriesLabels) {
			name += string(messages(label, labelName)[0]) + "=" + string(messages(label, labelValue)[0]) + " "
		}
		for _, sample := range messages(series, seriesSamples) {
			_, _, n := protowire.ConsumeTag(sample)
			_, m := protowire.ConsumeFixed64(sample[n:])
			_, _, k := protowire.ConsumeTag(sample[n+m:])
			ms, _ := protowire.ConsumeVarint(sample[n+m+k:])
			if int64(ms) < s.oldest {
				http.Error(w, "too old", http.StatusBadRequest)
				return
			}
			ids = append(ids, fmt.Sprint(name, ms))
		}
	}
	for _, id := range ids {
		if s.samples[id] {
			http.Error(w, "twice: "+id, http.StatusInternalServerError)
			return
		}
		s.samples[id] = true
	}
}

// messages returns the messages of a field.
func messages(b []byte, field protowire.Number) (found [][]byte) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if b = b[n:]; number == field && kind == protowire.BytesType {
			m, n := protowire.ConsumeBytes(b)
			found, b = append(found, m), b[n:]
			continue
		}
		b = b[protowire.ConsumeFieldValue(number, kind, b):]
	}
	return found
}

func (s *store) writer(t *testing.T) *writer {
	t.Helper()
	s.samples = map[string]bool{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	w := expect.Get(newWriter(Sink{Server: httpclient.Server{URL: secret.Text{Text: server.URL}, Timeout: time.Minute}}, slog.New(slog.DiscardHandler)))(t)
	return w
}

// records returns estimates of the given number of keys at the times 1 to n.
func records(t *testing.T, keys, n int) (samples []sample) {
	t.Helper()
	for i := range keys {
		for ms := 1; ms <= n; ms++ {
			key := fmt.Sprintf("k%d", i)
			text := fmt.Sprintf(`{"key":%q,"time":%q,"detect":{"usual":{"mean":1,"sd":2},"score":null,"threshold":4,"alarm":"novelty"}}`+"\n", key, time.UnixMilli(int64(ms)).UTC().Format(time.RFC3339Nano))
			s := expect.Get(sampleOf(connectors.Line{Key: []byte(key), ID: fmt.Sprint(key, ms), Text: []byte(text)}))(t)
			if want := [...]float64{0, 1, -3, 5, 1, 4}; !math.IsNaN(s.values[0]) || [5]float64(s.values[1:]) != [5]float64(want[1:]) {
				t.Fatalf("%v instead of %v", s.values, want)
			}
			samples = append(samples, s)
		}
	}
	return samples
}

// Exactly the samples that the server refuses are refused, with its reason and in far fewer requests than samples.
// The others are written once.
func TestWriteRefused(t *testing.T) {
	shortenPauses(t)
	const keys, n = 20, 100
	for _, oldest := range []int64{0, 1, 37, 100, 1000} {
		s := &store{oldest: oldest, codes: []int{503}}
		refused := 0
		err := s.writer(t).write(t.Context(), records(t, keys, n), func(r *sample, why string) {
			if refused++; r.timeMS >= oldest || !strings.Contains(why, "too old") {
				t.Errorf("%s is refused: %s", r.line.ID, why)
			}
		})
		expect.OK(t, err)
		want := keys * int(min(max(oldest-1, 0), n))
		if refused != want || len(s.samples) != 5*(keys*n-want) { // there are no scores
			t.Errorf("before %d: %d of %d refused, %d samples", oldest, refused, want, len(s.samples))
		}
		if s.requests > 10*keys {
			t.Errorf("before %d: %d requests", oldest, s.requests)
		}
		if oldest == 0 && !s.samples["__name__=hafvf_usual_lower key=k0 1"] {
			t.Error("no hafvf_usual_lower of k0 at 1")
		}
	}
}

// A redirect is refused with its target, and an endless answer is not read to its end.
func TestRedirectAndEndlessAnswer(t *testing.T) {
	url, other := badserver.Start(t)
	redirect := "redirect to " + other + " was not followed"
	for path, want := range map[string]string{"/redirect": redirect, "/endless": "the answer is longer than 32 MB", "/refuses": "answers 418"} {
		src := Source{Server: httpclient.Server{URL: secret.Text{Text: url + path}, Timeout: time.Minute}, Query: "up", Step: time.Minute, MaxSeries: 1}
		if _, err := Last(t.Context(), src, 2); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "token") || len(err.Error()) > 1000 {
			t.Errorf("a query to %s: %v", path, err)
		}
	}
	for path, want := range map[string]string{"/redirect": redirect, "/endless": "", "/refuses": "418"} {
		w, err := newWriter(Sink{Server: httpclient.Server{URL: secret.Text{Text: url + path}, Timeout: time.Minute}}, nil)
		expect.OK(t, err)
		err = w.write(t.Context(), records(t, 1, 1), func(*sample, string) { t.Error("refused") })
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "token")) {
			t.Errorf("samples to %s: %v", path, err)
		}
	}
}

// A pause is at most as long as in the policy, whatever the server asks for.
func TestWriteRetryAfter(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 {
			w.Header().Set("Retry-After", []string{"86400", "Sun, 06 Nov 2194 08:49:37 GMT"}[requests-1])
			w.WriteHeader([]int{503, 429}[requests-1])
		}
	}))
	t.Cleanup(s.Close)
	shortenPauses(t)
	w := expect.Get(newWriter(Sink{Server: httpclient.Server{URL: secret.Text{Text: s.URL}, Timeout: time.Minute}}, nil))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.write(ctx, records(t, 1, 1), func(*sample, string) { t.Error("refused") }); err != nil || requests != 3 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

// An error that does not refuse samples ends the run and names the remedy.
func TestWriteFails(t *testing.T) {
	expect.Waits(t, "the pauses between requests")
	for code, want := range map[int]string{401: "sink.prometheus.username", 404: "--web.enable-remote-write-receiver", 301: "301"} {
		err := (&store{codes: []int{code}}).writer(t).write(t.Context(), records(t, 1, 1), func(*sample, string) { t.Error("refused") })
		expect.Error(t, err, want)
	}
	run := account.Watch()
	run.Stop()
	away := &store{codes: slices.Repeat([]int{503}, 100)}
	expect.Error(t, away.writer(t).write(run.In(t.Context()), records(t, 1, 2), func(*sample, string) { t.Error("refused") }), "accepts no samples: those of 2 records are not written: server returned HTTP status 503")
	ctx, cancel := context.WithCancelCause(t.Context())
	errGone := errors.New("gone")
	time.AfterFunc(100*time.Millisecond, func() { cancel(errGone) })
	s := &store{codes: []int{503, 503, 503, 503}}
	if err := s.writer(t).write(account.Watch().In(ctx), records(t, 1, 1), func(*sample, string) { t.Error("refused") }); err != errGone {
		t.Errorf("a cancelled run: %v", err)
	}
}

// answers starts a server whose n-th answer has the n-th text and status 200. The last text is repeated. START in a
// text is replaced by the time of the first queried point.
func answers(t *testing.T, asked *int, texts ...string) httpclient.Server {
	t.Helper()
	*asked = 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := texts[min(*asked, len(texts)-1)]
		*asked++
		io.WriteString(w, strings.ReplaceAll(text, "START", r.FormValue("start")))
	}))
	t.Cleanup(s.Close)
	return httpclient.Server{URL: secret.Text{Text: s.URL}, Timeout: time.Minute}
}

const (
	whole     = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[START,"1"]]}]}}`
	warned    = `{"status":"success","warnings":["store s3: deadline exceeded"],"data":{"resultType":"matrix","result":[]}}`
	victoria  = `{"status":"success","isPartial": true,"data":{"resultType":"matrix","result":[]}}`
	annotated = `{"status":"success","warnings":["PromQL warning: w","PromQL warning: w2"],"infos":["PromQL info: i"],"isPartial":false,"data":{"resultType":"matrix","result":[{"metric":{"isPartial":"true"},"values":[[START,"1"]]}]}}`
	login     = "<!DOCTYPE html>\n<title>Sign in</title>"
)

// noAnswers are JSON, but not answers to a query.
var noAnswers = []string{
	"{}", "null", `{"message":"upstream is restarting"}`, `{"status":"success"}`, `{"status":"success","data":null}`, `{"status":"success","data":{}}`,
	`{"status":"success","data":{"resultType":"matrix","result":[null]}}`,
}

// shortenPauses makes attempts follow at once.
func shortenPauses(t *testing.T) {
	t.Helper()
	old := retryPolicy
	retryPolicy = retry.Policy{First: time.Millisecond, Last: time.Millisecond}
	t.Cleanup(func() { retryPolicy = old })
}

// A partial answer is queried again, or accepted if the config says so. An answer that only has notes is complete,
// and each note is logged once. An answer that does not come from Prometheus ends a run without earlier answers,
// and is queried again later.
func TestPartialAnswers(t *testing.T) {
	shortenPauses(t)
	for _, c := range []struct {
		name     string
		partial  string
		attempts int
		windows  int
		texts    []string
		asked    int
		partials int64
		points   int
		err      string
		log      string // warnings
	}{
		{"thanos", Wait, 0, 1, []string{warned, warned, warned, warned, whole}, 5, 4, 1, "", "answers in part: the run waits for complete answers: store s3: deadline exceeded"},
		{"victoria", Wait, 0, 1, []string{victoria, whole}, 2, 1, 1, "", "answers in part: the run waits for complete answers: isPartial is true"},
		{"taken", Take, 0, 1, []string{warned}, 1, 1, 0, "", "answers in part: the run accepts partial answers: store s3: deadline exceeded"},
		{"taken of victoria", Take, 3, 1, []string{victoria}, 1, 1, 0, "", "answers in part: the run accepts partial answers: isPartial is true"},
		{"attempts", Wait, 3, 1, []string{warned}, 3, 3, 0, "answers in part: store s3: deadline exceeded; set source.prometheus.partial to take", "answers in part: the run waits for complete answers: store s3: deadline exceeded"},
		{"notes", Wait, 0, 2, []string{annotated}, 2, 0, 1, "", "notes PromQL warning: w, notes PromQL warning: w2, notes PromQL info: i"},
		{"login page", Wait, 0, 1, []string{login}, 1, 0, 0, "does not answer like Prometheus: <!DOCTYPE html> <title>Sign in</title>; source.prometheus.url", ""},
		{"other JSON", Wait, 0, 1, []string{`["a"]`}, 1, 0, 0, `does not answer like Prometheus: ["a"];`, ""},
		{"no answer", Wait, 0, 1, []string{"null"}, 1, 0, 0, "does not answer like Prometheus: null;", ""},
		{"no answer later", Wait, 0, 2, append([]string{whole}, append(noAnswers, whole)...), 2 + len(noAnswers), 0, 1, "", ""},
		{"login page later", Wait, 0, 2, []string{whole, login, login, whole}, 4, 0, 1, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, tally, logText := 0, &Tally{}, &strings.Builder{}
			src := Source{Server: answers(t, &asked, c.texts...), Query: "up", Step: time.Minute, MaxSeries: 9, Partial: c.partial, Attempts: c.attempts}
			r, err := newReader(src, slog.New(slog.NewTextHandler(logText, nil)), tally)
			expect.OK(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var found []Series
			for i := 0; i < c.windows && err == nil; i++ {
				found, _, err = r.next(ctx, time.Unix(int64(1200+60*i), 0), 1)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v", err)
			}
			if len(found) != c.points || asked != c.asked || tally.Partial.Load() != c.partials {
				t.Errorf("%d series after %d queries, %d partial", len(found), asked, tally.Partial.Load())
			}
			var warnings []string
			for line := range strings.Lines(logText.String()) {
				m := regexp.MustCompile(`level=WARN msg="source server (answers in part: [^"]*)".*answers in part: (.*); set source`).FindStringSubmatch(line)
				if m != nil {
					warnings = append(warnings, m[1]+": "+m[2])
				}
				if m := regexp.MustCompile(`level=WARN .* note="(.*)"`).FindStringSubmatch(line); m != nil {
					warnings = append(warnings, "notes "+m[1])
				}
			}
			expect.Same(t, c.log, strings.Join(warnings, ", "), "the log")
		})
	}
}

// A window that is too large for the server is halved. Too many series end the run.
func TestQueryTooLarge(t *testing.T) {
	shortenPauses(t)
	var windows []int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
		if windows = append(windows, int(end-start)/60+1); end-start > 120 && len(windows) < 9 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			io.WriteString(w, `{"status":"error","errorType":"execution","error":"too many samples"}`)
			return
		}
		io.WriteString(w, strings.ReplaceAll(whole, "START", r.FormValue("start")))
	}))
	t.Cleanup(s.Close)
	for maxSeries, want := range map[int]string{1: "", 0: "1 series"} {
		windows = nil
		server := httpclient.Server{URL: secret.Text{Text: s.URL}, Timeout: time.Minute}
		src := Source{Server: server, Query: "up", Step: time.Minute, MaxSeries: maxSeries}
		r, err := newReader(src, slog.New(slog.DiscardHandler), &Tally{})
		expect.OK(t, err)
		r.steps = 20
		_, _, err = r.next(t.Context(), time.Unix(1200, 0), 100)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("at most %d series: %v", maxSeries, err)
		}
		expect.Same(t, []int{20, 10, 5, 3}, windows)
	}
}

// Windows grow until an answer has about 131,072 points of all series, which bounds the memory of an answer.
func TestWindowsGrow(t *testing.T) {
	for series, want := range map[int][]int{100: {16, 64, 256, 1024, 1310, 1310}, 1: {16, 64, 256, 1024, 4096, 10_000}} {
		var windows []int
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var found []string
			for i := range series {
				found = append(found, fmt.Sprintf(`{"metric":{"k":"%d"},"values":[[%s,"1"]]}`, i, r.FormValue("start")))
			}
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(found, ","))
		}))
		t.Cleanup(s.Close)
		server := httpclient.Server{URL: secret.Text{Text: s.URL}, Timeout: time.Minute}
		src := Source{Server: server, Query: "up", Step: time.Minute, MaxSeries: 1000}
		r := expect.Get(newReader(src, slog.New(slog.DiscardHandler), &Tally{}))(t)
		for range want {
			_, steps, err := r.next(t.Context(), time.Unix(1200, 0), 100_000)
			expect.OK(t, err)
			windows = append(windows, steps)
		}
		expect.Same(t, want, windows, series, " series")
	}
}

// Last queries partial answers three times.
func TestLastPartial(t *testing.T) {
	shortenPauses(t)
	for want, texts := range map[string][]string{"": {warned, victoria, whole, warned, whole}, "answers in part: isPartial is true": {warned, warned, victoria}} {
		asked := 0
		_, err := Last(t.Context(), Source{Server: answers(t, &asked, texts...), Query: "up", Step: time.Minute, MaxSeries: 9}, 100)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || asked != len(texts) {
			t.Errorf("%d queries, %v", asked, err)
		}
	}
}

// Last asks for as many steps as give about maxPoints points of all series.
func TestLastSteps(t *testing.T) {
	for series, want := range map[int]time.Duration{0: 100, 1: 100, 4: 25, 200: 2} {
		steps := time.Duration(0)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start, end := expect.Get(strconv.ParseFloat(r.FormValue("start"), 64))(t), expect.Get(strconv.ParseFloat(r.FormValue("end"), 64))(t)
			steps = time.Duration((end-start)/60) + 1
			var found []string
			for i := range series {
				found = append(found, fmt.Sprintf(`{"metric":{"k":"%d"},"values":[[%f,"1"]]}`, i, end))
			}
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(found, ","))
		}))
		server := httpclient.Server{URL: secret.Text{Text: s.URL}, Timeout: time.Minute}
		expect.Get(Last(t.Context(), Source{Server: server, Query: "up", Step: time.Minute, MaxSeries: 1000}, 100))(t)
		expect.Same(t, want, steps, series, " series")
		s.Close()
	}
}

// keyed returns each point in the window once and in order, whatever the server sends.
func TestKeyedDropsPoints(t *testing.T) {
	point := func(ms int64, v float64) model.SamplePair {
		return model.SamplePair{Timestamp: model.Time(ms), Value: model.SampleValue(v)}
	}
	stream := func(name string, points ...model.SamplePair) *model.SampleStream {
		return &model.SampleStream{Metric: model.Metric{"k": "a", "name": model.LabelValue(name)}, Values: points}
	}
	src := Source{Key: []string{"k"}}
	got, dropped := src.keyed(model.Matrix{
		stream("x", point(1000, 1), point(2000, 2), point(2000, 3), point(5000, 4), point(5001, 5), point(999, 6)),
		stream("y", point(2000, 7)), // of the same key
		stream("x", point(3000, 8), point(1000, 9)),
		stream("z", point(9000, 1)),
	}, time.UnixMilli(1000), time.UnixMilli(5000))
	want := []Series{
		{Key: "a", Metric: stream("x").Metric, Points: []model.SamplePair{point(1000, 1), point(2000, 2), point(3000, 8), point(5000, 4)}},
		{Key: "a", Metric: stream("y").Metric, Points: []model.SamplePair{point(2000, 7)}},
	}
	if diff := cmp.Diff(want, got); diff != "" || dropped != 5 {
		t.Errorf("%d dropped (-want +got)\n%s", dropped, diff)
	}
}

// A refused query fails with the remedy.
func TestQueryFails(t *testing.T) {
	for code, want := range map[int]string{
		400: "400 Bad Request: wrong", 401: "; set source.prometheus.username and password, or headers", 403: "; set source.prometheus.username and password, or headers",
		404: "; source.prometheus.url is the URL in front of /api/v1/query_range",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, `{"status":"error","errorType":"bad_data","error":"wrong"}`)
		}))
		t.Cleanup(s.Close)
		_, err := Last(t.Context(), Source{Server: httpclient.Server{URL: secret.Text{Text: s.URL}, Timeout: time.Minute}, Query: "up", Step: time.Minute, MaxSeries: 9}, 1)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: error %v, without %s", code, err, want)
		}
	}
}

// A position is decoded as it was encoded. Other values of a state file are not a position.
func TestPosition(t *testing.T) {
	begin := time.UnixMilli(1767225600123).UTC()
	var p Position
	expect.Same(t, "", string(expect.Get(p.AppendBinary(nil))(t)), "before it has begun")
	p.Start(begin)
	b := expect.Get(p.AppendBinary([]byte("x")))(t)[1:]
	expect.Same(t, true, IsPosition(b))
	expect.Same(t, begin, expect.Get(ParsePosition(b))(t).Begin)
	for _, other := range []string{"", "prom", "in.csv 7"} {
		expect.Same(t, time.Time{}, expect.Get(ParsePosition([]byte(other)))(t).Begin, other)
	}
	for _, damaged := range [][]byte{b[:len(b)-1], append(b, 1)} {
		_, err := ParsePosition(damaged)
		expect.Error(t, err, "damaged")
	}
}
