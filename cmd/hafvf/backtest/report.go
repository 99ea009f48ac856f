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
	"hafvf/pipeline"
	"hafvf/pipeline/records"
)

// A Number is written as null in JSON where it is not finite.
type Number = output.Scalar

// magnitude is below that of every other number where v is not finite.
func magnitude(v Number) float64 {
	if f := math.Abs(float64(v)); f < math.Inf(1) {
		return f
	}
	return -1
}

// units are those of a Report, by the name of the number.
var units = map[string]string{
	"per_week": "alerts a week", "observations_per_alarm": "observations", "delay": "observations",
	"size": "standard deviations", "score": "minus the decimal logarithm of a probability",
	"median_delay": "seconds", "largest_delay": "seconds", "allowed": "alarms", "spent": "alarms",
}

// A Report is what a run would have told.
type Report struct {
	Config   string    `json:"config"`
	Keys     int       `json:"keys"`
	Records  int64     `json:"records"`
	Missing  int64     `json:"missing"`
	Rejected int64     `json:"rejected"`
	Stopped  bool      `json:"stopped"` // before the end of the input
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Seconds  float64   `json:"seconds"`
	Rate     Number    `json:"records_per_second"`

	Units map[string]string `json:"units"` // of the numbers below that are no counts

	Messages Messages `json:"messages"`

	Alerts  Counts     `json:"told"`
	Weeks   []Week     `json:"weeks"` // those with alerts
	Budget  Budget     `json:"budget"`
	Muted   Suppressed `json:"muted"`
	Resting Suppressed `json:"resting"`
	// ByKey are the keys from the noisiest, which has most alerts.
	ByKey   []Key   `json:"by_key"`
	Largest []Event `json:"largest"` // the largest few, from the largest
	// Incidents are what the alarms have in common; nil without incidents in the config.
	Incidents *Incidents `json:"incidents,omitempty"`
	Labels    *Score     `json:"labels,omitempty"`
	Marks     *MarkScore `json:"marks,omitempty"`
	Against   *Against   `json:"against,omitempty"`

	events []Event // all, by time
	zone   *time.Location
}

// Counts are numbers of alerts by kind.
type Counts map[string]int

func (c Counts) total() (n int) {
	for _, v := range c {
		n += v
	}
	return n
}

// A Week counts the alerts of a week from Monday at midnight on, by the clock of the config.
type Week struct {
	Monday time.Time `json:"monday"`
	Alerts Counts    `json:"told"`
}

// A Key is what the run would have told of a key.
type Key struct {
	Key     string `json:"key"`
	Records int64  `json:"records"`
	Alerts  Counts `json:"told"`
	PerWeek Number `json:"per_week"` // alerts; null where the records have no times
	Weeks   []Week `json:"weeks"`
	// ObservationsPerAlarm is the budget; null in the warm-up.
	ObservationsPerAlarm Number     `json:"observations_per_alarm"`
	Budget               Budget     `json:"budget"`
	Muted                Suppressed `json:"muted"`
	Resting              Suppressed `json:"resting"`
	Plan                 string     `json:"plan,omitempty"` // hours at which it is on the higher one of two levels

	hours       usual.HoursOfWeek
	first, last time.Time // zero for records without times
	events      []Event
	scored      int64       // observations that could raise an alarm
	warmUp      []time.Time // while it goes on
}

// Incidents compares two receivers: one of all alarms, and one of incidents alone.
type Incidents struct {
	Opened   int        `json:"opened"`
	Pages    int        `json:"pages"`
	Messages int        `json:"messages"` // also of incidents that grow, merge and close
	Alarms   int        `json:"alarms"`   // of all keys
	Outside  int        `json:"outside"`  // alarms in no incident
	ByScore  []Incident `json:"by_score"` // the least probable by chance first
}

// An Incident is one as it was told last.
type Incident struct {
	ID      string    `json:"id"`
	Group   string    `json:"group"`
	Start   time.Time `json:"start"`
	Page    bool      `json:"page"`
	Keys    int       `json:"keys"`    // of the group
	Alarmed int       `json:"alarmed"` // those with alarms
	Score   Number    `json:"score"`
	Message string    `json:"message"`
}

// incidents counts the incidents of a run.
func (c *Collector) incidents(s pipeline.Summary) *Incidents {
	all := &Incidents{Opened: len(s.Incidents), Messages: c.messages, Alarms: len(c.assigned)}
	for _, e := range s.Incidents {
		if e.Page {
			all.Pages++
		}
		all.ByScore = append(all.ByScore, Incident{e.ID, e.Group, e.Start, e.Page, e.Keys, e.NumMembers, Number(e.Score), e.Message})
	}
	for _, incident := range c.assigned {
		if incident == "" {
			all.Outside++
		}
	}
	return all
}

// A Budget is the number of alarms that was allowed over the whole of the data, and of
// those that were raised. A single key may be ahead of its budget by nine alarms.
type Budget struct {
	Allowed float64 `json:"allowed"`
	Spent   int     `json:"spent"`
}

// Suppressed counts how often the debt of earlier alarms, or the last alarm, alone stood against an
// alarm: Muted and Resting of keyed.Detection. The rest says which of these had the largest score.
type Suppressed struct {
	Count int       `json:"count"`
	Key   string    `json:"key,omitempty"`
	Score Number    `json:"score,omitempty"` // null of a change without a score
	Time  time.Time `json:"time,omitzero"`
	N     int64     `json:"n,omitempty"` // position within the key, from 1
}

// add adds o. Of equal scores the earlier one stays.
func (m *Suppressed) add(o Suppressed) {
	n := m.Count + o.Count
	if o.Count > 0 && (m.Count == 0 || magnitude(o.Score) > magnitude(m.Score)) {
		*m = o
	}
	m.Count = n
}

// most is how many keys and events a report shows.
const most = 10

var errNoTimes = errors.New("--labels: the records have no times, which labels need")

// Report returns the report of the run that has ended with this summary. Labels and marks may be
// nil.
func (c *Collector) Report(config string, s pipeline.Summary, labels Labels, marks []records.Mark) (*Report, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Report{
		Units:  units,
		Config: config, Keys: len(c.keys), Records: s.Records, Missing: s.Missing, Rejected: s.Rejected, Stopped: s.Stopped,
		Seconds: s.Elapsed.Seconds(), Rate: Number(float64(s.Records) / s.Elapsed.Seconds()),
		Alerts: Counts{}, ByKey: []Key{}, Largest: []Event{}, zone: c.graph.Clock,
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
	for _, k := range r.ByKey { // in a fixed order, for the last digit of the sum
		r.Budget.Allowed += k.Budget.Allowed
		r.Muted.add(k.Muted)
		r.Resting.add(k.Resting)
	}
	r.Messages = c.messagesOver(r.Last.Sub(r.First))
	slices.SortFunc(r.events, byTime)
	r.Weeks = weeksOf(r.events, r.zone)
	largest := slices.SortedFunc(slices.Values(r.events), bySize)
	r.Largest = append(r.Largest, largest[:min(len(largest), most)]...)
	if c.graph.Groups() {
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
	if c.page != nil {
		c.page.AddMarks(marks)
		c.finishPage(r)
	}
	return r, nil
}

const week = 7 * 24 * time.Hour

// weeksOf counts the events that have times by week of the zone.
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
	all := []Week{}
	for _, monday := range slices.SortedFunc(maps.Keys(weeks), time.Time.Compare) {
		all = append(all, Week{monday, weeks[monday]})
	}
	return all
}

// mondayOf is when the week of t began in the zone.
func mondayOf(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day()-(int(t.Weekday())+6)%7, 0, 0, 0, 0, zone).UTC()
}

// Against is where another config differs.
type Against struct {
	Report Report `json:"report"` // of the other config
	Both   int    `json:"both"`   // events that both tell
	// Only are the events that one config tells: Only.This that of the report, Only.Other
	// the other one.
	Only struct {
		This  []Event `json:"this"`
		Other []Event `json:"other"`
	} `json:"only"`
	// Keys are those with different numbers of alerts, from the largest difference.
	Keys []KeyDifference `json:"keys"`
}

// A KeyDifference is the number of alerts of a key by each config.
type KeyDifference struct {
	Key   string `json:"key"`
	This  int    `json:"this"`
	Other int    `json:"other"`
}

// Compare adds to r where other differs. Two alerts of a key are one event if they are of
// the same kind, and the stretches from their starts to their alerts overlap.
func (r *Report) Compare(other *Report) {
	a := &Against{Report: *other, Keys: []KeyDifference{}}
	a.Only.This, a.Only.Other = []Event{}, []Event{}
	type place struct{ key, kind string }
	theirs := map[place][]Event{}
	for _, e := range other.events {
		at := place{e.Key, e.Kind}
		theirs[at] = append(theirs[at], e)
	}
	for _, e := range r.events {
		at := place{e.Key, e.Kind}
		// Both lists are in the order of time.
		if i := slices.IndexFunc(theirs[at], e.overlaps); i >= 0 {
			theirs[at] = slices.Delete(theirs[at], i, i+1)
			a.Both++
			continue
		}
		a.Only.This = append(a.Only.This, e)
	}
	for _, left := range theirs {
		a.Only.Other = append(a.Only.Other, left...)
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

// overlaps reports whether the stretches from start to alert of two events overlap: in
// time, or in positions where one of them has no time.
func (e Event) overlaps(o Event) bool {
	if e.Time.IsZero() || o.Time.IsZero() || e.Start.IsZero() || o.Start.IsZero() {
		return e.N-e.Delay <= o.N && o.N-o.Delay <= e.N
	}
	return !e.Start.After(o.Time) && !o.Start.After(e.Time)
}
