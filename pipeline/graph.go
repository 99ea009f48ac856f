package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/hafvf"
	"hafvf/transforms"
)

func init() {
	register.DoFn4x0[beam.EventTime, connectors.Record, func(beam.EventTime, string, transforms.Observation), func([]byte)](&decodeFn{})
	register.DoFn3x0[string, transforms.Estimate, func([]byte)](&encodeEstimatesFn{})
	register.DoFn3x0[string, transforms.Smoothed, func([]byte)](&encodeSmoothedFn{})
	register.DoFn2x0[transforms.Rejected, func([]byte)](&rejectFn{})
	register.Emitter3[beam.EventTime, string, transforms.Observation]()
	register.Emitter1[[]byte]()
}

// A Graph is what a config does, before it runs: its steps from the source to
// the sinks.
type Graph struct {
	Steps []Step

	source    connectors.Source
	sink      connectors.Sink
	dead      connectors.Sink
	filter    hafvf.Config
	transform graphTransform
}

// A graphTransform is what a graph does to observations: lines for the sink, and
// what it rejects.
type graphTransform interface {
	// build lays it out, tied to a run of this process.
	build(s beam.Scope, run string, observations beam.PCollection) (lines, rejected beam.PCollection)
	columns(l layout, x connectors.Kind) []connectors.Column
	steps() []Step
}

// A Step is one node of a graph, with where its outputs go.
type Step struct {
	Name, Does string
	To         []string
}

// String lists the steps, one a line.
func (g *Graph) String() string {
	var b strings.Builder
	for _, s := range g.Steps {
		fmt.Fprintf(&b, "%-8s %s", s.Name, s.Does)
		if len(s.To) > 0 {
			fmt.Fprintf(&b, "  → %s", strings.Join(s.To, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Graph composes the config's steps. It reads no data.
func (c *Config) Graph() (*Graph, error) {
	g := &Graph{filter: hafvf.Config{Family: c.Model.Family, Prior: c.Model.Prior, Dim: c.Model.Dim, Levels: []hafvf.Beta{}, Top: c.Top}}
	for _, l := range c.Levels {
		g.filter.Levels = append(g.filter.Levels, hafvf.Beta(l))
	}
	layout, err := newLayout(g.filter)
	if err != nil {
		return nil, err
	}
	optional := c.Order == Arrival
	x := connectors.String
	switch s := c.Source; {
	case s.CSV != nil:
		g.source = connectors.Source{Format: connectors.CSV, Path: s.CSV.Path, Key: s.CSV.Key, Time: s.CSV.Time, Values: s.CSV.Values, Delimiter: string(s.CSV.Delimiter), TimeOptional: optional}
	case s.Parquet != nil:
		g.source = connectors.Source{Format: connectors.Parquet, Path: s.Parquet.Path, Key: s.Parquet.Key, Time: s.Parquet.Time, Values: s.Parquet.Values, TimeOptional: optional}
	default:
		g.source = connectors.Source{Format: connectors.JSONLines, Path: s.JSONL.Path}
	}
	if len(g.source.Values) == 1 {
		x = connectors.Number
	}
	if c.Transform == Smooth {
		g.transform = smoothing{transforms.SmoothConfig{
			Filter: g.filter, Gap: c.Session.Gap, AllowedLateness: c.Session.AllowedLateness, Max: c.Session.Max, Odds: c.Odds,
		}}
	} else {
		g.transform = filtering{transforms.Config{Filter: g.filter, Order: transforms.Order(c.Order), Lateness: c.Lateness}}
	}
	g.sink = c.Sink.connector(g.transform.columns(layout, x))
	g.dead = connectors.Sink{Format: connectors.JSONLines, Path: connectors.Stderr}
	if c.DeadLetter != nil {
		g.dead = c.DeadLetter.connector(nil)
	}
	g.Steps = slices.Concat([]Step{
		{"read", fmt.Sprintf("%s %s", g.source.Format, g.source.Path), []string{"decode"}},
		{"decode", "key, time, x; what does not fit is rejected", []string{c.Transform, "reject"}},
	}, g.transform.steps(), []Step{
		{"write", describeSink(g.sink), nil},
		{"reject", "reason, place, raw input to " + describeSink(g.dead), nil},
	})
	return g, nil
}

func describeFilter(c hafvf.Config) string {
	return fmt.Sprintf("%s, %d levels %v, top %g", c.Family, len(c.Levels), c.Levels, c.Top)
}

func describeSink(s connectors.Sink) string {
	switch s.Path {
	case "-":
		return s.Format + " on standard output"
	case connectors.Stderr:
		return s.Format + " on standard error"
	}
	return s.Format + " " + s.Path
}

func (s *Sink) connector(columns []connectors.Column) connectors.Sink {
	switch {
	case s.CSV != nil:
		return connectors.Sink{Format: connectors.CSV, Path: s.CSV.Path, Columns: columns}
	case s.Parquet != nil:
		return connectors.Sink{Format: connectors.Parquet, Path: s.Parquet.Path, Columns: columns}
	}
	return connectors.Sink{Format: connectors.JSONLines, Path: s.JSONL.Path}
}

// build lays the graph out as a Beam pipeline, tied to a run of this process.
func (g *Graph) build(run string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	records := connectors.Read(s, g.source, run)
	observations, undecoded := beam.ParDo2(s.Scope("Decode"), &decodeFn{Run: run, Format: g.source.Format, Timed: !g.source.TimeOptional}, records)
	lines, rejected := g.transform.build(s, run, observations)
	connectors.Write(s, run+"/records", lines)
	rejects := beam.ParDo(s.Scope("Reject"), &rejectFn{Run: run}, rejected)
	connectors.Write(s, run+"/rejected", beam.Flatten(s, undecoded, rejects))
	return p
}

// filtering is transform: filter.
type filtering struct{ cfg transforms.Config }

func (f filtering) build(s beam.Scope, run string, observations beam.PCollection) (lines, rejected beam.PCollection) {
	f.cfg.Taken = run
	estimates, rejected := transforms.Filter(s, f.cfg, observations)
	return beam.ParDo(s.Scope("Encode"), &encodeEstimatesFn{newEncoder(run, f.cfg.Filter)}, estimates), rejected
}

func (filtering) columns(l layout, x connectors.Kind) []connectors.Column {
	return l.estimateColumns(x)
}

func (f filtering) steps() []Step {
	order := "in the order of arrival"
	if f.cfg.Order == transforms.EventTime {
		order = fmt.Sprintf("in the order of event times, up to %v late", f.cfg.Lateness)
	}
	return []Step{
		{Filter, fmt.Sprintf("%s, keyed, %s", describeFilter(f.cfg.Filter), order), []string{"encode", "reject"}},
		{"encode", "estimates as JSON objects", []string{"write"}},
	}
}

// smoothing is transform: smooth.
type smoothing struct{ cfg transforms.SmoothConfig }

func (m smoothing) build(s beam.Scope, run string, observations beam.PCollection) (lines, rejected beam.PCollection) {
	m.cfg.Taken = run
	smoothed, rejected := transforms.Smooth(s, m.cfg, observations)
	return beam.ParDo(s.Scope("Encode"), &encodeSmoothedFn{newEncoder(run, m.cfg.Filter)}, smoothed), rejected
}

func (smoothing) columns(l layout, x connectors.Kind) []connectors.Column {
	return l.smoothedColumns(x)
}

func (m smoothing) steps() []Step {
	return []Step{
		{Smooth, fmt.Sprintf("%s, keyed, forward and backward over sessions with gaps of %v, revised up to %v late, cut at %d observations; changes at odds of %g",
			describeFilter(m.cfg.Filter), m.cfg.Gap, m.cfg.AllowedLateness, m.cfg.Max, m.cfg.Odds), []string{"encode", "reject"}},
		{"encode", "smoothed estimates as JSON objects", []string{"write"}},
	}
}

// decodeFn turns raw records into observations, and what cannot be one into a
// dead-letter record.
type decodeFn struct {
	Run    string
	Format string
	Timed  bool // records have a time that they are known by

	rejected int
}

func (fn *decodeFn) ProcessElement(ts beam.EventTime, r connectors.Record, emit func(beam.EventTime, string, transforms.Observation), reject func([]byte)) {
	place := fmt.Sprintf("%s:%d", r.Source, r.Position)
	key, o, reason := fn.decode(r)
	if reason != "" {
		fn.rejected++
		reject(appendReject(nil, place, string(r.Raw), reason))
		return
	}
	o.ID, o.Seq = place, r.Index
	o.Raw = string(r.Raw)
	if fn.Timed && !o.Time.IsZero() {
		ts = mtime.FromTime(o.Time)
	}
	emit(ts, key, o)
}

func (fn *decodeFn) decode(r connectors.Record) (key string, o transforms.Observation, reason string) {
	if r.Reason != "" {
		return "", o, r.Reason
	}
	var err error
	if fn.Format == connectors.JSONLines {
		key, o, err = decodeJSON(r.Raw)
	} else {
		key, o, err = decodeFields(r.Fields)
	}
	if err != nil {
		return "", o, err.Error()
	}
	return key, o, ""
}

func (fn *decodeFn) FinishBundle(_ context.Context, _ func(beam.EventTime, string, transforms.Observation), _ func([]byte)) {
	if r := runOf(fn.Run); r != nil {
		r.reject(fn.rejected)
		r.take(fn.rejected)
	}
	fn.rejected = 0
}

// chunk is how many bytes of lines cross to the sink at once.
const chunk = 256 << 10

// An encoder gathers records as lines, in chunks, and notes them in the run's
// summary.
type encoder struct {
	Run    string
	Filter string // hafvf.Config as JSON

	layout layout
	lines  []byte
	run    *run
	tally  tally
}

func newEncoder(run string, cfg hafvf.Config) encoder {
	text, err := json.Marshal(cfg)
	if err != nil {
		panic("pipeline: " + err.Error())
	}
	return encoder{Run: run, Filter: string(text)}
}

func (fn *encoder) Setup() (err error) {
	var cfg hafvf.Config
	if err := json.Unmarshal([]byte(fn.Filter), &cfg); err != nil {
		return err
	}
	fn.layout, err = newLayout(cfg)
	return err
}

func (fn *encoder) StartBundle(_ func([]byte)) {
	fn.run = runOf(fn.Run)
}

func (fn *encoder) flush(least int, emit func([]byte)) {
	if len(fn.lines) < least {
		return
	}
	if len(fn.lines) > 0 {
		emit(fn.lines)
		fn.lines = nil
	}
	if fn.run != nil {
		fn.run.note(&fn.tally)
	}
	fn.tally = tally{}
}

func (fn *encoder) FinishBundle(emit func([]byte)) { fn.flush(0, emit) }

// encodeEstimatesFn turns estimates into chunks of JSON lines.
type encodeEstimatesFn struct{ encoder }

func (fn *encodeEstimatesFn) ProcessElement(key string, e transforms.Estimate, emit func([]byte)) {
	fn.lines = fn.layout.appendEstimate(fn.lines, key, &e)
	fn.tally.estimate(key, &e)
	fn.flush(chunk, emit)
}

// encodeSmoothedFn turns smoothed estimates into chunks of JSON lines.
type encodeSmoothedFn struct{ encoder }

func (fn *encodeSmoothedFn) ProcessElement(key string, s transforms.Smoothed, emit func([]byte)) {
	fn.lines = fn.layout.appendSmoothed(fn.lines, key, &s)
	fn.tally.smoothed(key, &s)
	fn.flush(chunk, emit)
}

// rejectFn turns what the filter rejected into dead-letter records.
type rejectFn struct {
	Run string

	rejected int
}

func (fn *rejectFn) ProcessElement(r transforms.Rejected, emit func([]byte)) {
	fn.rejected++
	emit(appendReject(nil, r.ID, r.Raw, r.Reason))
}

func (fn *rejectFn) FinishBundle(_ func([]byte)) {
	if r := runOf(fn.Run); r != nil {
		r.reject(fn.rejected)
	}
	fn.rejected = 0
}
