package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// A fleet is simulated alerts and estimates of keys site/rack/host:metric.
type fleet struct {
	keys, weeks int
	every       time.Duration // step of estimates; 0 for no estimates
	perWeek     float64       // random alarms per key and week
	incidents   bool
}

var fleetStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

func (f fleet) key(i int) string {
	return fmt.Sprintf("s%d/r%d/h%03d:%s", i/1000, i/100, i/4, []string{"cpu", "disk", "latency", "errors"}[i%4])
}

// write writes alerts.jsonl and estimates.jsonl to dir.
func (f fleet) write(t testing.TB, dir string) (alerts, estimates string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(f.keys)))
	create := func(name string) (*os.File, *bufio.Writer) {
		file := expect.Get(os.Create(filepath.Join(dir, name)))(t)
		return file, bufio.NewWriterSize(file, 1<<20)
	}
	end := fleetStart.Add(time.Duration(f.weeks) * 7 * 24 * time.Hour)
	file, out := create("alerts.jsonl")
	writeAlert := func(key, kind string, t time.Time, score float64, incident string) {
		size := score * .8
		if r.IntN(3) == 0 {
			size = -size
		}
		x := 20 + size
		fmt.Fprintf(out, `{"key":%q,"time":%q,"kind":%q,"id":"in.csv:%d","corrects":null,"start":%q,"delay":0,"odds":3.2,"score":%.4f,"threshold":4.2,"x":%.4f,"predicted":{"mean":20.01,"sd":1.02},"usual":{"mean":20,"sd":1},"size":%.4f,"before":{"mean":20,"sd":0.1},"after":{"mean":%.3f,"sd":0.1},"message":"%s: x is %.4g at %s, usual at this hour 20.0 ± 1.0; score %.1f, an alarm from 4.2."`,
			key, t.Format(time.RFC3339), kind, r.IntN(1e9), t.Format(time.RFC3339), score, x, size, x, key, x, t.Format("15:04"), score)
		if incident != "" {
			fmt.Fprintf(out, `,"incident":%q`, incident)
		}
		out.WriteString("}\n")
	}
	alarmed := map[int]map[int64]bool{}
	mark := func(i int, t time.Time) {
		if alarmed[i] == nil {
			alarmed[i] = map[int64]bool{}
		}
		alarmed[i][t.Unix()/int64(max(f.every, time.Second).Seconds())] = true
	}
	for i := range f.keys {
		rate := f.perWeek
		if i%97 == 3 {
			rate *= 6 // a noisy key
		}
		for t := fleetStart; ; {
			t = t.Add(time.Duration(r.ExpFloat64() / rate * 7 * 24 * float64(time.Hour))).Truncate(time.Minute)
			if !t.Before(end) {
				break
			}
			kind := "novelty"
			if r.IntN(5) == 0 {
				kind = "change"
			}
			writeAlert(f.key(i), kind, t, 4.2+r.ExpFloat64()*5, "")
			mark(i, t)
		}
		if i%211 == 5 {
			t := end.Add(-time.Duration(r.IntN(72)) * time.Hour)
			fmt.Fprintf(out, `{"key":%q,"time":%q,"kind":"silent","id":"s","corrects":null,"start":%q,"delay":0,"odds":null,"score":null,"threshold":null,"x":null,"size":null,"message":"%s: nothing has come since %s; more than 15m."}`+"\n",
				f.key(i), t.Format(time.RFC3339), t.Add(-15*time.Minute).Format(time.RFC3339), f.key(i), t.Add(-15*time.Minute).Format("15:04"))
			if i%2 == 0 {
				fmt.Fprintf(out, `{"key":%q,"time":%q,"kind":"recovered","id":"s","start":%q,"message":"%s: speaks again, after 1h."}`+"\n", f.key(i), t.Add(time.Hour).Format(time.RFC3339), t.Format(time.RFC3339), f.key(i))
			}
		}
	}
	if f.incidents {
		for n := range 6 {
			rack := r.IntN((f.keys + 99) / 100)
			first, last := rack*100, min(rack*100+100, f.keys)
			t := fleetStart.Add(time.Duration(r.IntN(f.weeks*7*24*60)) * time.Minute)
			id := fmt.Sprintf("incident-%d", n)
			group := fmt.Sprintf("s%d/r%d", first/1000, rack)
			type member struct {
				Key   string    `json:"key"`
				Time  time.Time `json:"time"`
				Score float64   `json:"score"`
				Size  float64   `json:"size"`
				P     float64   `json:"p"`
			}
			var members []member
			for i := first; i < last; i += 1 + r.IntN(4) {
				when := t.Add(time.Duration(r.IntN(10)) * time.Minute)
				score := 8 + r.ExpFloat64()*20
				writeAlert(f.key(i), "novelty", when, score, id)
				mark(i, when)
				if len(members) < 20 {
					members = append(members, member{f.key(i), when, math.Round(score*100) / 100, 12.5, .97})
				}
			}
			list, _ := json.Marshal(members)
			for _, state := range []string{"opened", "update", "closed"} {
				reported, ended := t.Add(4*time.Minute), "null"
				if state == "closed" {
					reported = t.Add(40 * time.Minute)
					ended = fmt.Sprintf("%q", reported.Format(time.RFC3339))
				}
				fmt.Fprintf(out, `{"key":%q,"time":%q,"kind":"incident","id":%q,"state":%q,"page":%t,"start":%q,"end":%s,"group":%q,"keys":%d,"members":%s,"expected":0.0058,"score":%.2f,"message":"%d keys of %s (%d keys) alarmed since %s; by chance 0.0058 in 2 min; first %s, clearest %s."}`+"\n",
					group, reported.Format(time.RFC3339), id, state, n != 2, t.Format(time.RFC3339), ended, group, len(members), list, 11.5+float64(n), len(members), group, last-first, t.Format("15:04"), members[0].Key, members[len(members)-1].Key)
			}
		}
	}
	finish := func(file *os.File, out *bufio.Writer) string {
		expect.OK(t, out.Flush())
		expect.OK(t, file.Close())
		return file.Name()
	}
	alerts = finish(file, out)
	if f.every == 0 {
		return alerts, ""
	}
	file, out = create("estimates.jsonl")
	n := 0
	for t := fleetStart; t.Before(end); t = t.Add(f.every) {
		n++
		for i := range f.keys {
			hour := 3 * math.Sin(float64(t.Unix()%86400)/86400*2*math.Pi)
			x, score, alarm := 20+hour+r.NormFloat64(), math.Abs(r.NormFloat64()), "null"
			if alarmed[i][t.Unix()/int64(f.every.Seconds())] {
				x, score, alarm = x+9, 9, `"novelty"`
			}
			fmt.Fprintf(out, `{"key":"%s","time":"%s","id":"in.csv:%d","n":%d,"x":%.4f,"predicted":{"mean":%.10f,"sd":1.0200000001},"estimate":{"mean":%.10f,"sd":0.1123456789},"log_predictive":-1.4321098765,"weight":0.9812345678,"memory":52.12345678,"detect":{"kind":"none","p_outlier":0.0123456789,"p_change":0.0012345678,"usual":{"mean":%.10f,"sd":1.0012345678},"score":%.8f,"alarm":%s}}`+"\n",
				f.key(i), t.Format(time.RFC3339), n*f.keys+i, n, x, 20+hour, 20+hour, 20+hour, score, alarm)
		}
	}
	return alerts, finish(file, out)
}
