// Package eventlag estimates the lag of records: how far their times are behind the clock when they arrive.
package eventlag

import (
	"math"
	"slices"
	"time"
)

const (
	// share is the part of the records whose lag is at most Usual.
	share = .99
	// The weight of a record is halved when both halfRecords have arrived and halfTime has passed.
	halfRecords = 500
	halfTime    = time.Hour
	// History is the minimum lag of records that are loaded from an archive. Such a lag does not predict the lag of
	// other records.
	History = 24 * time.Hour
	// Min is the lag of records whose times equal the clock or are ahead of it.
	Min = time.Millisecond
	// Unknown is used as the usual lag while Lag.Usual is 0.
	Unknown = 15 * time.Minute
	// steps is the number of sizes between a lag and its double.
	steps = 16
)

// A Lag estimates the lag of records. The zero Lag has seen no records.
type Lag struct {
	// Usual is the lag that 99 % of the recent records do not exceed, at least Min. It is rounded up by at most 5 %,
	// and at most Max. 0 means unknown.
	Usual time.Duration
	Max   time.Duration // maximum over all records with a lag below History

	weights []float64 // of the records, by size
	total   float64
	last    time.Time // time of the last records
}

// Add adds the lags of records that arrived together at now. It ignores lags of at least History, and modifies lags.
func (l *Lag) Add(now time.Time, lags []time.Duration) {
	lags = slices.DeleteFunc(lags, func(d time.Duration) bool { return d >= History })
	if len(lags) == 0 {
		return
	}
	if l.weights == nil {
		l.weights = make([]float64, sizeOf(History)+1)
	}
	decay := math.Max(math.Exp2(-float64(len(lags))/halfRecords), math.Exp2(-now.Sub(l.last).Seconds()/halfTime.Seconds()))
	l.last, l.total = now, l.total*decay
	for i := range l.weights {
		l.weights[i] *= decay
	}
	for _, d := range lags {
		l.weights[sizeOf(d)]++
		l.total++
		l.Max = max(l.Max, d, Min)
	}
	beyond := 0.
	for i := len(l.weights) - 1; i >= 0; i-- {
		if beyond += l.weights[i]; beyond > (1-share)*l.total {
			l.Usual = min(time.Duration(math.Exp2(float64(i)/steps)*float64(Min)), l.Max)
			return
		}
	}
}

// sizeOf returns the index of a lag's weight. Index i has the lags above 2^((i−1)/16)·Min, up to 2^(i/16)·Min.
func sizeOf(d time.Duration) int {
	if d <= Min {
		return 0
	}
	const rounding = 1e-6 // so that Usual, if it is stored and added again, keeps its size
	return int(math.Ceil(steps*math.Log2(float64(d)/float64(Min)) - rounding))
}
