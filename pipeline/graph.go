package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
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
	register.DoFn3x0[string, transforms.Estimate, func([]byte)](&encodeFn{})
	register.DoFn2x0[transforms.Rejected, func([]byte)](&rejectFn{})
	register.Emitter3[beam.EventTime, string, transforms.Observation]()
	register.Emitter1[[]byte]()
}

// A Graph is what a config does, before it runs: its steps from the source to
// the sinks.
type Graph struct {
	Steps []Step

	source connectors.Source
	sink   connectors.Sink
	dead   connectors.Sink
	filter transforms.Config
	layout layout
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
	g := &Graph{filter: transforms.Config{
		Filter:   hafvf.Config{Family: c.Model.Family, Prior: c.Model.Prior, Dim: c.Model.Dim, Levels: []hafvf.Beta{}, Top: c.Top},
		Order:    transforms.Order(c.Order),
		Lateness: c.Lateness,
	}}
	for _, l := range c.Levels {
		g.filter.Filter.Levels = append(g.filter.Filter.Levels, hafvf.Beta(l))
	}
	var err error
	if g.layout, err = newLayout(g.filter.Filter); err != nil {
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
	g.sink = c.Sink.connector(g.layout.columns(x))
	g.dead = connectors.Sink{Format: connectors.JSONLines, Path: connectors.Stderr}
	if c.DeadLetter != nil {
		g.dead = c.DeadLetter.connector(nil)
	}
	order := "in the order of arrival"
	if c.Order == EventTime {
		order = fmt.Sprintf("in the order of event times, up to %v late", c.Lateness)
	}
	g.Steps = []Step{
		{"read", fmt.Sprintf("%s %s", g.source.Format, g.source.Path), []string{"decode"}},
		{"decode", "key, time, x; what does not fit is rejected", []string{"filter", "reject"}},
		{"filter", fmt.Sprintf("%s, %d levels %v, top %g, keyed, %s", c.Model.Family, len(c.Levels), c.Levels, c.Top, order), []string{"encode", "reject"}},
		{"encode", "estimates as JSON objects", []string{"write"}},
		{"write", describeSink(g.sink), nil},
		{"reject", "reason, place, raw input to " + describeSink(g.dead), nil},
	}
	return g, nil
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
	observations, undecoded := beam.ParDo2(s.Scope("Decode"), &decodeFn{Run: run, Format: g.source.Format, Ordered: g.filter.Order == transforms.EventTime}, records)
	cfg := g.filter
	cfg.Taken = run
	estimates, rejected := transforms.Filter(s, cfg, observations)
	filter, err := json.Marshal(g.filter.Filter)
	if err != nil {
		panic("pipeline: " + err.Error())
	}
	lines := beam.ParDo(s.Scope("Encode"), &encodeFn{Run: run, Filter: string(filter)}, estimates)
	connectors.Write(s, run+"/estimates", lines)
	rejects := beam.ParDo(s.Scope("Reject"), &rejectFn{Run: run}, rejected)
	connectors.Write(s, run+"/rejected", beam.Flatten(s, undecoded, rejects))
	return p
}

// decodeFn turns raw records into observations, and what cannot be one into a
// dead-letter record.
type decodeFn struct {
	Run     string
	Format  string
	Ordered bool // raw input goes along, because an observation may be rejected as late

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
	if fn.Ordered && !o.Time.IsZero() {
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
		r.gate.Done(fn.rejected)
	}
	fn.rejected = 0
}

// chunk is how many bytes of lines cross to the sink at once.
const chunk = 256 << 10

// encodeFn turns estimates into chunks of JSON lines, and notes them in the
// run's summary.
type encodeFn struct {
	Run    string
	Filter string // hafvf.Config as JSON

	layout layout
	lines  []byte
	run    *run
	tally  tally
}

func (fn *encodeFn) Setup() (err error) {
	var cfg hafvf.Config
	if err := json.Unmarshal([]byte(fn.Filter), &cfg); err != nil {
		return err
	}
	fn.layout, err = newLayout(cfg)
	return err
}

func (fn *encodeFn) StartBundle(_ func([]byte)) {
	fn.run = runOf(fn.Run)
}

func (fn *encodeFn) ProcessElement(key string, e transforms.Estimate, emit func([]byte)) {
	fn.lines = fn.layout.appendEstimate(fn.lines, key, &e)
	fn.tally.add(key, &e)
	if len(fn.lines) >= chunk {
		fn.flush(emit)
	}
}

func (fn *encodeFn) flush(emit func([]byte)) {
	if len(fn.lines) > 0 {
		emit(fn.lines)
		fn.lines = nil
	}
	if fn.run != nil {
		fn.run.note(&fn.tally)
	}
	fn.tally = tally{}
}

func (fn *encodeFn) FinishBundle(emit func([]byte)) { fn.flush(emit) }

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
