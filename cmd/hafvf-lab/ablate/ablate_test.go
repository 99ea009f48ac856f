package ablate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

const root = "../../.."

// Every text of an edit is in the sources once, and every mechanism has a switch in the copy.
func TestSources(t *testing.T) {
	files := expect.Get(Sources(root))(t)
	text := string(bytes.Join(slices.Collect(func(yield func([]byte) bool) {
		for _, file := range files {
			yield(file)
		}
	}), nil))
	seen := map[string]bool{}
	for _, m := range Mechanisms {
		if !token.IsExported(m.Name) || seen[m.Name] || m.About == "" {
			t.Errorf("%q: %q", m.Name, m.About)
		}
		if seen[m.Name] = true; !strings.Contains(strings.ToLower(text), "off."+strings.ToLower(m.Name)) {
			t.Errorf("%s has no switch", m.Name)
		}
	}
}

func TestSourcesErrors(t *testing.T) {
	if _, err := Sources(t.TempDir()); err == nil {
		t.Error("no error without sources")
	}
	dir := t.TempDir()
	expect.OK(t, os.CopyFS(filepath.Join(dir, "hafvf/usual"), os.DirFS(root+"/hafvf/usual")))
	expect.OK(t, os.CopyFS(filepath.Join(dir, "hafvf/keyed"), os.DirFS(root+"/hafvf/keyed")))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "hafvf", streakFile), []byte("package usual\n"), 0o600))
	_, err := Sources(dir)
	expect.Error(t, err, "hafvf/usual/streak.go has the text 0 times, not once")
}

// With nothing off, the worker raises the alarms of the program, which has the filter; with a mechanism off, others.
func TestWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := expect.Get(Build(t.Context(), t.TempDir()))(t)
	job := Job{Sets: []string{"services_5min", "plans_1h"}, Seeds: []uint64{7}, Rows: [][]string{{}, {"Stuck", "Offsets"}}}
	worker := exec.Command(program)
	worker.Stdin = bytes.NewReader(expect.Get(json.Marshal(job))(t))
	results := json.NewDecoder(bytes.NewReader(expect.Get(worker.Output())(t)))
	for i, row := range job.Rows {
		for _, name := range job.Sets {
			var got Result
			expect.OK(t, results.Decode(&got))
			set := expect.Get(makeSet(name, "", job.Seeds))(t)
			alarms := expect.Get(set.alarms())(t)
			if same := reflect.DeepEqual(got.Alarms, alarms); got.Set != name || same != (i == 0) {
				t.Errorf("%v, %s: same alarms: %v", row, name, same)
			}
			if i == 0 {
				expect.Same(t, set.score(alarms), got.Score, name)
				if f1 := got.Score.F1(); f1 < .4 || f1 > .9 {
					t.Errorf("%s: F1 %.3f", name, f1)
				}
			}
		}
	}
}

func TestScore(t *testing.T) {
	set := &Set{series: []*series{{
		times: []float64{0, 3 * week}, countFrom: 100, tolerance: 10,
		incidents: []window{{50, 90}, {80, 120}, {1000, 1100}, {2000, 2100}}, aftermath: []window{{1100, 1500}},
	}}}
	got := set.score([][]float64{{85, 130, 1110, 1111, 1500, 1501, week - 1, week, 2 * week}})
	want := Score{Incidents: 3, Hit: 2, True: 2, False: 4, FirstWeek: 2 / (1 - 100/week), Later: 1}
	expect.Same(t, want, got, "score")
	if f1 := got.F1(); math.Abs(f1-2*(2./3)*(1./3)/(2./3+1./3)) > 1e-12 {
		t.Errorf("F1 %g", f1)
	}
	expect.Same(t, 0., Score{}.F1(), "F1 of nothing")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		f := expect.Get(os.Create(filepath.Join(dir, name)))(t)
		if strings.HasSuffix(name, ".gz") {
			z := gzip.NewWriter(f)
			expect.Get(z.Write([]byte(text)))(t)
			expect.OK(t, z.Close())
		} else {
			expect.Get(f.WriteString(text))(t)
		}
		expect.OK(t, f.Close())
	}
	write("asd-keys.csv", "key,count_from,tolerance_s\na,5,60\nempty,5,60\n")
	write("asd-labels.csv", "key,start,end,kind,size\na,10,20,,\na,20,30,aftermath,\nother,1,2,,\n")
	write("asd.csv.gz", "key,time,x\na,1,2.5\na,2.5,\nother,1,1\n")
	set := expect.Get(makeSet("asd", dir, []uint64{1, 2}))(t)
	if len(set.series) != 1 || len(set.series[0].x) != 2 || !math.IsNaN(set.series[0].x[1]) {
		t.Fatalf("%+v", set.series)
	}
	set.series[0].x[1] = 0
	want := &series{
		name: "a", times: []float64{1, 2.5}, x: []float64{2.5, 0}, countFrom: 5, tolerance: 60,
		incidents: []window{{10, 20}}, aftermath: []window{{20, 30}},
	}
	if !reflect.DeepEqual(want, set.series[0]) {
		t.Errorf("%+v", set.series[0])
	}

	write("asd.csv.gz", "key,time,x\na,now,2.5\n")
	_, err := makeSet("asd", dir, nil)
	expect.Error(t, err, `asd.csv.gz: strconv.ParseFloat: parsing "now"`)
	write("asd-labels.csv", "key,start,end\na,10,20\n")
	_, err = makeSet("asd", dir, nil)
	expect.Error(t, err, "row 1 has 3 columns, want 4")
	write("asd-keys.csv", "key\na\n")
	_, err = makeSet("asd", dir, nil)
	expect.Error(t, err, "row 1 has 1 columns, want 3")
	_, err = makeSet("smd", dir, nil)
	expect.Error(t, err, "smd-keys.csv")
	_, err = makeSet("plans_1hour", dir, nil)
	expect.Error(t, err, `the nearest is "plans_1h"`)
}

// Simulated sets have increasing times, and incidents in them. Equal seeds give equal sets.
func TestSimulated(t *testing.T) {
	for _, name := range SetNames() {
		if !Simulated(name) {
			continue
		}
		draw := func(seed uint64) *Set { return expect.Get(makeSet(name, "", []uint64{seed}))(t) }
		one, again, other := draw(3), draw(3), draw(4)
		if !reflect.DeepEqual(one, again) || reflect.DeepEqual(one, other) {
			t.Errorf("%s: seeds", name)
		}
		incidents := 0
		for _, s := range one.series {
			first, last := s.times[0], s.times[len(s.times)-1]
			for _, w := range slices.Concat(s.incidents, s.aftermath) {
				if !(first < w.start && w.start <= w.end && w.end <= last) {
					t.Fatalf("%s: %v outside of %g … %g", s.name, w, first, last)
				}
			}
			incidents += len(s.incidents)
			if !slices.IsSorted(s.times) || slices.ContainsFunc(s.x, math.IsNaN) || len(s.x) != len(s.times) {
				t.Errorf("%s: series", s.name)
			}
		}
		if incidents < 2*len(one.series) {
			t.Errorf("%s: %d incidents of %d series", name, incidents, len(one.series))
		}
	}
}
