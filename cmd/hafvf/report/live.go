package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline"
)

// Limits of what a Live remembers. What is let go is counted, and the page says so.
const (
	liveAlerts    = 10_000
	liveIncidents = 1000
	liveKeys      = 100 // with a series
	livePoints    = 256 // of a series, at least where there were as many
	liveAge       = 7 * 24 * time.Hour
	liveNews      = 256 // that a slow reader can be behind
)

// A Live remembers what a run has raised of late, and shows it while the run goes on: as a page, as
// text and as events. It begins empty.
type Live struct {
	config   string
	began    time.Time
	metrics  *pipeline.Metrics
	gathered *prometheus.Registry

	mu        sync.Mutex
	alerts    []heard
	gone      int // alerts that were let go
	at        map[alertName]int
	incidents map[string]*heardIncident
	passed    int      // incidents that were let go
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

// heard is an alert with the time at which it came.
type heard struct {
	Alert
	came time.Time
}

type heardIncident struct {
	Alert
	records int64
	came    time.Time
}

// recent are the last estimates of a key.
type recent struct {
	mu      sync.Mutex
	points  []Estimate
	alarmed atomic.Int64 // when its last alarm came
}

// NewLive returns the memory of a run of the config, which the metrics follow.
func NewLive(config string, metrics *pipeline.Metrics) *Live {
	l := &Live{
		config: config, began: time.Now(), metrics: metrics, gathered: prometheus.NewRegistry(),
		at: map[alertName]int{}, incidents: map[string]*heardIncident{}, changed: make(chan struct{}), ended: make(chan struct{}),
	}
	l.gathered.MustRegister(metrics)
	l.followed.Store(&map[string]*recent{})
	l.end = sync.OnceFunc(func() { close(l.ended) })
	return l
}

// Hears is what the run is to tell.
func (l *Live) Hears() *pipeline.Observer {
	return &pipeline.Observer{Estimate: l.estimate, Alert: l.alert, Incident: l.incident}
}

// Close ends the events of all readers.
func (l *Live) Close() { l.end() }

// alert hears of an alarm, or of the end of a silence, perhaps once more.
func (l *Live) alert(key string, t keyed.Told, incident string) {
	if t.Role != keyed.Decision || t.BackToUsual() {
		return
	}
	// A part of a longer text would keep all of that.
	a := alertOf(strings.Clone(key), t)
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
		l.alerts = append(l.alerts, heard{a, now})
		l.forget(now)
		l.follow(a.Key, now)
	}
	l.tell(a)
}

// forget lets the oldest alerts go.
func (l *Live) forget(now time.Time) {
	for len(l.alerts) > liveAlerts || len(l.alerts) > 0 && now.Sub(l.alerts[0].came) > liveAge {
		old := &l.alerts[0]
		delete(l.at, alertName{old.Key, old.ID, old.Kind})
		*old = heard{} // the array still has it
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

func (l *Live) estimate(key string, e *keyed.Estimate, alerts []keyed.Told) {
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
		one = &heardIncident{}
		l.incidents[a.ID] = one
	}
	one.Alert, one.records, one.came = a, one.records+1, now
	if len(l.incidents) > liveIncidents {
		// Those that are over go first, then those of which nothing has been heard for longest.
		old := slices.MinFunc(slices.Collect(maps.Values(l.incidents)), func(a, b *heardIncident) int {
			if a.over() != b.over() {
				return map[bool]int{true: -1, false: 1}[a.over()]
			}
			return a.came.Compare(b.came)
		})
		delete(l.incidents, old.ID)
		l.passed++
	}
	l.tell(a)
}

// tell wakes the readers. None of them is waited for: one that is too far behind misses some.
func (l *Live) tell(a Alert) {
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

// A State is what a page says of the run that it follows.
type State struct {
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
	c := NewCollector(time.Time{})
	c.live = true
	l.mu.Lock()
	l.forget(time.Now())
	state := &State{Since: l.began, Version: l.name(l.version)}
	alerts, all, gone, passed := slices.Clone(l.alerts), []heardIncident{}, l.gone, l.passed
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
	known := l.read()
	state.Facts, state.Made = l.told(known), time.Now()
	p.Keys, p.Estimates = max(p.Keys, int(known.sum("hafvf_keys"))), int64(known.sum("hafvf_records_out_total"))
	return p, version
}

// gauges are metrics by name.
type gauges map[string][]*dto.Metric

func (l *Live) read() gauges {
	all := gauges{}
	families, _ := l.gathered.Gather() // what cannot be gathered is missing
	for _, f := range families {
		all[f.GetName()] = f.GetMetric()
	}
	return all
}

// of is the value of a gauge or a counter.
func of(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }

func (g gauges) sum(name string) (sum float64) {
	for _, m := range g[name] {
		sum += of(m)
	}
	return sum
}

func (g gauges) most(name string) (most float64) {
	for _, m := range g[name] {
		most = max(most, of(m))
	}
	return most
}

// Facts are what the metrics say, not older than a second.
func (l *Live) Facts() []Fact {
	l.facts.Lock()
	defer l.facts.Unlock()
	if time.Since(l.facts.at) >= time.Second {
		l.facts.all, l.facts.at = l.told(l.read()), time.Now()
	}
	return l.facts.all
}

func (l *Live) told(g gauges) []Fact {
	count := func(name string) string { return grouped(int64(g.sum(name))) }
	seconds := func(v float64) string {
		return message.Duration(time.Duration(math.Round(v)) * time.Second)
	}
	health := "ok"
	if err := l.metrics.Health(); err != nil {
		health = err.Error()
	}
	facts := []Fact{{"state", health}, {"keys", count("hafvf_keys")}, {"records taken up", count("hafvf_records_in_total")},
		{"rejected", count("hafvf_records_rejected_total")}, {"alarms of the run", count("hafvf_alarms_total")}, {"muted", count("hafvf_alarms_muted_total")}}
	if len(g["hafvf_lag_records"]) > 0 {
		facts = append(facts, Fact{"records behind", count("hafvf_lag_records")}, Fact{"lag was told ago", seconds(g.most("hafvf_lag_age_seconds"))})
	}
	if len(g["hafvf_event_lag_seconds"]) > 0 {
		facts = append(facts, Fact{"event time behind the clock", seconds(g.most("hafvf_event_lag_seconds"))})
	}
	type place struct{ receiver, host string }
	placeOf := func(m *dto.Metric) (p place) {
		for _, label := range m.GetLabel() {
			switch label.GetName() {
			case "receiver":
				p.receiver = label.GetValue()
			case "host":
				p.host = label.GetValue()
			}
		}
		return p
	}
	at := func(name string, p place) float64 {
		for _, m := range g[name] {
			if placeOf(m) == p {
				return of(m)
			}
		}
		return 0
	}
	var places []place
	for _, m := range g["hafvf_alerts_sent_total"] {
		places = append(places, placeOf(m))
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(len(a.receiver), len(b.receiver)), cmp.Compare(a.receiver, b.receiver))
	})
	for _, p := range places {
		says := fmt.Sprintf("%s sent, %s failed, %s waiting", grouped(int64(at("hafvf_alerts_sent_total", p))), grouped(int64(at("hafvf_alerts_failed_total", p))), grouped(int64(at("hafvf_alerts_waiting", p))))
		if waits := at("hafvf_alerts_oldest_waiting_seconds", p); waits >= 1 {
			says += " for " + seconds(waits)
		}
		n, _ := strconv.Atoi(p.receiver)
		facts = append(facts, Fact{fmt.Sprintf("receiver %d, %s", n+1, p.host), says})
	}
	if note := strings.TrimSpace(l.metrics.Note()); note != "" {
		facts = append(facts, Fact{"receivers away", strings.ReplaceAll(note, "\n", "; ")})
	}
	return facts
}
