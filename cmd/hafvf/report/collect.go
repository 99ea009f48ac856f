// Package report writes one HTML page about the alerts, estimates and smoothed sessions of all keys.
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

	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/keyed"
	"hafvf/internal/clock"
	"hafvf/internal/jsontext"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/records"
)

// An Estimate is an observation of a key with the numbers that a page shows. NaN means no number.
type Estimate struct {
	Key              string
	Time             time.Time
	X                float64
	Predicted, Usual struct{ Mean, SD float64 }
	Score, Threshold float64
	Alarm            bool
	Outlier          bool // the filter considers the observation an outlier
	Muted, Resting   bool // set only for estimates of a run
}

// newEstimate returns an estimate without detection: its usual values, score and threshold are NaN.
func newEstimate(name string, t time.Time, x [][]float64, predicted output.Moments) Estimate {
	nan := math.NaN()
	e := Estimate{Key: name, Time: t, X: nan, Score: nan, Threshold: nan}
	if v := output.Observed(x, predicted.Mean); len(v) > 0 {
		e.X = v[0]
	}
	e.Predicted.Mean, e.Predicted.SD = output.First(predicted.Mean), output.First(predicted.SD)
	e.Usual.Mean, e.Usual.SD = nan, nan
	return e
}

// kinds are the kinds of alerts that a page knows. The first four are alarms; the others refer to alarms.
var kinds = []string{"novelty", "change", "outlier", "silent", "recovered", "revision"}

const (
	novelty = iota
	change
	outlier
	silent
	recovered
	revision
)

// isAlarm reports whether the kind is an alarm.
func isAlarm(kind int) bool { return kind <= silent }

// An alarm is the part of an alert that the collector stores for every alarm.
type alarm struct {
	key                    *key
	unixTime               int64 // Unix seconds; noTime without a time
	score, threshold, size float32
	kind                   uint8
	inIncident             bool
}

const noTime = math.MinInt64

// weight returns the importance of an alarm: its score, and for a change or an outlier at least the threshold. An
// alarm without a score has defaultWeight.
func (a *alarm) weight() float64 {
	w := float64(a.score)
	if a.kind == change || a.kind == outlier {
		w = max(w, float64(a.threshold))
	}
	if math.IsNaN(w) {
		return defaultWeight
	}
	return max(w, 0)
}

const defaultWeight = 5

// A detail is an alarm with its alert, for its row in the table.
type detail struct {
	alarm
	*output.Alert
	file string // path of the file of alerts; empty without one
	open bool
}

// rank returns the sort key of the table's rows: the absolute size, as in backtest. Open alarms come first.
func (d *detail) rank() float64 {
	s := math.Abs(float64(d.size))
	if math.IsNaN(s) {
		s = defaultWeight
	}
	if d.open {
		s += 1e9
	}
	return s
}

// A key holds the records and counts of one key.
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
	suppressedScore float64 // largest score of the muted and resting alarms
	habits
	values   pipeline.Values
	series   *series
	smoothed []output.Record // smoothed records with times
}

// Limits of a page and of the collector's memory. Records beyond a limit are counted, and the page shows the count.
const (
	maxRows      = 1000      // alarms in the table
	maxSingles   = 500       // candidates for the list of single alarms
	maxIncidents = 2000      // incidents with their members
	maxFollowed  = 200       // keys with a series
	maxPoints    = 2_000_000 // points of all series during collection
)

// A Collector gathers the content of a page. Records may arrive in any order. Create it with NewCollector; its zero
// value is not usable. AddAlert, AddEstimate, AddSmoothed and Page are safe for concurrent use.
type Collector struct {
	mu   sync.Mutex
	from time.Time
	zone *time.Location

	keys       map[string]*key
	order      []*key
	alarms     []alarm
	counts     map[string]int64 // alerts by kind
	early      int64            // records before from
	undated    int64            // alerts without a time
	estimates  int64
	first      time.Time
	last       time.Time
	rows       top
	singles    top
	incidents  map[string]*output.Alert // last record by incident ID
	ids        map[uint64]uint64
	repeats    int64
	differ     int64
	marked     int64 // estimates with an alarm
	narrowed   bool
	points     int
	pointLimit int // maximum number of points of a key

	smoothed, smoothedLeft, untimed int64 // smoothed records that are stored, dropped beyond maxSmoothed, and without times

	sources []string
	notes   []string
	trial   *backtest.Report // figures of a run; nil for files
	value   string
	marks   []records.Mark
	markTo  string // flag that says where hafvf mark writes; empty if the page offers no command
	file    string // path of the file of alerts that is being read; empty without one
	live    bool   // true for the page of a running run: it has only the last estimates of keys that alarmed recently
}

// NewCollector returns a Collector that ignores records before from. A zero from ignores none. The page has times in
// zone.
func NewCollector(from time.Time, zone *time.Location) *Collector {
	return &Collector{
		from: from, zone: zone, keys: map[string]*key{}, counts: map[string]int64{}, incidents: map[string]*output.Alert{}, ids: map[uint64]uint64{},
		rows: top{limit: maxRows}, singles: top{limit: maxSingles}, pointLimit: maxKeyPoints, markTo: "-o marks.jsonl",
	}
}

// Source adds the name of a file that was read.
func (c *Collector) Source(name string) { c.sources = append(c.sources, name) }

// AddMarks adds marks of alarms. A later mark of an alarm overrides an earlier one.
func (c *Collector) AddMarks(marks []records.Mark) { c.marks = append(c.marks, marks...) }

// markOf returns the value of the last mark of an alarm; empty if it has no mark.
func (c *Collector) markOf(d *detail) string {
	for _, m := range slices.Backward(c.marks) {
		if m.Matches(d.key.name, d.ID, d.Incident) {
			return m.Mark
		}
	}
	return ""
}

// SendMarksTo sets the path of the config that reads marks, for the commands that mark alarms as false. Without it, the
// commands append to marks.jsonl.
func (c *Collector) SendMarksTo(config string) { c.markTo = "--config " + message.ShellWord(config) }

// markCommand returns the command that marks an alarm as false; empty if the page offers none. Without a file of
// alerts, the command has the alert in a line.
func (c *Collector) markCommand(d *detail) string {
	id := message.ShellWord(d.ID)
	switch {
	case c.markTo == "" || !d.IsAlarm():
		return ""
	case d.file != "":
		return fmt.Sprintf("hafvf mark %s %s false --key %s %s", message.ShellWord(d.file), id, message.ShellWord(d.Key), c.markTo)
	}
	text := jsontext.Of
	line := fmt.Sprintf(`{"key":%s,"time":%s,"kind":%s,"id":%s,"start":%s,"size":%s,"episode":{"id":%[4]s}}`,
		text(d.Key), text(d.Time), text(d.Kind), text(d.ID), text(d.Start), text(d.Size))
	return fmt.Sprintf(`printf '%%s\n' %s | hafvf mark - %s false %s`, message.ShellWord(line), id, c.markTo)
}

// AddNote adds a sentence to the page's notes about the input.
func (c *Collector) AddNote(text string) { c.notes = append(c.notes, text) }

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

// inPeriod reports whether t is in the period, and extends the first and last time of the page to it. It counts a
// time before the period. A zero t is in the period only if the period has no start.
func (c *Collector) inPeriod(t time.Time) bool {
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

// AddAlert adds an alert or an incident. It ignores a report that an episode is worse, which is part of an earlier alarm.
func (c *Collector) AddAlert(a *output.Alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inPeriod(a.Time) || a.IsWorse() {
		return
	}
	c.counts[a.Kind]++
	if a.Kind == "incident" {
		c.addIncident(a)
		return
	}
	c.countRepeats(a)
	if a.Time.IsZero() {
		c.undated++
	}
	kind := slices.Index(kinds, a.Kind)
	if kind < 0 {
		return
	}
	k := c.keyOf(a.Key)
	seconds := unix(a.Time)
	switch kind {
	case silent:
		if seconds >= k.silentAt {
			k.silentAt, k.silentSince = seconds, a.Start
		}
		k.silences++
	case recovered:
		k.recoveredAt = max(k.recoveredAt, seconds)
	}
	if !isAlarm(kind) {
		return
	}
	stored := alarm{key: k, unixTime: seconds, score: float32(a.Score), threshold: float32(a.Threshold), size: float32(a.Size), kind: uint8(kind), inIncident: a.Incident != ""}
	c.alarms = append(c.alarms, stored)
	k.alarms++
	k.weight += stored.weight()
	k.count(a, kind, c.zone)
	d := detail{stored, a, c.file, c.live && a.Episode.State == string(keyed.EpisodeOpen)}
	c.rows.add(d)
	if !stored.inIncident {
		c.singles.add(d)
	}
}

// countRepeats counts alerts with the key, kind, ID and time of an earlier alert: repeats with the same numbers, as
// from delivery at least once, and alerts with other numbers.
func (c *Collector) countRepeats(a *output.Alert) {
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
	switch previous, known := c.ids[id]; {
	case !known:
		c.ids[id] = content
	case previous == content:
		c.repeats++
	default:
		c.differ++
	}
}

var seed = maphash.MakeSeed()

func (c *Collector) addIncident(a *output.Alert) {
	// The last record describes the incident. If times are equal, a record of the end is the last; otherwise the
	// record with more alarmed keys is, since incidents only grow.
	if previous := c.incidents[a.ID]; previous != nil {
		order := a.Time.Compare(previous.Time)
		if order < 0 || order == 0 && (ended(previous) && !ended(a) || ended(previous) == ended(a) && a.Alarmed < previous.Alarmed) {
			return
		}
	}
	stored := *a
	c.incidents[a.ID] = &stored
	if len(c.incidents) > maxIncidents {
		stored.Members = nil
	}
}

// ended reports whether an incident is closed or merged.
func ended(a *output.Alert) bool { return a.State == "closed" || a.State == "merged" }

// AddEstimate adds an estimate.
func (c *Collector) AddEstimate(e *Estimate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inPeriod(e.Time) {
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
			return // too many keys: all series are at their minimum size
		}
		k.series = &series{}
	}
	pointsBefore := len(k.series.points)
	k.series.add(e, c.pointLimit)
	k.series.hours.Add(c.zone, e.Time, e.Usual.Mean, e.Usual.SD)
	if c.points += len(k.series.points) - pointsBefore; c.points > maxPoints && c.pointLimit > minKeyPoints {
		c.pointLimit /= 2
		for _, k := range c.order {
			if k.series != nil {
				k.series.thin(c.pointLimit)
			}
		}
		c.countPoints()
	}
}

// countPoints recounts the points of all series.
func (c *Collector) countPoints() {
	c.points = 0
	for _, k := range c.order {
		if k.series != nil {
			c.points += len(k.series.points)
		}
	}
}

// skip counts an estimate that was not read in full: it is before the period, or its key has no series.
func (c *Collector) skip(name string, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inPeriod(t) {
		c.estimates++
		c.keyOf(name).estimates++
	}
}

// Narrow restricts the series to the keys with the largest sum of weights so far. Files calls it between alerts and
// estimates. It returns the names of these keys, or nil if there are no alarms.
func (c *Collector) Narrow() map[string]bool {
	if len(c.alarms) == 0 {
		return nil
	}
	c.narrowed = true
	followed := map[string]bool{}
	keys := c.alarmedKeys()
	for _, k := range keys[:min(maxFollowed, len(keys))] {
		k.series = &series{}
		followed[k.name] = true
	}
	return followed
}

// alarmedKeys returns the keys with alarms, by decreasing weight.
func (c *Collector) alarmedKeys() []*key {
	keys := slices.DeleteFunc(slices.Clone(c.order), func(k *key) bool { return k.alarms == 0 })
	slices.SortFunc(keys, func(a, b *key) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name))
	})
	return keys
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.Unix()
}

// A top stores the details of highest rank, at most twice its limit.
type top struct {
	limit   int
	details []detail
	minRank float64
}

// add adds d. At twice the limit it drops the lower half.
func (t *top) add(d detail) {
	if t.minRank > 0 && d.rank() < t.minRank {
		return
	}
	t.details = append(t.details, d)
	if len(t.details) >= 2*t.limit {
		t.cut()
		t.minRank = t.details[len(t.details)-1].rank()
	}
}

// cut sorts the details by decreasing rank, and drops those beyond the limit.
func (t *top) cut() {
	slices.SortFunc(t.details, func(a, b detail) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.unixTime, b.unixTime), cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.ID, b.ID))
	})
	t.details = t.details[:min(len(t.details), t.limit)]
}
