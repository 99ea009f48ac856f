package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func estimateLine(key string, n int, x string) string {
	return fmt.Sprintf(`{"key":%q,"time":"2026-01-01T00:%02d:00Z","n":%d,"x":%s,"predicted":{"mean":1,"sd":null},"log_predictive":-1,"weight":0.9,"memory":%d,"levels":[{"alpha":9,"beta":1},{"alpha":1,"beta":1}]}`+"\n", key, n%60, n, x, n)
}

func results(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlotDrawsEveryKey(t *testing.T) {
	for _, keys := range []int{1, 5, 20} {
		var lines []string
		for n := 1; n < 50; n++ {
			for k := range keys {
				lines = append(lines, estimateLine(fmt.Sprintf("key-%02d", k), n, fmt.Sprint(n%7)))
			}
		}
		path := results(t, lines...)
		for _, ext := range []string{"svg", "png"} {
			out := filepath.Join(t.TempDir(), "out."+ext)
			if err := plotResults(context.Background(), path, out, nil); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if ext == "png" {
				if !bytes.HasPrefix(text, []byte("\x89PNG")) {
					t.Error("not a PNG")
				}
				continue
			}
			for k := range keys {
				if title := fmt.Sprintf("key-%02d", k); !strings.Contains(string(text), title) {
					t.Errorf("%d keys: no title %s", keys, title)
				}
			}
		}
	}
}

func TestPlotErrors(t *testing.T) {
	good := results(t, estimateLine("k", 1, "1"))
	out := filepath.Join(t.TempDir(), "o.svg")
	for _, c := range []struct {
		name, results, out string
		keys               []string
		want               string
	}{
		{"missing", "/no/such.jsonl", out, nil, "no such file"},
		{"empty", results(t), out, nil, "no records"},
		{"not a record", results(t, estimateLine("k", 1, "1"), "{}\n"), out, nil, "out.jsonl:2 is not an estimate"},
		{"table", results(t, "key,time,x\n"), out, nil, "JSON Lines"},
		{"key", good, out, []string{"q"}, `no key "q"`},
		{"folder", good, "/no/such/o.svg", nil, "/no/such/o.svg cannot be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := plotResults(context.Background(), c.results, c.out, c.keys); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a picture was left behind")
	}
}

func TestThinKeepsExtremes(t *testing.T) {
	v := make([]float64, 100_000)
	v[54_321], v[77_777] = 100, -100
	picked := thin(v, v)
	if len(picked) > 6000 || !slices.Contains(picked, 54_321) || !slices.Contains(picked, 77_777) {
		t.Errorf("%d points drawn, or an extreme lost", len(picked))
	}
}

func TestRobustRangeIgnoresAGlitch(t *testing.T) {
	v := []float64{math.NaN()}
	for i := range 1000 {
		v = append(v, float64(i%10))
	}
	lo, hi := robustRange(append(v, 1e6))
	if lo > 0 || hi < 9 || hi > 40 {
		t.Errorf("range %g … %g", lo, hi)
	}
}
