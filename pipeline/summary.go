package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/account"
	"hafvf/transforms"
)

// A Summary is what a run did.
type Summary struct {
	account.Counts
	Skipped int // states that were discarded, see Run.SkipStates
	Elapsed time.Duration
	Stopped bool    // before the end of the input
	Largest []Break // per key, the largest; a few keys, largest first

	detects bool
}

// A Break is where something of a key came to an end: an alarm, a change that the
// smoother found, or without them a step at which the filter let go of what it
// remembered.
type Break struct {
	Key  string
	ID   string
	Time time.Time // of a change, its start
	// Size is that of the change in standard deviations, nats of evidence, or the
	// effective observations dropped from memory.
	Size  float64
	About string // what else there is to say
}

// String is the summary as a person reads it.
func (s Summary) String() string {
	var b strings.Builder
	title, unit := "what changed most (observations forgotten at one step)", "forgot"
	switch {
	case s.Sessions > 0:
		title, unit = "the clearest change of each key (evidence in nats)", "evidence"
		fmt.Fprintf(&b, "%d sessions, %d changes, ", s.Sessions, s.Changes)
	case s.detects:
		title, unit = "alarmed, the largest alarm of each key (in standard deviations)", "by"
		fmt.Fprintf(&b, "%d keys, %d alarms (%d novelties, %d changes), found %d changes and %d outliers, ", s.Keys, s.NoveltyAlarms+s.ChangeAlarms, s.NoveltyAlarms, s.ChangeAlarms, s.Changes, s.Outliers)
	default:
		fmt.Fprintf(&b, "%d keys, ", s.Keys)
	}
	fmt.Fprintf(&b, "%d records (%d missing), %d rejected, %d not converged, %.1f s", s.Records, s.Missing, s.Rejected, s.NotConverged, s.Elapsed.Seconds())
	switch {
	case s.Skipped == 1:
		b.WriteString("; 1 state was skipped, its filter began anew")
	case s.Skipped > 1:
		fmt.Fprintf(&b, "; %d states were skipped, their filters began anew", s.Skipped)
	}
	if s.Stopped {
		b.WriteString("; stopped before the end of the input, nothing read was lost")
	}
	b.WriteByte('\n')
	if len(s.Largest) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "%s:\n", title)
	for _, f := range s.Largest {
		at := f.ID
		if !f.Time.IsZero() {
			at = f.Time.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "  %-24s %s  %s %.4g", f.Key, at, unit, f.Size)
		if f.About != "" {
			fmt.Fprintf(&b, ", %s", f.About)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A tally is a part of the summary, counted without a lock.
type tally struct {
	records int64
	largest []Break
}

func (t *tally) estimate(key string, e *transforms.Estimate) {
	t.records++
	switch {
	case e.Missing:
	case e.Detection != nil:
		if a := e.Alarm; a != nil {
			about := fmt.Sprintf("novelty, usually %.4g", a.Before.Mean[a.Output])
			if a.Kind == string(hafvf.ChangeAlarm) {
				about = fmt.Sprintf("change %.4g → %.4g, told %d observations later", a.Before.Mean[a.Output], a.After.Mean[a.Output], a.Delay)
			}
			t.add(Break{Key: key, ID: e.ID, Time: a.Start, Size: math.Abs(a.Size), About: about})
		}
	default:
		// memory = E[w]·before + J: what went is (1 − E[w])·before.
		kept := e.Memory - float64(len(e.X))
		if forgot := kept * (1 - e.Weight) / e.Weight; forgot > 1 {
			t.add(Break{Key: key, ID: e.ID, Time: e.Time, Size: forgot, About: fmt.Sprintf("kept %.4g", e.Memory)})
		}
	}
}

func (t *tally) smoothed(key string, s *transforms.Smoothed) {
	t.records++
	if s.Change {
		t.add(Break{Key: key, ID: s.ID, Time: s.Time, Size: s.ChangeEvidence})
	}
}

func (t *tally) add(b Break) {
	if math.IsInf(b.Size, 0) || len(t.largest) == largestKeys && b.Size <= t.largest[largestKeys-1].Size {
		return
	}
	t.largest = keepLargest(t.largest, b)
}

const largestKeys = 10

// keepLargest adds b to the largest few, one per key.
func keepLargest(list []Break, b Break) []Break {
	if i := slices.IndexFunc(list, func(o Break) bool { return o.Key == b.Key }); i >= 0 {
		if list[i].Size >= b.Size {
			return list
		}
		list = slices.Delete(list, i, i+1)
	}
	at, _ := slices.BinarySearchFunc(list, b, func(o, b Break) int {
		return cmp.Or(cmp.Compare(b.Size, o.Size), cmp.Compare(o.Key, b.Key))
	})
	list = slices.Insert(list, at, b)
	return list[:min(len(list), largestKeys)]
}
