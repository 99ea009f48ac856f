// Package report makes one page of alerts and estimates. It shows in a minute what happened to all keys.
package report

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"hafvf/cmd/hafvf/output"
	"hafvf/internal/clock"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/records"
)

// An Estimate is an observation of a key, as far as a page shows it. NaN stands for no number.
type Estimate struct {
	Key              string
	Time             time.Time
	X                float64
	Predicted, Usual struct{ Mean, SD float64 }
	Score, Threshold float64
	Alarm            bool
	Outlier          bool // is believed to be one
	Muted, Resting   bool // known of a run only
}

// newEstimate returns an estimate without detection.
func newEstimate(name string, at time.Time, x [][]float64, predicted output.Moments) Estimate {
	nan := math.NaN()
	e := Estimate{Key: name, Time: at, X: nan, Score: nan, Threshold: nan}
	if v := output.Observed(x, predicted.Mean); len(v) > 0 {
		e.X = v[0]
	}
	e.Predicted.Mean, e.Predicted.SD = output.First(predicted.Mean), output.First(predicted.SD)
	e.Usual.Mean, e.Usual.SD = nan, nan
	return e
}

// kinds of alerts that a page knows. The first four are alarms, the others are told about them.
var kinds = []string{"novelty", "change", "outlier", "silent", "recovered", "revision"}

const (
	novelty = iota
	change
	outlier
	silent
	recovered
	revision
)

// isAlarm says whether a kind begins something.
func isAlarm(kind int) bool { return kind <= silent }

// An alarm is what is kept of every one.
type alarm struct {
	key                    *key
	at                     int64 // Unix seconds; noTime where there is none
	score, threshold, size float32
	kind                   uint8
	inIncident             bool
}

const noTime = math.MinInt64

// weight is how far an alarm stands out: its score; of a change, which is found by other means,
// at least the threshold. What has no score weighs as much as a usual threshold.
func (a *alarm) weight() float64 {
	w := float64(a.score)
	if a.kind == change || a.kind == outlier {
		w = max(w, float64(a.threshold))
	}
	if math.IsNaN(w) {
		return plainWeight
	}
	return max(w, 0)
}

const plainWeight = 5

// A detail is an alarm with what a row of the table shows of it.
type detail struct {
	alarm
	id, message, incident string
	time                  time.Time
}

// rank orders the rows: by size, as backtest does.
func (d *detail) rank() float64 {
	if s := math.Abs(float64(d.size)); !math.IsNaN(s) {
		return s
	}
	return plainWeight
}

// A key is what is known of one.
type key struct {
	name      string
	group     string
	estimates int64
	alarms    int
	weight    float64

	silences              int
	silentAt, recoveredAt int64
	silentSince           time.Time

	muted, resting  int
	suppressedScore float64 // the largest score of these
	habits
	values   pipeline.Values
	series   *series
	smoothed []output.Record // with times
}

// Limits of a page and of the memory for it. What is beyond is counted, and the page says so.
const (
	maxRows      = 1000      // alarms in the table
	maxSingles   = 500       // alarms kept as candidates for the list of single ones
	maxIncidents = 2000      // with their members
	maxFollowed  = 200       // keys with a series
	maxPoints    = 2_000_000 // of all series, while they are gathered
)

// A Collector gathers what a page shows, in any order. Its zero value is not usable: see
// NewCollector. Several goroutines may use it.
type Collector struct {
	mu   sync.Mutex
	from time.Time
	zone *time.Location

	keys       map[string]*key
	order      []*key
	alarms     []alarm
	counts     map[string]int64 // all alerts by kind
	early      int64            // records before from
	undated    int64            // alerts without a time
	estimates  int64
	first      time.Time
	last       time.Time
	rows       top
	singles    top
	incidents  map[string]*output.Alert // the last record of each id
	ids        map[uint64]uint64
	repeats    int64
	differ     int64
	marked     int64 // alarms in the estimates
	narrowed   bool
	points     int
	pointLimit int // of a key

	smoothed, smoothedLeft, untimed int64 // records of sessions that are kept, that are not, and that have no times

	sources []string
	notes   []string
	trial   *Trial // of a run, which tells more than files do
	marks   []records.Mark
	markTo  string // the config that takes marks; empty: nobody does
	live    bool   // has the last estimates of keys that alarmed of late, and no others
}

// NewCollector returns a collector that leaves out what is before from, for a page with the times of a zone.
func NewCollector(from time.Time, zone *time.Location) *Collector {
	return &Collector{
		from: from, zone: zone, keys: map[string]*key{}, counts: map[string]int64{}, incidents: map[string]*output.Alert{}, ids: map[uint64]uint64{},
		rows: top{limit: maxRows}, singles: top{limit: maxSingles}, pointLimit: maxKeyPoints,
	}
}

// Source names a file that was read.
func (c *Collector) Source(name string) { c.sources = append(c.sources, name) }

// AddMarks adds what users say of alarms.
func (c *Collector) AddMarks(all []records.Mark) { c.marks = append(c.marks, all...) }

// markOf is what the last mark says of an alarm; empty if there is none.
func (c *Collector) markOf(d *detail) string {
	for _, m := range slices.Backward(c.marks) {
		if m.Of(d.key.name, d.id, d.incident) {
			return m.Mark
		}
	}
	return ""
}

// markCommand is the command that marks an alarm as false; empty if nobody takes it.
func (c *Collector) markCommand(d *detail) string {
	if c.markTo == "" {
		return ""
	}
	return fmt.Sprintf("hafvf mark %s false --key %s --config %s", shellWord(d.id), shellWord(d.key.name), shellWord(c.markTo))
}

// shellWord returns a text as one word of a shell command. Characters that a terminal may act on, such as escapes, are written
// by their codes, as bash, ksh and zsh read them.
func shellWord(s string) string {
	if s != "" && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r))
	}) {
		return s
	}
	if message.IsPrintable(s) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	b := []byte("$'")
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\'' || r == '\\':
			b = append(b, '\\', s[i])
		case unicode.IsPrint(r) && !(r == utf8.RuneError && n == 1):
			b = append(b, s[i:i+n]...)
		default:
			for _, c := range []byte(s[i : i+n]) {
				b = fmt.Appendf(b, `\x%02x`, c)
			}
		}
		i += n
	}
	return string(append(b, '\''))
}

// Note adds a sentence about the input to the page.
func (c *Collector) Note(text string) { c.notes = append(c.notes, text) }

func (c *Collector) keyOf(name string) *key {
	k := c.keys[name]
	if k == nil {
		name = strings.Clone(name)
		k = &key{name: name, silentAt: noTime, recoveredAt: noTime}
		c.keys[name] = k
		c.order = append(c.order, k)
	}
	return k
}

// seen widens the period. It reports whether the time is in it.
func (c *Collector) seen(t time.Time) bool {
	if t.IsZero() {
		return c.from.IsZero()
	}
	if t.Before(c.from) {
		c.early++
		return false
	}
	c.first, c.last = clock.Earlier(c.first, t), clock.Later(c.last, t)
	return true
}

// AddAlert takes the next alert.
func (c *Collector) AddAlert(a *output.Alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.seen(a.Time) {
		return
	}
	c.counts[a.Kind]++
	if a.Kind == "incident" {
		c.addIncident(a)
		return
	}
	c.repeated(a)
	if a.Time.IsZero() {
		c.undated++
	}
	kind := slices.Index(kinds, a.Kind)
	if kind < 0 {
		return
	}
	k := c.keyOf(a.Key)
	at := unix(a.Time)
	switch kind {
	case silent:
		if at >= k.silentAt {
			k.silentAt, k.silentSince = at, a.Start
		}
		k.silences++
	case recovered:
		k.recoveredAt = max(k.recoveredAt, at)
	}
	if !isAlarm(kind) {
		return
	}
	one := alarm{key: k, at: at, score: float32(a.Score), threshold: float32(a.Threshold), size: float32(a.Size), kind: uint8(kind), inIncident: a.Incident != ""}
	c.alarms = append(c.alarms, one)
	k.alarms++
	k.weight += one.weight()
	k.note(a, kind, c.zone)
	d := detail{one, a.ID, a.Message, a.Incident, a.Time}
	c.rows.add(d)
	if !one.inIncident {
		c.singles.add(d)
	}
}

// repeated counts alerts that came before: the same once more, as delivery at least once has it,
// or another one of the same observation.
func (c *Collector) repeated(a *output.Alert) {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, s := range []string{a.Key, a.Kind, a.ID} {
		h.WriteString(s)
		h.WriteByte(0)
	}
	maphash.WriteComparable(&h, a.Time.UnixNano())
	id := h.Sum64()
	for _, v := range []output.Scalar{a.Score, a.Threshold, a.Size} {
		maphash.WriteComparable(&h, math.Float64bits(float64(v)))
	}
	content := h.Sum64()
	switch before, there := c.ids[id]; {
	case !there:
		c.ids[id] = content
	case before == content:
		c.repeats++
	default:
		c.differ++
	}
}

var seed = maphash.MakeSeed()

func (c *Collector) addIncident(a *output.Alert) {
	// The last record stands for all. Several may have one time: the end is the last of them, and
	// an incident only grows.
	if was := c.incidents[a.ID]; was != nil {
		order := a.Time.Compare(was.Time)
		if order < 0 || order == 0 && (over(was) && !over(a) || over(was) == over(a) && a.Alarmed < was.Alarmed) {
			return
		}
	}
	one := *a
	c.incidents[a.ID] = &one
	if len(c.incidents) > maxIncidents {
		one.Members = nil
	}
}

// over reports whether an incident has ended.
func over(a *output.Alert) bool { return a.State == "closed" || a.State == "merged" }

// AddEstimate takes the next estimate.
func (c *Collector) AddEstimate(e *Estimate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.seen(e.Time) {
		return
	}
	k := c.keyOf(e.Key)
	c.estimates++
	k.estimates++
	if e.Alarm {
		c.marked++
	}
	if isNumber(e.X) {
		k.values.Add(e.Outlier, e.X)
	}
	if e.Muted || e.Resting {
		if k.muted+k.resting == 0 || e.Score > k.suppressedScore {
			k.suppressedScore = e.Score
		}
		if e.Muted {
			k.muted++
		} else {
			k.resting++
		}
	}
	if e.Time.IsZero() || c.narrowed && k.series == nil {
		return
	}
	if k.series == nil {
		if c.points >= maxPoints && c.pointLimit <= minKeyPoints {
			return // more keys than memory has room for
		}
		k.series = &series{}
	}
	before := len(k.series.points)
	k.series.add(e, c.pointLimit)
	k.series.hours.Add(c.zone, e.Time, e.Usual.Mean, e.Usual.SD)
	if c.points += len(k.series.points) - before; c.points > maxPoints && c.pointLimit > minKeyPoints {
		c.pointLimit /= 2
		for _, k := range c.order {
			if k.series != nil {
				k.series.thin(c.pointLimit)
			}
		}
		c.countPoints()
	}
}

// countPoints counts the points of all series anew.
func (c *Collector) countPoints() {
	c.points = 0
	for _, k := range c.order {
		if k.series != nil {
			c.points += len(k.series.points)
		}
	}
}

// skip counts a record that has not been read: one before the period, or an estimate of a key that no
// series is kept of.
func (c *Collector) skip(name string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen(at) {
		c.estimates++
		c.keyOf(name).estimates++
	}
}

// Narrow keeps series of the keys to which most has happened so far, and of no other one: for
// estimates that come behind all alerts. It returns these keys, and nil if nothing has happened.
func (c *Collector) Narrow() map[string]bool {
	if len(c.alarms) == 0 {
		return nil
	}
	c.narrowed = true
	followed := map[string]bool{}
	happened := c.happened()
	for _, k := range happened[:min(maxFollowed, len(happened))] {
		k.series = &series{}
		followed[k.name] = true
	}
	return followed
}

// happened are the keys with alarms, those first to which most happened.
func (c *Collector) happened() []*key {
	all := slices.DeleteFunc(slices.Clone(c.order), func(k *key) bool { return k.alarms == 0 })
	slices.SortFunc(all, func(a, b *key) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	return all
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.Unix()
}

// A top keeps the details of the highest rank.
type top struct {
	limit int
	all   []detail
	least float64
}

// add adds d. When twice the limit is there, the lower half is let go.
func (t *top) add(d detail) {
	if t.least > 0 && d.rank() < t.least {
		return
	}
	t.all = append(t.all, d)
	if len(t.all) >= 2*t.limit {
		t.cut()
		t.least = t.all[len(t.all)-1].rank()
	}
}

// cut sorts what is kept, the highest rank first.
func (t *top) cut() {
	slices.SortFunc(t.all, func(a, b detail) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.at, b.at), cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
	})
	t.all = t.all[:min(len(t.all), t.limit)]
}
