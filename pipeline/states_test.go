package pipeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

// An oldState is a line of testdata/states-*.jsonl: the state of a key as a version
// wrote it to its changelog or savepoint, the observations that came next, and the
// records that this version made of them.
type oldState struct {
	Name, Config, Key     string
	State                 []byte
	First                 int // line of the first observation
	Observations, Records []string
}

// States of every version resume: the records that follow are those of that version.
func TestOldStatesResume(t *testing.T) {
	files, err := filepath.Glob("testdata/states-*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var old oldState
			if err := json.Unmarshal(lines.Bytes(), &old); err != nil {
				t.Fatal(err)
			}
			t.Run(old.Name, func(t *testing.T) { old.resume(t) })
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func (old oldState) resume(t *testing.T) {
	cfg, err := config.Parse("old.yaml", []byte(old.Config+"source: {jsonl: {path: in.jsonl}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := Compose(cfg)
	if err != nil {
		t.Fatal(err)
	}
	filter := g.transform.(filtering)
	est, err := transforms.NewEstimator(filter.cfg)
	if err != nil {
		t.Fatal(err)
	}
	track, err := est.RestoreTrack(old.Key, old.State)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := records.NewLayout(filter.cfg.Filter)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range old.Observations {
		key, o, err := decodeJSON([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		o.ID = fmt.Sprintf("in.jsonl:%d", old.First+i)
		e := est.Estimate(track, o)
		equal(t, strings.TrimSpace(old.Records[i]), strings.TrimSpace(string(layout.AppendEstimate(nil, records.Object, key, &e))))
	}
}
