package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hafvf/internal/secret"
	"hafvf/internal/testing/badserver"
	"hafvf/internal/testing/expect"
)

// A receiver answers with the codes, and repeats the last one. It stores the records that it accepts.
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

// receive starts a receiver that always answers with code.
func receive(t *testing.T, code int) (*receiver, *httptest.Server) {
	r := &receiver{codes: []int{code}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server
}

func client(t *testing.T, s Sink) *Client {
	t.Helper()
	c := expect.Get(NewClient(s, nil))(t)
	return c
}

// first returns the error of the first record.
func first(results []error) error { return results[0] }

// A refusal is final, and a missing answer is temporary. Neither error contains the path of the URL, which may be
// secret.
func TestPostErrors(t *testing.T) {
	_, server := receive(t, 400)
	c := client(t, Sink{URL: secret.Text{Text: server.URL + "/token-1234"}, Timeout: time.Second})
	err := first(c.Post(context.Background(), [][]byte{[]byte(`{}`)}))
	expect.Error(t, err, `answers 400 Bad Request: "line one\nline two"`)
	if temporary(err) {
		t.Errorf("another attempt may help after %v", err)
	}
	server.Close()
	err = first(c.Post(context.Background(), [][]byte{[]byte(`{}`)}))
	if err == nil || !temporary(err) || !strings.Contains(err.Error(), "does not answer") || strings.Contains(err.Error(), "token") {
		t.Errorf("away: %v", err)
	}
}

func TestPostSecretHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	expect.OK(t, os.WriteFile(file, []byte("Bearer x\n"), 0o600))
	r, server := receive(t, 200)
	c := client(t, Sink{URL: secret.Text{Text: server.URL}, Timeout: time.Second,
		Headers: map[string]secret.Text{"Authorization": {Secret: secret.Secret{File: file}}, "x-team": {Text: "ops"}}})
	expect.OK(t, first(c.Post(context.Background(), [][]byte{[]byte(`{}`)})))
	for name, want := range map[string]string{"Authorization": "Bearer x", "X-Team": "ops", "Content-Type": "application/json"} {
		expect.Same(t, want, r.headers.Get(name), name)
	}
}

// An Alertmanager identifies an alert by its labels: the end of a silence has the labels of its beginning.
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
	c, err := NewClient(Sink{URL: secret.Text{Text: server.URL + "/prefix/"}, Form: "alertmanager"}, nil)
	expect.OK(t, err)
	record := func(kind, time, start string) []byte {
		return []byte(`{"key":"a \"b\"","time":"` + time + `","kind":"` + kind + `","id":"i","x":null,"start":` + start + `,"message":"m"}`)
	}
	incident := func(state, group string) []byte {
		return []byte(`{"key":"` + group + `","time":"2026-01-01T03:00:00Z","kind":"incident","id":"s0/r1@1","state":"` + state + `","start":"2026-01-01T00:00:00Z","message":"m"}`)
	}
	err = first(c.Post(t.Context(), [][]byte{
		record("change", "2026-01-01T00:05:00Z", `"2026-01-01T00:00:00Z"`),
		record("novelty", "2026-01-01T00:05:00Z", "null"),
		record("silent", "2026-01-01T00:15:00Z", `"2026-01-01T00:00:00Z"`),
		record("recovered", "2026-01-01T01:00:00Z", `"2026-01-01T00:00:00Z"`),
		incident("opened", "s0/r1"), incident("closed", "s0"),
	}))
	expect.OK(t, err)
	expect.Same(t, "/prefix/api/v2/alerts", path)
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
	if until, err := time.Parse(time.RFC3339, fmt.Sprint(got[4]["endsAt"])); err != nil || time.Until(until) < 300*24*time.Hour {
		t.Errorf("the incident lasts until %v: %v", until, err)
	}
	delete(got[4], "endsAt")
	// Only the ID identifies an incident, because its group can grow.
	incidentAlert := func(group string, times ...string) map[string]any {
		a := alert("incident", times...)
		a["labels"].(map[string]any)["key"], a["labels"].(map[string]any)["id"] = "", "s0/r1@1"
		a["annotations"] = map[string]any{"summary": "m", "id": "s0/r1@1", "group": group}
		return a
	}
	want := []map[string]any{
		alert("change", "2026-01-01T00:00:00Z"), alert("novelty"),
		alert("silent", "2026-01-01T00:00:00Z"), alert("silent", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
		incidentAlert("s0/r1", "2026-01-01T00:00:00Z"), incidentAlert("s0", "2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z"),
	}
	expect.Same(t, want, got)
}

// A report that an episode is worse updates the alert of the episode's first alarm: it has the same labels, id and start.
func TestAlertmanagerWorse(t *testing.T) {
	var got [2]alertmanagerAlert
	for i, record := range []string{
		`{"key":"k","time":"2026-01-01T00:05:00Z","kind":"novelty","id":"f:5","start":"2026-01-01T00:04:00Z","threshold":3.3,"message":"bad","episode":{"id":"f:5","since":"2026-01-01T00:04:00Z","reports":1,"state":"open"}}`,
		`{"key":"k","time":"2026-01-01T00:09:00Z","kind":"novelty","id":"f:9","start":"2026-01-01T00:08:00Z","threshold":3.3,"message":"worse","episode":{"id":"f:5","since":"2026-01-01T00:04:00Z","reports":2,"state":"worse"}}`,
	} {
		expect.OK(t, json.Unmarshal(expect.Get(forAlertmanager(Sink{}, []byte(record)))(t), &got[i]))
	}
	want := got[0]
	want.Annotations = map[string]string{"summary": "worse", "id": "f:5"}
	expect.Same(t, want, got[1])
}

// With Sink.Ends, novelties and changes stay active until their end.
func TestAlertmanagerEnds(t *testing.T) {
	ended := time.Date(2026, 1, 1, 4, 10, 0, 0, time.UTC)
	var kinds []string
	for _, rest := range []string{
		`"time":"2026-01-01T00:05:00Z","kind":"novelty","threshold":3.3}`,
		`"time":"2026-01-01T04:10:00Z","kind":"recovered","threshold":3.4}`,
		`"time":"2026-01-01T04:10:00Z","kind":"recovered","threshold":null}`,
	} {
		record := `{"key":"k","id":"i","start":"2026-01-01T00:05:00Z",` + rest
		b := expect.Get(forAlertmanager(Sink{SendResolved: true}, []byte(record)))(t)
		var got []alertmanagerAlert
		expect.OK(t, json.Unmarshal([]byte("["+string(b)+"]"), &got))
		for _, p := range got {
			kind := p.Labels["kind"]
			if lasts := p.EndsAt.After(time.Now()); lasts != (len(kinds) == 0) || !lasts && !p.EndsAt.Equal(ended) {
				t.Errorf("%s ends at %v", kind, p.EndsAt)
			}
			kinds = append(kinds, kind)
		}
	}
	expect.Same(t, []string{"novelty", "novelty", "change", "silent"}, kinds)
}

// A redirect is refused with its target, and only the beginning of an endless answer is read.
func TestRedirectAndEndlessAnswer(t *testing.T) {
	url, other := badserver.Start(t)
	for path, want := range map[string]string{
		"/redirect": "redirect to " + other + " was not followed", "/refuses": "answers 418", "/takes": "",
	} {
		err := first(client(t, Sink{URL: secret.Text{Text: url + path}}).Post(t.Context(), [][]byte{[]byte("{}")}))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "token") || len(err.Error()) > 1000 || temporary(err)) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A refused login is final, also if its secrets cannot be read again.
func TestPostTokenUnreadable(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	expect.OK(t, os.WriteFile(token, []byte("old"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	c := client(t, Sink{URL: secret.Text{Text: server.URL}, Headers: map[string]secret.Text{"Authorization": {Secret: secret.Secret{File: token}}}})
	expect.OK(t, os.Remove(token))
	if err := first(c.Post(t.Context(), [][]byte{[]byte("{}")})); err == nil || temporary(err) || !strings.Contains(err.Error(), "cannot be read again: webhook.headers.Authorization.file") {
		t.Error(err)
	}
}

// Of records that are sent together, only those are refused that the receiver does not accept.
func TestPostDividesBatches(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge} {
		var accepted []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var records []string
			if err := json.NewDecoder(r.Body).Decode(&records); err != nil {
				t.Error(err)
			}
			if slices.Contains(records, "bad") || code == http.StatusRequestEntityTooLarge && len(records) > 3 {
				w.WriteHeader(code)
				return
			}
			accepted = append(accepted, records...)
		}))
		c := client(t, Sink{URL: secret.Text{Text: server.URL}})
		var records [][]byte
		var want []string
		for i := range 21 {
			text := fmt.Sprint(i)
			if i == 0 || i == 13 {
				text = "bad"
			} else {
				want = append(want, text)
			}
			records = append(records, []byte(`"`+text+`"`))
		}
		refused := c.Post(t.Context(), records)
		expect.Same(t, want, accepted, code)
		for i, why := range refused {
			expect.Same(t, i == 0 || i == 13, why != nil, code, ": record ", i, ": ", why)
		}
		server.Close()
	}
}
