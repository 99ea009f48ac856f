//go:build unix

package pipeline

import (
	"cmp"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

var (
	costRecords = flag.Int("cost-records", 100_000, "records of each line of the table of costs")
	costLike    = flag.String("cost-like", "", "pattern of the lines of the table of costs that are measured")
	costTable   = flag.String("cost-table", "", "file that the table of costs is written to")
)

// A costLine is a row of the table.
type costLine struct {
	name, model, values string
	in, out, settings   string // formats, and further settings
}

// costFamilies are the first rows of the table, without detection.
var costFamilies = []costLine{
	{name: "normal", model: "{family: normal, prior: auto}", values: "x"},
	{name: "bernoulli", model: "{family: bernoulli}", values: "toss"},
	{name: "binomial", model: "{family: binomial}", values: "count, trials"},
	{name: "categorical", model: "{family: categorical, dim: 3}", values: "three"},
	{name: "exponential", model: "{family: exponential, prior: auto}", values: "wait"},
	{name: "poisson", model: "{family: poisson, prior: auto}", values: "count"},
	{name: "mvnormal", model: "{family: mvnormal, prior: auto}", values: "x, wait"},
	{name: "regression", model: "{family: regression, prior: auto}", values: "wait, x"},
	{name: "ar", model: "{family: ar, prior: auto}", values: "x"},
}

// costLines returns all rows: families, families with detection and with an interval, and settings of normal values
// with detection.
func costLines() (result []costLine) {
	result = append(result, costFamilies...)
	for _, c := range costFamilies {
		c.name, c.settings = c.name+", detect", "detect: true\n"
		result = append(result, c)
		c.name, c.settings = c.name+", interval", c.settings+"interval: 0.95\n"
		result = append(result, c)
	}
	for _, c := range []costLine{
		{name: "season", model: "{family: normal, prior: auto, season: [1h]}"},
		{name: "silence", settings: "silence: true\n"},
		{name: "incidents", settings: "incidents: true\n"},
		{name: "aggregate", settings: "aggregate: {every: 1m, value: mean}\n"},
		{name: "records full", settings: "records: full\n"},
		{name: "from csv", in: "csv"},
		{name: "to csv", out: "csv"},
		{name: "to parquet", out: "parquet"},
		{name: "to nothing", out: "none"},
	} {
		c.model, c.values = cmp.Or(c.model, costFamilies[0].model), costFamilies[0].values
		c.name, c.settings = "normal, detect, "+c.name, "detect: true\n"+c.settings
		result = append(result, c)
	}
	return result
}

const costKeys = 100

// costInputs writes the records of costKeys keys, one per minute each.
func costInputs(b *testing.B, dir string) {
	rng := rand.New(rand.NewPCG(5, 6))
	var jsonl, csv strings.Builder
	csv.WriteString("key,time,x,wait,count,toss,trials,three\n")
	for i := range *costRecords {
		stamp := start.Add(time.Duration(i/costKeys) * time.Minute).Format(time.RFC3339)
		x, wait, count, toss, three := 20+rng.NormFloat64(), rng.ExpFloat64(), rng.IntN(9), rng.IntN(2), rng.IntN(3)
		fmt.Fprintf(&jsonl, `{"key":"k%d","time":%q,"x":%.6g,"wait":%.6g,"count":%d,"toss":%d,"trials":20,"three":%d}`+"\n", i%costKeys, stamp, x, wait, count, toss, three)
		fmt.Fprintf(&csv, "k%d,%s,%.6g,%.6g,%d,%d,20,%d\n", i%costKeys, stamp, x, wait, count, toss, three)
	}
	save(b, filepath.Join(dir, "in.jsonl"), jsonl.String())
	save(b, filepath.Join(dir, "in.csv"), csv.String())
}

// costOf runs a row. It returns the CPU time of a record in µs, and the bytes of a state in the file.
func costOf(b *testing.B, dir string, c costLine) (cpu float64, bytes int64) {
	b.Helper()
	in, out := cmp.Or(c.in, "jsonl"), "none"
	if c.out != "none" {
		out = "{" + cmp.Or(c.out, "jsonl") + ": {path: " + filepath.Join(dir, "out") + "}}"
	}
	states := filepath.Join(dir, "states")
	os.Remove(states)
	text := fmt.Sprintf("model: %s\nsource: {%s: {path: %s, values: [%s]}}\nsink: %s\nstate: %s\n%s",
		c.model, in, filepath.Join(dir, "in."+in), c.values, out, states, c.settings)
	g := expect.Get(Compose(expect.Get(config.Parse("cost.yaml", []byte(text), nil))(b)))(b)
	runtime.GC()
	before := cpuTime(b)
	s := expect.Get(Run{Graph: g}.Execute(b.Context(), nil))(b)
	cpu = float64((cpuTime(b) - before).Microseconds()) / float64(*costRecords)
	if s.Rejected > 0 {
		b.Fatalf("%s: %d rejected", c.name, s.Rejected)
	}
	return cpu, expect.Get(os.Stat(states))(b).Size() / costKeys
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	expect.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCost prints the cost of a record, file to file, by family and setting: CPU time, its ratio to a normal
// filter without detection next to the ratio in the repository's table, and the bytes of a state. Ratios more than 1.5
// times the table's are marked. Run it with -benchtime 1x.
func BenchmarkCost(b *testing.B) {
	known := map[string]float64{}
	file := expect.Get(os.Open("../testdata/benchmarks/cost.csv"))(b)
	defer file.Close()
	for _, row := range expect.Get(csv.NewReader(file).ReadAll())(b)[1:] {
		known[row[0]] = expect.Get(strconv.ParseFloat(row[1], 64))(b)
	}
	dir := b.TempDir()
	costInputs(b, dir)
	var table strings.Builder
	rows := csv.NewWriter(&table)
	rows.Write([]string{"what", "ratio", "CPU µs", "bytes of state"})
	for b.Loop() {
		costOf(b, dir, costFamilies[0]) // warms up
		plain := 0.
		for _, c := range costLines() {
			if plain != 0 && !regexp.MustCompile(*costLike).MatchString(c.name) {
				continue
			}
			cpu, bytes := costOf(b, dir, c)
			plain = cmp.Or(plain, cpu)
			ratio, mark := cpu/plain, ""
			if ratio > 1.5*known[c.name] {
				mark = "  <- above it by half"
			}
			fmt.Printf("%-32s %6.2f µs %5.2f times, in the table %5.2f, %6d bytes%s\n", c.name, cpu, ratio, known[c.name], bytes, mark)
			rows.Write([]string{c.name, fmt.Sprintf("%.2f", ratio), fmt.Sprintf("%.1f", cpu), fmt.Sprint(bytes)})
		}
	}
	rows.Flush()
	if *costTable != "" {
		expect.OK(b, os.WriteFile(*costTable, []byte(table.String()), 0o666))
	}
}
