package transforms

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/fleet"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/clock"
	"hafvf/internal/dofn"
	"hafvf/internal/domain"
	"hafvf/internal/series"
)

func init() {
	register.Function3x0((&noticeFn{}).ProcessElement)
	dofn.Register(func(f *noticeFn) any { return f.ProcessElement })
	register.Function2x0((&toFleetFn{}).ProcessElement)
	dofn.Register(func(f *toFleetFn) any { return f.ProcessElement })
	register.Function6x1((&encodeIncidentsFn{}).ProcessElement)
	dofn.Register(func(f *encodeIncidentsFn) any { return f.ProcessElement })
	account.Reporting[*encodeIncidentsFn]()
}

// IncidentsConfig is the configuration of Incidents.
type IncidentsConfig struct {
	Budget         time.Duration // as incidents.Config has it; so are Separators, By and MaxSinglePages
	Separators     string
	By             []string `json:",omitempty"`
	Labels         []string `json:",omitempty"` // that keys join, with a slash between them; none if a key may be a series
	MaxSinglePages int      `json:"Single,omitempty"`
	Zone           string   // an IANA name; empty for UTC
	// Lateness is how long the watermark is past the time of an alarm when the alarm comes, at
	// most: the lateness of the filter, and the length of its intervals. Alarms that come later
	// count by themselves. Default 0.
	Lateness time.Duration
	// AtEnd is for an input that ends: the alarms wait for its end, and are taken there all at
	// once. Default: they are taken as the watermark passes them.
	AtEnd bool
	// Ends is for an input that ends and has a watermark, of a run in one process with an account.Run: what waits at the end is
	// taken by the time of the last observation. Default: the input has no end.
	Ends bool
	// Digests are the lengths of time of which the alarms in no incident are listed, of
	// IncidentsEncoded. Default none.
	Digests []time.Duration
}

// Fleet is the configuration of the fleet of all keys. The error says what is wrong.
func (c IncidentsConfig) Fleet() (incidents.Config, error) {
	zone, err := domain.Zone(c.Zone)
	if err == nil && c.Lateness < 0 {
		err = fmt.Errorf("lateness %v is negative", c.Lateness)
	}
	own := incidents.Config{Budget: c.Budget, Separators: c.Separators, By: c.By, MaxSinglePages: c.MaxSinglePages, Zone: zone}
	if len(c.Labels) > 0 {
		own.Labels = func(key string) map[string]string { return series.Labels(key, c.Labels) }
	}
	return own, cmp.Or(err, own.Validate())
}

// Incidents takes a PCollection<KV<string, keyed.Estimate>> in the global window, as Filter
// returns it. It returns a PCollection<incidents.Event> of what the alarms of all keys have in
// common, see package incidents. All keys are one fleet, and one key of the runner: alarms are
// rare, and a task is enough for them.
//
// Incidents panics where the configuration is impossible, or the input is not in the global window.
func Incidents(s beam.Scope, cfg IncidentsConfig, estimates beam.PCollection) (events beam.PCollection) {
	notices := beam.ParDo(s, &noticeFn{}, estimates)
	return beam.ParDo(s, unpackEvents, IncidentsEncoded(s, cfg, Registered{Name: objects}, notices))
}

// IncidentsEncoded is Incidents for notices, which the encoder of FilterEncoded has appended with
// fleet.AppendNotices in place of alerts. It returns a PCollection<[]byte> of alerts, in chunks of what
// out, an IncidentEncoder that was registered, has appended: of every notice with an alert, and of
// incidents.
func IncidentsEncoded(s beam.Scope, cfg IncidentsConfig, out Registered, notices beam.PCollection) (alerts beam.PCollection) {
	_, err := cfg.Fleet()
	text := textOf("Incidents", cfg, err)
	checkGlobal("Incidents", "a fleet", notices)
	s = s.Scope("hafvf.Incidents")
	return beam.ParDo(s, &encodeIncidentsFn{
		Config: text, Encoder: out, State: state.MakeValueState[[]byte]("fleet"), Due: timers.InEventTime("due"),
	}, toFleet(s, notices))
}

// toFleet gives all notices one key. An empty one comes first: the step reads the state that a
// run takes over, and sets its timers.
func toFleet(s beam.Scope, notices beam.PCollection) beam.PCollection {
	return beam.Flatten(s, beam.ParDo(s, &toFleetFn{}, notices), beam.ParDo(s, &toFleetFn{}, beam.Impulse(s)))
}

type toFleetFn struct{}

func (fn *toFleetFn) ProcessElement(notices []byte, emit func(string, []byte)) {
	emit("fleet", notices)
}

// noticeFn makes notices of the estimates that say something of their keys.
type noticeFn struct{}

func (fn *noticeFn) ProcessElement(key string, e keyed.Estimate, emit func([]byte)) {
	if b := fleet.AppendNotices(nil, key, &e, e.Alerts(key)); len(b) > 0 {
		emit(b)
	}
}

// An IncidentEncoder turns alerts, and what becomes of incidents, into bytes.
type IncidentEncoder interface {
	// Alert appends what is to be written of an alert of a key. incident is the id of the
	// incident that the alert belongs to, empty if it belongs to none. keys is the largest number of
	// keys that the fleet has had.
	Alert(to *Encoded, key string, t keyed.AlertEvent, incident string, keys int)
	// Single appends what is to be written of an alarm in no incident that is a page. keys is as Alert's.
	Single(to *Encoded, key string, t keyed.AlertEvent, keys int)
	// Assigned is called when an alarm comes to belong to an incident, before its Alert, and when
	// that becomes another one.
	Assigned(a incidents.Assignment)
	// Incident appends what is to be written of an incident.
	Incident(to *Encoded, e *incidents.Event)
	// Open is called with an incident that the run before has left open.
	Open(e *incidents.Event)
	// Digest appends what is to be written of the alarms in no incident. keys is as Alert's.
	Digest(to *Encoded, d *incidents.Digest, keys int)
}

// encodeIncidentsFn hosts a fleet, and emits what an encoder makes of alerts and incidents.
type encodeIncidentsFn struct {
	Config  string
	Encoder Registered
	State   state.Value[[]byte]
	Due     timers.EventTime

	cfg     IncidentsConfig
	fleet   fleet.Config
	account *account.Run
	encoder IncidentEncoder
	encoded Encoded

	// Of a bundle:
	in     state.Provider // nil until something came
	of     *fleet.Fleet
	isNew  bool // to the runner
	alerts chunk
	emit   func([]byte)

	// written is the state of the fleet, if it is that of the bundle before: a large fleet is not
	// decoded for each bundle.
	written []byte
}

func (fn *encodeIncidentsFn) Setup(ctx context.Context) (err error) {
	fn.account, fn.encoder = account.From(ctx), registered[IncidentEncoder](ctx, fn.Encoder)
	if err := json.Unmarshal([]byte(fn.Config), &fn.cfg); err != nil {
		return err
	}
	fn.fleet.Digests = fn.cfg.Digests
	fn.fleet.Config, err = fn.cfg.Fleet()
	return err
}

func (fn *encodeIncidentsFn) StartBundle(emit func([]byte)) {
	if fn.in != nil {
		fn.written = nil // the bundle before has failed
	}
	fn.in, fn.isNew, fn.emit = nil, false, emit
}

func (fn *encodeIncidentsFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, _ string, notices []byte, _ func([]byte)) error {
	if err := fn.read(sp); err != nil {
		return err
	}
	if err := fn.of.Process(notices); err != nil {
		return err
	}
	fn.schedule(tp)
	return nil
}

// schedule sets timers for the next time at which there is something to do, and for the last
// alarm that waits: a watermark that passes many saves the timers between.
func (fn *encodeIncidentsFn) schedule(tp timers.Provider) {
	if fn.cfg.AtEnd || fn.cfg.Ends {
		fn.Due.Set(tp, mtime.EndOfGlobalWindowTime.ToTime(), timers.WithTag("end"))
	}
	if fn.cfg.AtEnd || fn.account.AwaitsEnd() {
		return
	}
	next, last := fn.of.Next()
	set := func(at time.Time, tag string) {
		fn.Due.Set(tp, fn.account.NextStep(wholeMillis(at.Add(fn.cfg.Lateness))), timers.WithTag(tag))
	}
	if !next.IsZero() {
		set(next, "first")
	}
	if last.After(next) {
		set(last, "last")
	}
}

// OnTimer takes the alarms that the watermark has passed.
func (fn *encodeIncidentsFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, _ string, _ timers.Context, _ func([]byte)) error {
	ends := ts >= mtime.EndOfGlobalWindowTime
	if fn.account.Suspended() || !ends && fn.account.AwaitsEnd() {
		return nil
	}
	err := fn.read(sp)
	switch {
	case err != nil:
		return err
	case ends:
		err = fn.of.End(fn.account.Latest())
	default:
		err = fn.of.Advance(clock.Later(ts.ToTime(), fn.account.Watermark()).Add(-fn.cfg.Lateness))
	}
	if err == nil && !fn.cfg.AtEnd && !ends {
		fn.schedule(tp)
	}
	return err
}

// read reads the state of the fleet, at first that of the run before. One that cannot be read must
// not stop the run, as that of a key does not.
func (fn *encodeIncidentsFn) read(sp state.Provider) error {
	if fn.in != nil {
		return nil
	}
	b, found, err := fn.State.Read(sp)
	if err != nil {
		return err
	}
	fn.in = sp
	if found && fn.written != nil && bytes.Equal(b, fn.written) {
		return nil
	}
	fn.written, fn.isNew = nil, !found
	if !found {
		if b, err = fn.account.Restore(statestore.FleetKey); err == nil && b == nil {
			fn.of, err = fleet.New(fn.fleet, fn)
			return err
		}
	}
	if err != nil {
		b = nil
	}
	var reset error
	fn.of, reset, err = fleet.Restore(fn.fleet, b, fn)
	if errors.Is(reset, keyed.ErrNewer) {
		return fmt.Errorf("the state of incidents cannot be read: %w", reset)
	}
	if reset != nil {
		slog.Warn("incidents begin anew: their state cannot be read, or is of other groups", "reason", reset)
	}
	if !found && err == nil {
		for _, e := range fn.of.Open() {
			fn.encoder.Open(&e)
		}
	}
	return err
}

// FinishBundle stores the state of the fleet, and reports what was done.
func (fn *encodeIncidentsFn) FinishBundle(func([]byte)) error {
	fn.alerts.flush(fn.emit)
	if fn.in != nil && (fn.of.Changed() || fn.isNew) {
		b, _ := fn.of.AppendBinary(nil) // which never fails
		if err := fn.State.Write(fn.in, b); err != nil {
			return err
		}
		fn.written = b
		fn.account.Report(account.Report{States: []account.EncodedState{{Key: statestore.FleetKey, State: b}}})
	}
	fn.in = nil
	return nil
}

func (fn *encodeIncidentsFn) Alert(key string, t keyed.AlertEvent, incident string) {
	fn.encoder.Alert(&fn.encoded, key, t, incident, fn.of.MaxKeys())
	fn.put()
}

func (fn *encodeIncidentsFn) Single(key string, t keyed.AlertEvent) {
	fn.encoder.Single(&fn.encoded, key, t, fn.of.MaxKeys())
	fn.put()
}

func (fn *encodeIncidentsFn) Assigned(a incidents.Assignment) { fn.encoder.Assigned(a) }

func (fn *encodeIncidentsFn) Incident(e *incidents.Event) {
	fn.encoder.Incident(&fn.encoded, e)
	fn.put()
}

func (fn *encodeIncidentsFn) Digest(d *incidents.Digest) {
	fn.encoder.Digest(&fn.encoded, d, fn.of.MaxKeys())
	fn.put()
}

// put adds what was encoded to the chunk.
func (fn *encodeIncidentsFn) put() {
	fn.alerts.add(fn.encoded.Alerts, fn.emit)
	fn.encoded.reset()
}
