package keyed

import (
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// silences returns the silences of a key with observations at the given times.
func silences(t *testing.T, cfg Config, times []time.Time) (found []Silence) {
	t.Helper()
	cfg.Filter = hafvf.Config{Family: "normal"}
	est := newEstimator(t, cfg)
	track := est.NewTrack("k")
	for i, now := range times {
		if i%7 == 3 { // decode the state regularly
			track = restored(t, est, must(track.AppendBinary(nil)))
		}
		if s := est.Estimate(track, Value(now, "", 0)).Silence; s != nil {
			found = append(found, *s)
		}
	}
	return found
}

// regular returns n times a minute apart, without those for which drop is true.
func regular(n int, drop func(i int) bool) (times []time.Time) {
	for i := range n {
		if drop == nil || !drop(i) {
			times = append(times, time.Unix(int64(60*i), 0).UTC())
		}
	}
	return times
}

func TestSilence(t *testing.T) {
	const day = 24 * 60
	away := func(i int) bool { return i > 5*day && i < 5*day+30 }
	own := Config{Silence: &SilenceConfig{}}
	fixed := Config{Silence: &SilenceConfig{After: 10 * time.Minute}}
	short := Config{Silence: &SilenceConfig{After: 90 * time.Second}}
	night := func(i int) bool { return i%day > 600 && i%day < 1200 }
	for name, c := range map[string]struct {
		cfg   Config
		times []time.Time
		want  int
	}{
		"regular":                 {own, regular(6*day, nil), 0},
		"a gap of 30 minutes":     {own, regular(6*day, away), 1},
		"the same, fixed":         {fixed, regular(6*day, away), 1},
		"few gaps so far":         {own, regular(12, func(i int) bool { return i > 6 && i < 11 }), 0},
		"a first night":           {own, regular(2*day, func(i int) bool { return i < day && night(i) }), 1},
		"every night":             {own, regular(14*day, night), 1},
		"single ones missing":     {own, regular(6*day, func(i int) bool { return i%10 == 5 }), 0},
		"the same, fixed at 90 s": {short, regular(100, func(i int) bool { return i%10 == 5 }), 10},
		"nobody asks":             {Config{}, regular(1000, nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := silences(t, c.cfg, c.times)
			if len(got) != c.want {
				t.Fatalf("%d silences, want %d: %v", len(got), c.want, got)
			}
			start := 5 * day
			if strings.HasSuffix(name, "night") {
				start = 600
			}
			if c.want == 1 && (!got[0].Since.Equal(time.Unix(60*int64(start), 0)) || got[0].Bound < 5*time.Minute || got[0].Bound > 16*time.Minute) {
				t.Errorf("%+v", got[0])
			}
			for _, s := range got { // a bound from a rhythm has fractions of a millisecond
				a := s.silentEvent("k", 1, 1)
				if late := a.Time.Sub(s.Since.Add(s.Bound)); late < 0 || late >= time.Millisecond || a.Time.Nanosecond()%1e6 != 0 || a.ID != "k/"+a.Time.Format(time.RFC3339Nano) {
					t.Errorf("the alert %s of %v has the time %v", a.ID, s, a.Time)
				}
			}
		})
	}
}

// A silence costs alarm budget. If the budget is used up, neither the silence nor its end is reported.
func TestSilenceBudget(t *testing.T) {
	detect := hafvf.DefaultDetect()
	cfg := Config{Filter: hafvf.Config{Family: "normal", Bank: hafvf.DefaultBank(), Detect: &detect}, Silence: &SilenceConfig{After: time.Minute}}
	est := newEstimator(t, cfg)
	e := open(t, est, nil)
	now := time.Unix(0, 0).UTC()
	reported, ended := 0, 0
	for i := range 200 {
		o := Value(now, "", float64(i%7))
		var out Estimate
		learnNow(&e, &out, &o)
		if out.Silence != nil {
			ended++
		}
		now = now.Add(time.Second)
		if i >= 100 {
			if s, silent := e.ReportSilence(now.Add(time.Minute)); silent {
				reported++
				if !s.Since.Equal(o.Time) {
					t.Errorf("%+v", s)
				}
			}
			e = open(t, est, must(e.AppendBinary(nil)))
			if deadline := e.Deadline(); !deadline.IsZero() {
				t.Fatalf("a silent key has another deadline, %v", deadline)
			}
			now = now.Add(2 * time.Minute)
		}
	}
	if reported != 9 || ended != 9 {
		t.Errorf("%d silences reported and %d ended, want 9 each: 8 in debt, and one more", reported, ended)
	}
}

// Messages have times in the zone of the silence, and the mean gap at the hour of its start.
func TestSilenceMessage(t *testing.T) {
	start := time.Date(2026, 1, 5, 13, 5, 0, 0, time.UTC)
	s := Silence{Since: start, Bound: 15 * time.Minute, Usual: 61 * time.Second, Zone: "Europe/Berlin"}
	daily := SilenceEvent{Silence: Silence{Since: start, Bound: 24*time.Hour + 25*time.Minute, Zone: s.Zone, Daily: true}}
	e := Estimate{Time: start.Add(3*time.Hour + 20*time.Minute), Silence: &s}
	want := []string{
		"S04 silent since 2026-01-05 14:05 (15 min): usually a value every 61 s at this hour.",
		"S04 back at 2026-01-05 17:25, after 3 h 20 min of silence.",
		"S04 silent since 2026-01-05 14:05 (24 h 25 min): it usually comes by 14:30.",
	}
	for i, alert := range append(e.Alerts("S04"), daily.Alerts("S04")...) {
		expect.Same(t, want[i], alert.Message)
	}
}

// A key that reports from 05:00 to 05:20 every day is silent at 05:43 of a day without reports, and recovers with
// its next report.
func TestSilenceDaily(t *testing.T) {
	est := newEstimator(t, Config{Filter: hafvf.Config{Family: "normal"}, Silence: &SilenceConfig{}})
	e := open(t, est, nil)
	start := time.Date(2026, 1, 5, 5, 0, 0, 0, time.UTC)
	for i := range 21 * 20 {
		o := Value(start.AddDate(0, 0, i/20).Add(time.Duration(i%20)*time.Minute), "", 1)
		var out Estimate
		if learnNow(&e, &out, &o); out.Silence != nil {
			t.Fatalf("%+v", out.Silence)
		}
	}
	due := e.Deadline()
	if want := start.AddDate(0, 0, 21).Add(43 * time.Minute); !due.Equal(want) {
		t.Fatalf("it is due at %v, want %v", due, want)
	}
	s, silent := e.ReportSilence(due)
	e = open(t, est, must(e.AppendBinary(nil)))
	o := Value(start.AddDate(0, 0, 22), "", 1)
	var out Estimate
	if learnNow(&e, &out, &o); !silent || out.Silence == nil || !out.Silence.Daily {
		t.Fatalf("silent is %v, and the ended silence %+v", silent, out.Silence)
	}
	out.Silence.Reported = false
	want := []string{
		"k silent since 2026-01-25 05:19 (24 h 24 min): it usually comes by 05:43.",
		"k back at 2026-01-27 05:00, after 47 h 41 min of silence.",
	}
	expect.Same(t, want[0], s.Alerts("k")[0].Message)
	for i, event := range out.Alerts("k") {
		expect.Same(t, want[i], event.Message)
	}
}
