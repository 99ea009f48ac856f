package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"hafvf/connectors"
)

// A Ledger keeps account of a run in one process, on a runner that keeps no
// state and pushes back on nothing: what the source has handed over, what is
// still in flight, which states the keys have. At a moment at which nothing is in
// flight, every record that was handed over is in a state and its outputs are
// stored; what holds then is committed, first the states to the changelog, then
// the group's offsets. A run that goes on from there repeats outputs, with the
// same ids, and loses none.
type Ledger struct {
	cfg       LedgerConfig
	flight    *connectors.Gate
	changelog *Writer
	client    *kafka.Client

	mu       sync.Mutex
	inFlight int
	since    time.Time // when the first came that is in flight
	stopped  bool
	restored map[string][]byte
	staged   map[string]State      // reported since nothing was in flight
	ready    map[string]State      // to be committed
	waiting  map[string][]Position // by key, observations that are in no output yet
	handed   map[string]Progress   // by partition
	reached  map[string]Progress   // to be committed
	stored   map[string]int64      // committed offsets
	err      error                 // of a commit; ends the run

	ctx    context.Context // of the readers and the commits
	cancel context.CancelFunc
	done   chan struct{}
}

// A LedgerConfig says what a ledger commits, and where.
type LedgerConfig struct {
	Name    string // by which the source finds it
	Cluster Cluster
	Group   string // that offsets are committed of; empty: none
	// Changelog is the compacted topic of the states; empty: none. It is created
	// where it does not exist.
	Changelog string
	// AtEnd commits when the run ends, and not before: its outputs are not stored
	// before.
	AtEnd bool
	// Drain makes Stop end the source, also where positions are committed: what the
	// runner holds is in no state.
	Drain bool
	Log   *slog.Logger
	// Sync, where it is set, has outputs that were stored elsewhere than in Kafka
	// outlast a loss of power, before what they are of is committed.
	Sync func() error
	// Stage, where it is set, is told how long the stages took that records pass
	// together: "read" (gathered and waiting for those before), "process" (worked on
	// until all outputs were stored), "commit".
	Stage func(name string, took time.Duration)
}

// A State is what a run keeps of a key.
type State struct {
	Key   string
	Bytes []byte
	// Waiting are the records that are in the state and in no output yet.
	Waiting []Position
}

// Progress is how far a partition was read.
type Progress struct {
	Position       // of the next record
	High     int64 // the offset after the last record there is
}

const (
	// commitEvery is how often what holds is committed.
	commitEvery = time.Second
	// changelogBytes is the largest state that a changelog takes.
	changelogBytes = 16 << 20
)

var ledgers sync.Map // of *Ledger by name

func ledgerOf(name string) *Ledger {
	l, _ := ledgers.Load(name)
	ledger, _ := l.(*Ledger)
	return ledger
}

// OpenLedger opens a ledger: it reads the states from the changelog. It panics
// if the name is taken.
func OpenLedger(ctx context.Context, cfg LedgerConfig) (*Ledger, error) {
	l := &Ledger{
		cfg: cfg, staged: map[string]State{}, ready: map[string]State{}, waiting: map[string][]Position{},
		handed: map[string]Progress{}, reached: map[string]Progress{}, stored: map[string]int64{},
		done: make(chan struct{}),
	}
	var err error
	if l.client, err = cfg.Cluster.Client(); err != nil {
		return nil, err
	}
	if cfg.Changelog != "" {
		if err := l.restore(ctx); err != nil {
			return nil, err
		}
		if l.changelog, err = NewWriter(ctx, Sink{Cluster: cfg.Cluster, Topic: cfg.Changelog}, cfg.Log); err != nil {
			return nil, err
		}
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.flight = connectors.NewGate(cfg.Name)
	if _, taken := ledgers.LoadOrStore(cfg.Name, l); taken {
		panic("kafkaio: ledger " + cfg.Name + " exists already")
	}
	go l.commits()
	return l, nil
}

// restore creates the changelog, or reads it.
func (l *Ledger) restore(ctx context.Context) error {
	topic := l.cfg.Changelog
	created, err := l.cfg.Cluster.Create(ctx, topic, 0, map[string]string{
		"cleanup.policy": "compact", "max.message.bytes": fmt.Sprint(changelogBytes)})
	if err != nil {
		return err
	}
	if created {
		l.cfg.Log.Info("the changelog was created", "topic", topic)
		return nil
	}
	config, err := l.cfg.Cluster.Config(ctx, topic, "cleanup.policy")
	if err != nil {
		return err
	}
	if policy := config["cleanup.policy"]; policy != "compact" {
		return fmt.Errorf("the changelog %s has cleanup.policy %q: states would be lost; it has to be compact", topic, policy)
	}
	start := time.Now()
	l.restored, err = lastValues(ctx, Source{Cluster: l.cfg.Cluster, Topics: []string{topic}, Start: Start{At: Earliest}, Bounded: true}, l.cfg.Log)
	if err != nil {
		return fmt.Errorf("the changelog cannot be read: %w", err)
	}
	l.cfg.Log.Info("states were restored", "topic", topic, "keys", len(l.restored), "took", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// lastValues reads the last value of every key of a bounded source.
func lastValues(ctx context.Context, src Source, log *slog.Logger) (map[string][]byte, error) {
	spans, err := src.spans(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	rest := restriction{Readers: 1, Partitions: spans, Bounded: true}
	c := newConsumer(ctx, src, rest, limits{record: math.MaxInt, fetch: fetchPlain}, log)
	defer c.close()
	for t := (&tracker{rest: rest}); !t.IsDone(); {
		i, b := c.take()
		if i < 0 {
			select {
			case <-c.arrived:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			continue
		}
		if b.err != nil {
			return nil, b.err
		}
		t.TryClaim(taken{i, b.next})
		for _, r := range b.records {
			if r.Value == nil {
				delete(all, string(r.Key))
			} else {
				all[string(r.Key)] = bytes.Clone(r.Value) // not to keep its whole batch
			}
		}
	}
	return all, nil
}

// Restore returns the state that a key had when the ledger was opened, once; nil
// where it had none.
func (l *Ledger) Restore(key string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.restored[key]
	delete(l.restored, key)
	return b
}

// Restored are the states that have not been taken by Restore.
func (l *Ledger) Restored() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.restored)
}

// Add changes the number of records in flight by n: records that the source
// hands over come in, outputs that were stored go out, and who makes m outputs
// of n records adds m − n. With it come the states that hold from now on.
func (l *Ledger) Add(n int, states ...State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range states {
		l.staged[s.Key] = s
	}
	l.add(n)
}

func (l *Ledger) add(n int) {
	was := l.inFlight
	l.inFlight += n
	l.flight.Add(n)
	switch {
	case was <= 0 && l.inFlight > 0:
		l.since = time.Now()
	case was > 0 && l.inFlight <= 0:
		l.stage("process", l.since)
	}
	if l.inFlight > 0 {
		return
	}
	for key, s := range l.staged {
		if len(s.Waiting) > 0 {
			l.waiting[key] = s.Waiting
		} else {
			delete(l.waiting, key)
		}
		if l.changelog != nil {
			l.ready[key] = s
		}
	}
	clear(l.staged)
	maps.Copy(l.reached, l.handed)
}

func (l *Ledger) stage(name string, since time.Time) {
	if l.cfg.Stage != nil {
		l.cfg.Stage(name, time.Since(since))
	}
}

// handOver waits until nothing is in flight, and then adds n records, after
// which the partitions are where progress says. The first of them was taken at
// since. Of a run that is being suspended it takes no more.
func (l *Ledger) handOver(ctx context.Context, progress []Progress, n int, since time.Time) error {
	if l == nil {
		return nil
	}
	if n > 0 {
		if err := l.flight.Wait(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.stopped && l.Suspends() {
		l.mu.Unlock()
		<-ctx.Done()
		l.mu.Lock()
		return context.Cause(ctx)
	}
	if n > 0 {
		l.stage("read", since)
	}
	for _, p := range progress {
		l.handed[p.Log()] = p
	}
	l.add(n)
	return l.err
}

// commits commits now and then until the ledger is closed.
func (l *Ledger) commits() {
	defer close(l.done)
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if l.cfg.AtEnd {
				continue
			}
			if err := l.commit(l.ctx); err != nil && l.ctx.Err() == nil {
				l.mu.Lock()
				l.err = err
				l.mu.Unlock()
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// commit stores the states that are ready and then the offsets.
func (l *Ledger) commit(ctx context.Context) error {
	l.mu.Lock()
	states := l.ready
	l.ready = map[string]State{}
	offsets := l.offsets()
	l.mu.Unlock()
	if len(states) == 0 && len(offsets) == 0 {
		return nil
	}
	defer l.stage("commit", time.Now())
	if err := l.store(ctx, states); err != nil {
		l.mu.Lock()
		maps.Copy(states, l.ready) // what came since holds
		l.ready = states
		l.mu.Unlock()
		return err
	}
	return l.commitOffsets(ctx, offsets)
}

// store puts states into the changelog, once the outputs that go with them last.
func (l *Ledger) store(ctx context.Context, states map[string]State) error {
	if l.cfg.Sync != nil {
		if err := l.cfg.Sync(); err != nil {
			return err
		}
	}
	if len(states) == 0 {
		return nil
	}
	var messages []Message
	for key, s := range states {
		messages = append(messages, Message{Key: []byte(key), Value: s.Bytes})
	}
	if err := l.changelog.Write(ctx, messages); err != nil {
		return fmt.Errorf("the changelog cannot be written: %w", err)
	}
	return nil
}

// offsets are those up to which all records are done with, and that are not
// committed yet: without a changelog none beyond a record that waits.
func (l *Ledger) offsets() map[string]Position {
	changed := map[string]Position{}
	for log, p := range l.reached {
		changed[log] = p.Position
	}
	if l.changelog == nil {
		for _, positions := range l.waiting {
			for _, w := range positions {
				if p, ok := changed[w.Log()]; ok && w.Offset < p.Offset {
					changed[w.Log()] = w
				}
			}
		}
	}
	for log, p := range changed {
		if at, ok := l.stored[log]; ok && at == p.Offset {
			delete(changed, log)
		}
	}
	return changed
}

// commitTries is how often an offset commit is tried, with growing pauses that
// take about two minutes together.
const commitTries = 30

func (l *Ledger) commitOffsets(ctx context.Context, offsets map[string]Position) error {
	if l.cfg.Group == "" || len(offsets) == 0 {
		return nil
	}
	topics := map[string][]kafka.OffsetCommit{}
	for _, p := range offsets {
		topics[p.Topic] = append(topics[p.Topic], kafka.OffsetCommit{Partition: p.Partition, Offset: p.Offset})
	}
	var trouble outage
	for try := 0; ; try++ {
		// Generation −1 commits for a group that nobody is a member of.
		res, err := l.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: l.cfg.Group, GenerationID: -1, Topics: topics})
		if err == nil {
			for _, list := range res.Topics {
				for _, p := range list {
					err = errors.Join(err, p.Error)
				}
			}
		}
		switch {
		case err == nil:
			l.mu.Lock()
			for log, p := range offsets {
				l.stored[log] = p.Offset
			}
			l.mu.Unlock()
			return nil
		case errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.RebalanceInProgress):
			return fmt.Errorf("the offsets of group %s cannot be committed: other consumers are members of it; take a group of its own: %w", l.cfg.Group, err)
		case refused(err) || try == commitTries || ctx.Err() != nil:
			return fmt.Errorf("the offsets of group %s cannot be committed: %w", l.cfg.Group, err)
		}
		trouble.wait(ctx, l.cfg.Log, err, "offsets cannot be committed", "group", l.cfg.Group)
	}
}

// Stop makes the source stop reading. Where positions are committed it puts the
// rest off, so that nothing comes out early because the input seems to end:
// cancel the run when Idle says so. Otherwise the source ends.
func (l *Ledger) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.flight.Stop()
}

// Suspends reports whether Stop puts the rest off.
func (l *Ledger) Suspends() bool {
	return (l.cfg.Group != "" || l.cfg.Changelog != "") && !l.cfg.Drain
}

// Idle is closed while nothing is in flight; ask anew after it was not.
func (l *Ledger) Idle() <-chan struct{} { return l.flight.Idle() }

// Busy is how long the records in flight have been there; 0 where there are none.
func (l *Ledger) Busy() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight <= 0 {
		return 0
	}
	return time.Since(l.since)
}

// Lag is how many records of each partition have not been handed over yet.
func (l *Ledger) Lag() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lags(l.handed)
}

// Close forgets the ledger, and commits what holds if the run has gone well and
// its outputs are stored.
func (l *Ledger) Close(ctx context.Context, well bool) error {
	ledgers.CompareAndDelete(l.cfg.Name, l)
	l.cancel()
	<-l.done
	l.flight.Close()
	err := l.err
	if well && err == nil {
		err = l.commit(ctx)
	}
	if l.changelog != nil {
		err = errors.Join(err, l.changelog.Close())
	}
	hangUp(l.client)
	return err
}

// What a source without a ledger goes by.

func (l *Ledger) idle() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.flight.Idle():
		return true
	default:
		return false
	}
}

func (l *Ledger) logger() *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l.cfg.Log
}
