package keyed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
)

// shifting returns n standard normal values, one every five minutes. The last 20 of every 200 are 8 higher.
func shifting(n int) []Observation {
	rng := rand.New(rand.NewPCG(3, 4))
	observations := make([]Observation, n)
	for i := range observations {
		x := rng.NormFloat64()
		if i%200 >= 180 {
			x += 8
		}
		observations[i] = Value(time.Unix(int64(300*i), 0).UTC(), fmt.Sprint(i), x)
	}
	return observations
}

var alarming = Config{Filter: hafvf.Config{Family: "normal", Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}, WarmUp: 50}}

// alarmsOf returns the positions of the alarms and of the muted alarms, and the part of the last threshold that is due
// to debt.
func alarmsOf(t *testing.T, cfg Config, in []Observation) (alarms, muted []int64, debt float64) {
	t.Helper()
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	calm := usual.NewAlarm(cfg.Alarms.PaceOf(5 * time.Minute))
	state := calm.NewState()
	for i, o := range in {
		e := est.Estimate(track, o)
		if d := e.Detection; math.IsNaN(d.Score) != (i < 50) || math.IsNaN(d.Threshold) != (i < 50) {
			t.Fatalf("observation %d: score %g, threshold %g", i, d.Score, d.Threshold)
		} else if i >= 50 {
			debt = d.Threshold - calm.Update(state, 0, usual.Context{}, nil).Threshold
		}
		if e.Alarm != nil {
			alarms = append(alarms, e.N)
		}
		if e.Detection.Muted {
			muted = append(muted, e.N)
		}
	}
	return alarms, muted, debt
}

// An alarm that AlertConfig does not permit is neither raised nor muted, and costs no budget.
func TestAlarmsThatAreNotPermitted(t *testing.T) {
	in := shifting(2000)
	plain := alarming
	plain.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget = 100 })
	alarms, _, debt := alarmsOf(t, plain, in)
	if len(alarms) < 5 || debt <= 0 {
		t.Fatalf("%d alarms, debt %g", len(alarms), debt)
	}
	rare := plain
	rare.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget = 300 })
	if few, muted, _ := alarmsOf(t, rare, in); len(few) == 0 || len(few) >= len(alarms) || len(muted) == 0 || muted[0] < few[0] {
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
		permitted, muted, debt := alarmsOf(t, cfg, in)
		// The return from the shift is downwards and is not a novelty.
		if name == "direction" && len(permitted) < len(alarms) {
			continue
		}
		if len(permitted)+len(muted) != 0 || debt != 0 {
			t.Errorf("%s: alarms %v, muted %v, debt %g", name, permitted, muted, debt)
		}
	}
	cfg := plain
	cfg.Alerts = AlertConfig{Direction: Up, MinAbs: 5}
	if up, _, _ := alarmsOf(t, cfg, in); len(up) < 5 {
		t.Errorf("alarms up %v, of %v", up, alarms)
	}
	cfg.Alerts = AlertConfig{Cooldown: 24 * time.Hour}
	permitted, _, _ := alarmsOf(t, cfg, in)
	for i := range permitted[1:] {
		if permitted[i+1]-permitted[i] < 288 {
			t.Errorf("alarms %v within the cooldown of 288 observations", permitted)
		}
	}
	if len(permitted) < 2 || len(permitted) >= len(alarms) {
		t.Errorf("alarms %v, without a cooldown %v", permitted, alarms)
	}
}

// A state can be used under other alarm settings. With another budget and rest it does not change. With other seasons
// the profile is reset and the debt remains.
func TestAlarmSettingsChange(t *testing.T) {
	in := shifting(1000)
	before := alarming
	before.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget = 100 })
	est := newEstimator(t, before)
	track := est.NewTrack("k")
	split := 0 // right after an alarm
	for alarm := false; split < 200 || !alarm; split++ {
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
	other.Alarms = &AlarmConfig{Budget: 400, Rest: 2, Settling: usual.DefaultSettling, Zone: "UTC", Seasons: usual.DefaultSeasons(), Order: 3}
	other.Alerts = AlertConfig{MinChange: 1, Direction: Up}
	got, _ := resume(other)
	if got[0].Detection.Score != same[0].Detection.Score || math.Abs(got[0].Detection.Threshold-same[0].Detection.Threshold-math.Log10(4)) > .01 {
		t.Errorf("another budget: %+v, with the same budget %+v", got[0].Detection, same[0].Detection)
	}

	other = before
	other.Alarms = alarmsWith(func(c *AlarmConfig) { c.Budget, c.Zone = 100, "Europe/Berlin" })
	got, zoned := resume(other)
	for i, e := range got {
		if math.IsNaN(e.Detection.Score) != (i < 50) {
			t.Fatalf("another zone: observation %d after it has score %g", i, e.Detection.Score)
		}
		if e.LogPredictive != same[i].LogPredictive {
			t.Fatalf("another zone: observation %d has another prediction", i)
		}
	}
	if debt := got[50].Detection.Threshold - 2; debt <= 0 {
		t.Errorf("another zone: debt %g", debt)
	}
	if zoned.decisions.warmUp != nil {
		t.Error("the warm-up is not dropped")
	}
	other.Alarms = alarmsWith(func(c *AlarmConfig) { c.Zone = "Nowhere" })
	if _, err := NewEstimator(other); err == nil {
		t.Error("an unknown zone is accepted")
	}
}

// A state with invalid alarm state is rejected.
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

// A rest is given in observations, as a time at the key's step, or automatic.
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

// alarmsWith returns the default alarm settings after change.
func alarmsWith(change func(*AlarmConfig)) *AlarmConfig {
	c := DefaultAlarms()
	change(&c)
	return &c
}

// unitOf finds the unit of values of any size.
func TestUnitOf(t *testing.T) {
	for _, exponent := range []int{0, -1, -9, -15, -300} {
		size := math.Pow10(exponent)
		for _, c := range []struct {
			x    []float64
			unit float64
		}{
			{[]float64{1, 2, 7}, 1}, {[]float64{1.5, 2, 7.25}, .01}, {[]float64{math.Pi, math.E, 7}, 0}, {[]float64{1.000001, 2}, 1e-6},
		} {
			var x []float64
			for _, v := range c.x {
				x = append(x, v*size)
			}
			if got := unitOf(x); math.Abs(got-c.unit*size) > 1e-6*size {
				t.Errorf("%v: %g, want %g", x, got, c.unit*size)
			}
		}
	}
	for _, c := range []struct {
		x    []float64
		unit float64
	}{{[]float64{0, 0}, 1}, {[]float64{1e9, .3}, .1}, {[]float64{1e9, 1}, 1}, {[]float64{1e15, 2e15}, 1}} {
		if got := unitOf(c.x); got != c.unit {
			t.Errorf("%v: %g, want %g", c.x, got, c.unit)
		}
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
