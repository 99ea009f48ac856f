package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kgo"
)

// oldConfigs are those of the changelogs in testdata/changelog-*.json, each with the states
// that a version wrote after the first 400 of observations(600, 3), by config and key.
// testdata/states-*.jsonl has those of all families, with what that version made of the
// observations that followed.
var oldConfigs = map[string]string{
	"two levels": "",
	"detection":  "bank: [{levels: [{alpha: .9, beta: .1}, {alpha: 1, beta: 1}], top: 1}, {levels: [], top: .985}, {levels: [], top: .9998}]\ndetect: true\n",
	"by hand":    "order: arrival\nlevels: [{alpha: 9, beta: 1}]\ntime_unit: 1s\n",
}

// States in changelogs of earlier versions go on: the estimates after them are those of one
// run over all.
func TestOldChangelogs(t *testing.T) {
	files, err := filepath.Glob("testdata/changelog-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]map[string][]byte
		if err := json.Unmarshal(text, &all); err != nil || len(all) != len(oldConfigs) {
			t.Fatal(len(all), err)
		}
		for name, states := range all {
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				b := fakeBus(t, 2)
				b.CreateTopic(t, "out", 1, nil)
				b.CreateTopic(t, "whole", 1, nil)
				b.CreateTopic(t, "states", 1, map[string]string{"cleanup.policy": "compact"})
				for key, value := range states {
					b.Produce(t, &kgo.Record{Topic: "states", Key: []byte(key), Value: value})
				}
				b.put(t, observations(600, 3)...)
				text := b.config("group: g, changelog: states, bounded: true", oldConfigs[name])
				if err := execute(t, text, quiet); err != nil {
					t.Fatal(err)
				}
				whole := b.config("bounded: true", oldConfigs[name])
				if err := execute(t, strings.Replace(whole, "topic: out", "topic: whole", 1), quiet); err != nil {
					t.Fatal(err)
				}
				fields := []string{"key", "n", "time", "log_predictive", "predicted", "estimate", "weight", "memory"}
				got := fieldsOf(t, b.values(t, "out"), fields...)
				if diff := cmp.Diff(fieldsOf(t, b.values(t, "whole"), fields...), got, cmpopts.EquateApprox(1e-8, 0)); diff != "" || len(got) != 3 {
					t.Errorf("%d keys, (-one run +gone on) %s", len(got), diff)
				}
				if n := len(b.values(t, "out")); n != 200 {
					t.Errorf("%d estimates, want those of the last 200 observations", n)
				}
			})
		}
	}
}
