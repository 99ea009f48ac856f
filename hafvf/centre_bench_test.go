package hafvf_test

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

var freshDir = flag.String("fresh", "", "folder with *.csv.gz of key, time in Unix seconds, and x, by key in the order of time")

// fresh returns the first values of each key in the files of -fresh, at most limit per key.
func fresh(t testing.TB, limit int) (series []nabSeries) {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(*freshDir, "*.csv.gz")))
	if len(files) == 0 {
		t.Fatalf("no series in %q", *freshDir)
	}
	for _, file := range files {
		f := must(os.Open(file))
		rows := csv.NewReader(must(gzip.NewReader(f)))
		must(rows.Read())
		index := map[string]int{}
		for {
			r, err := rows.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			x, err := strconv.ParseFloat(r[2], 64)
			if err != nil {
				continue // missing
			}
			i, known := index[r[0]]
			if !known {
				i = len(series)
				index[r[0]], series = i, append(series, nabSeries{name: filepath.Base(file) + "/" + r[0]})
			}
			if s := &series[i]; len(s.x) < limit {
				s.times = append(s.times, time.Unix(must(strconv.ParseInt(r[1], 10, 64)), 0))
				s.x = append(s.x, x)
			}
		}
		f.Close()
	}
	return series
}

// BenchmarkCentre prints how often central intervals of .5 and .95 under the recommended settings contain the
// next value, and the mean log score in nats per value. It averages over series of up to 10,000 values each,
// grouped by step:
//
//	go test ./hafvf -run - -bench Centre -benchtime 1x -nab DIR -fresh DIR
func BenchmarkCentre(b *testing.B) {
	const limit = 10000
	var series []nabSeries
	if *nabDir != "" {
		series = nab(b)
	}
	if *freshDir != "" {
		series = append(series, fresh(b, limit)...)
	}
	if series == nil {
		b.Skip("neither -nab DIR nor -fresh DIR names a dataset")
	}
	type tally struct{ series, half, wide, score float64 }
	for b.Loop() {
		tallies := map[time.Duration]*tally{}
		for _, s := range series {
			var inside [2]float64
			n, score := 0., 0.
			for k, level := range []float64{.5, .95} {
				cfg := keyed.Recommended("normal")
				cfg.Interval, cfg.OmitPosterior = level, true
				est := must(keyed.NewEstimator(cfg))
				track := est.NewTrack("k")
				var m keyed.Memory
				var e keyed.Estimate
				for i, x := range s.x {
					o := keyed.Value(s.times[i], "", x)
					if est.EstimateIn(&m, &e, track, &o); e.WarmUp || math.IsNaN(e.LogPredictive) {
						continue
					}
					if e.Lower[0] <= x && x <= e.Upper[0] {
						inside[k]++
					}
					n += .5
					score += e.LogPredictive / 2
				}
			}
			step := usual.MedianStep(s.times)
			if tallies[step] == nil {
				tallies[step] = &tally{}
			}
			t := tallies[step]
			t.series++
			t.half += inside[0] / n
			t.wide += inside[1] / n
			t.score += score / n
		}
		for _, step := range slices.Sorted(maps.Keys(tallies)) {
			t := tallies[step]
			fmt.Printf("%-8v %3g series: .5 holds %.3f, .95 holds %.3f, log score %.4f\n", step, t.series, t.half/t.series, t.wide/t.series, t.score/t.series)
		}
	}
}
