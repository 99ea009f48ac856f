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
	"slices"
	"strconv"
	"sync"
	"time"

	"hafvf/internal/account"
)

// A Ledger commits the progress of a run in one process, for a runner that keeps no
// state over a restart. It knows how far the source has read, and the state of each key. When
// the runner rests, and no step keeps anything back, every record that was handed over is in a
// state, and its outputs are stored. The ledger then commits the states to the changelog and
// the group's offsets, in one transaction. A run that resumes from there repeats some outputs,
// with the same ids, and loses none.
type Ledger struct {
	cfg     LedgerConfig
	account *account.Run
	owner   *owner // of the changelog; nil without one
	stepper stepper

	// Set when the run begins.
	run     identity
	topics  map[string]topic
	opening map[string]committed // by the group, by partition
	start   map[string]committed // that the source starts at: found, unless it begins anew
	ends    map[string]int64     // of the partitions when it began; nil before they were asked for

	// Of the changelog. They change in the goroutine that commits alone.
	head       changelogHead
	partitions int               // of its topic
	keys       int               // that had states when it was read
	places     []keyPosition     // of its records, if the run begins anew
	parts      map[string]int    // of states that have several
	carried    map[string][]byte // states that the first commit stores in portions, by key

	mu                sync.Mutex
	stopped           bool
	restored          lastValues
	damaged           map[string]error            // by key, StoredState.Err
	ready             map[string][]byte           // states to be committed, by key
	pendingValues     map[string][]byte           // of StoreValue, to be committed
	restoredValues    map[string][]byte           // that the changelog held at the beginning
	storedIDs         map[string]bool             // ids that the changelog has
	waiting           map[string][]account.Offset // by key, observations that are in no output yet
	handed            map[string]Progress         // by partition
	reached           map[string]Progress         // to be committed
	beyond            bool                        // records were handed over after the last step
	committableBeyond bool                        // and are in what is to be committed
	paces             map[string]pace             // of the partitions, likewise
	worked            map[string]pace             // of all that was worked on
	watermark         int64                       // of the last step that is settled, in Unix milliseconds
	dirty             bool                        // something was handed over, or a step was made, since something was settled
	made              []pendingStep               // steps since then
	oldSteps          []string                    // ids of those before, which the changelog still has
	stored            map[string]int64            // offsets that were committed here
	renewed           time.Time                   // when all offsets were committed last
	final             time.Time                   // the watermark at the end of the past; zero before it
	err               error                       // of a commit; ends the run
	errReported       bool                        // of it, the source

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
	// Outputs describe what the run writes beside the changelog, by what they are called. The
	// head of the changelog has them, with group and topics, and a run that differs is
	// refused.
	Outputs map[string]string
	// Migrate accepts a changelog of a run with another group, other topics or outputs.
	Migrate bool
	// BeginAnew discards the states of the changelog and ignores the group's offsets.
	BeginAnew bool
	// Seal, if set, returns what is stored for the state of a key. It is called when the state
	// is written: all sealed states at once would take as much memory again.
	Seal func(key string, state []byte) []byte
	// Unseal, if set, appends what Open is to get of a stored state, in fewer bytes: the states of
	// all keys wait for Open. It is called by several goroutines.
	Unseal func(to []byte, key string, stored []byte) []byte
	// Open, if set, opens the stored states in place, one after the other in any order, before
	// anything is written. A state is valid until the next one. Open returns the last record of
	// each partition that the states include. OpenLedger returns its error. If another run commits
	// meanwhile, Open is called again. There are about so many keys with so many bytes in all.
	Open func(all iter.Seq[*StoredState], keys, bytes int) (included []Position, err error)
	// First are the states, by key, to begin with where the changelog has never had any, or there
	// is none.
	First map[string][]byte
	// History makes the run one over what the group has read, from the beginning of the topics up to the
	// offsets that it found. Open sees the states of the changelog, and the run begins without any. It
	// stores nothing. Unless Drain is set, its source does not end there, see Reached.
	History bool
	// Learned are states, by key, that replace those of the changelog, and LearnedTo are the group's
	// offsets up to which they hold, see Past. A ledger that finds other offsets is refused.
	Learned   map[string][]byte
	LearnedTo map[string]int64
	// AtEnd commits only when the run ends, because its outputs are stored only then.
	AtEnd bool
	// Lags is that of the source.
	Lags bool
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

// A StoredState is what a changelog holds of a key.
type StoredState struct {
	Position
	Key   string
	Bytes []byte
	// Err is set by LedgerConfig.Open if the state cannot be read. Restore returns it.
	Err error
	// Replaced is set by LedgerConfig.Open if the changelog is to hold another state. The
	// state goes there with the first commit.
	Replaced bool
	// Taken is set by LedgerConfig.Open if it has taken the state over, or left it out. Restore does
	// not return it.
	Taken bool
}

// Progress is how far a partition was read.
type Progress struct {
	Position       // of the next record
	High     int64 // the offset after the last record there is
	Lag      EventLag
	pace     pace
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
func ledgerOf(ctx context.Context) *Ledger { return account.Value[*Ledger](account.From(ctx), "") }

// OpenLedger opens a ledger. It reads the group's offsets first and the states second, so
// that the states are at least as new even if another run commits in between. The source
// starts at these offsets.
//
// OpenLedger returns a ResumeError if the changelog does not belong to the offsets, or if a
// topic was deleted and created again since.
func OpenLedger(ctx context.Context, cfg LedgerConfig) (*Ledger, error) {
	l := &Ledger{
		cfg: cfg, run: newIdentity(), ready: map[string][]byte{}, pendingValues: map[string][]byte{}, storedIDs: map[string]bool{}, waiting: map[string][]account.Offset{},
		handed: map[string]Progress{}, reached: map[string]Progress{}, paces: map[string]pace{}, stored: map[string]int64{},
		done: make(chan struct{}), stepper: stepper{until: map[string]int64{}, allows: map[string]int64{}, orders: make(chan commitOrder)},
	}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.commits, l.stopCommits = context.WithCancel(context.WithoutCancel(ctx))
	l.account = account.Open(account.StateKeeper{Idle: l.workedOn, Committed: l.setCommittable, InMemory: cfg.History, Restore: l.Restore, LogTime: l.logTime, Suspends: l.Suspends()})
	account.WithValue(l.account, "", l)
	l.worked, l.watermark = maps.Clone(l.paces), l.head.Watermark
	maps.Copy(l.stepper.allows, l.head.Until)
	if ms := l.head.Watermark; ms != 0 {
		l.stepper.at = time.UnixMilli(ms)
	}
	if !l.stepper.at.IsZero() && !cfg.History {
		l.account.Advance(l.stepper.at, l.head.Beyond)
		l.beyond, l.committableBeyond = l.head.Beyond, l.head.Beyond
	}
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
	if l.cfg.Group != "" && !l.cfg.History {
		l.cfg.Log.Info("this run commits the group's offsets", "group", l.cfg.Group, "run", l.run.Run, "host", l.run.Host, "pid", l.run.PID)
	}
	if err := l.readOffsets(ctx); err != nil {
		return err
	}
	batch := 0
	if l.cfg.History {
		err = l.findChangelog(ctx)
	} else if l.cfg.Changelog != "" {
		batch, err = l.openChangelog(ctx)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && l.owner != nil {
			l.owner.close()
		}
	}()
	for begun := time.Now(); ; {
		before, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		if err := l.read(ctx); err != nil {
			if l.owner == nil && errors.As(err, new(*ResumeError)) && time.Since(begun) < answerTime && l.moves(ctx, before) {
				if err := l.readOffsets(ctx); err != nil {
					return err
				}
				continue
			}
			return err
		}
		if l.cfg.Changelog == "" || l.cfg.History || l.owner != nil {
			break
		}
		if l.owner, err = own(ctx, l.cfg.Client.cluster, l.cfg.Changelog, l.cfg.Group, int32(batch)); err != nil {
			return err
		}
		after, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		was := l.opening
		if err := l.readOffsets(ctx); err != nil {
			return err
		}
		if maps.Equal(before, after) && maps.Equal(was, l.opening) {
			break
		}
	}
	l.start = l.opening
	if l.cfg.History {
		l.start, l.restored, l.damaged, l.carried = nil, lastValues{}, nil, nil
		return nil
	}
	if l.cfg.Learned != nil && !maps.Equal(l.cfg.LearnedTo, l.OpeningOffsets()) {
		return fmt.Errorf("another run of group %s has committed offsets while this one learned from the past: nothing of it is kept; stop that run, and start this one again", l.cfg.Group)
	}
	if l.cfg.BeginAnew {
		l.start = nil
		l.cfg.Log.Warn("beginning anew: the group's offsets are not looked at", "group", l.cfg.Group, "partitions", len(l.opening))
	}
	// Of an offset that was set by hand the changelog knows how far the times of the partition had come.
	maps.DeleteFunc(l.paces, func(log string, _ pace) bool { return l.start[log] == committed{} })
	for log, at := range l.start {
		if n := readNote(at.metadata); n.Run != "" {
			l.paces[log] = n.pace
		}
	}
	gives := l.gives()
	if l.owner != nil {
		if err := l.claimChangelog(ctx, gives); err != nil {
			return err
		}
	}
	if gives {
		l.beginWith(l.cfg.First)
	}
	return nil
}

// hadStates reports whether the changelog has states, or had some whose keys were forgotten.
func (l *Ledger) hadStates() bool { return l.keys > 0 || l.head.Stored }

// gives reports whether the run begins with the states that it is given.
func (l *Ledger) gives() bool {
	return len(l.cfg.First) > 0 && (!l.hadStates() || l.cfg.BeginAnew || l.head.Unfinished == beginning)
}

// readOffsets reads the group's offsets.
func (l *Ledger) readOffsets(ctx context.Context) error {
	return askPatiently(ctx, startTimeout, l.cfg.Log, func(ctx context.Context) (err error) {
		l.opening, err = l.groupOffsets(ctx, partitionsOf(l.topics))
		return err
	})
}

// moves reports whether another run commits, and waits a moment if it does. Of a commit that
// is under way, brokers may show the offsets before the states, and one partition before
// another. ends are what changelogEnds returned before the changelog was read.
func (l *Ledger) moves(ctx context.Context, ends map[string]int64) bool {
	open, err := l.changelogEnds(ctx, false)
	if err != nil || maps.Equal(ends, open) {
		return false
	}
	select {
	case <-time.After(firstPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// changelogEnds are the ends of the changelog's partitions, with committed those without an
// open transaction.
func (l *Ledger) changelogEnds(ctx context.Context, committed bool) (map[string]int64, error) {
	if l.cfg.Changelog == "" {
		return nil, nil
	}
	own, err := l.cfg.Client.describe(ctx, []string{l.cfg.Changelog})
	if err != nil {
		return nil, err
	}
	return l.cfg.Client.offsets(ctx, partitionsOf(own), atEnd, committed)
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
	if l.owner != nil {
		l.carried = maps.Clone(states)
		for key := range l.restored.All() {
			if _, ok := states[key]; !ok {
				l.carried[key] = nil // of a run that was given other states
			}
		}
	}
	l.restored = lastValues{}
	for key, b := range states {
		l.restored.put(key, lastValue{bytes: b})
	}
	l.cfg.Log.Info("keys begin with given states", "keys", len(states))
}

// openChangelog creates the changelog where it does not exist. It returns the largest
// batch that the topic takes, in bytes.
func (l *Ledger) openChangelog(ctx context.Context) (batch int, err error) {
	topic := l.cfg.Changelog
	_, err = l.cfg.Client.describe(ctx, []string{topic})
	if errors.As(err, new(*unknownTopicsError)) {
		if !l.cfg.BeginAnew {
			if err := l.lost(false); err != nil {
				return 0, err
			}
		}
		var created bool
		created, err = l.cfg.Client.Create(ctx, topic, 0, map[string]string{cleanupPolicy: "compact", largestBatch: fmt.Sprint(changelogBytes)})
		if created {
			l.cfg.Log.Info("the changelog was created", "topic", topic)
		}
	}
	if err != nil {
		return 0, err
	}
	return l.largestBatch(ctx)
}

// The settings of a changelog's topic.
const cleanupPolicy, largestBatch = "cleanup.policy", "max.message.bytes"

// largestBatch returns the largest batch that the changelog takes, in bytes.
func (l *Ledger) largestBatch(ctx context.Context) (batch int, err error) {
	config, err := l.cfg.Client.Config(ctx, l.cfg.Changelog, cleanupPolicy, largestBatch)
	if err != nil {
		return 0, err
	}
	if is := config[cleanupPolicy]; is != "compact" {
		return 0, fmt.Errorf("the changelog %s has cleanup.policy %q: states would be lost; it has to be compact", l.cfg.Changelog, is)
	}
	if batch, err = strconv.Atoi(config[largestBatch]); err != nil {
		batch = batchBytes // a broker that does not say
	}
	return min(max(batch, leastBatch), changelogBytes), nil
}

// restore reads the changelog.
func (l *Ledger) restore(ctx context.Context) error {
	topic, start := l.cfg.Changelog, time.Now()
	s, err := readStored(ctx, l.cfg.Client, topic, l.cfg.Unseal, l.cfg.Log)
	if err != nil {
		return err
	}
	l.restored, l.damaged, l.keys = s.states, nil, s.states.Len()
	l.head, l.partitions, l.parts = s.head, s.partitions, s.parts
	if l.cfg.BeginAnew {
		l.places = slices.Collect(s.places())
		return nil
	}
	l.restoredValues = s.values
	for id := range s.values {
		l.storedIDs[id] = true
	}
	for log, value := range s.paces {
		var p pace
		if err := json.Unmarshal(value, &p); err != nil {
			return &ResumeError{fmt.Errorf("the changelog %s: the pace of %s cannot be read: %w", topic, log, err)}
		}
		l.paces[log] = p
	}
	l.stepper.repeat = nil
	for _, id := range slices.Sorted(maps.Keys(s.steps)) {
		m := pendingStep{id: id}
		if err := json.Unmarshal(s.steps[id], &m); err != nil {
			return &ResumeError{fmt.Errorf("the changelog %s: a step of the watermark cannot be read: %w", topic, err)}
		}
		l.stepper.repeat = append(l.stepper.repeat, m)
	}
	if s.states.Len() > 0 || s.headAt.bytes != nil || len(s.marks) > 0 {
		if err := s.check(topic); err != nil {
			return &ResumeError{err}
		}
	}
	l.cfg.Log.Info("states were restored", "topic", topic, "keys", l.keys, "took", time.Since(start).Round(time.Millisecond).String())
	return nil
}

// checkStates opens and checks the restored states.
func (l *Ledger) checkStates(ctx context.Context) error {
	if err := l.lost(true); err != nil {
		return err
	}
	if l.head.ID != "" {
		if err := cmp.Or(l.refuseUnfinished(), l.refuseUse()); err != nil {
			return err
		}
	}
	if len(l.opening) > 0 && !l.hadStates() {
		l.cfg.Log.Info("the run before kept no state: keys start without states at the group's offsets", "group", l.cfg.Group)
	}
	if l.cfg.Open == nil || l.gives() {
		return nil
	}
	var opened lastValues
	l.carried, l.damaged = map[string][]byte{}, map[string]error{}
	included, err := l.cfg.Open(func(yield func(*StoredState) bool) {
		for key, b := range l.restored.Drain() {
			v := lastValueOf(b)
			s := StoredState{Position: v.position(l.cfg.Changelog), Key: key, Bytes: v.bytes}
			more := yield(&s)
			switch v.bytes = s.Bytes; {
			case s.Err != nil:
				l.damaged[key] = s.Err
			case !s.Taken:
				opened.put(key, v)
			}
			if s.Replaced {
				l.carried[key] = bytes.Clone(s.Bytes)
			}
			if !more {
				return
			}
		}
	}, l.restored.Len(), l.restored.Live())
	if err != nil {
		return err
	}
	for key, b := range l.cfg.Learned {
		l.carried[key] = b
		opened.put(key, lastValue{bytes: b})
	}
	l.restored = opened
	return l.checkIncluded(ctx, included)
}

// claimChangelog writes the head of the changelog, which says whose it is now. A run that begins
// anew also deletes the states. With gives the run begins with the states that it is given.
func (l *Ledger) claimChangelog(ctx context.Context, gives bool) error {
	was := l.head.ID
	if err := l.newHead(ctx); err != nil {
		return err
	}
	next, discards := "", len(l.places) > 0
	if gives {
		next = beginning
	}
	if l.head.Unfinished = next; discards {
		l.head.Unfinished = discarding
	}
	err := l.commitOwned(ctx, func(e *commitEntries, yield func(entry) bool) bool {
		for p := range len(l.head.Marks) {
			if l.head.ID == was {
				break
			}
			e.wrote[int32(p)] = true
			if !yield(entry{partition: int32(p), key: []byte(bottomKey), value: []byte{}}) {
				return false
			}
		}
		return true
	}, nil)
	if err != nil || !discards {
		return err
	}
	if err := l.discard(ctx, next); err != nil {
		return err
	}
	l.cfg.Log.Warn("beginning anew: states were discarded", "topic", l.cfg.Changelog, "keys", l.keys)
	l.restored = lastValues{}
	clear(l.parts)
	return nil
}

// discard deletes the states, in transactions of bounded size. The last one makes next what is
// unfinished.
func (l *Ledger) discard(ctx context.Context, next string) error {
	for len(l.places) > 0 {
		n, size := 0, 0
		for n < len(l.places) && size < portionBytes {
			size += len(l.places[n].key) + recordOverhead
			n++
		}
		portion := l.places[:n]
		if l.places = l.places[n:]; len(l.places) == 0 {
			l.head.Unfinished = next
		}
		err := l.commitOwned(ctx, func(e *commitEntries, yield func(entry) bool) bool {
			for _, at := range portion {
				e.wrote[at.partition] = true
				if !yield(entry{partition: at.partition, key: []byte(at.key)}) {
					return false
				}
			}
			return true
		}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// carry stores states that need not be stored together, in transactions of bounded size.
func (l *Ledger) carry(ctx context.Context, states map[string][]byte) error {
	portion, size := map[string][]byte{}, 0
	for key, state := range states {
		portion[key] = state
		if size += len(key) + len(state) + recordOverhead; size >= portionBytes {
			if err := l.commitOwned(ctx, l.entries(portion), nil); err != nil {
				return err
			}
			clear(portion)
			size = 0
		}
	}
	if len(portion) == 0 {
		return nil
	}
	return l.commitOwned(ctx, l.entries(portion), nil)
}

// Restore returns the state that a key had when the ledger was opened, or nil. The error is
// StoredState.Err. A second call for the key returns nil.
func (l *Ledger) Restore(key string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.damaged[key]; err != nil {
		delete(l.damaged, key)
		return nil, err
	}
	v, ok := l.restored.get(key)
	if !ok {
		return nil, nil
	}
	b := bytes.Clone(v.bytes)
	l.restored.Put(key, nil)
	return b, nil
}

// Take hands over the states that Restore would return, without those that cannot be read. A state
// is valid during the call. The ledger keeps those that take refuses.
func (l *Ledger) Take(take func(key string, state []byte) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kept lastValues
	for key, b := range l.restored.Drain() {
		if v := lastValueOf(b); !take(key, v.bytes) {
			kept.put(key, v)
		}
	}
	l.restored = kept
}

// workedOn notes how far the partitions have come, now that nothing is in flight.
func (l *Ledger) workedOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for log, p := range l.handed {
		l.worked[log] = p.pace
	}
}

// setCommittable notes what holds now that nothing is in flight, and no step keeps anything back.
func (l *Ledger) setCommittable(states map[string]account.EncodedState, since time.Time) {
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
		if l.owner != nil || l.cfg.History {
			l.ready[key] = s.State
		}
	}
	l.committableBeyond, l.dirty = l.beyond, false
	for _, m := range l.made {
		l.watermark, l.oldSteps = m.Watermark, append(l.oldSteps, m.id)
	}
	l.made = nil
	maps.Copy(l.reached, l.handed)
	for log, p := range l.handed {
		l.paces[log] = p.pace
	}
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
			l.errReported = true
			return l.err
		}
		if n > 0 {
			if l.stopped && l.Suspends() {
				return errSuspends
			}
			l.stage("read", since)
		}
		l.beyond, l.dirty = l.beyond || n > 0, l.dirty || n > 0
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
			if !l.cfg.AtEnd && !l.commitNow(commitOrder{}) {
				return
			}
		case o := <-l.stepper.orders:
			if !l.commitNow(o) {
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// commitNow commits, and reports whether there may be a next time.
func (l *Ledger) commitNow(o commitOrder) bool {
	err := l.commit(l.commits, o)
	if o.done != nil {
		o.done <- err
	}
	if err == nil || l.commits.Err() != nil {
		return true
	}
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	return false
}

// commit stores the states that are ready and the offsets, after the outputs, with what an order
// says. It fails if another run has taken over.
func (l *Ledger) commit(ctx context.Context, o commitOrder) error {
	if l.cfg.History {
		return nil
	}
	l.mu.Lock()
	states, keeping := l.ready, l.pendingValues
	l.ready, l.pendingValues = map[string][]byte{}, map[string][]byte{}
	var step *pendingStep
	before := l.watermark
	switch {
	case o.watermark == 0:
	case l.dirty:
		step = &pendingStep{Watermark: o.watermark, At: o.at, id: fmt.Sprintf("%016x", l.head.Commit+1)}
		l.makes(*step)
	default:
		l.watermark, l.beyond, l.committableBeyond, l.dirty = o.watermark, false, false, true
	}
	watermark, oldSteps, beyond := l.watermark, l.oldSteps, l.committableBeyond
	l.oldSteps = nil
	start := time.Now()
	renews := start.Sub(l.renewed) >= renewEvery
	offsets, paces := l.offsets(renews), map[string]pace{}
	for log := range offsets {
		paces[log] = l.paces[log]
	}
	l.mu.Unlock()
	writes := (renews || !o.empty()) && l.owner != nil
	if len(states) == 0 && len(keeping) == 0 && len(offsets) == 0 && len(oldSteps) == 0 && !writes {
		return nil
	}
	defer l.stage("commit", start)
	err := l.checkGroup(ctx)
	if err == nil && l.cfg.Sync != nil {
		err = l.cfg.Sync()
	}
	if err == nil && len(l.carried) > 0 {
		for key := range states {
			delete(l.carried, key)
		}
		if err = l.carry(ctx, l.carried); err == nil {
			l.carried, l.head.Unfinished = nil, ""
		}
	}
	if err == nil {
		// What the head says of states and offsets is stored with these: a head that was changed before
		// would go into the changelog when the run ends, if this fails.
		was := l.head
		l.head.Watermark, l.head.Beyond = watermark, beyond
		l.head.Until = maps.Clone(was.Until)
		maps.DeleteFunc(l.head.Until, func(log string, until int64) bool { return offsets[log].Offset >= until })
		if o.until != 0 {
			if l.head.Until == nil {
				l.head.Until = map[string]int64{}
			}
			l.head.Until[o.log] = o.until
		}
		if err = l.store(ctx, states, keeping, offsets, paces, step, oldSteps, writes); err != nil {
			l.head.Watermark, l.head.Beyond, l.head.Until = was.Watermark, was.Beyond, was.Until
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		maps.Copy(states, l.ready) // what came since holds
		maps.Copy(keeping, l.pendingValues)
		l.ready, l.pendingValues, l.oldSteps = states, keeping, append(oldSteps, l.oldSteps...)
		if o.watermark != 0 && step == nil {
			l.watermark = before
		}
		return err
	}
	for id, value := range keeping {
		if l.storedIDs[id] = true; value == nil {
			delete(l.storedIDs, id)
		}
	}
	for log, p := range offsets {
		l.stored[log] = p.Offset
	}
	if renews {
		l.renewed = start
	}
	return nil
}

// store writes states, what Keep holds, offsets with their paces, and a step, nil for none, and deletes old
// steps; if writes is set, to the changelog in any case.
// Without a changelog nothing refuses a run that another one has replaced: it moves offsets,
// which repeats records, and has no states to spoil.
func (l *Ledger) store(ctx context.Context, states, keeping map[string][]byte, offsets map[string]Position, paces map[string]pace, step *pendingStep, oldSteps []string, writes bool) error {
	notes := map[string]committed{}
	if l.cfg.Group != "" {
		for log, p := range offsets {
			t := l.topics[p.Topic]
			n := note{identity: l.run, Topic: t.id, Epoch: t.epochs[p.Partition], Changelog: l.head.ID, pace: paces[log]}
			if l.owner != nil {
				n.Commit = l.head.Commit + 1
			}
			text, err := json.Marshal(n)
			if err != nil {
				return err
			}
			notes[log] = committed{p.Offset, string(text)}
		}
	}
	switch {
	case len(states) == 0 && len(keeping) == 0 && len(notes) == 0 && len(oldSteps) == 0 && !writes:
		return nil
	case l.owner == nil:
		return l.persist(ctx, "committed", func(ctx context.Context) error { return l.cfg.Client.commit(ctx, l.cfg.Group, notes) })
	}
	write := l.entries(states)
	return l.commitOwned(ctx, func(e *commitEntries, yield func(entry) bool) bool {
		for id, value := range keeping {
			if !e.own(outputKeyPrefix+id, value, yield) {
				return false
			}
		}
		for log, p := range paces {
			text, err := json.Marshal(p)
			if err == nil && !e.own(paceKey+log, text, yield) {
				return false
			}
		}
		for _, id := range oldSteps {
			if !e.own(stepKey+id, nil, yield) {
				return false
			}
		}
		if step != nil {
			text, err := json.Marshal(step)
			if err == nil && !e.own(stepKey+step.id, text, yield) {
				return false
			}
		}
		return write(e, yield)
	}, notes)
}

// Durable reports whether there is a changelog, which Keep needs.
func (l *Ledger) Durable() bool { return l.owner != nil }

// StoreValue has the changelog hold a value under an id from the next commit on, until it is called
// with nil. It does nothing without a changelog.
func (l *Ledger) StoreValue(id string, value []byte) {
	if l.owner == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, pending := l.pendingValues[id]; value == nil && pending && !l.storedIDs[id] {
		delete(l.pendingValues, id) // nobody has to know
		return
	}
	l.pendingValues[id] = value
}

// StoredValues is what the changelog held of StoreValue when the run began, by id.
func (l *Ledger) StoredValues() map[string][]byte { return l.restoredValues }

// entries yields those of states, by key, and of deletions, which are nil. Each is made
// when it is written: all at once would take as much memory again.
func (l *Ledger) entries(states map[string][]byte) func(*commitEntries, func(entry) bool) bool {
	return func(e *commitEntries, yield func(entry) bool) bool {
		for key, state := range states {
			if state != nil && l.cfg.Seal != nil {
				state = l.cfg.Seal(key, state)
			}
			if !e.state(key, state, yield) {
				return false
			}
		}
		return true
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
	if !all {
		maps.DeleteFunc(changed, func(log string, p Position) bool {
			at, ok := l.stored[log]
			return ok && at == p.Offset
		})
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

// Lag is Lag for the ledger's source: the records count that were not handed over yet.
func (l *Ledger) Lag() (records map[string]int64, age time.Duration) {
	l.mu.Lock()
	handed := maps.Clone(l.handed)
	l.mu.Unlock()
	return l.cfg.Client.lag(l.ctx, handed)
}

// Close closes the ledger. If the run went well, it commits for the last time. An
// earlier commit error that has already ended the source is returned again only if the
// run went well.
func (l *Ledger) Close(ctx context.Context, well bool) (err error) {
	l.cancel()
	defer l.stopCommits()
	if well {
		defer context.AfterFunc(ctx, l.stopCommits)()
		asking, over := context.WithCancel(l.commits)
		answers := make(chan error, 1)
		go func() { answers <- l.awaitAnswers(asking) }()
		defer func() {
			over()
			if silent := <-answers; silent != nil && err != nil {
				err = fmt.Errorf("the run was stopped, and what it did since the last commit is not committed: the next one repeats it: %w", silent)
			}
		}()
	} else {
		l.stopCommits()
	}
	<-l.done
	l.account.Close()
	err = l.err
	if !well && l.errReported {
		err = nil
	}
	if well && err == nil {
		err = l.commit(l.commits, commitOrder{})
	}
	if l.owner != nil {
		l.markEnded(l.commits, well)
		l.owner.close()
	}
	return err
}

// awaitAnswers stops the commits of a run that was stopped, and returns why, once no broker has
// answered for account.StopTimeout. It returns nil when ctx ends. A commit may take long, but not
// without answers.
func (l *Ledger) awaitAnswers(ctx context.Context) (why error) {
	const every = 500 * time.Millisecond
	for last := time.Now(); l.account.IsStopped(); {
		within, cancel := context.WithTimeout(ctx, 2*every)
		_, err := l.cfg.Client.metadata(within, []string{})
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			last = time.Now()
		case time.Since(last) > account.StopTimeout:
			l.stopCommits()
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
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
