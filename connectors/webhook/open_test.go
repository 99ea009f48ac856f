package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/connectors"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
)

// An alertmanagerAPI is a receiver that counts the alerts that it gets, by their labels key and kind.
type alertmanagerAPI struct{ *receiver }

// count returns how often each alert was sent, and the last version of each.
func (r alertmanagerAPI) count(t *testing.T) (times map[string]int, last map[string]alertmanagerAlert) {
	r.mu.Lock()
	defer r.mu.Unlock()
	times, last = map[string]int{}, map[string]alertmanagerAlert{}
	for _, b := range r.bodies {
		var a alertmanagerAlert
		expect.OK(t, json.Unmarshal([]byte(b), &a))
		name := a.Labels["key"] + " " + a.Labels["kind"]
		times[name]++
		last[name] = a
	}
	return times, last
}

const repeat = 60 * time.Millisecond

// lasting returns the records of an episode or a silence.
func lasting(key, kind, extra string) Alert {
	text := fmt.Sprintf(`{"key":%q,"id":"1","kind":%q,"message":"m","time":%q%s}`, key, kind, time.Now().UTC().Format(time.RFC3339Nano), extra)
	return Alert{Key: []byte(key), ID: "1", Text: []byte(text)}
}

// Open alerts are repeated until they end: of silences and of episodes, but not what has no end. The end of an alert that
// the receiver does not have is not sent. A restart continues with what is open.
func TestOutboxRepeats(t *testing.T) {
	t.Parallel()
	manager, server := receive(t, 200)
	api := alertmanagerAPI{manager}
	var mu sync.Mutex
	done := map[string]bool{}
	cfg := OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}, Batch: 10, Form: "alertmanager", Repeat: repeat}, Delivered: func(deliveries []Delivery) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range deliveries {
			done[d.StoredID] = true
		}
	}, MaxAge: time.Hour}
	isDone := func(id string) bool {
		mu.Lock()
		defer mu.Unlock()
		return done[id]
	}
	o, _ := open(t, cfg)
	put := func(id string, a Alert) (queued bool) {
		a.StoredID = id
		return expect.Get(o.Put(a))(t)
	}
	episode := func(state string) string { return `,"episode":{"id":"0","state":"` + state + `"}` }
	put("silent", lasting("s", "silent", ""))
	put("onset", lasting("e", "novelty", episode("open")))
	put("worse", lasting("e", "novelty", episode("worse")))
	put("short", lasting("o", "novelty", episode("closed")))
	put("belief", lasting("b", "change", ""))
	put("incident", lasting("g", "incident", `,"state":"opened"`))
	if put("unknown", lasting("u", "recovered", `,"threshold":4`)) {
		t.Error("the end of an alert that was never sent is queued")
	}
	expect.Soon(t, "repeats", func() bool {
		times, _ := api.count(t)
		return times["s silent"] > 3 && times["e novelty"] > 4 && times[" incident"] > 3
	})
	if put("now", lasting("e", "novelty", episode("open")+`,"ongoing":true,"message":"90 %"`)) || put("unknown", lasting("u", "novelty", episode("open")+`,"ongoing":true`)) {
		t.Error("the present state of an alert is queued")
	}
	expect.Soon(t, "a repeat with the present state", func() bool {
		_, last := api.count(t)
		return last["e novelty"].Annotations["summary"] == "90 %"
	})
	times, last := api.count(t)
	if times["o novelty"] != 1 || times["b change"] != 1 || len(times) != 5 {
		t.Errorf("sent: %v", times)
	}
	for _, name := range []string{"s silent", "e novelty", " incident"} {
		if end := last[name].EndsAt; end.IsZero() || time.Until(end) > missedRepeats*repeat {
			t.Errorf("%s ends at %v", name, end)
		}
	}
	expect.Soon(t, "deliveries", func() bool { return isDone("onset") && isDone("short") && isDone("belief") })
	if !last["o novelty"].EndsAt.IsZero() || isDone("worse") || isDone("silent") || isDone("incident") {
		t.Errorf("alerts that need not be stored any longer: %v", done)
	}
	chunk, changed := o.Open()
	if _, again := o.Open(); !changed || again {
		t.Error("Open does not report a change, or reports it twice")
	}
	o.Close(time.Second, time.Second)

	stored := expect.Get(Alerts(chunk))(t)
	expect.Same(t, 3, len(stored), "open alerts")
	for i := range stored {
		stored[i].Text = []byte(strings.Replace(string(stored[i].Text), `"time":"20`, `"time":"19`, 1)) // older than MaxAge
	}
	cfg.CanEnd = func(a Alert) bool { return string(a.Key) != "g" }
	o, _ = open(t, cfg, stored...)
	before, _ := api.count(t)
	expect.Soon(t, "repeats after a restart", func() bool {
		times, _ := api.count(t)
		return times["s silent"] > before["s silent"]+2 && times["e novelty"] > before["e novelty"]+2
	})
	if times, _ := api.count(t); times[" incident"] != before[" incident"]+1 {
		t.Errorf("an alert that cannot end was sent %d times", times[" incident"]-before[" incident"])
	}
	put("back", lasting("e", "recovered", `,"threshold":4`))
	put("heard", lasting("s", "recovered", ""))
	expect.Soon(t, "the ends", func() bool { return isDone("back") && isDone("heard") })
	before, last = api.count(t)
	time.Sleep(3 * repeat)
	after, _ := api.count(t)
	if !maps.Equal(before, after) || last["e novelty"].EndsAt.After(time.Now()) || last["s silent"].EndsAt.After(time.Now()) {
		t.Errorf("ended alerts: %v, later %v, %v", before, after, last)
	}
	o.Close(time.Second, time.Second)
}

// The state of a step holds an open alert, and another process repeats it.
func TestHoldFnOpenAlert(t *testing.T) {
	manager, server := receive(t, 200)
	api := alertmanagerAPI{manager}
	sink := Sink{URL: secret.Text{Text: server.URL}, Timeout: time.Second, Form: "alertmanager", Repeat: repeat}
	fn := &holdFn{Sink: sink, MaxAge: time.Hour, Waiting: state.MakeBagState[[]byte]("w"), Next: timers.InProcessingTime("n")}
	fn.Setup()
	runner := &fakeRunner{}
	refuse := func(f connectors.Refused) { t.Error(f) }
	process := func(a Alert) {
		expect.OK(t, fn.ProcessElement(t.Context(), runner, runner, "receiver", a.Chunk(), refuse))
	}
	poll := func() bool {
		runner.timer = nil
		return fn.OnTimer(t.Context(), 0, runner, runner, "receiver", timers.Context{}, refuse) == nil
	}
	repeated := func(more int) {
		t.Helper()
		before, _ := api.count(t)
		expect.Soon(t, "repeats", func() bool {
			times, _ := api.count(t)
			return poll() && len(runner.bag) == 1 && runner.timer != nil && times["s silent"] >= before["s silent"]+more
		})
	}
	process(lasting("s", "silent", ""))
	repeated(3)
	outboxes[fn.name].Close(0, 0)
	delete(outboxes, fn.name) // like another process that has only the state
	repeated(3)
	process(lasting("s", "recovered", ""))
	expect.Soon(t, "the state is empty", func() bool { return poll() && len(runner.bag) == 0 && runner.timer == nil })
	outboxes[fn.name].Close(0, 0)
	delete(outboxes, fn.name)
}

// anAlarm is the record of an alarm of a series, as a run writes it.
const anAlarm = `{"key":"backup_rows{instance=\"cron-1\",job=\"batch\"}","time":"2026-11-13T02:15:00Z","kind":"novelty","id":"in.csv:1520387","corrects":null,"start":"2026-11-13T02:15:00Z","delay":0,"odds":4.726547086788964,"score":31.54696762480947,"threshold":7.944432754331729,"x":328,"predicted":{"mean":2.84862384570127,"sd":1.7413212958189008},"usual":{"mean":3.083541867070026,"sd":1.6407177439594207},"size":198.0331225947697,"before":{"mean":2.849739764379367,"sd":0.34165857035040265},"after":{"mean":2.9164845220787203,"sd":0.706395099217155},"episode":{"id":"in.csv:1520387","since":"2026-11-13T02:15:00Z","reports":1,"state":"open"},"since":null,"level":null,"usual_before":{"mean":3.083541867070039,"sd":1.6407177448272705},"worst":{"value":328,"time":"2026-11-13T02:15:00Z","size":198.03312249002104},"message":"backup_rows{instance=\"cron-1\",job=\"batch\"} is 325 (198 sd) above usual at 2026-11-13 02:15: 328, usual at this hour 3.1 ± 1.6."}`

// go test ./connectors/webhook -run - -bench OpenAlerts -benchtime 1x
//
// The state of 10,000 open alerts, and the requests that repeat them.
func BenchmarkOpenAlerts(b *testing.B) {
	for b.Loop() {
		o := &Outbox{cfg: OutboxConfig{Sink: Sink{Form: "alertmanager", Repeat: time.Minute}}, open: map[string]Alert{}}
		o.client = expect.Get(NewClient(Sink{URL: secret.Text{Text: "http://127.0.0.1:1"}, Form: "alertmanager", Batch: 100}, nil))(b)
		for i := range 10_000 {
			text := strings.ReplaceAll(anAlarm, "cron-1", fmt.Sprint("cron-", i))
			a := Alert{Key: fmt.Appendf(nil, `backup_rows{instance="cron-%d",job="batch"}`, i), ID: fmt.Sprint("in.csv:", i), Text: []byte(text)}
			o.applySent([]entry{{Alert: a, change: o.changeOf(a.Text)}})
		}
		o.repeatAt = time.Time{}
		chunk, _ := o.Open()
		requests := 0
		for range slices.Chunk(o.dueRepeats(), maxRepeats) {
			requests++
		}
		b.ReportMetric(float64(len(chunk))/10_000, "B/alert")
		b.ReportMetric(float64(requests), "requests/repeat")
	}
}

// A repeat that fails for a while is an outage; a refused repeat is not.
func TestOutboxRepeatOutage(t *testing.T) {
	for code, outage := range map[int]bool{503: true, 400: false} {
		_, server := receive(t, code)
		o, _ := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}, Form: "alertmanager", Repeat: time.Hour}})
		o.repeat([]Alert{lasting("s", "silent", "")})
		if reason := o.Stats().Reason; (reason != "") != outage {
			t.Errorf("%d: %q", code, reason)
		}
		o.Close(0, 0)
	}
}
