// Package keyed says of one key whether it has changed, or whether that was one odd value, in a plain
// loop: a bank of filters follows its observations, and what is unusual for it raises alarms. It
// needs no pipeline and no broker.
//
// Begin with Recommended. An Estimator holds what the keys of a configuration have in common,
// and a Track what is remembered of one key:
//
//	est, err := keyed.NewEstimator(keyed.Recommended("normal"))
//	track := est.NewTrack("pump-1")
//	e := est.Estimate(track, keyed.Value(time.Now(), "", 20.1))
//	if e.Alarm != nil {
//		fmt.Println(e.Alarm.Message)
//	}
//
// The estimate has the prediction before the observation and the posterior after it, and
// Alarm if the observation raises one.
//
// # The way of an observation
//
// Check says why an observation is none of the model. Estimate then takes one through
// these steps, in this order:
//
//   - Silence: the key's rhythm learns the gap before the observation, and says whether that
//     was a silence (Config.Silence), which the budget of alarms pays.
//   - Scale: the values go to the scale on which they are modelled, such as their logarithm
//     (hafvf.Config.Scale). What follows sees the scaled values, and the estimate is taken
//     back at the end.
//   - Season: the season at the observation's time is taken out of the values
//     (hafvf.Config.Season). It learns the observation too, and is put back into the estimate.
//   - Bank: the filters predict the observation, then learn it, and with detection say whether
//     it is an outlier or the key has changed: a belief. In the warm-up the first observations
//     set the prior, under which the bank learns them again.
//   - AlarmBasis: the profile of what is usual for the key, by the hour, the day and the last
//     values, gives the observation a score. A score above the threshold is an alarm, and so
//     is a rare change. The threshold follows a budget (AlarmConfig).
//   - Alerts: an alarm, or a belief that is asked for, becomes an Alert if its size, direction
//     and cooldown permit it (AlertConfig).
//
// # Order
//
// Estimate learns observations in the order in which it gets them. A KeyState also has what a
// stream that is out of order needs: it skips observations that it includes already, holds
// others back for Config.Lateness, rejects late ones, and tells that a key has fallen silent.
// Package transforms has a KeyState for each key.
//
// # States
//
// Track.AppendBinary and KeyState.AppendBinary encode what is known of a key. The bytes
// continue in another process as if they had never been saved, bit for bit. They belong to the
// configuration that they were written under: another one gets an error that wraps
// ErrOtherConfig. A Migrator carries over what still means the same. A Snapshot is what
// a state says to a reader.
//
// # Sessions
//
// A Smoother looks back on the observations of a finished session, and gives each the
// posterior given all of them.
package keyed
