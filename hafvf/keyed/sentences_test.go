package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"hafvf/hafvf"
)

// A story is a key whose values scatter around base with the relative noise. At 3:10, after a pause, change starts
// to change the values. The golden file has the first message of each kind in kinds.
type story struct {
	key         string
	base, noise float64
	step        time.Duration // 0: one minute; -1: no times
	change      func(i int, x float64) float64
	kinds       string
	set         func(*Config)
	shape       func(x float64) [][]float64 // of an observation; nil for the value itself
	pause       time.Duration
}

func stories() []story {
	type change = func(i int, x float64) float64
	times := func(factor float64, n int) change {
		return func(i int, x float64) float64 { return x * []float64{factor, 1}[min(1, i/n)] }
	}
	constant := func(v float64) change { return func(int, float64) float64 { return v } }
	plus := func(v float64) change { return func(_ int, x float64) float64 { return x + v } }
	rises := func(slope float64) change { return func(i int, x float64) float64 { return x + slope*float64(i) } }
	named := func(name, unit string) func(*Config) {
		return func(c *Config) { c.Values, c.Unit = []string{name}, unit }
	}
	measured := func(metric, unit string) func(*Config) {
		return func(c *Config) { c.Values, c.Metric, c.Unit = []string{"value"}, metric, unit }
	}
	believed := func(kinds ...hafvf.Kind) func(*Config) {
		return func(c *Config) { c.Alerts.Beliefs = kinds }
	}
	made := func(name, unit string, aggregation Aggregation) func(*Config) {
		aggregation.Every = time.Minute
		return func(c *Config) {
			c.Values, c.Unit, c.Aggregate = []string{name}, unit, &AggregateConfig{Aggregation: aggregation}
		}
	}
	limit := func(c *Config) { c.Silence.After = 25 * time.Hour }
	return []story{
		{key: "checkout", base: .35, noise: .08, change: times(2.4, 60), kinds: "novelty ongoing recovered", set: named("p95", "s")},
		{key: "checkout", base: .35, noise: .08, change: times(1.25, 3000), kinds: "novelty recovered", set: named("latency_seconds", "")},
		{key: `p95_ms{instance="auth-1",job="auth"}`, base: 12, noise: .06, change: times(4, 25), kinds: "novelty ongoing recovered"},
		{key: `p95_ms{instance="pay-3",job="pay"}`, base: 640, noise: .06, change: times(2.2, 25), kinds: "novelty"},
		{key: `query_seconds{job="db"}`, base: .0004, noise: .1, change: times(30, 25), kinds: "novelty"},
		{key: `batch_seconds{job="night"}`, base: 5400, noise: .03, step: time.Hour, change: times(1.8, 25), kinds: "novelty"},
		{key: `mem_bytes{instance="cart-4",job="cart"}`, base: 942e6, noise: .004, change: rises(8e5), kinds: "novelty farther ongoing"},
		{key: `disk_free_bytes{instance="db-1"}`, base: 2.4e12, noise: .001, step: 10 * time.Minute, change: times(.12, 3000), kinds: "novelty"},
		{key: `{instance="web-5",job="edge"}`, base: 480, noise: .05, change: times(.1, 40), kinds: "novelty ongoing recovered", set: measured("requests_total", "/s")},
		{key: `{instance="web-6",job="edge"}`, base: 480, noise: .05, change: times(0, 40), kinds: "novelty", set: measured("requests_total", "/s")},
		{key: `{device="eth0"}`, base: 61e6, noise: .05, change: times(1.9, 40), kinds: "novelty", set: measured("transmit_bytes_total", "/s")},
		{key: "auth", base: .09, noise: .1, change: times(9, 40), kinds: "novelty", set: measured("http_request_duration_seconds", "")},
		{key: `{job="auth"}`, base: .004, noise: .1, change: times(9, 40), kinds: "novelty", set: measured("rate(errors_total[5m]) / rate(requests_total[5m])", "")},
		{key: `cpu_ratio{job="search"}`, base: .42, noise: .05, change: times(1.3, 40), kinds: "novelty"},
		{key: `errors_ratio{job="search"}`, base: .004, noise: .1, change: times(6, 40), kinds: "novelty"},
		{key: "/cart", base: 12, noise: .2, change: times(4, 40), kinds: "novelty", set: func(c *Config) {
			c.Filter.Family, c.Values = "binomial", []string{"errors/requests"}
		}, shape: func(x float64) [][]float64 { return [][]float64{{max(0, math.Round(x)), 1000}} }},
		{key: `room_celsius{room="Lab 3"}`, base: 20.3, noise: .015, step: 10 * time.Minute, change: plus(-5.2), kinds: "novelty"},
		{key: "freezer", base: -18, noise: .02, step: 10 * time.Minute, change: rises(.125), kinds: "novelty farther ongoing", set: named("temp", "°C")},
		{key: "Süd/Pumpe 2", base: 4.2, noise: .025, change: times(.19, 100), kinds: "novelty", set: named("Druck (bar)", "")},
		{key: "balance", base: .2, noise: 4, change: plus(9), kinds: "novelty"},
		{key: "orders", base: 2.5e6, noise: .04, step: 24 * time.Hour, change: times(1.4, 3000), kinds: "farther"}, // a value three days before was unusual too
		{key: "shop", base: 31, noise: .04, step: 24 * time.Hour, change: times(.55, 3000), kinds: "change", set: func(c *Config) {
			named("turnover", "EUR")(c)
			believed(hafvf.Change)(c)
		}},
		{key: "web-12", base: 153.4, noise: .02, change: constant(153.4), kinds: "frozen", set: named("mem", "MB")},
		{key: "web-13", base: 153.4, noise: .02, change: constant(145.6), kinds: "frozen ongoing", set: named("mem", "MB")},
		{key: "scale", base: 1013.2, noise: .00002, change: plus(.25), kinds: "novelty", set: named("pressure", "hPa")},
		{key: "subject 7", base: 20, noise: .05, step: -1, change: plus(3.5), kinds: "novelty recovered"},
		{key: "subject 8", base: 20, noise: .05, step: -1, change: times(1.3, 3000), kinds: "change", set: believed(hafvf.Change)},
		{key: "till-2", base: 20, noise: .05, step: 5 * time.Minute, change: func(i int, x float64) float64 { return x * []float64{1.5, .8}[min(1, i/6)] }, kinds: "revision", set: believed(hafvf.Change, hafvf.Revision)},
		{key: "checkout", base: .35, noise: .08, change: times(9, 1), kinds: "outlier", set: func(c *Config) {
			named("p95", "s")(c)
			believed(hafvf.Outlier)(c)
		}},
		{key: "till-3", base: 20, noise: .05, step: 5 * time.Minute, change: func(_ int, x float64) float64 { return 20 + 2.2*(x-20) }, kinds: "novelty", set: named("sum", "EUR")},
		{key: "till-4", base: 20, noise: .05, step: 5 * time.Minute, change: func(i int, x float64) float64 { return 20 + 1.7*float64(1-i%2*2) + (x-20)/8 }, kinds: "novelty", set: named("sum", "EUR")},
		{key: "till-5", base: 20, noise: .05, step: 5 * time.Minute, change: func(i int, x float64) float64 { return 20 + 1.6*float64(1-i/4%2*2) + (x-20)/4 }, kinds: "novelty", set: named("sum", "EUR")},
		{key: "app", base: 13, noise: .3, change: times(5, 6), kinds: "novelty", set: made("rate", "/s", Aggregation{Value: Rate})},
		{key: "app", base: 780, noise: .1, change: times(.2, 6), kinds: "novelty", set: made("count", "", Aggregation{Value: Count})},
		{key: "line-2", base: 48, noise: .1, change: times(1.8, 6), kinds: "novelty", set: made("increase of kWh", "kWh/h", Aggregation{Value: Increase, Per: time.Hour})},
		{key: "pair", base: 20, noise: .05, change: plus(8), kinds: "novelty", set: func(c *Config) {
			c.Filter.Family, c.Filter.Dim, c.Values = "mvnormal", 2, []string{"in_bytes", "out_bytes"}
		}, shape: func(x float64) [][]float64 { return [][]float64{{50 - x/2, x}} }},
		{key: "unnamed", base: 20, noise: .05, change: plus(8), kinds: "novelty", set: func(c *Config) {
			c.Filter.Family, c.Filter.Dim = "mvnormal", 2
		}, shape: func(x float64) [][]float64 { return [][]float64{{50 - x/2, x}} }},
		{key: "boiler", base: 20, noise: .05, change: plus(8), kinds: "novelty", set: func(c *Config) {
			c.Filter.Family, c.Filter.Dim, c.Values = "regression", 2, []string{"outside", "load"}
		}, shape: func(x float64) [][]float64 { return [][]float64{{1, x}} }},
		{key: "lab", base: 293, noise: .002, change: plus(8), kinds: "novelty", set: measured("load", "K")},
		{key: `room_temp{room="2"}`, base: 20, noise: .05, change: plus(8), kinds: "novelty"},
		{key: "temporary_files", base: 20, noise: .05, change: plus(8), kinds: "novelty"},
		{key: `ms{job="rates"}`, base: .05, noise: .05, change: plus(.02), kinds: "novelty", set: measured("requests_total", "/s")},
		{key: "many", base: 20, noise: .05, change: plus(8), kinds: "novelty", shape: func(x float64) [][]float64 { return [][]float64{{x - 1}, {x + 1}} }},
		{key: "tokyo", base: 20, noise: .05, step: 5 * time.Minute, change: times(1.4, 400), kinds: "novelty recovered", set: func(c *Config) { c.Alarms.Zone = "Asia/Tokyo" }},
		{key: "web-12", base: 20, noise: .05, pause: 3 * time.Hour, kinds: "silent recovered"},
		{key: "sensor", base: 20, noise: .05, step: 10 * time.Second, pause: time.Hour, kinds: "silent recovered"},
		{key: "backup", base: 20, noise: .05, step: 24 * time.Hour, pause: 72 * time.Hour, kinds: "silent recovered", set: limit},
		{key: "door", base: 3, noise: .2, change: constant(-5), kinds: "impossible", set: func(c *Config) { c.Filter.Family, c.Values = "poisson", []string{"visits"} }},
	}
}

// sentences returns the first message of a story by kind.
func (s story) sentences(t *testing.T) map[string]string {
	cfg := Recommended("normal")
	if s.pause > 0 {
		cfg.Silence = &SilenceConfig{}
	}
	if s.set != nil {
		s.set(&cfg)
	}
	cfg.Filter.Bank = hafvf.DefaultBankFor(cfg.Filter.Family)
	step := s.step
	switch step {
	case 0:
		step = time.Minute
	case -1:
		cfg.Order = Arrival
	}
	byKind := map[string]string{}
	note := func(kind, message string) {
		switch {
		case kind == "ongoing":
		case strings.Contains(message, "getting worse"):
			kind = "farther"
		case strings.Contains(message, "frozen"):
			kind = "frozen"
		}
		if byKind[kind] == "" {
			byKind[kind] = message
		}
	}
	est := newEstimator(t, cfg)
	track := est.NewTrack(s.key)
	rng := rand.New(rand.NewPCG(2, 3))
	const changeIndex, ongoingIndex = 2500, 36
	first := time.Date(2026, 3, 6, 3, 10, 0, 0, time.UTC).Add(-changeIndex * step)
	missing := func(kind string) bool { return byKind[kind] == "" }
	for i := 0; i < changeIndex+1500 && slices.ContainsFunc(strings.Fields(s.kinds), missing); i++ {
		x := s.base * (1 + s.noise*rng.NormFloat64())
		if i >= changeIndex && s.change != nil {
			x = s.change(i-changeIndex, x)
		}
		if cfg.Filter.Family == "poisson" {
			x = math.Round(x)
		}
		o := Value(first.Add(time.Duration(i)*step), fmt.Sprint(i), x)
		if i >= changeIndex {
			o.Time = o.Time.Add(s.pause)
		}
		if s.step == -1 {
			o.Time = time.Time{}
		}
		if s.shape != nil {
			o.X = s.shape(x)
		}
		if est.Check(s.key, o) != nil {
			if e := est.outside(track, &o); e != nil {
				note("impossible", e.Alarm.Message)
			}
			continue
		}
		e := est.Estimate(track, o)
		if i < changeIndex {
			continue
		}
		for _, a := range e.Alerts(s.key) {
			note(a.Kind, a.Message)
		}
		if a, ok := est.Ongoing(track, &e); ok && i == changeIndex+ongoingIndex {
			note("ongoing", a.Message)
		}
	}
	return byKind
}

// The golden file has messages of all kinds, in all units and both directions. Read them aloud: a message that has
// to be read twice is a bad one.
func TestSentencesGolden(t *testing.T) {
	var text strings.Builder
	n := 0
	for _, s := range stories() {
		byKind := s.sentences(t)
		for _, kind := range strings.Fields(s.kinds) {
			if byKind[kind] == "" {
				t.Errorf("%s has no message of kind %s: %q", s.key, kind, byKind)
			}
			n++
			fmt.Fprintln(&text, byKind[kind])
		}
	}
	if n < 40 {
		t.Errorf("%d sentences", n)
	}
	file := filepath.Join("testdata", "sentences.golden")
	if *update {
		fatal(t, os.WriteFile(file, []byte(text.String()), 0o666))
	}
	if diff := gocmp.Diff(string(must(os.ReadFile(file))), text.String()); diff != "" {
		t.Errorf("(-file +got)\n%s", diff)
	}
}

// With OmitToday, the times of today have no date. Other times have one.
func TestSentenceOmitToday(t *testing.T) {
	for _, c := range []struct {
		omit bool
		age  time.Duration
		want string
	}{{false, 0, `at \d{4}-\d\d-\d\d \d\d:\d\d:`}, {true, 0, `k ×3 at \d\d:\d\d:`}, {true, 48 * time.Hour, `at \d{4}-\d\d-\d\d \d\d:\d\d:`}} {
		cfg := Recommended("normal")
		cfg.OmitToday = c.omit
		est := newEstimator(t, cfg)
		track := est.NewTrack("k")
		last := time.Now().Add(-c.age)
		rng := rand.New(rand.NewPCG(2, 3))
		var e Estimate
		for i := range 1000 {
			o := Value(last.Add(time.Duration(i-999)*5*time.Minute), "", 20+rng.NormFloat64())
			if i == 999 {
				o.X[0][0] = 60
			}
			e = est.Estimate(track, o)
		}
		if e.Alarm == nil || !regexp.MustCompile(c.want).MatchString(e.Alarm.Message) {
			t.Errorf("%+v: %+v", c, e.Alarm)
		}
	}
}
