package backtest

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/usual"
	"hafvf/internal/clock"
	"hafvf/pipeline/records"
)

// A Number is written to JSON as null if it is not finite.
type Number = output.Scalar

// magnitude returns |v|, or -1 if v is not finite, so that such values sort last.
func magnitude(v Number) float64 {
	if f := math.Abs(float64(v)); f < math.Inf(1) {
		return f
	}
	return -1
}

// units maps the JSON names of numbers in a Report to their units.
var units = map[string]string{
	"per_week": "alerts a week", "observations_per_alarm": "observations", "delay": "observations",
	"size": "standard deviations", "score": "minus the decimal logarithm of a probability",
	"median_delay": "seconds", "largest_delay": "seconds", "allowed": "alarms", "spent": "alarms",
}

// A Report describes the alerts that a run would have sent.
type Report struct {
	Config   string    `json:"config"`
	Keys     int       `json:"keys"`
	Records  int64     `json:"records"`
	Missing  int64     `json:"missing"`
	Rejected int64     `json:"rejected"`
	Stopped  bool      `json:"stopped"` // true if the run was stopped before the end of the input
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Seconds  float64   `json:"seconds"`
	Rate     Number    `json:"records_per_second"`

	Units map[string]string `json:"units"` // units of the numbers below that are not counts, by name

	Messages Messages `json:"messages"`

	Alerts  Counts     `json:"told"`
	Weeks   []Week     `json:"weeks"` // weeks with alerts
	Budget  Budget     `json:"budget"`
	Muted   Suppressed `json:"muted"`
	Resting Suppressed `json:"resting"`
	// ByKey lists the keys by decreasing number of alerts.
	ByKey []Key `json:"by_key"`
	// MonthDay is nil if no key has most of its alarms on the same day of the month.
	MonthDay *MonthDay `json:"month_day,omitempty"`
	Largest  []Event   `json:"largest"` // the largest events, at most maxListed, by decreasing size
	// Incidents is nil if the config has no incidents.
	Incidents *Incidents `json:"incidents,omitempty"`
	Labels    *Score     `json:"labels,omitempty"`
	Marks     *MarkScore `json:"marks,omitempty"`
	Against   *Against   `json:"against,omitempty"`

	events []Event // all events, by time
	zone   *time.Location
}

// Counts are the numbers of alerts by kind.
type Counts map[string]int

func (c Counts) total() (n int) {
	for _, v := range c {
		n += v
	}
	return n
}

// Events returns all alerts that the run would have sent, by time.
func (r *Report) Events() []Event { return r.events }

// A Week counts the alerts of a week. Weeks begin on Monday at midnight in the zone of the config.
type Week struct {
	Monday time.Time `json:"monday"`
	Alerts Counts    `json:"told"`
}

// A Key describes the alerts that the run would have sent for a key.
type Key struct {
	Key     string `json:"key"`
	Records int64  `json:"records"`
	Alerts  Counts `json:"told"`
	PerWeek Number `json:"per_week"` // alerts per week; null if the records have no times
	Weeks   []Week `json:"weeks"`
	// ObservationsPerAlarm is the budget; null during the warm-up.
	ObservationsPerAlarm Number     `json:"observations_per_alarm"`
	Budget               Budget     `json:"budget"`
	Muted                Suppressed `json:"muted"`
	Resting              Suppressed `json:"resting"`
	Plan                 string     `json:"plan,omitempty"` // hours of the week at which the key is at the higher of two levels

	hours       usual.HoursOfWeek
	first, last time.Time // times of the records; zero without times
	events      []Event
	scored      int64       // observations that could raise an alarm
	warmUp      []time.Time // times of the warm-up; nil after it
}

// Incidents compares a receiver of all alarms with a receiver of incidents only.
type Incidents struct {
	Opened   int        `json:"opened"`
	Pages    int        `json:"pages"`
	Messages int        `json:"messages"` // events of incidents: opened, updated, merged and closed
	Alarms   int        `json:"alarms"`   // alarms that could join an incident
	Outside  int        `json:"outside"`  // alarms outside incidents
	ByScore  []Incident `json:"by_score"` // incidents in the order of the summary, the least probable by chance first
}

// An Incident is the last state of an incident.
type Incident struct {
	ID      string    `json:"id"`
	Group   string    `json:"group"`
	Start   time.Time `json:"start"`
	Page    bool      `json:"page"`
	Keys    int       `json:"keys"`    // keys of the group
	Alarmed int       `json:"alarmed"` // keys of the group with alarms
	Score   Number    `json:"score"`
	Message string    `json:"message"`
}

// incidents returns the counts of the incidents of a run.
func (c *Collector) incidents(s Summary) *Incidents {
	result := &Incidents{Opened: len(s.Incidents), Messages: c.messages, Alarms: len(c.assigned)}
	for _, e := range s.Incidents {
		if e.Page {
			result.Pages++
		}
		result.ByScore = append(result.ByScore, Incident{e.ID, e.Group, e.Start, e.Page, e.Keys, e.NumMembers, Number(e.Score), e.Message})
	}
	for _, incident := range c.assigned {
		if incident == "" {
			result.Outside++
		}
	}
	return result
}

// A Budget compares the alarms that the budget allowed over the whole data with the alarms that were raised. A key
// may exceed its budget by nine alarms.
type Budget struct {
	Allowed float64 `json:"allowed"`
	Spent   int     `json:"spent"`
}

// Suppressed counts the alarms that were Muted or Resting (see keyed.Detection). The other fields describe the
// suppressed alarm with the largest score.
type Suppressed struct {
	Count int       `json:"count"`
	Key   string    `json:"key,omitempty"`
	Score Number    `json:"score,omitempty"` // null for a change without a score
	Time  time.Time `json:"time,omitzero"`
	N     int64     `json:"n,omitempty"` // position within the key, from 1
}

// add adds o to m. If the largest scores are equal, the alarm of m stays.
func (m *Suppressed) add(o Suppressed) {
	n := m.Count + o.Count
	if o.Count > 0 && (m.Count == 0 || magnitude(o.Score) > magnitude(m.Score)) {
		*m = o
	}
	m.Count = n
}

// maxListed is the maximum number of entries in a list of the report.
const maxListed = 10

var errNoTimes = errors.New("--labels: the records have no times: labels need times")

// Report returns the report of a run, after its end. config is the name in the report, and s is the summary of the
// run. A nil labels or marks adds no comparison. Report fails if labels are given and the records have no times.
func (c *Collector) Report(config string, s Summary, labels Labels, marks []records.Mark) (*Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Report{
		Units:  units,
		Config: config, Keys: len(c.keys), Records: s.Records, Missing: s.Missing, Rejected: s.Rejected, Stopped: s.Stopped,
		Seconds: s.Elapsed.Seconds(), Rate: Number(float64(s.Records) / s.Elapsed.Seconds()),
		Alerts: Counts{}, ByKey: []Key{}, Largest: []Event{}, zone: c.run.Clock,
	}
	for _, k := range c.keys {
		r.First, r.Last = clock.Earlier(r.First, k.first), clock.Later(r.Last, k.last)
		k.Weeks = weeksOf(k.events, r.zone)
		k.Plan = k.hours.Plan()
		for kind, n := range k.Alerts {
			r.Alerts[kind] += n
		}
		if span := k.last.Sub(k.first); span > 0 {
			k.PerWeek = weekly(len(k.events), span)
		}
		if k.scored > 0 {
			k.Budget.Allowed = float64(k.scored) / float64(k.ObservationsPerAlarm)
		}
		r.Budget.Spent += k.Budget.Spent
		r.ByKey = append(r.ByKey, *k)
		r.events = append(r.events, k.events...)
	}
	slices.SortFunc(r.ByKey, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Alerts.total(), a.Alerts.total()), cmp.Compare(a.Key, b.Key))
	})
	for _, k := range r.ByKey { // fixed order: the last digit of a sum depends on it
		r.Budget.Allowed += k.Budget.Allowed
		r.Muted.add(k.Muted)
		r.Resting.add(k.Resting)
	}
	r.MonthDay = r.monthDayOf()
	r.Messages = c.messagesOver(r.Last.Sub(r.First))
	slices.SortFunc(r.events, byTime)
	r.Weeks = weeksOf(r.events, r.zone)
	largest := slices.SortedFunc(slices.Values(r.events), bySize)
	r.Largest = append(r.Largest, largest[:min(len(largest), maxListed)]...)
	if c.run.Groups {
		r.Incidents = c.incidents(s)
	}
	if labels != nil {
		if r.Last.IsZero() && r.Records > 0 {
			return nil, errNoTimes
		}
		score := labels.score(c.keys)
		r.Labels = &score
	}
	if marks != nil {
		r.Marks = c.scoreMarks(marks)
	}
	for _, e := range r.events {
		if e.Alert != nil {
			e.Alert.Incident = c.incidentOf(e.Key, e.ID, e.Kind)
		}
	}
	return r, nil
}

const week = 7 * 24 * time.Hour

// weeksOf counts events by week in zone, in order of time. It ignores events without times.
func weeksOf(events []Event, zone *time.Location) []Week {
	weeks := map[time.Time]Counts{}
	for _, e := range events {
		if e.Time.IsZero() {
			continue
		}
		monday := mondayOf(e.Time, zone)
		if weeks[monday] == nil {
			weeks[monday] = Counts{}
		}
		weeks[monday][e.Kind]++
	}
	result := []Week{}
	for _, monday := range slices.SortedFunc(maps.Keys(weeks), time.Time.Compare) {
		result = append(result, Week{monday, weeks[monday]})
	}
	return result
}

// mondayOf returns the time at which the week of t began in zone, as UTC.
func mondayOf(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day()-(int(t.Weekday())+6)%7, 0, 0, 0, 0, zone).UTC()
}

// An Against lists the differences to the report of another config.
type Against struct {
	Report Report `json:"report"` // report of the other config
	Both   int    `json:"both"`   // events of both configs
	// Only lists the events of one config: This of the report, Other of the other config.
	Only struct {
		This  []Event `json:"this"`
		Other []Event `json:"other"`
	} `json:"only"`
	// Keys lists keys with different numbers of alerts, by decreasing difference.
	Keys []KeyDifference `json:"keys"`
}

// A KeyDifference is the number of alerts of a key under each config.
type KeyDifference struct {
	Key   string `json:"key"`
	This  int    `json:"this"`
	Other int    `json:"other"`
}

// Compare sets r.Against to the differences between r and other. Two alerts of a key are one event if they are of the
// same kind, and their ranges from start to alert overlap.
func (r *Report) Compare(other *Report) {
	a := &Against{Report: *other, Keys: []KeyDifference{}}
	a.Only.This, a.Only.Other = []Event{}, []Event{}
	type eventKind struct{ key, kind string }
	theirs := map[eventKind][]Event{}
	for _, e := range other.events {
		place := eventKind{e.Key, e.Kind}
		theirs[place] = append(theirs[place], e)
	}
	for _, e := range r.events {
		place := eventKind{e.Key, e.Kind}
		// Both lists are sorted by time.
		if i := slices.IndexFunc(theirs[place], e.overlaps); i >= 0 {
			theirs[place] = slices.Delete(theirs[place], i, i+1)
			a.Both++
			continue
		}
		a.Only.This = append(a.Only.This, e)
	}
	for _, events := range theirs {
		a.Only.Other = append(a.Only.Other, events...)
	}
	slices.SortFunc(a.Only.Other, byTime)
	counts := map[string]*KeyDifference{}
	for _, k := range r.ByKey {
		counts[k.Key] = &KeyDifference{Key: k.Key, This: k.Alerts.total()}
	}
	for _, k := range other.ByKey {
		if counts[k.Key] == nil {
			counts[k.Key] = &KeyDifference{Key: k.Key}
		}
		counts[k.Key].Other = k.Alerts.total()
	}
	for _, d := range counts {
		if d.This != d.Other {
			a.Keys = append(a.Keys, *d)
		}
	}
	slices.SortFunc(a.Keys, func(a, b KeyDifference) int {
		return cmp.Or(cmp.Compare(abs(b.This-b.Other), abs(a.This-a.Other)), cmp.Compare(a.Key, b.Key))
	})
	r.Against = a
}

func abs(n int) int { return max(n, -n) }

// overlaps reports whether the ranges from start to alert of two events overlap. It compares times or, if a time is
// missing, positions.
func (e Event) overlaps(o Event) bool {
	if e.Time.IsZero() || o.Time.IsZero() || e.Start.IsZero() || o.Start.IsZero() {
		return e.N-e.Delay <= o.N && o.N-o.Delay <= e.N
	}
	return !e.Start.After(o.Time) && !o.Start.After(e.Time)
}
