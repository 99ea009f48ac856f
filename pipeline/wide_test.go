package pipeline

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/connectors"
)

// plain are records without their places, of which another table has others.
func plain(lines []string) (all []string) {
	for _, line := range lines {
		before, after, _ := strings.Cut(line, `"id":"`)
		_, after, _ = strings.Cut(after, `","n"`)
		all = append(all, strings.TrimSpace(before+after))
	}
	slices.Sort(all)
	return all
}

// A wide table has the records of the long table that says the same, but for their places; and
// a run goes on where the run before has ended.
func TestWideTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	wide, tall := []string{"time,S1,S2,site\n"}, []string{"key,time,x\n"}
	for i := range 60 {
		at := start.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
		cells := []string{fmt.Sprintf("%.4f", rng.NormFloat64()), fmt.Sprintf("%.4f", 5+rng.NormFloat64())}
		if i%9 == 4 {
			cells[i%2] = ""
		}
		if i == 33 {
			cells[1] = "stuck"
		}
		wide = append(wide, fmt.Sprintf("%s,%s,%s,a/b\n", at, cells[0], cells[1]))
		for k, cell := range cells {
			tall = append(tall, fmt.Sprintf("a%%2Fb/S%d,%s,%s\n", k+1, at, cell))
		}
	}
	const model = "{model: {family: normal, prior: auto}, detect: true, source: {csv: {path: %s%s}}%s}"
	_, want, rejected := runConfig(t, fmt.Sprintf(model, write(t, "tall.csv", tall...), "", ""))
	if len(rejected) != 1 || len(want) != 119 {
		t.Fatalf("%d estimates, %d rejected", len(want), len(rejected))
	}
	options := ", layout: wide, key: site, values: 'S*'"
	_, got, rejected := runConfig(t, fmt.Sprintf(model, write(t, "wide.csv", wide...), options, ""))
	equal(t, plain(want), plain(got))
	if len(rejected) != 1 || !strings.Contains(rejected[0], `the text \"stuck\" where a number is due`) || !strings.Contains(rejected[0], "wide.csv:35") {
		t.Errorf("rejected %q", rejected)
	}

	// In two runs.
	dir := t.TempDir()
	file, state := filepath.Join(dir, "wide.csv"), filepath.Join(dir, "s.bin")
	got = nil
	for _, rows := range []int{31, len(wide)} {
		save(t, file, wide[:rows]...)
		_, part, _ := runConfig(t, fmt.Sprintf(model, file, options, ", state: "+state))
		got = append(got, part...)
	}
	equal(t, plain(want), plain(got))
	if _, err := connectors.Open(connectors.Source{Format: connectors.CSV, Path: file, Wide: true, Values: []string{"site"}, Time: "time"}); err != nil {
		t.Error(err) // a column that is named is read, whatever it holds
	}
}

// Objects with several observations, or with none, have the records of the lines that say the
// same, filtered and smoothed.
func TestObjectsOfSeveral(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var long, series []string
	for k := range 3 {
		var times, values []string
		for i := range 40 {
			at, x := start.Unix()+int64(60*i), fmt.Sprintf("%.4f", rng.NormFloat64()+float64(i/20*6))
			times, values = append(times, fmt.Sprint(at)), append(values, x)
			long = append(long, fmt.Sprintf(`{"key":"up{job=\"%d\"}","time":%d,"x":%s}`+"\n", k, at, x))
		}
		labels := fmt.Sprintf(`{"__name__":"up","job":"%d"}`, k)
		series = append(series, `{"metric":`+labels+`,"t":[],"v":[]}`+"\n", `{"metric":`+labels+`,"t":[`+strings.Join(times, ",")+`],"v":[`+strings.Join(values, ",")+`]}`+"\n")
	}
	for _, transform := range []string{"filter", "smooth"} {
		text := "{transform: " + transform + ", model: {family: normal, prior: auto}, source: {jsonl: {path: %s%s}}}"
		_, want, _ := runConfig(t, fmt.Sprintf(text, write(t, "long.jsonl", long...), ""))
		s, got, _ := runConfig(t, fmt.Sprintf(text, write(t, "series.jsonl", series...), ", layout: series, key: metric, time: t, values: v"))
		equal(t, plain(want), plain(got))
		if s.Records != 120 || s.Rejected != 0 {
			t.Errorf("%d records, %d rejected", s.Records, s.Rejected)
		}
	}
}
