package plot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
)

// A history is the records of a key.
type history struct {
	key     string
	records []record
}

// A record is what the picture needs of an estimate or a smoothed record.
type record struct {
	Key  *string
	Time *time.Time
	N    int64
	X    any

	// Of an estimate.
	Predicted *moments
	Lower     any
	Upper     any
	LogP      *float64 `json:"log_predictive"`
	Weight    *float64
	Levels    []struct{ Alpha, Beta *float64 }
	Bank      []struct{}
	Detect    *detection
	WarmUp    bool `json:"warm_up"`

	Memory *float64

	// Of a smoothed record.
	ID                string
	Estimate          *estimate                         // estimates have one too
	Forward, Backward struct{ Weight, Memory *float64 } // not in brief records
	Session           *struct {
		Start, End *time.Time
		N          int64
	}
	Revision int64
	Split    string
	Evidence *float64 `json:"change_evidence"`
	Change   bool
	// Of a change.
	Probability *float64 `json:"change_probability"`
	Interval    *struct {
		From, To *time.Time
	} `json:"change_interval"`
	Outlier *float64 // not with levels
	Segment *struct {
		Start *time.Time
		Mean  any
	} // not with levels
}

type moments struct{ Mean, SD any }

type estimate struct {
	moments
	Regime *moments
}

// A detection is what a run with detect says of an observation. Brief records have no
// start.
type detection struct {
	Kind    string
	Alarm   *string
	Outlier *float64 `json:"p_outlier"`
	Change  *float64 `json:"p_change"`
	Usual   *moments
	Score   *float64
	// Not in brief records.
	Threshold *float64
	Start     *time.Time
	StartN    int64 `json:"start_n"`
	Delay     int64
}

// starts reports whether a new regime is found here.
func (d *detection) starts() bool { return d != nil && (d.Kind == "change" || d.Kind == "revision") }

// smoothed tells smoothed records from estimates.
func (r *record) smoothed() bool { return r.Session != nil }

// readRecords reads the records of the keys that are drawn, in the order in which they are
// drawn. Left is how many keys of the choice it left out.
func readRecords(ctx context.Context, path string, c Choice) (all []history, left int, err error) {
	for _, name := range []string{"csv", "parquet"} {
		base := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
		if filepath.Ext(base) == "."+name {
			return nil, 0, fmt.Errorf("%s: plot reads JSON Lines, not %s: let run write them, with sink: {jsonl: {path: …}}", path, name)
		}
	}
	// The records of the first keys are kept. If there are more keys, the file is read again
	// for those that rank first. Standard input cannot be, so all of it is kept.
	sizes := map[string]*size{}
	records := map[string][]record{}
	err = eachRecord(ctx, path, func(r record) {
		if !c.holds(&r) {
			return
		}
		key := *r.Key
		s := sizes[key]
		if s == nil {
			s = newSize()
			sizes[key] = s
		}
		if !c.takes(key) {
			return
		}
		s.add(&r)
		if records[key] != nil || len(c.Keys) > 0 || len(records) < maxKeys || path == "-" {
			records[key] = append(records[key], r)
		}
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
		records = map[string][]record{}
		err := eachRecord(ctx, path, func(r record) {
			if slices.Contains(names, *r.Key) && c.holds(&r) {
				records[*r.Key] = append(records[*r.Key], r)
			}
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

// eachRecord calls f with every record of a file.
func eachRecord(ctx context.Context, path string, f func(record)) error {
	in, err := connectors.Open(connectors.Source{Format: connectors.JSONLines, Path: path})
	if err != nil {
		return err
	}
	defer in.Close()
	kind := ""
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		raw, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r, reason := parseRecord(raw)
		if reason != "" {
			return fmt.Errorf("%s, line %d is neither an estimate nor a smoothed record: %s; plot reads JSON Lines as run writes them", raw.Path, raw.Position, reason)
		}
		is := "an estimate"
		if r.smoothed() {
			is = "a smoothed record"
		}
		if kind == "" {
			kind = is
		}
		if is != kind {
			return fmt.Errorf("%s, line %d is %s and line 1 %s: one picture shows one kind of records", raw.Path, raw.Position, is, kind)
		}
		f(r)
	}
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
func (s *size) add(r *record) {
	s.last = -1
	if r.smoothed() {
		if r.Change {
			s.note(orNaN(r.Evidence))
		}
		return
	}
	if r.Detect == nil || r.Estimate == nil {
		return
	}
	after := coordinates(r.Estimate.Mean)
	if r.Estimate.Regime != nil {
		after = coordinates(r.Estimate.Regime.Mean)
	}
	if r.Detect.Alarm != nil {
		if *r.Detect.Alarm == string(usual.ChangeAlarm) {
			s.compare(s.before, after, s.sd)
		} else {
			expected := r.Predicted
			if u := r.Detect.Usual; u != nil && !math.IsNaN(first(u.Mean)) {
				expected = u
			}
			mean := coordinates(expected.Mean)
			x := values(r.X, expected.Mean)
			if v := coordinates(r.X); len(v) == len(mean) {
				x = v
			}
			s.compare(mean, x, coordinates(expected.SD))
		}
	}
	// At a commit most of the weight is on the new regime already, some steps before it too.
	if s.before == nil || r.Detect.starts() || !(orNaN(r.Detect.Change) >= .5) {
		s.before, s.sd = after, coordinates(r.Predicted.SD)
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

// coordinates are those of a number or a list of numbers; NaN stands for what is none.
func coordinates(v any) (all []float64) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, c := range list {
		all = append(all, first(c))
	}
	return all
}

// parseRecord returns the reason why raw is no record that plot draws, or "".
func parseRecord(raw connectors.Record) (r record, reason string) {
	if raw.Reason != "" {
		return r, raw.Reason
	}
	if err := json.Unmarshal(raw.Raw, &r); err != nil {
		return r, err.Error()
	}
	switch {
	case r.Key == nil:
		return r, "it has no key"
	case r.smoothed():
		switch {
		case r.Time == nil || r.Session.Start == nil:
			return r, "it has no time"
		case r.Estimate == nil:
			return r, "it has no estimate"
		}
	case r.Predicted == nil:
		return r, "it has neither prediction nor session"
	}
	return r, ""
}

// values returns the coordinate of x that the first coordinate of mean predicts,
// for every vector of the step.
func values(x, mean any) []float64 {
	list, _ := x.([]any)
	if len(list) > 0 {
		if _, ok := list[0].([]any); ok {
			var v []float64
			for _, vector := range list {
				v = append(v, values(vector, mean)...)
			}
			return v
		}
	}
	means, vector := mean.([]any)
	switch {
	case len(means) > 1 && len(list) <= 1:
		// A category; its probability is the mean of an indicator.
		switch c := first(x); {
		case math.IsNaN(c):
			return nil
		case c == 0:
			return []float64{1}
		}
		return []float64{0}
	case len(list) > 1 && !vector:
		// Regressors, and the target behind them.
		return []float64{first(list[len(list)-1])}
	}
	return []float64{first(x)}
}

// first is v, or its first coordinate; NaN where there is no number.
func first(v any) float64 {
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	if f, ok := v.(float64); ok {
		return f
	}
	return math.NaN()
}

func orNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
