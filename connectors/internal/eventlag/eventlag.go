// Package eventlag estimates how far the times of records are behind the clock when the records arrive.
package eventlag

import (
	"math"
	"slices"
	"time"
)

const (
	// share is the share of records whose lag is at most the usual one.
	share = .99
	// A record counts half for the usual lag when so many records have come after it, and so much time has passed.
	halfRecords = 500
	halfTime    = time.Hour
	// History is the age from which a record is part of the past that somebody writes. It says nothing of the lag of others.
	History = 24 * time.Hour
	// Min is the lag of records whose times are ahead of the clock, or not behind it.
	Min = time.Millisecond
	// Unknown stands for the usual lag while it is not known.
	Unknown = 15 * time.Minute
	// steps is the number of sizes that are told apart between a lag and its double.
	steps = 16
)

// A Lag is how far the times of records are behind the clock when the records arrive. The zero Lag knows nothing.
type Lag struct {
	// Usual is the lag that 99 % of the recent records do not exceed, at least Min. It is rounded up by at most 5 %, and never
	// above Most. 0 means that it is not known.
	Usual time.Duration
	Most  time.Duration // of all records except History

	weights []float64 // of the records, by size
	total   float64
	at      time.Time // of the last records
}

// Add adds the lags of records that arrived together at a time. It ignores lags of History, and modifies lags.
func (l *Lag) Add(at time.Time, lags []time.Duration) {
	lags = slices.DeleteFunc(lags, func(d time.Duration) bool { return d >= History })
	if len(lags) == 0 {
		return
	}
	if l.weights == nil {
		l.weights = make([]float64, sizeOf(History)+1)
	}
	kept := math.Max(math.Exp2(-float64(len(lags))/halfRecords), math.Exp2(-at.Sub(l.at).Seconds()/halfTime.Seconds()))
	l.at, l.total = at, l.total*kept
	for i := range l.weights {
		l.weights[i] *= kept
	}
	for _, d := range lags {
		l.weights[sizeOf(d)]++
		l.total++
		l.Most = max(l.Most, d, Min)
	}
	beyond := 0.
	for i := len(l.weights) - 1; i >= 0; i-- {
		if beyond += l.weights[i]; beyond > (1-share)*l.total {
			l.Usual = min(time.Duration(math.Exp2(float64(i)/steps)*float64(Min)), l.Most)
			return
		}
	}
}

// sizeOf is the index of a lag's weight: of the lags above 2^((i−1)/16) and up to 2^(i/16)
// times Min.
func sizeOf(d time.Duration) int {
	if d <= Min {
		return 0
	}
	const rounding = 1e-6 // so that a usual lag, as it is stored, keeps its size
	return int(math.Ceil(steps*math.Log2(float64(d)/float64(Min)) - rounding))
}
