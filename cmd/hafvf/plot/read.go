package plot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
)

// A history is the records of a key.
type history struct {
	key     string
	records []output.Record
}

// readRecords reads the records of the keys that are drawn, in the order in which they are
// drawn. Left is how many keys of the choice it left out.
func readRecords(ctx context.Context, path string, c Choice) (all []history, left int, err error) {
	// The records of the first keys are kept. If there are more keys, the file is read again
	// for those that rank first. Standard input cannot be, so all of it is kept.
	sizes := map[string]*size{}
	records := map[string][]output.Record{}
	err = output.Results(ctx, path, nil, func(r *output.Record) error {
		if !c.holds(r) {
			return nil
		}
		key := *r.Key
		s := sizes[key]
		if s == nil {
			s = newSize()
			sizes[key] = s
		}
		if !c.takes(key) {
			return nil
		}
		s.add(r)
		if records[key] != nil || len(c.Keys) > 0 || len(records) < maxKeys || path == "-" {
			records[key] = append(records[key], *r)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if len(sizes) == 0 {
		return nil, 0, fmt.Errorf("%s holds no records%s", path, c.name())
	}
	names := c.Keys
	if len(names) == 0 {
		for key := range sizes {
			if c.takes(key) {
				names = append(names, key)
			}
		}
		if len(names) == 0 {
			return nil, 0, fmt.Errorf("%s has no key that matches %q; the nearest is %q", path, c.Pattern, message.Closest(c.Pattern, slices.Collect(maps.Keys(sizes))))
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(sizes[b].largest, sizes[a].largest), cmp.Compare(a, b))
		})
		left = max(0, len(names)-maxKeys)
		names = names[:len(names)-left]
	}
	for _, k := range names {
		if sizes[k] == nil {
			return nil, 0, fmt.Errorf("%s has no key %q; the nearest is %q", path, k, message.Closest(k, slices.Collect(maps.Keys(sizes))))
		}
	}
	if slices.ContainsFunc(names, func(k string) bool { return records[k] == nil }) {
		records = map[string][]output.Record{}
		drawn := func(r *output.Record) bool { return slices.Contains(names, *r.Key) && c.holds(r) }
		err := output.Results(ctx, path, drawn, func(r *output.Record) error {
			if drawn(r) {
				records[*r.Key] = append(records[*r.Key], *r)
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	for _, k := range names {
		all = append(all, history{k, records[k]})
	}
	return all, left, nil
}

// takes reports whether the key is among those to choose from.
func (c Choice) takes(key string) bool {
	switch {
	case len(c.Keys) > 0:
		return slices.Contains(c.Keys, key)
	case c.Pattern != "":
		return keyed.Rule{Match: c.Pattern}.Matches(key)
	}
	return true
}

// A size is that of a key's largest alarm, in standard deviations, or of smoothed records the
// largest evidence of a change in nats. Records do not give the size of an alarm, so it is taken
// from what was usual, predicted and estimated.
type size struct {
	largest float64 // −1 where there is none
	last    float64 // of the last record; −1 if it has none
	// The last prediction and estimate before a change was suspected.
	sd, before []float64
}

func newSize() *size { return &size{largest: -1} }

// add takes up the next record of the key.
func (s *size) add(r *output.Record) {
	s.last = -1
	if r.Smoothed() {
		if r.Change {
			s.note(output.OrNaN(r.Evidence))
		}
		return
	}
	if r.Detect == nil || r.Estimate == nil {
		return
	}
	after := r.Estimate.Mean
	if r.Estimate.Regime != nil {
		after = r.Estimate.Regime.Mean
	}
	if r.Detect.Alarm != nil {
		if *r.Detect.Alarm == string(usual.ChangeAlarm) {
			s.compare(s.before, after, s.sd)
		} else {
			expected := r.Predicted
			if u := r.Detect.Usual; u != nil && !math.IsNaN(output.First(u.Mean)) {
				expected = u
			}
			x := output.Observed(r.X, expected.Mean)
			if len(r.X) == 1 && len(r.X[0]) == len(expected.Mean) {
				x = r.X[0]
			}
			s.compare(expected.Mean, x, expected.SD)
		}
	}
	// At a commit most of the weight is on the new regime already, some steps before it too.
	if s.before == nil || r.Detect.Starts() || !(output.OrNaN(r.Detect.Change) >= .5) {
		s.before, s.sd = after, r.Predicted.SD
	}
}

// compare notes the distance of two values in standard deviations, of the coordinate where
// it is largest.
func (s *size) compare(from, to, sd []float64) {
	s.note(0)
	for i := range min(len(from), len(to), len(sd)) {
		s.note(math.Abs(to[i]-from[i]) / sd[i])
	}
}

func (s *size) note(v float64) {
	if !math.IsInf(v, 1) && !math.IsNaN(v) {
		s.last, s.largest = max(s.last, v), max(s.largest, v)
	}
}
