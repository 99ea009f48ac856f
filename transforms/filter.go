package transforms

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/dofn"
)

func init() {
	register.Function8x1((&encodeFn{}).ProcessElement)
	dofn.Register(func(f *encodeFn) any { return f.ProcessElement })
	account.Reporting[*encodeFn]()
	account.Seeding[*resumeFn]()
	register.Function3x0((&resumeFn{}).ProcessElement)
	dofn.Register(func(f *resumeFn) any { return f.ProcessElement })
}

// A Host says how a run hosts the filter of FilterEncoded.
type Host struct {
	// Live says that the input has no end: keys are told that are silent, and forgotten that expire.
	Live bool
	// Cells names the states of the runner that keys share, by hash. Keys that have a record now and
	// then cost less so, and a worker's memory. The names are the runner's keys. Default
	// none: every key has a state of its own.
	Cells []string
	// InProcess is for a runner in this process. If its account.Run carries a statestore.Memory, the states
	// are there, and the runner has none.
	InProcess bool
	// Resumed says that the runner has Cells of a job before. All are read when the first records come,
	// and their keys are counted: see KeptKeys. The log has the counts before the keys have outputs.
	Resumed bool
	// Migrate, with Resumed, has states in Cells that were written under another configuration carried
	// over, as a keyed.Migrator does. Default: they are an error.
	Migrate bool
	// AtEnd is for an input that ends, of a run in one process with an account.Run. At its end
	// the keys that Silence asks for are told, by the time of the last observation of any key,
	// and intervals without events go on up to that time. Default: the end is no silence.
	AtEnd bool
	// Continues is for AtEnd and an input that another run goes on with: intervals that are not
	// over by the last observation of any key stay open. Default: they end with the input.
	Continues bool `json:"GoesOn"`
	// IgnoresWatermark, with AtEnd, is for a watermark that records may be behind: observations that wait for earlier ones wait
	// for the end of the input alone. Default: for the watermark too.
	IgnoresWatermark bool
}

// stepConfig is the configuration of the steps of a filter.
type stepConfig struct {
	keyed.Config
	Host
}

// resumes reports whether cells have timers that a run takes over.
func (c *stepConfig) resumes() bool {
	return c.Live && (c.Silence != nil || c.InProcess && c.Expire > 0) || c.waits() || c.AtEnd
}

// waits reports whether observations can wait for earlier ones, or for the end of an interval.
// With AtEnd an interval that does not wait for the watermark waits for the end of the input.
func (c *stepConfig) waits() bool {
	if c.Aggregate != nil {
		return !c.AtEnd || c.Aggregate.Watermark
	}
	return c.Order != keyed.Arrival && c.Lateness > 0 && !c.IgnoresWatermark
}

// A FilterOutput has the results of Filter.
type FilterOutput struct {
	// Estimates is a PCollection<KV<string, keyed.Estimate>> by key: one estimate for each observation that the model accepts, at the
	// event time of the observation, or at the epoch if the observation has no time.
	Estimates beam.PCollection
	// Alarms is a PCollection<keyed.AlertEvent>: alarms of estimates, and silences. Beliefs are only in Estimates.
	Alarms beam.PCollection
	// Ends is a PCollection<keyed.AlertEvent>: values that are back to usual, and keys that report again after a silence.
	Ends beam.PCollection
	// Rejected is a PCollection<keyed.Rejected> of the other observations. If a rejected observation is an alarm, it also has an
	// estimate: see keyed.KeyState.OutOfDomain.
	Rejected beam.PCollection
}

// An Option changes how Filter runs.
type Option func(*Host)

// Live is for an input without an end, whose watermark goes on while nothing comes. A key that
// keyed.Config.Silence asks for alarms once the watermark has passed its bound, and a key that expires is
// forgotten. An input that ends makes all keys silent at its end.
func Live() Option { return func(h *Host) { h.Live = true } }

// Filter filters a collection in the global window. observe returns the key and the observation of an element. If the pipeline runs
// in other processes, observe has to be registered in an init function by register.Function1x2; in this process it may also be a
// closure. If an element is a record of a log, such as a kafkaio.Record, its observation gets the log and the position of the
// record, unless observe sets keyed.Observation.Log. A state that was written under another configuration fails the pipeline.
//
// Filter panics if the configuration is impossible, if observe does not take the elements, or if the input is not in the global
// window. Use FilterParsed if observe can fail.
func Filter[T any](s beam.Scope, cfg keyed.Config, observe func(T) (string, keyed.Observation), col beam.PCollection, options ...Option) FilterOutput {
	return filterObserved(s, cfg, newHost(options), registerObserve("Filter", observe, withoutError(observe), col), col)
}

// FilterParsed is Filter with an observe that can fail. An element for which it returns an error is rejected, with the error as
// the reason. In other processes observe has to be registered by register.Function1x3.
func FilterParsed[T any](s beam.Scope, cfg keyed.Config, observe func(T) (string, keyed.Observation, error), col beam.PCollection, options ...Option) FilterOutput {
	return filterObserved(s, cfg, newHost(options), registerObserve("FilterParsed", observe, observe, col), col)
}

func newHost(options []Option) Host {
	host := Host{InProcess: true}
	for _, set := range options {
		set(&host)
	}
	return host
}

func filterObserved(s beam.Scope, cfg keyed.Config, host Host, in Registered, col beam.PCollection) FilterOutput {
	records, alarms, early, late := FilterEncoded(s, cfg, host, in, Registered{Name: objects}, col)
	started, ended := beam.ParDo2(s, unpackAlarms, alarms)
	return FilterOutput{
		Estimates: beam.ParDo(found(s, cfg.Filter.Family), unpackEstimates, records),
		Alarms:    started,
		Ends:      ended,
		Rejected:  beam.Flatten(s, beam.ParDo(s, unpackRejected, early), late),
	}
}

// FilterEncoded is Filter of the elements of a source, which in decodes, and with out for what it finds. It takes a PCollection of what the decoder
// takes, in the global window. It returns PCollections<[]byte>: records and alerts, in
// chunks of what out has appended, each of whole keys or parts of them, and undecoded,
// which in has rejected. The PCollection<keyed.Rejected> late has the observations that came
// late.
func FilterEncoded(s beam.Scope, cfg keyed.Config, host Host, in, out Registered, col beam.PCollection) (records, alerts, undecoded, late beam.PCollection) {
	of := stepConfig{cfg, host}
	_, err := keyed.NewEstimator(cfg)
	text := textOf("Filter", of, err)
	checkGlobal("Filter", "a filter's state", col)
	s = s.Scope("hafvf.Filter")
	if n := len(host.Cells); n > 0 {
		// A runner that resumes a job finds its steps by name: with another number of
		// cells, keys would not find their states.
		s = s.Scope(fmt.Sprintf("%d cells", n))
	}
	blocks, undecoded := beam.ParDo2(s, &packFn{Config: text, Decoder: in}, col)
	if of.resumes() {
		blocks = beam.Flatten(s, blocks, beam.ParDo(s, &resumeFn{}, beam.Impulse(s)))
	}
	records, alerts, late = beam.ParDo3(s, &encodeFn{
		Config: text, Encoder: out,
		State:    state.MakeValueState[[]byte]("entity"),
		Log:      state.MakeBagState[[]byte]("log"),
		Settings: state.MakeValueState[[]byte]("settings"),
		Due:      timers.InEventTime("due"),
	}, blocks)
	return records, alerts, undecoded, late
}

// textOf returns the text of the configuration of a transform, which travels to the workers. It panics
// where err says that the configuration is impossible.
func textOf(transform string, cfg any, err error) string {
	text, failed := json.Marshal(cfg)
	if err := cmp.Or(err, failed); err != nil {
		panic("transforms." + transform + ": " + err.Error())
	}
	return string(text)
}

// checkGlobal panics where the input of a transform is not in the global window. whole is what spans windows.
func checkGlobal(transform, whole string, col beam.PCollection) {
	if w := col.WindowingStrategy(); w.Fn.Kind != "GLO" {
		panic(fmt.Sprintf("transforms.%s: the input is in %v; %s spans windows: take the global one", transform, w.Fn, whole))
	}
}

// parseEstimator makes the estimator of a configuration that Filter put into a DoFn, and returns
// both. It travels as text, so that numbers, maps, and nil or empty lists come back as they
// were.
func parseEstimator(text string) (est *keyed.Estimator, cfg stepConfig, err error) {
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, cfg, err
	}
	est, err = keyed.NewEstimator(cfg.Config)
	return est, cfg, err
}
