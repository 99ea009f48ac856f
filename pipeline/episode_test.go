package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// The end of an episode goes to receivers whose explicit kinds include recovered, with and without incidents. It has the
// ID of the episode's first alarm.
func TestEndOfEpisode(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for i := range 2500 {
		x := noise.NormFloat64()
		if i >= 2000 && i < 2024 {
			x += 8
		}
		lines = append(lines, fmt.Sprintf("{\"key\":\"k\",\"time\":%q,\"x\":%g}\n", start.Add(time.Duration(i)*5*time.Minute).Format(time.RFC3339), x))
	}
	in, dir := write(t, "in.jsonl", lines...), t.TempDir()
	for _, incidents := range []bool{false, true} {
		var text strings.Builder
		fmt.Fprintf(&text, "model: {family: normal, prior: auto}\ndetect: true\nincidents: %v\nsource: {jsonl: {path: %s}}\nalerts:\n", incidents, in)
		for i, kinds := range []string{"", ", kinds: [novelty, change, recovered]", ", kinds: [recovered]", ", kinds: [novelty]"} {
			fmt.Fprintf(&text, "  - {jsonl: {path: %s}%s}\n", filepath.Join(dir, fmt.Sprint(i)), kinds)
		}
		runConfig(t, text.String())
		first, ended := map[int]string{}, map[int]string{} // IDs of the shift's alarm and of its end, by receiver
		for i, want := range []int{0, 1, 1, 0} {
			ends := 0
			for _, line := range readLines(t, filepath.Join(dir, fmt.Sprint(i))) {
				var a struct {
					Time                time.Time
					Kind, ID, Message   string
					Size, Score, Before any
					Level               string
					Since               time.Time
					Episode             struct {
						ID, State string
						Since     time.Time
						Reports   int
					}
					Worst struct{ Value, Size float64 }
				}
				if line == "" {
					continue
				}
				expect.OK(t, json.Unmarshal([]byte(line), &a))
				switch shift := start.Add(2000 * 5 * time.Minute); {
				case a.Time.Before(shift):
				case a.Kind == "recovered":
					ended[i] = a.ID
					if ends++; !strings.Contains(a.Message, "k back to usual since") || a.Size.(float64) < 7 || a.Score.(float64) < 5 {
						t.Errorf("incidents %v, receiver %d: %s", incidents, i, line)
					}
					ep := a.Episode
					if ep.ID != a.ID || ep.State != "closed" || ep.Reports != 1 || a.Level != "back" || !a.Since.Equal(shift.Add(2*time.Hour)) || !ep.Since.Equal(shift) || a.Worst.Size != a.Size.(float64) || a.Worst.Value < 8 {
						t.Errorf("incidents %v, receiver %d: %s", incidents, i, line)
					}
				case first[i] == "":
					first[i] = a.ID
				default:
					t.Errorf("incidents %v, receiver %d: another alarm: %s", incidents, i, line)
				}
			}
			if ends != want {
				t.Errorf("incidents %v, receiver %d: %d ends, want %d", incidents, i, ends, want)
			}
		}
		if first[1] == "" || ended[1] != first[1] || ended[2] != first[1] {
			t.Errorf("incidents %v: ids of the alarm %v, of its end %v", incidents, first, ended)
		}
	}
}
