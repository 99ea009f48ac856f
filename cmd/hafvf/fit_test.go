package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hafvf/connectors"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// subjects simulates tosses of coins whose chances reverse. Some tosses are missing. After each sixty tosses there is
// a pause of an hour, in which the subject's key expires.
func subjects(n, trials int) string {
	rng := rand.New(rand.NewPCG(3, 53))
	var b strings.Builder
	b.WriteString("key,time,x\n")
	for s := range n {
		for t := range trials {
			x := "0"
			switch {
			case t%29 == 7:
				x = ""
			case (rng.Float64() < .8) == (t/20%2 == 0):
				x = "1"
			}
			fmt.Fprintf(&b, "s%d,2026-01-01T%02d:%02d:00Z,%s\n", s, 2*(t/60), t%60, x)
		}
	}
	return b.String()
}

const (
	subjectsYAML = "model: {family: bernoulli}\nlevels: [{alpha: 9, beta: 1}]\nexpire: 30m\nsource: {csv: {path: in.csv}}\n"
	bothOf       = "levels[0].alpha, levels[0].beta"
)

// fitted reads the table of a fit, by key and column. An empty cell is NaN.
func fitted(t *testing.T, path string) (header string, rows map[string]map[string]float64) {
	t.Helper()
	f := expect.Get(os.Open(path))(t)
	defer f.Close()
	records := expect.Get(csv.NewReader(f).ReadAll())(t)
	rows = map[string]map[string]float64{}
	for _, row := range records[1:] {
		cells := map[string]float64{}
		for i, name := range records[0] {
			cells[name] = math.NaN()
			if v, err := strconv.ParseFloat(row[i], 64); err == nil {
				cells[name] = v
			}
		}
		rows[row[0]] = cells
	}
	return strings.Join(records[0], ","), rows
}

// A fit for each key, a pooled fit, and their comparison.
func TestFit(t *testing.T) {
	expect.Long(t, "fits by key and pooled")
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{"in.csv": subjects(3, 120), "s.yaml": subjectsYAML})
	near := func(got, want, tolerance float64, what string) {
		t.Helper()
		if !(math.Abs(got-want) <= tolerance) {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	program.Well(t, dir, "fit", "s.yaml", "--over", bothOf, "-o", "fit.csv")
	header, own := fitted(t, filepath.Join(dir, "fit.csv"))
	const columns = "key,trials,levels[0].alpha,levels[0].alpha_lower,levels[0].alpha_upper,levels[0].beta,levels[0].beta_lower,levels[0].beta_upper,log_evidence,aic,bic,default_log_evidence,converged"
	expect.Same(t, columns, header)

	// The evidence of the config and of the fit equals the evidence of a run.
	evidence := func(key string, set ...string) (nats float64) {
		t.Helper()
		args := []string{"run", "s.yaml"}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		stdout, _ := program.Well(t, dir, args...)
		for line := range strings.Lines(stdout) {
			var r struct {
				Key           string
				LogPredictive *float64 `json:"log_predictive"`
			}
			expect.OK(t, json.Unmarshal([]byte(line), &r))
			if r.Key == key && r.LogPredictive != nil {
				nats += *r.LogPredictive
			}
		}
		return nats
	}
	for key, r := range own {
		near(r["trials"], 116, 0, "trials that are not missing")
		near(r["bic"]-r["aic"], 2*math.Log(116)-4, 1e-9, "BIC minus AIC")
		near(r["aic"], 4-2*r["log_evidence"], 1e-9, "AIC")
		near(r["default_log_evidence"], evidence(key), 1e-9, "default_log_evidence")
		near(r["log_evidence"], evidence(key, fmt.Sprint("levels[0].alpha=", r["levels[0].alpha"]), fmt.Sprint("levels[0].beta=", r["levels[0].beta"])), 1e-9, "log_evidence")
		if r["log_evidence"] < r["default_log_evidence"] {
			t.Errorf("%s: the fit has less evidence than the start", key)
		}
	}

	stdout, _ := program.Well(t, dir, "fit", "s.yaml", "--over", bothOf, "-o", "pooled.csv", "--pooled", "--against", "fit.csv")
	header, pooled := fitted(t, filepath.Join(dir, "pooled.csv"))
	expect.Same(t, columns+",against_log_evidence,delta_aic,delta_bic", header)
	sum := map[string]float64{}
	for key := range own {
		for _, name := range []string{"log_evidence", "default_log_evidence", "against_log_evidence", "trials"} {
			sum[name] += pooled[key][name]
		}
		sum["aic of each"] += own[key]["aic"]
		near(pooled[key]["against_log_evidence"], own[key]["log_evidence"], 0, "against_log_evidence")
		if pooled[key]["log_evidence"] > own[key]["log_evidence"]+1e-3 {
			t.Errorf("%s has more evidence with the pooled values", key)
		}
	}
	for _, name := range []string{"log_evidence", "default_log_evidence", "against_log_evidence", "trials"} {
		near(pooled[""][name], sum[name], 1e-9, name+" of all")
	}
	near(pooled[""]["delta_aic"], 4-2*sum["log_evidence"]-sum["aic of each"], 1e-9, "delta_aic: two parameters, not six")
	for _, want := range []string{"log evidence", fmt.Sprintf("AIC          %+10.2f\n", pooled[""]["delta_aic"]), "this for 0 of 3 keys, fit.csv for 3"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in %s", want, stdout)
		}
	}

	// The Parquet file has the same table, and a later fit can be compared with it.
	program.Well(t, dir, "fit", "s.yaml", "--over", bothOf, "-o", "fit.parquet")
	rd := expect.Get(connectors.Open(connectors.Source{Format: "parquet", Path: filepath.Join(dir, "fit.parquet"), Key: []string{"key"}, Values: []string{"levels[0].alpha", "converged"}}))(t)
	defer rd.Close()
	first := expect.Get(rd.Next())(t)
	expect.Same(t, strconv.FormatFloat(own["s0"]["levels[0].alpha"], 'g', -1, 64), first.Fields[2])
	stdout, _ = program.Well(t, dir, "fit", "s.yaml", "--over", bothOf, "-o", "again.csv", "--against", "fit.parquet")
	if !strings.Contains(stdout, "this for 0 of 3 keys, fit.parquet for 0") {
		t.Errorf("a fit differs from itself: %s", stdout)
	}
}

func TestFitExits(t *testing.T) {
	t.Parallel()
	dir := e2e.Folder(t, map[string]string{
		"in.csv":      subjects(2, 40),
		"missing.csv": "key,time,x\na,2026-01-01T00:00:00Z,1\nb,2026-01-01T00:00:00Z,\n",
		"empty.csv":   "key,time,x\n",
		"s.yaml":      subjectsYAML,
		"auto.yaml":   "model: {family: normal, prior: auto}\nsource: {csv: {path: in.csv}}\n",
		"bank.yaml":   "model: {family: bernoulli}\nbank: [{levels: [], top: .9}, {levels: [], top: 1}]\nsource: {csv: {path: in.csv}}\n",
		"smooth.yaml": "model: {family: bernoulli}\ntransform: smooth\nsource: {csv: {path: in.csv}}\n",
		"prom.yaml":   "model: {family: normal}\nsource: {prometheus: {url: 'http://127.0.0.1:1', query: q, step: 1m}}\n",
	})
	fit := "fit s.yaml -o out.csv --over "
	exits(t, dir, "", "", []exit{
		{"no table", "fit s.yaml --over top", 2, "fit needs -o"},
		{"no paths", "fit s.yaml -o out.csv", 2, "fit needs the parameters to search"},
		{"another ending", "fit s.yaml --over top -o out.txt", 2, ".parquet"},
		{"a prior from the data", "fit auto.yaml -o out.csv --over top", 2, "give the prior in numbers"},
		{"detection", fit + "top --set detect=true", 2, "leave out detect"},
		{"a bank", "fit bank.yaml -o out.csv --over top", 2, "give levels and top instead"},
		{"smoothing", "fit smooth.yaml -o out.csv --over top", 2, "fit needs the filter"},
		{"a source without an end", "fit prom.yaml -o out.csv --over top", 2, "fit reads files"},
		{"an exception with numbers of its own", fit + `top --set keys=[{"match":"s0","top":0.9}]`, 2, "leave out the exception"},
		{"an exception without trials", fit + `top --set keys=[{"match":"z*","model":{"prior":{"alpha":2}}}]`, 2, "no key of the data matches"},
		{"a key without trials", fit + "top --set source.csv.path=missing.csv", 2, "all trials of the key b are missing"},
		{"no trials", fit + "top --set source.csv.path=empty.csv", 2, "no observations"},
		{"over the input", "fit s.yaml --over top -o in.csv", 2, "in.csv is an input"},
		{"against no table", fit + "top --against none.csv", 2, "none.csv"},
		{"no input", fit + "top --set source.csv.path=none.csv", 1, "none.csv"},
	})
	if _, err := os.Stat(filepath.Join(dir, "out.csv")); err == nil {
		t.Error("a rejected fit wrote a table")
	}
}
