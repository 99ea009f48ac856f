package keyed

import (
	"compress/gzip"
	"encoding/csv"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"hafvf/hafvf"
)

var seriesFolder = flag.String("series", "", "folder of *.csv.gz files with the columns key, time in seconds, value, sorted by key and time")

// BenchmarkUsual reports the share of the values of a file that lie within 1.96 reported standard deviations of their
// usual value, of all values and of the first 1,000 of each key.
func BenchmarkUsual(b *testing.B) {
	files, err := filepath.Glob(filepath.Join(*seriesFolder, "*.csv.gz"))
	if err != nil || *seriesFolder == "" {
		b.Skip("needs -series FOLDER")
	}
	for _, file := range files {
		b.Run(filepath.Base(file), func(b *testing.B) {
			var n, inside [2]float64
			for range b.N {
				f := must(os.Open(file))
				rows := csv.NewReader(must(gzip.NewReader(f)))
				must(rows.Read())
				est := newEstimator(b, Recommended("normal"))
				var track *Track
				for row, err := rows.Read(); err != io.EOF; row, err = rows.Read() {
					seconds, _ := strconv.ParseFloat(row[1], 64)
					x, err := strconv.ParseFloat(row[2], 64)
					if err != nil {
						x = math.NaN()
					}
					if track == nil || track.key != row[0] {
						track = est.NewTrack(row[0])
					}
					e := est.Estimate(track, Value(time.UnixMilli(int64(seconds*1000)), "", x))
					if u := e.Detection.Usual; !math.IsNaN(u.Mean[0]) && u.SD[0] > 0 && !math.IsInf(u.SD[0], 0) {
						for k, limit := range [...]int64{math.MaxInt64, 1000} {
							if e.N <= limit {
								n[k]++
							}
							if e.N <= limit && math.Abs(x-u.Mean[0]) <= 1.96*u.SD[0] {
								inside[k]++
							}
						}
					}
				}
				fatal(b, f.Close())
			}
			b.ReportMetric(inside[0]/n[0], "inside")
			b.ReportMetric(inside[1]/n[1], "of-first-1000")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkBelief reports how often a probability of a change of at least .9 is true: a change of the level, or a burst
// of five values and more, began within the 25 values before. Changes of 2 to 5 standard deviations occur every 500
// values (frequent) or once in 4,000 (rare), and outliers and bursts of 4 to 8 in one of 200 values.
func BenchmarkBelief(b *testing.B) {
	noises := map[string]func(*rand.Rand, float64) float64{
		"normal": func(r *rand.Rand, _ float64) float64 { return r.NormFloat64() },
		"t3": func(r *rand.Rand, _ float64) float64 {
			x, y, z := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			return r.NormFloat64() / math.Sqrt(x*x+y*y+z*z)
		},
		"ar .5": func(r *rand.Rand, last float64) float64 { return .5*last + math.Sqrt(.75)*r.NormFloat64() },
	}
	for name, noise := range noises {
		for _, every := range []int{500, 4000} {
			b.Run(name+" "+map[int]string{500: "frequent", 4000: "rare"}[every], func(b *testing.B) {
				var sure, right, changes, rightChanges float64
				for seed := range uint64(24 * b.N) {
					est, rng := newEstimator(b, Recommended("normal")), rand.New(rand.NewPCG(seed, 77))
					track, level, last, event, burst, height := est.NewTrack("k"), 0., 0., -100, 0, 0.
					for i := range 4000 {
						last = noise(rng, last)
						if i == 2000 || every == 500 && i > 200 && i%500 == 0 {
							level += math.Copysign(2+3*rng.Float64(), rng.Float64()-.5)
							event = i
						}
						if burst--; burst < 0 && i > 200 && rng.Float64() < .005 {
							burst, height = 1, math.Copysign(4+4*rng.Float64(), rng.Float64()-.5)
							if every == 500 && rng.Float64() < .4 {
								burst = 2 + rng.IntN(10)
							}
							if burst >= 5 {
								event = i
							}
						}
						x := level + last
						if burst > 0 {
							x += height
						}
						d := est.Estimate(track, Value(time.Unix(int64(300*i), 0), "", x)).Detection
						near := i-event <= 25
						if d.Change >= .9 && i >= 100 {
							sure++
							if near {
								right++
							}
						}
						if d.Kind == hafvf.Change && i >= 100 {
							changes++
							if near {
								rightChanges++
							}
						}
					}
				}
				b.ReportMetric(right/max(sure, 1), "true")
				b.ReportMetric(rightChanges/max(changes, 1), "changes-true")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
