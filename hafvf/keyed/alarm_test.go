package keyed

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
)

// shifting are n standard normal values, one every five minutes, which are 8 higher
// in 20 of every 200.
func shifting(n int) []Observation {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([]Observation, n)
	for i := range all {
		x := rng.NormFloat64()
		if i%200 >= 180 {
			x += 8
		}
		all[i] = Value(time.Unix(int64(300*i), 0).UTC(), fmt.Sprint(i), x)
	}
	return all
}

var alarming = Config{Filter: hafvf.Config{Family: "normal", Bank: hafvf.DefaultBankOf("normal"), Detect: &hafvf.Detect{}, WarmUp: 50}}

// alarmsOf returns the positions of the alarms and of those that are muted, and what debt adds to
// the last threshold.
func alarmsOf(t *testing.T, cfg Config, in []Observation) (at, muted []int64, debt float64) {
	t.Helper()
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	settings := DefaultAlarms()
	if cfg.Alarms != nil {
		settings = *cfg.Alarms
	}
	var times []time.Time
	for _, o := range in[:50] {
		times = append(times, o.Time)
	}
	calm := usual.NewAlarm(settings.PaceOf(usual.MedianStep(times)))
	state := calm.NewState()
	for i, o := range in {
		e := est.Estimate(track, o)
		// A row of ar with a missing last value counts as missing, and has a score.
		vectors := len(complete(o.X))
		absent := vectors == 0
		// One category has no score, several have that of their shares.
		category := vectors == 1 && (cfg.Filter.Family == "bernoulli" || cfg.Filter.Family == "categorical")
		if d := e.Detection; math.IsNaN(d.Score) != (i < 50 || absent || category) || math.IsNaN(d.Threshold) != (i < 50 || absent) {
			t.Fatalf("observation %d: score %g, threshold %g", i, d.Score, d.Threshold)
		} else if !absent {
			debt = d.Threshold
			if i >= 50 {
				debt -= calm.Update(state, 0, false, nil).Threshold
			}
		}
		if e.Alarm != nil {
			at = append(at, e.N)
		}
		if e.Detection.Muted {
			muted = append(muted, e.N)
		}
	}
	return at, muted, debt
}

// What AlertConfig does not permit raises no alarm, is none that is muted, and costs no budget.
func TestAlarmsThatAreNotPermitted(t *testing.T) {
	in := shifting(2000)
	plain := alarming
	plain.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget = 100 })
	all, _, debt := alarmsOf(t, plain, in)
	if len(all) < 5 || debt <= 0 {
		t.Fatalf("%d alarms, debt %g", len(all), debt)
	}
	rare := plain
	rare.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget = 300 })
	if few, muted, _ := alarmsOf(t, rare, in); len(few) == 0 || len(few) >= len(all) || len(muted) == 0 || muted[0] < few[0] {
		t.Errorf("at a larger budget alarms at %v, muted ones at %v", few, muted)
	}
	for name, c := range map[string]AlertConfig{
		"change":    {MinChange: 50},
		"abs":       {MinAbs: 50},
		"rel":       {MinRel: 1e9},
		"both":      {MinAbs: 50, Direction: Up},
		"direction": {MinAbs: 5, Direction: Down},
	} {
		cfg := plain
		cfg.Alerts = c
		at, muted, debt := alarmsOf(t, cfg, in)
		// The way back from the shift is down, and no novelty.
		if name == "direction" && len(at) < len(all) {
			continue
		}
		if len(at)+len(muted) != 0 || debt != 0 {
			t.Errorf("%s: alarms %v, muted %v, debt %g", name, at, muted, debt)
		}
	}
	cfg := plain
	cfg.Alerts = AlertConfig{Direction: Up, MinAbs: 5}
	if up, _, _ := alarmsOf(t, cfg, in); len(up) < 5 {
		t.Errorf("alarms up %v, of %v", up, all)
	}
	cfg.Alerts = AlertConfig{Cooldown: 24 * time.Hour}
	at, _, _ := alarmsOf(t, cfg, in)
	for i := range at[1:] {
		if at[i+1]-at[i] < 288 {
			t.Errorf("alarms %v within the cooldown of 288 observations", at)
		}
	}
	if len(at) < 2 || len(at) >= len(all) {
		t.Errorf("alarms %v, without a cooldown %v", at, all)
	}
}

// Whatever the families, missing values and times, scores begin after the warm-up: of
// categories where a step has several.
func TestScoresOfFamilies(t *testing.T) {
	for family, c := range map[string]struct {
		prior expfam.Params
		dim   int
	}{
		"bernoulli": {nil, 1}, "categorical": {expfam.Params{"alpha": []any{1., 1., 1.}}, 3}, "exponential": {nil, 1}, "poisson": {nil, 1},
		"normal": {nil, 1}, "mvnormal": {nil, 3}, "regression": {nil, 3}, "ar": {expfam.Params{"order": 2.}, 1},
	} {
		for _, timed := range []bool{true, false} {
			rng := rand.New(rand.NewPCG(5, 6))
			var in []Observation
			for i := range 150 {
				o := Observation{X: [][]float64{drawn[family](rng, c.dim)}}
				if i > 60 && i%7 == 0 {
					o.X[0][0] = nan
				}
				if i%5 == 0 && family != "ar" {
					o.X = append(o.X, drawn[family](rng, c.dim))
				}
				if timed {
					o.Time = time.Unix(int64(i*3600), 0).UTC()
				}
				in = append(in, o)
			}
			filter := hafvf.Config{Family: family, Prior: c.prior, Bank: hafvf.DefaultBankOf(family), Detect: &hafvf.Detect{}}
			if family != "categorical" {
				filter.Dim = c.dim
			}
			t.Run(fmt.Sprint(family, ", times ", timed), func(t *testing.T) {
				at, _, debt := alarmsOf(t, Config{Filter: filter, Order: Arrival}, in)
				if (len(at) > 0) != (debt > 1e-12) || debt < 0 {
					t.Errorf("alarms %v, debt %g", at, debt)
				}
			})
		}
	}
}

// A state goes on under other settings of the alarms: with another budget and rest as
// it is, and with another season with a profile that begins anew, under the debt that
// there was.
func TestAlarmSettingsChange(t *testing.T) {
	in := shifting(1000)
	before := alarming
	before.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget = 100 })
	est := newEstimator(t, before)
	track := est.NewTrack("k")
	split := 0 // in the rest after an alarm
	for alarm := false; split < 400 || !alarm; split++ {
		alarm = est.Estimate(track, in[split]).Alarm != nil
	}
	saved, _ := track.AppendBinary(nil)
	resume := func(cfg Config) (estimates []Estimate, track *Track) {
		t.Helper()
		est := newEstimator(t, cfg)
		track = restored(t, est, saved)
		for _, o := range in[split:] {
			estimates = append(estimates, est.Estimate(track, o))
		}
		return estimates, track
	}
	same, _ := resume(before)

	other := before
	other.Alarms = &AlarmConfig{Budget: 400, Rest: 2, Zone: "UTC", Seasons: usual.DefaultSeasons(), Order: 3}
	other.Alerts = AlertConfig{MinChange: 1, Direction: Up}
	got, _ := resume(other)
	if got[0].Detection.Score != same[0].Detection.Score || math.Abs(got[0].Detection.Threshold-same[0].Detection.Threshold-math.Log10(4)) > .01 {
		t.Errorf("another budget: %+v, as it was %+v", got[0].Detection, same[0].Detection)
	}

	other = before
	other.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget, c.Zone = 100, "Europe/Berlin" })
	got, zoned := resume(other)
	for i, e := range got {
		if math.IsNaN(e.Detection.Score) != (i < 50) {
			t.Fatalf("another zone: observation %d after it has score %g", i, e.Detection.Score)
		}
		if e.LogPredictive != same[i].LogPredictive {
			t.Fatalf("another zone: observation %d is predicted otherwise", i)
		}
	}
	if debt := got[50].Detection.Threshold - 2; debt <= 0 {
		t.Errorf("another zone: debt %g", debt)
	}
	if zoned.decisions.warmUp != nil {
		t.Error("the warm-up is kept")
	}
	other.Alarms = alarmsWith(func(c *AlarmConfig) { c.Zone = "Nowhere" })
	if _, err := NewEstimator(other); err == nil {
		t.Error("an unknown zone is accepted")
	}
}

// A state of which anything of the alarms is not as it can be is refused.
func TestRestoreRefusesDecisions(t *testing.T) {
	est := newEstimator(t, alarming)
	track := est.NewTrack("k")
	for _, o := range shifting(60) {
		est.Estimate(track, o)
	}
	whole := track.decisions
	for name, spoil := range map[string]func(d *decisions){
		"step":     func(d *decisions) { d.step = -1 },
		"scale":    func(d *decisions) { d.standard = []float64{0, 0} },
		"outputs":  func(d *decisions) { d.standard = []float64{0, 1, 0, 1} },
		"profile":  func(d *decisions) { d.profile = slices.Clone(d.profile); d.profile[0] = -1 },
		"no alarm": func(d *decisions) { d.alarm = nil },
		"alarm":    func(d *decisions) { d.alarm = slices.Clone(d.alarm); d.alarm[1] = -1 },
		"warm-up":  func(d *decisions) { *d = decisions{warmUp: []timedValues{{y: []float64{nan}}}} },
		"both":     func(d *decisions) { d.warmUp = []timedValues{{y: []float64{1}}} },
		"too many": func(d *decisions) { *d = decisions{warmUp: slices.Repeat([]timedValues{{y: []float64{1}}}, 50)} },
	} {
		track.decisions = whole
		spoil(&track.decisions)
		b, _ := track.AppendBinary(nil)
		if _, err := est.RestoreTrack("k", b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A rest is in observations, or a time at the key's step, or what suits the key.
func TestPaceOf(t *testing.T) {
	for _, c := range []struct {
		cfg    AlarmConfig
		step   time.Duration
		budget float64
		rest   int
	}{
		{DefaultAlarms(), time.Minute, 10080, 60},
		{DefaultAlarms(), time.Hour, 168, 7},
		{DefaultAlarms(), 24 * time.Hour, 10, 6},
		{DefaultAlarms(), 0, 2000, 60},
		{AlarmConfig{Budget: 240, Rest: usual.AutoRest}, 0, 240, 10},
		{AlarmConfig{Budget: 500, Rest: 0}, time.Hour, 500, 0},
		{AlarmConfig{BudgetTime: 24 * time.Hour, Rest: 90}, time.Hour, 24, 90},
		{AlarmConfig{BudgetTime: 24 * time.Hour, RestTime: 7 * time.Hour}, time.Minute, 1440, 420},
		{AlarmConfig{BudgetTime: 24 * time.Hour, RestTime: 7 * time.Hour}, 24 * time.Hour, 10, 0},
		{AlarmConfig{Budget: 240, RestTime: 7 * time.Hour}, 0, 240, 10},
	} {
		if p := c.cfg.PaceOf(c.step); p.Budget() != c.budget || p.Rest() != c.rest {
			t.Errorf("%+v at %v: budget %g, rest %d; want %g, %d", c.cfg, c.step, p.Budget(), p.Rest(), c.budget, c.rest)
		}
	}
}

// alarmsWith are the default settings of alarms, but for a change.
func alarmsWith(change func(*AlarmConfig)) *AlarmConfig {
	c := DefaultAlarms()
	change(&c)
	return &c
}

// An estimator with the lanes of the reference as its bank gives the scores of its
// trace, and its alarms.
func TestEstimatorOnGoldenTrace(t *testing.T) {
	text, err := os.ReadFile("../usual/testdata/real/golden2_season.json")
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		X, T                    []float64
		Location, Scale, Period float64
		Rows                    []struct {
			I         int
			Score     float64
			Threshold *float64
			Alarm     string
		}
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		t.Fatal(err)
	}
	est := newEstimator(t, Config{Filter: hafvf.Config{
		Family: "normal", Prior: expfam.Params{"mu": trace.Location, "kappa": .01, "alpha": 1., "beta": trace.Scale * trace.Scale},
		Bank:   []hafvf.Member{{Levels: []hafvf.Beta{}, Top: .985}, {Levels: []hafvf.Beta{}, Top: .9998, AR: 1}, {Levels: []hafvf.Beta{}, Top: .9998}},
		Detect: &hafvf.Detect{},
	}})
	track := est.NewTrack("k")
	rows, alarms := trace.Rows, 0
	for i, x := range trace.X {
		e := est.Estimate(track, Value(time.Unix(0, int64(trace.T[i]*1e9)).UTC(), "", x))
		got, want := "", ""
		if e.Alarm != nil {
			got = e.Alarm.Kind
			alarms++
		}
		known := len(rows) > 0 && rows[0].I == i
		if known {
			want = rows[0].Alarm
		}
		if got != want {
			t.Errorf("observation %d: alarm %q, want %q", i, got, want)
		}
		if !known {
			continue
		}
		d, row := e.Detection, rows[0]
		rows = rows[1:]
		if i < 50 {
			continue
		}
		if !(math.Abs(d.Score-row.Score) <= 1e-8) {
			t.Errorf("observation %d: score %v, want %v", i, d.Score, row.Score)
		}
		if !(math.Abs(d.Threshold-*row.Threshold) <= 1e-8) {
			t.Errorf("observation %d: threshold %v, want %v", i, d.Threshold, *row.Threshold)
		}
	}
	if alarms != 2 || len(rows) > 0 {
		t.Errorf("%d alarms, %d rows left", alarms, len(rows))
	}
}
