package kafkaio

import (
	"context"
	"maps"
	"sync"
	"time"
)

const (
	// endsFresh is how long a broker's answer about end offsets is used.
	endsFresh = time.Second
	// endsTime is how long Lag waits for brokers.
	endsTime = 2 * time.Second
)

// ends caches the end offsets of partitions.
type ends struct {
	mu       sync.Mutex
	offsets  map[string]int64 // by partition
	asked    time.Time
	answered time.Time
}

// lag returns the number of records after progress in each partition. It asks the brokers at most every endsFresh. If
// they fail, or do not answer within endsTime, lag uses their last answer. age is the time since that answer; before
// any answer, it is the time since the first call.
func (c *Client) lag(ctx context.Context, progress map[string]partitionProgress) (records map[string]int64, age time.Duration) {
	records = map[string]int64{}
	if len(progress) == 0 {
		return records, 0
	}
	e := &c.ends
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answered.IsZero() {
		e.answered = time.Now()
	}
	if time.Since(e.asked) > endsFresh {
		partitions := map[string][]int{}
		for _, p := range progress {
			partitions[p.Topic] = append(partitions[p.Topic], p.Partition)
		}
		within, cancel := context.WithTimeout(ctx, endsTime)
		defer cancel()
		if now, err := c.offsets(within, partitions, atEnd, false); err == nil {
			e.offsets, e.answered = now, time.Now()
		}
		e.asked = time.Now()
	}
	for log, p := range progress {
		records[log] = max(0, p.High-p.Offset, e.offsets[log]-p.Offset)
	}
	return records, time.Since(e.answered)
}

// progresses holds the progress of consumers without a ledger after their last call: []partitionProgress by *consumer.
var progresses sync.Map

// Lag returns the number of records per partition that were not handed over yet. age is the age of the brokers' last
// answer about the ends of the partitions. With a nil ledger, Lag covers the sources of this process that have no
// ledger.
func (l *Ledger) Lag() (records map[string]int64, age time.Duration) {
	if l != nil {
		l.mu.Lock()
		handedOver := maps.Clone(l.handedOver)
		l.mu.Unlock()
		return l.cfg.Client.lag(l.ctx, handedOver)
	}
	records = map[string]int64{}
	for c, progress := range latestProgress() {
		more, old := c.client.lag(c.ctx, progress)
		maps.Copy(records, more)
		age = max(age, old)
	}
	return records, age
}

// latestProgress returns the progress of this process's sources without a ledger, by consumer and partition. The
// consumer of a reader that moved to another process lives on for a while, so two consumers may have the same
// partition. The one that has read further counts.
func latestProgress() map[*consumer]map[string]partitionProgress {
	byConsumer, reader := map[*consumer]map[string]partitionProgress{}, map[string]*consumer{}
	progresses.Range(func(key, v any) bool {
		c := key.(*consumer)
		byConsumer[c] = map[string]partitionProgress{}
		for _, p := range v.([]partitionProgress) {
			log := p.Log()
			if prev := reader[log]; prev != nil {
				if p.Offset <= byConsumer[prev][log].Offset {
					continue
				}
				delete(byConsumer[prev], log)
			}
			reader[log], byConsumer[c][log] = c, p
		}
		return true
	})
	return byConsumer
}

// EventLag measures how far event times are behind the clock when the records of a partition arrive.
type EventLag struct {
	Usual time.Duration // 99 % of the recent records have at most this lag; 0 if it is unknown
	Max   time.Duration // maximum over all records since the start, except records older than 24 h
}

// EventLags returns the lags of partitions by Position.Log, for sources with a Clock. With a nil ledger, it covers the
// sources of this process that have no ledger.
func (l *Ledger) EventLags() map[string]EventLag {
	progress := map[string]partitionProgress{}
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		progress = l.handedOver
	} else {
		for _, some := range latestProgress() {
			maps.Copy(progress, some)
		}
	}
	lags := map[string]EventLag{}
	for log, p := range progress {
		if p.Lag.Usual > 0 {
			lags[log] = p.Lag
		}
	}
	return lags
}

// logTime implements account.StateKeeper.LogTime for the records that are processed.
func (l *Ledger) logTime(log string) (time.Time, bool) {
	if position, ok := parsePosition(log, 0); !ok || l.topics[position.Topic].partitions <= position.Partition {
		return time.Time{}, false // the source no longer reads the partition
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processed[log].Reach.logTime(l.cfg.SubtractLag), true
}
