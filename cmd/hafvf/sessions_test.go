package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/cmd/hafvf/sessions"
	"hafvf/internal/testing/expect"
)

func TestSessionsErrors(t *testing.T) {
	input := filepath.Join(t.TempDir(), "in.jsonl")
	write := func(text string) {
		expect.OK(t, os.WriteFile(input, []byte(text), 0o666))
	}
	out := filepath.Join(t.TempDir(), "out.csv")
	write(`{"key":"a","time":"2026-01-01T00:00:00Z","n":1,"x":1,"predicted":{"mean":1,"sd":1}}`)
	if _, err := writeSessions(context.Background(), input, out, .95, time.UTC); !errors.As(err, new(sessions.NotSmoothed)) {
		t.Errorf("estimates: %v", err)
	}
	write("")
	if _, err := writeSessions(context.Background(), input, out, .95, time.UTC); err == nil || !strings.Contains(err.Error(), "no records") {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a table was written")
	}
	if checkSessions(input, "a.xlsx", .95) == nil || checkSessions(input, "a.csv", 1) == nil || checkSessions(input, "a.csv.gz", .5) != nil || checkSessions(input, "a.parquet", .5) != nil {
		t.Error("Check of names and intervals")
	}
	expect.OK(t, os.Symlink(input, out))
	for _, results := range []string{input, filepath.Join(filepath.Dir(input), "*.jsonl")} {
		expect.Error(t, checkSessions(results, out, .95), "is an input")
	}
}
