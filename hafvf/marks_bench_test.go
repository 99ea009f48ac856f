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

// A service is a key with its labels.
type service struct {
	nabSeries
	countFrom, tolerance time.Duration
	incidents, ignored   [][2]time.Time // ignored holds times in which alarms count neither as hits nor as false
}

// habits returns the services of a set in -habits.
func habits(t testing.TB, name string) (services []*service) {
	*freshDir = t.TempDir()
	if err := os.Symlink(must(filepath.Abs(filepath.Join(*habitsDir, name+".csv.gz"))), filepath.Join(*freshDir, name+".csv.gz")); err != nil {
		t.Fatal(err)
	}
	byKey := map[string]*service{}
	for _, s := range fresh(t, math.MaxInt) {
		services = append(services, &service{nabSeries: s})
		byKey[strings.SplitN(s.name, "/", 2)[1]] = services[len(services)-1]
	}
	rows := func(file string) [][]string {
		f := must(os.Open(filepath.Join(*habitsDir, name+file)))
		defer f.Close()
		return must(csv.NewReader(f).ReadAll())[1:]
	}
	seconds := func(s string) int64 { return int64(must(strconv.ParseFloat(s, 64))) }
	for _, r := range rows("-keys.csv") {
		s := byKey[r[0]]
		s.countFrom, s.tolerance = time.Unix(seconds(r[1]), 0).Sub(s.times[0]), time.Duration(seconds(r[2]))*time.Second
	}
	for _, r := range rows("-labels.csv") {
		s, window := byKey[r[0]], [2]time.Time{time.Unix(seconds(r[1]), 0), time.Unix(seconds(r[2]), 0)}
		if r[3] == "aftermath" {
			s.ignored = append(s.ignored, window)
		} else {
			s.incidents = append(s.incidents, [2]time.Time{window[0], window[1].Add(s.tolerance)})
		}
	}
	return services
}

// within returns the index of the window that contains t, or −1.
func within(t time.Time, windows [][2]time.Time) int {
	return slices.IndexFunc(windows, func(w [2]time.Time) bool { return !t.Before(w[0]) && !t.After(w[1]) })
}

// marking is the result for services of which a few false alarms per week are marked.
type marking struct {
	falses    [9]int // by week, from 0
	hits      int    // incidents of weeks 3 to 8 that contain an alarm
	incidents int
}

// markWeekly runs through the weeks of all services. At the end of each week it marks some of the week's false
// alarms.
func markWeekly(services []*service, marks int, seed uint64) (m marking) {
	const week = 7 * 24 * time.Hour
	type follower struct {
		*service
		est    *keyed.Estimator
		track  *keyed.Track
		next   int
		alarms []keyed.FalseMark // false alarms of this week, with their largest size
		lasts  bool
		marks  []keyed.FalseMark
		hit    map[int]bool
	}
	var fs []*follower
	for _, s := range services {
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
			for begin := f.times[0]; f.next < len(f.x) && f.times[f.next].Sub(begin) < time.Duration(w+1)*week; f.next++ {
				now := f.times[f.next]
				e := f.est.Estimate(f.track, keyed.Value(now, "", f.x[f.next]))
				if r := e.Recovered; r != nil && f.lasts && len(f.alarms) > 0 {
					if last := &f.alarms[len(f.alarms)-1]; last.Size*r.Size > 0 && math.Abs(r.Size) > math.Abs(last.Size) {
						last.Size = r.Size
					}
				}
				a := e.Alarm
				if a == nil || now.Sub(begin) < f.countFrom {
					continue
				}
				f.lasts = false
				switch hit := within(now, f.incidents); {
				case hit >= 0:
					f.hit[hit] = true
				case within(now, f.ignored) < 0:
					falses[i]++
					f.lasts = true
					f.alarms = append(f.alarms, keyed.FalseMark{From: now, Size: a.Size})
				}
			}
		})
		var candidates []*keyed.FalseMark
		var owners []*follower
		for i, f := range fs {
			m.falses[w+1] += falses[i]
			for j := range f.alarms {
				candidates, owners = append(candidates, &f.alarms[j]), append(owners, f)
			}
		}
		for _, i := range rng.Perm(len(candidates))[:min(marks, len(candidates))] {
			mark := *candidates[i]
			mark.From = services[0].times[0].Add(time.Duration(w+1)*week - 1)
			owners[i].marks = append(owners[i].marks, mark)
		}
	}
	for _, f := range fs {
		for i, window := range f.incidents {
			if offset := window[0].Sub(f.times[0]); offset >= 2*week && offset < 8*week {
				if m.incidents++; f.hit[i] {
					m.hits++
				}
			}
		}
	}
	return m
}

// BenchmarkMarks prints the false alarms and the hits of weeks 3 to 8 of services with habits, without marks
// and with five marks per week on false alarms of that week, as means over random choices of the marked alarms:
//
//	go test ./hafvf -run - -bench Marks -benchtime 1x -habits DIR
func BenchmarkMarks(b *testing.B) {
	if *habitsDir == "" {
		b.Skip("-habits DIR names no set")
	}
	for _, file := range must(filepath.Glob(filepath.Join(*habitsDir, "*.csv.gz"))) {
		name := strings.TrimSuffix(filepath.Base(file), ".csv.gz")
		b.Run(name, func(b *testing.B) {
			services := habits(b, name)
			for b.Loop() {
				const drawings = 3
				unmarked := markWeekly(services, 0, 0)
				var falses, hits float64
				byWeek := make([]float64, 9)
				for seed := range uint64(drawings) {
					m := markWeekly(services, 5, seed)
					for w := 3; w <= 8; w++ {
						falses += float64(m.falses[w]) / drawings
						byWeek[w] += float64(m.falses[w]) / drawings
					}
					hits += float64(m.hits) / drawings
				}
				before := 0
				for w := 3; w <= 8; w++ {
					before += unmarked.falses[w]
				}
				b.Logf("false alarms by week %v, with marks %.1f", unmarked.falses[1:], byWeek[3:])
				b.ReportMetric(float64(before), "false")
				b.ReportMetric(falses, "false-marked")
				b.ReportMetric(100*(falses/float64(before)-1), "%false")
				b.ReportMetric(float64(unmarked.hits), "hits")
				b.ReportMetric(hits, "hits-marked")
				b.ReportMetric(float64(unmarked.incidents), "incidents")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
