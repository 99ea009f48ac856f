package kafkaio

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// lagShare is the share of records whose lag is at most the usual one.
	lagShare = .99
	// The usual lag is that of the last records and of the last time, whichever is longer: a
	// record weighs half when as many have come after it and as much time has passed.
	lagRecords = 500
	lagTime    = time.Hour
	// lagHistory is the age from which a record is history that somebody writes into a topic.
	// It says nothing of the lag of others.
	lagHistory = 24 * time.Hour
	// leastLag is that of records whose times are ahead of the clock, or not behind it.
	leastLag = time.Millisecond
	// lagUnknown stands for the lag while nothing is known of it.
	lagUnknown = 15 * time.Minute
	// lagSteps is the number of sizes that are told apart between a lag and its double.
	lagSteps = 16
)

// A lag is how far the times of a partition's records are behind the clock when the records
// arrive, at least leastLag. The usual one is known to 5 %, rounded up, but never
// above the longest. The zero lag knows nothing.
type lag struct {
	weights []float64 // of the records, by size
	total   float64
	at      time.Time     // of the last records
	usual   time.Duration // 0: not known
	most    time.Duration // of all records
}

// add adds the lags of records that arrived together. Those of history are left out, and what
// is ahead of the clock has none. It keeps lags for itself.
func (l *lag) add(at time.Time, lags []time.Duration) {
	lags = slices.DeleteFunc(lags, func(d time.Duration) bool { return d >= lagHistory })
	if len(lags) == 0 {
		return
	}
	if l.weights == nil {
		l.weights = make([]float64, sizeOf(lagHistory)+1)
	}
	kept := math.Max(math.Exp2(-float64(len(lags))/lagRecords), math.Exp2(-at.Sub(l.at).Seconds()/lagTime.Seconds()))
	l.at, l.total = at, l.total*kept
	for i := range l.weights {
		l.weights[i] *= kept
	}
	for _, d := range lags {
		l.weights[sizeOf(d)]++
		l.total++
		l.most = max(l.most, d, leastLag)
	}
	beyond := 0.
	for i := len(l.weights) - 1; i >= 0; i-- {
		if beyond += l.weights[i]; beyond > (1-lagShare)*l.total {
			l.usual = min(time.Duration(math.Exp2(float64(i)/lagSteps)*float64(leastLag)), l.most)
			return
		}
	}
}

// sizeOf is the index of a lag's weight: of the lags above 2^((i−1)/16) and up to 2^(i/16)
// times leastLag.
func sizeOf(d time.Duration) int {
	if d <= leastLag {
		return 0
	}
	const rounding = 1e-6 // so that a usual lag, as it is stored, keeps its size
	return int(math.Ceil(lagSteps*math.Log2(float64(d)/float64(leastLag)) - rounding))
}

// EventLag is how far the times of a partition's records are behind the clock when the records
// arrive.
type EventLag struct {
	Usual time.Duration // at most this for 99 % of the records of late; 0 if it is not known
	Most  time.Duration // of all records since the start, without history
}

// EventLags are those of the partitions of a source with a clock, by Position.Log. Without a ledger, a nil one,
// they are those of the sources of this process.
func (l *Ledger) EventLags() map[string]EventLag {
	progress := map[string]partitionProgress{}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		progress = l.handed
	} else {
		for _, some := range latestProgress() {
			maps.Copy(progress, some)
		}
	}
	all := map[string]EventLag{}
	for log, p := range progress {
		if p.Lag.Usual > 0 {
			all[log] = p.Lag
		}
	}
	return all
}

// logTime is account.StateKeeper.LogTime: by the records that were worked on.
func (l *Ledger) logTime(log string) (time.Time, bool) {
	if at, ok := parsePosition(log, 0); !ok || l.topics[at.Topic].partitions <= at.Partition {
		return time.Time{}, false // it is not read any more
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.worked[log].Reach.logTime(l.cfg.Lags), true
}
