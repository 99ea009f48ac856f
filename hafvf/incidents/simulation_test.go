package incidents_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"hafvf/hafvf/incidents"
)

var (
	seed  = flag.Uint64("seed", 101, "first seed of the simulated fleets")
	seeds = flag.Int("seeds", 4, "number of seeds, from -seed on, that counts are summed over")
)

// A simulation draws eight weeks of alarms of keys site/rack/host:metric with steps of a minute. Single alarms are
// Poisson with rates that differ between keys, by a Gamma of shape 2. A job at 02:00 raises alarms of an eighth of a
// tenth of the keys, scattered or in one block. A cause has 3 to 200 keys. 30 percent of the causes have keys anywhere,
// the others under one site, rack or host. 30 to 90 percent of the keys alarm, after geometric delays. After an alarm a
// key rests for an hour.
type simulation struct {
	keys   int
	causes int
	pairs  bool // each second cause begins within an hour of the previous one
	job    bool
	shape  float64 // shape of the Gamma of each hour, for the fleet and for every site; 0 without
	daily  float64 // amplitude of the daily cycle
}

// shapes are the numbers of sites, racks of a site, hosts of a rack and metrics of a host.
var shapes = map[int][4]int{200: {2, 4, 5, 5}, 2000: {4, 10, 10, 5}, 20_000: {10, 20, 20, 5}}

const (
	simulatedWeeks = 8
	perWeek        = .6 // single alarms of a key
	causeNone      = -1 // cause of a single alarm
	causeJob       = -2
	minAlarms      = 3 // alarms of a cause that counts
)

// A labelled alarm has the number of its cause.
type labelled struct {
	incidents.Alarm
	cause int
}

type cause struct {
	start  time.Time
	prefix string
	alarms int
}

func simulated(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }

func (s simulation) draw(seed uint64) (names []string, alarms []labelled, truth []cause) {
	rng := rand.New(rand.NewPCG(seed, 77))
	sizes := rand.New(rand.NewPCG(seed, 78)) // separate, so that the other numbers do not depend on sizes
	gamma := func(shape float64) float64 {
		if shape == 0 {
			return 1
		}
		return distuv.Gamma{Alpha: shape, Beta: shape, Src: rng}.Rand()
	}
	poisson := func(mean float64) int { return int(distuv.Poisson{Lambda: mean, Src: rng}.Rand()) }
	sh := shapes[s.keys]
	racks, hosts, metrics := sh[1]*sh[2]*sh[3], sh[2]*sh[3], sh[3]
	for i := range s.keys {
		names = append(names, fmt.Sprintf("s%d/r%d/h%d:m%d", i/racks, i/hosts%sh[1], i/metrics%sh[2], i%metrics))
	}
	type event struct{ minute, key, cause int }
	var events []event
	hours := simulatedWeeks * 7 * 24
	fleet := make([]float64, hours)
	for h := range fleet {
		fleet[h] = perWeek / (7 * 24) * (1 + s.daily*math.Cos(2*math.Pi*float64(h%24-14)/24)) * gamma(s.shape)
	}
	rates := make([]float64, s.keys)
	for i := range rates {
		rates[i] = gamma(2)
	}
	for site := range sh[0] {
		// The alarms of a Poisson total are distributed over the keys by their rates.
		from := site * racks
		cum, sum := make([]float64, racks), 0.
		for i := range cum {
			sum += rates[from+i]
			cum[i] = sum
		}
		for h, rate := range fleet {
			for range poisson(rate * gamma(s.shape) * sum) {
				i, _ := slices.BinarySearch(cum, rng.Float64()*sum)
				events = append(events, event{h*60 + rng.IntN(60), from + i, causeNone})
			}
		}
	}
	if s.job {
		keys := rng.Perm(s.keys)[:s.keys/10]
		if rng.IntN(2) == 0 {
			from := rng.IntN(10) * len(keys)
			for i := range keys {
				keys[i] = from + i
			}
		}
		for day := range simulatedWeeks * 7 {
			for _, k := range keys {
				if rng.Float64() < .12 {
					events = append(events, event{day*1440 + 120 + rng.IntN(10), k, causeJob})
				}
			}
		}
	}
	for c := range s.causes {
		start := 2*1440 + rng.IntN((simulatedWeeks*7-3)*1440)
		if s.pairs && c%2 == 1 {
			start = int(truth[c-1].start.Sub(begin).Minutes()) + 1 + rng.IntN(60)
		}
		n := int(min(math.Exp(math.Log(3)+rng.Float64()*math.Log(200./3)), float64(s.keys)*.6))
		from, block, prefix := 0, s.keys, ""
		if rng.Float64() < .7 {
			var sizes []int
			for _, size := range []int{racks, hosts, metrics} {
				if size >= n {
					sizes = append(sizes, size)
				}
			}
			if len(sizes) > 0 {
				level := rng.IntN(len(sizes))
				block = sizes[level]
				from = rng.IntN(s.keys) / block * block
				prefix = strings.Join(strings.FieldsFunc(names[from], func(r rune) bool { return r == '/' || r == ':' })[:level+1], "/")
			}
		}
		share, p := .3+.6*rng.Float64(), 1/(2+4*rng.Float64())
		for _, k := range rng.Perm(block)[:n] {
			if rng.Float64() < share {
				delay := 0
				for delay < 10 && rng.Float64() >= p {
					delay++
				}
				events = append(events, event{start + delay, from + k, c})
			}
		}
		truth = append(truth, cause{start: simulated(start), prefix: prefix})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(a.key, b.key)) })
	causeSizes := make([]float64, s.causes)
	for c := range causeSizes {
		causeSizes[c] = 2 * math.Exp(.7*sizes.NormFloat64())
	}
	last := make([]int, s.keys)
	for i := range last {
		last[i] = -60
	}
	for _, e := range events {
		if e.minute-last[e.key] < 60 {
			continue
		}
		last[e.key] = e.minute
		scale, size := .45, 5*math.Exp(.5*sizes.NormFloat64())
		if e.cause >= 0 {
			size *= causeSizes[e.cause]
			scale *= 4
			truth[e.cause].alarms++
		}
		alarms = append(alarms, labelled{incidents.Alarm{
			ID: fmt.Sprint(len(alarms)), Key: names[e.key], Kind: "novelty", Time: simulated(e.minute), Score: 4 + scale*rng.ExpFloat64(), Size: size,
		}, e.cause})
	}
	return names, alarms, truth
}

// A grouped is an incident of any method. Its members are indices of alarms.
type grouped struct {
	opened  time.Time
	page    bool
	pages   int // including pages of updates
	group   string
	members []int
}

// incidents adds the alarms to a fleet and returns its incidents.
func (s simulation) incidents(b *testing.B, names []string, alarms []labelled) (out []grouped) {
	f := newFleet(b, incidents.Config{})
	for _, k := range names {
		f.Register(k, simulated(0), time.Minute, week)
	}
	number := map[string]int{}
	index := map[string]int{}
	merged := map[string]string{}
	belongs := map[string]string{}
	for i, a := range alarms {
		number[a.ID] = i
	}
	apply := func(step incidents.Step) {
		for _, a := range step.Assigned {
			belongs[a.ID] = a.Incident
		}
		for _, e := range step.Events {
			if e.State == incidents.Merged {
				merged[e.ID] = e.MergedInto
				continue
			}
			i, met := index[e.ID]
			if !met {
				i = len(out)
				index[e.ID] = i
				out = append(out, grouped{opened: e.Time})
			}
			if out[i].group = e.Group; e.Page && e.State != incidents.Closed {
				out[i].page = true
				out[i].pages++
			}
		}
	}
	for i, a := range alarms {
		f.Add(a.Alarm)
		if i%20 == 0 {
			apply(f.Advance(a.Time.Add(-1)))
		}
	}
	apply(f.Advance(begin.Add(10 * simulatedWeeks * week)))
	// A key is a member once, with its first alarm.
	met := map[[2]string]bool{}
	for _, a := range alarms {
		id := belongs[a.ID]
		for merged[id] != "" {
			id = merged[id]
		}
		if id == "" || met[[2]string{id, a.Key}] {
			continue
		}
		met[[2]string{id, a.Key}] = true
		out[index[id]].members = append(out[index[id]].members, number[a.ID])
	}
	return slices.DeleteFunc(out, func(g grouped) bool { return len(g.members) == 0 })
}

// chains is the rival method: alarms that follow each other within five minutes, of at least minAlarms keys.
func chains(alarms []labelled, minAlarms int) (out []grouped) {
	var open grouped
	keys, last := map[string]bool{}, time.Time{}
	end := func() {
		if len(keys) >= minAlarms {
			out = append(out, open)
		}
		open, keys = grouped{page: true}, map[string]bool{}
	}
	for i, a := range alarms {
		if a.Time.Sub(last) > 5*time.Minute {
			end()
		}
		last = a.Time
		open.members = append(open.members, i)
		if keys[a.Key] = true; len(keys) == minAlarms && open.opened.IsZero() {
			open.opened = a.Time
		}
	}
	end()
	return out
}

// A tally counts the results of a method for the causes.
type tally struct {
	alarms, causes, found, once, right, false, night, reported, pages int
	precision, recall                                                 float64   // sums over found causes
	delays                                                            []float64 // minutes from the cause to the first page
}

func (y *tally) add(o tally) {
	y.alarms += o.alarms
	y.causes += o.causes
	y.found += o.found
	y.once += o.once
	y.right += o.right
	y.false += o.false
	y.night += o.night
	y.reported += o.reported
	y.pages += o.pages
	y.precision += o.precision
	y.recall += o.recall
	y.delays = append(y.delays, o.delays...)
}

// score separates the incidents of a cause, which have at least two alarms and a fifth of those of the cause, from
// incidents of the job and of single alarms. Only pages count.
func score(alarms []labelled, truth []cause, reported []grouped) (y tally) {
	type hit struct {
		g *grouped
		n int
	}
	hits := make([][]hit, len(truth))
	for i := range reported {
		g := &reported[i]
		count := map[int]int{}
		for _, m := range g.members {
			if c := alarms[m].cause; c != causeNone {
				count[c]++
			}
		}
		top, n := causeNone, 0
		for c, k := range count {
			if k > n || k == n && c > top {
				top, n = c, k
			}
		}
		y.pages += g.pages
		page := 0
		if g.page {
			page = 1
		}
		switch {
		case top == causeJob:
			y.night += page
			y.reported += 1 - page
		case top == causeNone || n < 2 || float64(n) < .2*float64(truth[top].alarms):
			y.false += page
		case g.page:
			hits[top] = append(hits[top], hit{g, n})
		}
	}
	y.alarms = len(alarms)
	for c, cause := range truth {
		if cause.alarms < minAlarms {
			continue
		}
		y.causes++
		if len(hits[c]) == 0 {
			continue
		}
		y.found++
		if len(hits[c]) == 1 {
			y.once++
		}
		first := slices.MinFunc(hits[c], func(a, b hit) int { return a.g.opened.Compare(b.g.opened) })
		y.delays = append(y.delays, first.g.opened.Sub(cause.start).Minutes())
		best := slices.MaxFunc(hits[c], func(a, b hit) int { return cmp.Compare(a.n, b.n) })
		if best.g.group == cause.prefix {
			y.right++
		}
		y.precision += float64(best.n) / float64(len(best.g.members))
		y.recall += float64(best.n) / float64(cause.alarms)
	}
	return y
}

// go test ./hafvf/incidents -run - -bench Incidents -benchtime 1x
//
// The last rows for a number of keys have no causes and no job.
func BenchmarkIncidents(b *testing.B) {
	for b.Loop() {
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "keys\tmethod\talarms\tcauses\tfound\tonce\tright prefix\tfalse\tnight\treported\tpages a week\tprecision\trecall\tminutes")
		for _, keys := range []int{200, 2000, 20_000} {
			s := simulation{keys: keys, causes: 20, job: true, shape: 5, daily: .5}
			rivals := map[string]int{"chains, >= 3": 3, "chains, >= 5": 5} // minimum number of keys
			var ours tally
			sums := map[string]tally{}
			for i := range *seeds {
				names, alarms, truth := s.draw(*seed + uint64(i))
				ours.add(score(alarms, truth, s.incidents(b, names, alarms)))
				for name, minAlarms := range rivals {
					sum := sums[name]
					sum.add(score(alarms, truth, chains(alarms, minAlarms)))
					sums[name] = sum
				}
			}
			row(out, keys, "incidents", ours)
			pairs, two := s, tally{}
			pairs.pairs = true
			for i := range *seeds {
				names, alarms, truth := pairs.draw(*seed + 2000 + uint64(i))
				two.add(score(alarms, truth, pairs.incidents(b, names, alarms)))
			}
			row(out, keys, "incidents, two causes within an hour", two)
			for _, name := range slices.Sorted(maps.Keys(rivals)) {
				row(out, keys, name, sums[name])
			}
			for _, none := range []struct {
				name string
				simulation
			}{
				{"Poisson", simulation{keys: keys}},
				{"Poisson, daily", simulation{keys: keys, daily: .5}},
				{"overdispersed, daily", simulation{keys: keys, shape: 5, daily: .5}},
			} {
				var sum tally
				for i := range *seeds {
					names, alarms, truth := none.draw(*seed + 1000 + uint64(i))
					sum.add(score(alarms, truth, none.incidents(b, names, alarms)))
				}
				row(out, keys, none.name, sum)
			}
			out.Flush()
		}
	}
}

func row(out *tabwriter.Writer, keys int, method string, y tally) {
	minutes := math.NaN()
	if slices.Sort(y.delays); len(y.delays) > 0 {
		minutes = y.delays[len(y.delays)/2]
	}
	fmt.Fprintf(out, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.0f\n", keys, method, y.alarms, y.causes, y.found, y.once, y.right,
		y.false, y.night, y.reported, float64(y.pages)/float64(simulatedWeeks**seeds), y.precision/float64(y.found), y.recall/float64(y.found), minutes)
}
