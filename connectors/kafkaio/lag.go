package kafkaio

import (
	"context"
	"maps"
	"sync"
	"time"
)

const (
	// endsFresh is how long an answer about the ends of partitions serves.
	endsFresh = time.Second
	// endsTime is how long Lag waits for brokers.
	endsTime = 2 * time.Second
)

// ends are where partitions end, as brokers have said last.
type ends struct {
	mu       sync.Mutex
	at       map[string]int64 // by partition
	asked    time.Time
	answered time.Time
}

// lag is how far the ends of the partitions are ahead of progress. If brokers do not answer
// within endsTime, their last answer counts, of that age.
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
			e.at, e.answered = now, time.Now()
		}
		e.asked = time.Now()
	}
	for log, p := range progress {
		records[log] = max(0, p.High-p.Offset, e.at[log]-p.Offset)
	}
	return records, time.Since(e.answered)
}

// progresses holds the progress of consumers without a ledger, as of their last call:
// []partitionProgress by *consumer.
var progresses sync.Map

// Lag is the number of records per partition that were not handed over yet, and the age of what brokers have
// said of the partitions' ends. Without a ledger, a nil one, it is that of the sources of this process.
func (l *Ledger) Lag() (records map[string]int64, age time.Duration) {
	if l != nil {
		l.mu.Lock()
		handed := maps.Clone(l.handed)
		l.mu.Unlock()
		return l.cfg.Client.lag(l.ctx, handed)
	}
	records = map[string]int64{}
	for c, progress := range latestProgress() {
		more, old := c.client.lag(c.ctx, progress)
		maps.Copy(records, more)
		age = max(age, old)
	}
	return records, age
}

// latestProgress is the progress of sources of this process without a ledger, by consumer and
// partition. A reader that left this process keeps its consumer for a while: of a partition
// the one that has come farthest counts.
func latestProgress() map[*consumer]map[string]partitionProgress {
	all, reader := map[*consumer]map[string]partitionProgress{}, map[string]*consumer{}
	progresses.Range(func(key, v any) bool {
		c := key.(*consumer)
		all[c] = map[string]partitionProgress{}
		for _, p := range v.([]partitionProgress) {
			log := p.Log()
			if was := reader[log]; was != nil {
				if p.Offset <= all[was][log].Offset {
					continue
				}
				delete(all[was], log)
			}
			reader[log], all[c][log] = c, p
		}
		return true
	})
	return all
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
