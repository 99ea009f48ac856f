package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/kafkaio/embedded"
	"hafvf/connectors/promio"
	"hafvf/connectors/webhook"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/times"
	"hafvf/pipeline/direct"
	"hafvf/pipeline/statebackend"
)

// Progress counts the records of a run so far.
type Progress struct {
	Read              int64 // records read
	Records, Rejected int64 // records written
}

// A Run executes a graph in this process.
type Run struct {
	Graph *Graph
	// Progress, if not nil, is called a few times a second.
	Progress func(Progress)
	// Log receives messages for the operator. If it is nil, nothing is logged.
	Log *slog.Logger
	// Metrics, if not nil, report on the run.
	Metrics *Metrics
	// Reset discards the states of the changelog and ignores the group's offsets. The source must be topics.
	Reset bool
	// Migrate keeps states that were written under another config, as far as their meaning is unchanged.
	Migrate bool
	// Observer, if not nil, sees the results of the run.
	Observer *Observer
	// Example, if not nil, fills the topic of an embedded broker.
	Example func(context.Context, kafkaio.Sink) error
}

// Execute runs the graph to the end of its input. If ctx ends, Execute aborts the run.
//
// When stop is closed, the source ends as if its input ended there, and records that were read are processed to the
// end. A topic with committed offsets is suspended instead: the next run resumes there.
//
// Output files and the file of states appear when the run has succeeded. If a run of files is stopped or fails, the old
// files stay unchanged, and the new output is kept in separate files, see Summary.Partial. For a topic without an end
// and for standard input, output files grow during the run. A stop ends standard input.
func (r Run) Execute(ctx context.Context, stop <-chan struct{}) (s Summary, err error) {
	start := time.Now()
	state := &run{log: cmp.Or(r.Log, slog.New(slog.DiscardHandler)), metrics: r.Metrics, stopping: stop}
	defer func() {
		if err != nil {
			err = errors.Join(err, state.closeOutboxes(state.failedTimeout()))
			s.Partial, _ = state.keepPartial() // err is more important than an error here
		}
		err = errors.Join(withAdvice(err), withAdvice(state.close(ctx, err == nil && !s.outputsKept)))
	}()
	graph := r.Graph
	if t, ok := graph.source.(topicSource); ok && t.Embedded {
		if graph, err = r.embed(ctx, state, t); err != nil {
			return s, err
		}
	}
	if graph, err = graph.withFoundFields(state.log); err != nil {
		return s, err
	}
	state.beginAnew, state.migrate, state.groups, state.observed = r.Reset, r.Migrate, graph.groups, r.Observer
	_, topics := graph.source.(topicSource)
	if r.Migrate && !topics {
		if _, s.Stopped, err = r.learn(ctx, graph, stop, state.log); s.Stopped || err != nil {
			return s, err
		}
	}
	err = state.open(ctx, graph)
	if errors.Is(err, errResetChoice) {
		if state.learned, s.Stopped, err = r.learn(ctx, graph, stop, state.log); s.Stopped || err != nil {
			return s, err
		}
		state.historyChecked = true
		err = state.open(ctx, graph)
	}
	if err != nil {
		return s, err
	}
	if err := r.runOpened(ctx, graph, state, stop); err != nil {
		return s, err
	}
	wait := time.Duration(0)
	if state.isStopped() {
		wait = stopTimeout
	}
	if err := state.closeOutboxes(wait); err != nil {
		return s, err
	}
	s = state.summary()
	s.clock, s.detects, s.groups, s.warmUp, s.advice = graph.Clock, graph.detects, graph.groups, graph.warmUp, graph.advice
	s.WarmUps = state.warmUps()
	if m, smooths := graph.transform.(smoothing); smooths {
		if s.gaps = [2]time.Duration{m.cfg.Gap, m.cfg.Gap}; m.cfg.Gap == 0 {
			s.gaps[0], s.gaps[1] = state.account.Gaps()
			s.steps = s.gaps[0] > 0
		}
	}
	if s.Records > 0 {
		s.Unmatched = state.unmatched(graph.patterns)
	}
	if t, ok := graph.source.(topicSource); !graph.unbounded() && (!ok || t.Bounded) {
		s.failedReceivers = state.failedReceivers
	}
	s.Elapsed = time.Since(start)
	if state.states != nil {
		s.resumes = true
		if state.states.marks != nil {
			s.AlreadyRead = state.states.marks.Skipped()
		}
	}
	if s.outputsKept = state.leavesOutputs(graph, s); s.outputsKept {
		s.Partial, err = state.keepPartial()
		return s, err
	}
	s.nothingNew = s.resumes && !s.Stopped && s.read() == 0
	return s, state.commit(s.nothingNew)
}

// errResetChoice means that states of a topic would be reset, at least in part, unless they are learned from the past.
var errResetChoice = errors.New("states would be reset")

// runOpened runs an open graph to its end.
func (r Run) runOpened(ctx context.Context, g *Graph, state *run, stop <-chan struct{}) error {
	err := statebackend.Execute(state.account.In(ctx), g.build(), state.log, func(ctx context.Context, suspend func()) {
		r.follow(ctx, state, stop, suspend)
	})
	step, crash := new(direct.Error), new(direct.Panic)
	switch isStep := errors.As(err, &step); {
	case isStep && errors.As(err, &crash):
		state.log.Debug("step panicked", "step", step.Step, "panic", crash.Value, "stack", crash.Stack)
		err = fmt.Errorf("%s panicked, a bug in hafvf: %s; please report it with the stack that --log-level debug shows", step.Step, crash.Value)
	case isStep:
		err = step.Err // it names the cause and the place
	}
	return err
}

// withAdvice adds the remedy to an error.
func withAdvice(err error) error {
	if errors.As(err, new(*kafkaio.ResumeError)) {
		return fmt.Errorf("%w; hafvf run CONFIG --begin-anew discards states and offsets and reads from the beginning", err)
	}
	return err
}

// embed starts a broker in this process, fills its topic, and returns the graph that reads from it.
func (r Run) embed(ctx context.Context, state *run, t topicSource) (*Graph, error) {
	address := ""
	if len(t.Cluster.Brokers) > 0 {
		address = t.Cluster.Brokers[0]
	}
	address, stop, err := embedded.Start(address, t.Topics...)
	if err != nil {
		return nil, err
	}
	state.release = append(state.release, stop)
	state.log.Info("embedded broker started: its data is lost at the end", "address", address, "topics", strings.Join(t.Topics, ","))
	cluster := kafkaio.Cluster{Brokers: []string{address}}
	if r.Example != nil {
		if err := r.Example(ctx, kafkaio.Sink{Cluster: cluster, Topic: t.Topics[0]}); err != nil {
			return nil, err
		}
	}
	return r.Graph.withCluster(cluster), nil
}

// follow reports progress, polls marks and quiet times, and passes on a stop, until ctx ends. In a run that suspends,
// it calls suspend when no record is in flight.
func (r Run) follow(ctx context.Context, state *run, stop <-chan struct{}, suspend func()) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	defer state.marks.follow(ctx)()
	end := func() (suspends bool) {
		if suspends = state.stop(); suspends && state.account.WaitIdle(ctx) {
			suspend()
		}
		return suspends
	}
	for {
		select {
		case <-stop:
			stop = nil
			if end() {
				return
			}
		case <-tick.C:
			if r.Progress != nil {
				r.Progress(state.progress())
			}
			if state.saver != nil {
				state.saver.commit()
			}
			state.quiet.poll()
			if state.history != nil && state.history.caughtUp != nil && state.history.caughtUp() && end() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// run is a run in this process. The nodes of its pipeline share it.
type run struct {
	log      *slog.Logger
	metrics  *Metrics
	account  *account.Run
	ledger   *kafkaio.Ledger // nil unless the source is topics
	clients  clients
	writers  []*connectors.Writer
	outboxes []*webhook.Outbox
	dead     graphSink

	stopping        <-chan struct{}    // closed to stop the run
	delivered       bool               // the outboxes are closed
	failedReceivers []string           // receivers that took none of the alerts due, in words
	states          *stateFile         // of files or queries; nil without one
	saver           *periodicSaver     // for queries without an end; else nil
	memory          *statestore.Memory // of the states; nil if the run smooths
	release         []func()

	beginAnew      bool          // see Run
	migrate        bool          // see Run
	history        *history      // the past that this run learns from; nil for none
	learned        *learnedTopic // states to start with, learned from the past; nil for none
	historyChecked bool          // the past was checked; until then open returns errResetChoice if states of topics would be reset
	observed       *Observer     // nil for none
	quiet          *quietWatch   // nil without quiet times of files
	marks          *markRegistry // nil if the config reads no marks
	folds          times.Folds   // of the source
	rounded        sync.Once     // rounding of numbers was logged
	rewinds        rewindLog
	panics         panicLog
	answers        promio.Tally // of the queried server

	mu            sync.Mutex
	deadLetterErr error // of writing to the dead letter
	stopped       bool
	groups        bool // alarms are grouped into incidents
	found         runFindings
}

// runOf returns the run of a node's context. A worker of a cluster has one too, see ServeWorker.
func runOf(ctx context.Context) *run { return account.Value[*run](account.From(ctx), "") }

// open checks that the graph can run, and opens its states or ledger and its outputs.
func (r *run) open(ctx context.Context, g *Graph) error {
	if err := g.source.check(ctx, &r.clients); err != nil {
		return err
	}
	partitions := 0
	if t, ok := g.source.(topicSource); ok {
		var err error
		if r.history == nil {
			partitions, err = r.openLedger(ctx, g, t)
		}
		if err != nil {
			return err
		}
		r.account = account.From(r.ledger.Context(ctx))
	} else {
		keeper, err := r.openStates(g)
		if err != nil {
			return err
		}
		r.account = account.Open(keeper)
		r.release = append(r.release, r.account.Close)
	}
	if f, ok := g.source.(fileSource); ok && f.piped {
		f.addPipeClock(r)
	}
	r.dead = g.dead
	for name, s := range g.sinks() {
		if err := s.prepare(ctx, &r.clients, partitions, r.log); err != nil {
			return err
		}
		if s.file != nil {
			if err := r.create(name, *s.file); err != nil {
				return err
			}
		}
	}
	if err := r.openOutboxes(g); err != nil {
		return err
	}
	r.register()
	r.watchQuiet(g)
	return r.openMarks(ctx, g)
}

// openStates locks and reads the file of states of a run of files or queries. It returns the keeper for the account.
func (r *run) openStates(g *Graph) (k account.StateKeeper, err error) {
	if r.history != nil {
		r.memory = r.states.Memory
		k = r.states.keeper()
		k.Suspends = g.unbounded()
		return k, nil
	}
	if g.states == "" {
		if _, filters := g.transform.(filtering); filters {
			r.memory = statestore.NewMemory()
		}
		return k, nil
	}
	if r.states, err = openStateFile(g, statebackend.OpenFile, r.migrate, r.log); err != nil {
		return k, err
	}
	r.release = append(r.release, r.states.Close)
	if q, ok := g.source.(querySource); ok && r.states.position.Begin.IsZero() {
		if err := r.states.begin(q.Begin(time.Now())); err != nil {
			return k, err
		}
	}
	r.memory = r.states.Memory
	if n := r.memory.Len(); n > 0 {
		r.log.Info("resumed filter states of the previous run", "file", g.states, "keys", n)
	}
	if !g.unbounded() {
		return r.states.keeper(), nil
	}
	r.saver = &periodicSaver{file: r.states, run: r, last: time.Now()}
	r.release = append(r.release, r.saver.close)
	return r.saver.keeper(), nil
}

// register makes the run available to the nodes in this process and to the metrics.
func (r *run) register() {
	account.WithValue(r.account, "", r)
	account.WithValue(r.account, "", r.memory)
	account.WithValue(r.account, "", r.log)
	account.WithValue(r.account, "", &r.answers)
	if r.states != nil {
		account.WithValue(r.account, "", r.states.marks)
		account.WithValue(r.account, "", r.states.position)
	}
	r.metrics.follow(r)
}

// openLedger opens the ledger of a run that reads topics. It returns the largest number of partitions of a topic.
func (r *run) openLedger(ctx context.Context, g *Graph, t topicSource) (partitions int, err error) {
	if partitions, err = t.partitions(ctx, &r.clients); err != nil {
		return 0, err
	}
	cfg := kafkaio.LedgerConfig{
		Client: r.clients.client(t.Cluster), Topics: t.Topics, Group: t.Group, Changelog: t.Changelog,
		DiscardStates: r.beginAnew, Migrate: r.migrate, Log: r.log, OnStage: r.metrics.stage, Sync: r.sync,
		// Receivers of alerts may change, and two configs may share them: they are not outputs here.
		Outputs: map[string]string{"sink": g.sink.describe(), "dead_letter": g.dead.describe()},
	}
	if g.states != "" {
		initial, err := openStateFile(g, statebackend.ReadFile, r.migrate, r.log)
		if err != nil {
			return 0, err
		}
		cfg.InitialStates = maps.Collect(initial.Memory.All())
		maps.Copy(cfg.InitialStates, initial.Memory.Reserved)
	}
	for _, s := range g.sinks() {
		// Output files of a bounded run appear at its end.
		cfg.CommitAtEnd = cfg.CommitAtEnd || t.Bounded && s.file != nil && !s.file.Direct()
	}
	if f, ok := g.transform.(filtering); ok {
		cfg.EndOnStop = f.incidents != nil && t.Changelog == "" // no state holds pending alerts
		states := f.store(r.migrate, r.log)
		if r.migrate && t.Changelog != "" && !r.historyChecked { // the changelog is read twice only if the past has to be learned
			states.DropIncompatible, states.Check = true, func(a statestore.Migrated) error {
				if a.Reset > 0 {
					return errResetChoice
				}
				return nil
			}
		}
		if r.learned != nil {
			states.DropIncompatible, cfg.ReplayedStates, cfg.ReplayedTo = true, r.learned.states, r.learned.offsets
			r.learned = nil // cfg has them now
		}
		topic, err := statebackend.OpenTopic(ctx, cfg, states)
		if err != nil {
			return 0, withMigrateHint(err, "another changelog", t.Changelog)
		}
		r.ledger, r.memory = topic.Ledger, topic.Memory
	} else {
		cfg.CommitAtEnd, cfg.EndOnStop = true, true // the runner holds sessions until they end
		cfg.SubtractLag = t.SubtractLag
		if r.ledger, err = kafkaio.OpenLedger(ctx, cfg); err != nil {
			return 0, err
		}
	}
	switch {
	case t.Changelog != "":
	case t.Group != "":
		r.log.Info("no changelog: a restart loses no record and resumes at the group's offsets, but filters start without states", "group", t.Group)
	default:
		r.log.Info("no group and no changelog: a restart reads again from the start of the source", "start", t.Start.At)
	}
	return partitions, nil
}

// create opens a file sink. It waits for the reader of a named pipe, until the run is stopped.
func (r *run) create(name string, file connectors.Sink) error {
	var w *connectors.Writer
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		w, err = connectors.Create(file)
	}()
	select {
	case <-opened:
	case <-r.stopping:
		select {
		case <-opened:
		case <-time.After(time.Second):
			return fmt.Errorf("%s is a pipe that nobody reads: nothing is written", file.Path)
		}
	}
	if err != nil {
		return err
	}
	r.writers = append(r.writers, w)
	account.WithValue(r.account, name, w)
	r.release = append(r.release, w.Abort)
	return nil
}

// leavesOutputs reports whether a finished run leaves its outputs and the file of states unchanged: it was stopped
// before the end of its input, or no record could be used.
func (r *run) leavesOutputs(g *Graph, s Summary) bool {
	if !s.Stopped && !s.useless() {
		return false
	}
	return g.source.leavesOutputs(s.Stopped, slices.ContainsFunc(r.writers, (*connectors.Writer).Whole))
}

// unmatched returns the patterns that matched no key, without duplicates.
func (r *run) unmatched(patterns []string) (unused []string) {
	checked := map[string]bool{}
	for _, pattern := range patterns {
		if !checked[pattern] && !r.account.HasMatched(pattern) {
			unused = append(unused, pattern)
		}
		checked[pattern] = true
	}
	return unused
}

// commit puts the outputs and the file of states in place. Steps that can fail for lack of space come first. With
// nothingNew, outputs without new records keep their old files.
func (r *run) commit(nothingNew bool) error {
	if nothingNew {
		r.writers = slices.DeleteFunc(r.writers, (*connectors.Writer).LeaveUnwritten)
	}
	for _, w := range r.writers {
		if err := w.Finish(); err != nil {
			return err
		}
	}
	replace := func() error { return nil }
	if r.states != nil {
		var err error
		var discard func()
		if replace, discard, err = r.states.prepare(r.account.Latest()); err != nil {
			return err
		}
		defer discard()
	}
	for _, w := range r.writers {
		if err := w.Commit(); err != nil {
			return err
		}
	}
	return replace()
}

// warmUps returns the keys in this run with fewer observations than their warm-up, sorted.
func (r *run) warmUps() (keys []string) {
	if r.memory == nil {
		return nil
	}
	for key, b := range r.memory.All() {
		if keyed.StateBytes(b).InWarmUp() && r.memory.Touched(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// keepPartial saves the new output in separate files, and returns their names.
func (r *run) keepPartial() (names []string, err error) {
	for _, w := range r.writers {
		name, e := w.KeepPartial()
		if name != "" {
			names = append(names, name)
		}
		err = cmp.Or(err, e)
	}
	return names, err
}

func (r *run) sync() error {
	for _, w := range r.writers {
		if err := w.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// close releases the resources of the run. If well is set, the ledger commits once more.
func (r *run) close(ctx context.Context, well bool) (err error) {
	if r.ledger != nil {
		err = r.ledger.Close(ctx, well)
	}
	for _, f := range r.release {
		f()
	}
	r.clients.close()
	return err
}

// stop stops the source. It reports whether the run is suspended instead of ended.
func (r *run) stop() bool {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	for _, w := range r.writers {
		w.Hurry()
	}
	if r.ledger == nil {
		r.account.Stop()
		return r.account.Suspended()
	}
	r.ledger.Stop()
	return r.ledger.Suspends()
}

func (r *run) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

func (r *run) progress() Progress {
	c, observations := r.account.Counts()
	return Progress{observations, c.Records, c.Rejected}
}

func (r *run) summary() Summary {
	c, observations := r.account.Counts()
	s := Summary{
		Counts: c, observations: observations, deadLetter: r.dead.describe(), Expired: r.expired(), Partials: r.answers.Partial.Load(), Dropped: r.answers.Dropped.Load(),
		Stopped: r.isStopped(), Deleted: r.account.DeletedByTopic(), ahead: r.account.HasAhead(),
	}
	if r.ledger != nil {
		for _, lag := range r.ledger.EventLags() {
			s.Lag.Usual, s.Lag.Max = max(s.Lag.Usual, lag.Usual), max(s.Lag.Max, lag.Max)
		}
	}
	r.found.summarise(&s)
	s.RejectedKeys = r.found.rejectedKeys(r.memory)
	s.Marks = r.marks.String()
	return s
}
