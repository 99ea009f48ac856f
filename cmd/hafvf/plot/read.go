package plot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"hafvf/cmd/hafvf/outfile"
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

// readRecords returns the records of the keys to draw, in drawing order. omitted is the number of chosen keys beyond
// maxKeys.
func readRecords(ctx context.Context, path string, c Choice) (histories []history, omitted int, err error) {
	// The first pass stores the records of the first keys. If others rank first, the file is read again. Standard
	// input cannot be read again, so all its records are stored.
	sizes := map[string]*size{}
	records := map[string][]output.Record{}
	err = outfile.ForEachResult(ctx, path, nil, func(r *output.Record) error {
		if !c.contains(r) {
			return nil
		}
		key := *r.Key
		s := sizes[key]
		if s == nil {
			s = newSize()
			sizes[key] = s
		}
		if !c.selects(key) {
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
		return nil, 0, fmt.Errorf("%s contains no records%s", path, c.name())
	}
	names := c.Keys
	if len(names) == 0 {
		for key := range sizes {
			if c.selects(key) {
				names = append(names, key)
			}
		}
		if len(names) == 0 {
			return nil, 0, fmt.Errorf("%s has no key that matches %q; the nearest is %q", path, c.Pattern, message.Closest(c.Pattern, slices.Collect(maps.Keys(sizes))))
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(sizes[b].largest, sizes[a].largest), cmp.Compare(a, b))
		})
		omitted = max(0, len(names)-maxKeys)
		names = names[:len(names)-omitted]
	}
	for _, k := range names {
		if sizes[k] == nil {
			return nil, 0, fmt.Errorf("%s has no key %q; the nearest is %q", path, k, message.Closest(k, slices.Collect(maps.Keys(sizes))))
		}
	}
	if slices.ContainsFunc(names, func(k string) bool { return records[k] == nil }) {
		records = map[string][]output.Record{}
		drawn := func(r *output.Record) bool { return slices.Contains(names, *r.Key) && c.contains(r) }
		err := outfile.ForEachResult(ctx, path, drawn, func(r *output.Record) error {
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
		histories = append(histories, history{k, records[k]})
	}
	return histories, omitted, nil
}

// selects reports whether Keys or Pattern select the key.
func (c Choice) selects(key string) bool {
	switch {
	case len(c.Keys) > 0:
		return slices.Contains(c.Keys, key)
	case c.Pattern != "":
		return keyed.Rule{Match: c.Pattern}.Matches(key)
	}
	return true
}

// A size tracks the size of a key's largest alarm, in standard deviations, or for smoothed records the largest
// evidence of a change, in nats. Estimates do not contain the size of an alarm: it is computed from the usual,
// predicted and estimated values.
type size struct {
	largest float64 // −1 without an alarm or change
	last    float64 // size at the last record; −1 if it has no alarm or change
	// Predicted sd and estimated mean of the last record before a change was suspected.
	sd, before []float64
}

func newSize() *size { return &size{largest: -1} }

// add reads the next record of the key.
func (s *size) add(r *output.Record) {
	s.last = -1
	if r.Smoothed() {
		if r.Change {
			s.raise(output.OrNaN(r.Evidence))
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
	// When a change is committed, the new regime already has most of the weight, and had it some records before.
	if s.before == nil || r.Detect.Starts() || !(output.OrNaN(r.Detect.Change) >= .5) {
		s.before, s.sd = after, r.Predicted.SD
	}
}

// compare records the distance between two values in standard deviations, for the coordinate with the largest.
func (s *size) compare(a, b, sd []float64) {
	s.raise(0)
	for i := range min(len(a), len(b), len(sd)) {
		s.raise(math.Abs(b[i]-a[i]) / sd[i])
	}
}

func (s *size) raise(v float64) {
	if !math.IsInf(v, 1) && !math.IsNaN(v) {
		s.last, s.largest = max(s.last, v), max(s.largest, v)
	}
}
