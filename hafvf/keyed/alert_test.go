package keyed

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// A revision names the alert that it replaces, and the next revision replaces it. A revision that replaces an alert is
// always reported. Without an earlier alert, a revision is reported as a change.
func TestBeliefsAndTheirRevisions(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := regime{Moments{[]float64{0}, []float64{1}}, []float64{0}, []float64{2}}
	kinds := []hafvf.Kind{hafvf.Outlier, hafvf.Change, hafvf.Revision}
	type step struct {
		minute   int
		kind     hafvf.Kind
		mean     float64
		alarmed  bool
		corrects string
	}
	for name, c := range map[string]struct {
		cfg   AlertConfig
		steps []step
	}{
		"defaults": {AlertConfig{Beliefs: kinds}, []step{
			{0, hafvf.None, 0, false, ""}, {1, hafvf.Outlier, 0, true, ""}, {2, hafvf.Outlier, 0, true, ""},
			{3, hafvf.Change, 5, true, ""}, {4, hafvf.Revision, 7, true, "3"}, {5, hafvf.Revision, 7, true, "4"}, {6, hafvf.Change, 5, true, ""},
		}},
		"cooldown": {AlertConfig{Beliefs: kinds, Cooldown: 10 * time.Minute}, []step{
			{0, hafvf.Outlier, 0, true, ""}, {9, hafvf.Outlier, 0, false, ""}, {10, hafvf.Outlier, 0, true, ""},
			{11, hafvf.Change, 5, true, ""}, {12, hafvf.Revision, 5, true, "11"}, {15, hafvf.Change, 5, false, ""}, {16, hafvf.Revision, 5, false, ""}, {22, hafvf.Change, 5, true, ""},
		}},
		// MinChange is in standard deviations of the prediction, which are 2 here.
		"size": {AlertConfig{Beliefs: kinds, MinChange: 3}, []step{
			{0, hafvf.Change, 5.9, false, ""}, {1, hafvf.Revision, 6.1, true, ""}, {2, hafvf.Revision, 1, true, "1"}, {3, hafvf.Change, -6.1, true, ""},
		}},
		"no outliers": {AlertConfig{Beliefs: kinds[1:2]}, []step{{0, hafvf.Outlier, 0, false, ""}, {1, hafvf.Change, 5, true, ""}, {2, hafvf.Revision, 5, false, ""}}},
		"none":        {AlertConfig{}, []step{{0, hafvf.Outlier, 0, false, ""}, {1, hafvf.Change, 5, false, ""}, {2, hafvf.Revision, 5, false, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			track := &Track{stages: &stages{keyCfg: Config{Alerts: c.cfg}}}
			for _, s := range c.steps {
				now := begin.Add(time.Duration(s.minute) * time.Minute)
				e := Estimate{Time: now, ID: now.Format("4"), Detection: &Detection{Kind: s.kind}, Regime: Moments{[]float64{s.mean}, []float64{1}}}
				a := track.believe(&e, []float64{0}, hafvf.Hypotheses{Outlier: .6, Stay: .4}, &before)
				if (a != nil) != s.alarmed {
					t.Fatalf("minute %d: alert %+v", s.minute, a)
				}
				kind := s.kind
				if kind == hafvf.Revision && s.corrects == "" {
					kind = hafvf.Change
				}
				if a != nil && (a.Corrects != s.corrects || a.Kind != string(kind)) {
					t.Fatalf("minute %d: alert %+v, want one that corrects %q", s.minute, a, s.corrects)
				}
			}
		})
	}
}

// A belief of the same kind as the alarm of its observation is a duplicate.
func TestAlertSource(t *testing.T) {
	for kind, want := range map[string]AlertSource{"change": SourceDuplicate, "outlier": SourceBelief} {
		e := Estimate{ID: "id", Alarm: &Alert{Kind: "change"}, Belief: &Alert{Kind: kind}}
		if events := e.Alerts("k"); len(events) != 2 || events[0].Source != SourceAlarm || events[1].Source != want || events[1].Key != "k" || events[1].ID != "id" {
			t.Errorf("%s: %+v", kind, events)
		}
	}
}

// The odds of a change are discounted in favour of stay. Kind and the probability of an outlier are the bank's.
func TestChangeIsDiscounted(t *testing.T) {
	var out Detection
	out.set(hafvf.Hypotheses{Kind: hafvf.Change, Stay: .04, Outlier: .06, Change: .9}, false, 9, regimeStart{})
	if math.Abs(out.Change-.75) > 1e-12 || out.Outlier != .06 || math.Abs(out.Stay-.19) > 1e-12 || out.Kind != hafvf.Change {
		t.Errorf("%+v", out)
	}
}

// One output is written as a number and several as a list. Numbers that are not finite are null.
func TestJSONOutputs(t *testing.T) {
	for want, v := range map[string][]float64{"2.5": {2.5}, "null": {nan}, "[1,null]": {1, math.Inf(1)}} {
		expect.Same(t, want, string(expect.Get(json.Marshal(jsonOutputs(v)))(t)))
	}
}
