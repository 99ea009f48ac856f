package pipeline

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"hafvf/hafvf/keyed"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

// An oldState is a line of testdata/states-*.jsonl: the state of a key as a version
// wrote it to its changelog or savepoint, the observations that came next, and the
// records that this version made of them.
type oldState struct {
	Name, Config, Key     string
	Step                  string // of a cluster's job, which finds the states of a savepoint by it
	State                 []byte
	First                 int // line of the first observation
	Observations, Records []string
}

func oldStates(t *testing.T) (all []oldState) {
	t.Helper()
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
			all = append(all, old)
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// States of every version resume: the records that follow agree with those of that
// version.
// Score, threshold and alarm are new: those of a key begin after as many observations
// as a warm-up has.
func TestOldStatesResume(t *testing.T) {
	for _, old := range oldStates(t) {
		t.Run(old.Name, func(t *testing.T) { old.resume(t) })
	}
}

// A run goes on from the changelog of an earlier version: states by key, without a
// head, and offsets of which nothing is said.
func TestOldChangelogResumes(t *testing.T) {
	for _, old := range oldStates(t) {
		if old.Name != "normal" && old.Name != "mvnormal" {
			continue
		}
		t.Run(old.Name, func(t *testing.T) {
			b := fakeBus(t, 1)
			b.CreateTopic(t, "states", 1, map[string]string{"cleanup.policy": "compact"})
			b.Produce(t, &kgo.Record{Topic: "states", Key: []byte(old.Key), Value: old.State})
			b.put(t, slices.Repeat([]string{`{"key":"learned before"}`}, old.First-1)...)
			client := &kafka.Client{Addr: kafka.TCP(b.brokers...)}
			offset := kafka.OffsetCommit{Offset: int64(old.First - 1)}
			if _, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{GroupID: "g", GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"in": {offset}}}); err != nil {
				t.Fatal(err)
			}
			b.put(t, old.Observations...)
			text := strings.Replace(b.config("group: g, changelog: states, bounded: true", ""), "model: {family: normal}\n", old.Config, 1)
			if _, err := (Run{Graph: compose(t, text), Log: quiet}).Execute(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			got := b.values(t, "out")
			if len(got) != len(old.Records) {
				t.Fatalf("%d records for %d", len(got), len(old.Records))
			}
			for i, record := range got {
				agree(t, old.Records[i], record, "id") // of the topic, of a file
			}
		})
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
	est, err := keyed.NewEstimator(filter.cfg.Config)
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
		got := string(layout.AppendEstimate(nil, records.Object, key, &e))
		if layout.Detect != strings.Contains(got, newFields) {
			t.Fatalf("%s", got)
		}
		got = strings.Replace(got, newFields, "", 1)
		if _, joined := filter.cfg.Filter.WithoutAR(); joined {
			similar(t, old.Records[i], got)
			continue
		}
		agree(t, old.Records[i], got)
	}
}

// agree compares records but for the fields without. Versions search for the maximum
// in another number of iterations, and end within 1e-8 of each other.
func agree(t *testing.T, old, record string, without ...string) {
	t.Helper()
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal([]byte(old), &was), json.Unmarshal([]byte(record), &is)); err != nil {
		t.Fatal(err)
	}
	for _, field := range append(without, "iterations") {
		_, had := was[field]
		_, has := is[field]
		equal(t, had, has)
		delete(was, field)
		delete(is, field)
	}
	if diff := cmp.Diff(was, is, cmpopts.EquateApprox(1e-8, 1e-12)); diff != "" {
		t.Errorf("(-version +this)\n%s", diff)
	}
}

const newFields = `,"score":null,"threshold":null,"alarm":null`

// similar compares the records of a bank with those of one that a member on the last
// value has joined. The verdicts stay, and so do the regimes. The other members see
// the same observations, weighted by a probability of the regime in which the new
// member has a small part; relative to each other they keep their shares.
func similar(t *testing.T, old, joined string) {
	t.Helper()
	type member struct {
		Share          float64 `json:"weight_of_member"`
		Weight, Memory float64
	}
	type record struct {
		Key, Time, ID string
		N             int
		X             float64
		WarmUp        bool `json:"warm_up"`
		Bank          []member
		Detect        struct {
			Kind   string
			Start  *string
			StartN *int `json:"start_n"`
			Delay  *int
			Age    int
		}
	}
	var want, got record
	for text, r := range map[string]*record{old: &want, joined: &got} {
		if err := json.Unmarshal([]byte(text), r); err != nil {
			t.Fatal(err)
		}
	}
	if len(want.Bank) != 3 || len(got.Bank) != 4 {
		t.Fatalf("%d members, and %d before", len(got.Bank), len(want.Bank))
	}
	for i, w := range want.Bank {
		g := got.Bank[i]
		g.Share /= 1 - got.Bank[3].Share
		if math.Abs(g.Weight-w.Weight) > 1e-3 || math.Abs(g.Memory/w.Memory-1) > 5e-3 ||
			!want.WarmUp && math.Abs(g.Share/w.Share-1) > 1e-4 { // in the warm-up all is learned anew
			t.Errorf("observation %d, member %d: %+v, want %+v", want.N, i, g, w)
		}
	}
	want.Bank, got.Bank = nil, nil
	equal(t, want, got)
}
