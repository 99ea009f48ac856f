package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hafvf/internal/secret"
)

// A receiver answers with the codes, the last one for ever, and keeps what it was sent.
type receiver struct {
	mu      sync.Mutex
	codes   []int
	bodies  []string
	headers http.Header
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var records []json.RawMessage
	if err := json.NewDecoder(q.Body).Decode(&records); err != nil || q.Method != http.MethodPost {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	code := r.codes[0]
	if len(r.codes) > 1 {
		r.codes = r.codes[1:]
	}
	r.headers = q.Header
	if code == http.StatusOK {
		for _, b := range records {
			r.bodies = append(r.bodies, string(b))
		}
	}
	w.WriteHeader(code)
	w.Write([]byte("line one\nline two"))
}

func client(t *testing.T, s Sink) *Client {
	t.Helper()
	c, err := NewClient(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPostTriesAgain(t *testing.T) {
	for name, codes := range map[string][]int{"overload": {503, 429, 200}, "at once": {200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &receiver{codes: codes}
			server := httptest.NewServer(r)
			defer server.Close()
			c := client(t, Sink{URL: Value{Text: server.URL + "/hook"}, Timeout: time.Second})
			if err := c.Post(context.Background(), [][]byte{[]byte(`{"id":"a"}`), []byte(`{"id":"b"}`)}); err != nil {
				t.Fatal(err)
			}
			if want := []string{`{"id":"a"}`, `{"id":"b"}`}; !slices.Equal(r.bodies, want) {
				t.Errorf("the receiver has %q, want %q", r.bodies, want)
			}
		})
	}
}

// A refusal is final; so is the end of patience, in words without the path of the URL,
// which may be secret.
func TestPostGivesUp(t *testing.T) {
	r := &receiver{codes: []int{400}}
	server := httptest.NewServer(r)
	c := client(t, Sink{URL: Value{Text: server.URL + "/token-1234"}, Timeout: time.Second})
	err := c.Post(context.Background(), [][]byte{[]byte(`{}`)})
	if err == nil || !strings.Contains(err.Error(), `answers 400 Bad Request: "line one\nline two"`) {
		t.Errorf("refused: %v", err)
	}
	server.Close()
	c.retry.Budget = time.Second
	err = c.Post(context.Background(), [][]byte{[]byte(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "does not answer") || strings.Contains(err.Error(), "token") {
		t.Errorf("away: %v", err)
	}
	why := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	c.retry.Budget = time.Hour
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if err := c.Post(ctx, [][]byte{[]byte(`{}`)}); err != why {
		t.Errorf("stopped: %v", err)
	}
}

// A receiver that is away for a while gets everything.
func TestPostWaitsForAReceiver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	r := &receiver{codes: []int{200}}
	server := &http.Server{Handler: r}
	defer server.Close()
	time.AfterFunc(700*time.Millisecond, func() {
		if l, err := net.Listen("tcp", address); err == nil {
			server.Serve(l)
		}
	})
	c := client(t, Sink{URL: Value{Text: "http://" + address}, Timeout: time.Second})
	if err := c.Post(context.Background(), [][]byte{[]byte(`{}`)}); err != nil || len(r.bodies) != 1 {
		t.Errorf("%v; the receiver has %q", err, r.bodies)
	}
}

func TestHeadersMayBeSecret(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("Bearer x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &receiver{codes: []int{200}}
	server := httptest.NewServer(r)
	defer server.Close()
	c := client(t, Sink{URL: Value{Text: server.URL}, Timeout: time.Second,
		Headers: map[string]Value{"Authorization": {Secret: secret.Secret{File: file}}, "x-team": {Text: "ops"}}})
	if err := c.Post(context.Background(), [][]byte{[]byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Authorization": "Bearer x", "X-Team": "ops", "Content-Type": "application/json"} {
		if got := r.headers.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for what, s := range map[string]Sink{
		"webhook.headers.A.file": {URL: Value{Text: server.URL}, Headers: map[string]Value{"A": {Secret: secret.Secret{File: file + "none"}}}},
		"webhook.url: must be":   {URL: Value{Text: "ftp://secret"}},
		"webhook.url.env":        {URL: Value{Secret: secret.Secret{Env: "NOT_SET_"}}},
	} {
		if _, err := NewClient(s); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An Alertmanager knows an alert by its labels: the end of a silence has those of its
// beginning, which lasts until then.
func TestAlertmanager(t *testing.T) {
	var path string
	var got []map[string]any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c, err := NewClient(Sink{URL: Value{Text: server.URL + "/prefix/"}, Alertmanager: true})
	if err != nil {
		t.Fatal(err)
	}
	record := func(kind, time, start string) []byte {
		return []byte(`{"key":"a \"b\"","time":"` + time + `","kind":"` + kind + `","id":"i","x":null,"start":` + start + `,"message":"m"}`)
	}
	err = c.Post(t.Context(), [][]byte{
		record("change", "2026-01-01T00:05:00Z", `"2026-01-01T00:00:00Z"`),
		record("novelty", "2026-01-01T00:05:00Z", "null"),
		record("silent", "2026-01-01T00:15:00Z", `"2026-01-01T00:00:00Z"`),
		record("recovered", "2026-01-01T01:00:00Z", `"2026-01-01T00:00:00Z"`),
	})
	if err != nil || path != "/prefix/api/v2/alerts" {
		t.Errorf("%s: %v", path, err)
	}
	alert := func(kind string, times ...string) map[string]any {
		a := map[string]any{
			"labels":      map[string]any{"alertname": "hafvf", "key": `a "b"`, "kind": kind},
			"annotations": map[string]any{"summary": "m", "id": "i"},
		}
		for i, name := range []string{"startsAt", "endsAt"}[:len(times)] {
			a[name] = times[i]
		}
		return a
	}
	if until, err := time.Parse(time.RFC3339, fmt.Sprint(got[2]["endsAt"])); err != nil || time.Until(until) < 300*24*time.Hour {
		t.Errorf("the silence lasts until %v: %v", until, err)
	}
	delete(got[2], "endsAt")
	want := []map[string]any{
		alert("change", "2026-01-01T00:00:00Z"), alert("novelty"),
		alert("silent", "2026-01-01T00:00:00Z"), alert("silent", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
