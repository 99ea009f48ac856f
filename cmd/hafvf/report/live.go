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

// Limits of what a Live remembers. What is let go is counted, and the page says so.
const (
	liveAlerts    = 10_000
	liveIncidents = 1000
	liveMarks     = 1000
	liveKeys      = 100 // with a series
	livePoints    = 256 // of a series, at least where there were as many
	liveAge       = 7 * 24 * time.Hour
	liveNews      = 256 // that a slow reader can be behind
)

// A Live remembers what a run has raised of late, and shows it while the run goes on: as a page, as
// text and as events. It begins with the incidents that the run before has left open.
type Live struct {
	config  string
	zone    *time.Location
	began   time.Time
	metrics *pipeline.Metrics
	markTo  string // path of the config if it takes marks

	mu        sync.Mutex
	alerts    []liveAlert
	gone      int // alerts that were let go
	at        map[alertName]int
	incidents map[string]*liveAlert
	marks     []records.Mark
	dropped   int      // incidents that were let go
	news      [][]byte // the last of them, as events
	version   int64    // number of all news
	changed   chan struct{}

	followed atomic.Pointer[map[string]*recent] // copied when a key comes or goes
	facts    struct {
		sync.Mutex
		at  time.Time
		all []Fact
	}
	page rendered

	readers atomic.Int32
	ended   chan struct{}
	end     func()
}

type alertName struct{ key, id, kind string }

// liveAlert is an alert, or an incident as it was told last, with the time at which that came.
type liveAlert struct {
	output.Alert
	came    time.Time
	records int64 // of the incident
}

// recent are the last estimates of a key.
type recent struct {
	mu      sync.Mutex
	points  []Estimate
	alarmed atomic.Int64 // when its last alarm came
}

// NewLive returns the memory of a run of the config, which the metrics follow. It shows the times of the zone, and the
// commands that mark alarms for the run of the config at a path; empty: it takes none.
func NewLive(config, markTo string, zone *time.Location, metrics *pipeline.Metrics) *Live {
	l := &Live{
		config: config, markTo: markTo, zone: zone, began: time.Now(), metrics: metrics,
		at: map[alertName]int{}, incidents: map[string]*liveAlert{}, changed: make(chan struct{}), ended: make(chan struct{}),
	}
	l.followed.Store(&map[string]*recent{})
	l.end = sync.OnceFunc(func() { close(l.ended) })
	return l
}

// Observer is what the run is to tell.
func (l *Live) Observer() *pipeline.Observer {
	return &pipeline.Observer{Estimate: l.estimate, Alert: l.alert, Incident: l.incident, Marked: l.marked}
}

// marked takes a mark of an alarm.
func (l *Live) marked(m records.Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks = append(l.marks, m); len(l.marks) > liveMarks {
		l.marks = slices.Delete(l.marks, 0, len(l.marks)-liveMarks)
	}
	for i := range l.alerts {
		if a := &l.alerts[i].Alert; m.Of(a.Key, a.ID, a.Incident) {
			l.notify(*a)
		}
	}
}

// Close ends the events of all readers.
func (l *Live) Close() { l.end() }

// alert takes an alarm, or of the end of a silence, perhaps once more.
func (l *Live) alert(key string, t keyed.AlertEvent, incident string) {
	if t.Basis != keyed.AlarmBasis || t.BackToUsual() {
		return
	}
	// A part of a longer text would keep all of that.
	a := AlertOf(strings.Clone(key), t)
	a.ID, a.Incident = strings.Clone(a.ID), incident
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	name := alertName{a.Key, a.ID, a.Kind}
	if i, known := l.at[name]; known {
		before := &l.alerts[i-l.gone]
		if incident == "" || before.Incident == incident {
			return
		}
		before.Incident = incident
	} else {
		l.at[name] = l.gone + len(l.alerts)
		l.alerts = append(l.alerts, liveAlert{Alert: a, came: now})
		l.forget(now)
		l.follow(a.Key, now)
	}
	l.notify(a)
}

// forget lets the oldest alerts go.
func (l *Live) forget(now time.Time) {
	for len(l.alerts) > liveAlerts || len(l.alerts) > 0 && now.Sub(l.alerts[0].came) > liveAge {
		old := &l.alerts[0]
		delete(l.at, alertName{old.Key, old.ID, old.Kind})
		*old = liveAlert{} // the array still has it
		l.alerts, l.gone = l.alerts[1:], l.gone+1
	}
}

// follow begins a series of a key that alarms, in place of that which alarmed the longest ago.
func (l *Live) follow(key string, now time.Time) {
	all := *l.followed.Load()
	if all[key] == nil {
		all = maps.Clone(all)
		if len(all) == liveKeys {
			first := ""
			for k, r := range all {
				if first == "" || r.alarmed.Load() < all[first].alarmed.Load() {
					first = k
				}
			}
			delete(all, first)
		}
		all[key] = &recent{}
		l.followed.Store(&all)
	}
	all[key].alarmed.Store(now.UnixNano())
}

func (l *Live) estimate(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
	for _, t := range alerts {
		l.alert(key, t, "")
	}
	r := (*l.followed.Load())[key]
	if r == nil || e == nil {
		return
	}
	one := estimateOf("", e)
	one.Outlier = false // a share of those after an alarm says nothing of the family
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.points) == 2*livePoints {
		r.points = append(r.points[:0], r.points[livePoints:]...)
	}
	r.points = append(r.points, one)
}

func (l *Live) incident(e *incidents.Event) {
	a := *incidentOf(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	one := l.incidents[a.ID]
	if one == nil {
		one = &liveAlert{}
		l.incidents[a.ID] = one
	}
	one.Alert, one.records, one.came = a, one.records+1, now
	if len(l.incidents) > liveIncidents {
		// Those that are over go first, then those of which nothing has come for longest.
		old := slices.MinFunc(slices.Collect(maps.Values(l.incidents)), func(a, b *liveAlert) int {
			if over(&a.Alert) != over(&b.Alert) {
				return map[bool]int{true: -1, false: 1}[over(&a.Alert)]
			}
			return a.came.Compare(b.came)
		})
		delete(l.incidents, old.ID)
		l.dropped++
	}
	l.notify(a)
}

// notify wakes the readers. None of them is waited for: one that is too far behind misses some.
func (l *Live) notify(a output.Alert) {
	l.version++
	if len(l.news) == 2*liveNews {
		l.news = append(l.news[:0], l.news[liveNews:]...)
	}
	l.news = append(l.news, eventOf(newsOf(&a))) // once for all readers
	close(l.changed)
	l.changed = make(chan struct{})
}

// name names a version of the page among all runs.
func (l *Live) name(version int64) string { return fmt.Sprintf("%d.%d", l.began.UnixNano(), version) }

// since returns the news after a version, as far as they are remembered, the version that they
// lead to, and what is closed when there are more.
func (l *Live) since(version int64) (news [][]byte, now int64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := max(min(l.version-version, int64(len(l.news)), liveNews), 0)
	return slices.Clone(l.news[len(l.news)-int(n):]), l.version, l.changed
}

// A RunState is what a page says of the run that it follows.
type RunState struct {
	Since   time.Time // when the run began
	Made    time.Time
	Version string // differs where the page does
	Facts   []Fact
}

// A Fact is something that the metrics say, too.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Page returns the page as it is now, and its version.
func (l *Live) Page() (p *Page, version int64) {
	c := NewCollector(time.Time{}, l.zone)
	c.live, c.markTo = true, l.markTo
	l.mu.Lock()
	l.forget(time.Now())
	c.AddMarks(l.marks)
	state := &RunState{Since: l.began, Version: l.name(l.version)}
	alerts, all, gone, passed := slices.Clone(l.alerts), []liveAlert{}, l.gone, l.dropped
	version = l.version
	for _, id := range slices.Sorted(maps.Keys(l.incidents)) {
		all = append(all, *l.incidents[id])
	}
	l.mu.Unlock()
	for i := range alerts {
		c.AddAlert(&alerts[i].Alert)
	}
	for i := range all {
		c.AddAlert(&all[i].Alert)
		c.counts[incidents.Kind] += all[i].records - 1
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
	if gone > 0 {
		c.Note(fmt.Sprintf("%s of this run came before those on the page, and %s left out: it has those of the last %d days, at most %s.",
			message.Count(gone, "alert", "alerts"), map[bool]string{true: "is", false: "are"}[gone == 1], int(liveAge.Hours()/24), grouped(liveAlerts)))
	}
	if passed > 0 {
		c.Note(fmt.Sprintf("%s left out: the page has at most %s.", message.Count(passed, "incident is", "incidents are"), grouped(liveIncidents)))
	}
	p = c.Page()
	p.Live, p.Config = state, l.config
	known := l.metrics.Reading()
	state.Facts, state.Made = l.readFacts(known), time.Now()
	p.Keys, p.Estimates = max(p.Keys, int(known.Known)), known.Records
	return p, version
}

// Facts are what the metrics say, not older than a second.
func (l *Live) Facts() []Fact {
	l.facts.Lock()
	defer l.facts.Unlock()
	if time.Since(l.facts.at) >= time.Second {
		l.facts.all, l.facts.at = l.readFacts(l.metrics.Reading()), time.Now()
	}
	return l.facts.all
}

func (l *Live) readFacts(r pipeline.Status) []Fact {
	seconds := func(d time.Duration) string { return message.Duration(d.Round(time.Second)) }
	health := "ok"
	if err := l.metrics.Health(); err != nil {
		health = err.Error()
	}
	facts := []Fact{{"state", health}, {"keys", grouped(r.Known)}, {"records taken up", grouped(r.Taken)},
		{"rejected", grouped(r.Rejected)}, {"alarms of the run", grouped(r.Alarms())}, {"muted", grouped(r.Muted)}, {"resting", grouped(r.Resting)}}
	if len(r.Lags) > 0 {
		behind := int64(0)
		for _, n := range r.Lags {
			behind += n
		}
		facts = append(facts, Fact{"records behind", grouped(behind)}, Fact{"lag was told ago", seconds(r.LagAge)})
	}
	if len(r.EventLags) > 0 {
		most := time.Duration(0)
		for _, lag := range r.EventLags {
			most = max(most, lag.Usual)
		}
		facts = append(facts, Fact{"event time behind the clock", seconds(most)})
	}
	for i, to := range r.Receivers {
		says := fmt.Sprintf("%s sent, %s failed, %s waiting", grouped(to.Sent), grouped(to.Failed), grouped(to.Waiting))
		if waits := to.Waited(); waits >= time.Second {
			says += " for " + seconds(waits)
		}
		facts = append(facts, Fact{fmt.Sprintf("receiver %d, %s", i+1, to.Place), says})
	}
	if note := strings.TrimSpace(l.metrics.Note()); note != "" {
		facts = append(facts, Fact{"receivers away", strings.ReplaceAll(note, "\n", "; ")})
	}
	return facts
}
