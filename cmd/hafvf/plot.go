package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/chart"
	"hafvf/connectors"
	"hafvf/internal/message"
)

func plotCommand() *cobra.Command {
	var out string
	var keys []string
	var odds float64
	cmd := &cobra.Command{
		Use:   "plot RESULTS -o FILE",
		Short: "Draw the estimates, or the smoothed sessions, of a run",
		Long: `Plot draws the records in RESULTS, JSON Lines as run writes them.

Estimates: per key the data with the prediction and its band of two standard
deviations, the expected weights E[w] and E[b], the effective memory, and the
surprise. With many keys, the data and the weights.

Estimates of a run with detect: the data with the estimate of the running regime,
and the band of the prediction; alarms as filled triangles on the time axis. What
was found on the way, alarm or not: outliers in rings, and every change as a line
at the start of the new regime, +n beside it where it was found n observations later.
A change that was revised is drawn where the last revision puts it; observations
that it turned into a regime's first are not drawn as outliers. Below, the
probabilities of an outlier and of a change; then weights, memory and surprise.
With many keys, the data and the probabilities.

Smoothed records: per key the data with the smoothed estimate and its 95 % band
(1.96 standard deviations), E[w] of the forward and the backward pass, the memory
of both and of the two together, and the change evidence with its threshold,
log ODDS. Vertical lines are the changes that the records report; give --odds as
the run had it, or lines and threshold differ. Lines break between sessions,
and between the parts of one that was cut. Of a record with several revisions, the
latest is drawn. With many keys, the data and the evidence.`,
		Example: "  hafvf plot out.jsonl -o out.svg\n  hafvf plot out.jsonl -o pump.png --key pump-1 --key pump-2",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("plot needs -o FILE.svg or -o FILE.png")}
			}
			if !(odds > 0 && odds < math.Inf(1)) {
				return usageError{fmt.Errorf("--odds %g: odds are finite and above zero", odds)}
			}
			return plotResults(cmd.Context(), args[0], out, keys, odds)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the picture to write, `FILE`.svg or .png")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "draw only this key; may be repeated")
	cmd.Flags().Float64Var(&odds, "odds", defaultOdds, "of smoothed records: the threshold of the change evidence, as `ODDS`")
	return cmd
}

// defaultOdds is what a smoothing run asks of a change, where its config says
// nothing else.
const defaultOdds = 10

// maxKeys is how many keys one picture shows.
const maxKeys = 20

// plotResults draws the records of results, JSON Lines, to out, an .svg or .png
// file, which appears complete or not at all. It draws the keys in the given
// order; without keys, the first maxKeys that occur, by name, and says on standard
// error how many it left out. One key is drawn large, with all its panels; several
// are drawn small.
func plotResults(ctx context.Context, results, out string, keys []string, odds float64) error {
	ext := filepath.Ext(out)
	if ext != ".svg" && ext != ".png" {
		return usageError{fmt.Errorf("%s: a picture is an .svg or a .png file", out)}
	}
	if len(keys) > maxKeys {
		return usageError{fmt.Errorf("%d keys are too many for one picture, which shows at most %d", len(keys), maxKeys)}
	}
	all, left, err := readRecords(ctx, results, keys)
	if err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "hafvf: the picture shows %d of %d keys; --key KEY chooses others\n", len(all), len(all)+left)
	}
	large := len(all) == 1
	var stacks []chart.Stack
	for _, h := range all {
		if h.records[0].smoothed() {
			stacks = append(stacks, newSmoothed(h).stack(large, odds))
		} else {
			stacks = append(stacks, newEstimates(h).stack(large))
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return figure(stacks).Write(out)
}

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
	LogP      *float64 `json:"log_predictive"`
	Weight    *float64
	Levels    []struct{ Alpha, Beta *float64 }
	Bank      []struct{}
	Detect    *detection
	WarmUp    bool `json:"warm_up"`

	Memory *float64

	// Of a smoothed record.
	ID                string
	Estimate          *estimate // estimates have one too
	Forward, Backward *struct{ Weight, Memory *float64 }
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

// A detection is what a run with detect says of an observation.
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
			return nil, 0, fmt.Errorf("%s has no key %q; the nearest is %q", path, k, nearestKey(k, order))
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
		case r.Estimate == nil || r.Forward == nil || r.Backward == nil:
			return r, "it lacks the estimate or a pass"
		}
	case r.Predicted == nil:
		return r, "it has neither prediction nor session"
	case r.Detect.starts() && (r.Detect.StartN < 1 || r.Time != nil && r.Detect.Start == nil):
		return r, "it has a change without its start"
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

// nearestKey returns the key that is fewest edits away from want.
func nearestKey(want string, keys []string) string {
	return slices.MinFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(message.Edits(want, a), message.Edits(want, b)), cmp.Compare(a, b))
	})
}

// figure lays the stacks of the keys out.
func figure(all []chart.Stack) *chart.Figure {
	cols, width, height := 1, 760.0, 600.0
	switch n := len(all); {
	case n == 1:
	case n == 2:
		width, height = 720, 270
	case n <= 6:
		cols, width, height = 2, 880, 230
	case n <= 12:
		cols, width, height = 3, 1050, 205
	default:
		cols, width, height = 4, 1160, 180
	}
	const margin = 10
	f := &chart.Figure{Width: width + margin, OneLegend: len(all) > 1}
	for some := range slices.Chunk(all, cols) {
		row := chart.Row{Height: height, Stacks: make([]chart.Stack, cols)}
		copy(row.Stacks, some)
		f.Rows = append(f.Rows, row)
	}
	return f
}

// dataRange is the range of a y axis for data, or where there is none for the
// line among it.
func dataRange(data []chart.Point, line []float64) (lo, hi float64) {
	y := make([]float64, 0, len(data))
	for _, d := range data {
		y = append(y, d.Y)
	}
	if len(y) == 0 {
		y = line
	}
	return chart.Pad(chart.Extent(y, 3))
}
