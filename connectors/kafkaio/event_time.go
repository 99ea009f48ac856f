package kafkaio

import (
	"cmp"
	"hash/fnv"
	"time"

	"hafvf/connectors/internal/eventlag"
)

// A pace describes the event times of a partition's records. It is stored with committed offsets and in the
// restriction of a runner.
type pace struct {
	// Lag is the usual lag of the records; 0 if it is unknown.
	Lag time.Duration `json:"lag,omitempty"`
	// Age is the lag of the record with the time Latest when it arrived in the partition; 0 if it is unknown.
	Age   time.Duration `json:"age,omitempty"`
	Reach timeReach     `json:"reach,omitzero"`
}

// A timeReach holds the latest event times of a partition. Only records change it. Times are in Unix milliseconds, 0
// for none.
type timeReach struct {
	Latest  int64  `json:"latest,omitempty"`
	KeyHash uint64 `json:"of,omitempty"`     // hash of the key with the latest time; 0 for a null key
	Others  int64  `json:"others,omitempty"` // latest time of all other keys, or of a record whose time is known to be right
	Lag     int64  `json:"lag,omitempty"`    // recent maximum of the delay of event times behind the topic's timestamps, in milliseconds
	LogTime int64  `json:"passed,omitempty"` // see logTime
}

// Each record takes 1/lagForgetting off timeReach.Lag.
const lagForgetting = 1024

// observe adds a record with its event time t. A time later than the topic's timestamp or than arrived is limited to
// these. A time at most a day before the topic's timestamp is known to be right, because two clocks confirm it.
func (r *timeReach) observe(rec *Record, t, arrived time.Time) {
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
	if arrived.Before(t) {
		t = arrived
	}
	r.add(rec.Key, t.UnixMilli(), right)
}

// add adds the time of a record. right means that the time is known to be right.
func (r *timeReach) add(key []byte, ms int64, right bool) {
	hash := uint64(0)
	if key != nil {
		h := fnv.New64a()
		h.Write(key)
		hash = h.Sum64() | 1
	}
	another := hash == 0 || hash != r.KeyHash
	switch {
	case ms > r.Latest && another:
		r.Latest, r.KeyHash, r.Others = ms, hash, r.Latest
	case ms > r.Latest:
		r.Latest = ms
	case another:
		r.Others = max(r.Others, ms)
	}
	if right {
		r.Others = max(r.Others, ms)
	}
	known := cmp.Or(r.Others, r.Latest) // without Others, the only key's time: sessions of a partition with one key end too
	r.LogTime = max(r.LogTime, known-r.Lag)
}

// logTime returns the time that the partition has passed: the latest time that records of two keys have reached, or
// that is known to be right. So one key's wrong time does not affect the other keys. It returns the zero time if there
// is none. With lags, the time is earlier by timeReach.Lag, and if there is only one key, its times count.
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

// latest returns the latest time of a record, or the zero time.
func (r timeReach) latest() time.Time {
	if r.Latest <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.Latest).UTC()
}
