package flink_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/flinktest"
	"hafvf/pipeline/flink"
)

var (
	writeSavepoint = flag.String("write-savepoint", "", "`folder` into which TestWriteSavepoint writes; its name stands in what it writes")
	writer         = flag.String("writer", "", "`program` of another version that writes the savepoint")
)

// TestWriteSavepoint writes what is in pipeline/flink/savepoint/testdata, as the README
// there says: a savepoint, and the last estimate of every key that its job had written.
func TestWriteSavepoint(t *testing.T) {
	if *writeSavepoint == "" {
		t.Skip("only with -write-savepoint")
	}
	// With so many keys some cells are logs, and others are not.
	const n, keys = 2_000, 115
	settings := ", parallelism: 1, max_parallelism: 200, cells: 4"
	if *writer != "" {
		program.Path, settings = *writer, ", parallelism: 1"
	}
	s := &site{e2e.StartSite(t, program, flinktest.Config{TaskManagers: 1})}
	s.Broker.CreateTopic(t, "kept-in", 1, nil)
	cfg := s.Config(t, "kept", "", settings, "")
	d := program.Start(t, nil, "run", cfg)
	s.Await(t, d, "kept", "the job runs", func(is flink.Status) bool { return is.State == "RUNNING" })
	records := e2e.Observations("kept-in", n, keys, 11)
	for _, r := range records { // one key is long
		r.Value = bytes.Replace(r.Value, []byte(`"k7"`), []byte(`"`+strings.Repeat("k7 µ/", 50)+`"`), 1)
	}
	// The logs get several pieces.
	var fed int64
	for part := range slices.Chunk(records, n/3+1) {
		s.Broker.Produce(t, part...)
		fed += int64(len(part))
		d.Eventually(t, "all records are out", func() bool { return e2e.Held(t, s.Broker, "kept-out", "kept-rejected") >= fed })
	}
	code, _, stderr := program.Run(t, "", "", "stop", "--savepoint", "--to", "file://"+*writeSavepoint, cfg)
	if code != 0 {
		t.Fatal(stderr)
	}
	last := map[string]string{}
	for _, r := range s.Broker.Consume(t, "kept-out") {
		last[string(r.Key)] = string(r.Value) + "\n"
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(last)) {
		text.WriteString(last[key])
	}
	expect.OK(t, os.WriteFile(filepath.Join(*writeSavepoint, "records.jsonl"), []byte(text.String()), 0o644))
}
