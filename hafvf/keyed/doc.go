// Package keyed filters the observations of single keys in a plain loop, and raises alarms. For each key, a bank of
// filters distinguishes a lasting change from a single outlier, and a profile scores how unusual each value is. The
// package needs no pipeline and no broker.
//
// Start with Recommended. An Estimator holds the configuration that keys share. A Track holds the state of one key:
//
//	est, err := keyed.NewEstimator(keyed.Recommended("normal"))
//	track := est.NewTrack("pump-1")
//	e := est.Estimate(track, keyed.Value(time.Now(), "", 20.1))
//	if e.Alarm != nil {
//		fmt.Println(e.Alarm.Message)
//	}
//
// The estimate contains the prediction before the observation and the posterior after it. Alarm is not nil if the
// observation raises an alarm.
//
// # Processing steps
//
// Check reports why an observation does not fit the model. Estimate processes an observation in these steps:
//
//   - Silence: the key's rhythm learns the gap before the observation and decides whether the gap was a silence
//     (Config.Silence). The alarm budget pays for a silence.
//   - Scale: the values are transformed to the scale on which they are modelled, such as their logarithm
//     (hafvf.Config.Scale). The next steps use the scaled values. The estimate is transformed back at the end.
//   - Season: the season at the observation's time is removed from the values (hafvf.Config.Season). The season also
//     learns the observation, and is added to the estimate again.
//   - Bank: the filters predict the observation, then learn it. With detection, the bank also reports whether the
//     observation is an outlier or the key has changed. This result is called a belief. In the warm-up, the first
//     observations set the prior, and the bank learns them again under it.
//   - Alarm: the key's profile of usual values, by the hour, the day and the last values, scores the observation. A
//     score above the threshold raises an alarm, and so does a rare change. The threshold depends on a budget
//     (AlarmConfig).
//   - Alerts: an alarm, or a belief that the configuration asks for, becomes an Alert if its size, direction and
//     cooldown permit it (AlertConfig).
//
// # Episodes
//
// An alarm opens an episode of its key (episode.go; F1 .21 on services_5min). The usual values at its onset are kept,
// and follow their seasons. Deviations are from these usual values, in standard deviations. Figures as "F1 .04 on smd"
// are explained in package usual. For n observations at a budget of P:
//
//   - At most n/P + 9 episodes begin, each at the cost of one alarm. Each is reported again at most three times.
//   - Worse: an open episode is reported again, at no cost and at any score, if the deviation is twice the one reported
//     on its side of usual; on the other side, half of it counts as reported. Three values in a row must be as far; two
//     at steps from 15 minutes on, one from 30 minutes on. Any other deviation belongs to the episode. Reports of worse
//     have F1 .04 on smd.
//   - The end: as many scores in a row below 2 as the episode was long, at least 3, and at most half a rest. Small
//     deviations need more of them, to tell whether they are over. Nothing is reported at the end but the end itself.
//     Ends before half a rest have F1 .02 on services_1min.
//   - The level at the end: back to usual; still deviating, but quiet; or new, if the profile has accepted the values.
//     Single categories have no scores: after a change, their level is new. Messages need the level.
//   - The return raises no alarm: until the values have been back for half a rest (a rest at steps of at most two
//     minutes), or for a day and a half after the end, no value scores more than its deviation does (F1 .02 on asd).
//   - A deviation that was reported raises no further alarm in this time: users expect one alarm of it. A new episode
//     begins at a deviation that is 3 standard deviations or a quarter larger; for three days at any score, if the mean
//     over half a rest is as large; or, once eight values in a row are back, at any novelty. These times are at least
//     60 observations. Alarms at any score have F1 .007 on services_1min.
//   - The profile before the onset is restored when the values are back, if the episode has changed what is usual
//     (F1 .05 on planted_5min), also if it has changed the usual value alone (F1 .03 on services_5min).
//   - A fault that the scores do not show (an impossible value, a spike that does not come) is reported once.
//
// # Order
//
// Estimate learns observations in the order of its calls. A KeyState also handles streams that are out of order: it
// skips observations that it already includes, buffers others for Config.Lateness, rejects late ones, and reports
// that a key has fallen silent. Package transforms uses one KeyState per key.
//
// # States
//
// Track.AppendBinary and KeyState.AppendBinary encode the state of a key. Another process that decodes the bytes
// computes the same results, bit for bit. A state belongs to the configuration that wrote it; under another
// configuration, decoding returns an error that wraps ErrOtherConfig. A Migrator converts the parts of a state that
// keep their meaning under a new configuration. A Snapshot presents a state to a reader.
//
// # Sessions
//
// A Smoother processes the observations of a finished session, and returns for each observation the posterior given
// all of them.
package keyed
