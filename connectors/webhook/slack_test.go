package webhook

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
)

// Slack gets one message per alert, in order, also for alerts that waited together. A refused message is in the
// dead letter. A key cannot mention anyone.
func TestSlack(t *testing.T) {
	bodies := make(chan string, 9)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := string(expect.Get(io.ReadAll(r.Body))(t))
		if bodies <- r.URL.Path + " " + body; body == `{"text":""}` {
			http.Error(w, "no_text", http.StatusBadRequest)
		}
	}))
	defer server.Close()
	var stored []Alert
	for i, text := range []string{
		`{"key":"a","kind":"change","id":"a@1","message":"a is above usual"}`,
		`{"key":"s0","kind":"incident","id":"s0/r1@1","state":"opened","message":"5 keys of s0"}`,
		`{"key":"a","kind":"change","id":"a@2"}`,
		`{"key":"<!here>","kind":"silent","id":"a@3","message":"<!here> & all"}`,
	} {
		a := alert(i)
		a.Text = []byte(text)
		stored = append(stored, a)
	}
	o, refused := open(t, OutboxConfig{Sink: Sink{Form: "slack", URL: secret.Text{Text: server.URL + "/services/T1/x"}, Batch: 100}, Log: slog.New(slog.DiscardHandler)}, stored...)
	for _, want := range []string{
		`{"text":"a is above usual"}`, `{"text":"5 keys of s0 (s0/r1@1)"}`, `{"text":""}`, `{"text":"\u0026lt;!here\u0026gt; \u0026amp; all"}`,
	} {
		expect.Same(t, "/services/T1/x "+want, <-bodies)
	}
	o.Close(time.Second, time.Second)
	if got := refused(); len(got) != 1 || got[0].ID != "2" {
		t.Errorf("buried: %v", got)
	}
}
