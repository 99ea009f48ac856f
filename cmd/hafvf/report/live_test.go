package report

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
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
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the runner's; errors come back from the run as well
	os.Exit(m.Run())
}

// What a person reads of a run is on the clock of its zone, and its events are in UTC.
func TestLiveInAZone(t *testing.T) {
	l := NewLive("pump.yaml", "", berlin(t), pipeline.NewMetrics())
	s := httptest.NewServer(l.Handler("pumps.example"))
	t.Cleanup(s.Close)
	t.Cleanup(l.Close)
	_, empty := get(t, s.URL)
	if !strings.Contains(empty, `"zone":"Europe/Berlin","offsets":[[`) {
		t.Error("a page without alarms has no offsets of the zone, which it needs to say when the run ended")
	}
	events := listen(t, s.URL)
	await(t, events, "state")
	l.raise("pump", 0)
	if at := await(t, events, "alarm").data["time"]; at != "2026-03-01T00:00:00Z" {
		t.Errorf("the time of an event is %v", at)
	}
	l.Observer().Incident(&incidents.Event{ID: "@1", State: incidents.Opened, Keys: 4, NumMembers: 1, Time: begun, Start: begun, Message: "pump has alarmed."})
	_, text := get(t, s.URL+"/incidents")
	since, _, _ := strings.Cut(strings.TrimPrefix(text, "hafvf of pump.yaml, since "), ": ")
	at, err := time.Parse(time.RFC3339, since)
	if err != nil || strings.HasSuffix(since, "Z") || time.Since(at) > time.Hour {
		t.Errorf("since %s, %v", since, err)
	}
	if !strings.Contains(text, "\n2026-03-01T01:00:00+01:00  open ") {
		t.Errorf("the incidents are\n%s", text)
	}
	_, page := get(t, s.URL)
	for _, says := range []string{"All times are of Europe/Berlin.", ">Time (Europe/Berlin)<", `<time datetime="2026-03-01T00:00:00Z" title="2026-03-01T00:00:00Z">2026-03-01T01:00:00+01:00</time>`} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say %s", says)
		}
	}
}

// serveLive serves a Live that no run tells of anything, unless the test does.
func serveLive(t *testing.T) (*Live, *httptest.Server) {
	t.Helper()
	l := NewLive("pump.yaml", "", time.UTC, pipeline.NewMetrics())
	s := httptest.NewServer(l.Handler("pumps.example"))
	t.Cleanup(s.Close)
	t.Cleanup(l.Close)
	return l, s
}

var begun = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// raise tells of alarm i of a key.
func (l *Live) raise(key string, i int) {
	at := begun.Add(time.Duration(i) * time.Second)
	e := &keyed.Estimate{Time: at, ID: fmt.Sprint("in:", i), X: [][]float64{{9}}}
	e.Predicted.Mean, e.Predicted.SD = []float64{1}, []float64{1}
	e.Alarm = &keyed.Alert{Kind: "novelty", Score: 7, Size: 8, Message: key + " rose"}
	l.Observer().Estimate(key, e, e.Alerts(key))
}

// client makes requests of a URL.
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

// An event is one of /events, with when it came.
type event struct {
	name string
	data map[string]any
	came time.Time
}

// listen reads /events until the test ends.
func listen(t *testing.T, url string) <-chan event {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, _ := http.NewRequestWithContext(ctx, "GET", url+"/events", nil)
	answer := expect.Get(client(t, url).Do(r))(t)
	all := make(chan event, 10_000)
	go func() {
		defer close(all)
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
					all <- e
				}
			}
		}
	}()
	return all
}

// await returns the next event of that name.
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

// counts are the numbers at the top of a page.
func counts(page string) map[string]int {
	all := map[string]int{}
	for _, m := range dataOf.FindAllStringSubmatch(page, -1) {
		all[m[1]], _ = strconv.Atoi(m[2])
	}
	return all
}

// Who asks by another name, or from another site, gets nothing.
func TestLiveRefuses(t *testing.T) {
	l, s := serveLive(t)
	l.raise("pump-1", 1)
	if facts := fmt.Sprint(l.Facts()); !strings.HasPrefix(facts, "[{state the run has not started} {keys 0}") || strings.Contains(facts, "receivers away") {
		t.Errorf("the facts of a run without receivers are %s", facts)
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
	l.Observer().Incident(&incidents.Event{ID: "i", State: incidents.Opened, Group: "pump", Time: begun, Message: "2 keys of pump have alarmed."})
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

// What is remembered has a bound, and the page says what was let go.
func TestLiveIsBounded(t *testing.T) {
	expect.Long(t, "a page of very many keys")
	l, s := serveLive(t)
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	for i := range 100_000 {
		l.raise(fmt.Sprint("rack/", i%5000), i)
	}
	for i := range 3000 {
		e := incidents.Event{ID: fmt.Sprint(i), State: incidents.Opened, Group: "rack", Time: begun.Add(time.Duration(i) * time.Second), Message: "m", Members: make([]incidents.Member, 20)}
		l.Observer().Incident(&e)
		e.State = incidents.Closed
		l.Observer().Incident(&e)
	}
	for i := range 100_000 { // of the key that alarmed last
		l.estimate("rack/4999", &keyed.Estimate{Time: begun.Add(time.Duration(i) * time.Second), X: [][]float64{{1}}}, nil)
	}
	held := used() - before
	start := time.Now()
	_, page := get(t, s.URL)
	t.Logf("100,000 alarms and 3,000 incidents: %.1f MB held; a page of %.1f MB in %v", float64(held)/1e6, float64(len(page))/1e6, time.Since(start))
	if held > 40e6 {
		t.Errorf("%d bytes are held", held)
	}
	if n := counts(page); n["novelty"] != liveAlerts || n["incident records"] != 2*liveIncidents {
		t.Errorf("%v", n)
	}
	for _, says := range []string{"90000 alerts of this run came before those on the page", "2000 incidents are left out"} {
		if !strings.Contains(page, says) {
			t.Errorf("the page does not say: %s", says)
		}
	}
}

// A reader that takes nothing does not hold up who raises alarms, and more readers than there is
// room for are sent away.
func TestLiveReaders(t *testing.T) {
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
	t.Logf("100,000 alarms in %v: readers that read nothing do not hold up the run", time.Since(start))
	if status, page := get(t, s.URL); status != 200 || counts(page)["novelty"] != liveAlerts {
		t.Errorf("status %d", status)
	}
	l.Close()
	for deadline := time.Now().Add(2 * stuck); l.readers.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d readers are left after the end", l.readers.Load())
		}
	}
}

// A reader that is too far behind misses news, and the state tells that there were some.
func TestLiveMisses(t *testing.T) {
	expect.Long(t, "a page that goes on for seconds")
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

// A page of a run that takes marks has the command of each alarm, and says which are marked, as soon as the marks are in
// force.
func TestLiveMarks(t *testing.T) {
	l, s := serveLive(t)
	l.raise("a pump's", 1)
	if _, page := get(t, s.URL); strings.Contains(page, "hafvf mark") {
		t.Error("a page whose run takes no marks has a command")
	}
	l.markTo = "pump.yaml"
	events := listen(t, s.URL)
	l.raise("b", 2)
	await(t, events, "alarm")
	_, page := get(t, s.URL)
	for _, says := range []string{"<code>hafvf mark in:1 false --key &#39;a pump&#39;\\&#39;&#39;s&#39; --config pump.yaml</code>", "<code>hafvf mark in:2 false --key b --config pump.yaml</code>"} {
		if strings.Count(page, says) != 2 { // in the table, and among single ones
			t.Errorf("the page does not say %s", says)
		}
	}
	l.Observer().Marked(records.Mark{ID: "in:2", Mark: records.MarkedExpected, Key: new("b")})
	l.Observer().Marked(records.Mark{ID: "in:2", Mark: records.MarkedFalse, Key: new("b")})
	await(t, events, "alarm")
	if _, page := get(t, s.URL); strings.Count(page, "marked false") != 2 || strings.Contains(page, "marked expected") {
		t.Error("the page does not say that the alarm is marked")
	}
}
