package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// In a file a gap is told: that the key fell silent, dated when the bound was passed, and
// that it spoke again. The end of the input is no silence.
func TestSilenceIsTold(t *testing.T) {
	var lines []string
	for i := range 300 {
		for _, key := range []string{"a", "b"} {
			if key == "b" && i >= 100 && i < 160 || key == "a" && i > 250 {
				continue
			}
			lines = append(lines, fmt.Sprintf("{\"key\":%q,\"time\":%q,\"x\":1}\n", key, start.Add(time.Duration(i)*time.Minute).Format(time.RFC3339)))
		}
	}
	path, told := write(t, "in.jsonl", lines...), filepath.Join(t.TempDir(), "alerts.jsonl")
	run := func(text string) (s Summary, alerts []map[string]any) {
		s, _, _ = runConfig(t, "model: {family: normal}\nsource: {jsonl: {path: "+path+"}}\nalerts: {jsonl: {path: "+told+"}}\n"+text)
		for _, line := range readLines(t, told) {
			var a map[string]any
			if line == "" {
				continue
			}
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatal(err)
			}
			alerts = append(alerts, a)
		}
		return s, alerts
	}
	at := func(minute int) string { return start.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339) }
	none := map[string]any{"mean": nil, "sd": nil}
	alert := func(kind string, minute int, id, message string) map[string]any {
		return map[string]any{
			"key": "b", "time": at(minute), "kind": kind, "id": id, "corrects": nil, "start": at(99), "delay": 0., "odds": nil,
			"score": nil, "x": nil, "predicted": none, "size": nil, "before": none, "after": none, "message": message,
		}
	}
	s, got := run("silence: {after: 15m}\n")
	want := []map[string]any{
		alert("silent", 114, "b/"+at(114), "b: nothing has come since "+at(99)+", for more than 15m0s."),
		alert("recovered", 160, "in.jsonl:262", "b: it speaks again, after 1h1m0s."),
	}
	if diff := cmp.Diff(want, got); diff != "" || s.Silences != 1 {
		t.Errorf("%d silences; (-want +got) %s", s.Silences, diff)
	}
	if s, got := run("silence: true\ndetect: true\n"); s.Silences != 1 || len(got) != 2 {
		t.Errorf("by its own rhythm: %d silences, alerts %v", s.Silences, got)
	}
}
