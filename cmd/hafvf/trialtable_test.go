package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// choices returns the trials of two subjects. The answers of the first reverse after 15 trials, and its tenth trial
// is missing.
func choices() string {
	var b strings.Builder
	b.WriteString("subject,trial,correct\n")
	for k := range 30 {
		for s, subject := range []string{"s1", "=s2"} {
			answer := fmt.Sprint(k / 15 * (1 - s))
			if s == 0 && k == 9 {
				answer = ""
			}
			fmt.Fprintf(&b, "%s,%d,%s\n", subject, k+1, answer)
		}
	}
	return b.String()
}

// tableOf reads a CSV table as rows by column name.
func tableOf(t *testing.T, file string) (header []string, rows []map[string]string) {
	t.Helper()
	records := expect.Get(csv.NewReader(strings.NewReader(string(expect.Get(os.ReadFile(file))(t)))).ReadAll())(t)
	for _, cells := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return records[0], rows
}

// parquetTable reads a Parquet table as tableOf reads a CSV table.
func parquetTable(t *testing.T, file string) (header []string, rows []map[string]string) {
	t.Helper()
	src := connectors.Source{Format: connectors.Parquet, Path: file}
	src.Values, _, _ = connectors.Peek(src, 0)
	in := expect.Get(connectors.Open(src))(t)
	defer in.Close()
	for {
		r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return src.Values, rows
		}
		expect.OK(t, err)
		row := map[string]string{}
		for i, name := range src.Values {
			row[name] = r.Fields[i+1] // after the time
		}
		rows = append(rows, row)
	}
}

// A config of the filter and one of the smoother give equal tables, in CSV and Parquet.
func TestTrialTable(t *testing.T) {
	t.Parallel()
	const source = "source: {csv: {path: choices.csv, key: subject, values: [correct], time: "
	dir := e2e.Folder(t, map[string]string{
		"choices.csv": choices(),
		"filter.yaml": "model: {family: bernoulli}\norder: arrival\n" + source + "''}}\n",
		"smooth.yaml": "transform: smooth\nmodel: {family: bernoulli}\n" + source + "trial, time_format: trial}}\nsink: {jsonl: {path: out.jsonl}}\n",
		"one.yaml":    "model: {family: bernoulli}\nlevels: [{alpha: 9, beta: 1}, {alpha: 2, beta: 1}]\norder: arrival\n" + source + "''}}\n",
	})
	inDir := func(name string) string { return filepath.Join(dir, name) }
	for _, config := range []string{"filter", "smooth"} {
		_, stderr := program.Well(t, dir, "trials", config+".yaml", "-o", config+".csv", "--keys", config+".keys.csv")
		if !strings.HasSuffix(stderr, "60 trials of 2 keys, 1 change: "+config+".csv\n") {
			t.Errorf("standard error: %s", stderr)
		}
		table := string(expect.Get(os.ReadFile(inDir(config+".csv")))(t)) + string(expect.Get(os.ReadFile(inDir(config+".keys.csv")))(t))
		compareGolden(t, filepath.Join("testdata", "trials.csv"), table)
	}
	program.Well(t, dir, "trials", "filter.yaml", "-o", "filter.parquet")
	header, rows := tableOf(t, inDir("filter.csv"))
	parquetHeader, parquetRows := parquetTable(t, inDir("filter.parquet"))
	expect.Same(t, header, parquetHeader)
	for i, r := range rows {
		r["key"] = connectors.Unguarded(r["key"])
		for name, cell := range r {
			a, errA := strconv.ParseFloat(cell, 64)
			b, errB := strconv.ParseFloat(parquetRows[i][name], 64)
			if name == "change" {
				cell = map[string]string{"true": "1", "false": "0"}[cell]
			}
			if cell != parquetRows[i][name] && (errA != nil || errB != nil || a != b) {
				t.Errorf("row %d, %s: %s in CSV, %s in Parquet", i, name, cell, parquetRows[i][name])
			}
		}
	}

	// A plain loop gives the same numbers.
	program.Well(t, dir, "trials", "one.yaml", "-o", "one.csv")
	_, rows = tableOf(t, inDir("one.csv"))
	levels := []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 2, Beta: 1}}
	f := expect.Get(hafvf.Config{Family: "bernoulli", Member: &hafvf.Member{Levels: levels, Top: 1}}.Filter())(t)
	state, memoryBefore := f.NewState(), 0.0
	for i, r := range rows[30:] { // rows of s1
		if r["x"] == "" {
			if i != 9 || r["surprise"]+r["learning_rate"] != "" || r["predicted_mean"] == "" || r["smoothed_mean"] == "" || r["change"] != "false" || r["segment"] != "1" {
				t.Errorf("row %d: %v", i, r)
			}
			continue
		}
		step := f.Update(state, []float64{float64(r["x"][0] - '0')})
		b := f.Level(state, 1)
		for name, want := range map[string]float64{
			"surprise": -step.LogPredictive, "weight": step.Weight, "memory": step.Memory, "e_b": b.Alpha / (b.Alpha + b.Beta),
			"learning_rate": (step.Memory - step.Weight*memoryBefore) / (step.Memory + f.Model().PriorMemory()),
		} {
			if got, err := strconv.ParseFloat(r[name], 64); err != nil || math.Abs(got-want) > 1e-9 {
				t.Errorf("row %d: %s %s, want %g", i, name, r[name], want)
			}
		}
		memoryBefore = step.Memory
	}
	t.Run("pandas", func(t *testing.T) {
		needPandas(t)
		text, err := exec.Command("python3", "-c", `
import pandas, sys
for t in pandas.read_csv(sys.argv[1]), pandas.read_parquet(sys.argv[2]):
    for c in t.columns.drop(["key", "change"]):
        assert t[c].dtype.kind in "iuf", (c, t[c].dtype)
    assert t["change"].dtype == bool
    assert list(t.groupby(["key", "segment"]).size()) == [30, 15, 15]
    assert t["surprise"].isna().sum() == 1 and t["e_b"].isna().all()
`, inDir("filter.csv"), inDir("filter.parquet")).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
	t.Run("R", func(t *testing.T) {
		if err := exec.Command("Rscript", "--version").Run(); err != nil {
			t.Skip("SKIPPED: there is no Rscript, which reads the table in this test")
		}
		text, err := exec.Command("Rscript", "-e", `
t <- read.csv(commandArgs(TRUE)[1])
stopifnot(nrow(t) == 60, is.numeric(t$learning_rate), sum(is.na(t$surprise)) == 1, sum(t$change == "true") == 1)
`, inDir("filter.csv")).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, text)
		}
	})
}

// needPandas skips a test if python3 cannot read tables.
func needPandas(t *testing.T) {
	t.Helper()
	if err := exec.Command("python3", "-c", "import pandas, pyarrow").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("python3 has no pandas with pyarrow")
		}
		t.Skip("SKIPPED: python3 has no pandas with pyarrow, which reads the tables in this test: pip install pandas pyarrow")
	}
}

// Each row joins the estimate and the smoothed record of one observation, in any order of sessions. Segments are
// numbered within the key.
func TestTrialTableOfSessions(t *testing.T) {
	var b strings.Builder
	b.WriteString("subject,block,trial,rt\n")
	for k := range 40 { // two blocks alternate, and their trials are in reverse order
		fmt.Fprintf(&b, "s,%d,%d,%d\n", k%2, 20-k/2, k*k%17+k/2/10*40*(1-k%2))
	}
	dir := e2e.Folder(t, map[string]string{
		"in.csv": b.String(),
		"c.yaml": "transform: smooth\nmodel: {family: normal}\nsession: {by: [block]}\nsink: {jsonl: {path: out.jsonl}}\nsource: {csv: {path: in.csv, key: subject, time: trial, time_format: trial, values: [rt]}}\n",
	})
	program.Well(t, dir, "run", "c.yaml")
	program.Well(t, dir, "trials", "c.yaml", "-o", "t.csv")
	_, rows := tableOf(t, filepath.Join(dir, "t.csv"))
	smoothed := map[string]float64{}
	for line := range strings.Lines(string(expect.Get(os.ReadFile(filepath.Join(dir, "out.jsonl")))(t))) {
		var r struct {
			ID       string
			Estimate struct{ Mean float64 }
		}
		expect.OK(t, json.Unmarshal([]byte(line), &r))
		smoothed[r.ID] = r.Estimate.Mean
	}
	segments := map[string]int{}
	for k, r := range rows {
		if want := smoothed[fmt.Sprintf("s/%d/%d", k%2, 20-k/2)]; r["smoothed_mean"] != fmt.Sprint(want) || r["trial"] != fmt.Sprint(k+1) {
			t.Errorf("row %d: %v, want the mean %g", k, r, want)
		}
		segments[r["segment"]]++
	}
	expect.Same(t, map[string]int{"1": 10, "2": 20, "3": 10}, segments)
}

// Vectors have a column for each coordinate, and cells that do not apply are empty.
func TestTrialTableOfVectors(t *testing.T) {
	var b strings.Builder
	b.WriteString("key,time,x,y\n")
	for k := range 70 {
		fmt.Fprintf(&b, "a,2026-01-%02dT%02d:00:00Z,%d,%d\n", 1+k/24, k%24, k*5%7, k*3%11) // steps larger than session.gap
	}
	dir := e2e.Folder(t, map[string]string{
		"in.csv":     strings.ReplaceAll(b.String(), ",0,", ",,"),
		"in.jsonl":   `{"key":"a","x":[[1],[2]]}` + "\n" + `{"key":"a","x":3}` + "\n",
		"c.yaml":     "model: {family: mvnormal, prior: auto}\ndetect: true\nsource: {csv: {path: in.csv, values: [x, y]}}\n",
		"lists.yaml": "model: {family: normal}\norder: arrival\nsource: {jsonl: {path: in.jsonl, time: ''}}\n",
	})
	program.Well(t, dir, "trials", "c.yaml", "-o", "t.csv")
	header, rows := tableOf(t, filepath.Join(dir, "t.csv"))
	expect.Same(t, "key,trial,time,x.0,x.1,predicted_mean.0,predicted_mean.1,predicted_sd.0,predicted_sd.1,surprise,learning_rate,weight,memory,e_b,p_change,smoothed_mean.0,smoothed_mean.1,change,segment", strings.Join(header, ","))
	if r := rows[0]; r["x.0"]+r["surprise"]+r["learning_rate"] != "" || r["x.1"] != "0" {
		t.Errorf("%v", r)
	}
	if r := rows[65]; r["p_change"] == "" || r["smoothed_mean.1"] == "" || r["learning_rate"] == "" || r["segment"] == "" || r["time"] != "2026-01-03T17:00:00Z" {
		t.Errorf("%v", r)
	}
	program.Well(t, dir, "trials", "lists.yaml", "-o", "t.csv")
	_, rows = tableOf(t, filepath.Join(dir, "t.csv"))
	expect.Same(t, []string{"[[1],[2]]", "[[3]]"}, []string{rows[0]["x"], rows[1]["x"]})
	if slices.ContainsFunc(rows, func(r map[string]string) bool { return r["smoothed_mean"] == "" }) {
		t.Errorf("%v", rows)
	}
}

func TestTrialTableExits(t *testing.T) {
	dir := e2e.Folder(t, map[string]string{
		"in.csv": goodCSV, "ok.yaml": goodYAML,
		"topics.yaml": "model: {family: normal}\nsource: {kafka: {brokers: [b], topics: [in], bounded: true}}\n",
		"query.yaml":  "model: {family: normal}\nsource: {prometheus: {url: 'http://127.0.0.1:1', query: up, step: 1m}}\n",
	})
	exits(t, dir, "", "trials", []exit{
		{"without a table", "ok.yaml", 2, "trials needs -o"},
		{"no table", "ok.yaml -o a.jsonl", 2, "a table is a .csv or a .parquet file"},
		{"over the data", "ok.yaml -o in.csv", 2, "in.csv is an input"},
		{"one file", "ok.yaml -o a.csv --keys a.csv", 2, "given for both tables"},
		{"topics", "topics.yaml -o a.csv", 2, "trials reads a file, not Kafka"},
		{"endless", "query.yaml -o a.csv", 2, "trials needs a source that ends"},
		{"on Flink", "topics.yaml -o a.csv --set sink=none --set runner.name=flink --set runner.endpoint=a:1", 2, "not on Flink"},
		{"standard input", "ok.yaml -o a.csv --set source.csv.path=-", 2, "standard input can be read once"},
		{"no such column", "ok.yaml -o a.csv --set source.csv.values=[y]", 1, `"y"`},
		{"mostly rejected", "ok.yaml -o c.csv --set source.csv.decimal=','", 1, "more than half"},
		{"rejects", "ok.yaml -o b.csv", 0, "2 trials of 1 key"},
	})
	if _, err := os.Stat(filepath.Join(dir, "a.csv")); err == nil {
		t.Error("a failed run wrote a table")
	}
	if _, rows := tableOf(t, filepath.Join(dir, "c.csv")); len(rows) != 1 {
		t.Errorf("the valid key has %d rows", len(rows))
	}
}

// Carried columns are in records and tables, as in the source.
func TestCarry(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{
		"in.csv":     "who,x,choice,rt,option_a,option_b,trial\na,1,left,0.50,=up,,9\na,0,\"r,t\",007,dn,2,8\n",
		"in.jsonl":   `{"who":"a","x":1,"c":{"side":"left"},"rt":0.50,"ok":true}` + "\n" + `{"who":"a","x":0,"c":{"side":"<r>"},"option_b":[1, 2]}` + "\n",
		"csv.yaml":   "model: {family: bernoulli}\norder: arrival\nsource: {csv: {path: in.csv, key: who, time: '', carry: [choice, rt, 'option*', trial]}}\nsink: {jsonl: {path: out.jsonl}}\n",
		"jsonl.yaml": "model: {family: bernoulli}\norder: arrival\nsource: {jsonl: {path: in.jsonl, key: who, time: '', carry: [c.side, rt, 'o*']}}\nsink: {jsonl: {path: out.jsonl}}\n",
	})
	carried := func() (values []string) {
		for line := range strings.Lines(string(expect.Get(os.ReadFile(filepath.Join(dir, "out.jsonl")))(t))) {
			var r struct{ Carry json.RawMessage }
			expect.OK(t, json.Unmarshal([]byte(line), &r))
			values = append(values, string(r.Carry))
		}
		return values
	}
	want := []string{`{"choice":"left","rt":0.50,"trial":9,"option_a":"=up","option_b":null}`, `{"choice":"r,t","rt":"007","trial":8,"option_a":"dn","option_b":2}`}
	for _, set := range []string{"records=full", "transform=smooth"} {
		program.Well(t, dir, "run", "csv.yaml", "--set", set)
		expect.Same(t, want, carried(), set)
	}
	program.Well(t, dir, "run", "jsonl.yaml")
	expect.Same(t, []string{`{"c.side":"left","rt":0.50,"ok":true}`, `{"c.side":"<r>","option_b":[1,2]}`}, carried())

	columns := func(header []string, row map[string]string, start, n int) (values []string) {
		for _, name := range header[start:][:n] {
			values = append(values, name+"="+row[name])
		}
		return values
	}
	program.Well(t, dir, "trials", "csv.yaml", "-o", "t.csv")
	header, rows := tableOf(t, filepath.Join(dir, "t.csv"))
	expect.Same(t, []string{"choice=left", "rt=0.50", "carry.trial=9", "option_a='=up", "option_b=", "x=1"}, columns(header, rows[0], 2, 6))
	expect.Same(t, []string{"choice=r,t", "rt=007", "carry.trial=8", "option_a=dn", "option_b=2", "x=0"}, columns(header, rows[1], 2, 6))
	program.Well(t, dir, "trials", "jsonl.yaml", "-o", "t.csv")
	header, rows = tableOf(t, filepath.Join(dir, "t.csv"))
	expect.Same(t, []string{"c.side=<r>", "rt=", "ok=", "option_b=[1,2]", "x=0"}, columns(header, rows[1], 2, 5))
	for _, sink := range []string{"csv", "parquet"} {
		program.Well(t, dir, "run", "csv.yaml", "--set", fmt.Sprintf("sink={%s: {path: out.%[1]s}}", sink))
		read := tableOf
		if sink == "parquet" {
			read = parquetTable
		}
		header, rows = read(t, filepath.Join(dir, "out."+sink))
		start := slices.Index(header, "carry.choice")
		expect.Same(t, []string{"carry.choice=r,t", "carry.rt=007", "carry.trial=8", "carry.option_a=dn", "carry.option_b=2"}, columns(header, rows[1], start, 5), sink)
	}
	exits(t, dir, "", "run", []exit{
		{"an absent column", "csv.yaml --set source.csv.carry=[choise]", 1, `in.csv has no column "choise"`},
		{"an absent field", "jsonl.yaml --set source.jsonl.carry=[c.sight]", 1, `no record of "in.jsonl" has the field c.sight, which carry names`},
		{"a pattern of nothing", "csv.yaml --set source.csv.carry=[z*]", 0, ""},
		{"aggregate", "csv.yaml --set order=event_time --set source.csv.time=t --set aggregate.every=1m --set aggregate.value=mean", 2, "source.csv.carry: is for single records"},
		{"wide", "csv.yaml --set source.csv.layout=wide", 2, "source.csv.carry: is for layout: long"},
	})
}
