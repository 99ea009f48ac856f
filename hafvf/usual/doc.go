// Package usual learns what is usual for a stream, without a model of regimes.
//
// A Profile scores how unusual an observation is for its stream, under views of level, season
// and autocorrelation. A Plan before it has what comes by the hour of the week, and how values scatter by hour, by
// events and lately. An Alarm decides which scores, and which changes that another detector
// reports, raise an alarm, and keeps to a budget whatever comes. A Rhythm learns the part of
// the values that recurs with the local time, and keeps it where a new regime begins. Package
// keyed puts them around a bank of filters.
package usual
