package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A run fails if most sessions have one record, except for keys with a single record. By default, the sessions of a key
// end at a multiple of its steps, and the summary has these gaps.
func TestSingleSessions(t *testing.T) {
	t.Parallel()
	lines := func(step time.Duration, keys int) (result []string) {
		for i := range 60 {
			result = append(result, fmt.Sprintf(`{"key":"a","time":%q,"x":%d}`, start.Add(time.Duration(i)*step).Format(time.RFC3339), i%3)+"\n")
		}
		for i := range keys {
			result = append(result, fmt.Sprintf(`{"key":"k%d","time":%q,"x":1}`, i, start.Format(time.RFC3339))+"\n")
		}
		return result
	}
	for name, c := range map[string]struct {
		in      []string
		session string
		says    string
		fails   string
	}{
		"by the step":          {lines(time.Hour, 0), "", "sessions end at gaps of 30h, 30 median steps", ""},
		"of two keys":          {append(lines(time.Hour, 0), strings.ReplaceAll(strings.Join(lines(time.Minute, 0), ""), `"a"`, `"b"`)), "", "sessions end at gaps of 30m to 30h,", ""},
		"too short":            {lines(time.Hour, 100), "session: {gap: 30m}\n", "160 sessions", "60 of 60 sessions have one record: session.gap is 30m, and the records of a key are 1h apart"},
		"keys with one record": {lines(time.Minute, 100), "session: {gap: 30m}\n", "101 sessions", ""},
		"within the gap":       {lines(29*time.Minute, 0), "session: {gap: 30m}\n", "1 session,", ""},
	} {
		g := compose(t, "transform: smooth\nmodel: {family: normal, prior: auto}\n"+c.session+"source: {jsonl: {path: "+write(t, "in.jsonl", c.in...)+"}}\nsink: none\n")
		s := expect.Get(Run{Graph: g}.Execute(t.Context(), nil))(t)
		if !strings.Contains(s.String(), c.says) {
			t.Errorf("%s: %s", name, s)
		}
		if err := s.Err(); (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
