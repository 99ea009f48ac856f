package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"hafvf/internal/httpclient"
	"hafvf/internal/secret"
	"hafvf/internal/testing/e2e"
)

// The program serves the live page in addition to its metrics, with an alarm before the end of the input. It ends
// with the run even if a reader follows the events.
func TestListen(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{"in.yaml": "model: {family: normal, prior: {mu: 0, kappa: 10, alpha: 10, beta: 10}}\ndetect: {zone: Asia/Tokyo}\norder: arrival\nsource: {jsonl: {path: '-'}}\nsink: none\n"})
	d := program.Pipe(t, dir, "run", "in.yaml", "--listen", "127.0.0.1:0")
	for i := range 500 {
		d.Say(t, fmt.Sprintf(`{"key":"pump","time":%d,"x":%d}`+"\n", 1760000000+60*i, i%3-1))
	}
	d.Say(t, `{"key":"pump","time":1760030000,"x":99}`+"\n")
	get := func(path string) (string, error) {
		match := regexp.MustCompile(`/healthz" address=(\S+)`).FindStringSubmatch(d.Log())
		if match == nil {
			return "", nil
		}
		client, err := httpclient.New("page", httpclient.Server{URL: secret.Text{Text: "http://" + match[1]}}, httpclient.Bounds{}, nil)
		if err != nil {
			return "", err
		}
		defer client.CloseIdleConnections()
		answer, err := client.HTTP().Get("http://" + match[1] + path)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		return string(b), err
	}
	await := func(path, text string) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if got, _ = get(path); strings.Contains(got, text) {
				return
			}
		}
		t.Fatalf("%s lacks %q: %s\n%s", path, text, got, d.Log())
	}
	await("/", "pump is 99 (")
	await("/", "All times are in Asia/Tokyo.")
	await("/incidents", "hafvf of in.yaml, since ")
	await("/incidents", "1 alarm on 1 of 1 key")
	await("/metrics", `hafvf_alarms_total{kind="novelty"} 1`)
	await("/healthz", "ok")
	events := make(chan string)
	go func() {
		received, _ := get("/events")
		events <- received
	}()
	time.Sleep(100 * time.Millisecond)
	d.CloseInput(t)
	select {
	case received := <-events:
		if !strings.Contains(received, "event: state") || !strings.HasSuffix(received, "event: end\ndata: {}\n\n") {
			t.Errorf("events: %s", received)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the events do not end with the run")
	}
}
