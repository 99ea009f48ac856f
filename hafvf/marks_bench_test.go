package hafvf_test

import (
	"encoding/csv"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/parallel"
)

var habitsDir = flag.String("habits", "", "folder with NAME.csv.gz as that of -fresh, NAME-labels.csv of key, start, end and kind, and NAME-keys.csv of key, count_from and tolerance_s")

// A service is a key with what is known of it.
type service struct {
	nabSeries
	from, tolerance    time.Duration
	incidents, between [][2]time.Time // between are times that count neither way
}

// habits are the services of a set of -habits.
func habits(t testing.TB, name string) (all []*service) {
	*freshDir = t.TempDir()
	if err := os.Symlink(must(filepath.Abs(filepath.Join(*habitsDir, name+".csv.gz"))), filepath.Join(*freshDir, name+".csv.gz")); err != nil {
		t.Fatal(err)
	}
	byKey := map[string]*service{}
	for _, s := range fresh(t, math.MaxInt) {
		all = append(all, &service{nabSeries: s})
		byKey[strings.SplitN(s.name, "/", 2)[1]] = all[len(all)-1]
	}
	rows := func(file string) [][]string {
		f := must(os.Open(filepath.Join(*habitsDir, name+file)))
		defer f.Close()
		return must(csv.NewReader(f).ReadAll())[1:]
	}
	seconds := func(s string) int64 { return int64(must(strconv.ParseFloat(s, 64))) }
	for _, r := range rows("-keys.csv") {
		s := byKey[r[0]]
		s.from, s.tolerance = time.Unix(seconds(r[1]), 0).Sub(s.times[0]), time.Duration(seconds(r[2]))*time.Second
	}
	for _, r := range rows("-labels.csv") {
		s, at := byKey[r[0]], [2]time.Time{time.Unix(seconds(r[1]), 0), time.Unix(seconds(r[2]), 0)}
		if r[3] == "aftermath" {
			s.between = append(s.between, at)
		} else {
			s.incidents = append(s.incidents, [2]time.Time{at[0], at[1].Add(s.tolerance)})
		}
	}
	return all
}

// within is the window that a time is in, −1 if it is in none.
func within(at time.Time, windows [][2]time.Time) int {
	return slices.IndexFunc(windows, func(w [2]time.Time) bool { return !at.Before(w[0]) && !at.After(w[1]) })
}

// marking is what becomes of services of which a few false alarms of each week are marked.
type marking struct {
	falses [9]int // by week, from 0
	hits   int    // incidents of weeks 3 to 8 that an alarm is in
	of     int
}

// markWeekly goes through the weeks of all services. At the end of each week it marks some of its false alarms.
func markWeekly(all []*service, marks int, seed uint64) (m marking) {
	const week = 7 * 24 * time.Hour
	type follower struct {
		*service
		est    *keyed.Estimator
		track  *keyed.Track
		at     int
		alarms []keyed.FalseMark // of this week that are false, with the size that they grow to
		lasts  bool
		marks  []keyed.FalseMark
		hit    map[int]bool
	}
	var fs []*follower
	for _, s := range all {
		f := &follower{service: s, est: must(keyed.NewEstimator(keyed.Recommended("normal"))), hit: map[int]bool{}}
		f.track = f.est.NewTrack("")
		fs = append(fs, f)
	}
	rng := rand.New(rand.NewPCG(seed, 82))
	for w := range 8 {
		falses := make([]int, len(fs))
		parallel.Do(len(fs), 2, func(_, i int) {
			f := fs[i]
			f.alarms = nil
			f.est.SetMarks(map[string][]keyed.FalseMark{"": f.marks})
			f.track = must(f.est.RestoreTrack("", must(f.track.AppendBinary(nil))))
			for begin := f.times[0]; f.at < len(f.x) && f.times[f.at].Sub(begin) < time.Duration(w+1)*week; f.at++ {
				at := f.times[f.at]
				e := f.est.Estimate(f.track, keyed.Value(at, "", f.x[f.at]))
				if r := e.Recovered; r != nil && f.lasts && len(f.alarms) > 0 {
					if last := &f.alarms[len(f.alarms)-1]; last.Size*r.Size > 0 && math.Abs(r.Size) > math.Abs(last.Size) {
						last.Size = r.Size
					}
				}
				a := e.Alarm
				if a == nil || at.Sub(begin) < f.from {
					continue
				}
				f.lasts = false
				switch hit := within(at, f.incidents); {
				case hit >= 0:
					f.hit[hit] = true
				case within(at, f.between) < 0:
					falses[i]++
					f.lasts = true
					f.alarms = append(f.alarms, keyed.FalseMark{From: at, Size: a.Size})
				}
			}
		})
		var of []*keyed.FalseMark
		var whose []*follower
		for i, f := range fs {
			m.falses[w+1] += falses[i]
			for j := range f.alarms {
				of, whose = append(of, &f.alarms[j]), append(whose, f)
			}
		}
		for _, i := range rng.Perm(len(of))[:min(marks, len(of))] {
			mark := *of[i]
			mark.From = all[0].times[0].Add(time.Duration(w+1)*week - 1)
			whose[i].marks = append(whose[i].marks, mark)
		}
	}
	for _, f := range fs {
		for i, window := range f.incidents {
			if in := window[0].Sub(f.times[0]); in >= 2*week && in < 8*week {
				if m.of++; f.hit[i] {
					m.hits++
				}
			}
		}
	}
	return m
}

// BenchmarkMarks prints the false alarms and the hits of weeks 3 to 8 of services with habits, without marks and with five
// marks a week on false alarms of the week before, as means over drawings of those that are marked:
//
//	go test ./hafvf -run - -bench Marks -benchtime 1x -habits DIR
func BenchmarkMarks(b *testing.B) {
	if *habitsDir == "" {
		b.Skip("-habits DIR names no set")
	}
	for _, file := range must(filepath.Glob(filepath.Join(*habitsDir, "*.csv.gz"))) {
		name := strings.TrimSuffix(filepath.Base(file), ".csv.gz")
		b.Run(name, func(b *testing.B) {
			all := habits(b, name)
			for b.Loop() {
				const drawings = 3
				was := markWeekly(all, 0, 0)
				var falses, hits float64
				byWeek := make([]float64, 9)
				for seed := range uint64(drawings) {
					m := markWeekly(all, 5, seed)
					for w := 3; w <= 8; w++ {
						falses += float64(m.falses[w]) / drawings
						byWeek[w] += float64(m.falses[w]) / drawings
					}
					hits += float64(m.hits) / drawings
				}
				before := 0
				for w := 3; w <= 8; w++ {
					before += was.falses[w]
				}
				b.Logf("false alarms by week %v, with marks %.1f", was.falses[1:], byWeek[3:])
				b.ReportMetric(float64(before), "false")
				b.ReportMetric(falses, "false-marked")
				b.ReportMetric(100*(falses/float64(before)-1), "%false")
				b.ReportMetric(float64(was.hits), "hits")
				b.ReportMetric(hits, "hits-marked")
				b.ReportMetric(float64(was.of), "incidents")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
