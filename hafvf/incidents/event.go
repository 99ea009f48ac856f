package incidents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hafvf/internal/message"
)

// A State is what has become of an incident.
type State string

const (
	Opened State = "opened"
	Update State = "update" // it has grown by half since it was last told, is wider, or is a page
	Merged State = "merged" // it is part of an older one
	Closed State = "closed" // 32 steps have gone by without a member
)

// An Event tells of an incident.
type Event struct {
	// ID is the group and the time of the opening. It is the same in every run of the same alarms.
	ID    string
	State State
	Into  string // id of the incident that this one is part of, of Merged
	// Page says that a person is to look at once. An incident is a page when it opens, and again with an
	// Update when its group is wider or its members are twice as many as at its last page. An incident that
	// comes every night is no page, until it has more than twice as many keys as usual. Of Merged and
	// Closed it says that the incident was a page.
	Page bool
	// Time is when it happened, that of an alarm or of the end of the last window.
	Time time.Time
	// Start is the time of the first member, and End of the last. End is zero until it has closed.
	Start, End time.Time
	Group      string // common prefix or labels of the members; empty for the whole fleet
	Keys       int    // of the group
	// Labels are those that all members share, and those of the group.
	Labels map[string]string
	// Paged says that it is a page or was one before, and PageLabels are the Labels of the last page. If this
	// is a page that has others than the one before, Replaced are those; else it is nil.
	Paged                bool
	PageLabels, Replaced map[string]string
	// Members are at most 20: those that are not noisy before those that are, each by score, time and key. A
	// key is noisy if it had three alarms outside of incidents in the week before the event, without the last hour.
	Members    []Member
	NumMembers int
	Expected   float64 // alarms of the group by chance in Window
	// Score is how surprising the alarms in Window were, and Threshold what an incident needed when
	// this one opened, both decades of probability.
	Score, Threshold float64
	Window           time.Duration // in which it was found, or was last found to be wider
	Message          string        // all that in a sentence
}

// A Member is a key of an incident, with its first alarm in it.
type Member struct {
	Key   string
	Time  time.Time
	Score float64 // decades
	Size  float64 // as the Alarm's
	P     float64 // probability that it belongs to the incident rather than being chance

	at, step moment // Time, and the step of the key
}

func byScore(a, b Member) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), a.Time.Compare(b.Time), cmp.Compare(a.Key, b.Key))
}

func byTime(a, b Member) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(b.Score, a.Score), cmp.Compare(a.Key, b.Key))
}

// report tells what has become of an incident at a moment.
func (f *Fleet) report(state State, inc *incident, t moment, page bool) {
	inc.reported = len(inc.members)
	e := f.event(state, inc, t, page)
	if page && (state == Opened || state == Update) {
		if inc.paging && !maps.Equal(inc.labels, e.Labels) {
			e.Replaced = map[string]string{}
			maps.Copy(e.Replaced, inc.labels)
		}
		inc.paging, inc.labels = true, e.Labels
		e.Paged, e.PageLabels = true, e.Labels
	}
	f.step.Events = append(f.step.Events, e)
}

// Open are the incidents that are open, as they are now.
func (f *Fleet) Open() (all []Event) {
	for _, inc := range f.open {
		all = append(all, f.event(Update, inc, inc.last, inc.page))
	}
	return all
}

func (f *Fleet) event(state State, inc *incident, t moment, page bool) Event {
	// Noisy members come last, and are not the first, unless all are.
	rank := map[string]int{}
	for name := range inc.members {
		if f.noisy(name, t) {
			rank[name] = 1
		}
	}
	ranked := func(then func(a, b Member) int) func(a, b Member) int {
		return func(a, b Member) int { return cmp.Or(cmp.Compare(rank[a.Key], rank[b.Key]), then(a, b)) }
	}
	all := slices.SortedFunc(maps.Values(inc.members), ranked(byScore))
	e := Event{
		ID: inc.id, State: state, Page: page, Time: t.time(), Start: inc.opened.time(), Group: inc.group,
		Members: slices.Clone(all[:min(len(all), maxReported)]), NumMembers: len(all),
		Expected: inc.expected, Score: inc.score, Threshold: inc.threshold, Window: time.Duration(inc.window),
		Paged: inc.paging, PageLabels: inc.labels,
	}
	if g := f.groups[inc.group]; g != nil {
		e.Keys = g.keys
	}
	if inc.into != nil {
		e.Into = inc.into.id
	}
	if state == Closed {
		e.End = inc.last.time()
	}
	var first Member
	if len(all) > 0 {
		first = slices.MinFunc(all, ranked(byTime))
		e.Start = slices.MinFunc(all, byTime).Time
	}
	e.Labels = f.labels(inc)
	e.Message = f.sentence(&e, inc, first)
	return e
}

// named is how many parts of the fleet a message names in its place.
const named = 3

// A subgroup is a group within that of an incident, with the members in it.
type subgroup struct {
	name    string
	members int
	excess  float64 // over those that the budgets of its keys allow
	first   moment
}

// parts are those of an incident's group one level below, those of the largest excess first, and of the
// earliest of these. By labels they are of the label that has the fewest.
func (f *Fleet) parts(inc *incident) (all []subgroup) {
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
		}); len(parts) > 1 && (all == nil || len(parts) < len(all)) {
			all = parts
		}
	}
	return all
}

// partsOf are the parts of an incident that choose names, of the groups of a member directly within that of the
// incident.
func (f *Fleet) partsOf(inc *incident, choose func(within []*group) *group) (all []subgroup) {
	at := map[string]int{}
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
			return nil // a key stands in the group itself
		}
		g := choose(within)
		if g == nil {
			continue
		}
		i, there := at[g.name]
		if !there {
			i = len(all)
			at[g.name] = i
			chance := g.allowed * (inc.last - inc.opened + inc.window).seconds(0)
			all = append(all, subgroup{name: g.name, excess: -chance, first: m.at})
		}
		all[i].members++
		all[i].excess++
		all[i].first = min(all[i].first, m.at)
	}
	slices.SortFunc(all, func(a, b subgroup) int {
		return cmp.Or(cmp.Compare(b.excess, a.excess), cmp.Compare(a.first, b.first), cmp.Compare(a.name, b.name))
	})
	return all
}

// spread says in how many values of the other labels of the grouping the members of a group by labels are.
func (f *Fleet) spread(inc *incident) string {
	var counts []string
	for _, label := range f.cfg.By {
		values := map[string]bool{}
		for name := range inc.members {
			for _, l := range labelled(name, []string{label}) {
				values[l] = true
			}
		}
		if len(values) > 1 {
			counts = append(counts, message.Count(len(values), label, plural(label)))
		}
	}
	if inc.group == "" || len(counts) == 0 {
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

// sentence says how many keys of what have alarmed since when, where to look first, and what chance would do.
func (f *Fleet) sentence(e *Event, inc *incident, first Member) string {
	var s strings.Builder
	clock := func(at time.Time) string { return message.Clock(at, e.Time, f.cfg.Zone) }
	one, many := "key", "keys"
	if len(f.cfg.By) > 0 {
		one, many = "series", "series"
	}
	group, size := message.Printable(e.Group), e.Keys
	parts := f.parts(inc)
	if e.Group == "" {
		group = "the fleet"
	}
	if len(parts) > 1 && len(parts) <= named && e.Group == "" {
		group, size = "", 0
		for i, p := range parts {
			if i > 0 {
				group += ", "
			}
			group, size = group+message.Printable(p.name), size+f.groups[p.name].keys
		}
	}
	if e.NumMembers == 0 {
		fmt.Fprintf(&s, "No %s of %s is left of the incident of %s: they are in narrower ones, or forgotten.", one, group, clock(e.Start))
		return s.String()
	}
	fmt.Fprintf(&s, "%d of %s of %s%s", e.NumMembers, message.Count(size, one, many), group, f.spread(inc))
	have := "have"
	if e.NumMembers == 1 {
		have = "has"
	}
	switch {
	case e.State != Closed:
		fmt.Fprintf(&s, " %s alarmed since %s", have, clock(e.Start))
		if d := e.Time.Sub(e.Start).Round(time.Second); d > 0 {
			fmt.Fprintf(&s, " (%s)", message.Span(d))
		}
	case e.Start.Equal(e.End):
		fmt.Fprintf(&s, " alarmed at %s", clock(e.Start))
	default:
		fmt.Fprintf(&s, " alarmed from %s to %s", clock(e.Start), clock(e.End))
	}
	s.WriteString(".")
	if len(parts) > named && parts[0].members > 1 {
		fmt.Fprintf(&s, " Most in %s (%d) and %s (%d).", message.Printable(parts[0].name), parts[0].members, message.Printable(parts[1].name), parts[1].members)
	}
	if clearest := message.Printable(e.Members[0].Key); first.Key == e.Members[0].Key {
		fmt.Fprintf(&s, " First and clearest %s.", clearest)
	} else {
		fmt.Fprintf(&s, " First %s, clearest %s.", message.Printable(first.Key), clearest)
	}
	if inc.recurs >= recurring {
		last := "last seven days"
		if inc.weekly {
			last = "last four weeks"
		}
		fmt.Fprintf(&s, " The like came at this time on %d of the %s", inc.recurs, last)
		if inc.page {
			fmt.Fprintf(&s, ", with at most %s", message.Count(inc.usual, "key", "keys"))
		}
		s.WriteString(".")
	}
	if inc.into != nil {
		fmt.Fprintf(&s, " It is part of %s.", message.Printable(inc.into.id))
	}
	fmt.Fprintf(&s, " %.2g expected by chance in %s.", e.Expected, message.Span(e.Window))
	return s.String()
}
