// Package settings reads the model's part of a config: how the filters of keys learn, and when they raise alarms.
// Programs without a pipeline can use this package alone. Its errors are those of a config:
//
//	s, err := settings.Parse(&keytable.Decoder{Name: "settings.yaml"}, text, nil, settings.Source{})
//	if err != nil {
//		return err // settings.yaml:1: model.famly: unknown key; did you mean "family"?
//	}
//	est, err := keyed.NewEstimator(s.Filter())
//	track := est.NewTrack("pump-1")
//	e := est.Estimate(track, keyed.Value(time.Now(), "", 20.1))
//
// Some defaults depend on the Source of the observations. Package config reads configs with other keys too, by a
// Reading.
package settings
