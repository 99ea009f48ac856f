// Package usual computes anomaly scores, seasons, alarm budgets and silences of one stream, without a model of regimes.
//
// A Profile scores how unusual an observation is, under views of level, season and autocorrelation. A Plan corrects the
// values before that: it learns offsets by the hour of the week, and the spread by hour, by number of events and of
// recent values. An Alarm decides which scores raise an alarm, and which changes that another detector reports; it
// keeps to a budget for any input. A Rhythm learns the part of the values that recurs with the local time, and keeps
// it when a new regime begins. A GapModel detects silences of event streams. Package keyed combines them with a bank
// of filters.
//
// Comments give the worth of a mechanism as "F1 .03 on smd": without the mechanism, F1 is .03 lower on the set smd of
// hafvf-lab ablate. This is the largest loss on any set. On some other sets F1 may be higher without it:
// testdata/benchmarks/ablation.csv has all sets.
package usual
