package transforms

import (
	"math"
	"time"

	"hafvf/hafvf"
)

// AlertConfig says which detections raise an alert.
type AlertConfig struct {
	// Cooldown is the time after an alert in which its key raises no other of its
	// kind. Revisions are exempt. Default 0.
	Cooldown time.Duration
	// MinChange is the least size of a change: the distance of the regimes' means
	// in standard deviations of what the old one predicted, the largest of the
	// coordinates. Default 0.
	MinChange float64
}

// A Detection is the verdict on an observation: whether it is an outlier or the
// entity has changed. The probabilities are the posterior ones, before a change
// resets them, and sum to one.
type Detection struct {
	Kind                  hafvf.Kind
	Stay, Outlier, Change float64
	// Start and StartN are time and position of the first observation of the new or
	// the suspected regime; zero where there is none.
	Start  time.Time
	StartN int64
	Delay  int64 // observations from Start to this one, on a change or revision
	Age    int64 // run length: observations since the start of the regime before this one
}

// An Alert reports an outlier or a change. It has the key, time and id of its
// estimate.
type Alert struct {
	Kind hafvf.Kind
	// Corrects is the id of the alert that a revision replaces; "" where none was
	// raised.
	Corrects string
	Start    time.Time // of the outlier, or of the new regime
	Delay    int64     // observations from the start to the alert
	LogOdds  float64   // of the kind, nats
	Size     float64   // of a change, as in AlertConfig
	// Before and After are the running regime's mean, before the observation and
	// after it.
	Before, After Moments
}

// detection returns d with the observation at which its regime starts.
func detection(d hafvf.Detection, warmUp bool, n int64, named start) *Detection {
	out := &Detection{Kind: d.Kind, Stay: d.Stay, Outlier: d.Outlier, Change: d.Change, Start: named.time, StartN: named.n, Age: d.Age}
	if warmUp {
		out.Kind = hafvf.None
	}
	if out.Kind == hafvf.Change || out.Kind == hafvf.Revision {
		out.Delay = n - named.n
	}
	return out
}

// alerts holds what later alerts of a key depend on.
type alerts struct {
	outlier, change time.Time // of the last
	id              string    // of the last change or revision
}

// alert returns the alert that an estimate raises, nil where it raises none.
func (t *Track) alert(cfg AlertConfig, e *Estimate, d hafvf.Detection, before regime) *Alert {
	kind := e.Detection.Kind
	if kind == hafvf.None {
		return nil
	}
	a := &Alert{Kind: kind, Start: e.Time, Delay: e.Detection.Delay, LogOdds: d.LogOdds(), Before: before.estimate, After: e.Regime}
	switch kind {
	case hafvf.Outlier:
		if quiet(&t.alerts.outlier, e.Time, cfg.Cooldown) {
			return nil
		}
	case hafvf.Change, hafvf.Revision:
		a.Start = e.Detection.Start
		if kind == hafvf.Revision {
			a.Corrects = t.alerts.id
		}
		t.alerts.id = ""
		a.Size = size(before, e.Regime)
		// The correction of an alert is always told.
		if a.Corrects == "" && (a.Size < cfg.MinChange || quiet(&t.alerts.change, e.Time, cfg.Cooldown)) {
			return nil
		}
		t.alerts.id = e.ID
	}
	return a
}

// quiet reports whether now lies within the cooldown after last. If not, now becomes
// the last.
func quiet(last *time.Time, now time.Time, cooldown time.Duration) bool {
	if cooldown > 0 && !last.IsZero() && !now.IsZero() && now.Sub(*last) < cooldown {
		return true
	}
	*last = now
	return false
}

// size is the distance of the regimes' means in standard deviations of what the
// old one predicted, the largest of the coordinates.
func size(before regime, after Moments) float64 {
	most := 0.0
	for i, m := range after.Mean {
		if d := math.Abs(m-before.estimate.Mean[i]) / before.predictive[i]; d > most {
			most = d
		}
	}
	return most
}

func (a *alerts) append(b []byte) []byte {
	b = appendTime(b, a.outlier)
	b = appendTime(b, a.change)
	return appendString(b, a.id)
}

func (a *alerts) read(r *reader) { a.outlier, a.change, a.id = r.time(), r.time(), r.string() }
