package webhook

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
)

// Tests wait only for a moment before they send again.
func init() { retryPolicy.First = 20 * time.Millisecond }

// open opens an outbox with stored alerts. It returns a function that lists the refused ones.
func open(t *testing.T, cfg OutboxConfig, stored ...Alert) (*Outbox, func() []connectors.Refused) {
	t.Helper()
	var mu sync.Mutex
	var refused []connectors.Refused
	delivered := cfg.Delivered
	cfg.Delivered = func(deliveries []Delivery) {
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, Refusals(deliveries)...)
		if delivered != nil {
			delivered(deliveries)
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Sink.Timeout = time.Second
	o := expect.Get(OpenOutbox(cfg, stored))(t)
	return o, func() []connectors.Refused {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(refused)
	}
}

func alert(i int) Alert { return Alert{ID: fmt.Sprint(i), Text: fmt.Appendf(nil, `{"id":"%d"}`, i)} }

// unavailable returns a URL at which no server listens yet, and a function that starts the server.
func unavailable(t *testing.T, h http.Handler) (url string, start func()) {
	t.Helper()
	l := expect.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	l.Close()
	server := &http.Server{Handler: h}
	t.Cleanup(func() { server.Close() })
	return "http://" + address, func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		go server.Serve(l)
	}
}

// An unavailable receiver blocks nobody. When it is available again, it gets all alerts in their order and in few
// requests.
func TestOutboxReceiverUnavailable(t *testing.T) {
	r := &receiver{codes: []int{503, 429, 200}}
	url, start := unavailable(t, r)
	var log strings.Builder
	o, refused := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: url}, Batch: 100}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	var want []string
	for i := range 250 {
		expect.Get(o.Put(alert(i)))(t)
		want = append(want, string(alert(i).Text))
	}
	expect.Soon(t, "the receiver is away", func() bool { return !o.Stats().Away.IsZero() })
	if s := o.Stats(); s.Waiting != 250 || s.Oldest.IsZero() || s.Sent != 0 || !strings.Contains(s.Reason, "does not answer") {
		t.Errorf("%+v", s)
	}
	start()
	if left := o.Close(time.Minute, 0); len(left) > 0 || len(refused()) > 0 {
		t.Errorf("%d are left, %d refused", len(left), len(refused()))
	}
	if !slices.Equal(r.bodies, want) {
		t.Errorf("the receiver has %d alerts: %q", len(r.bodies), r.bodies)
	}
	if s := o.Stats(); s.Sent != 250 || s.Failed != 0 || !s.Away.IsZero() {
		t.Errorf("%+v", s)
	}
	if text := log.String(); strings.Count(text, "receiver unavailable") != 1 || strings.Count(text, "receiver available again") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// Alerts that are put one by one share requests.
func TestOutboxSharesRequests(t *testing.T) {
	requests := 0
	r := &receiver{codes: []int{200}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		requests++
		r.ServeHTTP(w, q)
	}))
	defer server.Close()
	o, _ := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}, Batch: 100}})
	for i := range 300 {
		expect.Get(o.Put(alert(i)))(t)
	}
	o.Close(time.Minute, 0)
	if requests > 10 || len(r.bodies) != 300 || o.bytes != 0 {
		t.Errorf("%d alerts came in %d requests, and %d bytes are left", len(r.bodies), requests, o.bytes)
	}
}

// A refused alert is in the dead letter with the reason, and does not delay other alerts.
func TestOutboxRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	o, refused := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}, Batch: 2}})
	for i := range 3 {
		o.Put(alert(i))
	}
	o.Close(time.Minute, 0)
	got := refused()
	if s := o.Stats(); len(got) != 3 || got[2].ID != "2" || !strings.Contains(got[0].Reason, "403 Forbidden") || s.Failed != 3 || s.Waiting != 0 {
		t.Errorf("%+v, %+v", got, s)
	}
}

// A full queue rejects alerts at once. Close without patience returns the alerts that are left.
func TestOutboxFull(t *testing.T) {
	url, _ := unavailable(t, nil)
	o, _ := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: url}, Batch: 100}})
	for i := range maxWaiting {
		expect.Get(o.Put(alert(i)))(t)
	}
	expect.Soon(t, "the receiver is away", func() bool { return !o.Stats().Away.IsZero() })
	if _, err := o.Put(alert(maxWaiting)); err == nil || !strings.Contains(err.Error(), "10000 alerts wait for the receiver") || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("one more: %v", err)
	}
	left := o.Close(0, time.Minute)
	if len(left) != maxWaiting {
		t.Fatalf("%d are left", len(left))
	}
	deliveries := o.GiveUp(left)
	if len(deliveries) != maxWaiting || !strings.Contains(deliveries[0].Refused, "the run ended before the receiver accepted it") ||
		o.Stats().Failed != maxWaiting+1 || o.bytes != 0 {
		t.Errorf("%+v, %+v", deliveries[0], o.Stats())
	}
}

// The error of a full queue has no reason if the receiver has not failed yet.
func TestOutboxSlowReceiver(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer server.Close()
	defer close(done)
	o, _ := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}}})
	var err error
	for i := 0; err == nil; i++ {
		_, err = o.Put(alert(i))
	}
	expect.Same(t, "10000 alerts wait for the receiver, and the queue is full", err.Error())
	o.Close(0, time.Millisecond)
}

// Alerts that are too old are counted and not sent. Stored alerts are sent, and then reported as delivered.
func TestOutboxStoresAndExpires(t *testing.T) {
	r, server := receive(t, 200)
	stored := map[string]bool{"0": true}
	var mu sync.Mutex
	setStored := func(id string, isStored bool) string {
		mu.Lock()
		defer mu.Unlock()
		stored[id] = isStored
		return id
	}
	old := alert(0)
	old.StoredID = "0"
	o, _ := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}, Batch: 100}, MaxAge: time.Hour, Store: func(a Alert) string { return setStored(a.ID, true) }, Delivered: func(deliveries []Delivery) {
		for _, a := range deliveries {
			setStored(a.StoredID, false)
		}
	}}, old)
	now := time.Now()
	for i, age := range []time.Duration{2 * time.Hour, time.Minute, -time.Minute} {
		o.Put(Alert{ID: fmt.Sprint(i + 1), Text: fmt.Appendf(nil, `{"id":"%d","time":%q}`, i+1, now.Add(-age).Format(time.RFC3339))})
	}
	o.Close(time.Minute, 0)
	mu.Lock()
	defer mu.Unlock()
	if s := o.Stats(); s.Expired != 1 || s.Sent != 3 || len(r.bodies) != 3 {
		t.Errorf("%+v: %q", s, r.bodies)
	}
	if want := map[string]bool{"0": false, "2": false, "3": false}; fmt.Sprint(stored) != fmt.Sprint(want) {
		t.Errorf("kept %v, want %v", stored, want)
	}
}

// Alerts of the kinds silent and recovered are sent at once, then once a minute, or with an incident.
func TestOutboxBatches(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- string(body)
	}))
	defer server.Close()
	o, _ := open(t, OutboxConfig{Sink: Sink{URL: secret.Text{Text: server.URL}, Batch: 100, Batches: true}})
	put := func(kinds ...string) {
		for _, kind := range kinds {
			expect.Get(o.Put(Alert{Text: fmt.Appendf(nil, `{"kind":"%s"}`, kind)}))(t)
		}
	}
	put("silent")
	expect.Same(t, `[{"kind":"silent"}]`, <-requests)
	time.Sleep(linger)
	put("silent", "recovered")
	time.Sleep(4 * linger)
	put("incident", "silent")
	expect.Same(t, `[{"kind":"silent"},{"kind":"recovered"},{"kind":"incident"},{"kind":"silent"}]`, <-requests)
	put("recovered")
	expect.Same(t, 0, len(o.Close(time.Second, 0)))
	expect.Same(t, `[{"kind":"recovered"}]`, <-requests)
}
