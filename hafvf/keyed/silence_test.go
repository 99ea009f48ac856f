package keyed

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hafvf/hafvf"
)

// silences are the silences of a key that speaks at the times.
func silences(t *testing.T, cfg Config, times []time.Time) (all []Silence) {
	t.Helper()
	cfg.Filter = hafvf.Config{Family: "normal"}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	for i, at := range times {
		if i%7 == 3 { // a state goes on with the rhythm
			b, err := track.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if track, err = est.RestoreTrack("k", b); err != nil {
				t.Fatal(err)
			}
		}
		if s := est.Estimate(track, Value(at, "", 0)).Silence; s != nil {
			all = append(all, *s)
		}
	}
	return all
}

// regular are n times a minute apart, with those left out that drop names.
func regular(n int, drop func(i int) bool) (times []time.Time) {
	for i := range n {
		if drop == nil || !drop(i) {
			times = append(times, time.Unix(int64(60*i), 0).UTC())
		}
	}
	return times
}

func TestSilence(t *testing.T) {
	away := func(i int) bool { return i > 100 && i < 130 }
	own := Config{Silence: &SilenceConfig{}}
	fixed := Config{Silence: &SilenceConfig{After: 10 * time.Minute}}
	short := Config{Silence: &SilenceConfig{After: 90 * time.Second}}
	since := time.Unix(100*60, 0).UTC()
	for name, c := range map[string]struct {
		cfg   Config
		times []time.Time
		want  int
	}{
		"regular":                 {own, regular(1000, nil), 0},
		"a gap of 30 minutes":     {own, regular(1000, away), 1},
		"the same, fixed":         {fixed, regular(1000, away), 1},
		"few gaps so far":         {own, regular(12, func(i int) bool { return i > 6 && i < 11 }), 0},
		"single ones missing":     {own, regular(1000, func(i int) bool { return i%10 == 5 }), 0},
		"the same, fixed at 90 s": {short, regular(100, func(i int) bool { return i%10 == 5 }), 10},
		"nobody asks":             {Config{}, regular(1000, away), 0},
	} {
		got := silences(t, c.cfg, c.times)
		if len(got) != c.want {
			t.Errorf("%s: %d silences, want %d: %v", name, len(got), c.want, got)
		}
		if c.want == 1 && (!got[0].Since.Equal(since) || got[0].Bound < 5*time.Minute || got[0].Bound > 15*time.Minute) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
}

// Calm gaps pass their bound about once per budget, and a key that has become slower is
// silent a few times, not for ever.
func TestSilenceKeepsToTheBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	now, times := 0., []time.Time(nil)
	const n = 200_000
	for range n {
		now += 60 * rng.ExpFloat64()
		times = append(times, time.Unix(0, int64(now*1e9)))
	}
	var p pulse
	got := 0
	for _, at := range times {
		if p.speak(SilenceConfig{}, AlarmConfig{Budget: 2000}, at) != nil {
			got++
		}
	}
	if want := n / 2000; math.Abs(float64(got-want)) > 4*math.Sqrt(float64(want)) {
		t.Errorf("%d silences of exponential gaps, want about %d", got, want)
	}
	slower := regular(500, nil)
	last := slower[len(slower)-1]
	for i := range 2000 {
		slower = append(slower, last.Add(time.Duration(i+1)*20*time.Minute))
	}
	if got := len(silences(t, Config{Silence: &SilenceConfig{}, Alarms: &AlarmConfig{Budget: 2000}}, slower)); got == 0 || got > 30 {
		t.Errorf("%d silences of a key that speaks every 20 minutes in place of every minute", got)
	}
}

// A silence that was told survives in the state, and the end alone is told of it.
func TestToldSilenceSurvives(t *testing.T) {
	cfg := Config{Filter: hafvf.Config{Family: "normal"}, Silence: &SilenceConfig{After: time.Minute}}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	last := time.Unix(100, 0).UTC()
	est.Estimate(track, Value(last, "", 1))
	want := track.pulse.tell(*cfg.Silence, DefaultAlarms())
	b, err := track.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if track, err = est.RestoreTrack("k", b); err != nil {
		t.Fatal(err)
	}
	if at := track.pulse.deadline(*cfg.Silence, DefaultAlarms(), last); !at.IsZero() {
		t.Errorf("a key that is silent falls silent again at %v", at)
	}
	// It spoke before its bound had passed, which came too late to be known.
	e := est.Estimate(track, Value(last.Add(30*time.Second), "i", 1))
	if e.Silence == nil || *e.Silence != want || !want.Told || !want.Since.Equal(last) || want.Bound != time.Minute {
		t.Errorf("%+v, want %+v", e.Silence, want)
	}
	if told := e.Silence.Alerts("k", &e); len(told) != 1 || told[0].Kind != RecoveredAlarm || told[0].Of.ID != "i" {
		t.Errorf("%+v", told)
	}
	if e := est.Estimate(track, Value(last.Add(40*time.Second), "", 1)); e.Silence != nil {
		t.Errorf("%+v", e.Silence)
	}
}
