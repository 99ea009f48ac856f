package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/javatest"
)

// An inbox is a receiver of alerts.
type inbox struct {
	mu     sync.Mutex
	refuse bool
	ids    map[string]int
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	var alerts []struct{ ID, Kind string }
	if json.NewDecoder(r.Body).Decode(&alerts) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, a := range alerts {
		b.ids[a.ID+" "+a.Kind]++
	}
}

// serve starts the receiver at an address until the test ends or the server is closed.
func (b *inbox) serve(t *testing.T, address string) *http.Server {
	t.Helper()
	l := expect.Get(net.Listen("tcp", address))(t)
	server := &http.Server{Handler: b}
	t.Cleanup(func() { server.Close() })
	go server.Serve(l)
	return server
}

// free returns an address at which nobody listens, and that no other test gets.
func free(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", javatest.FreePorts(t, 1)[0])
}

func (b *inbox) got() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.ids))
}

// jumps returns lines of keys that jump occasionally.
func jumps(n, keys int) (lines []string) {
	for i := range n {
		x := float64(i*7919%101) / 50
		if i/keys%100 == 0 {
			x += 30
		}
		lines = append(lines, fmt.Sprintf("{\"key\":\"k%d\",\"time\":%q,\"x\":%g}\n", i%keys, start.Add(time.Duration(i)*time.Second).Format(time.RFC3339), x))
	}
	return lines
}

const hookConfig = "model: {family: normal, prior: auto}\ndetect: {budget: 50}\n"

// A webhook gets the alerts that a file would get, also if the receiver is killed and restarted.
func TestWebhookLosesNoAlert(t *testing.T) {
	t.Parallel()
	path, alertsPath := write(t, "in.jsonl", jumps(6000, 10)...), filepath.Join(t.TempDir(), "alerts.jsonl")
	runConfig(t, hookConfig+"source: {jsonl: {path: "+path+"}}\nalerts: {jsonl: {path: "+alertsPath+"}, beliefs: [change]}\n")
	var want []string
	for _, a := range parse[struct{ ID, Kind string }](t, readLines(t, alertsPath)) {
		want = append(want, a.ID+" "+a.Kind)
	}
	slices.Sort(want)
	if len(want) < 20 {
		t.Fatalf("only %d alerts", len(want))
	}

	box, address := &inbox{ids: map[string]int{}}, free(t)
	time.AfterFunc(time.Second, func() { box.serve(t, address) }) // the receiver is down at first
	s, _, rejected := runConfig(t, hookConfig+"source: {jsonl: {path: "+path+"}}\nalerts: {webhook: {url: \"http://"+address+"/hook\", batch: 7}, beliefs: [change]}\n")
	if got := box.got(); !slices.Equal(got, want) || s.Rejected != 0 || strings.Join(rejected, "") != "" {
		t.Errorf("%d alerts came, of %d; rejected: %q", len(got), len(want), rejected)
	}
}

// Alerts that a receiver refuses are in the dead letter, with the reason. A bounded run fails if one of its receivers
// took none.
func TestWebhookRefused(t *testing.T) {
	takes, address := free(t), free(t)
	(&inbox{ids: map[string]int{}}).serve(t, takes)
	(&inbox{refuse: true, ids: map[string]int{}}).serve(t, address)
	path := write(t, "in.jsonl", jumps(2000, 4)...)
	s, estimates, rejected := runConfig(t, hookConfig+"source: {jsonl: {path: "+path+"}}\n"+
		"alerts: [{webhook: {url: \"http://"+takes+"\"}}, {webhook: {url: \"http://"+address+"\"}}]\n")
	if expect.Error(t, s.Err(), "http://"+address+" took none of "); strings.Contains(fmt.Sprint(s.Err()), takes) {
		t.Error(s.Err())
	}
	if n := s.NoveltyAlarms + s.ChangeAlarms; n == 0 || int64(len(rejected)) != n || len(estimates) != 2000 {
		t.Fatalf("%d alarms, %d in the dead letter, %d estimates", n, len(rejected), len(estimates))
	}
	var r struct{ Reason, Place, Raw string }
	if err := json.Unmarshal([]byte(rejected[0]), &r); err != nil || !strings.Contains(r.Reason, "403 Forbidden") || !strings.Contains(r.Raw, `"message"`) || !strings.HasPrefix(r.Place, "in.jsonl:") {
		t.Errorf("%v, %s", err, rejected[0])
	}
}

// An unreachable receiver does not block a run: estimates continue, and the run stops without delay. The alerts are in
// the dead letter, and the log and the metrics report the outage.
func TestWebhookIsAway(t *testing.T) {
	t.Parallel()
	address := free(t)
	b := fakeBus(t, 1, "out", "rejected")
	cfg := strings.Replace(b.config("group: g", "alerts: {webhook: {url: \"http://"+address+"\"}, max_age: none}\n"), "model: {family: normal}\n", hookConfig, 1)
	g := compose(t, cfg)
	m := NewMetrics()
	r := launchRun(t, Run{Graph: g, Metrics: m})
	b.put(t, jumps(4000, 4)...)
	b.await(t, "out", 4000, r)
	for m.UnavailableReceivers() == "" {
		time.Sleep(10 * time.Millisecond)
	}
	if note, err := m.UnavailableReceivers(), m.Health(); err != nil || !strings.Contains(note, "http://"+address+" has taken no alerts") {
		t.Errorf("%v, %q", err, note)
	}
	s := r.halt(t) // waits less than maxReceiverWait for a receiver
	n := s.NoveltyAlarms + s.ChangeAlarms
	if rejected := b.values(t, "rejected"); n < 10 || int64(len(rejected)) != n || s.Undelivered != n || s.Rejected != 0 || !strings.Contains(rejected[0], "the run ended before the receiver accepted it") {
		t.Errorf("%d alarms, %d in the dead letter, %d undelivered, %d rejected", n, len(rejected), s.Undelivered, s.Rejected)
	}
}

// A run that waits for an unreachable receiver at the end of its input can be stopped without delay.
func TestStopWhileAReceiverIsAwaited(t *testing.T) {
	expect.Waits(t, "clocks")
	asked, over := make(chan struct{}, 10), make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer hook.Close()
	defer close(over)
	dead := filepath.Join(t.TempDir(), "dead.jsonl")
	text := hookConfig + "source: {jsonl: {path: " + write(t, "in.jsonl", jumps(2000, 4)...) + "}}\nsink: none\ndead_letter: {jsonl: {path: " + dead + "}}\nalerts: {webhook: {url: \"" + hook.URL + "\"}}\n"
	r := launch(t, compose(t, text))
	<-asked
	time.Sleep(time.Second) // mostly the input has ended
	close(r.stop)
	select {
	case <-r.done:
	case <-time.After(maxReceiverWait / 2):
		t.Fatal("the run does not stop")
	}
	if r.err != nil || r.sum.Undelivered == 0 || int64(len(readLines(t, dead))) != r.sum.Undelivered {
		t.Errorf("%d undelivered, %v", r.sum.Undelivered, r.err)
	}
}

// Keys that become silent together share requests. Each receiver gets the alerts that it is configured for.
func TestReceivers(t *testing.T) {
	t.Parallel()
	box, otherBox := &inbox{ids: map[string]int{}}, &inbox{ids: map[string]int{}}
	requests := 0
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		requests++
		box.ServeHTTP(w, q)
	}))
	defer hook.Close()
	second := httptest.NewServer(otherBox)
	defer second.Close()
	b := fakeBus(t, 1, "out", "alerts", "rejected")
	r := launch(t, compose(t, b.config("group: g, changelog: states", "silence: {after: 1s}\nalerts:\n  - {webhook: {url: \""+hook.URL+"\", batch: 100}, labels: {severity: page}}\n"+
		"  - {webhook: {url: \""+second.URL+"\"}, keys: \"k1?\"}\n  - {kafka: {topic: alerts}, kinds: [recovered]}\n")))
	// Records that are older than the start of the source and have a write time do not affect the lag. The watermark is
	// then 15 minutes behind.
	sent := time.Now().Add(-10 * time.Millisecond).UTC().Format(time.RFC3339Nano)
	var lines []string
	for k := range 300 {
		lines = append(lines, fmt.Sprintf("{\"key\":\"k%d\",\"time\":%q,\"x\":1}", k, sent))
	}
	b.put(t, lines...)
	expect.Soon(t, "all silences are told", func() bool { return len(box.got()) == 300 })
	b.put(t, fmt.Sprintf("{\"key\":\"k7\",\"time\":%q,\"x\":1}", time.Now().UTC().Format(time.RFC3339Nano)))
	b.await(t, "alerts", 1, r)
	r.halt(t)
	if requests > 30 {
		t.Errorf("%d alerts in %d requests", len(box.got()), requests)
	}
	if got := otherBox.got(); len(got) != 10 || !strings.HasPrefix(got[0], "k10") {
		t.Errorf("k1? got %q", got)
	}
	if got := b.values(t, "alerts"); len(got) != 1 || !strings.Contains(got[0], `"kind":"recovered"`) {
		t.Errorf("the topic has %q", got)
	}
}

// With a changelog, pending alerts survive the run: the next run sends them, after a stop and after an aborted run.
func TestAlertsOutlastTheRun(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut off %v", cut), func(t *testing.T) {
			t.Parallel()
			address := free(t)
			b := fakeBus(t, 1)
			for _, topic := range []string{"out", "rejected", "states"} {
				b.CreateTopic(t, topic, 1, map[string]string{"cleanup.policy": "compact"})
			}
			text := strings.Replace(b.config("group: g, changelog: states", "alerts: {webhook: {url: \"http://"+address+"\"}, max_age: none}\n"), "model: {family: normal}\n", hookConfig, 1)
			lines := jumps(4000, 4)
			b.put(t, lines...)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stop, done := make(chan struct{}), make(chan struct{})
			var s Summary
			go func() {
				defer close(done)
				s, _ = Run{Graph: compose(t, text), Log: quiet}.Execute(ctx, stop)
			}()
			expect.Soon(t, "the changelog holds alerts", func() bool {
				return strings.Count(strings.Join(b.values(t, "states"), ""), `"message"`) >= 30 // all 36 come in one commit or two
			})
			if cut {
				cancel()
			} else {
				close(stop)
			}
			<-done
			if s.Undelivered != 0 || len(b.values(t, "rejected")) != 0 {
				t.Errorf("%d undelivered, %q", s.Undelivered, b.values(t, "rejected"))
			}
			box := &inbox{ids: map[string]int{}}
			box.serve(t, address)
			r := launch(t, compose(t, text))
			expect.Soon(t, "all alerts came", func() bool { return len(box.got()) >= 36 })
			r.halt(t)
			equal(t, 36, len(box.got()))
			time.Sleep(100 * time.Millisecond)
			r = launch(t, compose(t, text))
			b.put(t, lines[:1]...)
			r.halt(t)
			for id, n := range box.ids {
				if n > 2 || !cut && n > 1 {
					t.Errorf("%s came %d times", id, n)
				}
			}
		})
	}
}

// With a changelog, the next run repeats the alerts that are open in an Alertmanager, but not those that have ended.
func TestOpenAlertsOutlastTheRun(t *testing.T) {
	expect.Waits(t, "repeats")
	var mu sync.Mutex
	firing := map[string]bool{} // by key
	manager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var alerts []struct {
			Labels map[string]string
			EndsAt time.Time
		}
		expect.OK(t, json.NewDecoder(r.Body).Decode(&alerts))
		mu.Lock()
		defer mu.Unlock()
		for _, a := range alerts {
			if a.Labels["kind"] == "novelty" {
				firing[a.Labels["key"]] = a.EndsAt.After(time.Now())
			}
		}
	}))
	defer manager.Close()
	fires := func(key string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return firing[key]
		}
	}
	b := fakeBus(t, 1)
	for _, topic := range []string{"out", "rejected", "states"} {
		b.CreateTopic(t, topic, 1, map[string]string{"cleanup.policy": "compact"})
	}
	text := strings.Replace(b.config("group: g, changelog: states", "alerts: {alertmanager: {url: \""+manager.URL+"\"}, max_age: none}\n"), "model: {family: normal}\n", hookConfig, 1)
	value := func(i int, key string, shift float64) string {
		return fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":%g}\n", key, start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), float64(i*7919%101)/50+shift)
	}
	for i := range 450 {
		b.put(t, value(i, "open", map[bool]float64{i >= 420: 30}[true]), value(i, "ended", map[bool]float64{i >= 420 && i < 423: 30}[true]))
	}
	r := launch(t, compose(t, text))
	expect.Soon(t, "an alert of an open episode", fires("open"))
	expect.Soon(t, "the end of the other one", func() bool { return !fires("ended")() })
	expect.Soon(t, "the changelog holds the alert", func() bool { return strings.Contains(strings.Join(b.values(t, "states"), ""), `"message"`) })
	r.halt(t)
	mu.Lock()
	clear(firing)
	mu.Unlock()
	r = launch(t, compose(t, text))
	expect.Soon(t, "the alert, from the next run", fires("open"))
	if fires("ended")() {
		t.Error("an alert that has ended fires again")
	}
	r.halt(t)
}
