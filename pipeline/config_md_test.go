package pipeline

import (
	"flag"
	"os"
	"strings"
	"testing"

	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

var update = flag.Bool("update", false, "write CONFIG.md")

// CONFIG.md is the reference: go test ./pipeline -run ConfigMD -update writes it. It has to stay short.
func TestConfigMD(t *testing.T) {
	const path = "../CONFIG.md"
	if *update {
		if err := os.WriteFile(path, []byte(config.Markdown()+records.Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 40_000 {
		t.Errorf("%s has %d bytes", path, len(text))
	}
	for _, row := range strings.Split(string(text), "\n") {
		for _, cell := range strings.Split(row, " | ") {
			if strings.HasPrefix(row, "|") && len(cell) > 300 {
				t.Errorf("a cell of %d characters: %s", len(cell), cell)
			}
		}
	}
	if string(text) != config.Markdown()+records.Markdown() {
		t.Errorf("%s is not the reference any more: go test ./pipeline -run ConfigMD -update", path)
	}
}
