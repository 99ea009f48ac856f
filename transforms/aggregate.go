package transforms

import (
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/dofn"
)

func init() {
	register.Function6x1((&aggregateFn{}).ProcessElement)
	dofn.Register(func(f *aggregateFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, keyed.Observation]()
}

// Aggregate takes a PCollection<KV<string, keyed.Observation>> of events in the global window,
// whose values are vectors of dim numbers. It returns a PCollection<KV<string,
// keyed.Observation>>, one for every interval of a key, at the time at which the interval begins,
// and a PCollection<keyed.Rejected> of the events that came late. Filter and Smooth aggregate by
// themselves, if their configurations ask for it, in the state that they have of a key.
//
// Intervals without events lie between those with events. After these they go on if the input has
// no end and cfg says Endless.
//
// Aggregate panics where the configuration is impossible, or the input is not in the global window.
func Aggregate(s beam.Scope, cfg keyed.AggregateConfig, dim int, col beam.PCollection) (observations, rejected beam.PCollection) {
	all := aggregating(cfg, dim)
	_, err := keyed.NewEstimator(all)
	text := textOf("Aggregate", all, err)
	checkGlobal("Aggregate", "the state of a key", col)
	return beam.ParDo2(s.Scope("hafvf.Aggregate"), &aggregateFn{
		Config: text, Open: state.MakeValueState[[]byte]("open"), Due: timers.InEventTime("due"),
	}, col)
}

// aggregating is the configuration of entities that never learn: nothing depends on the family
// but the dimension.
func aggregating(cfg keyed.AggregateConfig, dim int) keyed.Config {
	filter := hafvf.Config{Family: "normal"}
	if dim > 1 {
		filter = hafvf.Config{Family: "mvnormal", Dim: dim}
	}
	return keyed.Config{Filter: filter, Aggregate: &cfg}
}

// aggregateFn aggregates the events of a key.
type aggregateFn struct {
	Config string
	Open   state.Value[[]byte]
	Due    timers.EventTime

	est   *keyed.Estimator
	every time.Duration
}

func (fn *aggregateFn) Setup() error {
	est, cfg, err := parseEstimator(fn.Config)
	if err != nil {
		return err
	}
	fn.est, fn.every = est, cfg.Aggregate.Every
	return nil
}

func (fn *aggregateFn) ProcessElement(sp state.Provider, tp timers.Provider, key string, event keyed.Observation, emit func(beam.EventTime, string, keyed.Observation), reject func(keyed.Rejected)) error {
	e, err := fn.read(sp, key)
	if err != nil {
		return err
	}
	err = fn.est.CheckOf(key)(&event)
	if err == nil {
		_, err = e.Take(&event)
	}
	if err != nil {
		reject(keyed.Rejected{Key: key, Observation: event, Reason: err.Error()})
	}
	return fn.write(sp, tp, key, &e, emit)
}

func (fn *aggregateFn) OnTimer(ts beam.EventTime, sp state.Provider, tp timers.Provider, key string, _ timers.Context, emit func(beam.EventTime, string, keyed.Observation), _ func(keyed.Rejected)) error {
	e, err := fn.read(sp, key)
	if err != nil {
		return err
	}
	e.Release(ts.ToTime().Add(fn.span())) // the SDK calls with the time that the timer holds
	return fn.write(sp, tp, key, &e, emit)
}

func (fn *aggregateFn) read(sp state.Provider, key string) (keyed.KeyState, error) {
	b, found, err := fn.Open.Read(sp)
	if err != nil {
		return keyed.KeyState{}, err
	}
	if !found {
		b = nil
	}
	return fn.est.Open(key, b)
}

// span is how long before the end of an interval a timer holds the watermark of the output, since
// what it emits has the time at which the interval begins. A clock that goes back makes an
// interval longer by an hour.
func (fn *aggregateFn) span() time.Duration { return fn.every + time.Hour }

// write emits what is due, and keeps the rest.
func (fn *aggregateFn) write(sp state.Provider, tp timers.Provider, key string, e *keyed.KeyState, emit func(beam.EventTime, string, keyed.Observation)) error {
	for o, due := e.Due(); due; o, due = e.Due() {
		emit(mtime.FromTime(o.Time), key, o)
	}
	if first, _ := e.Waiting(); !first.IsZero() {
		fn.Due.Set(tp, first.Add(fn.est.MaxDelay()+time.Millisecond-1), timers.WithOutputTimestamp(first.Add(-fn.span()))) // timers count milliseconds
	}
	b, _ := e.AppendBinary(nil)
	return fn.Open.Write(sp, b)
}
