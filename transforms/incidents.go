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
	Budget         time.Duration // Budget, Separators, By and Single are those of incidents.Config
	Separators     string
	By             []string `json:",omitempty"`
	Labels         []string `json:",omitempty"` // names of the parts of a key, which slashes separate; none if a key can be a series
	MaxSinglePages int      `json:"Single,omitempty"`
	Zone           string   // IANA name; empty for UTC
	// Lateness is the maximum time by which the watermark has passed the time of an alarm when the alarm arrives:
	// the lateness of the filter plus the length of its intervals. Alarms that arrive later are in no incident.
	// Default 0.
	Lateness time.Duration
	// AtEnd is for an input with an end: all alarms wait for the end, and are processed then. Default: they are
	// processed when the watermark passes them.
	AtEnd bool
	// Ends is for an input with an end and a watermark, in a run in one process with an account.Run: alarms that
	// wait at the end are processed up to the time of the last observation. Default: the input has no end.
	Ends      bool
	OmitToday bool `json:",omitempty"` // as in incidents.Config
	// Digests are the periods of the digests, which list alarms outside incidents, for IncidentsEncoded. Default
	// none.
	Digests []time.Duration
}

// Fleet returns the configuration of the fleet of all keys, or the reason why c is invalid.
func (c IncidentsConfig) Fleet() (incidents.Config, error) {
	zone, err := domain.Zone(c.Zone)
	if err == nil && c.Lateness < 0 {
		err = fmt.Errorf("lateness %v is negative", c.Lateness)
	}
	fleetConfig := incidents.Config{Budget: c.Budget, Separators: c.Separators, By: c.By, MaxSinglePages: c.MaxSinglePages, Zone: zone, OmitToday: c.OmitToday}
	if len(c.Labels) > 0 {
		fleetConfig.Labels = func(key string) map[string]string { return series.Labels(key, c.Labels) }
	}
	return fleetConfig, cmp.Or(err, fleetConfig.Validate())
}

// Incidents takes a PCollection<KV<string, keyed.Estimate>> in the global window, as Filter returns it. It returns
// a PCollection<incidents.Event> of the incidents that group the alarms of all keys, see package incidents. All
// keys belong to one fleet, which is one key of the runner: alarms are rare, and one task can process them.
//
// Incidents panics if the configuration is invalid, or if the input is not in the global window.
func Incidents(s beam.Scope, cfg IncidentsConfig, estimates beam.PCollection) (events beam.PCollection) {
	notices := beam.ParDo(s, &noticeFn{}, estimates)
	return beam.ParDo(s, unpackEvents, IncidentsEncoded(s, cfg, Registered{Name: objects}, notices))
}

// IncidentsEncoded is Incidents for notices, which the encoder of FilterEncoded appends with fleet.AppendNotices
// instead of alerts. It returns a PCollection<[]byte> of alerts: chunks of the bytes that out, a registered
// IncidentEncoder, appends for each notice with an alert and for incidents.
func IncidentsEncoded(s beam.Scope, cfg IncidentsConfig, out Registered, notices beam.PCollection) (alerts beam.PCollection) {
	_, err := cfg.Fleet()
	text := textOf("Incidents", cfg, err)
	checkGlobal("Incidents", "a fleet", notices)
	s = s.Scope("hafvf.Incidents")
	return beam.ParDo(s, &encodeIncidentsFn{
		Config: text, Encoder: out, State: state.MakeValueState[[]byte]("fleet"), Due: timers.InEventTime("due"),
	}, toFleet(s, notices))
}

// toFleet gives all notices one key. It adds an empty notice, for which the step reads the state of the previous
// run and sets its timers.
func toFleet(s beam.Scope, notices beam.PCollection) beam.PCollection {
	return beam.Flatten(s, beam.ParDo(s, &toFleetFn{}, notices), beam.ParDo(s, &toFleetFn{}, beam.Impulse(s)))
}

type toFleetFn struct{}

func (fn *toFleetFn) ProcessElement(notices []byte, emit func(string, []byte)) {
	emit("fleet", notices)
}

// noticeFn makes notices of the estimates with alerts or other news about their keys.
type noticeFn struct{}

func (fn *noticeFn) ProcessElement(key string, e keyed.Estimate, emit func([]byte)) {
	if b := fleet.AppendNotices(nil, key, &e, e.Alerts(key)); len(b) > 0 {
		emit(b)
	}
}

// An IncidentEncoder turns alerts and the events of incidents into bytes.
type IncidentEncoder interface {
	// Alert appends the output for an alert of a key. incident is the ID of the incident that the alert belongs to,
	// or empty. keys is the maximum number of keys that the fleet has had.
	Alert(dst *Encoded, key string, t keyed.AlertEvent, incident string, keys int)
	// Single appends the output for an alarm outside incidents that is a page, or with follows for a later report of the
	// episode of a page. keys is as in Alert.
	Single(dst *Encoded, key string, t keyed.AlertEvent, follows bool, keys int)
	// Assigned is called when an alarm is assigned to an incident, before its Alert, and when the incident of an
	// alarm changes.
	Assigned(a incidents.Assignment)
	// Incident appends the output for an event of an incident.
	Incident(dst *Encoded, e *incidents.Event)
	// Open is called for an incident that the previous run left open.
	Open(e *incidents.Event)
	// Digest appends the output for a digest of alarms outside incidents. keys is as in Alert.
	Digest(dst *Encoded, d *incidents.Digest, keys int)
}

// encodeIncidentsFn runs a fleet, and emits the encoded alerts and incidents.
type encodeIncidentsFn struct {
	Config  string
	Encoder Registered
	State   state.Value[[]byte]
	Due     timers.EventTime

	cfg         IncidentsConfig
	fleetConfig fleet.Config
	account     *account.Run
	encoder     IncidentEncoder
	encoded     Encoded

	// The fields below belong to a bundle.
	provider state.Provider // nil before the bundle's first call
	fleet    *fleet.Fleet
	isNew    bool // the runner has no state of the fleet
	alerts   chunk
	emit     func([]byte)

	// written is the state that the last bundle wrote, or nil. While the runner still has this state, the fleet
	// does not need to be decoded again.
	written []byte
}

func (fn *encodeIncidentsFn) Setup(ctx context.Context) (err error) {
	fn.account, fn.encoder = account.From(ctx), registered[IncidentEncoder](ctx, fn.Encoder)
	if err := json.Unmarshal([]byte(fn.Config), &fn.cfg); err != nil {
		return err
	}
	fn.fleetConfig.Digests = fn.cfg.Digests
	fn.fleetConfig.Config, err = fn.cfg.Fleet()
	return err
}

func (fn *encodeIncidentsFn) StartBundle(emit func([]byte)) {
	if fn.provider != nil {
		fn.written = nil // the previous bundle has failed
	}
	fn.provider, fn.isNew, fn.emit = nil, false, emit
}

func (fn *encodeIncidentsFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, _ string, notices []byte, _ func([]byte)) error {
	if err := fn.read(sp); err != nil {
		return err
	}
	if err := fn.fleet.Process(notices); err != nil {
		return err
	}
	fn.schedule(tp)
	return nil
}

// schedule sets timers for the next time at which the fleet has something to do, and for the last waiting alarm. If
// the watermark passes several times at once, the timers between are not needed.
func (fn *encodeIncidentsFn) schedule(tp timers.Provider) {
	if fn.cfg.AtEnd || fn.cfg.Ends {
		fn.Due.Set(tp, mtime.EndOfGlobalWindowTime.ToTime(), timers.WithTag("end"))
	}
	if fn.cfg.AtEnd || fn.account.AwaitsEnd() {
		return
	}
	next, last := fn.fleet.Next()
	set := func(t time.Time, tag string) {
		fn.Due.Set(tp, fn.account.NextStep(wholeMillis(t.Add(fn.cfg.Lateness))), timers.WithTag(tag))
	}
	if !next.IsZero() {
		set(next, "first")
	}
	if last.After(next) {
		set(last, "last")
	}
}

// OnTimer processes the alarms that the watermark has passed.
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
		err = fn.fleet.End(fn.account.Latest())
	default:
		err = fn.fleet.Advance(clock.Later(ts.ToTime(), fn.account.Watermark()).Add(-fn.cfg.Lateness))
	}
	if err == nil && !fn.cfg.AtEnd && !ends {
		fn.schedule(tp)
	}
	return err
}

// read reads the state of the fleet, at first that of the previous run. A state that cannot be read resets the
// fleet: like the state of a key, it must not stop the run. A state of a newer version is an error.
func (fn *encodeIncidentsFn) read(sp state.Provider) error {
	if fn.provider != nil {
		return nil
	}
	b, found, err := fn.State.Read(sp)
	if err != nil {
		return err
	}
	fn.provider = sp
	if found && fn.written != nil && bytes.Equal(b, fn.written) {
		return nil
	}
	fn.written, fn.isNew = nil, !found
	var unreadable, reset error
	if !found {
		if b, unreadable = fn.account.Restore(statestore.FleetKey); unreadable != nil {
			b = nil
		} else if b == nil {
			fn.fleet, err = fleet.New(fn.fleetConfig, fn)
			return err
		}
	}
	fn.fleet, reset, err = fleet.Restore(fn.fleetConfig, b, fn)
	reset = cmp.Or(unreadable, reset)
	if errors.Is(reset, keyed.ErrNewer) {
		return fmt.Errorf("the state of incidents cannot be read: %w", reset)
	}
	if reset != nil {
		slog.Warn("incidents were reset: their state cannot be read, or has other groups", "reason", reset)
	}
	if !found && err == nil {
		for _, e := range fn.fleet.Open() {
			fn.encoder.Open(&e)
		}
	}
	return err
}

// FinishBundle stores the state of the fleet and reports it to the account.
func (fn *encodeIncidentsFn) FinishBundle(func([]byte)) error {
	fn.alerts.flush(fn.emit)
	if fn.provider != nil && (fn.fleet.Changed() || fn.isNew) {
		b, _ := fn.fleet.AppendBinary(nil) // never fails
		if err := fn.State.Write(fn.provider, b); err != nil {
			return err
		}
		fn.written = b
		fn.account.Report(account.Report{States: []account.EncodedState{{Key: statestore.FleetKey, State: b}}})
	}
	fn.provider = nil
	return nil
}

func (fn *encodeIncidentsFn) Alert(key string, t keyed.AlertEvent, incident string) {
	fn.encoder.Alert(&fn.encoded, key, t, incident, fn.fleet.MaxKeys())
	fn.put()
}

func (fn *encodeIncidentsFn) Single(key string, t keyed.AlertEvent, follows bool) {
	fn.encoder.Single(&fn.encoded, key, t, follows, fn.fleet.MaxKeys())
	fn.put()
}

func (fn *encodeIncidentsFn) Assigned(a incidents.Assignment) { fn.encoder.Assigned(a) }

func (fn *encodeIncidentsFn) Incident(e *incidents.Event) {
	fn.encoder.Incident(&fn.encoded, e)
	fn.put()
}

func (fn *encodeIncidentsFn) Digest(d *incidents.Digest) {
	fn.encoder.Digest(&fn.encoded, d, fn.fleet.MaxKeys())
	fn.put()
}

// put adds the encoded bytes to the chunk.
func (fn *encodeIncidentsFn) put() {
	fn.alerts.add(fn.encoded.Alerts, fn.emit)
	fn.encoded.reset()
}
