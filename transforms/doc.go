// Package transforms says of each key in a Beam pipeline whether it has changed: Filter as
// observations come, Smooth over finished sessions.
//
//	func observe(r Reading) (string, keyed.Observation) { return r.Pump, keyed.Value(r.At, "", r.Bar) }
//
//	out := transforms.Filter(s, keyed.Recommended("normal"), observe, readings)
//	beam.ParDo0(s, send, out.Alarms) // each a keyed.AlertEvent
//
// The work on one key is package keyed, which does the same in a plain loop, without a pipeline.
// Here are the bundles, timers, states and windows of a runner.
//
// # Filter
//
// Filter takes a collection in the global window, and a function that makes an observation of an
// element, with its key. Every observation that the model takes has an estimate. Rejected are
//
//   - those of an empty key, of a key above 64 kB or outside of the model's domain,
//   - without a time, if the order is keyed.EventTime or the key has a season,
//   - late ones: before an observation of the key that is already released.
//
// An estimate holds the prediction before the observation and the posterior after it, and with
// detection outliers, changes and alarms. Outliers and changes are beliefs. An alarm is a decision, by
// what is usual for the key and within a budget, see keyed.AlarmConfig and keyed.AlertConfig. The
// node keeps the state of a key until keyed.Config.Expire; its size does not grow with the number of
// observations. A state is read when a bundle first sees the key, and written when the bundle ends.
//
// The name of the step behind the node says the family, such as hafvf.Found of normal.
//
// # Smooth
//
// A session of a key ends at a gap of keyed.SmoothConfig.Gap, unless
// keyed.SmoothConfig.Order says that sessions have no times. Each of its observations comes out
// once, with the posterior given the whole session and the evidence of a change before it. If the configuration has no levels, a
// segments.Segmenter finds segments, which also go on over the cuts of sessions longer
// than keyed.SmoothConfig.Max.
//
// # Elements of a source, and bytes
//
// FilterEncoded and SmoothEncoded are what Filter and Smooth are made of. They take the elements
// of a source, such as batches of records, which a registered Decoder turns into observations. A
// registered Encoder appends what is to be written of each estimate to bytes, which the node emits
// in chunks. Nothing is made an element on the way but these, so that a record costs half as much
// if the filter itself is cheap. A Host says more of where the states are: keys may share the
// runner's, and a run in one process may keep them itself.
//
// # Order and lateness
//
// Under EventTime, Filter holds an observation back until its key has seen a time
// Config.Lateness later, the watermark has passed that time, or the input has
// ended. Observations of equal times keep their order of arrival. With a lateness
// of zero nothing waits. Under Arrival, Filter takes observations as they come, and
// they need no time.
//
// Smooth sorts a session by time and keyed.Observation.Seq. An observation that comes
// late, within keyed.SmoothConfig.AllowedLateness, emits its session again, whole, with
// the next Revision and the same ids. keyed.Smoothed.Changed tells which records say something
// new. The runner drops later ones. Of a log those come too late whose LogTime says so.
//
// # Determinism
//
// The estimates of a key depend on its observations and their order alone, not on
// bundles, workers or other keys: the output equals that of the plain loop, bit by
// bit. keyed.Observation.ID comes out again as keyed.Estimate.ID, so that a sink can recognise
// repeated output. With Log and Seq, the places of observations in a
// log, a key's state recognises observations that it already includes after a
// restart.
//
// A state belongs to the configuration that it was written under. Filter fails the
// pipeline at a state of another one; the error wraps keyed.ErrOtherConfig. With
// Host.Migrate FilterEncoded carries states over that keys share, see keyed.Migrator.
//
// # What a runner must provide
//
// Filter needs state and event-time timers per key. Smooth needs session windows and, with logs or
// an allowed lateness, state and timers. The runner must not process one key twice at the
// same time. Package hafvf/pipeline/direct runs both in this process.
//
// Beam's Prism can process a key twice at once if it splits a bundle, and then loses
// updates of states: give it the experiment prism_disable_sdf_split. It fires sessions of an
// unbounded source before they are over.
//
// # Metrics
//
// Filter and Smooth have these counters in the namespace hafvf:
//
//	records        estimates, or smoothed observations
//	rejected       observations that could not be used
//	late           rejected observations that came after a later one of their key
//	late_idle      late observations that were within the lateness of their key
//	late_far       late observations that were more than a year behind
//	missing        observations without a value
//	quiet          observations in quiet times
//	restarts       resets of counters, with value: increase
//	not_converged  updates that did not converge
//	keys           keys that were seen
//	expired_keys   keys that were forgotten because they had no observation for a time of expire
//	forgotten_keys keys that were forgotten on request
//	reset_keys     keys that were reset because their state could not be read or could not learn
//	turned_back    returns of keys from a wrong time
//	panics         panics in the mathematics of a key
//	outliers       observations that were classified as outliers
//	changes        changes that were found
//	novelty_alarms alarms of kind novelty
//	change_alarms  alarms of kind change
//	muted_alarms   alarms that the debt of earlier alarms suppressed, see usual.Decision
//	resting_alarms alarms that the rest after an earlier alarm suppressed, see usual.Decision
//	silences       alarms of kind silent
//	sessions       sessions that were smoothed
//	unchanged      sessions without a change
//	skipped_lines  skipped lines of files: above a header, comments, and headers of further tables
//	drifting       sessions without a change whose level drifts or wanders
//
// Filter has also the counter migrated, of states that Host.Migrate has carried over, those of
// Host.Resumed, see KeptKeys, and the distribution iterations.
package transforms
