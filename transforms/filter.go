package transforms

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/keyed"
	"hafvf/internal/dofn"
)

func init() {
	register.Function8x1((&filterFn{}).ProcessElement)
	dofn.Register(func(f *filterFn) any { return f.ProcessElement })
	register.Function8x1((&encodeFn{}).ProcessElement)
	dofn.Register(func(f *encodeFn) any { return f.ProcessElement })
	register.Function3x1((&resumeFn{}).ProcessElement)
	dofn.Register(func(f *resumeFn) any { return f.ProcessElement })
	register.Emitter3[beam.EventTime, string, keyed.Silent]()
	register.Emitter3[beam.EventTime, string, keyed.Estimate]()
}

// Config is the configuration of Filter.
type Config struct {
	keyed.Config
	// Cells names the states that keys share, by hash. Keys that have a record now and
	// then cost less so, and a worker's memory. The names are the runner's keys. Default
	// none: every key has a state of its own.
	Cells []string
	// InMemory is for a run in one process whose account.Run carries a states.Memory of these
	// Cells: the states are there, and the runner has none.
	InMemory bool
	// Migrate has states in Cells that were written under another configuration carried over,
	// as a keyed.Migrator does, when the first records come. Default: they are an error.
	Migrate bool
	// AtEnd is for an input that ends, of a run in one process with an account.Run. At its end
	// the keys that Silence asks for are told, by the time of the last observation of any key,
	// and intervals without events go on up to that time. Default: the end is no silence.
	AtEnd bool
	// GoesOn is for AtEnd and an input that another run goes on with: intervals that are not
	// over by the last observation of any key stay open. Default: they end with the input.
	GoesOn bool
}

// Resumes reports whether cells have timers that a run takes over. Whoever runs the graph in a process
// with Config.InMemory then hands over one record more to its account, which stands for them.
func (c *Config) Resumes(live bool) bool {
	return live && (c.Silence != nil || c.InMemory && c.Expire > 0) || c.waits() || c.AtEnd
}

// waits reports whether observations can wait for earlier ones, or for the end of an interval.
// With AtEnd an interval that does not wait for the watermark waits for the end of the input.
func (c *Config) waits() bool {
	if c.Aggregate != nil {
		return !c.AtEnd || c.Aggregate.Watermark
	}
	return c.Order != keyed.Arrival && c.Lateness > 0
}

// Filter takes a PCollection<KV<string, keyed.Observation>> in the global window. It
// returns a PCollection<KV<string, keyed.Estimate>>, one for every observation that the
// model takes, and a PCollection<keyed.Rejected> with the others. An estimate has the
// event time of its observation, and the epoch where that has none. A state that was
// written under another configuration fails the pipeline, or with Config.Migrate is carried
// over.
//
// Filter panics where the configuration is impossible, or the input is not in the
// global window.
func Filter(s beam.Scope, cfg Config, col beam.PCollection) (estimates, rejected beam.PCollection) {
	estimates, _, rejected = filter(s, cfg, col, false)
	return estimates, rejected
}

// FilterLive is Filter for an input without an end, the watermark of which goes on while
// nothing comes. It also returns a PCollection<KV<string, keyed.Silent>> of the keys that
// Config.Silence asks for, each told once the watermark has passed its bound. The estimate
// that ends such a silence has Silence.Told. At its end, an input that ends makes all keys
// silent.
func FilterLive(s beam.Scope, cfg Config, col beam.PCollection) (estimates, silent, rejected beam.PCollection) {
	return filter(s, cfg, col, true)
}

func filter(s beam.Scope, cfg Config, col beam.PCollection, live bool) (estimates, silent, rejected beam.PCollection) {
	s, text := begin(s, cfg, col)
	blocks, early := beam.ParDo2(s, &packEachFn{packer{Config: text}}, col)
	blocks = resumed(s, text, cfg.Resumes(live), blocks)
	estimates, silent, late := beam.ParDo3(s, &filterFn{node: node{Config: text, Live: live}, State: state.MakeValueState[[]byte](headState), Log: state.MakeBagState[[]byte](logState), Settings: state.MakeValueState[[]byte](settingsState), Due: timers.InEventTime("due")}, blocks)
	return estimates, silent, beam.Flatten(s, early, late)
}

// FilterEncoded is Filter, or with live FilterLive, of the elements of a source, which in
// decodes, and with out for what it finds. It takes a PCollection of what the decoder
// takes, in the global window. It returns PCollections<[]byte>: records and alerts, in
// chunks of what out has appended, each of whole keys or parts of them, and undecoded,
// which in has rejected. The PCollection<keyed.Rejected> late has the observations that came
// late.
func FilterEncoded(s beam.Scope, cfg Config, live bool, in, out Registered, col beam.PCollection) (records, alerts, undecoded, late beam.PCollection) {
	s, text := begin(s, cfg, col)
	blocks, undecoded := beam.ParDo2(s, &packFn{packer: packer{Config: text}, Decoder: in}, col)
	blocks = resumed(s, text, cfg.Resumes(live), blocks)
	records, alerts, late = beam.ParDo3(s, &encodeFn{node: node{Config: text, Live: live}, Encoder: out, State: state.MakeValueState[[]byte](headState), Log: state.MakeBagState[[]byte](logState), Settings: state.MakeValueState[[]byte](settingsState), Due: timers.InEventTime("due")}, blocks)
	return records, alerts, undecoded, late
}

// begin checks what a filter is applied to, and returns its scope and the text of its
// configuration.
func begin(s beam.Scope, cfg Config, col beam.PCollection) (beam.Scope, string) {
	s = s.Scope("hafvf.Filter")
	if _, err := keyed.NewEstimator(cfg.Config); err != nil {
		panic("transforms.Filter: " + err.Error())
	}
	if w := col.WindowingStrategy(); w.Fn.Kind != "GLO" {
		panic(fmt.Sprintf("transforms.Filter: the input is in %v; a filter's state spans windows: take the global one", w.Fn))
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		panic("transforms.Filter: " + err.Error())
	}
	if n := len(cfg.Cells); n > 0 {
		// A runner that resumes a job finds its steps by name: with another number of
		// cells, keys would not find their states.
		s = s.Scope(fmt.Sprintf("%d cells", n))
	}
	return s, string(text)
}

// resumed adds to the blocks those of the keys that a run takes over, where timers have to
// be set for them.
func resumed(s beam.Scope, text string, timed bool, blocks beam.PCollection) beam.PCollection {
	if !timed {
		return blocks
	}
	return beam.Flatten(s, blocks, beam.ParDo(s, &resumeFn{Config: text}, beam.Impulse(s)))
}

// parseEstimator makes the estimator of a Config that Filter put into a DoFn, and returns
// both. It travels as text, so that numbers, maps, and nil or empty lists come back as they
// were.
func parseEstimator(text string) (est *keyed.Estimator, cfg Config, err error) {
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, cfg, err
	}
	est, err = keyed.NewEstimator(cfg.Config)
	return est, cfg, err
}

// filterFn emits the estimates of a node.
type filterFn struct {
	node
	State    state.Value[[]byte]
	Log      state.Bag[[]byte]
	Settings state.Value[[]byte] // of Cells
	Due      timers.EventTime
}

func (fn *filterFn) Setup(ctx context.Context) error {
	return fn.setUp(ctx, cellState{head: &fn.State, log: &fn.Log, settings: &fn.Settings}, &fn.Due, func() Encoder { return nil })
}

func (fn *filterFn) StartBundle(emit func(beam.EventTime, string, keyed.Estimate), tell func(beam.EventTime, string, keyed.Silent), reject func(keyed.Rejected)) {
	fn.start(outlet{estimate: emit, silent: tell, reject: reject})
}

func (fn *filterFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, cell string, packed []byte, _ func(beam.EventTime, string, keyed.Estimate), _ func(beam.EventTime, string, keyed.Silent), _ func(keyed.Rejected)) error {
	return fn.take(sp, tp, cell, packed)
}

func (fn *filterFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, cell string, timer timers.Context, _ func(beam.EventTime, string, keyed.Estimate), _ func(beam.EventTime, string, keyed.Silent), _ func(keyed.Rejected)) error {
	return fn.wakes(ts, sp, tp, cell, timer)
}

func (fn *filterFn) FinishBundle(ctx context.Context, _ func(beam.EventTime, string, keyed.Estimate), _ func(beam.EventTime, string, keyed.Silent), _ func(keyed.Rejected)) error {
	return fn.finish(ctx)
}

// encodeFn emits what encoders make of the estimates of a node.
type encodeFn struct {
	node
	Encoder  Registered
	State    state.Value[[]byte]
	Log      state.Bag[[]byte]
	Settings state.Value[[]byte] // of Cells
	Due      timers.EventTime
}

func (fn *encodeFn) Setup(ctx context.Context) error {
	return fn.setUp(ctx, cellState{head: &fn.State, log: &fn.Log, settings: &fn.Settings}, &fn.Due, func() Encoder { return encoders.of(ctx, fn.Encoder) })
}

func (fn *encodeFn) StartBundle(emit, alert func([]byte), reject func(keyed.Rejected)) {
	fn.start(outlet{record: emit, alert: alert, reject: reject})
}

func (fn *encodeFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, cell string, packed []byte, _, _ func([]byte), _ func(keyed.Rejected)) error {
	return fn.take(sp, tp, cell, packed)
}

func (fn *encodeFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, cell string, timer timers.Context, _, _ func([]byte), _ func(keyed.Rejected)) error {
	return fn.wakes(ts, sp, tp, cell, timer)
}

func (fn *encodeFn) FinishBundle(ctx context.Context, _, _ func([]byte), _ func(keyed.Rejected)) error {
	return fn.finish(ctx)
}
