package plot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hafvf/connectors"
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
	Start   *time.Time
	StartN  int64 `json:"start_n"`
	Delay   int64
}

// starts reports whether a new regime is found here.
func (d *detection) starts() bool { return d != nil && (d.Kind == "change" || d.Kind == "revision") }

// smoothed tells smoothed records from estimates.
func (r *record) smoothed() bool { return r.Session != nil }

// readRecords reads the records of the keys, in their order, or without keys of
// the first maxKeys that occur, by name. Left is how many it left out then.
func readRecords(ctx context.Context, path string, keys []string) (all []history, left int, err error) {
	for _, name := range []string{"csv", "parquet"} {
		base := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
		if filepath.Ext(base) == "."+name {
			return nil, 0, fmt.Errorf("%s: plot reads JSON Lines, not %s: let run write them, with sink: {jsonl: {path: …}}", path, name)
		}
	}
	in, err := connectors.Open(connectors.Source{Format: connectors.JSONLines, Path: path})
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()

	wanted := func(key string, position int) bool {
		if len(keys) == 0 {
			return position < maxKeys
		}
		return slices.Contains(keys, key)
	}
	var order []string
	kind := ""
	records := map[string][]record{} // nil for a key that is left out
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		raw, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		r, reason := parseRecord(raw)
		if reason != "" {
			return nil, 0, fmt.Errorf("%s, line %d is neither an estimate nor a smoothed record: %s; plot reads JSON Lines as run writes them", raw.Path, raw.Position, reason)
		}
		is := "an estimate"
		if r.smoothed() {
			is = "a smoothed record"
		}
		if kind == "" {
			kind = is
		}
		if is != kind {
			return nil, 0, fmt.Errorf("%s, line %d is %s and line 1 %s: one picture shows one kind of records", raw.Path, raw.Position, is, kind)
		}
		seen, known := records[*r.Key]
		switch {
		case seen != nil:
			records[*r.Key] = append(seen, r)
		case !known:
			if wanted(*r.Key, len(order)) {
				seen = []record{r}
			}
			records[*r.Key] = seen
			order = append(order, *r.Key)
		}
	}
	if len(order) == 0 {
		return nil, 0, fmt.Errorf("%s holds no records", path)
	}
	if len(keys) == 0 {
		shown := min(len(order), maxKeys)
		left = len(order) - shown
		keys = slices.Sorted(slices.Values(order[:shown]))
	}
	for _, k := range keys {
		if records[k] == nil {
			return nil, 0, fmt.Errorf("%s has no key %q; the nearest is %q", path, k, message.Closest(k, order))
		}
		all = append(all, history{k, records[k]})
	}
	return all, left, nil
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
