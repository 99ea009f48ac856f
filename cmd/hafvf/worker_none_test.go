//go:build !flink

package main

import (
	"strings"
	"testing"
)

// Without its build tag, the worker command fails with the remedy.
func TestNoWorker(t *testing.T) {
	if code, _, stderr := program.Run(t, "", "", "worker"); code != 2 || !strings.Contains(stderr, "go build -tags flink ./cmd/hafvf") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
