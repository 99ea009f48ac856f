package report

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/httpclient"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline"
	"hafvf/pipeline/records"
)

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the runner's log; errors are also returned by the run
	os.Exit(m.Run())
}

// Texts of a page are in its zone, and events are in UTC.
func TestLiveInAZone(t *testing.T) {
	l := NewLive("pump.yaml", "", berlin(t), pipeline.NewMetrics())
	s := httptest.NewServer(l.Handler("pumps.example"))
	t.Cleanup(s.Close)
	t.Cleanup(l.Close)
	_, empty := get(t, s.URL)
	if !strings.Contains(empty, `"zone":"Europe/Berlin","offsets":[[`) {
		t.Error("a page without alarms lacks the zone's offsets, which it needs for the end of the run")
	}
	events := listen(t, s.URL)
	await(t, events, "state")
	l.raise("pump", 0)
	if eventTime := await(t, events, "alarm").data["time"]; eventTime != "2026-03-01T00:00:00Z" {
		t.Errorf("the time of an event is %v", eventTime)
	}
	l.Observer().Incident(&incidents.Event{ID: "@1", State: incidents.Opened, Keys: 4, NumMembers: 1, Time: liveStart, Start: liveStart, Message: "pump has alarmed."})
	_, text := get(t, s.URL+"/incidents")
	startText, _, _ := strings.Cut(strings.TrimPrefix(text, "hafvf of pump.yaml, since "), ": ")
	parsed, err := time.Parse(time.RFC3339, startText)
	if err != nil || strings.HasSuffix(startText, "Z") || time.Since(parsed) > time.Hour {
		t.Errorf("since %s, %v", startText, err)
	}
	if !strings.Contains(text, "\n2026-03-01T01:00:00+01:00  open ") {
		t.Errorf("the incidents are\n%s", text)
	}
	_, page := get(t, s.URL)
	for _, text := range []string{"All times are in Europe/Berlin.", ">Time (Europe/Berlin)<", `<time datetime="2026-03-01T00:00:00Z" title="2026-03-01T00:00:00Z">2026-03-01T01:00:00+01:00</time>`} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %s", text)
		}
	}
}

// serveLive serves a Live without a run.
func serveLive(t *testing.T) (*Live, *httptest.Server) {
	t.Helper()
	l := NewLive("pump.yaml", "", time.UTC, pipeline.NewMetrics())
	s := httptest.NewServer(l.Handler("pumps.example"))
	t.Cleanup(s.Close)
	t.Cleanup(l.Close)
	return l, s
}

var liveStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// raise reports alarm i of a key.
func (l *Live) raise(key string, i int) {
	t := liveStart.Add(time.Duration(i) * time.Second)
	e := &keyed.Estimate{Time: t, ID: fmt.Sprint("in:", i), X: [][]float64{{9}}}
	e.Predicted.Mean, e.Predicted.SD = []float64{1}, []float64{1}
	e.Alarm = &keyed.Alert{Kind: "novelty", Score: 7, Size: 8, Message: key + " rose"}
	l.Observer().Estimate(key, e, e.Alerts(key))
}

// client returns an HTTP client for url.
func client(t *testing.T, url string) *http.Client {
	t.Helper()
	c := expect.Get(httpclient.New("page", httpclient.Server{URL: secret.Text{Text: url}}, httpclient.Bounds{Answer: 1 << 30}, nil))(t)
	t.Cleanup(c.CloseIdleConnections)
	return c.HTTP()
}

func get(t *testing.T, url string, header ...string) (status int, body string) {
	t.Helper()
	r := expect.Get(http.NewRequest("GET", url, nil))(t)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	answer := expect.Get(client(t, url).Do(r))(t)
	defer answer.Body.Close()
	b := expect.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(b)
}

// An event is an event of /events with its time of arrival.
type event struct {
	name string
	data map[string]any
	came time.Time
}

// listen returns the events of /events until the test ends.
func listen(t *testing.T, url string) <-chan event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, _ := http.NewRequestWithContext(ctx, "GET", url+"/events", nil)
	answer := expect.Get(client(t, url).Do(r))(t)
	events := make(chan event, 10_000)
	go func() {
		defer close(events)
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		e := event{}
		for lines.Scan() {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				e.name = name
			} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				e.data, e.came = nil, time.Now()
				if json.Unmarshal([]byte(data), &e.data) == nil {
					events <- e
				}
			}
		}
	}()
	return events
}

// await returns the next event with that name.
func await(t *testing.T, events <-chan event, name string) event {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case e, more := <-events:
			if !more {
				t.Fatalf("the events ended before %s", name)
			}
			if e.name == name {
				return e
			}
		case <-late:
			t.Fatalf("no event %s", name)
		}
	}
}

var dataOf = regexp.MustCompile(`<dt>([^<]+)</dt><dd><data value="(\d+)">`)

// counts returns the numbers at the top of a page.
func counts(page string) map[string]int {
	numbers := map[string]int{}
	for _, m := range dataOf.FindAllStringSubmatch(page, -1) {
		numbers[m[1]], _ = strconv.Atoi(m[2])
	}
	return numbers
}

// Requests with another Host, or from another site, are refused.
func TestLiveRefusesOtherSites(t *testing.T) {
	l, s := serveLive(t)
	l.raise("pump-1", 1)
	if facts := fmt.Sprint(l.Facts()); !strings.HasPrefix(facts, "[{state the run has not started} {keys 0}") || strings.Contains(facts, "unavailable receivers") {
		t.Errorf("facts of a run without receivers: %s", facts)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"Host", "localhost:" + port}, 200},
		{[]string{"Host", "LOCALHOST:" + port}, 200},
		{[]string{"Host", "localhost."}, 200},
		{[]string{"Host", "LocalHost", "Origin", "http://localhost"}, 200},
		{[]string{"Host", "LOCALHOST", "Origin", "http://evil.example"}, 403},
		{[]string{"Host", "LOCALHOST.evil.example"}, 403},
		{[]string{"Host", "Pumps.Example"}, 200},
		{[]string{"Host", "PUMPS.EXAMPLE.:" + port}, 200},
		{[]string{"Host", "[::1]:" + port}, 200},
		{[]string{"Host", "192.0.2.7"}, 200},
		{[]string{"Host", "evil.example:" + port}, 403},
		{[]string{"Host", "localhost.evil.example"}, 403},
		{[]string{"Host", "127.0.0.1.evil.example"}, 403},
		{[]string{"Origin", s.URL}, 200},
		{[]string{"Origin", "http://evil.example"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, 200},
	} {
		for _, path := range []string{"/", "/incidents"} {
			status, body := get(t, s.URL+path, c.header...)
			if status != c.status || status != 200 && strings.Contains(body, "pump-1") {
				t.Errorf("%s with %q: %d, want %d", path, c.header, status, c.status)
			}
		}
		if c.status == 403 {
			if status, _ := get(t, s.URL+"/events", c.header...); status != 403 {
				t.Errorf("/events with %q: %d", c.header, status)
			}
		}
	}
	l.Observer().Incident(&incidents.Event{ID: "i", State: incidents.Opened, Group: "pump", Time: liveStart, Message: "2 keys of pump have alarmed."})
	_, text := get(t, s.URL+"/incidents")
	if _, same := get(t, s.URL, "Accept", "text/plain"); same != text || !strings.Contains(text, "2 keys of pump have alarmed.") || strings.Contains(text, "<") {
		t.Errorf("%s, and as plain text %s", text, same)
	}
	answer := expect.Get(s.Client().Post(s.URL, "text/plain", strings.NewReader("x")))(t)
	answer.Body.Close()
	if answer.StatusCode != 405 || answer.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error(answer.Status, answer.Header)
	}
}

// Memory is bounded, and the page reports dropped alerts.
func TestLiveIsBounded(t *testing.T) {
	expect.Long(t, "a page of very many keys")
	l, s := serveLive(t)
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	usedBefore := used()
	for i := range 100_000 {
		l.raise(fmt.Sprint("rack/", i%5000), i)
	}
	for i := range 3000 {
		e := incidents.Event{ID: fmt.Sprint(i), State: incidents.Opened, Group: "rack", Time: liveStart.Add(time.Duration(i) * time.Second), Message: "m", Members: make([]incidents.Member, 20)}
		l.Observer().Incident(&e)
		e.State = incidents.Closed
		l.Observer().Incident(&e)
	}
	for i := range 100_000 { // estimates of the key with the last alarm
		l.estimate("rack/4999", &keyed.Estimate{Time: liveStart.Add(time.Duration(i) * time.Second), X: [][]float64{{1}}}, nil)
	}
	inUse := used() - usedBefore
	start := time.Now()
	_, page := get(t, s.URL)
	t.Logf("100,000 alarms and 3,000 incidents: %.1f MB in use; a page of %.1f MB in %v", float64(inUse)/1e6, float64(len(page))/1e6, time.Since(start))
	if inUse > 40e6 {
		t.Errorf("%d bytes in use", inUse)
	}
	if n := counts(page); n["novelty"] != liveAlerts || n["incident records"] != 2*liveIncidents {
		t.Errorf("%v", n)
	}
	for _, text := range []string{"90000 alerts of this run came before those on the page", "2000 incidents are left out"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks: %s", text)
		}
	}
}

// A stuck reader does not block the run, and readers beyond the limit are refused.
func TestLiveReaders(t *testing.T) {
	expect.Long(t, "as many readers as the limit")
	l, s := serveLive(t)
	for range maxReaders {
		c := expect.Get(net.Dial("tcp", strings.TrimPrefix(s.URL, "http://")))(t)
		defer c.Close()
		fmt.Fprint(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n") // and reads nothing
	}
	expect.Soon(t, "all readers are there", func() bool { return l.readers.Load() == maxReaders })
	if status, _ := get(t, s.URL+"/events"); status != 503 {
		t.Errorf("status %d", status)
	}
	start := time.Now()
	for i := range 100_000 {
		l.raise(fmt.Sprint("pump-", i%100), i)
	}
	t.Logf("100,000 alarms in %v with stuck readers", time.Since(start))
	if status, page := get(t, s.URL); status != 200 || counts(page)["novelty"] != liveAlerts {
		t.Errorf("status %d", status)
	}
	l.Close()
	for deadline := time.Now().Add(2 * writeTimeout); l.readers.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d readers are left after the end", l.readers.Load())
		}
	}
}

// A reader that lags too far behind misses events, which the version in the state shows.
func TestLiveSlowReader(t *testing.T) {
	expect.Long(t, "a page that lasts for seconds")
	l, s := serveLive(t)
	events := listen(t, s.URL)
	before := await(t, events, "state").data["version"]
	for i := range 3 * liveNews {
		l.raise("pump", i)
	}
	l.raise("pump", 1) // a repeat
	alarms := 0
	for e := range events {
		if e.name == "alarm" {
			alarms++
		} else if e.name == "state" && e.data["version"] != before {
			if want := l.name(3 * liveNews); e.data["version"] != want {
				t.Errorf("version %v, want %s", e.data["version"], want)
			}
			break
		}
	}
	if alarms == 0 || alarms > 3*liveNews {
		t.Errorf("%d alarms", alarms)
	}
	if page, _ := l.Page(); page.Alarms != 3*liveNews {
		t.Errorf("%d alarms on the page", page.Alarms)
	}
}

// The page of a run that accepts marks has the command of each alarm, and shows marks as soon as they apply.
func TestLiveMarks(t *testing.T) {
	t.Parallel()
	l, s := serveLive(t)
	l.raise("a pump's", 1)
	if _, page := get(t, s.URL); strings.Contains(page, "hafvf mark") {
		t.Error("a page whose run takes no marks has a command")
	}
	l.markTo = "pump.yaml"
	events := listen(t, s.URL)
	l.raise("b", 2)
	await(t, events, "alarm")
	worse := keyed.Alert{Kind: "novelty", Size: 9, Episode: &keyed.EpisodeReport{ID: "in:2", State: keyed.EpisodeWorse, Worst: keyed.Worst{Size: 9}}}
	l.Observer().Estimate("b", nil, []keyed.AlertEvent{{ID: "in:3", Alert: &worse}})
	_, page := get(t, s.URL)
	page = html.UnescapeString(page)
	const command = `<code>printf '%%s\n' '{"key":"%s","time":"2026-03-01T00:00:0%[2]dZ","kind":"novelty","id":"in:%[2]d","start":"0001-01-01T00:00:00Z","size":%[3]d,"episode":{"id":"in:%[2]d"}}' | hafvf mark - in:%[2]d false --config pump.yaml</code>`
	for _, text := range []string{fmt.Sprintf(command, `a pump'\''s`, 1, 8), fmt.Sprintf(command, "b", 2, 9)} {
		if strings.Count(page, text) != 2 { // in the table and in the list of single alarms
			t.Errorf("the page lacks %s", text)
		}
	}
	l.Observer().Marked(records.Mark{ID: "in:2", Mark: records.MarkedExpected, Key: new("b")})
	l.Observer().Marked(records.Mark{ID: "in:2", Mark: records.MarkedFalse, Key: new("b")})
	await(t, events, "alarm")
	if _, page := get(t, s.URL); strings.Count(page, "marked false") != 2 || strings.Contains(page, "marked expected") {
		t.Error("the page does not show the mark")
	}
}

// The page and /incidents have the last value of an open episode and the worst so far, then its end. They do not list it
// twice.
func TestLiveOngoing(t *testing.T) {
	l, s := serveLive(t)
	report := func(kind, id, text string, state keyed.EpisodeState, size float64) keyed.AlertEvent {
		m := keyed.Moments{Mean: []float64{1}, SD: []float64{1}}
		ep := &keyed.EpisodeReport{ID: "in:1", Since: liveStart, State: state, Worst: keyed.Worst{Value: 9, Size: size}}
		return keyed.AlertEvent{Key: "pump", Time: liveStart, ID: id, X: [][]float64{{9}}, Predicted: m, Alert: &keyed.Alert{Kind: kind, Start: liveStart, Score: 7, Size: 8, Threshold: 4, Usual: m, Message: text, Episode: ep}}
	}
	estimate := func(event keyed.AlertEvent) {
		e := &keyed.Estimate{Time: liveStart, ID: event.ID, X: [][]float64{{9}}, Predicted: event.Predicted}
		l.Observer().Estimate("pump", e, []keyed.AlertEvent{event})
	}
	open := "\n2026-03-01T00:00:00Z  open    alarm    score 7.0  "
	check := func(message string, size float64, isOpen bool) {
		t.Helper()
		_, text := get(t, s.URL+"/incidents")
		if strings.Contains(text, open+message+"\n") != isOpen || strings.Count(text, open) > 1 || !strings.Contains(text, "1 alarm on 1 of 1 key") {
			t.Errorf("/incidents, want %q: %s", message, text)
		}
		if p, _ := l.Page(); len(p.Singles) != 1 || p.Singles[0].Message != message || p.Singles[0].Size != size {
			t.Errorf("the page has %+v, want %q, %g sd", p.Singles, message, size)
		}
	}
	version := func() string {
		p, _ := l.Page()
		return p.Live.Version
	}
	estimate(report("novelty", "in:1", "pump is above", keyed.EpisodeOpen, 8))
	check("pump is above", 8, true)
	before := version()
	l.Observer().Ongoing("pump", report("novelty", "in:1", "pump is far above", keyed.EpisodeOpen, 20))
	check("pump is far above", 20, true)
	if version() == before {
		t.Error("the version of the page is the same")
	}
	estimate(report("novelty", "in:5", "pump is getting worse", keyed.EpisodeWorse, 25))
	check("pump is getting worse", 25, true)
	l.Observer().Ongoing("valve", report("novelty", "in:1", "not known", keyed.EpisodeOpen, 99))
	estimate(report("recovered", "in:1", "pump back to usual", keyed.EpisodeClosed, 25))
	check("pump back to usual", 25, false)
}
