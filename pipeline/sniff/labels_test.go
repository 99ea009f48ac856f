package sniff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hafvf/pipeline/config"
)

// TestDraftSeesWhatIsThere checks drafts of common files. A check with the draft parses all records, and suggests
// nothing but a season.
func TestDraftSeesWhatIsThere(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 1))
	clock := func(minute int) string {
		return time.Date(2026, 1, 5, 0, minute, 0, 0, time.UTC).Format(time.RFC3339)
	}
	for _, c := range []struct {
		name, file, header string
		n                  int
		line               func(i int) string
		want               []string
	}{
		{"many devices, by time", "devices.csv", "ts,device,temperature", 2000,
			func(i int) string {
				return fmt.Sprintf("%s,dev-%04d,%.2f", clock(i/700), i%700, 20+noise.NormFloat64())
			},
			[]string{"key: device", "values: [temperature]"}},
		{"labels", "metrics.csv", "time,metric,instance,job,value", 1200,
			func(i int) string {
				return fmt.Sprintf("%s,%s,host-%d,web,%.3f", clock(i/12), []string{"cpu", "memory", "disk"}[i%3], i/3%4, noise.Float64())
			},
			[]string{"key: [metric, instance]", "values: [value]"}},
		{"requests with errors", "pages.csv", "page,hour,requests,errors", 600,
			func(i int) string {
				n := 100 + noise.IntN(500)
				return fmt.Sprintf("/p%d,%s,%d,%d", i%6, clock(i/6*60), n, noise.IntN(n/10))
			},
			[]string{"family: binomial", "key: page", "values: [errors, requests]"}},
		{"raw events", "events.csv", "when,service,user", 1000,
			func(i int) string {
				stamp := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * 1234 * time.Millisecond)
				return fmt.Sprintf("%s,%s,u%05d", stamp.Format("2006-01-02T15:04:05.000Z"), []string{"shop", "login", "pay"}[noise.IntN(3)], noise.IntN(90000))
			},
			[]string{"family: poisson", "aggregate: {every: 1m, value: count}", "key: service"}},
		{"a wide spreadsheet of sites", "rooms.csv", "site,day,room1,room2,room3,room4", 200,
			func(i int) string {
				return fmt.Sprintf("%s,%s,%.1f,%.1f,,%.1f", []string{"north", "south"}[i%2], clock(i/2), 20+noise.NormFloat64(), 21+noise.NormFloat64(), 22+noise.NormFloat64())
			},
			[]string{"layout: wide", "key: site", "values: [room*]"}},
		{"an export", "export.jsonl", "", 5,
			func(i int) string {
				var values, times []string
				for k := range 30 {
					values, times = append(values, fmt.Sprintf("%.2f", noise.Float64())), append(times, fmt.Sprint(1767571200000+60000*k))
				}
				return fmt.Sprintf(`{"metric":{"__name__":"up","instance":"h%d"},"values":[%s],"timestamps":[%s]}`, i, strings.Join(values, ","), strings.Join(times, ","))
			},
			[]string{"layout: series", "key: metric", "time: timestamps", "values: [values]"}},
		{"an answer of Prometheus", "answer.json", "", 1,
			func(int) string {
				var series []string
				for k := range 3 {
					var pairs []string
					for i := range 40 {
						pairs = append(pairs, fmt.Sprintf(`[%d.5,"%.3f"]`, 1767571200+60*i, noise.Float64()))
					}
					series = append(series, fmt.Sprintf(`{"metric":{"__name__":"up","instance":"h%d"},"values":[%s]}`, k, strings.Join(pairs, ",")))
				}
				return fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.Join(series, ","))
			},
			[]string{"layout: series", "key: metric ", "3 keys so far", "values: [values]"}},
		{"counters and numbers that identify", "counters.csv", "time,machine,bytes_total,port,seq,wear,temp", 400,
			func(i int) string {
				return fmt.Sprintf("%s,m%d,%d,%d,%d,%.2f,%.1f", clock(i/4), i%4, i/4*1500+noise.IntN(900), 8000+i%4, i, noise.Float64(), 20+noise.NormFloat64())
			},
			[]string{"key: machine", "values: [temp]", "# or wear\n"}},
		{"a unit", "unit.csv", "time,machine,wear,Vibration (mm/s)", 400,
			func(i int) string {
				return fmt.Sprintf("%s,m%d,%.2f,%.1f", clock(i/4), i%4, noise.Float64(), 20+noise.NormFloat64())
			},
			[]string{"values: [Vibration (mm/s)]", "# or wear\n"}},
		{"events with latencies", "latencies.csv", "at,route,took_ms", 1000,
			func(i int) string {
				stamp := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).Add(time.Duration(float64(i)+noise.ExpFloat64()) * 1500 * time.Millisecond)
				return fmt.Sprintf("%s,%s,%.1f", stamp.Format("2006-01-02T15:04:05.000Z"), []string{"/a", "/b"}[noise.IntN(2)], 80*math.Exp(.7*noise.NormFloat64()))
			},
			[]string{"scale: log", "aggregate: {every: 1m, value: median, wait: 8s}", "key: route", "values: [took_ms]"}},
	} {
		var lines []string
		if c.header != "" {
			lines = append(lines, c.header+"\n")
		}
		for i := range c.n {
			lines = append(lines, c.line(i)+"\n")
		}
		path := write(t, c.file, lines...)
		draft, err := Draft(path)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(string(draft.Config), want) {
				t.Errorf("%s: no %s in\n%s", c.name, want, draft.Config)
			}
		}
		cfg, err := config.Parse(path, draft.Config, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, draft.Config)
			continue
		}
		result, err := Inspect(cfg)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if result.Parsed < result.Records || len(result.Rejections) > 0 {
			t.Errorf("%s: %d of %d records parse", c.name, result.Parsed, result.Records)
		}
		for _, s := range result.Suggestions {
			if s.Key != "model.season" {
				t.Errorf("%s: suggests %s: %s, %s", c.name, s.Key, s.Value, s.Why)
			}
		}
	}
}

// TestInspectFindsTiedKeys checks that a column that is missing in the key is suggested.
func TestInspectFindsTiedKeys(t *testing.T) {
	lines := []string{"time,metric,instance,x\n"}
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("2026-01-05T%02d:%02d:00Z,cpu,h%d,%d\n", i/4/60, i/4%60, i%4, i%17))
	}
	path := write(t, "m.csv", lines...)
	for key, want := range map[string]string{"metric": "source.csv.key [metric, instance]", "none": "source.csv.key instance"} {
		result := inspect(t, "{family: normal}", path+", key: "+key)
		if len(result.Suggestions) == 0 || result.Suggestions[0].Key+" "+result.Suggestions[0].Value != want {
			t.Errorf("key %s: %+v", key, result.Suggestions)
		}
	}
}

// TestInspectFindsCounters checks that counters are reported, unless the config aggregates their increase.
func TestInspectFindsCounters(t *testing.T) {
	lines := []string{"key,time,x\n"}
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("a,2026-01-05T00:%02d:00Z,%d\nb,2026-01-05T00:%02d:00Z,%d\n", i, 7*i%300, i, i*17%23))
	}
	path := write(t, "m.csv", lines...)
	found := inspect(t, "{family: normal}", path)
	if len(found.Counters) != 1 || found.Counters[0] != "a" || !strings.Contains(found.String(), "counters the values of 1 key rise and do not fall") {
		t.Errorf("%q\n%s", found.Counters, found)
	}
	if result := inspect(t, "{family: normal}, aggregate: {every: 1m, value: increase}", path); len(result.Counters) > 0 {
		t.Errorf("increases are taken for counters: %s", result)
	}
}

func TestDraftOfNoRecords(t *testing.T) {
	for name, lines := range map[string][]string{"a.csv": {"time,key,x\n"}, "b.jsonl": {}} {
		if _, err := Draft(write(t, name, lines...)); err == nil || !strings.Contains(err.Error(), "has no records") && !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
