package pipeline

import (
	"flag"
	"os"
	"testing"

	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

var update = flag.Bool("update", false, "write CONFIG.md")

// CONFIG.md is the reference: go test ./pipeline -update writes it.
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
	if string(text) != config.Markdown()+records.Markdown() {
		t.Errorf("%s is not the reference any more: go test ./pipeline -run ConfigMD -update", path)
	}
}
