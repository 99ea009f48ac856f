package pipeline

import (
	"context"
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
	register.DoFn4x0[string, transforms.Estimate, func([]byte), func([]byte)](&encodeEstimatesFn{})
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
	alerts    *connectors.Sink
	detects   bool
	transform graphTransform
}

// A graphTransform is what a graph does to observations: lines for the sink,
// alerts, and what it rejects.
type graphTransform interface {
	// build lays it out, tied to a run of this process. Alerts are invalid where
	// there are none.
	build(s beam.Scope, run string, observations beam.PCollection) (lines, alerts, rejected beam.PCollection)
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
	g := &Graph{detects: c.Detect != nil}
	base := c.filter(c.Model.Prior, c.Model.WarmUp, c.Levels, c.Top, c.Bank)
	var rules []transforms.Rule
	all := []hafvf.Config{base}
	for _, k := range c.Keys {
		rules = append(rules, transforms.Rule{Match: k.Match, Filter: c.filter(k.Prior, k.WarmUp, k.Levels, k.Top, k.Bank)})
		all = append(all, rules[len(rules)-1].Filter)
	}
	layout, err := newLayout(all...)
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
		g.transform = smoothing{layout, transforms.SmoothConfig{
			Filter: base, Keys: rules, Gap: c.Session.Gap, AllowedLateness: c.Session.AllowedLateness, Max: c.Session.Max, Odds: c.Odds,
		}}
	} else {
		cfg := transforms.Config{Filter: base, Keys: rules, Order: transforms.Order(c.Order), Lateness: c.Lateness, TimeUnit: c.TimeUnit}
		if d := c.Detect; d != nil {
			cfg.Alerts = transforms.AlertConfig{Cooldown: d.Cooldown, MinChange: d.MinChange}
		}
		g.transform = filtering{layout, cfg}
	}
	g.sink = c.Sink.connector(g.transform.columns(layout, x))
	if c.Alerts != nil {
		alerts := c.Alerts.connector(layout.alertColumns())
		g.alerts = &alerts
	}
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
	if g.alerts != nil {
		g.Steps = append(g.Steps, Step{"alert", "outliers and changes to " + describeSink(*g.alerts), nil})
	}
	return g, nil
}

// filter is the config of one kind of filter.
func (c *Config) filter(prior map[string]any, warmUp int, levels []hafvf.Beta, top float64, bank []hafvf.Member) hafvf.Config {
	f := hafvf.Config{Family: c.Model.Family, Prior: prior, Dim: c.Model.Dim, Levels: levels, Top: top, Bank: bank, WarmUp: warmUp}
	if bank != nil {
		f.Forgetting = c.BankForgetting
	}
	if d := c.Detect; d != nil {
		f.Detect = &hafvf.Detect{Commit: d.Commit, MinLength: d.MinLength}
	}
	return f
}

func describeFilter(c hafvf.Config, rules []transforms.Rule) string {
	var b strings.Builder
	b.WriteString(c.Family)
	members := c.Bank
	if len(members) == 0 {
		members = []hafvf.Member{{Levels: c.Levels, Top: c.Top}}
	} else {
		fmt.Fprintf(&b, ", bank of %d", len(members))
	}
	for _, m := range members {
		fmt.Fprintf(&b, ", %d levels %v, top %g", len(m.Levels), m.Levels, m.Top)
	}
	if c.WarmUp > 0 {
		b.WriteString(", prior from the data")
	}
	if c.Detect != nil {
		b.WriteString(", with detection")
	}
	if len(rules) > 0 {
		fmt.Fprintf(&b, ", %d exceptions", len(rules))
	}
	return b.String()
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
	lines, alerts, rejected := g.transform.build(s, run, observations)
	connectors.Write(s, run+"/records", lines)
	if g.alerts != nil {
		connectors.Write(s, run+"/alerts", alerts)
	}
	rejects := beam.ParDo(s.Scope("Reject"), &rejectFn{Run: run}, rejected)
	connectors.Write(s, run+"/rejected", beam.Flatten(s, undecoded, rejects))
	return p
}

// filtering is transform: filter.
type filtering struct {
	layout layout
	cfg    transforms.Config
}

func (f filtering) build(s beam.Scope, run string, observations beam.PCollection) (lines, alerts, rejected beam.PCollection) {
	f.cfg.Taken = run
	estimates, rejected := transforms.Filter(s, f.cfg, observations)
	lines, alerts = beam.ParDo2(s.Scope("Encode"), &encodeEstimatesFn{encoder{Run: run, Layout: f.layout}}, estimates)
	return lines, alerts, rejected
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
		{Filter, fmt.Sprintf("%s, keyed, %s", describeFilter(f.cfg.Filter, f.cfg.Keys), order), []string{"encode", "reject"}},
		{"encode", "estimates as JSON objects", []string{"write"}},
	}
}

// smoothing is transform: smooth.
type smoothing struct {
	layout layout
	cfg    transforms.SmoothConfig
}

func (m smoothing) build(s beam.Scope, run string, observations beam.PCollection) (lines, alerts, rejected beam.PCollection) {
	m.cfg.Taken = run
	smoothed, rejected := transforms.Smooth(s, m.cfg, observations)
	return beam.ParDo(s.Scope("Encode"), &encodeSmoothedFn{encoder{Run: run, Layout: m.layout}}, smoothed), beam.PCollection{}, rejected
}

func (smoothing) columns(l layout, x connectors.Kind) []connectors.Column {
	return l.smoothedColumns(x)
}

func (m smoothing) steps() []Step {
	return []Step{
		{Smooth, fmt.Sprintf("%s, keyed, forward and backward over sessions with gaps of %v, revised up to %v late, cut at %d observations; changes at odds of %g",
			describeFilter(m.cfg.Filter, m.cfg.Keys), m.cfg.Gap, m.cfg.AllowedLateness, m.cfg.Max, m.cfg.Odds), []string{"encode", "reject"}},
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
	Layout layout

	lines, alerts []byte
	run           *run
	tally         tally
}

func (fn *encoder) start() { fn.run = runOf(fn.Run) }

// flush emits lines once there are enough of them.
func (fn *encoder) flush(least int, emit, alert func([]byte)) {
	if len(fn.lines) < least {
		return
	}
	if len(fn.lines) > 0 {
		emit(fn.lines)
		fn.lines = nil
	}
	if len(fn.alerts) > 0 {
		alert(fn.alerts)
		fn.alerts = nil
	}
	if fn.run != nil {
		fn.run.note(&fn.tally)
	}
	fn.tally = tally{}
}

// encodeEstimatesFn turns estimates into chunks of JSON lines, and their alerts.
type encodeEstimatesFn struct{ encoder }

func (fn *encodeEstimatesFn) StartBundle(_, _ func([]byte)) { fn.start() }

func (fn *encodeEstimatesFn) ProcessElement(key string, e transforms.Estimate, emit, alert func([]byte)) {
	fn.lines = fn.Layout.appendEstimate(fn.lines, key, &e)
	if e.Alert != nil {
		fn.alerts = fn.Layout.appendAlert(fn.alerts, key, &e)
	}
	fn.tally.estimate(key, &e)
	fn.flush(chunk, emit, alert)
}

func (fn *encodeEstimatesFn) FinishBundle(emit, alert func([]byte)) { fn.flush(0, emit, alert) }

// encodeSmoothedFn turns smoothed estimates into chunks of JSON lines.
type encodeSmoothedFn struct{ encoder }

func (fn *encodeSmoothedFn) StartBundle(_ func([]byte)) { fn.start() }

func (fn *encodeSmoothedFn) ProcessElement(key string, s transforms.Smoothed, emit func([]byte)) {
	fn.lines = fn.Layout.appendSmoothed(fn.lines, key, &s)
	fn.tally.smoothed(key, &s)
	fn.flush(chunk, emit, nil)
}

func (fn *encodeSmoothedFn) FinishBundle(emit func([]byte)) { fn.flush(0, emit, nil) }

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
