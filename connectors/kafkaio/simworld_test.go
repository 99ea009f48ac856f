package kafkaio

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"golang.org/x/sync/errgroup"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
)

// The simulation runs source, ledger, owner and writer, unchanged, against a Kafka cluster inside the process (kfake),
// on a virtual network and a virtual clock (testing/synctest). kafka-go and franz-go work in one bubble if records are
// not compressed by zstd, whose decoders are shared between bubbles. An in-memory broker behind the ledger's calls
// would give all events an order, and leave out the clients, the transactions and the retries. Here a seed determines
// the schedule, and Go's scheduler orders the events at one instant of the virtual clock. Only the runner is replaced:
// by a plain loop that holds two bundles at a time, and learns and drops keys with package keyed.
//
// The op hold simulates a clock that jumps: the process finds its clock ahead by up to the maximum duration of a
// transaction. A clock that is set back changes nothing here: durations use the monotonic clock, and the time of day
// only enters the watermark, which never goes back.
//
// The clocks of devices are in the records: their times are simDelay before their arrival. For a while, the times of
// some keys and partitions are wrong, by less or more than simMaxAhead. The watermark uses these times. A key learns
// by the right times, because the effect of a wrong time depends on when the process sees it.
//
// A key that is silent for simExpire is reset by its next record. A process also drops it when the watermark and its
// partition have passed that time: the changelog gets a tombstone. The loop without faults drops nothing. The
// watermark moves in steps, for which the process waits. In a schedule that starts with the op age, the clock is far
// ahead of the records.
//
// A pipeline step after the learner drops some outputs, and duplicates others. In a schedule that starts with the op
// gather, outputs also go through a grouping in windows of simWindow, which drops late outputs.
//
// The claim is:
//   - outputs without repeats equal those of a loop without faults, byte for byte, and repeats are equal;
//   - no committed offset is after the records in the states, and a state is missing only if some process has dropped
//     its key since the last record before that offset;
//   - no key is dropped before it has expired, and in the end the states of all expired keys are gone;
//   - each restored state also occurred in the loop without faults;
//   - a running process does not end because of faults that last at most passingTime;
//   - after the faults, a run starts and processes all records. It is refused if the topic was created again, or if
//     the changelog is lost, older than the offsets, or incomplete. Partitions that are added to the changelog, and a
//     copy of it, change nothing;
//   - a receiver that is away at times gets every alert, however the runs end;
//   - each output is in one group, and repeats of the group are equal, or the output is late in all runs;
//   - no watermark passes the clock. After the last wrong time, simDelay and the learning of the lag, no record with a
//     right time is behind the watermark.

const (
	simIn, simOut, simStates, simGroup = "in", "out", "states", "g"

	simKeys = 5

	simDelay    = 2 * time.Minute
	simDisorder = 5 * time.Second
	simExpire   = 30 * time.Second
	simWindow   = 20 * time.Second
	simMaxAhead = time.Hour
	simAge      = 200 * 24 * time.Hour
	simClock    = "simulation"
)

func init() {
	RegisterClock(simClock, func(string) Clock {
		return func(r Record) (time.Time, bool) {
			t := time.UnixMilli(int64(binary.BigEndian.Uint64(r.Value[8:])))
			return t, !t.After(time.Now().Add(simMaxAhead))
		}
	})
}

// A misdate determines whose clock is wrong while records are fed, and by how much.
type misdate int

const (
	noClock     misdate = iota
	aPartitions         // all keys of a partition, within simMaxAhead
	aKeys               // some keys, within simMaxAhead
	farAhead            // some keys, beyond simMaxAhead
)

// time returns the time in a record of a partition and a key that arrives at now.
func (m misdate) time(partition, key int, now time.Time, age time.Duration) time.Time {
	switch {
	case m == aPartitions && partition == 0, m == aKeys && key/10%2 == 0:
		return now.Add(simMaxAhead / 2)
	case m == farAhead && key/10%2 == 0:
		return now.AddDate(100, 0, 0)
	}
	return now.Add(-simDelay - age)
}

// An op is one kind of event.
type op int

const (
	age      op = iota // moves the records of the topic, if it is empty, back by simAge
	feed               // appends A records, drawn with the seed B, to the topic; C is the misdate
	pulse              // feeds three times, with right clocks and D in between, so that keys expire and return
	start              // starts a process, unless two are running
	stop               // stops a process, as SIGTERM does
	kill               // kills a process
	trapped            // sets a trap for a process: its (B+1)-th request of kind A from now on meets fault C, with delay D
	hold               // pauses a process, or cuts its network, for D
	refuse             // keeps a process from reaching any broker, for D
	brokers            // makes brokers answer B+1 requests of kind A with the transient error C
	move               // moves partitions to other leaders
	grow               // adds a partition to the topic
	shrink             // compacts the changelog
	look               // checks offsets and states
	reset              // kills all processes and sets the group's offset of partition A back by up to B
	recreate           // kills all processes, creates the topic again and appends A records
	lose               // kills all processes and deletes the changelog
	widen              // adds a partition to the changelog
	backup             // copies the changelog
	rollback           // kills all processes and replaces the changelog by the backup
	halve              // kills all processes and empties partition A of the changelog
	copied             // kills all processes and replaces the changelog by a copy of itself
	flip               // takes the receiver of alerts away, or brings it back
	gather             // sends outputs through a grouping too; only before any process starts
)

func (o op) String() string {
	return [...]string{"age", "feed", "pulse", "start", "stop", "kill", "trapped", "hold", "refuse", "brokers", "move", "grow", "compact", "look", "reset", "recreate", "lose", "widen", "backup", "rollback", "halve", "copied", "flip", "gather"}[o]
}

// A step is an op, and the time until the next one.
type step struct {
	Op      op
	A, B, C int
	D       time.Duration // duration for the op
	Then    time.Duration
}

// String returns the step as a Go literal.
func (s step) String() string {
	return fmt.Sprintf("{%s, %d, %d, %d, %d, %d}", s.Op, s.A, s.B, s.C, s.D, s.Then)
}

// A schedule is a sequence of steps.
type schedule []step

func (s schedule) String() string {
	var b strings.Builder
	for _, step := range s {
		fmt.Fprintf(&b, "%v, ", step)
	}
	return "{" + strings.TrimSuffix(b.String(), ", ") + "}"
}

// trappable are the kinds of requests for traps, those of a commit first.
var trappable = []kmsg.Key{
	kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn,
	kmsg.InitProducerID, kmsg.OffsetFetch, kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.FindCoordinator, anyRequest,
}

// passing are transient errors of brokers, by request.
var passing = []struct {
	fault kfake.Fault
	errs  []*kerr.Error
}{
	{kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: simOut}, []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: simStates}, []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simIn}, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Group: simGroup}, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Group: simGroup}, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.AddOffsetsToTxn}, TopLevel: true}, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true}, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.NotCoordinator}},
	{kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true}, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress}},
}

// A bug is added to the processes of a simulation, to check that the simulation finds it. Empty means no bug.
type bug string

const (
	offsetsFirst   bug = "offsets are committed before their states"
	noFence        bug = "nothing fences the older process"
	blindToTopic   bug = "a topic that was created again is not noticed"
	blindToStates  bug = "a lost changelog is not noticed"
	impatientFirst bug = "the first bundle does not wait for a broker"
	storedTooSoon  bug = "outputs count as stored before they are"
	learnsRepeats  bug = "records that a state includes are learned again"
	blindToAge     bug = "a changelog that is older than the offsets is not noticed"
	blindToGaps    bug = "a partition of the changelog that was emptied is not noticed"
	followsCount   bug = "keys move when the changelog gets partitions"
	forgetsAlerts  bug = "alerts that wait are in the process alone"
	trustsTimes    bug = "the latest time of a record is the watermark"
	followsClock   bug = "the watermark is the clock"
	keepsExpired   bug = "the states of keys that are dropped stay in the changelog"
	losesReturned  bug = "a key that returns after it was dropped is not stored any more"
	clockExpires   bug = "keys expire by the clock"
	settlesHeld    bug = "what a grouping keeps back counts as settled"
	forgetsSteps   bug = "steps that are not settled are not made again"
)

// A world is one simulation.
type world struct {
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	admin   *kgo.Client
	bug     bug
	running sync.WaitGroup // counts the goroutines

	processes []*process
	faults    []*kfake.FaultHandle
	produced  [][]int                     // by partition, the key of each record
	truth     *learner                    // learns without faults
	outputs   map[string]string           // of truth, by id
	states    map[string]map[int64]string // of truth, by key and offset
	topics    [][16]byte                  // ids of the topic, one per creation
	refusal   string                      // if not empty, a start must fail with this text
	saved     []*kgo.Record               // a backup of the changelog
	logs      int32                       // partitions of the changelog, once it exists
	away      atomic.Bool                 // the receiver of alerts is away
	delivered map[string]string           // alerts that the receiver has, by id
	astray    bool                        // some times were wrong
	age       time.Duration               // age of all records
	reached   []timeReach                 // by partition, of the loop without faults
	prompt    map[string]bool             // ids of records that must not be behind the watermark
	dropped   map[string]int64            // by key, the offset of the last record in its last dropped state
	gathers   bool                        // see gather
	late      map[string]bool             // ids of records whose windows had fired
	again     bool                        // a key was dropped a second time, after new records

	mu  sync.Mutex
	bad []string // contradictions to the claim
}

func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// A learner learns records by key, as a node of package transforms does.
type learner struct {
	estimator *keyed.Estimator
	repeats   bool // repeated records are learned
	keys      map[string]*keyed.KeyState
	returned  bool // some key was reset
}

func newLearner() *learner {
	e, err := keyed.NewEstimator(keyed.Config{Filter: hafvf.Config{Family: "poisson"}, Expire: simExpire})
	if err != nil {
		panic(err)
	}
	return &learner{estimator: e, keys: map[string]*keyed.KeyState{}}
}

// open opens a key with its state, nil for a new key.
func (n *learner) open(key string, state []byte) (*keyed.KeyState, error) {
	e, err := n.estimator.Open(key, state)
	n.keys[key] = &e
	return &e, err
}

// learn returns the output, or nil if the key's state includes the record.
func (n *learner) learn(r Record, age time.Duration) ([]byte, error) {
	key := string(r.Key)
	e := n.keys[key]
	if e == nil {
		var err error
		if e, err = n.open(key, nil); err != nil {
			return nil, err
		}
	}
	o := keyed.Value(r.Time.Add(-simDelay-age), r.String(), float64(binary.BigEndian.Uint64(r.Value)))
	if r.LogTime.After(o.Time) { // otherwise the time in the record is wrong
		o.LogTime = r.LogTime
	}
	if o.Log, o.Seq = r.Log(), r.Offset; n.repeats && o.Seq <= lastIn(n.encode(key)) {
		o.Log = ""
	}
	l := learning{learner: n, key: key}
	e.Process(&keyed.Memory{}, &l, &o)
	return l.output, l.err
}

// A learning is the result of one record.
type learning struct {
	*learner
	key    string
	output []byte
	err    error
}

func (l *learning) Estimated(_ *keyed.Observation, out *keyed.Estimate) {
	l.output = fmt.Appendf(nil, "%s %s %d %x %x %x", out.ID, l.key, out.N, out.Estimate.Mean[0], out.Memory, out.LogPredictive)
}
func (l *learning) Rejected(_ *keyed.Observation, err error) { l.err = err }
func (l *learning) Expired()                                 { l.returned = true }
func (*learning) SilenceEnded(keyed.SilenceEvent)            {}
func (*learning) Rewound(time.Time, *keyed.Observation)      {}

// encode returns the state of a key, or nil.
func (n *learner) encode(key string) []byte {
	e := n.keys[key]
	if e == nil {
		return nil
	}
	b, _ := e.AppendBinary(nil)
	return b
}

// lastIn returns the offset of the last record in a state, or −1.
func lastIn(state []byte) int64 {
	last := int64(-1)
	included, _ := keyed.StateBytes(state).IncludedOffsets() // prefix reports unreadable states
	for _, p := range included {
		last = max(last, p.Seq)
	}
	return last
}

// A process is one run of the program.
type process struct {
	*world
	host     *host
	ctx      context.Context
	end      context.CancelFunc
	leave    chan struct{} // closed by stop
	stopOnce sync.Once
	over     chan struct{} // closed when the process has ended
	err      error         // the error of run
	ledger   atomic.Pointer[Ledger]
	pending  int                  // calls of the source that are not processed
	groups   map[string]*gathered // by name
	// rival is set if another process or a long fault may end this process.
	rival atomic.Bool
}

var hostCount atomic.Int64

// newHost returns a host of the world's network that passes everything.
func (w *world) newHost(died func()) *host {
	same := func(_ kmsg.Key, frame []byte) []byte { return frame }
	h := &host{name: fmt.Sprintf("%07d"+hostSuffix, hostCount.Add(1)), brokers: w.net, conns: map[net.Conn]bool{}, died: died, request: same, answer: same}
	hosts.Store(h.name, h)
	return h
}

func (h *host) cluster() Cluster { return Cluster{Brokers: []string{h.name + ":9092"}} }

func (w *world) startProcess() *process {
	p := &process{world: w, groups: map[string]*gathered{}, leave: make(chan struct{}), over: make(chan struct{})}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.host = w.newHost(p.end)
	p.host.request, p.host.answer = w.mangleRequest, w.mangleAnswer
	if w.bug == noFence {
		own := []byte("hafvf-" + p.host.name[1:7])
		p.host.request = func(_ kmsg.Key, b []byte) []byte { return bytes.ReplaceAll(b, []byte(transactionalID(simStates)), own) }
		p.host.answer = func(_ kmsg.Key, b []byte) []byte { return bytes.ReplaceAll(b, own, []byte(transactionalID(simStates))) }
	}
	for _, other := range w.alive() {
		other.rival.Store(true)
		p.rival.Store(true)
	}
	w.processes = append(w.processes, p)
	w.running.Add(1)
	go func() {
		defer w.running.Done()
		defer close(p.over)
		if p.err = p.run(); p.err != nil && p.ledger.Load() != nil && !p.dead() && !p.rival.Load() && w.refusal == "" {
			w.violation("a run ended because of transient faults: %v", p.err)
		}
	}()
	return p
}

func (p *process) dead() bool {
	p.host.mu.Lock()
	defer p.host.mu.Unlock()
	return p.host.dead
}

func (p *process) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

func (w *world) alive() (list []*process) {
	for _, p := range w.processes {
		if !p.ended() {
			list = append(list, p)
		}
	}
	return list
}

func (p *process) stop() { p.stopOnce.Do(func() { close(p.leave) }) }

func (p *process) run() error {
	name := p.host.name
	cluster := p.host.cluster()
	client := NewClient(cluster)
	defer client.Close()
	l, err := OpenLedger(p.ctx, LedgerConfig{
		Client: client, Topics: []string{simIn}, Group: simGroup, Changelog: simStates, Log: quiet, Open: p.restored,
	})
	if err != nil {
		return err
	}
	if p.bug == forgetsSteps {
		l.stepper.repeat = nil
	}
	p.ledger.Store(l)
	p.opened(l)
	g, ctx := errgroup.WithContext(p.ctx)
	ctx, cancel := context.WithCancel(ctx)
	groups := make(chan group, 1)
	started := make(chan struct{}) // closed when the keys have their timers
	g.Go(func() error {
		select {
		case <-started:
			return p.read(ctx, cluster, l, groups)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	alerts := make(chan alertOf, 10_000)
	g.Go(func() error { return p.work(ctx, cluster, l, groups, alerts, started) })
	g.Go(func() error { return p.deliver(ctx, l, alerts) })
	stopped := false
	select {
	case <-p.leave:
		l.Stop()
		select {
		case <-l.account.Idle():
			stopped = true
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	cancel()
	err = g.Wait()
	if stopped && errors.Is(err, context.Canceled) {
		err = nil
	}
	if v, ok := consumers.LoadAndDelete(name + "/0"); ok {
		v.(*consumer).close()
	}
	closing, done := context.WithTimeout(p.ctx, 2*time.Minute)
	defer done()
	if worse := l.Close(closing, err == nil); err == nil || errors.Is(err, context.Canceled) {
		err = worse
	}
	return err
}

// A group holds the records of one call of the source, and the watermark before them.
type group struct {
	mark    time.Time
	records []Record
}

// read calls the source, as a runner does.
func (p *process) read(ctx context.Context, c Cluster, l *Ledger, groups chan<- group) error {
	src := Source{Cluster: c, Topics: []string{simIn}, Group: simGroup, Start: Start{At: Committed}, Poll: time.Second, Clock: simClock, Disorder: simDisorder}
	rest, err := src.deal(ctx, l, 0, 1)
	var mark, latest time.Time
	for err == nil {
		got := group{mark: mark}
		within, bundle := l.account.Begins(ctx)
		rt := sdf.NewLockRTracker(&tracker{rest: rest.clone()})
		_, watermark, failure := src.call(within, p.host.name, l, rt, mtime.MinTimestamp, func(_ beam.EventTime, b Batch) {
			got.records = append(got.records, b.Records...)
			for i, ms := range b.Times {
				t := time.UnixMilli(ms)
				if t.After(latest) {
					latest = t
				}
				p.onTime(b.Records[i].String(), t, mark)
			}
		})
		if err = failure; err != nil {
			break
		}
		switch p.bug {
		case trustsTimes:
			watermark = latest
		case followsClock, clockExpires:
			watermark = time.Now()
		}
		if watermark = time.UnixMilli(watermark.UnixMilli()); watermark.After(mark) { // runners round to milliseconds
			mark = watermark
		}
		if now := time.Now(); mark.After(now) {
			p.violation("the watermark is ahead of the clock by %v", mark.Sub(now))
		}
		var residual any
		if _, residual, err = rt.TrySplit(0); err != nil {
			break
		}
		rest = residual.(restriction)
		if len(got.records) == 0 {
			if got.mark.Equal(mark) {
				err = context.Cause(ctx)
				continue
			}
			got.mark = mark
		}
		p.mu.Lock()
		p.pending++
		l.account.SetBusy()
		l.account.Ends(bundle)
		p.mu.Unlock()
		select {
		case groups <- got:
		case <-ctx.Done():
		}
		err = context.Cause(ctx)
	}
	return err
}

// onTime checks that a prompt record is not behind the watermark.
func (w *world) onTime(id string, t, mark time.Time) {
	w.mu.Lock()
	prompt := w.prompt[id]
	w.mu.Unlock()
	if prompt && t.Before(mark) {
		w.violation("the record %s with the right time is behind the watermark by %v", id, mark.Sub(t))
	}
}

// An alertOf is an alert for the receiver. One output in three raises one.
type alertOf struct{ id, text string }

func alarms(offset int64) bool { return offset%3 == 0 }

// deliver delivers the alerts that earlier runs have left, and new ones.
func (p *process) deliver(ctx context.Context, l *Ledger, alerts <-chan alertOf) error {
	waiting := map[string]string{}
	for id, text := range l.StoredValues() {
		waiting[id] = string(text)
	}
	for {
		select {
		case a := <-alerts:
			waiting[a.id] = a.text
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for id, text := range waiting {
			if p.away.Load() || p.dead() {
				break
			}
			p.mu.Lock()
			p.delivered[id] = text
			p.mu.Unlock()
			l.StoreValue(id, nil)
			delete(waiting, id)
		}
	}
}

// drop drops the keys that have expired, and returns them.
func (p *process) drop(l *Ledger, n *learner, mark time.Time) (dropped []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range n.keys {
		expiry := e.Expiry()
		if !expiry.Before(mark) || p.bug != clockExpires && !p.passed(l, e, expiry) {
			continue
		}
		allowed := time.Duration(0)
		if p.astray { // the partition has passed the topic's timestamps, which are simDelay later
			allowed = simDelay
		}
		if early := expiry.Sub(time.Now().Add(-simDelay - p.age)); early >= allowed && p.bug != clockExpires {
			p.bad = append(p.bad, fmt.Sprintf("the key %s is dropped %v before it has expired", key, early))
		}
		last := lastIn(n.encode(key))
		prevLast, before := p.dropped[key]
		p.again = p.again || before && last > prevLast
		p.dropped[key] = max(prevLast, last)
		delete(n.keys, key)
		dropped = append(dropped, key)
	}
	return dropped
}

// passed reports whether the partitions of a key have passed a time.
func (p *process) passed(l *Ledger, e *keyed.KeyState, t time.Time) bool {
	for _, place := range e.IncludedOffsets() {
		if passed, _ := l.logTime(place.Log); !passed.After(t) {
			return false
		}
	}
	return true
}

// rest reports to the account that a group is processed, as a runner does, with the next time at which a key may
// expire. A key that was kept is checked again after simExpire.
func (p *process) rest(l *Ledger, n *learner, mark time.Time) {
	var first time.Time
	for _, e := range n.keys {
		next := e.Expiry()
		if !next.After(mark) {
			next = mark.Add(simExpire)
		}
		if next = next.Add(time.Millisecond); first.IsZero() || next.Before(first) {
			first = next
		}
	}
	held := ""
	for _, g := range p.groups {
		if held = "the grouping"; first.IsZero() || g.end.Before(first) {
			first = g.end
		}
	}
	if p.bug == settlesHeld {
		held = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending = max(0, p.pending-1); p.pending == 0 {
		l.account.SetIdle(held, false, first)
	}
}

// messagesOf returns the messages of an output by their ids: none, one or two.
func messagesOf(id, out string) map[string]string {
	switch {
	case out == "" || out[len(out)-1]%4 == 0:
		return nil
	case out[len(out)-1]%4 == 1:
		return map[string]string{id: out, id + "'": out}
	}
	return map[string]string{id: out}
}

// A gathered is a group of the outputs of a key in a window.
type gathered struct {
	end time.Time // end of the window
	ids []string
}

// gather adds an output to its group, unless the watermark has passed the window. Some outputs belong to old windows.
func (p *process) gather(r Record, mark time.Time) {
	end := r.Time.Add(-simDelay - p.age - simWindow*time.Duration(r.Offset%4)).Truncate(simWindow).Add(simWindow)
	if !end.After(mark) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late[r.String()] = true
		return
	}
	name := fmt.Sprint("group ", string(r.Key), " ", end.UnixMilli())
	if p.groups[name] == nil {
		p.groups[name] = &gathered{end: end}
	}
	p.groups[name].ids = append(p.groups[name].ids, r.String())
}

// passes returns messages of the groups whose windows the watermark has passed.
func (p *process) passes(mark time.Time) (out []Message) {
	for _, name := range slices.Sorted(maps.Keys(p.groups)) {
		if g := p.groups[name]; !g.end.After(mark) {
			out = append(out, Message{Key: []byte(name), ID: name, Value: []byte(strings.Join(g.ids, " "))})
			delete(p.groups, name)
		}
	}
	return out
}

// maxBehind is the maximum delay of a record with the right time behind a watermark that follows wrong times. Such a
// watermark is at most the end of the last fetch, and a record that is not in this fetch arrived after the start of
// the fetch.
const maxBehind = simDelay + fetchTimeout

// work learns groups and stores their outputs.
func (p *process) work(ctx context.Context, c Cluster, l *Ledger, groups <-chan group, alerts chan<- alertOf, started chan<- struct{}) error {
	var writer *Writer
	var err error
	n := newLearner()
	n.repeats = p.bug == learnsRepeats
	dropped := map[string]bool{} // keys that were dropped
	l.TakeStates(func(key string, state []byte) bool {
		_, failure := n.open(key, bytes.Clone(state))
		err = cmp.Or(err, failure)
		return true
	})
	if err != nil {
		return err
	}
	p.rest(l, n, time.Time{})
	close(started)
	for {
		var g group
		select {
		case g = <-groups:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		outputs := p.passes(g.mark)
		if writer == nil && len(g.records)+len(outputs) > 0 {
			if p.bug == impatientFirst {
				writer, err = NewWriter(ctx, Sink{Cluster: c, Topic: simOut, Compression: "none"}, quiet)
			} else {
				writer, err = openWriter(Sink{Cluster: c, Topic: simOut, Compression: "none"}, quiet)
			}
			if err != nil {
				return err
			}
			defer writer.Close()
		}
		touched := map[string]bool{}
		for _, key := range p.drop(l, n, g.mark) {
			touched[key], dropped[key] = true, true
		}
		report := account.Report{Taken: len(g.records)}
		for _, r := range g.records {
			out, err := n.learn(r, p.age)
			if err != nil {
				return err
			}
			touched[string(r.Key)] = true
			if out != nil {
				for id, text := range messagesOf(r.String(), string(out)) {
					outputs = append(outputs, Message{Key: r.Key, ID: id, Value: []byte(text)})
				}
				if p.gathers {
					p.gather(r, g.mark)
				}
				if alarms(r.Offset) {
					if p.bug != forgetsAlerts {
						l.StoreValue(r.String(), out)
					}
					alerts <- alertOf{r.String(), string(out)}
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(touched)) {
			state := n.encode(key)
			if p.bug == losesReturned && dropped[key] {
				state = nil
			}
			if state != nil || p.bug != keepsExpired {
				report.States = append(report.States, account.EncodedState{Key: key, State: state})
			}
		}
		l.account.Report(report)
		if p.bug == storedTooSoon {
			p.rest(l, n, g.mark)
		}
		if len(outputs) > 0 {
			if err := writer.Write(ctx, outputs); err != nil {
				return err
			}
		}
		if p.bug != storedTooSoon {
			p.rest(l, n, g.mark)
		}
	}
}

// restored checks that the restored states occurred in the loop without faults.
func (p *process) restored(states iter.Seq[*StoredState], _, _ int) (map[string]int64, error) {
	for s := range states {
		p.prefix(*s)
	}
	return nil, nil
}

func (w *world) prefix(s StoredState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := lastIn(s.Bytes)
	if want := w.states[s.Key][last]; want != string(s.Bytes) {
		w.bad = append(w.bad, fmt.Sprintf("the state of %s at %d does not occur without faults", s.Key, last))
	}
}

// opened checks that the start offsets of a process are not after the records in its states.
func (p *process) opened(l *Ledger) {
	offsets := map[string]int64{}
	for log, c := range l.start {
		offsets[log] = c.Offset
	}
	p.includes(offsets, (run{Ledger: l}).Restored())
}

func (w *world) includes(offsets map[string]int64, states map[string][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for partition, keys := range w.produced {
		log := Position{Topic: simIn, Partition: partition}.Log()
		for i := range min(offsets[log], int64(len(keys))) {
			key := keyName(keys[i])
			last := lastIn(states[key])
			if dropped, ok := w.dropped[key]; ok && states[key] == nil {
				last = dropped
			}
			if last < i {
				w.bad = append(w.bad, fmt.Sprintf("the offset of %s is %d, and the state of %s includes records up to %d, not %d", log, offsets[log], key, last, i))
				return
			}
		}
	}
}

func keyName(k int) string { return fmt.Sprintf("key%d", k) }

// simulate runs a schedule. It returns contradictions to the claim, and the lives of keys.
func simulate(t *testing.T, s schedule, b bug) (bad []string, did lives) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, b)
		defer w.close()
		for _, step := range s {
			w.do(step)
			time.Sleep(step.Then)
			if w.failed() {
				break
			}
		}
		w.mu.Lock()
		did = lives{len(w.dropped) > 0, w.truth.returned, w.again}
		w.mu.Unlock()
		if !w.failed() {
			w.finish()
		}
		w.mu.Lock() // processes may still run
		defer w.mu.Unlock()
		bad = slices.Clone(w.bad)
	})
	return bad, did
}

// lives reports what happened to keys in a schedule: whether some were dropped, were reset, and were dropped after a
// reset.
type lives struct{ dropped, returned, again bool }

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bad) > 0
}

func newWorld(t *testing.T, b bug) *world {
	w := &world{net: &kfake.VirtualNetwork{}, bug: b, logs: 2, outputs: map[string]string{}, states: map[string]map[int64]string{}, delivered: map[string]string{}, prompt: map[string]bool{}, dropped: map[string]int64{}, late: map[string]bool{}}
	var err error
	// Without zstd, which starts with version 7 of Produce: the decoders of kfake and franz-go have finalizers, which
	// close channels of a bubble outside of it.
	versions := kversion.V3_9_0()
	versions.SetMaxKeyVersion(int16(kmsg.Produce), 6)
	versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 7) // one group per request
	neverCompacts := kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": fmt.Sprint(math.MaxInt32)})
	w.cluster, err = kfake.NewCluster(neverCompacts, kfake.NumBrokers(2), kfake.MaxVersions(versions), kfake.Ports(9092, 9093), kfake.ListenFn(w.net.Listen), kfake.DefaultNumPartitions(2), kfake.SeedTopics(2, simIn), kfake.SeedTopics(1, simOut))
	expect.OK(t, err)
	// An idempotent producer waits for its id while it holds a lock, which stops the virtual clock.
	w.admin, err = kgo.NewClient(kgo.SeedBrokers(virtualHost+":9092"), kgo.Dialer(w.net.DialContext), kgo.DisableClientMetrics(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite())
	expect.OK(t, err)
	w.begin(2)
	return w
}

// begin starts with a new topic.
func (w *world) begin(partitions int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.produced, w.reached = make([][]int, partitions), make([]timeReach, partitions)
	w.truth = newLearner()
	clear(w.outputs)
	clear(w.states)
	clear(w.delivered)
	clear(w.prompt)
	clear(w.dropped)
	clear(w.late)
	w.topics = append(w.topics, w.cluster.TopicInfo(simIn).TopicID)
}

func (w *world) close() {
	for _, p := range w.processes {
		p.host.die()
	}
	w.running.Wait()
	w.admin.Close()
	w.cluster.Close()
	time.Sleep(3 * time.Hour) // background retries give up
}

// pick returns a process that is alive, or nil.
func (w *world) pick(i int) *process {
	list := w.alive()
	if len(list) == 0 {
		return nil
	}
	return list[i%len(list)]
}

func (w *world) do(s step) {
	p := w.pick(s.A + s.B + s.C)
	if p == nil {
		switch s.Op {
		case stop, kill, trapped, hold, refuse:
			return
		}
	}
	switch s.Op {
	case age:
		if w.isEmpty() {
			w.age = simAge
		}
	case feed:
		// Half an hour ahead of the clock would be the present of the topic. If the first times are invalid, the
		// process cannot know that the topic is old.
		wrong := misdate(s.C)
		if w.age > 0 && (wrong != farAhead || w.isEmpty()) {
			wrong = noClock
		}
		w.produce(s.A, s.B, wrong, false)
	case pulse:
		for n := range 3 {
			if n > 0 {
				time.Sleep(s.D)
			}
			w.produce(s.A, s.B, noClock, false)
		}
	case start:
		if len(w.alive()) < 2 {
			w.startProcess()
		}
	case stop:
		p.stop()
	case kill:
		p.host.die()
	case trapped:
		if s.D > passingTime {
			p.rival.Store(true)
		}
		p.host.set(trap{trappable[s.A%len(trappable)], 1 + s.B, fault(1 + s.C%int(faults-1)), s.D})
	case hold:
		p.host.hold()
		if s.D > passingTime {
			p.rival.Store(true)
		}
		w.after(s.D, p.host.release)
	case refuse:
		p.host.refuse()
		if s.D > passingTime {
			p.rival.Store(true)
		}
		w.after(s.D, p.host.release)
	case brokers:
		k := passing[s.A%len(passing)]
		f := k.fault
		f.Count, f.Err = 1+s.B, k.errs[s.C%len(k.errs)]
		w.faults = append(w.faults, w.cluster.Fault(f))
	case move:
		w.cluster.ShufflePartitionLeaders()
	case grow:
		w.grow()
	case shrink:
		w.compact()
	case look:
		w.check()
	case reset:
		w.killAll()
		w.reset(s.A, s.B)
	case recreate:
		w.killAll()
		w.recreate(s.A)
	case lose:
		w.killAll()
		w.lose()
	case widen:
		w.widen()
	case backup:
		w.saved = w.copy()
	case rollback:
		w.killAll()
		w.rollback()
	case halve:
		w.killAll()
		w.halve(s.A)
	case copied:
		w.killAll()
		w.replace(w.copy())
	case gather:
		w.gathers = len(w.processes) == 0 || w.gathers
	case flip:
		w.away.Store(!w.away.Load())
	}
}

// passingTime is the maximum duration of a fault that must not end a run.
const passingTime = 20 * time.Second

func (w *world) after(d time.Duration, do func()) {
	w.running.Add(1)
	go func() {
		defer w.running.Done()
		time.Sleep(d)
		do()
	}()
}

func (w *world) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("the simulation itself: %v", err))
	}
}

func (w *world) isEmpty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.produced, func(keys []int) bool { return len(keys) > 0 })
}

// produce appends n records to the topic. If prompt, they must be on time. Each key has one partition.
func (w *world) produce(n, seed int, wrong misdate, prompt bool) {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	sayings := make([]saying, n)
	for i := range sayings {
		partition := r.IntN(len(w.produced))
		sayings[i] = saying{partition, partition + 10*r.IntN(simKeys), r.IntN(20)}
	}
	w.append(sayings, wrong, prompt)
}

// A saying is a record of a key in its partition.
type saying struct{ partition, key, value int }

// append appends records to the topic.
func (w *world) append(sayings []saying, wrong misdate, prompt bool) {
	if w.refusal != "" {
		return
	}
	records := make([]*kgo.Record, len(sayings))
	now := time.UnixMilli(time.Now().UnixMilli())
	w.mu.Lock()
	w.astray = w.astray || wrong != noClock
	for i := range records {
		partition, key := sayings[i].partition, sayings[i].key
		value := binary.BigEndian.AppendUint64(nil, uint64(sayings[i].value))
		t := wrong.time(partition, key, now, w.age)
		value = binary.BigEndian.AppendUint64(value, uint64(t.UnixMilli()))
		position := Position{simIn, partition, int64(len(w.produced[partition]))}
		records[i] = &kgo.Record{Topic: simIn, Partition: int32(partition), Key: []byte(keyName(key)), Value: value, Timestamp: now}
		w.produced[partition] = append(w.produced[partition], key)
		rec := Record{Position: position, Time: now, Key: records[i].Key, Value: value}
		if passed := w.reached[partition].logTime(false); passed.After(t) {
			rec.LogTime = passed
		}
		out, err := w.truth.learn(rec, w.age)
		w.must(err)
		if wrong != farAhead || !t.After(now) {
			w.reached[partition].observe(&rec, t, now)
		}
		w.outputs[position.String()] = string(out)
		w.prompt[position.String()] = prompt
		if w.states[keyName(key)] == nil {
			w.states[keyName(key)] = map[int64]string{}
		}
		w.states[keyName(key)][position.Offset] = string(w.truth.encode(keyName(key)))
	}
	w.mu.Unlock()
	w.must(w.admin.ProduceSync(context.Background(), records...).FirstErr())
}

// compact compacts the changelog, unless a transaction is open. kfake treats records of open transactions as valid,
// and drops the states before them. Kafka does not compact after the last stable offset.
func (w *world) compact() {
	synctest.Wait() // no transaction starts meanwhile
	for p := int32(0); ; p++ {
		switch info := w.cluster.PartitionInfo(simStates, p); {
		case info == nil:
			w.cluster.Compact()
			return
		case info.LastStableOffset < info.HighWatermark:
			return
		}
	}
}

func (w *world) killAll() {
	for _, p := range w.alive() {
		p.host.die()
		<-p.over
	}
	synctest.Wait() // a sent commit must be applied before its result is read
}

func (w *world) grow() {
	if len(w.produced) >= 4 || w.refusal != "" {
		return
	}
	w.addPartition(simIn, int32(len(w.produced)+1))
	w.mu.Lock()
	w.produced, w.reached = append(w.produced, nil), append(w.reached, timeReach{})
	w.mu.Unlock()
}

// addPartition sets the number of partitions of a topic.
func (w *world) addPartition(topic string, count int32) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 1000
	_, err := req.RequestWith(context.Background(), w.admin)
	w.must(err)
	w.admin.ForceMetadataRefresh()
	time.Sleep(6 * time.Second) // until the client of the simulation knows the partition
}

// committed returns the group's offsets.
func (w *world) committed() map[string]int64 {
	offsets, _ := w.offsets()
	return offsets
}

// offsets returns the group's offsets and their metadata.
func (w *world) offsets() (offsets map[string]int64, notes map[string]string) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = simGroup
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic = simIn
	for p := range w.produced {
		t.Partitions = append(t.Partitions, int32(p))
	}
	req.Topics = append(req.Topics, t)
	for {
		res, err := req.RequestWith(context.Background(), w.admin)
		w.must(err)
		err = kerr.ErrorForCode(res.ErrorCode)
		offsets, notes = map[string]int64{}, map[string]string{}
		for _, t := range res.Topics {
			for _, p := range t.Partitions {
				err = cmp.Or(err, kerr.ErrorForCode(p.ErrorCode))
				if p.Offset >= 0 {
					log := Position{Topic: t.Topic, Partition: int(p.Partition)}.Log()
					offsets[log] = p.Offset
					if p.Metadata != nil {
						notes[log] = *p.Metadata
					}
				}
			}
		}
		if err != kerr.CoordinatorLoadInProgress && err != kerr.NotCoordinator {
			return offsets, notes // a group that does not exist has no offsets
		}
		time.Sleep(100 * time.Millisecond) // the error was a fault for a process
	}
}

// commit commits offsets for the group outside of a transaction.
func (w *world) commit(topics []kmsg.OffsetCommitRequestTopic) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = simGroup, -1, topics
	_, err := req.RequestWith(context.Background(), w.admin)
	w.must(err)
}

func (w *world) reset(partition, back int) {
	partition %= len(w.produced)
	committed, ok := w.committed()[Position{Topic: simIn, Partition: partition}.Log()]
	// A ledger without states refuses an offset without a note, even 0.
	if !ok || committed == 0 || w.refusal != "" {
		return
	}
	// A record whose key was dropped later would be learned again, because no state includes it.
	offset := committed
	for offset > max(0, committed-int64(back)) && !w.hasDropped(partition, offset-1) {
		offset--
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, p.Partition, p.Offset = simIn, int32(partition), offset
	t.Partitions = append(t.Partitions, p)
	w.commit([]kmsg.OffsetCommitRequestTopic{t})
}

// hasDropped reports whether the key of a record was dropped after the record.
func (w *world) hasDropped(partition int, offset int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, dropped := w.dropped[keyName(w.produced[partition][offset])]
	return dropped && offset <= last
}

// recreate deletes the topic and creates another one with the same name.
func (w *world) recreate(n int) {
	known := len(w.committed()) > 0
	w.must(w.cluster.DeleteTopic(simIn))
	w.must(w.cluster.CreateTopic(simIn, 2, nil))
	w.admin.ForceMetadataRefresh()
	w.admin.PurgeTopicsFromClient(simIn)
	time.Sleep(6 * time.Second)
	if !known && w.cluster.TopicInfo(simStates) != nil {
		w.must(w.cluster.DeleteTopic(simStates)) // its head may contain the topic's ID
	}
	if !known { // without offsets a run starts over, and its outputs have the same ids as the earlier ones
		w.must(w.cluster.DeleteTopic(simOut))
		w.must(w.cluster.CreateTopic(simOut, 1, nil))
	}
	w.begin(2)
	w.produce(n, n, noClock, false)
	if known {
		w.refusal = "was deleted and created again"
	}
}

// lose deletes the changelog.
func (w *world) lose() {
	if w.cluster.TopicInfo(simStates) == nil {
		return
	}
	w.must(w.cluster.DeleteTopic(simStates))
	switch {
	case w.refusal != "":
	case len(w.committed()) > 0:
		w.refusal = "the changelog states"
	default:
		w.gathers = false // which outputs were late for the written groups is unknown now
	}
}

// copy returns a copy of the changelog.
func (w *world) copy() (list []*kgo.Record) {
	if w.cluster.TopicInfo(simStates) == nil {
		return nil
	}
	for _, r := range w.consume(simStates) {
		list = append(list, &kgo.Record{Topic: simStates, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
	return list
}

// replace replaces the contents of the changelog by records, at new offsets.
func (w *world) replace(records []*kgo.Record) {
	if w.cluster.TopicInfo(simStates) == nil || w.refusal != "" {
		return
	}
	w.must(w.cluster.DeleteTopic(simStates))
	w.must(w.cluster.CreateTopic(simStates, w.logs, map[string]string{"cleanup.policy": "compact"}))
	w.admin.ForceMetadataRefresh()
	w.admin.PurgeTopicsFromClient(simStates)
	time.Sleep(6 * time.Second)
	for _, r := range records {
		r := *r
		w.must(w.admin.ProduceSync(context.Background(), &r).FirstErr())
	}
}

// headIn returns the last head in the records of a changelog.
func headIn(records []*kgo.Record) (h changelogHead) {
	for _, r := range records {
		if r.Partition == 0 && string(r.Key) == headKey {
			h = changelogHead{}
			json.Unmarshal(r.Value, &h)
		}
	}
	return h
}

// rollback replaces the changelog by the backup.
func (w *world) rollback() {
	if w.cluster.TopicInfo(simStates) == nil || len(w.saved) == 0 || w.refusal != "" {
		return
	}
	newest := int64(0) // newest commit in the metadata of the offsets
	_, notes := w.offsets()
	for _, text := range notes {
		newest = max(newest, readNote(text).Commit)
	}
	last := headIn(w.copy()).Commit
	w.replace(w.saved)
	switch commit := headIn(w.saved).Commit; {
	case commit < newest:
		w.refusal = "is older than the offsets"
	case commit < last: // as in lose
		w.gathers = false
	}
}

// halve empties a partition of the changelog.
func (w *world) halve(partition int) {
	records := w.copy()
	h := headIn(records)
	if len(h.Marks) == 0 || w.refusal != "" {
		return
	}
	p := int32(partition % len(h.Marks))
	w.replace(slices.DeleteFunc(records, func(r *kgo.Record) bool {
		control := string(r.Key) == headKey || string(r.Key) == bottomKey
		return r.Partition == p && !(control && w.bug == blindToGaps)
	}))
	w.refusal = "the changelog"
	if w.bug == blindToGaps {
		w.refusal = ""
	}
}

// widen adds a partition to the changelog.
func (w *world) widen() {
	if w.cluster.TopicInfo(simStates) == nil || w.logs >= 4 || w.refusal != "" {
		return
	}
	w.logs++
	w.addPartition(simStates, w.logs)
	if w.bug != followsCount {
		return
	}
	w.killAll()
	h := headIn(w.copy())
	h.Marks = append(h.Marks, h.Commit)
	bottom, err := json.Marshal(commitRecord{h.Commit})
	w.must(err)
	text, err := json.Marshal(h)
	w.must(err)
	p := w.logs - 1
	w.must(w.admin.ProduceSync(context.Background(), &kgo.Record{Topic: simStates, Partition: p, Key: []byte(bottomKey), Value: []byte{}},
		&kgo.Record{Topic: simStates, Partition: p, Key: []byte(headKey), Value: bottom}, &kgo.Record{Topic: simStates, Key: []byte(headKey), Value: text}).FirstErr())
}

// mangleRequest and mangleAnswer implement the bugs that change requests and answers.
func (w *world) mangleRequest(key kmsg.Key, frame []byte) []byte {
	if w.bug == offsetsFirst && key == kmsg.TxnOffsetCommit {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.SetVersion(int16(binary.BigEndian.Uint16(frame[6:])))
		body := frame[14+int(binary.BigEndian.Uint16(frame[12:])):]
		if req.IsFlexible() {
			body = body[1:] // no tags
		}
		w.must(req.ReadFrom(body))
		var topics []kmsg.OffsetCommitRequestTopic
		for _, t := range req.Topics {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewOffsetCommitRequestTopicPartition()
				partition.Partition, partition.Offset, partition.Metadata = p.Partition, p.Offset, p.Metadata
				topic.Partitions = append(topic.Partitions, partition)
			}
			topics = append(topics, topic)
		}
		w.commit(topics)
	}
	return frame
}

func (w *world) mangleAnswer(key kmsg.Key, frame []byte) []byte {
	switch {
	case w.bug == blindToTopic && key == kmsg.Metadata:
		first, last := w.topics[0], w.topics[len(w.topics)-1]
		return bytes.ReplaceAll(frame, last[:], first[:])
	case w.bug == blindToAge && key == kmsg.OffsetFetch:
		return bytes.ReplaceAll(frame, []byte(`"commit"`), []byte(`"number"`))
	case w.bug == blindToStates && key == kmsg.OffsetFetch:
		return bytes.ReplaceAll(frame, []byte(`"changelog"`), []byte(`"no longer"`))
	}
	return frame
}

// finish ends the faults, lets a run process all records, and checks the claim.
func (w *world) finish() {
	for _, f := range w.faults {
		f.Remove()
	}
	for _, p := range w.processes {
		p.host.release()
	}
	time.Sleep(15 * time.Second) // held requests are sent
	w.check()
	w.killAll()
	if w.failed() {
		return
	}
	p := w.startProcess()
	w.away.Store(false)
	deals := w.deals(p, 15*time.Minute)
	if w.refusal != "" {
		if p.ended() && p.err != nil && strings.Contains(p.err.Error(), w.refusal) {
			return
		}
		in := map[int32]int{}
		for _, r := range w.saved {
			in[r.Partition]++
		}
		w.violation("a start must be refused with %q, got %v; records of the backup by partition: %v", w.refusal, p.err, in)
		return
	}
	if !deals {
		w.violation("after the faults, a run does not process all records: ended %v, %v", p.ended(), p.err)
		return
	}
	if w.astray {
		w.settle(p)
	}
	w.check()
	w.outlive(p)
	time.Sleep(time.Second) // the receiver gets the waiting alerts
	p.stop()
	<-p.over
	if p.err != nil {
		w.violation("after the faults, a run ends with an error: %v", p.err)
	}
	w.checkAlerts()
	w.check()
	w.checkOutputs()
}

// groupingDelay returns the extra time that a commit may take because of the grouping.
func (w *world) groupingDelay() time.Duration {
	if w.gathers {
		return 10 * time.Minute
	}
	return 0
}

// deals waits until all offsets are committed, and reports whether this happened before the run ended.
func (w *world) deals(p *process, within time.Duration) bool {
	for deadline := time.Now().Add(within + w.groupingDelay()); !p.ended() && time.Now().Before(deadline); time.Sleep(time.Second) {
		if w.refusal == "" && w.dealt() {
			return true
		}
	}
	return false
}

// outlive waits until all keys have expired while others continue, and makes some of them return.
func (w *world) outlive(p *process) {
	time.Sleep(2 * simExpire)
	var others []saying
	names := map[string]bool{}
	for partition := range w.produced {
		for i := range 2 {
			key := partition + 10*(simKeys+i)
			others, names[keyName(key)] = append(others, saying{partition, key, 1}), true
		}
	}
	w.append(others, noClock, false)
	expired := func() []StoredState {
		return slices.DeleteFunc(w.storedStates(), func(s StoredState) bool { return names[s.Key] })
	}
	left := expired()
	for deadline := time.Now().Add(simExpire + maxBehind + simDelay + w.groupingDelay()); len(left) > 0 && time.Now().Before(deadline); left = expired() {
		time.Sleep(5 * time.Second)
	}
	for _, s := range left {
		w.violation("the changelog has a state of %s, which has expired", s.Key)
	}
	w.produce(8, 0, noClock, false)
	if !w.deals(p, time.Minute) {
		w.violation("a run does not process keys that return: %v", p.err)
	}
}

// settle feeds records with right times. After simDelay, plus the 5 % by which a lag is rounded up, they must be on
// time.
func (w *world) settle(p *process) {
	const every, learning = 30 * time.Second, time.Minute
	for elapsed := time.Duration(0); elapsed < simDelay+simDelay/20+learning+2*time.Minute; elapsed += every {
		w.produce(8, int(elapsed/every), noClock, elapsed > simDelay+simDelay/20+learning)
		time.Sleep(every)
	}
	if !w.deals(p, time.Minute) {
		w.violation("a run does not process the last records")
	}
}

// checkAlerts checks that the receiver has all alerts, and that the changelog has none.
func (w *world) checkAlerts() {
	w.mu.Lock()
	for p, keys := range w.produced {
		for offset := range int64(len(keys)) {
			id := Position{simIn, p, offset}.String()
			if alarms(offset) && w.delivered[id] != w.outputs[id] {
				w.bad = append(w.bad, fmt.Sprintf("the receiver has %q for the alert of %s", w.delivered[id], id))
			}
		}
	}
	w.mu.Unlock()
	h := w.newHost(func() {})
	defer h.die()
	client := NewClient(h.cluster())
	defer client.Close()
	s, err := readStored(context.Background(), client, simStates, nil, quiet)
	if err != nil || len(s.ownValues[outputKeyPrefix]) > 0 {
		w.violation("at the end the changelog holds %d alerts: %v", len(s.ownValues[outputKeyPrefix]), err)
	}
}

// dealt reports whether all offsets are committed.
func (w *world) dealt() bool {
	offsets := w.committed()
	for p, keys := range w.produced {
		if int(offsets[Position{Topic: simIn, Partition: p}.Log()]) < len(keys) {
			return false
		}
	}
	return true
}

// consume returns the records of a topic outside of transactions that are open now or aborted.
func (w *world) consume(topic string) (records []*kgo.Record) {
	ends := map[int32]int64{}
	for p := int32(0); w.cluster.PartitionInfo(topic, p) != nil; p++ {
		ends[p] = w.cluster.PartitionInfo(topic, p).LastStableOffset
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(virtualHost+":9092"), kgo.Dialer(w.net.DialContext), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(time.Second), kgo.MetadataMinAge(time.Second)) // shorter than a poll, so that a poll without records is the end
	w.must(err)
	defer c.Close()
	for start := time.Now(); ; { // a running process may extend a changelog for ever
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		f := c.PollFetches(ctx)
		cancel()
		records = append(records, f.Records()...)
		if ctx.Err() != nil && f.NumRecords() == 0 || time.Since(start) > time.Minute {
			return slices.DeleteFunc(records, func(r *kgo.Record) bool { return r.Offset >= ends[r.Partition] })
		}
	}
}

// check checks offsets and states. It reads the offsets first.
func (w *world) check() {
	if w.refusal != "" {
		return
	}
	offsets := w.committed()
	states := map[string][]byte{}
	for _, s := range w.storedStates() {
		w.prefix(s)
		states[s.Key] = s.Bytes
	}
	w.includes(offsets, states)
}

// storedStates returns the states in the changelog.
func (w *world) storedStates() []StoredState {
	if w.cluster.TopicInfo(simStates) == nil {
		return nil
	}
	h := w.newHost(func() {})
	defer h.die()
	client := NewClient(h.cluster())
	defer client.Close()
	states, err := client.ReadStates(context.Background(), simStates, quiet)
	w.must(err)
	return states
}

func (w *world) checkOutputs() {
	got, groups, want := map[string]string{}, map[string]string{}, map[string]string{}
	for _, r := range w.consume(simOut) {
		id := string(r.Headers[0].Value)
		target := got
		if strings.HasPrefix(id, "group ") {
			if target = groups; !w.gathers {
				continue
			}
		}
		if prev, ok := target[id]; ok && prev != string(r.Value) {
			w.violation("the record %s has the output %q and later %q", id, prev, r.Value)
		}
		target[id] = string(r.Value)
	}
	for id, out := range w.outputs {
		maps.Copy(want, messagesOf(id, out))
	}
	for id, want := range want {
		if got[id] != want {
			w.violation("the record %s has the output %q, but without faults %q", id, got[id], want)
		}
	}
	if extra := len(got) - len(want); extra > 0 {
		w.violation("%d outputs are of no record", extra)
	}
	if !w.gathers {
		return
	}
	in := map[string]int{}
	for _, ids := range groups {
		for _, id := range strings.Fields(ids) {
			in[id]++
		}
	}
	for id, out := range w.outputs {
		if n := in[id]; out != "" && (n > 1 || (n == 0) != w.late[id]) {
			w.violation("the output of the record %s is in %d groups, and late: %v", id, n, w.late[id])
		}
	}
}
