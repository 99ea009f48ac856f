package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"hafvf/internal/account"
)

// A Ledger commits the progress of a run in one process, for a runner that keeps no
// state and pushes back on nothing. It knows how far the source has read, how many
// records are in flight, and the state of each key. When nothing is in flight, every
// record that was handed over is in a state, and its outputs are stored. The ledger then
// commits the states to the changelog and the group's offsets, in one transaction. A run
// that resumes from there repeats some outputs, with the same ids, and loses none.
type Ledger struct {
	cfg     LedgerConfig
	account *account.Run
	owner   *owner // of the changelog; nil without one

	// Set when the run begins.
	run    identity
	topics map[string]topic
	found  map[string]committed // by the group, by partition
	start  map[string]committed // that the source starts at: found, unless it begins anew
	ends   map[string]int64     // of the partitions when it began; nil before they were asked for
	head   head                 // of the changelog

	mu       sync.Mutex
	stopped  bool
	restored map[string]lastValue
	replaced map[string][]byte          // of these, those that the changelog has in another form
	ready    map[string][]byte          // states to be committed, by key
	waiting  map[string][]account.Place // by key, observations that are in no output yet
	handed   map[string]Progress        // by partition
	reached  map[string]Progress        // to be committed
	stored   map[string]int64           // offsets that were committed here
	renewed  time.Time                  // when all offsets were committed last
	err      error                      // of a commit; ends the run
	told     bool                       // of it, the source

	ctx         context.Context // of the consumers
	cancel      context.CancelFunc
	commits     context.Context // ends later than ctx, as a commit that is cancelled cannot be repeated
	stopCommits context.CancelFunc
	done        chan struct{}
}

// A LedgerConfig says what a ledger commits, and where.
type LedgerConfig struct {
	Client *Client  // of the topics' cluster; the caller closes it
	Topics []string // that the source reads
	Group  string   // that offsets are committed of; empty: none
	// Changelog is the compacted topic of the states; empty: none. It is created
	// where it does not exist.
	Changelog string
	// BeginAnew discards the states of the changelog and ignores the group's offsets.
	BeginAnew bool
	// Seal, if set, returns what is stored for the state of a key. It is called when the state
	// is written: all sealed states at once would take as much memory again.
	Seal func(key string, state []byte) []byte
	// Skip are the positions of states in the changelog that are discarded.
	Skip []Position
	// Open, if set, opens the stored states in place, before anything is written. They come in
	// the order of their positions. Open returns the last record of each partition that the
	// states include. OpenLedger returns its error. If another run commits meanwhile, Open is
	// called again.
	Open func([]Stored) (included []Position, err error)
	// First are the states, by key, to begin with where the changelog is empty, or there is
	// none.
	First map[string][]byte
	// AtEnd commits only when the run ends, because its outputs are stored only then.
	AtEnd bool
	// Drain makes Stop end the source even if positions are committed. It is for runners
	// that hold records outside of any state.
	Drain bool
	Log   *slog.Logger
	// Sync, if set, is called before each commit to fsync outputs that are not in
	// Kafka.
	Sync func() error
	// Stage, if set, is told how long each stage of a group of records took: "read"
	// (gathering them and waiting for the group before), "process" (until all outputs
	// were stored) and "commit".
	Stage func(name string, took time.Duration)
}

// A Stored is what a changelog holds of a key.
type Stored struct {
	Position
	Key   string
	Bytes []byte
	// Replaced is set by LedgerConfig.Open if the changelog is to hold another state. The
	// state goes there with the first commit.
	Replaced bool
}

// Progress is how far a partition was read.
type Progress struct {
	Position       // of the next record
	High     int64 // the offset after the last record there is
	Lag      EventLag
}

const (
	// commitEvery is the time between commits.
	commitEvery = time.Second
	// renewEvery is the time between commits of all offsets, also those that stay. Brokers
	// forget the offset of a partition that nobody commits, and the owner of a changelog that
	// nobody writes to, by default after seven days (offsets.retention.minutes,
	// transactional.id.expiration.ms).
	renewEvery = 24 * time.Hour
	// changelogBytes is the largest state that a changelog takes.
	changelogBytes = 16 << 20
	// leastBatch is the smallest limit of batches that franz-go accepts.
	leastBatch = 512
)

// ledgerOf returns the ledger of the run that a node's context belongs to, nil if there is
// none.
func ledgerOf(ctx context.Context) *Ledger { return account.Part[*Ledger](account.From(ctx), "") }

// OpenLedger opens a ledger. It reads the group's offsets first and the states second, so
// that the states are at least as new even if another run commits in between. The source
// starts at these offsets.
//
// OpenLedger returns a ResumeError if the changelog does not belong to the offsets, or if a
// topic was deleted and created again since.
func OpenLedger(ctx context.Context, cfg LedgerConfig) (*Ledger, error) {
	l := &Ledger{
		cfg: cfg, run: newIdentity(), ready: map[string][]byte{}, waiting: map[string][]account.Place{},
		handed: map[string]Progress{}, reached: map[string]Progress{}, stored: map[string]int64{},
		done: make(chan struct{}),
	}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.commits, l.stopCommits = context.WithCancel(context.WithoutCancel(ctx))
	l.account = account.Open(account.Keeper{Settled: l.settled, Restore: l.Restore, Restored: l.Restored})
	account.Attach(l.account, "", l)
	go l.commitAlways()
	return l, nil
}

// begin reads and checks offsets and states, and takes the changelog over. It checks
// before it takes over, so that a run that cannot start does not end the one that goes on.
// What that one commits in between is read again.
func (l *Ledger) begin(ctx context.Context) (err error) {
	if len(l.cfg.Topics) > 0 {
		if l.topics, err = l.cfg.Client.describe(ctx, l.cfg.Topics); err != nil {
			return err
		}
	}
	if l.cfg.Group != "" {
		l.cfg.Log.Info("this run commits the group's offsets", "group", l.cfg.Group, "run", l.run.Run, "host", l.run.Host, "pid", l.run.PID)
	}
	if err := l.readOffsets(ctx); err != nil {
		return err
	}
	batch := 0
	if l.cfg.Changelog != "" {
		if batch, err = l.openChangelog(ctx); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil && l.owner != nil {
			l.owner.close()
		}
	}()
	for {
		before, err := l.changelogEnds(ctx)
		if err != nil {
			return err
		}
		if err := l.read(ctx); err != nil {
			return err
		}
		if l.cfg.Changelog == "" || l.owner != nil {
			break
		}
		if l.owner, err = own(ctx, l.cfg.Client.cluster, l.cfg.Changelog, l.cfg.Group, int32(batch)); err != nil {
			return err
		}
		after, err := l.changelogEnds(ctx)
		if err != nil {
			return err
		}
		was := l.found
		if err := l.readOffsets(ctx); err != nil {
			return err
		}
		if maps.Equal(before, after) && maps.Equal(was, l.found) {
			break
		}
	}
	l.start = l.found
	if l.cfg.BeginAnew {
		l.start = nil
		l.cfg.Log.Warn("beginning anew: the group's offsets are not looked at", "group", l.cfg.Group, "partitions", len(l.found))
	}
	if l.owner != nil {
		if err := l.adopt(ctx); err != nil {
			return err
		}
		maps.Copy(l.ready, l.replaced)
	}
	if len(l.restored) == 0 && len(l.cfg.First) > 0 {
		l.beginWith(l.cfg.First)
	}
	return nil
}

// readOffsets reads the group's offsets.
func (l *Ledger) readOffsets(ctx context.Context) error {
	return askPatiently(ctx, startTimeout, l.cfg.Log, func(ctx context.Context) (err error) {
		l.found, err = l.groupOffsets(ctx, partitionsOf(l.topics))
		return err
	})
}

// changelogEnds are the ends of the changelog's partitions, without an open transaction.
func (l *Ledger) changelogEnds(ctx context.Context) (map[string]int64, error) {
	if l.cfg.Changelog == "" {
		return nil, nil
	}
	own, err := l.cfg.Client.describe(ctx, []string{l.cfg.Changelog})
	if err != nil {
		return nil, err
	}
	return l.cfg.Client.offsets(ctx, partitionsOf(own), atEnd, true)
}

// read reads the states, and checks them and the offsets.
func (l *Ledger) read(ctx context.Context) error {
	l.ends = nil
	if l.cfg.Changelog != "" {
		if err := l.restore(ctx); err != nil {
			return err
		}
	}
	if l.cfg.BeginAnew {
		return nil
	}
	if err := l.checkTopics(ctx); err != nil {
		return err
	}
	if l.cfg.Changelog != "" {
		return l.checkStates(ctx)
	}
	return nil
}

// beginWith makes states, by key, those that the run begins with. With a changelog they
// go there, so that a restart has also those of keys that this run has not met.
func (l *Ledger) beginWith(states map[string][]byte) {
	l.restored = make(map[string]lastValue, len(states))
	for key, b := range states {
		l.restored[key] = lastValue{bytes: b}
		if l.owner != nil {
			l.ready[key] = b
		}
	}
	l.cfg.Log.Info("keys begin with given states", "keys", len(states))
}

// openChangelog creates the changelog where it does not exist. It returns the largest
// batch that the topic takes, in bytes.
func (l *Ledger) openChangelog(ctx context.Context) (batch int, err error) {
	const policy, largest = "cleanup.policy", "max.message.bytes"
	topic := l.cfg.Changelog
	_, err = l.cfg.Client.describe(ctx, []string{topic})
	if errors.As(err, new(*unknownTopics)) {
		if !l.cfg.BeginAnew {
			if err := l.lost(false); err != nil {
				return 0, err
			}
		}
		var created bool
		created, err = l.cfg.Client.Create(ctx, topic, 0, map[string]string{policy: "compact", largest: fmt.Sprint(changelogBytes)})
		if created {
			l.cfg.Log.Info("the changelog was created", "topic", topic)
		}
	}
	if err != nil {
		return 0, err
	}
	config, err := l.cfg.Client.Config(ctx, topic, policy, largest)
	if err != nil {
		return 0, err
	}
	if is := config[policy]; is != "compact" {
		return 0, fmt.Errorf("the changelog %s has cleanup.policy %q: states would be lost; it has to be compact", topic, is)
	}
	if batch, err = strconv.Atoi(config[largest]); err != nil {
		batch = batchBytes // a broker that does not say
	}
	return min(max(batch, leastBatch), changelogBytes), nil
}

// restore reads the changelog.
func (l *Ledger) restore(ctx context.Context) (err error) {
	topic, start := l.cfg.Changelog, time.Now()
	l.restored, err = lastValues(ctx, l.cfg.Client, topic, l.cfg.Log)
	if err != nil {
		return fmt.Errorf("the changelog cannot be read: %w", err)
	}
	l.head = head{}
	if h, ok := l.restored[headKey]; ok {
		delete(l.restored, headKey)
		if err := json.Unmarshal(h.bytes, &l.head); err != nil && !l.cfg.BeginAnew {
			return &ResumeError{fmt.Errorf("the head of the changelog, at %s, the record with the empty key, is damaged: %w; restore the topic, or begin anew", h.position(topic), err)}
		}
	}
	if len(l.restored) > 0 && l.head.ID == "" && !l.cfg.BeginAnew {
		return &ResumeError{fmt.Errorf("the changelog %s has no head, the record with the empty key: another version of this program wrote it, or another program; name another topic, or begin anew", topic)}
	}
	l.cfg.Log.Info("states were restored", "topic", topic, "keys", len(l.restored), "took", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// checkStates opens and checks the restored states.
func (l *Ledger) checkStates(ctx context.Context) error {
	if err := l.lost(true); err != nil {
		return err
	}
	if len(l.found) > 0 && len(l.restored) == 0 {
		l.cfg.Log.Info("the run before kept no state: keys start without states at the group's offsets", "group", l.cfg.Group)
	}
	if err := l.skip(); err != nil {
		return err
	}
	if l.cfg.Open == nil {
		return nil
	}
	states := inOrder(l.cfg.Changelog, l.restored)
	included, err := l.cfg.Open(states)
	if err != nil {
		return err
	}
	l.replaced = map[string][]byte{}
	for _, s := range states {
		v := l.restored[s.Key]
		v.bytes = s.Bytes
		l.restored[s.Key] = v
		if s.Replaced {
			l.replaced[s.Key] = s.Bytes
		}
	}
	return l.checkIncluded(ctx, included)
}

// adopt writes the head of the changelog, which says whose it is now. A run that begins
// anew also deletes the states.
func (l *Ledger) adopt(ctx context.Context) error {
	h, err := l.newHead(ctx)
	if err != nil {
		return err
	}
	messages := []Message{h}
	if l.cfg.BeginAnew {
		for key := range l.restored {
			messages = append(messages, Message{Key: []byte(key)})
		}
	}
	if err := l.commitOwned(ctx, slices.Values(messages), nil); err != nil {
		return err
	}
	if l.cfg.BeginAnew {
		l.cfg.Log.Warn("beginning anew: states were discarded", "topic", l.cfg.Changelog, "keys", len(l.restored))
		clear(l.restored)
	}
	return nil
}

// ReadStored returns what a changelog holds, by positions. It changes nothing, and a run may
// go on meanwhile.
func ReadStored(ctx context.Context, client *Client, changelog string, log *slog.Logger) ([]Stored, error) {
	if _, err := client.describe(ctx, []string{changelog}); err != nil {
		return nil, err
	}
	values, err := lastValues(ctx, client, changelog, log)
	if err != nil {
		return nil, fmt.Errorf("the changelog cannot be read: %w", err)
	}
	delete(values, headKey)
	return inOrder(changelog, values), nil
}

// inOrder are states by their positions.
func inOrder(changelog string, states map[string]lastValue) []Stored {
	all := make([]Stored, 0, len(states))
	for key, s := range states {
		all = append(all, Stored{Position: s.position(changelog), Key: key, Bytes: s.bytes})
	}
	slices.SortFunc(all, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return all
}

// A lastValue is the last value of a key in a topic, with its position.
type lastValue struct {
	bytes     []byte
	offset    int64
	partition int32
}

func (v lastValue) position(topic string) Position {
	return Position{topic, int(v.partition), v.offset}
}

// lastValues reads the last value of every key of a topic.
func lastValues(ctx context.Context, client *Client, topic string, log *slog.Logger) (map[string]lastValue, error) {
	src := Source{Cluster: client.cluster, Topics: []string{topic}, Start: Start{At: Earliest}, Bounded: true}
	spans, err := src.findSpans(ctx, client, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]lastValue{}
	rest := restriction{Readers: 1, Partitions: spans, Bounded: true}
	limits := readLimits
	limits.Record = math.MaxInt // a state may be larger
	c := newConsumer(ctx, client, src, rest, limits, log)
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
		t.TryClaim(taken{partition: i, before: b.next})
		for _, r := range b.records {
			if r.Value == nil {
				delete(all, string(r.Key))
			} else {
				all[string(r.Key)] = lastValue{bytes: bytes.Clone(r.Value), offset: r.Offset, partition: int32(r.Partition)} // not to keep its whole batch
			}
		}
	}
	return all, nil
}

// Restore returns the state that a key had when the ledger was opened, or nil. A second
// call for the key returns nil.
func (l *Ledger) Restore(key string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.restored[key]
	delete(l.restored, key)
	return s.bytes
}

// Restored are the states that have not been taken by Restore.
func (l *Ledger) Restored() map[string][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string][]byte, len(l.restored))
	for key, s := range l.restored {
		all[key] = s.bytes
	}
	return all
}

// settled notes what holds now that nothing is in flight.
func (l *Ledger) settled(states map[string]account.KeyState, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !since.IsZero() {
		l.stage("process", since)
	}
	for key, s := range states {
		if len(s.Waiting) > 0 {
			l.waiting[key] = s.Waiting
		} else {
			delete(l.waiting, key)
		}
		if l.owner != nil {
			l.ready[key] = s.State
		}
	}
	maps.Copy(l.reached, l.handed)
}

func (l *Ledger) stage(name string, since time.Time) {
	if l.cfg.Stage != nil {
		l.cfg.Stage(name, time.Since(since))
	}
}

var errSuspends = errors.New("the run is being suspended")

// handOver hands over n records, after which the partitions are where progress says.
// The first of them was taken at since. A run that is being suspended takes no more.
func (l *Ledger) handOver(ctx context.Context, progress []Progress, n int, since time.Time) error {
	if l == nil {
		return nil
	}
	err := l.account.HandOver(ctx, n, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil {
			l.told = true
			return l.err
		}
		if n > 0 {
			if l.stopped && l.Suspends() {
				return errSuspends
			}
			l.stage("read", since)
		}
		for _, p := range progress {
			l.handed[p.Log()] = p
		}
		return nil
	})
	if err == errSuspends {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// commitAlways commits every commitEvery until the ledger is closed.
func (l *Ledger) commitAlways() {
	defer close(l.done)
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if l.cfg.AtEnd {
				continue
			}
			if err := l.commit(l.commits); err != nil && l.commits.Err() == nil {
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

// commit stores the states that are ready and the offsets, after the outputs. It fails if
// another run has taken over.
func (l *Ledger) commit(ctx context.Context) error {
	if err := l.account.Fault(); err != nil {
		return err
	}
	l.mu.Lock()
	states := l.ready
	l.ready = map[string][]byte{}
	start := time.Now()
	renews := start.Sub(l.renewed) >= renewEvery
	offsets := l.offsets(renews)
	l.mu.Unlock()
	if len(states) == 0 && len(offsets) == 0 && !(renews && l.owner != nil) {
		return nil
	}
	defer l.stage("commit", start)
	err := l.look(ctx)
	if err == nil && l.cfg.Sync != nil {
		err = l.cfg.Sync()
	}
	if err == nil {
		err = l.store(ctx, states, offsets, renews)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		maps.Copy(states, l.ready) // what came since holds
		l.ready = states
		return err
	}
	for log, p := range offsets {
		l.stored[log] = p.Offset
	}
	if renews {
		l.renewed = start
	}
	return nil
}

// store writes states and offsets, and if it renews to the changelog in any case. Without a changelog nothing refuses a run that another
// one has replaced: it moves offsets, which repeats records, and has no states to spoil.
func (l *Ledger) store(ctx context.Context, states map[string][]byte, offsets map[string]Position, renews bool) error {
	notes := map[string]committed{}
	if l.cfg.Group != "" {
		for log, p := range offsets {
			t := l.topics[p.Topic]
			text, err := json.Marshal(note{l.run, t.id, t.epochs[p.Partition], l.head.ID, l.usualLag(log)})
			if err != nil {
				return err
			}
			notes[log] = committed{p.Offset, string(text)}
		}
	}
	if l.owner == nil {
		if len(notes) == 0 {
			return nil
		}
		return l.persist(ctx, "committed", func(ctx context.Context) error { return l.cfg.Client.commit(ctx, l.cfg.Group, notes) })
	}
	switch {
	case len(states) > 0:
		return l.commitOwned(ctx, l.messages(states), notes)
	case len(notes) == 0 && !renews:
		return nil
	}
	h, err := l.head.message()
	if err != nil {
		return err
	}
	return l.commitOwned(ctx, slices.Values([]Message{h}), notes)
}

// messages are those of states, by key, and of deletions, which are nil. Each is made
// when it is written: all at once would take as much memory again.
func (l *Ledger) messages(states map[string][]byte) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for key, state := range states {
			m := Message{Key: []byte(key)}
			if state != nil {
				m.Value = state
				if l.cfg.Seal != nil {
					m.Value = l.cfg.Seal(key, state)
				}
			}
			if !yield(m) {
				return
			}
		}
	}
}

// offsets are the offsets to commit: all records before them are dealt with. Without a
// changelog, no offset is beyond a record that waits. Those that are committed already are
// left out, unless all are asked for.
func (l *Ledger) offsets(all bool) map[string]Position {
	changed := map[string]Position{}
	if all {
		for log, c := range l.start {
			changed[log] = ParsePosition(log, c.offset)
		}
	}
	for log, p := range l.reached {
		changed[log] = p.Position
	}
	if l.owner == nil {
		for _, places := range l.waiting {
			for _, w := range places {
				if p, ok := changed[w.Log]; ok && w.Seq < p.Offset {
					changed[w.Log] = ParsePosition(w.Log, w.Seq)
				}
			}
		}
	}
	if all {
		return changed
	}
	for log, p := range changed {
		if at, ok := l.stored[log]; ok && at == p.Offset {
			delete(changed, log)
		}
	}
	return changed
}

// Stop makes the source stop reading. If positions are committed, the source suspends:
// it does not end, because an end of input would release waiting observations early. The
// caller cancels the run when Idle is closed. Otherwise the source ends.
func (l *Ledger) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.account.Stop()
}

// Suspends reports whether Stop suspends the source instead of ending it.
func (l *Ledger) Suspends() bool {
	return (l.cfg.Group != "" || l.cfg.Changelog != "") && !l.cfg.Drain
}

// In returns a context for the runner, by which source and sinks find the ledger.
func (l *Ledger) In(ctx context.Context) context.Context { return l.account.In(ctx) }

// Idle is closed while nothing is in flight; ask again after it was not.
func (l *Ledger) Idle() <-chan struct{} { return l.account.Idle() }

// Busy is how long records have been in flight, 0 if none are.
func (l *Ledger) Busy() time.Duration { return l.account.Busy() }

// Lag is the number of records per partition that were not handed over yet.
func (l *Ledger) Lag() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return lags(l.handed)
}

// Close closes the ledger. If the run went well, it commits for the last time. An
// earlier commit error that has already ended the source is returned again only if the
// run went well.
func (l *Ledger) Close(ctx context.Context, well bool) error {
	l.cancel()
	defer l.stopCommits()
	if well {
		defer context.AfterFunc(ctx, l.stopCommits)()
	} else {
		l.stopCommits()
	}
	<-l.done
	l.account.Close()
	err := l.err
	if !well && l.told {
		err = nil
	}
	if well && err == nil {
		if err = l.commit(ctx); err == nil {
			err = l.account.Balanced()
		}
	}
	if l.owner != nil {
		l.owner.close()
	}
	return err
}

// The methods below also serve a source without a ledger.

func (l *Ledger) idle() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.account.Idle():
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
