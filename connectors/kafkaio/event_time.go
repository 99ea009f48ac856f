package kafkaio

import (
	"cmp"
	"hash/fnv"
	"time"

	"hafvf/connectors/internal/eventlag"
)

// A pace is what the records of a partition have said of its time, as it is committed and as a
// runner keeps it.
type pace struct {
	// Lag is the usual one of the records; 0 if it is not known.
	Lag time.Duration `json:"lag,omitempty"`
	// Age is how far Latest was behind the clock when that record came into the partition; 0 if it
	// is not known.
	Age   time.Duration `json:"age,omitempty"`
	Reach timeReach     `json:"reach,omitzero"`
}

// A timeReach is how far the times of a partition have come, by its records alone. Times are in Unix
// milliseconds, 0 for none.
type timeReach struct {
	Latest  int64  `json:"latest,omitempty"`
	Of      uint64 `json:"of,omitempty"`     // the hash of the key with the latest time; 0 for no key
	Others  int64  `json:"others,omitempty"` // the latest time of all other keys, or of a record that is known to be right
	Lag     int64  `json:"lag,omitempty"`    // by which records are behind the topic's timestamps, of late
	LogTime int64  `json:"passed,omitempty"` // see logTime
}

// lagForgetting is the part of timeReach.Lag, 1/lagForgetting, that a record without so large a lag takes off.
const lagForgetting = 1024

// observe adds a record that has come, with its time. A time that is after the topic's timestamp, or after
// the clock, counts as that. One that is of the day before the topic's timestamp is right: they come
// from two clocks.
func (r *timeReach) observe(rec *Record, t, came time.Time) {
	lag := rec.Time.Sub(t)
	right := lag > 0 && lag <= eventlag.History
	if r.Latest == 0 {
		r.Lag = eventlag.Unknown.Milliseconds()
	}
	if r.Lag -= r.Lag / lagForgetting; right {
		r.Lag = max(r.Lag, lag.Milliseconds())
	}
	if lag < 0 && rec.Time.UnixMilli() > 0 {
		t = rec.Time
	}
	if came.Before(t) {
		t = came
	}
	r.add(rec.Key, t.UnixMilli(), right)
}

// add adds the time of a record. right says that the time is known to be right.
func (r *timeReach) add(key []byte, ms int64, right bool) {
	of := uint64(0)
	if key != nil {
		h := fnv.New64a()
		h.Write(key)
		of = h.Sum64() | 1
	}
	another := of == 0 || of != r.Of
	switch {
	case ms > r.Latest && another:
		r.Latest, r.Of, r.Others = ms, of, r.Latest
	case ms > r.Latest:
		r.Latest = ms
	case another:
		r.Others = max(r.Others, ms)
	}
	if right {
		r.Others = max(r.Others, ms)
	}
	known := cmp.Or(r.Others, r.Latest) // sessions of a partition with one key end too
	r.LogTime = max(r.LogTime, known-r.Lag)
}

// logTime is the time that the partition has passed: the latest that records of two keys have
// reached, or one that is known to be right. A wrong time of one key says nothing of the others. It is
// zero while there is none. With lags it is by as much earlier as records are usually late, and one key
// suffices where there is no other.
func (r timeReach) logTime(lags bool) time.Time {
	ms := r.Others
	if lags {
		ms = r.LogTime
	}
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// latest is the latest time of a record, zero if there is none.
func (r timeReach) latest() time.Time {
	if r.Latest <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.Latest).UTC()
}
