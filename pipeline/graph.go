package pipeline

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/jsontext"
	"hafvf/internal/message"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/flink"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
	"hafvf/transforms"
)

// A Graph holds the steps of a config, from the source to the sinks, before they run.
type Graph struct {
	Steps  []Step
	Runner config.Runner
	Clock  *time.Location // zone of times in summaries, tables and reports
	Value  string         // name and unit of the first value, as pages show it
	// Warnings are about settings that have no effect.
	Warnings []string

	source     graphSource
	transform  graphTransform
	sink       graphSink
	dead       graphSink
	alerts     []graphSink // one per receiver
	states     string      // path of the file of states; "" for none
	detects    bool
	groups     bool              // alarms are grouped into incidents
	patterns   []string          // patterns of rules for keys and of quiet times
	quietTimes []keyed.QuietTime // quiet times in the config
	quietFiles []settings.QuietFile
	marks      *config.Sink // where marks are read; nil for none
	warmUp     int          // warm-up of keys without a rule that sets one; 0 for none
	advice     advice
}

// A graphTransform converts observations to lines, alerts and rejections.
type graphTransform interface {
	// build adds the transform to a pipeline. in decodes the batches.
	build(s beam.Scope, form records.Form, in transforms.Registered, batches beam.PCollection) transformOutputs
	// table returns the columns of its records, for values of kind x, and their Avro schema.
	table(x tabular.Kind) (columns []tabular.Column, schema string)
	steps() []Step
	// name returns the name of the transform's step.
	name() string
}

// transformOutputs are the outputs of a transform: PCollections<[]byte> of chunks for the sinks, undecoded chunks for
// the dead letter, and a PCollection<Rejected> of observations that were late or not learned. alerts is invalid if the
// transform has none.
type transformOutputs struct{ lines, alerts, undecoded, late beam.PCollection }

// A Step is a node of a graph, with the steps that its outputs go to.
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

// Compose composes the steps of a config. It reads no data.
func Compose(c *config.Config) (*Graph, error) {
	g := &Graph{Runner: c.Runner, Clock: c.Clock(), states: c.State, detects: c.Detect != nil, groups: c.Incidents != nil, warmUp: c.Model.WarmUp, advice: adviceOf(c)}
	filter := c.Filter()
	filters := []hafvf.Config{filter.Filter}
	for _, k := range filter.Keys {
		filters = append(filters, k.Filter)
	}
	g.patterns = filter.Patterns()
	layout, err := records.NewLayout(filters...)
	if err != nil {
		return nil, err
	}
	brief := c.Records == settings.Brief && c.Sink.Prometheus == nil // Prometheus gets the threshold, which brief records lack
	layout.Brief, layout.Interval, layout.Events, layout.Incidents, layout.Quiet = brief, c.Interval != 0, c.Aggregate != nil, c.Incidents != nil, c.Quiet != nil || c.QuietFiles != nil
	g.source = newSource(c)
	x := g.source.kind()
	var alerts []graphSink
	var receivers []receiver
	for i := range c.Alerts {
		r := &c.Alerts[i]
		s := newSink(&r.Sink, layout.AlertColumns(x), layout.AlertSchema(), &c.Source)
		s.maxAge, s.runnerStores = r.MaxAge, c.Runner.Name == config.Flink
		alerts = append(alerts, s)
		receivers = append(receivers, receiver{Choice: r.Choice, Form: s.form(), OnlyPages: s.hook != nil, Stateful: s.hook != nil && s.hook.Stateful(), Repeats: s.hook != nil && s.hook.Repeat > 0})
	}
	if c.Transform == settings.Smooth {
		layout.Smoothes(filters, c.SessionOrder() != keyed.EventTime, c.Session.AllowedLateness > 0)
		cfg := transforms.SmoothConfig{SmoothConfig: c.Smoothing(c.SessionOrder())}
		if t, ok := g.Topics(); ok {
			cfg.Logs, cfg.Disorder = true, t.Disorder
		}
		g.transform = smoothing{layout, cfg}
	} else {
		filter.OmitPosterior = brief
		alerted := c.Switches(func(k settings.KeyRule) *bool { return k.Alerts })
		alone := c.Switches(func(k settings.KeyRule) *bool { return k.Detect.Disabled })
		g.quietTimes, g.quietFiles, g.marks = c.Quiet, c.QuietFiles, c.Marks
		g.nameValues(&filter, c)
		g.Warnings = changesNotRaised(c)
		g.transform = filtering{layout, filter, hostOf(c), receivers, groupingOf(c), alerted, alone}
	}
	columns, schema := g.transform.table(x)
	g.sink = newSink(&c.Sink, columns, schema, &c.Source)
	g.alerts = alerts
	g.dead = graphSink{file: &connectors.Sink{Format: connectors.JSONLines, Path: connectors.Stderr}}
	if c.DeadLetter != nil {
		g.dead = newSink(c.DeadLetter, nil, records.RejectSchema(), &c.Source)
	}
	g.Steps = slices.Concat([]Step{
		{"read", g.source.describe(), []string{"decode"}},
		{"decode", "key, time, x; invalid records are rejected", []string{c.Transform, "reject"}},
	}, g.transform.steps(), []Step{
		{"write", g.sink.describe(), nil},
		{"reject", "reason, place, raw input to " + g.dead.describe(), nil},
	})
	for i, s := range g.alerts {
		g.Steps = append(g.Steps, Step{"alert", strings.Join(receivedKinds(c, &c.Alerts[i]), ", ") + " to " + s.describe(), nil})
	}
	return g, nil
}

// groupingOf returns how alarms are grouped into incidents, nil if they are not.
func groupingOf(c *config.Config) *transforms.IncidentsConfig {
	i := c.Incidents
	if i == nil {
		return nil
	}
	g := &transforms.IncidentsConfig{Budget: i.Budget, Separators: i.Separators, By: i.By, MaxSinglePages: i.MaxSinglePages, Zone: i.Zone, OmitToday: c.Source.Unbounded(), Lateness: c.Lateness, AtEnd: !c.Source.Unbounded() && c.Runner.Name != config.Flink && !isPiped(c), Ends: isPiped(c)}
	if p := c.Source.Prometheus(); p != nil {
		g.Labels = p.Key
	}
	for _, r := range c.Alerts {
		if r.Digest > 0 && !slices.Contains(g.Digests, r.Digest) {
			g.Digests = append(g.Digests, r.Digest)
		}
	}
	slices.Sort(g.Digests)
	if a := c.Aggregate; a != nil {
		g.Lateness += a.Every + time.Hour + a.Wait // when a clock is set back, an interval gets an hour longer
	}
	return g
}

// nameValues sets the name and unit of the filter's values in messages, and of the first value on pages.
func (g *Graph) nameValues(filter *keyed.Config, c *config.Config) {
	filter.Values, filter.Unit = c.NamesOf(g.source.values()), c.Source.Unit()
	if len(filter.Values) > 0 {
		g.Value = filter.Values[0]
	}
	if filter.Unit != "" && c.Aggregate == nil {
		g.Value += " (" + filter.Unit + ")"
	}
	if q, ok := g.source.(querySource); ok {
		var perSecond bool
		if filter.Metric, perSecond = q.Measured(); perSecond {
			filter.Unit = settings.PerSecond
		}
	}
	filter.Unit = c.UnitOf(filter.Unit)
}

// hostOf returns how a run hosts the filter.
func hostOf(c *config.Config) transforms.Host {
	h := transforms.Host{Live: c.Source.Unbounded()}
	if r := c.Runner; r.Name == config.Flink {
		h.Cells = flink.Names(r.Cells, r.MaxParallelism, r.MaxParallelism)
		return h
	}
	h.InProcess = true
	h.AtEnd = (c.Silence != nil || c.Aggregate != nil) && !h.Live
	h.Continues = h.AtEnd && c.State != ""
	if h.IgnoresWatermark = isPiped(c); h.IgnoresWatermark && c.Lateness > 0 {
		h.AtEnd = true
	}
	return h
}

// raisesChanges reports whether keys can raise change alarms: only values without a score do, which are single categories.
func raisesChanges(c *config.Config) bool {
	bank, err := c.Filter().Filter.NewBank()
	if err != nil || c.Detect == nil {
		return false
	}
	_, categories := bank.Model().(expfam.Discrete)
	return categories
}

// changesNotRaised returns warnings about the receivers that wait for change alarms and get no novelty, if no key can
// raise a change.
func changesNotRaised(c *config.Config) (warnings []string) {
	if c.Detect == nil || raisesChanges(c) {
		return nil
	}
	for i, r := range c.Alerts {
		path := "alerts"
		if len(c.Alerts) > 1 {
			path = fmt.Sprint("alerts.", i)
		}
		if slices.Contains(r.Kinds, string(usual.ChangeAlarm)) && !slices.Contains(r.Kinds, string(usual.NoveltyAlarm)) {
			warnings = append(warnings, path+".kinds: no key can raise change alarms, only those of bernoulli and categorical do: add novelty")
		}
	}
	return warnings
}

// receivedKinds describes what a receiver gets.
func receivedKinds(c *config.Config, r *config.Receiver) []string {
	var kinds []string
	raised := map[string]bool{
		string(usual.NoveltyAlarm): c.Detect != nil, string(usual.ChangeAlarm): raisesChanges(c),
		keyed.SilentAlarm: c.Silence != nil, keyed.RecoveredAlarm: c.Silence != nil || r.SendResolved && c.Detect != nil,
	}
	for _, kind := range r.Kinds {
		if raised[kind] {
			kinds = append(kinds, kind+" alarms")
		} else if kind == incidents.Kind && c.Incidents != nil {
			kinds = append(kinds, "incidents")
		}
	}
	if c.Detect != nil {
		for _, kind := range r.Beliefs {
			kinds = append(kinds, kind+" beliefs")
		}
	}
	if r.Digest > 0 {
		kinds = append(kinds, "a digest of single alarms every "+message.Duration(r.Digest))
	}
	if kinds == nil {
		return []string{"nothing"}
	}
	if r.SmallFleetKinds != nil {
		kinds = append(kinds, fmt.Sprintf("or of fewer than %d keys all alarms", config.FewKeys))
	}
	return kinds
}

func describeFilter(c hafvf.Config, rules []keyed.Rule) string {
	var b strings.Builder
	b.WriteString(c.Family)
	var members []hafvf.Member
	if (keyed.SmoothConfig{Filter: c}).Segments() {
		b.WriteString(", in segments")
	} else {
		members = c.Members()
	}
	if len(c.Bank) > 0 {
		fmt.Fprintf(&b, ", bank of %d", len(members))
	}
	for _, m := range members {
		fmt.Fprintf(&b, ", %d levels %v, top %g", len(m.Levels), m.Levels, m.Top)
		if m.AR > 0 {
			fmt.Fprintf(&b, ", on its last %d values", m.AR)
		}
	}
	if c.WarmUp > 0 {
		b.WriteString(", prior from the data")
	}
	if c.Season != nil {
		separator := ", less the season of "
		for _, s := range c.Season.Seasons {
			fmt.Fprintf(&b, "%s%v", separator, s.Period)
			separator = " and "
		}
	}
	if c.Detect != nil {
		b.WriteString(", with detection")
	}
	if len(rules) > 0 {
		fmt.Fprintf(&b, ", %d exceptions", len(rules))
	}
	return b.String()
}

// Topics returns the source of the graph if it reads topics.
func (g *Graph) Topics() (source config.Kafka, ok bool) {
	t, ok := g.source.(topicSource)
	return t.Kafka, ok
}

// StandardInput reports whether the graph reads standard input.
func (g *Graph) StandardInput() bool {
	f, ok := g.source.(fileSource)
	return ok && f.Path == "-"
}

// withCluster returns the graph on the cluster of an embedded broker.
func (g *Graph) withCluster(c kafkaio.Cluster) *Graph {
	clone := *g
	t := g.source.(topicSource)
	configured := t.Cluster.Brokers
	t.Cluster = c
	clone.source = t
	move := func(s graphSink) graphSink {
		if s.topic != nil && slices.Equal(s.topic.Cluster.Brokers, configured) {
			topic := *s.topic
			topic.Cluster = c
			s.topic = &topic
		}
		return s
	}
	clone.sink, clone.dead = move(g.sink), move(g.dead)
	if g.marks != nil && g.marks.Kafka != nil {
		clone.marks = &config.Sink{Kafka: move(graphSink{topic: g.marks.Kafka}).topic}
	}
	clone.alerts = nil
	for _, s := range g.alerts {
		clone.alerts = append(clone.alerts, move(s))
	}
	return &clone
}

// sinks returns the sinks of the graph by name.
func (g *Graph) sinks() map[string]graphSink {
	sinks := map[string]graphSink{"records": g.sink, "rejected": g.dead}
	for i, s := range g.alerts {
		sinks[alertsName(i)] = s
	}
	return sinks
}

// alertsName returns the name of a receiver's sink within the run.
func alertsName(receiver int) string { return fmt.Sprint("alerts ", receiver) }

// build returns the graph as a Beam pipeline, for a run in this process or in a worker. A cluster finds the state of a
// step by the step's name. The name therefore changes if no part of the state keeps its meaning.
func (g *Graph) build() *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	batches, decoder := g.source.read(s.Scope(named("Source", g.source.state())))
	b := g.transform.build(s.Scope(g.transform.name()), g.sink.form(), decoder, batches)
	rejects := append(g.sink.write(s, "records", b.lines), b.undecoded, beam.ParDo(s.Scope("Reject"), &encodeRejectedFn{}, b.late))
	if len(g.alerts) == 0 && b.alerts.IsValid() {
		graphSink{}.write(s, "", b.alerts) // incidents are counted without a receiver too
	}
	for i, sink := range g.alerts {
		alerts := b.alerts
		if len(g.alerts) > 1 {
			alerts = beam.ParDo(s.Scope(alertsName(i)), &pickFn{i}, alerts)
		}
		rejects = append(rejects, sink.write(s, alertsName(i), alerts)...)
	}
	g.dead.write(s, "rejected", beam.Flatten(s, rejects...))
	return p
}

// named returns the name of a step, with a hash of the values that determine the meaning of its state.
func named(step string, state any) string {
	return fmt.Sprintf("%s %.6x", step, sha256.Sum256([]byte(jsontext.Of(state))))
}

// filtering is transform: filter.
type filtering struct {
	layout    records.Layout
	cfg       keyed.Config
	host      transforms.Host
	receivers []receiver                  // receivers of alerts
	incidents *transforms.IncidentsConfig // nil: alarms are not grouped
	alerted   settings.Switches
	alone     settings.Switches
}

func (f filtering) build(s beam.Scope, form records.Form, in transforms.Registered, batches beam.PCollection) (b transformOutputs) {
	records := transforms.Registered{Name: asRecords, Setting: jsontext.Of(encoding{Layout: f.layout, Form: form, Receivers: f.receivers, Alerted: f.alerted, Alone: f.alone, Counters: f.cfg.Aggregate != nil && f.cfg.Aggregate.Value == keyed.Increase})}
	b.lines, b.alerts, b.undecoded, b.late = transforms.FilterEncoded(s, f.cfg, f.host, in, records, batches)
	if f.incidents != nil {
		b.alerts = transforms.IncidentsEncoded(s, *f.incidents, records, b.alerts)
	}
	return b
}

func describeAggregation(a *keyed.Aggregation) string {
	empty := "missing"
	if a.Zero {
		empty = "0"
	}
	return fmt.Sprintf("the %s of every %v, %s if empty", a.Value, a.Every, empty)
}

// name depends only on the family, the scale and the aggregation: other changes of the config keep the state.
func (f filtering) name() string {
	means := []any{settings.Filter, f.cfg.Filter.Family, f.cfg.Filter.Scale}
	if a := f.cfg.Aggregate; a != nil {
		means = append(means, a.Aggregation)
	}
	return named("Transform", means)
}

func (f filtering) table(x tabular.Kind) (columns []tabular.Column, schema string) {
	return f.layout.EstimateColumns(x), f.layout.EstimateSchema()
}

func (f filtering) steps() []Step {
	order := "in the order of arrival"
	if f.cfg.Order == keyed.EventTime {
		order = fmt.Sprintf("in the order of event times, up to %v late", f.cfg.Lateness)
	}
	if a := f.cfg.Aggregate; a != nil {
		order = describeAggregation(&a.Aggregation) + ", " + order
	}
	steps := []Step{
		{settings.Filter, fmt.Sprintf("%s, keyed, %s", describeFilter(f.cfg.Filter, f.cfg.Keys), order), []string{"encode", "reject"}},
		{"encode", "estimates as records", []string{"write"}},
	}
	if i := f.incidents; i != nil {
		grouping := "prefixes that end at one of " + i.Separators
		if i.By != nil {
			grouping = "the labels " + strings.Join(i.By, ", ")
		}
		when := "as the watermark passes them"
		if i.AtEnd {
			when = "at the end of the input"
		}
		steps = append(steps, Step{"group", fmt.Sprintf("the alarms of all keys, by %s, into incidents, one false incident in %s, %s", grouping, message.Duration(i.Budget), when), []string{"alert"}})
	}
	return steps
}

// smoothing is transform: smooth.
type smoothing struct {
	layout records.Layout
	cfg    transforms.SmoothConfig
}

func (m smoothing) build(s beam.Scope, form records.Form, in transforms.Registered, batches beam.PCollection) (b transformOutputs) {
	b.lines, b.undecoded, b.late = transforms.SmoothEncoded(s, m.cfg, in, transforms.Registered{Name: asRecords, Setting: jsontext.Of(encoding{
		Layout: m.layout, Form: form,
	})}, batches)
	return b
}

func (m smoothing) name() string {
	return named("Transform", []any{settings.Smooth, m.cfg.Gap})
}

func (m smoothing) table(x tabular.Kind) (columns []tabular.Column, schema string) {
	return m.layout.SmoothedColumns(x), m.layout.SmoothedSchema()
}

func (m smoothing) steps() []Step {
	description := describeFilter(m.cfg.Filter, m.cfg.Keys)
	if m.cfg.Aggregate != nil {
		description += ", of " + describeAggregation(m.cfg.Aggregate)
	}
	sessions := fmt.Sprintf("with gaps of %v, revised up to %v late", m.cfg.Gap, m.cfg.AllowedLateness)
	if m.cfg.Gap == 0 {
		sessions = fmt.Sprintf("with gaps of %d median steps of the key, at least %s", keyed.GapSteps, message.Duration(keyed.MinGap))
	}
	switch m.cfg.Order {
	case keyed.Arrival:
		sessions = "without times, in the order of arrival"
	case keyed.Trials:
		sessions = "without times, in the order of trials"
	}
	return []Step{
		{settings.Smooth, fmt.Sprintf("%s, keyed, over sessions %s, cut at %d observations; changes at odds of %g",
			description, sessions, m.cfg.Max, cmp.Or(m.cfg.Odds, m.cfg.DefaultOdds())), []string{"encode", "reject"}},
		{"encode", "smoothed estimates as records", []string{"write"}},
	}
}
