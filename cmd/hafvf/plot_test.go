package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/e2e"
)

// What a smoothing run writes, plot reads.
func TestPlotDrawsWhatASmoothingRunWrites(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("key,time,x\n")
	for i := range 60 {
		fmt.Fprintf(&csv, "a,2026-01-01T00:%02d:00Z,%d\n", i, i%3+10*(i/40))
	}
	for levels, legend := range map[string]string{"levels: [{alpha: 0.9, beta: 0.1}]\n": "E[w] backward", "": "mean of the segment"} {
		dir := e2e.Folder(t, map[string]string{
			"in.csv": csv.String(),
			"c.yaml": "transform: smooth\nrecords: full\nmodel: {family: normal}\n" + levels + "source: {csv: {path: in.csv}}\nsink: {jsonl: {path: out.jsonl}}\n",
		})
		program.Well(t, dir, "run", "c.yaml")
		if _, stderr := program.Well(t, dir, "plot", "out.jsonl", "-o", "out.svg"); stderr != "" {
			t.Error(stderr)
		}
		if picture, err := os.ReadFile(filepath.Join(dir, "out.svg")); err != nil || !strings.Contains(string(picture), legend) || !strings.Contains(string(picture), ">change<") {
			t.Errorf("%v; the picture does not show %q", err, legend)
		}
	}
}
