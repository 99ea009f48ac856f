package keyed

import (
	"testing"
	"time"

	"hafvf/hafvf"
)

// A revision names the alert that it replaces, is told in any case where there is
// one, and is itself what the next one replaces. Where there is none, the first
// alert told is that of a change.
func TestBeliefsAndTheirRevisions(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	before := regime{Moments{[]float64{0}, []float64{1}}, []float64{0}, []float64{2}}
	all := []hafvf.Kind{hafvf.Outlier, hafvf.Change, hafvf.Revision}
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
		"defaults": {AlertConfig{Beliefs: all}, []step{
			{0, hafvf.None, 0, false, ""}, {1, hafvf.Outlier, 0, true, ""}, {2, hafvf.Outlier, 0, true, ""},
			{3, hafvf.Change, 5, true, ""}, {4, hafvf.Revision, 7, true, "3"}, {5, hafvf.Revision, 7, true, "4"}, {6, hafvf.Change, 5, true, ""},
		}},
		"cooldown": {AlertConfig{Beliefs: all, Cooldown: 10 * time.Minute}, []step{
			{0, hafvf.Outlier, 0, true, ""}, {9, hafvf.Outlier, 0, false, ""}, {10, hafvf.Outlier, 0, true, ""},
			{11, hafvf.Change, 5, true, ""}, {12, hafvf.Revision, 5, true, "11"}, {15, hafvf.Change, 5, false, ""}, {16, hafvf.Revision, 5, false, ""}, {22, hafvf.Change, 5, true, ""},
		}},
		// In standard deviations of what was predicted, 2.
		"size": {AlertConfig{Beliefs: all, MinChange: 3}, []step{
			{0, hafvf.Change, 5.9, false, ""}, {1, hafvf.Revision, 6.1, true, ""}, {2, hafvf.Revision, 1, true, "1"}, {3, hafvf.Change, -6.1, true, ""},
		}},
		"no outliers": {AlertConfig{Beliefs: all[1:2]}, []step{{0, hafvf.Outlier, 0, false, ""}, {1, hafvf.Change, 5, true, ""}, {2, hafvf.Revision, 5, false, ""}}},
		"none":        {AlertConfig{}, []step{{0, hafvf.Outlier, 0, false, ""}, {1, hafvf.Change, 5, false, ""}, {2, hafvf.Revision, 5, false, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			track := &Track{stages: &stages{keyCfg: Config{Alerts: c.cfg}}}
			for _, s := range c.steps {
				at := begin.Add(time.Duration(s.minute) * time.Minute)
				e := Estimate{Time: at, ID: at.Format("4"), Detection: &Detection{Kind: s.kind}, Regime: Moments{[]float64{s.mean}, []float64{1}}}
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

// A belief of the kind of the alarm of its observation is a duplicate of that.
func TestBasis(t *testing.T) {
	for kind, want := range map[string]Basis{"change": DuplicateBasis, "outlier": BeliefBasis} {
		e := Estimate{ID: "id", Alarm: &Alert{Kind: "change"}, Belief: &Alert{Kind: kind}}
		if all := e.Alerts("k"); len(all) != 2 || all[0].Basis != AlarmBasis || all[1].Basis != want || all[1].Key != "k" || all[1].ID != "id" {
			t.Errorf("%s: %+v", kind, all)
		}
	}
}
