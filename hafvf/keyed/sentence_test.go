package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
)

// watched returns the estimates of a key whose values vary by 1 around 20, with times if step is not 0. From
// observation from on, edit changes the values.
func watched(t *testing.T, cfg Config, n, from int, step time.Duration, edit func(i int, x float64) float64) (estimates []Estimate) {
	t.Helper()
	if step == 0 {
		cfg.Order = Arrival
	}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	rng := rand.New(rand.NewPCG(2, 3))
	for i := range n {
		o := Value(time.Time{}, fmt.Sprint(i), 20+rng.NormFloat64())
		if i >= from {
			o.X[0][0] = edit(i-from, o.X[0][0])
		}
		if step != 0 {
			o.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * step)
		}
		estimates = append(estimates, est.Estimate(track, o))
	}
	return estimates
}

// A message states what is unusual about the values: since when, how far from usual, or how the last values
// compare.
func TestSentences(t *testing.T) {
	const n, first = 3000, 2500
	for _, c := range []struct {
		name   string
		step   time.Duration
		zone   string
		change func(i int, usual float64) float64 // changes the values from first on
		want   []string                           // messages of the alarms from first on
	}{
		{"shift", 5 * time.Minute, "", func(_ int, x float64) float64 { return x + 3.5 },
			[]string{`^k is 21 % above usual since 2026-01-09 16:20 \(5 min\): 24\.\d, usual at this hour 19\.9 ± 1\.[12]\.$`}},
		{"in a zone", 5 * time.Minute, "Asia/Tokyo", func(_ int, x float64) float64 { return x + 3.5 },
			[]string{`since 2026-01-10 01:20 \(`}},
		{"one value", 5 * time.Minute, "", func(i int, x float64) float64 {
			if i == 0 {
				return 60
			}
			return x
		}, []string{`^k ×3 at 2026-01-09 16:20: 60, usual at this hour 19\.\d ± 1\.[12]\.$`}},
		{"stuck", 5 * time.Minute, "", func(int, float64) float64 { return 24 },
			[]string{`usual`, `^k frozen at 24 since 2026-01-09 16:20 \(\d+ h \d+ min, \d+ equal values\), which is rare for this key\.$`}},
		{"there and back", 5 * time.Minute, "", func(i int, x float64) float64 {
			if i < 50 {
				return x - 30
			}
			return x
		}, []string{`^k is 30\.5 \(27 sd\) below usual at 2026-01-09 16:20: -10\.7, usual`}},
		{"scatter", 5 * time.Minute, "", func(i int, x float64) float64 { return 20 + 2.2*(x-20) }, []string{`usual`}},
		{"days", 24 * time.Hour, "", func(_ int, x float64) float64 { return x + 8 },
			[]string{`^k is (getting worse: )?\d+ % above usual (on|since) \d{4}-\d\d-\d\d.*: .*usual (on such a day|before [\d-]+) \d`}},
		{"no times", 0, "", func(_ int, x float64) float64 { return x + 3.5 },
			[]string{`^k is 21 % above usual for 2 observations: 24\.\d, usually 20\.0 ± 1\.[12]\.$`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Recommended("normal")
			cfg.Alarms.Zone = c.zone
			var got []string
			for _, e := range watched(t, cfg, n, first, c.step, c.change)[first:] {
				if e.Alarm == nil || e.Alarm.Kind != string(usual.NoveltyAlarm) {
					continue
				}
				got = append(got, e.Alarm.Message)
				if u, x := e.Alarm.Usual, e.X[0][0]; !(math.Abs(math.Log(e.Alarm.Size/((x-u.Mean[0])/u.SD[0]))) < .7) {
					t.Errorf("the size %g differs much from the distance of %g from %v", e.Alarm.Size, x, u)
				}
			}
			for i, want := range c.want {
				if i >= len(got) || !regexp.MustCompile(want).MatchString(got[i]) {
					t.Fatalf("messages %q, want %q", got, c.want)
				}
			}
		})
	}
}

// The standard deviation of rounded values is at least that of the rounding error. So the size of the first
// different value after equal ones is finite.
func TestRoundedValues(t *testing.T) {
	for _, c := range []struct{ start, end, unit float64 }{{0, 1, 1}, {14.5, 14.6, .1}, {3, 1e9, 1}} {
		cfg := Recommended("normal")
		cfg.Alerts.Beliefs = []hafvf.Kind{hafvf.Outlier, hafvf.Change}
		alerted := 0
		for _, e := range fed(t, cfg, 1100, 5*time.Minute, func(i int) float64 { return []float64{c.start, c.end}[i/1000] }) {
			for _, a := range []*Alert{e.Alarm, e.Belief} {
				if a == nil {
					continue
				}
				alerted++
				if limit := 1.01 * (c.end - c.start) / (c.unit / math.Sqrt(12)); math.Abs(a.Size) > limit || regexp.MustCompile(`e-\d`).MatchString(a.Message) {
					t.Errorf("from %g to %g: size %g, want at most %g; %s", c.start, c.end, a.Size, limit, a.Message)
				}
			}
		}
		if alerted == 0 {
			t.Errorf("from %g to %g: no alert", c.start, c.end)
		}
	}
}

// A shift plan is known in the third week. The message of a deviation names the hour of the plan.
func TestSentencePlan(t *testing.T) {
	cfg := Recommended("normal")
	cfg.Alarms.Zone = "Europe/Berlin"
	berlin := must(time.LoadLocation(cfg.Alarms.Zone))
	rng := rand.New(rand.NewPCG(2, 3))
	est := newEstimator(t, cfg)
	machine := est.NewTrack("M01")
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, berlin)
	alarms, text := 0, ""
	for now := start; now.Before(start.AddDate(0, 0, 8*7)); now = now.Add(time.Hour) {
		d, h := now.Weekday(), now.Hour()
		x := 3 + .1*rng.NormFloat64()
		extra := d == time.Saturday && h == 14 && now.After(start.AddDate(0, 0, 7*7))
		if d >= 1 && d <= 5 && h >= 6 && h < 22 || d == 6 && h >= 6 && h < 14 || extra {
			x = 40 + 2*rng.NormFloat64()
		}
		e := est.Estimate(machine, Value(now, "", x))
		switch {
		case e.Alarm == nil:
		case extra:
			text = e.Alarm.Message
		case now.After(start.AddDate(0, 0, 4*7)):
			alarms++
		}
	}
	if !regexp.MustCompile(`^M01 is [34]\d \([\d.]+ sd\) above usual at 2026-02-28 14:00: [34]\d, usual on Saturdays at 14:00 [-\d.]+ ± `).MatchString(text) || alarms > 2 {
		t.Errorf("the overtime is reported as %q, and the plan %d times", text, alarms)
	}
}

// A novelty starts with the first unusual value of its run, and message and record agree. Values before that are
// unusual by chance, or only a little, are not part of the run.
func TestNoveltyStart(t *testing.T) {
	const n, first = 2600, 2500
	for _, c := range []struct {
		name       string
		values     []float64 // from first on, in sd from usual; then the last value repeats
		startIndex int
		when       string
	}{
		{"noise before an outage", []float64{1.5, 1.6, 1.4, 1.7, 12}, 4, "at 2026-01-09 16:40: "},
		{"chance before an outage", []float64{1.5, 2.6, 1.2, 12}, 3, "at 2026-01-09 16:35: "},
		{"a shift", []float64{3.5, 3.4}, 0, "since 2026-01-09 16:20 (5 min): "},
		{"noise before a shift", []float64{1.3, 1.5, 1.2, 2.4, 3.6}, 3, "since 2026-01-09 16:35 (5 min): "},
		{"chance and noise before a shift", []float64{-2.4, -1.4, -1.3, -2.4, -3.8}, 3, "since 2026-01-09 16:35 (5 min): "},
		{"a ramp", []float64{1.2, 1.8, 2.4, 3, 3.6, 4.2, 4.8}, 2, "since 2026-01-09 16:30 ("},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for i, e := range watched(t, Recommended("normal"), n, first, 5*time.Minute, func(i int, _ float64) float64 {
				return 19.9 + 1.02*c.values[min(i, len(c.values)-1)]
			})[first:] {
				a := e.Alarm
				if a == nil {
					continue
				}
				if wantStart := start.Add(time.Duration(first+c.startIndex) * 5 * time.Minute); !a.Start.Equal(wantStart) || a.Delay != int64(i-c.startIndex) || !strings.Contains(a.Message, " "+c.when) {
					t.Errorf("alarm %d, start %v, delay %d, want %v: %s", i, a.Start, a.Delay, wantStart, a.Message)
				}
				return
			}
			t.Error("no alarm")
		})
	}
}

// Messages have percentages and factors only if no value of the key was below zero, and the value is no temperature.
func TestSentenceRatios(t *testing.T) {
	for _, c := range []struct {
		key, metric, unit string
		first             float64 // first value
		ratios            bool
	}{
		{"k", "", "", 20, true}, {"k", "", "", -1, false}, {"k", "load", "MW", 20, true}, {"k", "load", "°C", 20, false}, {"k", "load", "K", 20, false}, {"k", "load", "kW", 20, true},
		{`room_celsius{room="1"}`, "", "", 20, false}, {"sensor.freezer_temperature", "", "", 20, false}, {"k", "data.temp", "", 20, false}, {"temporary_files", "", "", 20, true}, {"template", "", "", 20, true},
	} {
		cfg := Recommended("normal")
		cfg.Metric, cfg.Unit = c.metric, c.unit
		est := newEstimator(t, cfg)
		track := est.NewTrack(c.key)
		rng := rand.New(rand.NewPCG(2, 3))
		for i := range 1500 {
			x := 20 + rng.NormFloat64()
			switch i {
			case 0:
				x = c.first
			case 1400:
				x = 26
			}
			e := est.Estimate(track, Value(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i)*5*time.Minute), "", x))
			if i != 1400 {
				continue
			}
			if want := map[bool]string{true: `is 3\d % above usual`, false: `is 6(\.\d)?.* \([56](\.\d)? sd\) above usual`}[c.ratios]; e.Alarm == nil || !regexp.MustCompile(want).MatchString(e.Alarm.Message) {
				t.Errorf("%+v: %+v, want %s", c, e.Alarm, want)
			}
		}
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
