package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

func init() {
	transforms.RegisterEncoder(toWatch, func(ctx context.Context, text string) transforms.Encoder {
		return &watchEncoder{encoding: settingOf[encoding](text), run: runOf(ctx)}
	})
}

// toWatch is the name of the encoder that calls the run's Watch. Its setting is the text of
// an encoding.
const toWatch = "watch"

// A Watch is called with every estimate, in the order of its key, and with the alerts
// that it raises. Of a key that is silent at the end of the input it is called with that alert and
// without an estimate. Several goroutines may call it at once. The estimate is valid until it
// returns.
type Watch func(key string, e *keyed.Estimate, told []keyed.Told)

// Alarms returns the settings by which the graph raises alarms; ok is false if it
// raises none.
func (g *Graph) Alarms() (c keyed.AlarmConfig, ok bool) {
	f, ok := g.transform.(filtering)
	if !ok || !g.detects {
		return c, false
	}
	return *f.cfg.Alarms, true
}

// Groups reports whether the graph makes incidents of alarms.
func (g *Graph) Groups() bool { return g.groups }

// watched returns the graph without its outputs and its file of states: its filters begin
// anew, and its input ends.
func (g *Graph) watched() *Graph {
	here := *g.past()
	here.sink, here.dead, here.alerts, here.states = graphSink{}, graphSink{}, nil, ""
	if f, ok := g.transform.(filtering); ok {
		here.transform = watching{f}
	}
	return &here
}

// watching is filtering with a Watch in place of records.
type watching struct{ filtering }

func (w watching) build(s beam.Scope, _ records.Form, in transforms.Registered, batches beam.PCollection) built {
	w.host.Live, w.host.AtEnd = false, w.cfg.Aggregate != nil || w.cfg.Silence != nil
	return w.filter(s, in, transforms.Registered{Name: toWatch, Setting: settingText(encoding{Receivers: []receiver{everyone(w.receivers)}})}, batches)
}

// A grouping makes incidents of what a Watch sees, as transforms.Incidents does of what a run
// writes.
type grouping struct {
	mu    sync.Mutex
	fleet *incidents.Fleet
	last  time.Time
}

// newGrouping returns the grouping of a graph, nil if its alarms are not grouped.
func newGrouping(g *Graph) (*grouping, error) {
	w, ok := g.transform.(watching)
	if !ok || w.incidents == nil {
		return nil, nil
	}
	cfg, err := w.incidents.Fleet()
	if err != nil {
		return nil, err
	}
	fleet, err := incidents.New(cfg)
	return &grouping{fleet: fleet}, err
}

// add adds the alarms of an estimate. It does nothing on a nil grouping.
func (g *grouping) add(key string, e *keyed.Estimate) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Time.After(g.last) {
		g.last = e.Time
	}
	if e.Pace != (keyed.Pace{}) {
		g.fleet.Register(key, e.Time, e.Pace.Step, e.Pace.Budget)
	}
	g.alarms(key, e.Alerts(key)...)
}

// silent adds that a key is silent. It does nothing on a nil grouping.
func (g *grouping) silent(key string, s keyed.Silent) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alarms(key, s.Alerts(key)...)
}

func (g *grouping) alarms(key string, told ...keyed.Told) {
	for _, t := range told {
		if t.Role == keyed.Decision && t.Kind != keyed.RecoveredAlarm {
			g.fleet.Add(incidents.Alarm{ID: t.Of.ID, Key: key, Kind: t.Kind, Time: t.Of.Time, Score: t.Score, Size: t.Size})
		}
	}
}

// end takes all alarms. Incidents of the last minutes stay open.
func (g *grouping) end() incidents.Step {
	if g == nil {
		return incidents.Step{}
	}
	step := g.fleet.Advance(g.last)
	step.Events = transforms.Together(step.Events)
	return step
}

// everyone is a receiver of what goes to any receiver, or if there is none of all alarms.
func everyone(all []receiver) (one receiver) {
	if len(all) == 0 {
		return receiver{Kinds: config.AlarmKinds()}
	}
	for _, r := range all {
		one.Kinds = append(one.Kinds, r.Kinds...)
		one.Ends = one.Ends || r.Ends
		one.Beliefs = append(one.Beliefs, r.Beliefs...)
	}
	return one
}

// watchEncoder passes estimates to the run's Watch. It appends nothing.
type watchEncoder struct {
	encoding
	run   *run
	tally tally
}

func (e *watchEncoder) Estimate(_ *transforms.Encoded, key string, of *keyed.Estimate) {
	e.tally.records++
	e.run.grouping.add(key, of)
	e.run.watch(key, of, e.told(key, of.Alerts(key)))
}

func (e *watchEncoder) Silent(_ *transforms.Encoded, key string, s keyed.Silent) {
	e.run.grouping.silent(key, s)
	e.run.watch(key, nil, e.told(key, s.Alerts(key)))
}

// told are the alerts that go to the receiver.
func (e *watchEncoder) told(key string, all []keyed.Told) []keyed.Told {
	return slices.DeleteFunc(all, func(t keyed.Told) bool { return !e.Receivers[0].takes(key, t) })
}

func (*watchEncoder) Forgotten(*transforms.Encoded, string) {} // files have no tombstones

func (e *watchEncoder) TurnedBack(key string, from, to time.Time) { e.run.turnedBack(key, from, to) }

func (e *watchEncoder) Flush() { e.tally.flush(e.run) }
