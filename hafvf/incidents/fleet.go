package incidents

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/internal/compact"
)

const (
	maxWindowSteps = 32             // steps of the largest window, and until an incident without alarms closes
	ownSteps       = 2              // steps after the opening in which all alarms of an incident's group belong to it
	nearSteps      = 8              // minimum steps in which an alarm looks for others of an incident
	headroom       = 8.             // largest debt, in pages, at which another page is allowed
	pagesPerBudget = 7.             // one a day by default
	repeatMemory   = 24 * time.Hour // time in which a repeat is recognised

	defaultStep = time.Minute
	maxStep     = 365 * 24 * time.Hour
)

// Defaults of a Config.
const (
	DefaultBudget     = 7 * 24 * time.Hour // of incidents, and of a key
	DefaultSeparators = "/:"
	// DefaultSingle is the default of the program, not of Config.
	DefaultSingle = 3
)

// Kind is the kind of the alerts of incidents, next to the kinds of alarms.
const Kind = "incident"

// Budgets of keys are limited to between a minute and ten years, so that the allowed rate of a group, which is a sum,
// stays accurate when a key leaves.
const (
	minBudget = time.Minute
	maxBudget = 10 * 365 * 24 * time.Hour
)

// A Config contains the settings of a Fleet.
type Config struct {
	// Budget is the time in which one false incident is allowed on average. Default a week.
	Budget time.Duration
	// Separators are the characters that end a prefix of a key. Default "/:".
	Separators string
	// By are at most five labels of keys that are series, such as job and rack. The groups are the values of each label
	// and the pairs of values of two labels, with at least three keys each. The order has no effect. If By is empty,
	// groups are prefixes.
	By []string
	// Labels returns the labels of a key. Default: the labels of a series as Prometheus writes it, with its name as the
	// label metric; other keys have none.
	Labels func(key string) map[string]string
	// MaxSinglePages is the maximum number of pages in a week for alarms outside incidents. Default none.
	MaxSinglePages int
	// Zone sets the local time for the hours of the day, and for messages. Default UTC.
	Zone *time.Location
	// OmitToday omits the date of today's times in messages. It is for live input: messages depend on the time of the
	// run. Default: messages have dates.
	OmitToday bool
}

// Validate returns an error that names an invalid setting.
func (c Config) Validate() error {
	if c.Budget < 0 {
		return fmt.Errorf("budget %v is negative", c.Budget)
	}
	if c.MaxSinglePages < 0 || c.MaxSinglePages > maxSingle {
		return fmt.Errorf("%d pages a week of single alarms are not between 0 and %d", c.MaxSinglePages, maxSingle)
	}
	if len(c.By) > maxLabels {
		return fmt.Errorf("%d labels are more than %d", len(c.By), maxLabels)
	}
	for i, label := range c.By {
		if label == "" || strings.ContainsAny(label, ",=\"{}") || slices.Contains(c.By[:i], label) {
			return fmt.Errorf("%q is not a label name, or is listed twice", label)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Budget = cmp.Or(c.Budget, DefaultBudget)
	c.Separators = cmp.Or(c.Separators, DefaultSeparators)
	c.Zone = cmp.Or(c.Zone, time.UTC)
	c.By = slices.Sorted(slices.Values(c.By))
	if c.Labels == nil {
		c.Labels = seriesLabels
	}
	return c
}

// byLabels is the prefix of a grouping by labels, in the result of Config.groups.
const byLabels = "by "

// groups identifies the grouping: the labels or the separators.
func (c Config) groups() string {
	if len(c.By) > 0 {
		return byLabels + strings.Join(c.By, ",")
	}
	return c.Separators
}

// An Alarm is an alarm of a key. Beliefs, and the end of a silence, are not alarms.
type Alarm struct {
	// ID is the ID of the record that raised the alarm. Records of one line have the same ID, and a record may raise
	// alarms of two kinds: only ID, Key and Kind together identify an alarm.
	ID, Key, Kind string
	// Time is the time of the record. It is limited to the years from 1844 to 2096.
	Time  time.Time
	Score float64 // decades; NaN counts as 0
	Size  float64 // standard deviations, signed; it is passed on
	// Threshold is the threshold of the key's score, in decades. NaN and 0 mean none.
	Threshold float64
	// Message is the text of the alarm, for a Digest.
	Message string
	// Episode is the episode of the alarm; nil for none, as for a silence. If its ID is not that of the alarm, the
	// alarm only reports that the episode is worse. Such a report counts only if it stands out, and otherwise updates
	// the member of the incident with the episode.
	Episode *Episode
}

// An Episode is a deviation of a key, with its usual values before and its worst observation so far. It is passed on.
type Episode struct {
	ID                 string    // ID of its first alarm
	UsualMean, UsualSD []float64 // by output
	Worst              Worst
}

// Worst is the observation of an episode that is farthest from usual.
type Worst struct {
	Time        time.Time
	Value, Size float64 // Size is in standard deviations, signed
}

// A Step is the result of an Advance. Each list is in the order of the events.
type Step struct {
	Events   []Event
	Assigned []Assignment
	Singles  []Single
}

// An Assignment is the incident that an alarm belongs to. Every alarm gets one when it is processed. A later Assignment
// of the same alarm replaces it: an incident that is found with the alarm of another key takes alarms outside incidents
// from the last 32 steps of that key, and may take alarms from an older and wider incident. The alarms of a Merged
// incident belong to Event.MergedInto, without another Assignment.
type Assignment struct {
	ID, Key, Kind string // of the alarm
	Incident      string // ID of an incident; empty for an alarm outside incidents
}

// A Fleet is a set of keys whose alarms are combined. It is not safe for concurrent use.
type Fleet struct {
	cfg    Config
	keys   map[string]*key
	groups map[string]*group
	// covering caches the results of covers for pairs of groups by labels, until a key enters or leaves.
	covering  map[[2]string]bool
	arrived   priorityQueue[registration] // registrations after the watermark
	waiting   priorityQueue[*alarm]       // alarms after the watermark
	seen      map[identity]struct{}
	processed []trace // processed alarms in seen, by time

	started bool
	now     moment // time of the last processed alarm
	debt    float64
	open    []*incident // in the order of opening
	// backgrounds caches the results of background, until time or an incident changes.
	backgrounds []*background
	past        []pastIncident
	named       []string // IDs of the incidents that were opened at namedAt
	namedAt     moment
	singles     singles

	order    uint64 // number of processed alarms
	question uint64
	step     Step
}

// New returns a fleet without keys.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Fleet{
		singles: newSingles(cfg.MaxSinglePages),
		cfg:     cfg.withDefaults(), keys: map[string]*key{}, groups: map[string]*group{}, seen: map[identity]struct{}{},
		covering: map[[2]string]bool{},
	}, nil
}

// A moment is a Unix time in nanoseconds, limited to ±4·10¹⁸ so that differences and windows fit into int64.
type moment int64

const farthest = moment(4e18)

func momentOf(t time.Time) moment {
	switch sec := t.Unix(); {
	case sec >= int64(farthest/1e9):
		return farthest
	case sec <= -int64(farthest/1e9):
		return -farthest
	}
	return moment(t.UnixNano())
}

func (m moment) time() time.Time { return time.Unix(0, int64(m)).UTC() }

// seconds returns the seconds from another moment to m.
func (m moment) seconds(from moment) float64 { return float64(m-from) / 1e9 }

// A key was registered or has alarmed.
type key struct {
	name    string
	step    moment
	allowed float64 // alarms per second, 1/budget
	assumed bool    // step and budget are defaults, not registered
	groups  []*group
	latest  []int    // positions of its latest alarm in recent of its groups; nil without any
	alone   []moment // its latest alarms outside incidents, at most eight
	asked   uint64   // the last question that counted it
}

// A registration waits for the watermark.
type registration struct {
	time    moment
	name    string
	step    moment
	allowed float64
}

func (r registration) compare(other registration) int {
	return cmp.Or(cmp.Compare(r.time, other.time), cmp.Compare(r.name, other.name), cmp.Compare(r.step, other.step), cmp.Compare(r.allowed, other.allowed))
}

// Register registers a key: the time at which its warm-up ended, the step between its observations, and the budget, the
// time in which its own alarms may be one. Register keys that never alarm too: they add to the usual rates of their
// groups. A step that is not positive is replaced by a minute, and such a budget by a week. Steps are limited to at
// most a year, and budgets to between a minute and ten years. A zero time registers nothing.
//
// Register reports whether the registration is new. It applies from its time on, and may arrive in any order before the
// watermark. The earliest of several registrations applies. A key that has alarmed before had a step of a minute and a
// budget of a week; the registration replaces these, also in the allowed rate of its groups.
func (f *Fleet) Register(name string, ended time.Time, step, budget time.Duration) bool {
	if k := f.keys[name]; ended.IsZero() || k != nil && !k.assumed {
		return false
	}
	r := registration{time: momentOf(ended), name: strings.Clone(name)}
	r.step, r.allowed = stepOf(step), allowance(budget)
	f.arrived.push(r)
	return true
}

func stepOf(step time.Duration) moment {
	if step <= 0 {
		step = defaultStep
	}
	return moment(min(step, maxStep))
}

// allowance returns the rate of alarms, per second, that a budget allows.
func allowance(budget time.Duration) float64 {
	if budget <= 0 {
		budget = DefaultBudget
	}
	return 1 / min(max(budget, minBudget), maxBudget).Seconds()
}

// registered applies a registration, and returns its key. assumed means that the key has only alarmed.
func (f *Fleet) registered(r registration, assumed bool) *key {
	k := f.keys[r.name]
	switch {
	case k == nil:
		k = &key{name: r.name, step: r.step, allowed: r.allowed, assumed: assumed}
		f.keys[r.name] = k
		f.enter(k, r.time)
	case k.assumed && !assumed:
		for _, g := range k.groups {
			g.allowed += r.allowed - k.allowed
			g.step = max(g.step, r.step)
			if g.begun {
				g.start = min(g.start, r.time)
			}
		}
		k.step, k.allowed, k.assumed = r.step, r.allowed, false
	}
	return k
}

// Forget removes a key and everything with its name: from the number of keys and the allowed rate of its groups, from
// their recent alarms, from the waiting alarms, and from the open incidents. A group is removed with its last key, and
// so is its learned rate. An incident that loses its last member stays open without one until it is due, because its
// opening was reported and so its closing must be. The alarms of the key that its groups have counted by the hour
// remain counted, and repeats of them are still recognised. A key that returns is new.
//
// The waiting alarms of the key get no Assignment.
func (f *Fleet) Forget(name string) {
	f.arrived.remove(func(r registration) bool { return r.name == name })
	f.waiting.remove(func(a *alarm) bool {
		if a.name == name {
			delete(f.seen, identify(a.id, a.name, a.kind))
		}
		return a.name == name
	})
	for _, inc := range f.open {
		inc.leave(name)
	}
	f.singles.forget(name)
	k := f.keys[name]
	if k == nil {
		return
	}
	delete(f.keys, name)
	f.leave(k)
}

// Add adds an alarm, to be processed when the watermark has passed it. It reports whether the alarm was added. Add
// ignores a repeat of an alarm with the same ID, Key and Kind; repeats are recognised until an alarm from a day later
// has been processed. Add also ignores an alarm with a zero time, as it is close to no other alarm.
//
// An alarm that is older than a processed alarm is late. If it is late by at most 8 steps of its key, it is processed
// as if it occurred at the time of that alarm. If it is later, it is learned, and is in no incident.
func (f *Fleet) Add(a Alarm) bool {
	if a.Time.IsZero() {
		return false
	}
	id := identify(a.ID, a.Key, a.Kind)
	if _, repeated := f.seen[id]; repeated {
		return false
	}
	f.seen[id] = struct{}{}
	if math.IsNaN(a.Score) {
		a.Score = 0
	}
	added := &alarm{
		time: momentOf(a.Time), id: strings.Clone(a.ID), name: strings.Clone(a.Key), kind: strings.Clone(a.Kind),
		score: a.Score, size: a.Size, relative: relative(a.Score, a.Threshold), episode: a.Episode.clone(),
	}
	if added.worse() { // usual values follow an episode, so its scores become smaller: a report counts by its size
		added.relative = max(added.relative, relative(a.Size*a.Size/(2*math.Ln10), a.Threshold))
	}
	f.waiting.push(added)
	return true
}

// clone returns a copy that shares no memory with other values.
func (e *Episode) clone() *Episode {
	if e == nil {
		return nil
	}
	return &Episode{strings.Clone(e.ID), slices.Clone(e.UsualMean), slices.Clone(e.UsualSD), e.Worst}
}

// relative returns a score in units of its key's threshold, 0 without a threshold.
func relative(score, threshold float64) float64 {
	if threshold > 0 && score > 0 {
		return score / threshold
	}
	return 0
}

// An identity is a short hash that identifies an alarm.
type identity [16]byte

func identify(id, key, kind string) identity {
	b := make([]byte, 0, 128)
	for _, s := range []string{id, key, kind} {
		b = compact.AppendString(b, s)
	}
	sum := sha256.Sum256(b)
	return identity(sum[:])
}

// A trace is the rest of a processed alarm, to recognise its repeats.
type trace struct {
	id      identity
	takenAt moment
}

// Advance processes the alarms up to and including the watermark, and closes the incidents that are due. Later alarms
// from before the watermark are late, see Add. A watermark that moves back does nothing.
func (f *Fleet) Advance(watermark time.Time) Step {
	w := momentOf(watermark)
	for len(f.waiting) > 0 && f.waiting[0].time <= w {
		f.page(f.waiting[0].time - 1)
		f.takeNext()
	}
	f.page(w)
	f.close(w)
	f.register(w)
	step := f.step
	f.step = Step{}
	return step
}

// page decides which alarms outside incidents are pages at t.
func (f *Fleet) page(t moment) {
	f.step.Singles = append(f.step.Singles, f.singles.due(t)...)
}

// takeNext processes the waiting alarms of the earliest time. All of them are made recent before the first is decided,
// so that the incident of a storm does not depend on which names come first.
func (f *Fleet) takeNext() {
	var batch []*alarm
	for earliest := f.waiting[0].time; len(f.waiting) > 0 && f.waiting[0].time == earliest; {
		batch = append(batch, f.waiting.pop())
	}
	t := batch[0].time
	if f.started {
		t = max(t, f.now)
	}
	f.close(t)
	f.register(batch[0].time)
	var near []*alarm
	for _, a := range batch {
		a.takenAt = t
		a.key = f.registered(registration{a.time, a.name, stepOf(0), allowance(0)}, true)
		a.name = a.key.name
		if late := t-a.time > nearSteps*a.key.step; late && a.worse() {
			f.worsen(a)
		} else if late {
			f.alone(a, a.time)
		} else {
			near = append(near, a)
		}
	}
	f.take(t, near)
	for _, a := range batch {
		f.remember(a)
	}
}

// register applies the registrations up to w.
func (f *Fleet) register(w moment) {
	for len(f.arrived) > 0 && f.arrived[0].time <= w {
		f.registered(f.arrived.pop(), false)
	}
}

// remember stores the trace of an alarm for its repeats, and drops traces and closed incidents that are too old.
func (f *Fleet) remember(a *alarm) {
	f.processed = append(f.processed, trace{identify(a.id, a.name, a.kind), a.takenAt})
	old := 0
	for ; f.processed[old].takenAt <= f.now-moment(repeatMemory); old++ {
		delete(f.seen, f.processed[old].id)
	}
	f.processed = f.processed[old:]
	for old = 0; old < len(f.past) && f.past[old].opened < f.now-pastMemory; old++ {
	}
	f.past = f.past[old:]
}

func (f *Fleet) assign(a *alarm, incident string) {
	f.step.Assigned = append(f.step.Assigned, Assignment{a.id, a.name, a.kind, incident})
}

// Next returns the earliest time at which Advance has something to do: the time of the earliest waiting alarm, the time
// after which an incident closes, or the time at which an alarm outside incidents has waited long enough. It returns
// false if there is none.
func (f *Fleet) Next() (time.Time, bool) {
	next := farthest + 1
	if len(f.waiting) > 0 {
		next = f.waiting[0].time
	}
	for _, inc := range f.open {
		next = min(next, inc.end()+1)
	}
	for _, w := range f.singles.waits {
		next = min(next, w.due)
	}
	if next > farthest {
		return time.Time{}, false
	}
	return next.time(), true
}

// Keys returns the number of known keys.
func (f *Fleet) Keys() int { return len(f.keys) }

// Names returns the sorted names of all keys that Forget would affect.
func (f *Fleet) Names() []string {
	names := map[string]bool{}
	for name := range f.keys {
		names[name] = true
	}
	for _, r := range f.arrived {
		names[r.name] = true
	}
	for _, a := range f.waiting {
		names[a.name] = true
	}
	for _, inc := range f.open {
		for name := range inc.members {
			names[name] = true
		}
	}
	for name := range f.singles.waits {
		names[name.Key] = true
	}
	for name := range f.singles.member {
		names[name] = true
	}
	for _, d := range f.singles.days {
		for _, o := range d.scores {
			names[o.key] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// priorityQueue is a heap of values with an order.
type priorityQueue[T interface{ compare(T) int }] []T

func (h priorityQueue[T]) Len() int           { return len(h) }
func (h priorityQueue[T]) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h priorityQueue[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *priorityQueue[T]) Push(v any) { *h = append(*h, v.(T)) }

// Pop implements heap.Interface.
func (h *priorityQueue[T]) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	var zero T
	(*h)[last] = zero
	*h = (*h)[:last]
	return v
}

func (h *priorityQueue[T]) push(v T) { heap.Push(h, v) }
func (h *priorityQueue[T]) pop() T   { return heap.Pop(h).(T) }

func (h *priorityQueue[T]) remove(removed func(T) bool) {
	*h = slices.DeleteFunc(*h, removed)
	heap.Init(h)
}
