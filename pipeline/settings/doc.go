// Package settings reads the model's part of a config: how the filters of keys learn, and when they alarm.
// Programs without a pipeline read it by this package alone, with config's own words for a mistake:
//
//	s, err := settings.Parse(&keytable.Decoder{Name: "settings.yaml"}, text, nil, settings.Source{})
//	if err != nil {
//		return err // settings.yaml:1: model.famly: unknown key; did you mean "family"?
//	}
//	est, err := keyed.NewEstimator(s.Filter())
//	track := est.NewTrack("pump-1")
//	e := est.Estimate(track, keyed.Value(time.Now(), "", 20.1))
//
// What the defaults take from where observations come from is the Source. A config with other keys in it, which
// package config reads, has a Reading.
package settings
