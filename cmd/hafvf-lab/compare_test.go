package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// compared holds the parts of a report that the tests read.
type compared struct {
	Methods []struct{ Name, Setting string }
	Groups  []struct {
		Name   string
		Cases  []string
		Draws  int
		Tables []struct {
			Key  string
			Rows []struct {
				Method string
				Mean   *float64
				Cases  []struct{ Mean *float64 }
			}
		}
	}
}

func (c compared) mean(t *testing.T, group int, key, method string) *float64 {
	t.Helper()
	for _, table := range c.Groups[group].Tables {
		for _, row := range table.Rows {
			if table.Key == key && row.Method == method {
				return row.Mean
			}
		}
	}
	t.Fatalf("group %d has no %s of %s", group, key, method)
	return nil
}

// Without a config the cases are the kinds of streams and the bundled series.
func TestCompareStreams(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := program.Run(t, dir, "", "compare", "--quick", "--seeds", "1", "--methods", "forgetting,naive,cusum", "--json", "--plot", "skill.png")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var got compared
	expect.OK(t, json.Unmarshal([]byte(stdout), &got))
	if len(got.Methods) != 3 || len(got.Groups) != 3 || len(got.Groups[0].Cases) != 15 || len(got.Groups[1].Cases) != 8 || len(got.Groups[2].Cases) != 5 {
		t.Errorf("%+v", got)
	}
	if f := got.mean(t, 1, "f1", "cusum"); f == nil || !(*f > 0 && *f < 1) {
		t.Errorf("F1 of windows %v", f)
	}
	if !strings.Contains(stderr, "of 84 runs") {
		t.Errorf("no progress: %s", stderr)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, "skill.png")); err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Errorf("the picture begins %.10q, error %v", picture, err)
	}
}

// The keys of a config's source are followed in time order. Missing values are omitted, and labels give windows. The
// prior, bank and scale of the config do not matter.
func TestCompareConfig(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("key,time,x\n")
	for i := range 300 {
		t0 := fmt.Sprintf("2026-01-%02dT%02d:00:00Z", 1+i/24, i%24)
		x := fmt.Sprint(100 + i%3)
		switch {
		case i == 60:
			x = ""
		case i >= 200:
			x = fmt.Sprint(110 + i%3)
		}
		fmt.Fprintf(&rows, "pump,%s,%s\n", t0, x)
		if i < 20 {
			fmt.Fprintf(&rows, "few,%s,1\n", t0)
		}
	}
	dir := e2e.Folder(t, map[string]string{
		"in.csv":     rows.String(),
		"labels.csv": "key,start,end\npump,2026-01-09T00:00:00Z,2026-01-09T20:00:00Z\n", // observations 192 to 212
		"pump.yaml":  "model: {family: normal, prior: auto, scale: log}\ndetect: true\nsource: {csv: {path: in.csv}}\nsink: {jsonl: {path: out.jsonl}}\n",
	})
	code, stdout, stderr := program.Run(t, dir, "", "compare", "pump.yaml", "--labels", "labels.csv", "--methods", "detect,cusum,naive", "--json")
	if code != 0 || !strings.Contains(stderr, "left out 1 key with fewer than 100 values") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var got compared
	expect.OK(t, json.Unmarshal([]byte(stdout), &got))
	if len(got.Groups) != 1 || len(got.Groups[0].Cases) != 1 || got.Groups[0].Cases[0] != "pump" {
		t.Fatalf("%+v", got.Groups)
	}
	for _, method := range []string{"detect", "cusum"} {
		if f := got.mean(t, 0, "f1", method); f == nil || *f != 1 {
			t.Errorf("%s: F1 %v of the one window, want 1", method, f)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "out.jsonl")); err == nil {
		t.Error("the config's sink was written")
	}

	// Without labels no changes are known.
	code, stdout, _ = program.Run(t, dir, "", "compare", "pump.yaml", "--methods", "detect,cusum")
	if code != 0 || strings.Contains(stdout, "F1") || !strings.Contains(stdout, "nats") {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

func TestCompareExitCodes(t *testing.T) {
	dir := e2e.Folder(t, map[string]string{
		"in.csv":        "key,time,x\na,2026-01-01T00:00:00Z,1.5\na,2026-01-01T00:00:01Z,oops\na,2026-01-01T00:00:02Z,2\n",
		"few.yaml":      "model: {family: normal}\nsource: {csv: {path: in.csv}}\n",
		"bare.csv":      "key,x\na,1\na,2\n",
		"labels.csv":    "key,start,end\ngone,2026-01-01,2026-01-02\n",
		"timeless.yaml": "model: {family: normal}\norder: arrival\nsource: {csv: {path: bare.csv}}\n",
		"gone.yaml":     "model: {family: normal}\nsource: {csv: {path: gone.csv}}\n",
		"smooth.yaml":   "transform: smooth\nmodel: {family: normal}\nsource: {csv: {path: in.csv}}\n",
		"pairs.yaml":    "model: {family: mvnormal}\nsource: {csv: {path: in.csv, values: [x, x]}}\n",
		"kafka.yaml":    "model: {family: normal}\nsource: {kafka: {embedded: true, topics: [a], group: g}}\nsink: none\n",
	})
	for _, c := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"--methods", "bocdp"}, cli.ExitUsage, `no method "bocdp"; the nearest is "bocpd" of hafvf, hafvf3, bank, detect,`},
		{[]string{"--json", "--markdown"}, cli.ExitUsage, "not both"},
		{[]string{"--seeds", "0"}, cli.ExitUsage, "at least 1"},
		{[]string{"--labels", "x.csv"}, cli.ExitUsage, "give a CONFIG"},
		{[]string{"--plot", "x.pdf"}, cli.ExitUsage, ".svg"},
		{[]string{"few.yaml", "--quick"}, cli.ExitUsage, "leave out CONFIG"},
		{[]string{"few.yaml", "--labels", "gone.csv"}, cli.ExitUsage, "gone.csv"},
		{[]string{"smooth.yaml"}, cli.ExitUsage, "transform=filter"},
		{[]string{"kafka.yaml"}, cli.ExitUsage, "reads a file"},
		{[]string{"pairs.yaml"}, cli.ExitUsage, "not mvnormal"},
		{[]string{"few.yaml", "more"}, cli.ExitUsage, "accepts at most 1 arg"},
		{[]string{"few.yaml"}, cli.ExitFailed, "no key has 100 values"},
		{[]string{"timeless.yaml", "--labels", "labels.csv"}, cli.ExitFailed, "the records have no times"},
		{[]string{"few.yaml", "--labels", "labels.csv"}, cli.ExitFailed, "not in the data: 1 labelled key, first gone"},
		{[]string{"gone.yaml"}, cli.ExitFailed, "gone.csv"},
	} {
		code, _, stderr := program.Run(t, dir, "", append([]string{"compare"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit %d, standard error %q", c.args, code, stderr)
		}
	}
}
