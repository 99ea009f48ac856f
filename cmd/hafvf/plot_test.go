package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/cmd/hafvf/chart"
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

func readEstimates(path string) (all []*estimates, left int, err error) {
	histories, left, err := readRecords(context.Background(), path, nil)
	for _, h := range histories {
		all = append(all, newEstimates(h))
	}
	return all, left, err
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
			if err := plotResults(context.Background(), path, out, nil, defaultOdds); err != nil {
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
		{"not a record", results(t, estimateLine("k", 1, "1"), "{}\n"), out, nil, "line 2 is neither an estimate nor"},
		{"table", results(t, "key,time,x\n"), out, nil, "JSON Lines"},
		{"cut off", results(t, estimateLine("k", 1, "1")[:40]+"\n"), out, nil, "line 1 is neither an estimate nor"},
		{"csv", "out.csv.gz", out, nil, "JSON Lines, not csv"},
		{"parquet", "out.parquet", out, nil, "JSON Lines, not parquet"},
		{"extension", good, "o.pdf", nil, "an .svg or a .png file"},
		{"key", good, out, []string{"q"}, `no key "q"; the nearest is "k"`},
		{"folder", good, "/no/such/o.svg", nil, "/no/such/o.svg cannot be written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := plotResults(context.Background(), c.results, c.out, c.keys, defaultOdds); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	left, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(left) > 0 {
		t.Errorf("files %v, error %v left behind", left, err)
	}
}

func TestPlotIsDeterministic(t *testing.T) {
	path := results(t, estimateLine("a", 1, "1"), estimateLine("b", 1, "null"), estimateLine("a", 2, "[2]"))
	var pictures [2][]byte
	for i := range pictures {
		out := filepath.Join(t.TempDir(), "o.svg")
		if err := plotResults(context.Background(), path, out, []string{"b", "a"}, defaultOdds); err != nil {
			t.Fatal(err)
		}
		var err error
		if pictures[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(pictures[0], pictures[1]) {
		t.Error("two pictures of one file differ")
	}
	if a, b := bytes.Index(pictures[0], []byte(">a<")), bytes.Index(pictures[0], []byte(">b<")); b < 0 || a < b {
		t.Errorf("key a at %d, key b at %d; wanted b before a", a, b)
	}
}

func TestPlotDrawsKeysAsText(t *testing.T) {
	out := filepath.Join(t.TempDir(), "o.svg")
	key := "a<b>&\"\n\x01" + strings.Repeat("long ", 100)
	line := strings.Replace(estimateLine("k", 1, "1"), `"k"`, strings.ReplaceAll(fmt.Sprintf("%q", key), `\x01`, `\u0001`), 1)
	if err := plotResults(context.Background(), results(t, line), out, nil, defaultOdds); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), "a&lt;b&gt;&amp;&#34;") {
		t.Error("no title")
	}
}

// A second picture replaces the first, and one that cannot be made leaves it.
func TestPlotKeepsAPictureThatIsThere(t *testing.T) {
	out := filepath.Join(t.TempDir(), "o.svg")
	if err := plotResults(context.Background(), results(t, estimateLine("k", 1, "1")), out, nil, defaultOdds); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := plotResults(context.Background(), results(t, "{}\n"), out, nil, defaultOdds); err == nil {
		t.Fatal("no error")
	}
	if after, err := os.ReadFile(out); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the picture changed: %v", err)
	}
}

func TestReadSeriesTakesTheCoordinateThatIsPredicted(t *testing.T) {
	line := func(x, mean string) string {
		return fmt.Sprintf(`{"key":"k","time":null,"n":1,"x":%s,"predicted":{"mean":%s,"sd":null},"log_predictive":null}`+"\n", x, mean)
	}
	for _, c := range []struct {
		name, x, mean string
		want          []float64
	}{
		{"scalar", "3", "1", []float64{3}},
		{"missing", "null", "1", nil},
		{"several", "[[3],[null],[4]]", "1", []float64{3, 4}},
		{"vector", "[3,4]", "[1,2]", []float64{3}},
		{"target behind regressors", "[3,4]", "1", []float64{4}},
		{"category 0", "0", "[0.5,0.5]", []float64{1}},
		{"category 1", "[1]", "[0.5,0.5]", []float64{0}},
	} {
		all, _, err := readEstimates(results(t, line(c.x, c.mean)))
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, p := range all[0].data {
			got = append(got, p.Y)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReadSeries(t *testing.T) {
	all, left, err := readEstimates(results(t, estimateLine("k", 2, "5"), estimateLine("k", 1, "4")))
	if err != nil {
		t.Fatal(err)
	}
	const start = 1767225600 // 2026-01-01T00:00:00Z
	s := all[0]
	if left != 0 || !slices.Equal(s.data, []chart.Point{{X: start + 60, Y: 4}, {X: start + 120, Y: 5}}) || !slices.Equal(s.memory, []float64{1, 2}) ||
		!slices.Equal(s.weights[0], []float64{0.9, 0.9}) || !slices.Equal(s.weights[1], []float64{0.5, 0.5}) || !slices.Equal(s.surprise, []float64{1, 1}) {
		t.Errorf("%d left out; %+v", left, s)
	}

	var lines []string
	for i := range maxKeys + 3 {
		lines = append(lines, estimateLine(fmt.Sprintf("k%02d", 99-i), 1, "1"))
	}
	all, left, err = readEstimates(results(t, lines...))
	if err != nil || left != 3 || len(all) != maxKeys || all[0].key != "k80" || all[maxKeys-1].key != "k99" {
		t.Errorf("%d series, %d left out, error %v", len(all), left, err)
	}
}
