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
	Update State = "update" // it has grown by half since it was last told, is wider, or is now a page
	Merged State = "merged" // it is part of an older one
	Closed State = "closed" // 32 steps have gone by without a member
)

// An Event tells of an incident.
type Event struct {
	// ID is the group and the time of the opening. It is the same in every run of the same alarms.
	ID    string
	State State
	Into  string // id of the incident that this one is part of, of Merged
	// Page says that a person is to look at once. An incident that comes every night is told and
	// is no page. It becomes one with an Update where it has more than twice as many keys as usual.
	Page bool
	// Pages says that it is a page from this event on: a person who is told of these events alone
	// gets one message of each incident.
	Pages bool
	// Time is when it happened, that of an alarm or of the end of the last window.
	Time time.Time
	// Start is the time of the first member, and End of the last. End is zero until it has closed.
	Start, End time.Time
	Group      string   // common prefix of the members; empty for the whole fleet
	Keys       int      // of the group
	Members    []Member // the 20 with the highest scores, by score, time and key
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

// tell tells what has become of an incident at a moment.
func (f *Fleet) tell(state State, inc *incident, t moment) {
	all := slices.SortedFunc(maps.Values(inc.members), byScore)
	inc.told = len(all)
	e := Event{
		ID: inc.id, State: state, Page: inc.page, Time: t.time(), Start: inc.opened.time(), Group: inc.group,
		Members: slices.Clone(all[:min(len(all), ranked)]), NumMembers: len(all),
		Expected: inc.expected, Score: inc.score, Threshold: inc.threshold, Window: time.Duration(inc.window),
	}
	if g := f.groups[inc.group]; g != nil {
		e.Keys = g.keys
	}
	e.Pages, inc.paged = inc.page && !inc.paged, inc.page
	if inc.into != nil {
		e.Into = inc.into.id
	}
	if state == Closed {
		e.End = inc.last.time()
	}
	var first Member
	if len(all) > 0 {
		first = slices.MinFunc(all, byTime)
		e.Start = first.Time
	}
	e.Message = f.sentence(&e, inc, first)
	f.step.Events = append(f.step.Events, e)
}

// sentence says how many keys of what have alarmed since when, what chance would do, and where to
// look first.
func (f *Fleet) sentence(e *Event, inc *incident, first Member) string {
	var s strings.Builder
	clock := func(at time.Time) string { return message.Clock(at, e.Time, f.cfg.Zone) }
	keys, group := message.Count(e.NumMembers, "key", "keys"), message.Printable(e.Group)
	if e.Group == "" {
		group = "the fleet"
	}
	fmt.Fprintf(&s, "%s of %s (%s)", keys, group, message.Count(e.Keys, "key", "keys"))
	if e.NumMembers == 0 {
		fmt.Fprintf(&s, " are left of the incident of %s; the others are in narrower ones, or forgotten.", clock(e.Start))
		return s.String()
	}
	have := "have"
	if e.NumMembers == 1 {
		have = "has"
	}
	switch {
	case e.State != Closed:
		fmt.Fprintf(&s, " %s alarmed since %s", have, clock(e.Start))
	case e.Start.Equal(e.End):
		fmt.Fprintf(&s, " alarmed at %s", clock(e.Start))
	default:
		fmt.Fprintf(&s, " alarmed from %s to %s", clock(e.Start), clock(e.End))
	}
	fmt.Fprintf(&s, "; %.2g expected by chance in %s.", e.Expected, message.Duration(e.Window))
	fmt.Fprintf(&s, " First %s, clearest %s.", message.Printable(first.Key), message.Printable(e.Members[0].Key))
	if inc.recurs >= recurring {
		last := "last seven days"
		if inc.weekly {
			last = "last four weeks"
		}
		fmt.Fprintf(&s, " The like came at this time on %d of the %s", inc.recurs, last)
		if e.Page {
			fmt.Fprintf(&s, ", with at most %s", message.Count(inc.usual, "key", "keys"))
		}
		s.WriteString(".")
	}
	if inc.into != nil {
		fmt.Fprintf(&s, " It is part of %s.", message.Printable(inc.into.id))
	}
	return s.String()
}
