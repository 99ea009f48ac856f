package hafvf_test

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// The folder holds files of the repository numenta/NAB, and published_scores.json.gz with the anomaly scores of
// its folder results, by detector and series.
var nabDir = flag.String("nab", "", "folder with data/*/*.csv, combined_windows.json and published_scores.json.gz of the Numenta Anomaly Benchmark")

// A nabSeries holds observations, and the windows of its annotators as the first and the last observation in
// each, in order of time.
type nabSeries struct {
	name    string
	times   []time.Time
	x       []float64
	windows [][2]int
}

func nab(t testing.TB) (series []nabSeries) {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(*nabDir, "data", "*", "*.csv")))
	if len(files) == 0 {
		t.Fatalf("no series in %q", *nabDir)
	}
	windows := map[string][][2]string{}
	familytest.ReadJSON(t, filepath.Join(*nabDir, "combined_windows.json"), &windows)
	parse := func(text string) time.Time {
		v := must(time.Parse(time.DateTime, text))
		return v
	}
	for _, file := range files {
		s := nabSeries{name: filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)}
		f := must(os.Open(file))
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range rows[1:] {
			v, err := strconv.ParseFloat(r[1], 64)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			s.times = append(s.times, parse(r[0]))
			s.x = append(s.x, v)
		}
		labelled, known := windows[s.name]
		if !known {
			t.Fatalf("%s has no labels", s.name)
		}
		for _, w := range labelled {
			start, end := parse(w[0]), parse(w[1])
			window := [2]int{len(s.x), -1}
			for i, v := range s.times {
				if !v.Before(start) && !v.After(end) {
					window = [2]int{min(window[0], i), i}
				}
			}
			if window[1] < 0 {
				t.Fatalf("%s: nothing is in the window %v", s.name, w)
			}
			s.windows = append(s.windows, window)
		}
		series = append(series, s)
	}
	return series
}

// The score of the benchmark (Lavin and Ahmad 2015, arXiv:1510.03336), as counted by the sweeper of
// numenta/NAB. Detections among the first observations, the probation, do not count. In a window of n
// observations, of which r come after a detection, the first detection earns S((r+1)/n)/S(1), where
// S(y) = tanh(5y/2). A detection d observations after the end of the last window of n observations costs A·S(d/(n−1)),
// and a detection before all windows costs A. A window without a detection costs B. The standard profile gives
// A and B. The sum over all series is standardised so that a detector that finds nothing scores 0, and a
// detector that finds exactly the beginning of every window scores 100.

const (
	nabFalse  = .11 // maximum cost of a false detection
	nabMissed = 1.  // cost of a missed window
)

// A nabTally counts detections, without the probation.
type nabTally struct {
	windows, hit   int
	outside, false int // observations outside windows, and detections there
	alarms         int
	gain, cost     float64
}

func (c *nabTally) add(o nabTally) {
	c.windows += o.windows
	c.hit += o.hit
	c.outside += o.outside
	c.false += o.false
	c.alarms += o.alarms
	c.gain += o.gain
	c.cost += o.cost
}

func (c nabTally) score() float64 {
	return 100 * (c.gain + nabMissed*float64(c.hit) - nabFalse*c.cost) / ((1 + nabMissed) * float64(c.windows))
}

func (c nabTally) falseAlarms() float64 { return 1e4 * float64(c.false) / float64(c.outside) }

func (s nabSeries) probation() int { return min(15*len(s.x)/100, 750) }

// A nabPoint is an observation after the probation, seen as a detection.
type nabPoint struct {
	window int     // index of its window, −1 outside of all windows
	worth  float64 // gain if it is the first detection of the window, or cost at A = 1
}

func (s nabSeries) point(i int) nabPoint {
	past := math.Inf(1) // S(past) is 1
	for k, w := range s.windows {
		n := float64(w[1] - w[0] + 1)
		switch {
		case i > w[1]:
			past = float64(i-w[1]) / (n - 1)
		case i >= w[0]:
			return nabPoint{k, math.Tanh(2.5*float64(w[1]-i+1)/n) / math.Tanh(2.5)}
		}
	}
	return nabPoint{-1, math.Tanh(2.5 * past)}
}

// nothing returns the tally without detections.
func (s nabSeries) nothing() nabTally {
	c := nabTally{outside: len(s.x) - s.probation()}
	for _, w := range s.windows {
		if n := w[1] - max(w[0], s.probation()) + 1; n > 0 {
			c.windows++
			c.outside -= n
		}
	}
	return c
}

// A nabCount is a tally to which detections are added, in any order.
type nabCount struct {
	nabTally
	best map[[2]int]float64 // gain by series and window
}

func (c *nabCount) detect(series int, p nabPoint) {
	c.alarms++
	if p.window < 0 {
		c.false++
		c.cost += p.worth
		return
	}
	key := [2]int{series, p.window}
	before, hit := c.best[key]
	if !hit {
		c.hit++
	}
	c.best[key] = max(before, p.worth)
	c.gain += c.best[key] - before
}

// tally counts detections at the given observations.
func (s nabSeries) tally(detections []int) nabTally {
	c := nabCount{s.nothing(), map[[2]int]float64{}}
	for _, i := range detections {
		if i >= s.probation() {
			c.detect(0, s.point(i))
		}
	}
	return c.nabTally
}

// nabSweep returns the tally at the best threshold of anomaly scores, with one threshold for all series. A
// score that reaches it is a detection.
func nabSweep(series []nabSeries, scores [][]float64) (best nabTally, threshold float64) {
	type scored struct {
		nabPoint
		series int
		score  float64
	}
	var points []scored
	c := nabCount{best: map[[2]int]float64{}}
	for k, s := range series {
		c.add(s.nothing())
		for i := s.probation(); i < len(s.x); i++ {
			points = append(points, scored{s.point(i), k, scores[k][i]})
		}
	}
	slices.SortFunc(points, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	best, threshold = c.nabTally, math.Inf(1)
	for i, p := range points {
		c.detect(p.series, p.nabPoint)
		if (i+1 == len(points) || points[i+1].score < p.score) && c.score() > best.score() {
			best, threshold = c.nabTally, p.score
		}
	}
	return best, threshold
}

// Published detectors have the scores that another implementation gave for them at their best threshold on
// these 39 series. That implementation reproduces the published figures for the whole corpus.
func TestNABPublished(t *testing.T) {
	if *nabDir == "" {
		t.Skip("-nab DIR names no dataset")
	}
	series := nab(t)
	f := must(os.Open(filepath.Join(*nabDir, "published_scores.json.gz")))
	defer f.Close()
	r := must(gzip.NewReader(f))
	var published map[string]map[string][]float64
	expect.OK(t, json.NewDecoder(r).Decode(&published))
	for name, want := range map[string]string{"randomCutForest": "55.1", "numenta": "71.6"} {
		var scores [][]float64
		for _, s := range series {
			if n := len(published[name][s.name]); n != len(s.x) {
				t.Fatalf("%s: %d scores for %d observations of %s", name, n, len(s.x), s.name)
			}
			scores = append(scores, published[name][s.name])
		}
		best, threshold := nabSweep(series, scores)
		if got := fmt.Sprintf("%.1f", best.score()); got != want || len(series) != 39 || best.windows != 83 {
			t.Errorf("%s: score %s on %d series with %d windows, want %s on 39 with 83", name, got, len(series), best.windows, want)
		}
		t.Logf("%s: %.2f at the threshold %.9g, %d windows hit, %.2f false in 10,000", name, best.score(), threshold, best.hit, best.falseAlarms())
	}
}
