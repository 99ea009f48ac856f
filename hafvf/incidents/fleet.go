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
	longest   = 32             // steps of the largest window, and until an incident without alarms closes
	spreads   = 2              // steps in which all alarms of an incident's group are its own
	nearby    = 8              // steps, at least, in which an alarm looks for others of an incident
	headroom  = 8.             // the largest debt, in pages, at which there may be another
	repaid    = 7.             // pages that a budget of time pays: one a day by default
	remembers = 24 * time.Hour // in which a repeat is recognised

	defaultStep = time.Minute
	longestStep = 365 * 24 * time.Hour
)

// What a Config has by default.
const (
	DefaultBudget     = 7 * 24 * time.Hour // of incidents, and of a key
	DefaultSeparators = "/:"
	// DefaultSingle is that of the program.
	DefaultSingle = 3
)

// Kind is that of the alerts of incidents, among those of alarms.
const Kind = "incident"

// Budgets of keys are at least a minute and at most ten years, so that what a group may alarm is
// a sum that survives the going of any of its keys.
const (
	leastBudget = time.Minute
	mostBudget  = 10 * 365 * 24 * time.Hour
)

// A Config is what a user sets.
type Config struct {
	// Budget is the time in which one false incident is allowed on average. Default a week.
	Budget time.Duration
	// Separators are the characters that end a prefix of a key. Default "/:".
	Separators string
	// By are at most five labels of keys that are series, such as job and rack. Groups are the values of each
	// label and the pairs of two, of three keys and more. The order has no effect. Default none: groups are
	// prefixes.
	By []string
	// Labels are those of a key. Default those of a series as Prometheus writes it, the name as the label metric,
	// and none of other keys.
	Labels func(key string) map[string]string
	// Single is how many alarms in no incident may be pages in a week. Default none.
	Single int
	// Zone has the clock of the hours of the day, and of messages. Default UTC.
	Zone *time.Location
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Budget < 0 {
		return fmt.Errorf("budget %v is negative", c.Budget)
	}
	if c.Single < 0 || c.Single > mostSingle {
		return fmt.Errorf("%d pages a week of single alarms are not between 0 and %d", c.Single, mostSingle)
	}
	if len(c.By) > mostLabels {
		return fmt.Errorf("%d labels are more than %d", len(c.By), mostLabels)
	}
	for i, label := range c.By {
		if label == "" || strings.ContainsAny(label, ",=\"{}") || slices.Contains(c.By[:i], label) {
			return fmt.Errorf("%q is no name of a label, or stands there twice", label)
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

// byLabels is the prefix that tells groups by labels from groups by separators.
const byLabels = "by "

// groups says by what keys have groups.
func (c Config) groups() string {
	if len(c.By) > 0 {
		return byLabels + strings.Join(c.By, ",")
	}
	return c.Separators
}

// An Alarm is one of a key. Beliefs, and the end of a silence, are no alarms.
type Alarm struct {
	// ID is that of the record that raised it. Records of one line have one id, and one record may
	// raise alarms of two kinds, so ID, Key and Kind name an alarm together.
	ID, Key, Kind string
	// Time is that of the record. It is held to the years from 1844 to 2096.
	Time  time.Time
	Score float64 // decades, the clearest member has the largest; NaN counts as 0
	Size  float64 // standard deviations, signed; it is passed on
	// Threshold is what the score of the key had to pass, in decades; NaN and 0 if there was none.
	Threshold float64
	// Message is what it says, of a Digest's.
	Message string
}

// A Step is what an advance of the watermark brought about, each list in the order in which it
// happened.
type Step struct {
	Events   []Event
	Assigned []Assignment
	Singles  []Single
}

// An Assignment says to which incident an alarm belongs. Every alarm has one when it is taken. A
// later one of the same alarm replaces it: an incident that is found with the alarm of another key
// takes what was alone in the last 32 steps of that key, and may take what belonged to a long and
// wider incident. The alarms of a Merged incident are those of Event.Into without another one.
type Assignment struct {
	ID, Key, Kind string // of the alarm
	Incident      string // id of an incident; empty for an alarm that is alone
}

// A Fleet is the keys whose alarms are looked at together. It is not safe for concurrent use.
type Fleet struct {
	cfg    Config
	keys   map[string]*key
	groups map[string]*group
	// covering is what is known of pairs of groups by labels, until a key comes or goes.
	covering map[[2]string]bool
	arrived  heaped[registration] // registrations that the watermark has not passed
	waiting  heaped[*alarm]       // alarms likewise
	seen     map[identity]struct{}
	taken    []trace // of the alarms that seen has and waiting has not, by time

	started bool
	at      moment // of the last alarm that was taken
	debt    float64
	open    []*incident // in the order of opening
	past    []episode
	named   []string // ids of incidents opened at namedAt
	namedAt moment
	singles singles

	order    uint64 // alarms taken
	question uint64
	step     Step
}

// New makes a fleet without keys.
func New(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Fleet{
		singles: newSingles(cfg.Single),
		cfg:     cfg.withDefaults(), keys: map[string]*key{}, groups: map[string]*group{}, seen: map[identity]struct{}{},
		covering: map[[2]string]bool{},
	}, nil
}

// A moment is a time in nanoseconds of Unix. Those of a fleet are so near that int64 has their
// distances, and windows of the longest steps beyond them.
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

// seconds from another moment to m.
func (m moment) seconds(from moment) float64 { return float64(m-from) / 1e9 }

// A key is one that was registered or has alarmed.
type key struct {
	name    string
	step    moment
	allowed float64 // alarms per second, 1/budget
	assumed bool    // step and budget are not the key's own
	groups  []*group
	latest  []int    // positions of its latest alarm in what is recent in its groups; nil without any
	alone   []moment // of its latest alarms in no incident, at most eight
	asked   uint64   // the question in which it was last counted
}

// A registration waits for the watermark.
type registration struct {
	at      moment
	name    string
	step    moment
	allowed float64
}

func (r registration) compare(other registration) int {
	return cmp.Or(cmp.Compare(r.at, other.at), cmp.Compare(r.name, other.name), cmp.Compare(r.step, other.step), cmp.Compare(r.allowed, other.allowed))
}

// Register says that a key's warm-up ended at a time, how far its observations are apart, and in
// which time its own alarms have a budget of one. Keys that never alarm count as well: they say
// what is usual of their groups. A step or a budget that is not positive is a minute or a week.
// Steps are held to a year, budgets to a minute and ten years. Without a time nothing is registered.
//
// It reports whether that is something new. It holds from that time on, whenever it comes before the watermark. Of several the earliest
// holds. A key that has alarmed
// before has had a step of a minute and a budget of a week; these are replaced, also in what its
// groups are allowed.
func (f *Fleet) Register(name string, at time.Time, step, budget time.Duration) bool {
	if k := f.keys[name]; at.IsZero() || k != nil && !k.assumed {
		return false
	}
	r := registration{at: momentOf(at), name: strings.Clone(name)}
	r.step, r.allowed = stepOf(step), allowance(budget)
	f.arrived.push(r)
	return true
}

func stepOf(step time.Duration) moment {
	if step <= 0 {
		step = defaultStep
	}
	return moment(min(step, longestStep))
}

// allowance is the rate of alarms that a budget allows, per second.
func allowance(budget time.Duration) float64 {
	if budget <= 0 {
		budget = DefaultBudget
	}
	return 1 / min(max(budget, leastBudget), mostBudget).Seconds()
}

// registered makes a registration hold.
func (f *Fleet) registered(r registration, assumed bool) *key {
	k := f.keys[r.name]
	switch {
	case k == nil:
		k = &key{name: r.name, step: r.step, allowed: r.allowed, assumed: assumed}
		f.keys[r.name] = k
		f.enter(k, r.at)
	case k.assumed && !assumed:
		for _, g := range k.groups {
			g.allowed += r.allowed - k.allowed
			g.step = max(g.step, r.step)
			if g.begun {
				g.since = min(g.since, r.at)
			}
		}
		k.step, k.allowed, k.assumed = r.step, r.allowed, false
	}
	return k
}

// Forget takes a key out, so that nothing in the fleet has its name any more: out of the number of
// keys of its groups, what they may alarm, their alarms of late and those that wait, and the open
// incidents. A group goes with its last key, and what it has learned with it. An incident that
// loses its last member stays without one until its time has come: who was told that it opened has
// to be told that it closed. What the alarms of the key have added to the hours of its groups
// stays, and so does what repeats of them are recognised by. A key that comes back is a new one.
//
// Advance does not assign the alarms that waited.
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

// Add adds an alarm, to be taken when the watermark has passed it, and reports whether it was. A
// repeat, of which an alarm with the same ID, Key and Kind was added before, is not. It is
// recognised until alarms have been taken of a day later. An alarm without a time is not added
// either, as it happens with nothing together.
//
// An alarm that is older than one that was taken is late. By at most 8 steps of its key it is
// taken as if it came at that one's time. If it is later, it is learned and alone.
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
	f.waiting.push(&alarm{
		time: momentOf(a.Time), id: strings.Clone(a.ID), name: strings.Clone(a.Key), kind: strings.Clone(a.Kind),
		score: a.Score, size: a.Size, relative: relative(a.Score, a.Threshold),
	})
	return true
}

// relative is a score in thresholds of its key.
func relative(score, threshold float64) float64 {
	if threshold > 0 && score > 0 {
		return score / threshold
	}
	return 0
}

// An identity names an alarm in few bytes.
type identity [16]byte

func identify(id, key, kind string) identity {
	b := make([]byte, 0, 128)
	for _, s := range []string{id, key, kind} {
		b = compact.AppendString(b, s)
	}
	sum := sha256.Sum256(b)
	return identity(sum[:])
}

// A trace is what is left of an alarm by which its repeats are recognised.
type trace struct {
	id identity
	at moment
}

// Advance takes the alarms up to a watermark, that time included, and closes incidents whose time
// has come. No alarm from before it should come any more, see Add. A watermark that goes back
// does nothing.
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

// page decides which alarms in no incident are pages by a moment.
func (f *Fleet) page(by moment) {
	f.step.Singles = append(f.step.Singles, f.singles.due(by)...)
}

// takeNext takes the alarms of the earliest moment that wait. All are recent before the first of them is
// decided on, so that a storm is not what its first names have in common.
func (f *Fleet) takeNext() {
	var all []*alarm
	for time := f.waiting[0].time; len(f.waiting) > 0 && f.waiting[0].time == time; {
		all = append(all, f.waiting.pop())
	}
	at := all[0].time
	if f.started {
		at = max(at, f.at)
	}
	f.close(at)
	f.register(all[0].time)
	var near []*alarm
	for _, a := range all {
		a.at = at
		a.key = f.registered(registration{a.time, a.name, stepOf(0), allowance(0)}, true)
		a.name = a.key.name
		if at-a.time > nearby*a.key.step {
			f.alone(a, a.time)
		} else {
			near = append(near, a)
		}
	}
	f.take(at, near)
	for _, a := range all {
		f.remember(a)
	}
}

// register makes the registrations up to a moment hold.
func (f *Fleet) register(w moment) {
	for len(f.arrived) > 0 && f.arrived[0].at <= w {
		f.registered(f.arrived.pop(), false)
	}
}

// remember keeps what a repeat of an alarm is recognised by, and lets go of what is too old.
func (f *Fleet) remember(a *alarm) {
	f.taken = append(f.taken, trace{identify(a.id, a.name, a.kind), a.at})
	old := 0
	for ; f.taken[old].at <= f.at-moment(remembers); old++ {
		delete(f.seen, f.taken[old].id)
	}
	f.taken = f.taken[old:]
	for old = 0; old < len(f.past) && f.past[old].opened < f.at-episodeMemory; old++ {
	}
	f.past = f.past[old:]
}

func (f *Fleet) assign(a *alarm, incident string) {
	f.step.Assigned = append(f.step.Assigned, Assignment{a.id, a.name, a.kind, incident})
}

// Next returns the earliest time for which Advance has something to do: the earliest alarm that
// waits, or the moment after which an incident closes. It is false where there is neither.
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

// Keys is the number of keys that the fleet knows.
func (f *Fleet) Keys() int { return len(f.keys) }

// Names are the keys that Forget has something to take out of, sorted.
func (f *Fleet) Names() []string {
	all := map[string]bool{}
	for name := range f.keys {
		all[name] = true
	}
	for _, r := range f.arrived {
		all[r.name] = true
	}
	for _, a := range f.waiting {
		all[a.name] = true
	}
	for _, inc := range f.open {
		for name := range inc.members {
			all[name] = true
		}
	}
	for name := range f.singles.waits {
		all[name.Key] = true
	}
	for name := range f.singles.member {
		all[name] = true
	}
	for _, d := range f.singles.days {
		for _, o := range d.scores {
			all[o.key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// heaped is a heap of what has an order.
type heaped[T interface{ compare(T) int }] []T

func (h heaped[T]) Len() int           { return len(h) }
func (h heaped[T]) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h heaped[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *heaped[T]) Push(v any) { *h = append(*h, v.(T)) }

// Pop is heap.Interface's.
func (h *heaped[T]) Pop() any {
	last := len(*h) - 1
	v := (*h)[last]
	var none T
	(*h)[last] = none
	*h = (*h)[:last]
	return v
}

func (h *heaped[T]) push(v T) { heap.Push(h, v) }
func (h *heaped[T]) pop() T   { return heap.Pop(h).(T) }

func (h *heaped[T]) remove(gone func(T) bool) {
	*h = slices.DeleteFunc(*h, gone)
	heap.Init(h)
}
