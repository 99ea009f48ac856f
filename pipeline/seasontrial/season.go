// Package seasontrial tests whether a config without a season would predict its data better with one.
package seasontrial

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/pipeline/config"
	"hafvf/pipeline/settings"
)

// Maximum number of keys in a trial, and of their observations in total.
const (
	maxKeys         = 20
	maxObservations = 10_000
)

// Season returns the season that improves a config without one, and the reason. Both are empty if there is none. With
// the season, the filter predicts the last third of the observations of each key better, and raises at most a tenth
// more alarms on it. span is the time that the observations cover, step the usual time between them.
func Season(c *config.Config, observations map[string][]keyed.Observation, span, step time.Duration) (season, why string) {
	if c.Transform != settings.Filter || c.Model.Season != nil || usual.Seasonal(c.Model.Family) != nil || step <= 0 {
		return "", ""
	}
	tried := longest(observations)
	nats, alarms := trial(c, nil, tried)
	standard := usual.DefaultSeasons()
	for _, o := range []struct {
		season, name string
		seasons      []usual.Season // shortest first
	}{{"[24h, 168h]", "daily and weekly", standard}, {"[24h]", "daily", standard[:1]}, {"[168h]", "weekly", standard[1:]}} {
		if span < 2*o.seasons[len(o.seasons)-1].Period || step > o.seasons[0].Period/4 {
			continue
		}
		seasonNats, seasonAlarms := trial(c, o.seasons, tried)
		if seasonNats > nats && 10*seasonAlarms <= 11*alarms {
			return o.season, "a " + o.name + " season predicts the last third of the records better"
		}
	}
	return "", ""
}

// keyObservations are observations of a key.
type keyObservations struct {
	key          string
	observations []keyed.Observation
}

// longest returns the observations of the keys with the most observations, sorted by time.
func longest(observations map[string][]keyed.Observation) (selected []keyObservations) {
	keys := slices.SortedFunc(maps.Keys(observations), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(observations[b]), len(observations[a])), cmp.Compare(a, b))
	})
	remaining := maxObservations
	for _, key := range keys[:min(len(keys), maxKeys)] {
		o := slices.Clone(observations[key])
		slices.SortStableFunc(o, func(a, b keyed.Observation) int { return a.Time.Compare(b.Time) })
		o = o[max(len(o)-remaining, 0):]
		remaining -= len(o)
		selected = append(selected, keyObservations{key, o})
	}
	return selected
}

// trial filters observations with the given seasons; nil means none. It returns the log predictive of the last third of
// the observations of each key, and the number of alarms on it. It returns −∞ if the settings are invalid.
func trial(c *config.Config, seasons []usual.Season, tried []keyObservations) (nats float64, alarms int) {
	cfg := c.Filter()
	cfg.Silence, cfg.Expire = nil, 0
	if seasons != nil {
		season := &usual.RhythmConfig{Seasons: seasons}
		cfg.Filter.Season = season
		for i := range cfg.Keys {
			if k := &cfg.Keys[i].Filter; k.Season == nil {
				k.Season = season
			}
		}
	}
	est, err := keyed.NewEstimator(cfg)
	if err != nil {
		return math.Inf(-1), 0
	}
	for _, series := range tried {
		if len(series.observations) == 0 {
			continue
		}
		key, _ := est.Open(series.key, nil) // starts without a state
		testStart := series.observations[2*len(series.observations)/3].Time
		count := func(e keyed.Estimate) {
			if e.Time.Before(testStart) {
				return
			}
			if !math.IsNaN(e.LogPredictive) {
				nats += e.LogPredictive
			}
			if e.Alarm != nil {
				alarms++
			}
		}
		for _, o := range series.observations {
			for e, err := range key.Estimates(o) {
				if err == nil {
					count(e)
				}
			}
		}
		for e := range key.Rest() {
			count(e)
		}
	}
	return nats, alarms
}
