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

// A Ledger commits the progress of a run in one process, for a runner that keeps no state over a restart. It tracks
// the offsets that the source has read and the state of each key. When the runner is idle and no step buffers results,
// every record that was handed over is part of a state, and its outputs are stored. The ledger then commits the states
// to the changelog and the group's offsets, in one transaction. A run that resumes from this commit repeats some
// outputs, with the same ids, and loses none.
type Ledger struct {
	cfg     LedgerConfig
	account *account.Run
	owner   *owner // of the changelog; nil without one
	stepper stepper

	// Set when the run starts.
	run     identity
	topics  map[string]topic
	opening map[string]partitionProgress // offsets that the group had committed, by partition
	start   map[string]partitionProgress // where the source starts, by partition: opening, or empty with DiscardStates
	ends    map[string]int64             // ends of the partitions when the run started; nil until they are needed

	// About the changelog. Only the goroutine that commits changes them.
	head          changelogHead
	partitions    int               // of the changelog's topic
	keys          int               // number of keys with states when the changelog was read
	oldRecords    []keyPosition     // positions of all records to delete, with DiscardStates
	parts         map[string]int    // number of parts of each state that has several, by key
	initialStates map[string][]byte // states that the first commit stores in portions, by key; nil deletes

	mu                    sync.Mutex
	stopped               bool
	restored              lastValues
	damaged               map[string]error             // StoredState.Err by key
	ready                 map[string][]byte            // states to commit, by key
	pendingValues         map[string][]byte            // values of StoreValue to commit, by id
	restoredValues        map[string][]byte            // values of StoreValue in the changelog when the run started
	storedIDs             map[string]bool              // ids of StoreValue that the changelog contains
	waiting               map[string][]account.Offset  // observations that are in no output yet, by key
	handedOver            map[string]partitionProgress // by partition
	committable           map[string]partitionProgress // offsets to commit, by partition
	beyondStep            bool                         // records were handed over after the last step
	committableBeyondStep bool                         // some of these records are in the states to commit
	processed             map[string]partitionProgress // position up to which all records are processed; at the start, from the changelog
	watermark             int64                        // of the last settled step, in Unix milliseconds
	dirty                 bool                         // a handover or a step has happened since the last settled moment
	pendingSteps          []pendingStep                // steps that are not settled
	oldSteps              []string                     // ids of settled steps to delete from the changelog
	committed             map[string]partitionProgress // positions that this run has committed
	renewed               time.Time                    // time of the last commit of all offsets
	finalWatermark        time.Time                    // watermark at the end of the history; zero until then
	err                   error                        // error of a commit; ends the run
	errReported           bool                         // err was returned to the source

	ctx         context.Context // context of the consumers
	cancel      context.CancelFunc
	commits     context.Context // context of commits; ends later than ctx, because a cancelled commit cannot be repeated
	stopCommits context.CancelFunc
	done        chan struct{}
}

// A LedgerConfig configures what a ledger commits, and where.
type LedgerConfig struct {
	Client *Client  // cluster of the topics; the caller closes it
	Topics []string // topics of the source
	Group  string   // group whose offsets are committed; empty for none
	// Changelog is the compacted topic of the states, empty for none. It is created if it does not exist.
	Changelog string
	// Outputs describes the outputs of the run except the changelog, by name. The head of the changelog stores it with
	// group and topics. A run with other values is refused, see Migrate.
	Outputs map[string]string
	// Migrate accepts a changelog of a run with another group, other topics or outputs.
	Migrate bool
	// DiscardStates discards the states of the changelog and ignores the group's offsets.
	DiscardStates bool
	// Seal, if set, converts the state of a key to its stored form. It is called for one state at a time as they are
	// written, because all sealed states would double the memory.
	Seal func(key string, state []byte) []byte
	// Unseal, if set, appends to its first argument what Open needs of a stored state, in fewer bytes: the states of
	// all keys wait for Open. Several goroutines call it concurrently.
	Unseal func(dst []byte, key string, stored []byte) []byte
	// Open, if set, opens the stored states in place, in any order, before anything is written. A state is valid until
	// the next one. keys and bytes estimate their number and total size. Open returns the offset of the last record of
	// each partition, by Position.Log, that the states include. OpenLedger returns its error. If another run commits
	// meanwhile, Open is called again.
	Open func(states iter.Seq[*StoredState], keys, bytes int) (included map[string]int64, err error)
	// InitialStates holds the states, by key, from which a run starts if there is no changelog, if the changelog has
	// never had states, or with DiscardStates.
	InitialStates map[string][]byte
	// History makes the run replay the history of the group: the records from the beginning of the topics up to the
	// group's offsets. Open sees the states of the changelog, but the run starts without states and stores nothing.
	// Unless EndOnStop is set, the source does not end there; see CaughtUp.
	History bool
	// ReplayedStates holds states, by key, that replace the states of the changelog. They come from a run with History.
	// ReplayedTo holds the group's offsets up to which that run has read. OpenLedger fails if the group's offsets
	// differ from ReplayedTo.
	ReplayedStates map[string][]byte
	ReplayedTo     map[string]int64
	// CommitAtEnd makes the ledger commit only when the run ends, because the outputs are stored only then.
	CommitAtEnd bool
	// SubtractLag equals Source.SubtractLag.
	SubtractLag bool
	// EndOnStop makes Stop end the source even if positions are committed. It is for runners that hold records outside
	// of states.
	EndOnStop bool
	Log       *slog.Logger
	// Sync, if set, is called before each commit to fsync outputs that are not in Kafka.
	Sync func() error
	// OnStage, if set, is called with the duration of each stage of a group of records: "read" (gathering the records
	// and waiting for the previous group), "process" (until all outputs are stored) and "commit".
	OnStage func(name string, took time.Duration)
}

// A partitionProgress is the position in a partition up to which records were read.
type partitionProgress struct {
	Position       // of the next record
	High     int64 // offset after the partition's last record; not set for committed offsets
	Lag      EventLag
	pace
	metadata string // metadata of the committed offset, written by whoever committed it; see note
}

const (
	// commitEvery is the time between commits.
	commitEvery = time.Second
	// renewEvery is the time between commits of all offsets, including unchanged ones. By default, brokers forget a
	// partition's offset, and the owner of a changelog, seven days after the last write (offsets.retention.minutes,
	// transactional.id.expiration.ms).
	renewEvery = 24 * time.Hour
	// changelogBytes is the maximum batch size of a changelog, and the max.message.bytes of a new one.
	changelogBytes = 16 << 20
	// minBatch is the minimum batch limit that franz-go accepts, in bytes.
	minBatch = 512
)

// ledgerOf returns the ledger of the run to which a node's context belongs, or nil.
func ledgerOf(ctx context.Context) *Ledger { return account.Value[*Ledger](account.From(ctx), "") }

// OpenLedger opens a ledger. It reads the group's offsets before the states, so that the states are at least as new as
// the offsets even if another run commits in between. The source starts at these offsets.
//
// OpenLedger returns a ResumeError if the changelog does not belong to the offsets, or if a topic was deleted and
// created again.
func OpenLedger(ctx context.Context, cfg LedgerConfig) (*Ledger, error) {
	l := &Ledger{
		cfg: cfg, run: newIdentity(), ready: map[string][]byte{}, pendingValues: map[string][]byte{}, storedIDs: map[string]bool{}, waiting: map[string][]account.Offset{},
		handedOver: map[string]partitionProgress{}, committable: map[string]partitionProgress{}, processed: map[string]partitionProgress{}, committed: map[string]partitionProgress{},
		done: make(chan struct{}), stepper: stepper{previousUntil: map[string]int64{}, allowedUntil: map[string]int64{}, requests: make(chan commitRequest)},
	}
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.commits, l.stopCommits = context.WithCancel(context.WithoutCancel(ctx))
	l.account = account.Open(account.StateKeeper{Idle: l.setProcessed, Committed: l.setCommittable, Commit: l.commitNow, InMemory: cfg.History, Restore: l.Restore, LogTime: l.logTime, Suspends: l.Suspends()})
	account.WithValue(l.account, "", l)
	l.watermark = l.head.Watermark
	maps.Copy(l.stepper.allowedUntil, l.head.Until)
	if ms := l.head.Watermark; ms != 0 {
		l.stepper.watermark = time.UnixMilli(ms)
	}
	if !l.stepper.watermark.IsZero() && !cfg.History {
		l.account.Advance(l.stepper.watermark, l.head.Beyond)
		l.beyondStep, l.committableBeyondStep = l.head.Beyond, l.head.Beyond
	}
	go l.commitLoop()
	return l, nil
}

// begin reads and checks offsets and states, and then becomes the owner of the changelog. The checks come first, so
// that a run that cannot start does not end a running one. If the running one commits in between, begin reads both
// again.
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
		l.restored, l.damaged, l.initialStates = lastValues{}, nil, nil
		return nil
	}
	if l.cfg.ReplayedStates != nil && !maps.Equal(l.cfg.ReplayedTo, l.OpeningOffsets()) {
		return fmt.Errorf("another run of group %s committed offsets while this one learned from the history: the result is discarded; stop that run, and start this one again", l.cfg.Group)
	}
	if l.cfg.DiscardStates {
		l.cfg.Log.Warn("--begin-anew: ignoring the offsets of the group", "group", l.cfg.Group, "partitions", len(l.opening))
	} else {
		l.start = maps.Clone(l.opening)
	}
	for log, p := range l.start {
		if readNote(p.metadata).Run == "" && (p.Offset > 0 || p.metadata != "") {
			p.pace = l.processed[log].pace // the offset was set by hand: the changelog has the pace of the partition
			l.start[log] = p
		}
	}
	maps.Copy(l.committable, l.start)
	l.processed = maps.Clone(l.committable)
	usesFirst := l.usesFirst()
	if l.owner != nil {
		if err := l.claimChangelog(ctx, usesFirst); err != nil {
			return err
		}
	}
	if usesFirst {
		l.startFrom(l.cfg.InitialStates)
	}
	return nil
}

// readAndOwn becomes the owner of the changelog. It reads the states until they belong to the offsets, and reads both
// again if another run commits meanwhile. batch is the maximum batch size of the changelog in bytes.
func (l *Ledger) readAndOwn(ctx context.Context, batch int) error {
	for begun := time.Now(); ; {
		before, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		if err := l.read(ctx); err != nil {
			if l.owner == nil && errors.As(err, new(*ResumeError)) && time.Since(begun) < answerTime && l.otherOwnerActive(ctx, before) {
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
		if l.owner, err = takeOwnership(ctx, l.cfg.Client.cluster, l.cfg.Changelog, l.cfg.Group, int32(batch)); err != nil {
			return err
		}
		after, err := l.changelogEnds(ctx, true)
		if err != nil {
			return err
		}
		prevOpening := l.opening
		if err := l.readOffsets(ctx); err != nil {
			return err
		}
		if maps.Equal(before, after) && maps.Equal(prevOpening, l.opening) {
			return nil
		}
	}
}

// readOffsets reads the group's offsets into l.opening.
func (l *Ledger) readOffsets(ctx context.Context) error {
	return askPatiently(ctx, startTimeout, l.cfg.Log, func(ctx context.Context) (err error) {
		l.opening, err = l.groupOffsets(ctx, partitionsOf(l.topics))
		return err
	})
}

// otherOwnerActive reports whether another run is committing, and pauses briefly if it is. ends are the results of
// changelogEnds before the changelog was read. During a commit, brokers may show the offsets before the states, and
// one partition before another.
func (l *Ledger) otherOwnerActive(ctx context.Context, ends map[string]int64) bool {
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

// changelogEnds returns the end offsets of the changelog's partitions. With committed, an end is the offset before the
// first open transaction.
func (l *Ledger) changelogEnds(ctx context.Context, committed bool) (map[string]int64, error) {
	if l.cfg.Changelog == "" {
		return nil, nil
	}
	topics, err := l.cfg.Client.describe(ctx, []string{l.cfg.Changelog})
	if err != nil {
		return nil, err
	}
	return l.cfg.Client.offsets(ctx, partitionsOf(topics), atEnd, committed)
}

func (l *Ledger) stage(name string, start time.Time) {
	if l.cfg.OnStage != nil {
		l.cfg.OnStage(name, time.Since(start))
	}
}

var errSuspends = errors.New("the run is being suspended")

// handOver hands over n records. progress are the positions after them, and start is the time at which the first of
// them was taken. If the run is being suspended, handOver blocks until ctx ends.
func (l *Ledger) handOver(ctx context.Context, progress []partitionProgress, n int, start time.Time) error {
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
			l.stage("read", start)
		}
		l.beyondStep, l.dirty = l.beyondStep || n > 0, l.dirty || n > 0
		for _, p := range progress {
			l.handedOver[p.Log()] = p
		}
		return nil
	})
	if err == errSuspends {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// Stop makes the source stop reading. If positions are committed, the source is suspended instead of ended, because
// the end of the input would release waiting observations early. The caller cancels the run when nothing is in flight.
func (l *Ledger) Stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.account.Stop()
}

// Suspends reports whether Stop suspends the source instead of ending it.
func (l *Ledger) Suspends() bool {
	return (l.cfg.Group != "" || l.cfg.Changelog != "") && !l.cfg.EndOnStop
}

// Context returns a context for the runner, in which source and sinks find the ledger.
func (l *Ledger) Context(ctx context.Context) context.Context { return l.account.In(ctx) }

// Close closes the ledger. If well, the run succeeded, and Close commits for the last time. Close returns the error of
// an earlier commit, but only if well is true or the source has not returned that error already.
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
				err = fmt.Errorf("the run was stopped, and its work since the last commit is not committed: the next run repeats it: %w", silent)
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
		err = l.commit(l.commits, commitRequest{})
	}
	if l.owner != nil {
		l.markEnded(l.commits, well)
		l.owner.close()
	}
	return err
}

// awaitAnswers watches a run that was stopped. If no broker has answered for account.StopTimeout, it stops the commits
// and returns the reason. It returns nil when ctx ends. A slow commit continues as long as brokers answer.
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

// The methods below accept a nil ledger, for a source without one.

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
