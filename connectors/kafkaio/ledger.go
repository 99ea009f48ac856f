package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
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
	opening map[string]partitionProgress // that the group had committed, by partition
	start   map[string]partitionProgress // where the source starts: there, unless the run begins anew
	ends    map[string]int64             // of the partitions when it began; nil before they were asked for

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
	damaged           map[string]error             // by key, StoredState.Err
	ready             map[string][]byte            // states to be committed, by key
	pendingValues     map[string][]byte            // of StoreValue, to be committed
	restoredValues    map[string][]byte            // that the changelog held at the beginning
	storedIDs         map[string]bool              // ids that the changelog has
	waiting           map[string][]account.Offset  // by key, observations that are in no output yet
	handed            map[string]partitionProgress // by partition
	reached           map[string]partitionProgress // to be committed
	beyond            bool                         // records were handed over after the last step
	committableBeyond bool                         // and are in what is to be committed
	worked            map[string]partitionProgress // up to which all was worked on; before, what the changelog has of them
	watermark         int64                        // of the last step that is settled, in Unix milliseconds
	dirty             bool                         // something was handed over, or a step was made, since something was settled
	made              []pendingStep                // steps since then
	oldSteps          []string                     // ids of those before, which the changelog still has
	stored            map[string]partitionProgress // that was committed here
	renewed           time.Time                    // when all offsets were committed last
	final             time.Time                    // the watermark at the end of the past; zero before it
	err               error                        // of a commit; ends the run
	errReported       bool                         // of it, the source

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
	// anything is written. A state is valid until the next one. Open returns the offset of
	// the last record of each partition, by Position.Log, that the states include. OpenLedger returns its error. If another run commits
	// meanwhile, Open is called again. There are about so many keys with so many bytes in all.
	Open func(all iter.Seq[*StoredState], keys, bytes int) (included map[string]int64, err error)
	// First are the states, by key, to begin with where the changelog has never had any, or there
	// is none.
	First map[string][]byte
	// History makes the run one over what the group has read, from the beginning of the topics up to the
	// offsets that it found. Open sees the states of the changelog, and the run begins without any. It
	// stores nothing. Unless Drain is set, its source does not end there, see CaughtUp.
	History bool
	// Learned are states, by key, that replace those of the changelog, and LearnedTo are the group's
	// offsets up to which they hold, see History. A ledger that finds other offsets is refused.
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

// partitionProgress is how far a partition was read.
type partitionProgress struct {
	Position       // of the next record
	High     int64 // the offset after the last record there is; not of what is committed
	Lag      EventLag
	pace
	metadata string // of what is committed: what the one who did so has said of it, see note
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
		handed: map[string]partitionProgress{}, reached: map[string]partitionProgress{}, worked: map[string]partitionProgress{}, stored: map[string]partitionProgress{},
		done: make(chan struct{}), stepper: stepper{until: map[string]int64{}, allows: map[string]int64{}, orders: make(chan commitOrder)},
	}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.commits, l.stopCommits = context.WithCancel(context.WithoutCancel(ctx))
	l.account = account.Open(account.StateKeeper{Idle: l.workedOn, Committed: l.setCommittable, Commit: l.commitAtOnce, InMemory: cfg.History, Restore: l.Restore, LogTime: l.logTime, Suspends: l.Suspends()})
	account.WithValue(l.account, "", l)
	l.watermark = l.head.Watermark
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
	if err := l.readAndOwn(ctx, batch); err != nil {
		return err
	}
	if l.cfg.History {
		l.restored, l.damaged, l.carried = lastValues{}, nil, nil
		return nil
	}
	if l.cfg.Learned != nil && !maps.Equal(l.cfg.LearnedTo, l.OpeningOffsets()) {
		return fmt.Errorf("another run of group %s has committed offsets while this one learned from the past: nothing of it is kept; stop that run, and start this one again", l.cfg.Group)
	}
	if l.cfg.BeginAnew {
		l.cfg.Log.Warn("beginning anew: the group's offsets are not looked at", "group", l.cfg.Group, "partitions", len(l.opening))
	} else {
		l.start = maps.Clone(l.opening)
	}
	for log, at := range l.start {
		if readNote(at.metadata).Run == "" && (at.Offset > 0 || at.metadata != "") {
			at.pace = l.worked[log].pace // the offset was set by hand, and the changelog knows how far the times had come
			l.start[log] = at
		}
	}
	maps.Copy(l.reached, l.start)
	l.worked = maps.Clone(l.reached)
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

// readAndOwn reads the states until they belong to the offsets, and takes the changelog over: what another run
// commits meanwhile is read again.
func (l *Ledger) readAndOwn(ctx context.Context, batch int) error {
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
			return nil
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
			return nil
		}
	}
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

func (l *Ledger) stage(name string, since time.Time) {
	if l.cfg.Stage != nil {
		l.cfg.Stage(name, time.Since(since))
	}
}

var errSuspends = errors.New("the run is being suspended")

// handOver hands over n records, after which the partitions are where progress says.
// The first of them was taken at since. A run that is being suspended takes no more.
func (l *Ledger) handOver(ctx context.Context, progress []partitionProgress, n int, since time.Time) error {
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

// Stop makes the source stop reading. If positions are committed, the source suspends:
// it does not end, because an end of input would release waiting observations early. The
// caller cancels the run when nothing is in flight. Otherwise the source ends.
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
	l.mu.Lock()
	if err = l.err; !well && l.errReported {
		err = nil
	}
	l.mu.Unlock()
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
