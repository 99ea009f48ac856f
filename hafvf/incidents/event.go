package incidents

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/internal/message"
)

// A State is the reason for an Event: an incident was opened, updated, merged or closed.
type State string

const (
	Opened State = "opened"
	Update State = "update" // has grown by half since the last report, or has a wider group, or is a page
	Merged State = "merged" // became part of an older incident
	Closed State = "closed" // had no new member for 32 steps
)

// An Event reports a change of an incident.
type Event struct {
	// ID is the group and the time of the opening. It is the same in every run with the same alarms.
	ID         string
	State      State
	MergedInto string // ID of the incident that this incident became part of, if State is Merged
	// Page means that a person should look at once. An incident is a page when it opens, and again with an Update if
	// its group is wider or it has twice as many members as at its last page. An incident that recurs every night is no
	// page until it has more than twice as many keys as usual. For Merged and Closed, Page means that the incident was
	// a page.
	Page bool
	// Time is the time of the change: the time of an alarm, or the end of the last window.
	Time time.Time
	// Start is the time of the first member, and End of the last. End is zero until the incident is closed.
	Start, End time.Time
	Group      string // common prefix or labels of the members; empty for the whole fleet
	Keys       int    // keys of the group
	// Labels are the labels that all members share, and the labels of the group.
	Labels map[string]string
	// AlertLabels identify the incident for receivers that store alerts by their labels. They are the Labels of its
	// first event, followed by those of each page whose members no longer share all of the previous ones.
	AlertLabels []map[string]string
	Paged       bool // the incident is or was a page
	// Members are at most 20, with noisy ones last, and sorted by score, time and key. A key is noisy if it had three
	// alarms outside incidents in the week before the event, without the last hour.
	Members    []Member
	NumMembers int
	Expected   float64 // alarms of the group in Window that are expected by chance
	// Score is the surprise of the alarms in Window. Threshold is the score that an incident needed when this one
	// opened. Both are in decades of probability.
	Score, Threshold float64
	Window           time.Duration // window of the finding, or of the last finding that widened the incident
	Message          string        // summary in a sentence
}

// A Member is a key of an incident, with its first alarm in it. Later reports of the alarm's episode can raise Score and
// Size.
type Member struct {
	Key   string
	Time  time.Time
	Score float64 // decades
	Size  float64 // as Alarm.Size
	P     float64 // probability that the alarm belongs to the incident and is not due to chance
	// Episode is the episode of the alarm; nil for none, as for a silence.
	Episode *Episode

	moment, step moment // Time, and the step of the key
}

func byScore(a, b Member) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), a.Time.Compare(b.Time), cmp.Compare(a.Key, b.Key))
}

func byTime(a, b Member) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(b.Score, a.Score), cmp.Compare(a.Key, b.Key))
}

// report adds an Event for the incident at t.
func (f *Fleet) report(state State, inc *incident, t moment, page bool) {
	inc.reported = len(inc.members)
	e := f.event(state, inc, t, page)
	wider := page && (state == Opened || state == Update)
	if n := len(inc.labels); n == 0 || wider && !containsLabels(e.Labels, inc.labels[n-1]) {
		inc.labels = append(slices.Clip(inc.labels), e.Labels) // earlier events share the others
		e.AlertLabels = inc.labels
	}
	f.step.Events = append(f.step.Events, e)
}

// Open returns the open incidents in their present state, as Updates.
func (f *Fleet) Open() (events []Event) {
	for _, inc := range f.open {
		events = append(events, f.event(Update, inc, inc.last, inc.page))
	}
	return events
}

func (f *Fleet) event(state State, inc *incident, t moment, page bool) Event {
	// Noisy members come last, and are not named first, unless all are noisy.
	rank := map[string]int{}
	for name := range inc.members {
		if f.noisy(name, t) {
			rank[name] = 1
		}
	}
	ranked := func(order func(a, b Member) int) func(a, b Member) int {
		return func(a, b Member) int { return cmp.Or(cmp.Compare(rank[a.Key], rank[b.Key]), order(a, b)) }
	}
	ranking := slices.SortedFunc(maps.Values(inc.members), ranked(byScore))
	e := Event{
		ID: inc.id, State: state, Page: page, Time: t.time(), Start: inc.opened.time(), Group: inc.group,
		Members: slices.Clone(ranking[:min(len(ranking), maxReported)]), NumMembers: len(ranking),
		Expected: inc.expected, Score: inc.score, Threshold: inc.threshold, Window: time.Duration(inc.window),
		Paged: inc.page, AlertLabels: inc.labels,
	}
	if g := f.groups[inc.group]; g != nil {
		e.Keys = g.keys
	}
	if inc.into != nil {
		e.MergedInto = inc.into.id
	}
	if state == Closed {
		e.End = inc.last.time()
	}
	var first Member
	if len(ranking) > 0 {
		first = slices.MinFunc(ranking, ranked(byTime))
		e.Start = slices.MinFunc(ranking, byTime).Time
	}
	e.Labels = f.labels(inc)
	e.Message = f.sentence(&e, inc, first)
	return e
}

// maxNamedParts is the largest number of parts that a message names in place of the fleet.
const maxNamedParts = 3

// A subgroup is a group within the group of an incident, with the members in it.
type subgroup struct {
	name    string
	members int
	excess  float64 // members over the number that the budgets of its keys allow
	first   moment
}

// parts returns the groups one level below the group of an incident, sorted by decreasing excess and then by first
// alarm. With groups by labels, it uses the label with the fewest parts, at least two.
func (f *Fleet) parts(inc *incident) (best []subgroup) {
	if len(f.cfg.By) == 0 {
		return f.partsOf(inc, func(within []*group) *group { return within[0] })
	}
	for _, label := range f.cfg.By {
		if parts := f.partsOf(inc, func(within []*group) *group {
			i := slices.IndexFunc(within, func(g *group) bool {
				return slices.ContainsFunc(labelsOf(g.name), func(l string) bool { return strings.HasPrefix(l, label+"=") })
			})
			if i < 0 {
				return nil
			}
			return within[i]
		}); len(parts) > 1 && (best == nil || len(parts) < len(best)) {
			best = parts
		}
	}
	return best
}

// partsOf returns the parts of an incident. choose selects one of the groups of a member that are directly within the
// incident's group; it may return nil.
func (f *Fleet) partsOf(inc *incident, choose func(within []*group) *group) (parts []subgroup) {
	index := map[string]int{}
	for name, m := range inc.members {
		k := f.keys[name]
		if k == nil {
			continue
		}
		var within []*group
		for _, g := range k.groups {
			if slices.ContainsFunc(g.around, func(o *group) bool { return o.name == inc.group }) {
				within = append(within, g)
			}
		}
		if len(within) == 0 {
			return nil // the key is directly in the group
		}
		g := choose(within)
		if g == nil {
			continue
		}
		i, ok := index[g.name]
		if !ok {
			i = len(parts)
			index[g.name] = i
			chance := g.allowed * (inc.last - inc.opened + inc.window).seconds(0)
			parts = append(parts, subgroup{name: g.name, excess: -chance, first: m.moment})
		}
		parts[i].members++
		parts[i].excess++
		parts[i].first = min(parts[i].first, m.moment)
	}
	slices.SortFunc(parts, func(a, b subgroup) int {
		return cmp.Or(cmp.Compare(b.excess, a.excess), cmp.Compare(a.first, b.first), cmp.Compare(a.name, b.name))
	})
	return parts
}

// spread describes how many values of the grouping's labels the members have, except labels with a single value.
func (f *Fleet) spread(inc *incident) string {
	var counts []string
	for _, label := range f.cfg.By {
		values := map[string]bool{}
		for name := range inc.members {
			for _, l := range matchingLabels(name, []string{label}) {
				values[l] = true
			}
		}
		if len(values) > 1 {
			counts = append(counts, message.Count(len(values), label, plural(label)))
		}
	}
	if len(counts) == 0 {
		return ""
	}
	return ", in " + strings.Join(counts, " and ") + ","
}

func plural(label string) string {
	if strings.HasSuffix(label, "s") {
		return label + "es"
	}
	return label + "s"
}

// describeParts returns the names of the parts and the number of their keys, if they are at least two and few.
func (f *Fleet) describeParts(parts []subgroup) (names string, keys int) {
	if len(parts) < 2 || len(parts) > maxNamedParts {
		return "", 0
	}
	var list []string
	for _, p := range parts {
		list, keys = append(list, message.Printable(p.name)), keys+f.groups[p.name].keys
	}
	return strings.Join(list, ", "), keys
}

// sentence describes the incident: the number of keys, their group, the time, where to look first, and the number of
// alarms expected by chance.
func (f *Fleet) sentence(e *Event, inc *incident, first Member) string {
	var s strings.Builder
	clock, today := func(t, today time.Time) string { return message.Clock(t, today, f.cfg.Zone) }, time.Time{}
	if f.cfg.OmitToday {
		today = time.Now()
	}
	one, many := "key", "keys"
	if len(f.cfg.By) > 0 {
		one, many = "series", "series"
	}
	parts := f.parts(inc)
	count := func(keys int) string { return message.Count(keys, one, many) }
	group := count(e.Keys) + " of " + message.Printable(e.Group) + f.spread(inc)
	if e.Group == "" {
		group = "all " + count(e.Keys) + f.spread(inc)
		if names, keys := f.describeParts(parts); keys > 0 && keys < e.Keys {
			group = count(keys) + " of " + names
		}
	}
	if e.NumMembers == 0 {
		fmt.Fprintf(&s, "No %s is left in the incident of %s: all joined narrower incidents or were forgotten.", one, clock(e.Start, today))
		return s.String()
	}
	fmt.Fprintf(&s, "%d of %s", e.NumMembers, group)
	have := "have"
	if e.NumMembers == 1 {
		have = "has"
	}
	switch {
	case e.State != Closed:
		fmt.Fprintf(&s, " %s alarmed since %s", have, clock(e.Start, today))
		if d := e.Time.Sub(e.Start).Round(time.Second); d > 0 {
			fmt.Fprintf(&s, " (%s)", message.Span(d))
		}
	case e.Start.Equal(e.End):
		fmt.Fprintf(&s, " alarmed at %s", clock(e.Start, today))
	default:
		fmt.Fprintf(&s, " alarmed from %s to %s", clock(e.Start, today), clock(e.End, e.Start))
	}
	s.WriteString(".")
	if len(parts) > maxNamedParts && parts[0].members > 1 {
		fmt.Fprintf(&s, " Most are in %s (%d) and %s (%d).", message.Printable(parts[0].name), parts[0].members, message.Printable(parts[1].name), parts[1].members)
	}
	clearest := message.Printable(e.Members[0].Key)
	if ep := e.Members[0].Episode; ep != nil && len(ep.UsualMean) == 1 && !math.IsNaN(ep.Worst.Value+ep.UsualMean[0]) {
		clearest += fmt.Sprintf(", %s at worst, usual before %s", message.Level(ep.Worst.Value), message.Level(ep.UsualMean[0]))
	}
	if first.Key == e.Members[0].Key {
		fmt.Fprintf(&s, " First and clearest alarm: %s.", clearest)
	} else {
		fmt.Fprintf(&s, " First alarm: %s. Clearest alarm: %s.", message.Printable(first.Key), clearest)
	}
	if inc.recurs >= minRecurrences {
		period := "on %d of the last seven days"
		if inc.weekly {
			period = "in %d of the last four weeks"
		}
		fmt.Fprintf(&s, " A similar incident occurred at this time "+period, inc.recurs)
		if inc.page {
			fmt.Fprintf(&s, ", with at most %s", message.Count(inc.usual, "key", "keys"))
		}
		s.WriteString(".")
	}
	if inc.into != nil {
		fmt.Fprintf(&s, " It is now part of incident %s.", message.Printable(inc.into.id))
	}
	fmt.Fprintf(&s, " Expected by chance: %.2g alarms in %s.", e.Expected, message.Span(e.Window))
	return s.String()
}
