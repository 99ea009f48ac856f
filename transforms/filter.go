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

// A Host sets how a run hosts the filter of FilterEncoded.
type Host struct {
	// Live is for an input without an end: silent keys are reported, and expired keys are forgotten.
	Live bool
	// Cells has the names of the runner's states that keys share, by hash. The names are the runner's keys. For
	// keys with few records, shared states cost less, and use a worker's memory. Default none: each key has its own
	// state.
	Cells []string
	// InProcess is for a runner in this process. If its account.Run carries a statestore.Memory, the filter stores
	// the states in it, and the runner stores none.
	InProcess bool
	// Resumed means that the runner has the Cells of a previous job. The filter reads all of them when the first
	// records arrive, counts their keys and logs the counts before the keys have outputs: see KeptKeys.
	Resumed bool
	// Migrate, with Resumed, converts states in Cells that were written with another configuration, as a
	// keyed.Migrator does. Default: such states are an error.
	Migrate bool
	// AtEnd is for an input with an end, in a run in one process with an account.Run. At the end, the filter
	// reports the keys that are silent at the time of the last observation of any key, and closes intervals without
	// events up to this time. Default: the end reports no silence.
	AtEnd bool
	// Continues is for AtEnd if another run continues the input: intervals that end after the last observation of any
	// key stay open. Default: they end with the input.
	Continues bool `json:"GoesOn"`
	// IgnoresWatermark, with AtEnd, is for a watermark that may pass records before they arrive: observations that
	// wait for earlier ones wait only for the end of the input. Default: the watermark also releases them.
	IgnoresWatermark bool
}

// stepConfig is the configuration of the steps of a filter.
type stepConfig struct {
	keyed.Config
	Host
}

// resumes reports whether cells have timers that a resumed run must set.
func (c *stepConfig) resumes() bool {
	return c.Live && (c.Silence != nil || c.InProcess && c.Expire > 0) || c.waits() || c.AtEnd
}

// waits reports whether observations can wait, for earlier ones or for the end of an interval. With AtEnd,
// intervals that do not wait for the watermark wait for the end of the input.
func (c *stepConfig) waits() bool {
	if c.Aggregate != nil {
		return !c.AtEnd || c.Aggregate.Watermark
	}
	return c.Order != keyed.Arrival && c.Lateness > 0 && !c.IgnoresWatermark
}

// A FilterOutput has the results of Filter.
type FilterOutput struct {
	// Estimates is a PCollection<KV<string, keyed.Estimate>> by key. It has one estimate for each observation that
	// the model accepts, at the event time of the observation, or at the epoch if the observation has no time.
	Estimates beam.PCollection
	// Alarms is a PCollection<keyed.AlertEvent>: alarms of estimates, reports that an episode is worse, and
	// silences. Beliefs are only in Estimates.
	Alarms beam.PCollection
	// Ends is a PCollection<keyed.AlertEvent>: values that are back to usual, and keys that report again after a
	// silence.
	Ends beam.PCollection
	// Rejected is a PCollection<keyed.Rejected> of the other observations. If a rejected observation is an alarm,
	// it also has an estimate: see keyed.KeyState.OutOfDomain.
	Rejected beam.PCollection
}

// An Option changes how Filter runs.
type Option func(*Host)

// Live is for an input without an end, whose watermark advances while no element arrives. A silent key raises an
// alarm once the watermark has passed the bound of keyed.Config.Silence, and a key that expires is forgotten. If
// the input ends, all keys are silent at its end.
func Live() Option { return func(h *Host) { h.Live = true } }

// Filter filters a collection in the global window. observe returns the key and the observation of an element. If
// the pipeline runs in other processes, observe must be registered in an init function by register.Function1x2; in
// this process it may also be a closure. If an element is a record of a log, such as a kafkaio.Record, its
// observation gets the log and the position of the record, unless observe sets keyed.Observation.Log. A state that
// was written with another configuration fails the pipeline.
//
// Filter panics if the configuration is invalid, if observe does not take the elements, or if the input is not in
// the global window. Use FilterParsed if observe can fail.
func Filter[T any](s beam.Scope, cfg keyed.Config, observe func(T) (string, keyed.Observation), col beam.PCollection, options ...Option) FilterOutput {
	return filterObserved(s, cfg, newHost(options), registerObserve("Filter", observe, withoutError(observe), col), col)
}

// FilterParsed is Filter with an observe that can fail. An element for which it returns an error is rejected, with
// the error as the reason. In other processes observe must be registered by register.Function1x3.
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
		Estimates: beam.ParDo(familyScope(s, cfg.Filter.Family), unpackEstimates, records),
		Alarms:    started,
		Ends:      ended,
		Rejected:  beam.Flatten(s, beam.ParDo(s, unpackRejected, early), late),
	}
}

// FilterEncoded is Filter for the elements of a source: the Decoder in decodes them, and the Encoder out encodes
// the results. col has elements of the type that the decoder takes, in the global window. FilterEncoded returns
// PCollections<[]byte>: records and alerts are chunks of the bytes that out appends, each with whole outputs;
// undecoded has the bytes that in rejects. late is a PCollection<keyed.Rejected> of late observations.
func FilterEncoded(s beam.Scope, cfg keyed.Config, host Host, in, out Registered, col beam.PCollection) (records, alerts, undecoded, late beam.PCollection) {
	step := stepConfig{cfg, host}
	_, err := keyed.NewEstimator(cfg)
	text := textOf("Filter", step, err)
	checkGlobal("Filter", "a filter's state", col)
	s = s.Scope("hafvf.Filter")
	if n := len(host.Cells); n > 0 {
		// A runner that resumes a job finds its steps by name. With another number of cells, the keys would not
		// find their states.
		s = s.Scope(fmt.Sprintf("%d cells", n))
	}
	blocks, undecoded := beam.ParDo2(s, &packFn{Config: text, Decoder: in}, col)
	if step.resumes() {
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

// textOf encodes the configuration of a transform as a text that is sent to the workers. It panics if err, the
// reason why the configuration is invalid, is not nil.
func textOf(transform string, cfg any, err error) string {
	text, failed := json.Marshal(cfg)
	if err := cmp.Or(err, failed); err != nil {
		panic("transforms." + transform + ": " + err.Error())
	}
	return string(text)
}

// checkGlobal panics if the input of a transform is not in the global window. spanning names the thing that spans
// windows.
func checkGlobal(transform, spanning string, col beam.PCollection) {
	if w := col.WindowingStrategy(); w.Fn.Kind != "GLO" {
		panic(fmt.Sprintf("transforms.%s: the input is in %v, but %s spans windows: use the global window", transform, w.Fn, spanning))
	}
}

// parseEstimator returns the estimator of a configuration that textOf encoded, and the configuration. The text
// preserves numbers, maps, and nil or empty lists.
func parseEstimator(text string) (est *keyed.Estimator, cfg stepConfig, err error) {
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return nil, cfg, err
	}
	cfg.OmitToday = cfg.OmitToday || cfg.Live
	est, err = keyed.NewEstimator(cfg.Config)
	return est, cfg, err
}
