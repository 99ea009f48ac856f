// Package transforms finds changes in keyed streams in a Beam pipeline: Filter processes observations as they arrive,
// Smooth processes finished sessions.
//
//	func observe(r Reading) (string, keyed.Observation) { return r.Pump, keyed.Value(r.At, "", r.Bar) }
//
//	out := transforms.Filter(s, keyed.Recommended("normal"), observe, readings)
//	beam.ParDo0(s, send, out.Alarms) // each a keyed.AlertEvent
//
// Package keyed processes a single key; it can also be used in a plain loop, without a pipeline. This package adds the
// bundles, timers, states and windows of a runner.
//
// # Filter
//
// Filter takes a collection in the global window, and a function that returns the key and the observation of an
// element. Every observation that the model accepts gets an estimate. Filter rejects
//
//   - observations with an empty key, with a key above 64 kB, or outside the model's domain,
//   - observations without a time, if the order is keyed.EventTime or the key has a season,
//   - late observations: before an observation of the key that is already released.
//
// An estimate has the prediction before the observation and the posterior after it. With detection, it also has
// outliers, changes and alarms. Outliers and changes are beliefs. An alarm is a decision, based on the usual values of
// the key and a budget, see keyed.AlarmConfig and keyed.AlertConfig. The node keeps the state of a key until
// keyed.Config.Expire; its size does not grow with the number of observations. A state is read when a bundle first
// sees the key, and written when the bundle ends.
//
// The name of the step after the node includes the family, such as "hafvf.Found of normal".
//
// # Smooth
//
// A session of a key ends at a gap of keyed.SmoothConfig.Gap, unless keyed.SmoothConfig.Order says that sessions have
// no times. Smooth returns each of its observations once, with the posterior given the whole session and the evidence
// of a change before the observation. If the configuration has no levels, a segments.Segmenter finds segments. A
// session longer than keyed.SmoothConfig.Max is split; segments can continue across these splits.
//
// # Elements of a source, and bytes
//
// FilterEncoded and SmoothEncoded are the basis of Filter and Smooth. They take the elements of a source, such as
// batches of records, which a registered Decoder turns into observations. A registered Encoder appends the output for
// each estimate to bytes, which the node emits in chunks. Beam sees no other elements, so that a record costs half as
// much if the filter itself is cheap. A Host also sets where the states are stored: keys can share states of the
// runner, and a run in one process can store them itself.
//
// # Order and lateness
//
// With EventTime, Filter buffers an observation until its key has seen a time Config.Lateness later, the watermark has
// passed that time, or the input has ended. Observations with equal times keep their order of arrival. With a lateness
// of 0, no observation waits. With Arrival, Filter processes observations as they arrive, and they need no time.
//
// Smooth sorts a session by time and keyed.Observation.Seq. An observation that arrives late, within
// keyed.SmoothConfig.AllowedLateness, emits its whole session again, with the next Revision and the same IDs.
// keyed.Smoothed.Changed marks the records that differ. The runner drops later observations. An observation of a
// log is too late if its LogTime is too far after its time.
//
// # Determinism
//
// The estimates of a key depend only on its observations and their order, not on bundles, workers or other keys: the
// output equals the output of the plain loop, bit by bit. keyed.Observation.ID is returned as keyed.Estimate.ID, so
// that a sink can recognise repeated output. With Log and Seq, the positions of observations in a log, a key's state
// recognises after a restart the observations that it already includes.
//
// A state belongs to the configuration that it was written with. Filter fails the pipeline at a state of another
// configuration; the error wraps keyed.ErrOtherConfig. With Host.Migrate, FilterEncoded migrates states that keys
// share, see keyed.Migrator.
//
// # Requirements for a runner
//
// Filter needs state and event-time timers per key. Smooth needs session windows and, with logs or an allowed
// lateness, state and timers. The runner must not process one key twice at the same time. Package
// hafvf/pipeline/direct runs both in this process.
//
// If Beam's Prism splits a bundle, it can process a key twice at once, and then loses updates of states: set the
// experiment prism_disable_sdf_split. Prism also fires sessions of an unbounded source before they have ended.
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
//	novelty_alarms alarms of kind novelty, without reports that an episode is worse
//	change_alarms  alarms of kind change
//	muted_alarms   alarms that the debt of earlier alarms suppressed, see usual.Decision
//	resting_alarms deviations that returned within an open episode, see keyed.Detection
//	silences       alarms of kind silent
//	sessions       sessions that were smoothed
//	unchanged      sessions without a change
//	drifting       sessions without a change whose level drifts or wanders
//	skipped_lines  skipped lines of files: above a header, comments, and headers of further tables
//
// Filter also has the counter migrated, of states that Host.Migrate converted, the counters of Host.Resumed, see
// KeptKeys, and the distribution iterations.
package transforms
