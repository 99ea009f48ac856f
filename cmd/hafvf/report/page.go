package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/internal/message"
	"hafvf/pipeline/records"
)

// A Page is the data of the template page.html.
type Page struct {
	Sources []string
	Config  string // name of the config; empty without a run
	Zone    *time.Location
	Notes   []string

	First, Last time.Time // zero if no record has a time
	Counts      []Count   // alerts by kind
	Alerts      int64
	Alarms      int64
	Alarmed     int   // keys with alarms
	Keys        int   // all known keys
	Estimates   int64 // estimates; 0 without estimates

	Incidents     []Incident
	IncidentsLeft int
	IncidentCount int // distinct incidents, without merged ones
	Merged        int
	OpenCount     int // open incidents among IncidentCount
	PageCount     int // pages among IncidentCount
	Silent        []Silent
	SilentLeft    int
	SilentCount   int
	Silences      int64
	Singles       []Row
	SinglesLeft   int
	SingleCount   int
	Map           *Map
	Muted         Muted
	Noisy         []Noisy
	Rows          []Row
	RowsLeft      int
	SeriesKeys    int
	SeriesLeft    int // keys with alarms and no series
	SeriesNone    int // keys with alarms and no estimates
	Points        int64
	Seen          int64 // observations before thinning the series

	Sessions *Sessions // nil without smoothed records

	Data template.JS // JSON data for the charts of a click

	Live *RunState // state of the run that the page follows; nil for other pages
}

// A Count is a number of something.
type Count struct {
	N    int64
	Name string
}

// An Incident is an incident on the page.
type Incident struct {
	ID, Group, State, Message string
	Start, End                time.Time
	Labels                    string // labels that its keys share, without those in the name of the group
	Open, Page                bool
	Keys, Alarmed             int
	Score, Expected           float64
	Members                   []Row
	Left                      float64 // start of its bar on the map, in percent
	Width                     float64
}

// A Row is an alarm.
type Row struct {
	Key         string
	ID          int // index of the key's row on the map; −1 without a row
	Kind        string
	Time        time.Time
	Score, Size float64
	InIncident  bool
	Open        bool    // its episode is open; false without a running run
	Chance      float64 // for a member, the probability that it belongs to the incident
	Message     string
	Mark        string // last mark of the alarm; empty without a mark
	Command     string // command that marks the alarm as false; empty if the page offers none
}

// A Silent is a key that is silent.
type Silent struct {
	Key            string
	Since, Alerted time.Time
	Silences       int
}

// Muted counts the alarms that budgets or rests suppressed. Known is true only on the page of a trial.
type Muted struct {
	Known   bool
	Count   int
	Resting int
	Keys    []Noisy
	Left    int
	Allowed float64
	Raised  int
}

// A Noisy is a key with many alarms.
type Noisy struct {
	Key     string
	ID      int
	Alarms  int
	PerWeek float64
	Largest float64
	Muted   int
	Resting int
	Advice  string
}

// Limits of the page.
const (
	shownIncidents = 100
	shownMembers   = 20
	shownSingles   = 10
	shownSilent    = 200
	shownNoisy     = 10
	shownKeys      = 1000 // rows of the map
	shownGroups    = 64
	openRows       = 60    // maximum number of rows in groups that are open at first
	keyAlarms      = 50    // alarms of a key in the data of a click
	pagePoints     = 60000 // points of all series
	maxColumns     = 112
	longestText    = 400
)

// Page returns the page of the records so far. It thins the series to the size of a page. More records may be added
// afterwards.
func (c *Collector) Page() *Page {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &Page{Sources: c.sources, Zone: c.zone, Notes: slices.Clone(c.notes), First: c.first, Last: c.last, Keys: len(c.order), Estimates: c.estimates, Alarms: int64(len(c.alarms))}
	for _, kind := range kinds {
		if n := c.counts[kind]; n > 0 {
			p.Counts = append(p.Counts, Count{n, kind})
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.counts)) {
		p.Alerts += c.counts[kind]
		if !slices.Contains(kinds, kind) {
			name := kind
			if kind == "incident" {
				name = "incident records"
			}
			p.Counts = append(p.Counts, Count{c.counts[kind], shortened(name)})
		}
	}
	alarmed := c.alarmedKeys()
	p.Alarmed = len(alarmed)
	ids := map[*key]int{}
	for i, k := range alarmed[:min(len(alarmed), shownKeys)] {
		ids[k] = i
	}
	members := c.addIncidents(p, ids)
	c.addMap(p, alarmed)
	c.addRows(p, ids, members)
	c.addSilent(p)
	c.addNoisy(p, alarmed, ids)
	c.addData(p, alarmed)
	c.countPoints()
	c.addNotes(p)
	return p
}

// shortened returns s, cut to longestText characters.
func shortened(s string) string {
	n := 0
	for i := range s {
		if n++; n > longestText {
			return s[:i] + "…"
		}
	}
	return s
}

// shown returns a key in printable form, and "" in quotes.
func shown(name string) string {
	if name == "" {
		return `""`
	}
	return message.Printable(name)
}

// groupName returns the name of a group for a sentence.
func groupName(name string) string {
	if name == "" {
		return "all keys"
	}
	return shown(name)
}

// A membership identifies an alarm that is a member of an incident.
type membership struct {
	key  string
	time int64
}

// idOf returns the index of a key's row on the map, or -1 without a row.
func (c *Collector) idOf(name string, ids map[*key]int) int {
	if id, found := ids[c.keys[name]]; found {
		return id
	}
	return -1
}

func (c *Collector) addIncidents(p *Page, ids map[*key]int) map[membership]bool {
	members := map[membership]bool{}
	var found []*output.Alert
	for _, record := range c.incidents {
		for _, m := range record.Members {
			members[membership{m.Key, unix(m.Time)}] = true
		}
		if record.State == "merged" {
			p.Merged++
			continue
		}
		found = append(found, record)
	}
	rank := func(a *output.Alert) int { // open pages, other open ones, ended pages, others
		switch {
		case !ended(a) && a.Page:
			return 0
		case !ended(a):
			return 1
		case a.Page:
			return 2
		}
		return 3
	}
	slices.SortFunc(found, func(a, b *output.Alert) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Score, a.Score), cmp.Compare(b.Alarmed, a.Alarmed), cmp.Compare(a.ID, b.ID))
	})
	p.IncidentCount = len(found)
	for _, record := range found {
		if !ended(record) {
			p.OpenCount++
		}
		if record.Page {
			p.PageCount++
		}
	}
	for _, record := range found[:min(len(found), shownIncidents)] {
		i := Incident{
			ID: shortened(record.ID), Group: record.Group, State: record.State, Message: shortened(record.Message), Start: record.Start, End: record.End,
			Open: !ended(record), Page: record.Page, Keys: record.Keys, Alarmed: record.Alarmed, Score: float64(record.Score), Expected: float64(record.Expected),
		}
		if i.Group == "" {
			i.Group = record.Key
		}
		for _, name := range slices.Sorted(maps.Keys(record.Labels)) {
			if label := name + "=" + strconv.Quote(record.Labels[name]); !strings.Contains(i.Group, label) {
				i.Labels = strings.TrimSpace(i.Labels + " " + label)
			}
		}
		if i.Start.IsZero() {
			i.Start = record.Time
		}
		if i.Message == "" {
			i.Message = fmt.Sprintf("%s of %s alarmed.", message.Count(cmp.Or(record.Alarmed, record.Keys), "key", "keys"), groupName(i.Group))
		}
		for _, m := range record.Members[:min(len(record.Members), shownMembers)] {
			i.Members = append(i.Members, Row{Key: shown(m.Key), ID: c.idOf(m.Key, ids), Time: m.Time, Score: float64(m.Score), Size: float64(m.Size), Chance: float64(m.P)})
		}
		p.Incidents = append(p.Incidents, i)
	}
	p.IncidentsLeft = len(found) - len(p.Incidents)
	return members
}

func (c *Collector) addRows(p *Page, ids map[*key]int, members map[membership]bool) {
	row := func(d *detail) Row {
		return Row{
			Mark: c.markOf(d), Command: c.markCommand(d),
			Key: shown(d.key.name), ID: c.idOf(d.key.name, ids), Kind: kinds[d.kind], Time: d.Time, Score: float64(d.score), Size: float64(d.size), Open: d.open,
			InIncident: d.inIncident || members[membership{d.key.name, d.unixTime}], Message: shortened(d.Message),
		}
	}
	c.rows.cut()
	for i := range c.rows.details {
		p.Rows = append(p.Rows, row(&c.rows.details[i]))
	}
	p.RowsLeft = len(c.alarms) - len(p.Rows)
	for i := range c.alarms {
		if a := &c.alarms[i]; !a.inIncident && !members[membership{a.key.name, a.unixTime}] {
			p.SingleCount++
		}
	}
	c.singles.cut()
	for i := range c.singles.details {
		if r := row(&c.singles.details[i]); !r.InIncident && len(p.Singles) < shownSingles {
			p.Singles = append(p.Singles, r)
		}
	}
	p.SinglesLeft = p.SingleCount - len(p.Singles)
}

func (c *Collector) addSilent(p *Page) {
	p.Silences = c.counts["silent"]
	for _, k := range c.order {
		if k.silences == 0 || k.recoveredAt > k.silentAt || k.recoveredAt == k.silentAt && k.silentAt == noTime {
			continue
		}
		s := Silent{Key: shown(k.name), Since: k.silentSince, Silences: k.silences}
		if k.silentAt != noTime {
			s.Alerted = fromUnix(k.silentAt)
		}
		p.Silent = append(p.Silent, s)
	}
	slices.SortFunc(p.Silent, func(a, b Silent) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key)) })
	p.SilentCount = len(p.Silent)
	p.Silent = p.Silent[:min(len(p.Silent), shownSilent)]
	p.SilentLeft = p.SilentCount - len(p.Silent)
}

func (c *Collector) addNoisy(p *Page, alarmed []*key, ids map[*key]int) {
	weeks := c.last.Sub(c.first).Hours() / (7 * 24)
	noisy := func(k *key) Noisy {
		n := Noisy{Key: shown(k.name), ID: c.idOf(k.name, ids), Alarms: k.alarms, PerWeek: math.NaN(), Muted: k.muted, Resting: k.resting, Largest: k.suppressedScore, Advice: k.advice(c.zone)}
		if weeks >= 1 {
			n.PerWeek = float64(k.alarms) / weeks
		}
		return n
	}
	byNumber := slices.Clone(alarmed)
	slices.SortStableFunc(byNumber, func(a, b *key) int { return cmp.Compare(b.alarms, a.alarms) })
	for _, k := range byNumber[:min(len(byNumber), shownNoisy)] {
		if k.alarms > 1 {
			p.Noisy = append(p.Noisy, noisy(k))
		}
	}
	if c.trial == nil {
		return
	}
	p.Config, p.Keys = filepath.Base(c.trial.Config), max(p.Keys, c.trial.Keys)
	p.Muted.Known, p.Muted.Allowed, p.Muted.Raised = true, c.trial.Budget.Allowed, c.trial.Budget.Spent
	muted := slices.DeleteFunc(slices.Clone(c.order), func(k *key) bool { return k.muted+k.resting == 0 })
	slices.SortFunc(muted, func(a, b *key) int {
		return cmp.Or(cmp.Compare(b.muted+b.resting, a.muted+a.resting), cmp.Compare(a.name, b.name))
	})
	for _, k := range muted {
		p.Muted.Count += k.muted
		p.Muted.Resting += k.resting
	}
	for _, k := range muted[:min(len(muted), shownNoisy)] {
		p.Muted.Keys = append(p.Muted.Keys, noisy(k))
	}
	p.Muted.Left = len(muted) - len(p.Muted.Keys)
}

// addData adds the JSON data of clicks on keys.
func (c *Collector) addData(p *Page, alarmed []*key) {
	rows := alarmed[:min(len(alarmed), shownKeys)]
	recent := map[*key][]*alarm{}
	for i := range c.alarms {
		if a := &c.alarms[i]; a.unixTime != noTime {
			recent[a.key] = append(recent[a.key], a)
		}
	}
	for _, k := range rows {
		if k.drawn() && p.SeriesKeys < maxFollowed {
			p.SeriesKeys++
		}
	}
	perKey := min(max(pagePoints/max(p.SeriesKeys, 1), 300), 1500)
	b := []byte(`{"kinds":`)
	names, _ := json.Marshal(kinds)
	b = append(b, names...)
	if p.Map != nil || c.smoothed > 0 {
		g := c.grid()
		b = fmt.Appendf(b, `,"first":%d,"step":%d,"columns":%d`, g.first.Unix(), int64(g.step.Seconds()), g.columns)
	}
	if c.zone != time.UTC {
		offsets, _ := json.Marshal(c.offsets())
		b = fmt.Appendf(b, `,"zone":%q,"offsets":%s`, c.zone, offsets)
	}
	if c.value != "" {
		name, _ := json.Marshal(message.Printable(c.value))
		b = fmt.Appendf(b, `,"value":%s`, name)
	}
	b = append(b, `,"keys":`...)
	drawn := 0
	b = records.AppendList(b, len(rows), func(b []byte, i int) []byte {
		k := rows[i]
		list := recent[k]
		slices.SortStableFunc(list, func(a, b *alarm) int { return cmp.Compare(a.unixTime, b.unixTime) })
		left := max(0, len(list)-keyAlarms)
		b = appendName(b, k)
		b = records.AppendList(b, len(list)-left, func(b []byte, j int) []byte {
			a := list[left+j]
			return fmt.Appendf(b, "[%d,%d,%s,%s]", a.unixTime, a.kind, appendNumber(nil, float64(a.score), 1), appendNumber(nil, float64(a.size), 2))
		})
		if left > 0 {
			b = fmt.Appendf(b, `,"left":%d`, left)
		}
		if k.drawn() && drawn < p.SeriesKeys {
			drawn++
			if plan := k.series.hours.Plan(); plan != "" {
				b = append(append(append(b, `,"plan":"`...), plan...), '"')
			}
			b = k.series.append(append(b, `,"series":`...), perKey)
			p.Points += int64(len(k.series.points))
			p.Seen += int64(k.series.seen)
		}
		return append(b, '}')
	})
	b = append(b[:len(b)-1], c.addSessions(p, len(rows))...)
	p.Data = template.JS(append(b, "]}"...))
	p.SeriesLeft = len(alarmed) - p.SeriesKeys
	if c.estimates > 0 && !c.live {
		for _, k := range alarmed {
			if k.estimates == 0 {
				p.SeriesNone++
			}
		}
	}
}

// appendName appends the beginning of a key's data, up to its alarms.
func appendName(b []byte, k *key) []byte {
	name, _ := json.Marshal(shown(k.name)) // escapes <, > and &
	return fmt.Appendf(b, `{"key":%s,"alarms":`, name)
}

// drawn reports whether the key has points to draw.
func (k *key) drawn() bool { return k.series != nil && len(k.series.points) > 0 }

// addNotes adds notes about unexpected properties of the input.
func (c *Collector) addNotes(p *Page) {
	note := func(n int64, singular, plural string) {
		if n == 1 {
			p.Notes = append(p.Notes, fmt.Sprintf(singular, grouped(n)))
		} else if n > 1 {
			p.Notes = append(p.Notes, fmt.Sprintf(plural, grouped(n)))
		}
	}
	note(c.differ, "%s alert has the key, kind, time and id of another alert, but other numbers: the files seem to contain the alerts of two configs.",
		"%s alerts have the key, kind, time and id of other alerts, but other numbers: the files seem to contain the alerts of two configs.")
	note(c.repeats, "%s alert occurs twice. It is counted twice.", "%s alerts occur more than once. All are counted.")
	note(c.untimed, "%s smoothed record has no time and is not on the page: draw it with hafvf plot.", "%s smoothed records have no times and are not on the page: draw them with hafvf plot.")
	note(c.smoothedLeft, "%s smoothed record is not on the page: it has the first "+grouped(maxSmoothed)+".", "%s smoothed records are not on the page: it has the first "+grouped(maxSmoothed)+".")
	note(c.undated, "%s alert has no time and is not on the map.", "%s alerts have no time and are not on the map.")
	note(c.early, "%s record is before the period and not on the page.", "%s records are before the period and not on the page.")
	if c.marked > 0 && c.counts["novelty"]+c.counts["change"] == 0 {
		note(c.marked, "The estimates have %s alarm, but no alerts were given: write them with alerts: {jsonl: {path: alerts.jsonl}}.",
			"The estimates have %s alarms, but no alerts were given: write them with alerts: {jsonl: {path: alerts.jsonl}}.")
	}
	note(int64(p.SeriesNone), "The estimates lack %s key that has alarms.", "The estimates lack %s keys that have alarms.")
	if c.trial != nil {
		note(c.trial.Rejected, "%s record was rejected.", "%s records were rejected.")
		if c.trial.Stopped {
			p.Notes = append(p.Notes, "The run was stopped before the end of the input: the page covers part of it.")
		}
	}
}

// number formats v with about three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case !isNumber(v):
		return "–"
	case a >= 1e7:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 1000:
		return grouped(int64(math.Round(v)))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1 || a == 0:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// grouped formats a whole number with commas.
func grouped(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
