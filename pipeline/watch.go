package pipeline

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/transforms"
)

func init() {
	register.Function3x0((&watchFn{}).ProcessElement)
	dofn.Register(func(f *watchFn) any { return f.ProcessElement })
}

// A Watch is called with every estimate, in the order of its key, and with the alerts
// that it raises. Several goroutines may call it at once. The estimate is valid until it
// returns.
type Watch func(key string, e *transforms.Estimate, told []transforms.Told)

// Alarms returns the settings by which the graph raises alarms; ok is false if it
// raises none.
func (g *Graph) Alarms() (c transforms.AlarmConfig, ok bool) {
	f, ok := g.transform.(filtering)
	return f.cfg.Alarms, ok && g.detects
}

// Message is the sentence of an alert of an estimate, as in the alert's record.
func (g *Graph) Message(key string, e *transforms.Estimate, told *transforms.Alert) string {
	f, _ := g.transform.(filtering)
	return f.layout.Message(key, e, told)
}

// watched returns the graph without its outputs and its file of states: its filters begin
// anew.
func (g *Graph) watched() *Graph {
	here := *g
	here.sink, here.dead, here.alerts, here.states = graphSink{}, graphSink{}, nil, ""
	if f, ok := g.transform.(filtering); ok {
		here.transform = watching{f}
	}
	return &here
}

// watching is filtering with a Watch in place of records.
type watching struct{ filtering }

func (w watching) build(s beam.Scope, run string, _ forms, observations beam.PCollection) (lines, alerts, rejected beam.PCollection) {
	w.cfg.Account = run
	estimates, rejected := transforms.Filter(s, w.cfg, observations)
	lines = beam.ParDo(s.Scope("Watch"), &watchFn{Run: run, Kinds: w.kinds}, estimates)
	return lines, beam.PCollection{}, rejected
}

// watchFn passes estimates to the run's Watch. It emits nothing.
type watchFn struct {
	Run   string
	Kinds []string // of the alarms that are told

	run  *run
	told encodeEstimatesFn
	n    int
}

func (fn *watchFn) StartBundle(func([]byte)) {
	fn.run, fn.n = runOf(fn.Run), 0
	fn.told = encodeEstimatesFn{Alerts: true, Kinds: fn.Kinds}
}

func (fn *watchFn) ProcessElement(key string, e transforms.Estimate, _ func([]byte)) {
	fn.n++
	fn.run.watch(key, &e, fn.told.told(key, &e))
}

func (fn *watchFn) FinishBundle(func([]byte)) {
	fn.run.note(&tally{records: int64(fn.n)})
	account.Of(fn.Run).Stored(fn.n)
}
