package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/records"
)

// Limits of a Live. It counts alerts and incidents that it drops, and the page shows the counts.
const (
	liveAlerts    = 10_000
	liveIncidents = 1000
	liveMarks     = 1000
	liveKeys      = 100 // keys with a series
	livePoints    = 256 // the last points of a series that are always stored
	liveAge       = 7 * 24 * time.Hour
	liveNews      = 256 // events that a slow reader can lag behind
)

// A Live stores the recent alarms and incidents of a run, and serves them during the run as a page, as text and as
// events. It begins with the incidents that were open at the end of the previous run. It is safe for concurrent use.
type Live struct {
	config  string
	zone    *time.Location
	started time.Time
	metrics *pipeline.Metrics
	markTo  string // path of the config if it accepts marks; else empty

	mu               sync.Mutex
	alerts           []liveAlert
	droppedAlerts    int // number of dropped alerts
	index            map[alertName]int
	incidents        map[string]*liveAlert
	marks            []records.Mark
	droppedIncidents int      // number of dropped incidents
	news             [][]byte // the last events, encoded
	version          int64    // number of events so far
	changed          chan struct{}
	updates          atomic.Int64 // number of updates of alarms, which are no events

	followed atomic.Pointer[map[string]*recent] // series by key; the map is replaced when a key is added or removed
	facts    struct {
		sync.Mutex
		time time.Time
		list []Fact
	}
	page rendered

	readers atomic.Int32
	ended   chan struct{}
	end     func()
}

type alertName struct{ key, id, kind string }

// A liveAlert is an alert or the last record of an incident, with its time of arrival.
type liveAlert struct {
	output.Alert
	arrived time.Time
	records int64 // records of the incident
}

// A recent is the last estimates of a key.
type recent struct {
	mu      sync.Mutex
	points  []Estimate
	alarmed atomic.Int64 // arrival of its last alarm, in Unix nanoseconds
}

// NewLive returns a Live for a run with the given metrics. config is the name of the config on the page. markTo is
// the path of the config if it accepts marks, for the commands that mark alarms; empty if it does not. The page has
// times in zone.
func NewLive(config, markTo string, zone *time.Location, metrics *pipeline.Metrics) *Live {
	l := &Live{
		config: config, markTo: markTo, zone: zone, started: time.Now(), metrics: metrics,
		index: map[alertName]int{}, incidents: map[string]*liveAlert{}, changed: make(chan struct{}), ended: make(chan struct{}),
	}
	l.followed.Store(&map[string]*recent{})
	l.end = sync.OnceFunc(func() { close(l.ended) })
	return l
}

// Observer returns the callbacks for the run.
func (l *Live) Observer() *pipeline.Observer {
	return &pipeline.Observer{Estimate: l.estimate, Ongoing: l.update, Alert: l.alert, Incident: l.incident, Marked: l.marked}
}

// marked adds a mark, and notifies readers of the marked alarms.
func (l *Live) marked(m records.Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks = append(l.marks, m); len(l.marks) > liveMarks {
		l.marks = slices.Delete(l.marks, 0, len(l.marks)-liveMarks)
	}
	for i := range l.alerts {
		if a := &l.alerts[i].Alert; m.Matches(a.Key, a.ID, a.Incident) {
			l.notify(*a)
		}
	}
}

// Close ends the event streams of all readers.
func (l *Live) Close() { l.end() }

// alert adds an alarm or the end of a silence. A repeat only adds its incident. It ignores later reports of an episode.
func (l *Live) alert(key string, event keyed.AlertEvent, incident string) {
	if event.Source != keyed.SourceAlarm || event.BackToUsual() || event.IsWorse() {
		return
	}
	// The strings are cloned: a substring would keep a longer text in memory.
	a := output.AlertOf(strings.Clone(key), event)
	a.ID, a.Episode.ID, a.Incident = strings.Clone(a.ID), strings.Clone(a.Episode.ID), incident
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	name := alertName{a.Key, a.ID, a.Kind}
	if i, known := l.index[name]; known {
		previous := &l.alerts[i-l.droppedAlerts]
		if incident == "" || previous.Incident == incident {
			return
		}
		previous.Incident = incident
	} else {
		l.index[name] = l.droppedAlerts + len(l.alerts)
		l.alerts = append(l.alerts, liveAlert{Alert: a, arrived: now})
		l.forget(now)
		l.follow(a.Key, now)
	}
	l.notify(a)
}

// update replaces the message and the size of the alarm that began an episode by those of an event, which reports the
// episode again, its present state or its end.
func (l *Live) update(key string, event keyed.AlertEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, known := l.index[alertName{key, event.Episode.ID, kinds[novelty]}]; known {
		a := &l.alerts[i-l.droppedAlerts]
		a.Message, a.Size = event.Message, output.Scalar(event.Episode.Worst.Size)
		if event.BackToUsual() {
			a.Episode.State = string(keyed.EpisodeClosed)
		}
		l.updates.Add(1)
	}
}

// forget drops the oldest alerts beyond liveAlerts, and those older than liveAge.
func (l *Live) forget(now time.Time) {
	for len(l.alerts) > liveAlerts || len(l.alerts) > 0 && now.Sub(l.alerts[0].arrived) > liveAge {
		old := &l.alerts[0]
		delete(l.index, alertName{old.Key, old.ID, old.Kind})
		*old = liveAlert{} // releases the strings: the array still references them
		l.alerts, l.droppedAlerts = l.alerts[1:], l.droppedAlerts+1
	}
}

// follow starts a series for a key that alarms. At liveKeys series it replaces the one whose last alarm is oldest.
func (l *Live) follow(key string, now time.Time) {
	followed := *l.followed.Load()
	if followed[key] == nil {
		followed = maps.Clone(followed)
		if len(followed) == liveKeys {
			oldest := ""
			for k, r := range followed {
				if oldest == "" || r.alarmed.Load() < followed[oldest].alarmed.Load() {
					oldest = k
				}
			}
			delete(followed, oldest)
		}
		followed[key] = &recent{}
		l.followed.Store(&followed)
	}
	followed[key].alarmed.Store(now.UnixNano())
}

func (l *Live) estimate(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
	for _, event := range alerts {
		if l.alert(key, event, ""); event.Source == keyed.SourceAlarm && (event.IsWorse() || event.BackToUsual()) {
			l.update(key, event)
		}
	}
	r := (*l.followed.Load())[key]
	if r == nil || e == nil {
		return
	}
	estimate := estimateOf("", e)
	estimate.Outlier = false // the share of outliers after an alarm is not a sign of a poor fit
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.points) == 2*livePoints {
		r.points = append(r.points[:0], r.points[livePoints:]...)
	}
	r.points = append(r.points, estimate)
}

func (l *Live) incident(e *incidents.Event) {
	a := *incidentOf(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	stored := l.incidents[a.ID]
	if stored == nil {
		stored = &liveAlert{}
		l.incidents[a.ID] = stored
	}
	stored.Alert, stored.records, stored.arrived = a, stored.records+1, now
	if len(l.incidents) > liveIncidents {
		// Drop ended incidents first, then the one with the oldest record.
		old := slices.MinFunc(slices.Collect(maps.Values(l.incidents)), func(a, b *liveAlert) int {
			if ended(&a.Alert) != ended(&b.Alert) {
				return map[bool]int{true: -1, false: 1}[ended(&a.Alert)]
			}
			return a.arrived.Compare(b.arrived)
		})
		delete(l.incidents, old.ID)
		l.droppedIncidents++
	}
	l.notify(a)
}

// notify adds an event and wakes the readers. It does not wait for them: a reader that lags too far behind misses
// events.
func (l *Live) notify(a output.Alert) {
	l.version++
	if len(l.news) == 2*liveNews {
		l.news = append(l.news[:0], l.news[liveNews:]...)
	}
	l.news = append(l.news, eventOf(newsOf(&a))) // encoded once for all readers
	close(l.changed)
	l.changed = make(chan struct{})
}

// name returns a name of the page's version, with the updates of its alarms, that is unique among runs.
func (l *Live) name(version int64) string {
	return fmt.Sprintf("%d.%d", l.started.UnixNano(), version+l.updates.Load())
}

// newsAfter returns the stored events after a version, the current version, and a channel that is closed at the next
// event.
func (l *Live) newsAfter(version int64) (news [][]byte, now int64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := max(min(l.version-version, int64(len(l.news)), liveNews), 0)
	return slices.Clone(l.news[len(l.news)-int(n):]), l.version, l.changed
}

// A RunState is the part of a page about the run that it follows.
type RunState struct {
	Since   time.Time // start of the run
	Made    time.Time
	Version string // changes with the content of the page
	Facts   []Fact
}

// A Fact is a name and a value from the metrics.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Page returns the current page and its version.
func (l *Live) Page() (p *Page, version int64) {
	c := NewCollector(time.Time{}, l.zone)
	if c.live, c.markTo = true, ""; l.markTo != "" {
		c.SendMarksTo(l.markTo)
	}
	l.mu.Lock()
	l.forget(time.Now())
	c.AddMarks(l.marks)
	state := &RunState{Since: l.started, Version: l.name(l.version)}
	alerts, stored, droppedAlerts, droppedIncidents := slices.Clone(l.alerts), []liveAlert{}, l.droppedAlerts, l.droppedIncidents
	version = l.version
	for _, id := range slices.Sorted(maps.Keys(l.incidents)) {
		stored = append(stored, *l.incidents[id])
	}
	l.mu.Unlock()
	for i := range alerts {
		c.AddAlert(&alerts[i].Alert)
	}
	for i := range stored {
		c.AddAlert(&stored[i].Alert)
		c.counts[incidents.Kind] += stored[i].records - 1
	}
	for key, r := range *l.followed.Load() {
		r.mu.Lock()
		for i := range r.points {
			e := r.points[i]
			e.Key = key
			c.AddEstimate(&e)
		}
		r.mu.Unlock()
	}
	if droppedAlerts > 0 {
		c.AddNote(fmt.Sprintf("%s of this run came before those on the page, and %s left out: it has those of the last %d days, at most %s.",
			message.Count(droppedAlerts, "alert", "alerts"), map[bool]string{true: "is", false: "are"}[droppedAlerts == 1], int(liveAge.Hours()/24), grouped(liveAlerts)))
	}
	if droppedIncidents > 0 {
		c.AddNote(fmt.Sprintf("%s left out: the page has at most %s.", message.Count(droppedIncidents, "incident is", "incidents are"), grouped(liveIncidents)))
	}
	p = c.Page()
	p.Live, p.Config = state, l.config
	known := l.metrics.Reading()
	state.Facts, state.Made = l.readFacts(known), time.Now()
	p.Keys, p.Estimates = max(p.Keys, int(known.KnownKeys)), known.Records
	return p, version
}

// Facts returns facts from the metrics that are at most one second old.
func (l *Live) Facts() []Fact {
	l.facts.Lock()
	defer l.facts.Unlock()
	if time.Since(l.facts.time) >= time.Second {
		l.facts.list, l.facts.time = l.readFacts(l.metrics.Reading()), time.Now()
	}
	return l.facts.list
}

func (l *Live) readFacts(r pipeline.Status) []Fact {
	seconds := func(d time.Duration) string { return message.Duration(d.Round(time.Second)) }
	health := "ok"
	if err := l.metrics.Health(); err != nil {
		health = err.Error()
	}
	facts := []Fact{{"state", health}, {"keys", grouped(r.KnownKeys)}, {"records read", grouped(r.Observations)},
		{"rejected", grouped(r.Rejected)}, {"alarms of the run", grouped(r.Alarms())}, {"muted", grouped(r.Muted)}, {"resting", grouped(r.Resting)}}
	if len(r.Lags) > 0 {
		lag := int64(0)
		for _, n := range r.Lags {
			lag += n
		}
		facts = append(facts, Fact{"records behind", grouped(lag)}, Fact{"age of the lag", seconds(r.LagAge)})
	}
	if len(r.EventLags) > 0 {
		maxLag := time.Duration(0)
		for _, lag := range r.EventLags {
			maxLag = max(maxLag, lag.Usual)
		}
		facts = append(facts, Fact{"event time behind the clock", seconds(maxLag)})
	}
	for i, receiver := range r.Receivers {
		text := fmt.Sprintf("%s sent, %s failed, %s waiting", grouped(receiver.Sent), grouped(receiver.Failed), grouped(receiver.Waiting))
		if waited := receiver.Waited(); waited >= time.Second {
			text += " for " + seconds(waited)
		}
		facts = append(facts, Fact{fmt.Sprintf("receiver %d, %s", i+1, receiver.Place), text})
	}
	if note := strings.TrimSpace(l.metrics.UnavailableReceivers()); note != "" {
		facts = append(facts, Fact{"unavailable receivers", strings.ReplaceAll(note, "\n", "; ")})
	}
	return facts
}
