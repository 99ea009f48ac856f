package hafvf_test

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

var nabDir = flag.String("nab", "", "folder with data/*/*.csv and combined_windows.json of the Numenta Anomaly Benchmark")

// A nabSeries are observations, and the windows that its annotators labelled, as
// the first and the last observation in each.
type nabSeries struct {
	name    string
	x       []float64
	windows [][2]int
}

func nab(t testing.TB) (all []nabSeries) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(*nabDir, "data", "*", "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no series in %q", *nabDir)
	}
	windows := map[string][][2]string{}
	readJSON(t, filepath.Join(*nabDir, "combined_windows.json"), &windows)
	at := func(text string) time.Time {
		v, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, file := range files {
		s := nabSeries{name: filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file))}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var times []time.Time
		for _, r := range rows[1:] {
			v, err := strconv.ParseFloat(r[1], 64)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			times = append(times, at(r[0]))
			s.x = append(s.x, v)
		}
		labelled, known := windows[filepath.ToSlash(s.name)]
		if !known {
			t.Fatalf("%s has no labels", s.name)
		}
		for _, w := range labelled {
			from, to := at(w[0]), at(w[1])
			window := [2]int{len(times), -1}
			for i, v := range times {
				if !v.Before(from) && !v.After(to) {
					window = [2]int{min(window[0], i), i}
				}
			}
			if window[1] < 0 {
				t.Fatalf("%s: nothing is in the window %v", s.name, w)
			}
			s.windows = append(s.windows, window)
		}
		all = append(all, s)
	}
	return all
}

// A nabScore counts alarms against windows: a window is hit if an alarm falls in
// it, and an alarm outside all windows is false.
type nabScore struct {
	points, inside      int // all, and those in windows
	windows, hit        int
	alarms, falseAlarms int
}

func (s *nabScore) add(o nabScore) {
	s.points += o.points
	s.inside += o.inside
	s.windows += o.windows
	s.hit += o.hit
	s.alarms += o.alarms
	s.falseAlarms += o.falseAlarms
}

// String is hit windows, alarms, false ones, precision, recall and false alarms
// per 10,000 points; a dash stands for what is undefined.
func (s nabScore) String() string {
	return fmt.Sprintf("%5d %6d %6d %6s %6s %7.1f", s.hit, s.alarms, s.falseAlarms,
		share(s.alarms-s.falseAlarms, s.alarms), share(s.hit, s.windows), 1e4*float64(s.falseAlarms)/float64(s.points))
}

func share(n, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f", float64(n)/float64(of))
}

func (s nabSeries) score(alarms []int) nabScore {
	out := nabScore{points: len(s.x), windows: len(s.windows), alarms: len(alarms)}
	within := func(a int, w [2]int) bool { return a >= w[0] && a <= w[1] }
	for _, w := range s.windows {
		if slices.ContainsFunc(alarms, func(a int) bool { return within(a, w) }) {
			out.hit++
		}
		out.inside += w[1] - w[0] + 1
	}
	for _, a := range alarms {
		if !slices.ContainsFunc(s.windows, func(w [2]int) bool { return within(a, w) }) {
			out.falseAlarms++
		}
	}
	return out
}

func TestNABScore(t *testing.T) {
	s := nabSeries{x: make([]float64, 1000), windows: [][2]int{{10, 19}, {30, 39}, {50, 50}}}
	got := s.score([]int{9, 10, 15, 39, 40})
	if want := (nabScore{points: 1000, inside: 21, windows: 3, hit: 2, alarms: 5, falseAlarms: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := got.String(), "    2      5      2  0.600  0.667    20.0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (nabScore{points: 1}).String(), "    0      0      0      –      –     0.0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// nabWarmUp is the number of values to which the prior is fitted, and among which
// nothing is an alarm.
const nabWarmUp = 50

// BenchmarkNAB prints, per series of the Numenta Anomaly Benchmark, how the alarms
// of the default bank with detection fall into the windows that are labelled as
// anomalous, under one setting for all. An alarm is a change, where it is found,
// and in the second count an outlier, too:
//
//	go test ./hafvf -run - -bench NAB -benchtime 1x -nab DIR
//
// Beside the points stands the share of them that is inside windows, which is the
// precision of alarms at random. The labels are of anomalies, which need not be
// outliers or changes of level and scale.
func BenchmarkNAB(b *testing.B) {
	if *nabDir == "" {
		b.Skip("-nab DIR names no dataset")
	}
	series := nab(b)
	found := make([]findings, len(series))
	for b.Loop() {
		for i, s := range series {
			found[i] = find(fitted(b, s.x, nabWarmUp), s.x, nabWarmUp)
		}
	}
	const columns = "  hit alarms  false  prec. recall /10,000"
	row := func(name string, s, o nabScore) {
		fmt.Printf("%-56s %6d %6s %7d  %v   %v\n", name, s.points, share(s.inside, s.points), s.windows, s, o)
	}
	fmt.Printf("\n%-80s%-44s%s\n%-56s %6s %6s %7s  %s   %s\n", "", "changes", "changes and outliers", "", "points", "inside", "windows", columns, columns)
	var totals [2]nabScore
	for i, s := range series {
		first, second := s.score(found[i].changes), s.score(slices.Concat(found[i].changes, found[i].outliers))
		totals[0].add(first)
		totals[1].add(second)
		row(s.name, first, second)
	}
	row("total", totals[0], totals[1])
	for i, kind := range []string{"changes", "with-outliers"} {
		b.ReportMetric(float64(totals[i].alarms-totals[i].falseAlarms)/float64(totals[i].alarms), kind+"-precision")
		b.ReportMetric(float64(totals[i].hit)/float64(totals[i].windows), kind+"-recall")
	}
}
