package transforms

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/stored"
	"hafvf/internal/account"
	"hafvf/internal/compact"
	"hafvf/internal/dofn"
	"hafvf/internal/domain"
)

func init() {
	register.Function3x0((&noticeFn{}).ProcessElement)
	dofn.Register(func(f *noticeFn) any { return f.ProcessElement })
	register.Function2x0((&toFleetFn{}).ProcessElement)
	dofn.Register(func(f *toFleetFn) any { return f.ProcessElement })
	register.Function6x1((&encodeIncidentsFn{}).ProcessElement)
	dofn.Register(func(f *encodeIncidentsFn) any { return f.ProcessElement })
}

// IncidentsConfig is the configuration of Incidents.
type IncidentsConfig struct {
	Budget     time.Duration // as incidents.Config has it; so are Separators
	Separators string
	Zone       string // an IANA name; empty for UTC
	// Lateness is how long the watermark is past the time of an alarm when the alarm comes, at
	// most: the lateness of the filter, and the length of its intervals. Alarms that come later
	// count by themselves. Default 0.
	Lateness time.Duration
	// AtEnd is for an input that ends: the alarms wait for its end, and are taken there all at
	// once. Default: they are taken as the watermark passes them.
	AtEnd bool
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
	own := incidents.Config{Budget: c.Budget, Separators: c.Separators, Zone: zone}
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
// AppendNotice in place of alerts. It returns a PCollection<[]byte> of alerts, in chunks of what
// out, an IncidentEncoder that was registered, has appended: of every notice with an alert, and of
// incidents.
func IncidentsEncoded(s beam.Scope, cfg IncidentsConfig, out Registered, notices beam.PCollection) (alerts beam.PCollection) {
	s, text := beginIncidents(s, cfg, notices)
	return beam.ParDo(s, &encodeIncidentsFn{fleetNode: fleetNode{Config: text}, Encoder: out, State: state.MakeValueState[[]byte](fleetState), Due: timers.InEventTime("due")}, toFleet(s, notices))
}

// fleetState is the name of the state of a fleet.
const fleetState = "fleet"

func beginIncidents(s beam.Scope, cfg IncidentsConfig, col beam.PCollection) (beam.Scope, string) {
	if _, err := cfg.Fleet(); err != nil {
		panic("transforms.Incidents: " + err.Error())
	}
	if w := col.WindowingStrategy(); w.Fn.Kind != "GLO" {
		panic(fmt.Sprintf("transforms.Incidents: the input is in %v; a fleet spans windows: take the global one", w.Fn))
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		panic("transforms.Incidents: " + err.Error())
	}
	return s.Scope("hafvf.Incidents"), string(text)
}

// toFleet gives all notices one key. An empty one comes first: the step reads the state that a
// run takes over, and sets its timers. A run in this process hands it over, as a record more.
func toFleet(s beam.Scope, notices beam.PCollection) beam.PCollection {
	return beam.Flatten(s, beam.ParDo(s, &toFleetFn{}, notices), beam.ParDo(s, &toFleetFn{Resumes: true}, beam.Impulse(s)))
}

type toFleetFn struct {
	Resumes bool // it takes an impulse
}

func (fn *toFleetFn) resumes() bool { return fn.Resumes }

func (fn *toFleetFn) ProcessElement(notices []byte, emit func(string, []byte)) {
	emit("fleet", notices)
}

// noticeFn makes notices of the estimates that say something of their keys.
type noticeFn struct{}

func (fn *noticeFn) ProcessElement(key string, e keyed.Estimate, emit func([]byte)) {
	if b, n := AppendNotices(nil, key, &e); n > 0 {
		emit(b)
	}
}

// AppendNotices appends what Incidents has to know of an estimate, and returns how many notices
// that are.
func AppendNotices(b []byte, key string, e *keyed.Estimate) (_ []byte, n int) {
	if e.Pace != (keyed.Pace{}) {
		b = AppendNotice(b, key, keyed.Told{Of: e}, e.Pace)
		n++
	}
	for _, t := range e.Alerts(key) {
		b = AppendNotice(b, key, t, keyed.Pace{})
		n++
	}
	return b, n
}

// forgotten is the role of a notice that its key is forgotten.
const forgotten = keyed.BesideAlarm + 1

// AppendNotice appends what Incidents has to know of a key: an alert, or none where t has no Alert,
// and the pace of the key, or zero. Of an alert only that is kept which its record has.
func AppendNotice(b []byte, key string, t keyed.Told, pace keyed.Pace) []byte {
	n := append(compact.AppendFlags(nil, t.Alert != nil), byte(t.Role))
	n = compact.AppendString(n, key)
	n = compact.AppendTime(n, t.Of.Time)
	n = binary.AppendVarint(binary.AppendVarint(n, int64(pace.Step)), int64(pace.Budget))
	if t.Alert != nil {
		n, _ = t.AppendBinary(n) // which never fails
	}
	return compact.AppendString(b, string(n))
}

// AppendForgotten appends that a key was forgotten.
func AppendForgotten(b []byte, key string) []byte {
	return AppendNotice(b, key, keyed.Told{Of: &keyed.Estimate{}, Role: forgotten}, keyed.Pace{})
}

// A notice is what AppendNotice has appended.
type notice struct {
	key  string
	at   time.Time
	pace keyed.Pace
	told []byte // nil if there is no alert
	role keyed.Role
}

// eachNotice calls f with the notices of b.
func eachNotice(b []byte, f func(notice) error) error {
	all := compact.Reader{B: b}
	for len(all.B) > 0 {
		r := compact.Reader{B: []byte(all.Text())}
		var n notice
		alerts, _, _ := r.Flags()
		n.role = keyed.Role(r.Byte())
		n.key, n.at = r.Text(), r.Time()
		n.pace = keyed.Pace{Step: time.Duration(r.Varint()), Budget: time.Duration(r.Varint())}
		if alerts {
			n.told = r.B
		}
		if all.Bad || r.Bad {
			return compact.ErrCut
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// An IncidentEncoder turns alerts, and what becomes of incidents, into bytes.
type IncidentEncoder interface {
	// Alert appends what is to be written of an alert of a key. incident is the id of the
	// incident that the alert belongs to, empty if it belongs to none.
	Alert(to *Encoded, key string, t keyed.Told, incident string)
	// Incident appends what is to be written of an incident.
	Incident(to *Encoded, e *incidents.Event)
	// Digest appends what is to be written of the alarms in no incident.
	Digest(to *Encoded, d *incidents.Digest)
}

var incidentEncoders registry[IncidentEncoder]

// RegisterIncidentEncoder is RegisterDecoder for an IncidentEncoder.
func RegisterIncidentEncoder(name string, of func(ctx context.Context, setting string) IncidentEncoder) {
	incidentEncoders.add(name, of)
}

// A fleetNode has the alarms of all keys wait for the watermark, and makes incidents of them.
type fleetNode struct {
	Config string

	cfg     IncidentsConfig
	fleet   incidents.Config
	account *account.Run
	state   *state.Value[[]byte]
	due     *timers.EventTime
	awaits  awaiting

	// Of a bundle:
	in             state.Provider // nil until something came
	of             *incidents.Fleet
	held           map[alarmName]heldAlert // until their alarms are taken
	digests        incidents.Digests
	changed        bool // and the state has to be written
	taken, emitted int

	// written is the state that of, held and digests have, if they are those of the bundle before:
	// a large fleet is not decoded for each bundle.
	written []byte
}

// An alarmName names an alarm.
type alarmName struct{ key, id, kind string }

func (n alarmName) compare(o alarmName) int {
	return cmp.Or(cmp.Compare(n.key, o.key), cmp.Compare(n.id, o.id), cmp.Compare(n.kind, o.kind))
}

type heldAlert struct {
	at   time.Time
	told []byte
}

func (fn *fleetNode) setUp(ctx context.Context, to *state.Value[[]byte], due *timers.EventTime) (err error) {
	fn.account, fn.state, fn.due = account.From(ctx), to, due
	if err := json.Unmarshal([]byte(fn.Config), &fn.cfg); err != nil {
		return err
	}
	fn.fleet, err = fn.cfg.Fleet()
	return err
}

func (fn *fleetNode) start() {
	if fn.in != nil {
		fn.written = nil // the bundle before has failed
	}
	fn.in, fn.changed, fn.taken, fn.emitted = nil, false, 0, 0
}

// A teller is told of what happens.
type teller interface {
	alert(key string, t keyed.Told, incident string)
	event(*incidents.Event)
	digest(*incidents.Digest)
}

// take hears notices. Beliefs, and what has no time, go on at once.
func (fn *fleetNode) take(sp state.Provider, tp timers.Provider, notices []byte, tell teller) error {
	if err := fn.read(sp); err != nil {
		return err
	}
	if len(notices) == 0 {
		fn.taken++ // see toFleet
	}
	err := eachNotice(notices, func(n notice) error {
		fn.taken++
		if n.role == forgotten {
			fn.changed = true
			return fn.forget(n.key, tell)
		}
		if n.pace != (keyed.Pace{}) && fn.of.Register(n.key, n.at, n.pace.Step, n.pace.Budget) {
			fn.changed = true
		}
		if n.told == nil {
			return nil
		}
		t, err := keyed.ParseTold(n.told)
		if err != nil {
			return err
		}
		if t.Role = n.role; t.Role != keyed.Decision || t.Of.Time.IsZero() {
			tell.alert(n.key, t, "")
			return nil
		}
		fn.hold(alarmName{n.key, t.Of.ID, t.Kind}, heldAlert{t.Of.Time, n.told}, t)
		return nil
	})
	if err == nil {
		fn.schedule(tp)
	}
	return err
}

// forget takes a key out of the fleet. What was to be told of the key before is told now: nothing
// of it waits for the watermark any more.
func (fn *fleetNode) forget(key string, tell teller) error {
	fn.of.Forget(key)
	fn.digests.Forget(func(k string) bool { return k == key })
	return fn.release(func(name alarmName, _ heldAlert) bool { return name.key == key }, tell)
}

// release tells of the alerts that wait, as far as they are due, without an incident.
func (fn *fleetNode) release(due func(alarmName, heldAlert) bool, tell teller) error {
	var names []alarmName
	for name, h := range fn.held {
		if due(name, h) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b alarmName) int { return cmp.Or(fn.held[a].at.Compare(fn.held[b].at), a.compare(b)) })
	for _, name := range names {
		t, err := keyed.ParseTold(fn.held[name].told)
		if err != nil {
			return err
		}
		delete(fn.held, name)
		tell.alert(name.key, t, "")
	}
	return nil
}

// schedule sets timers for the next time at which there is something to do, and for the last
// alarm that waits: a watermark that passes many saves the timers between.
func (fn *fleetNode) schedule(tp timers.Provider) {
	if fn.cfg.AtEnd {
		fn.due.Set(tp, mtime.EndOfGlobalWindowTime.ToTime(), timers.WithTag("end"))
		return
	}
	next, some := fn.of.Next()
	if end, open := fn.digests.Next(); open && (!some || end.Before(next)) {
		next, some = end, true
	}
	if first := fn.earliest(); !first.IsZero() && (!some || first.Before(next)) {
		next, some = first, true
	}
	if !some {
		return
	}
	set := func(at time.Time, tag string) {
		at = wholeMillis(at.Add(fn.cfg.Lateness))
		fn.due.Set(tp, at, timers.WithTag(tag))
		fn.awaits.set(fn.account, timerName{tag: tag}, at)
	}
	set(next, "first")
	if last := fn.latest(); last.After(next) {
		set(last, "last")
	}
}

// earliest is the time of the earliest alert that waits; zero where there is none.
func (fn *fleetNode) earliest() (first time.Time) {
	for _, h := range fn.held {
		if first.IsZero() || h.at.Before(first) {
			first = h.at
		}
	}
	return first
}

// latest is the time of the latest alert that waits; zero where there is none.
func (fn *fleetNode) latest() (last time.Time) {
	for _, h := range fn.held {
		if h.at.After(last) {
			last = h.at
		}
	}
	return last
}

// wakes takes the alarms that the watermark has passed.
func (fn *fleetNode) wakes(ts beam.EventTime, sp state.Provider, tp timers.Provider, tag string, tell teller) error {
	fn.awaits.fired(timerName{tag: tag})
	if fn.account.Suspended() {
		return nil // what waits goes on waiting in the next run
	}
	if err := fn.read(sp); err != nil {
		return err
	}
	fn.changed = true
	watermark := later(ts.ToTime(), fn.account.Watermark()).Add(-fn.cfg.Lateness)
	ends := ts >= mtime.EndOfGlobalWindowTime
	if ends {
		// Incidents of the last minutes stay open: nothing is known of the time after them.
		watermark = fn.account.Latest()
		if last := fn.latest(); last.After(watermark) {
			watermark = last
		}
	}
	// What a digest has does not depend on how far the watermark jumps: it closes before later
	// alarms are taken, which may be what opens it.
	for {
		to := watermark
		end, open := fn.digests.Next()
		if waits := fn.earliest(); !open && !waits.IsZero() {
			end, open = fn.digests.EndOf(waits)
		}
		closes := open && !end.After(watermark)
		if closes {
			to = end.Add(-time.Nanosecond)
		}
		if err := fn.advance(to, tell); err != nil {
			return err
		}
		if !closes {
			break
		}
		fn.closeDigests(end, false, tell)
	}
	if ends {
		fn.closeDigests(watermark, true, tell)
	}
	if !fn.cfg.AtEnd {
		fn.schedule(tp)
	}
	return nil
}

// advance takes the alarms up to a watermark.
func (fn *fleetNode) advance(watermark time.Time, tell teller) error {
	step := fn.of.Advance(watermark)
	for _, a := range step.Assigned {
		name := alarmName{a.Key, a.ID, a.Kind}
		h, waits := fn.held[name]
		if !waits { // it is told, and belongs to an incident that was found later
			fn.digests.Note(incidents.Alarm{ID: a.ID, Key: a.Key, Kind: a.Kind}, a.Incident)
			continue
		}
		delete(fn.held, name)
		t, err := keyed.ParseTold(h.told)
		if err != nil {
			return err
		}
		fn.digests.Note(incidents.Alarm{ID: a.ID, Key: a.Key, Kind: a.Kind, Time: h.at, Score: t.Score, Size: t.Size}, a.Incident)
		tell.alert(a.Key, t, a.Incident)
	}
	err := fn.release(func(name alarmName, h heldAlert) bool {
		return name.kind == keyed.RecoveredAlarm && !h.at.After(watermark)
	}, tell)
	if err != nil {
		return err
	}
	for _, e := range Together(step.Events) {
		tell.event(&e)
	}
	return nil
}

func (fn *fleetNode) closeDigests(by time.Time, all bool, tell teller) {
	for _, d := range fn.digests.Close(by, all) {
		tell.digest(&d)
	}
}

// Together makes one event of those that an incident has at one time, as keys that alarm together
// have it grow several times. The watermark passes them together.
func Together(all []incidents.Event) (told []incidents.Event) {
	last := map[string]int{} // in told, by id
	for _, e := range all {
		i, seen := last[e.ID]
		if seen && e.State == incidents.Update && told[i].Time.Equal(e.Time) && told[i].State != incidents.Merged {
			e.State, e.Pages = told[i].State, e.Pages || told[i].Pages
			told[i] = e
			continue
		}
		last[e.ID] = len(told)
		told = append(told, e)
	}
	return told
}

// read reads the state of the fleet, at first that of the run before.
func (fn *fleetNode) read(sp state.Provider) error {
	if fn.in != nil {
		return nil
	}
	b, found, err := fn.state.Read(sp)
	if err != nil {
		return err
	}
	fn.in = sp
	if found && fn.written != nil && bytes.Equal(b, fn.written) {
		return nil
	}
	fn.written = nil
	if !found {
		fn.changed = true // at least it is new to the runner
		if b, err = fn.account.Restore(stored.FleetKey); err == nil && b == nil {
			return fn.begin()
		}
	}
	if err != nil {
		b = nil
	}
	return fn.restore(b)
}

// restore makes the fleet of a state. One that cannot be read must not stop the run, as that of a
// key does not: incidents begin anew, with the alarms that wait.
func (fn *fleetNode) restore(b []byte) error {
	fleet, err := fn.decode(b)
	if err == nil {
		if fn.of, err = incidents.Restore(fn.fleet, fleet); err == nil {
			return nil
		}
	}
	slog.Warn("incidents begin anew: their state cannot be read, or is of other separators", "reason", err)
	held := fn.held
	if err := fn.begin(); err != nil {
		return err
	}
	for name, h := range held {
		t, err := keyed.ParseTold(h.told)
		if err != nil {
			return err
		}
		fn.hold(name, h, t)
	}
	return nil
}

// hold has an alarm wait, unless it is a repeat, which is told or is held already. The end of an
// alarm waits as well, so as not to come before it.
func (fn *fleetNode) hold(name alarmName, h heldAlert, t keyed.Told) {
	if name.kind == keyed.RecoveredAlarm || fn.of.Add(incidents.Alarm{ID: name.id, Key: name.key, Kind: name.kind, Time: h.at, Score: t.Score, Size: t.Size}) {
		fn.held[name] = h
		fn.changed = true
	}
}

// begin makes a fleet without keys.
func (fn *fleetNode) begin() (err error) {
	fn.held, fn.digests = map[alarmName]heldAlert{}, incidents.NewDigests(fn.cfg.Digests, fn.fleet.Zone)
	fn.of, err = incidents.New(fn.fleet)
	return err
}

// decode reads what encode wrote, and returns the state of the fleet itself.
func (fn *fleetNode) decode(b []byte) (fleet []byte, err error) {
	r := compact.Reader{B: b}
	fn.held, fn.digests = nil, incidents.NewDigests(fn.cfg.Digests, fn.fleet.Zone)
	fleet, held := readHeld(&r)
	fn.digests.Read(&r)
	if r.Bad || len(r.B) > 0 {
		return nil, compact.ErrCut
	}
	fn.held = held
	return fleet, nil
}

func readHeld(r *compact.Reader) (fleet []byte, held map[alarmName]heldAlert) {
	fleet = []byte(r.Text())
	held = map[alarmName]heldAlert{}
	for range r.Count(5) {
		name := alarmName{r.Text(), r.Text(), r.Text()}
		held[name] = heldAlert{r.Time(), []byte(r.Text())}
	}
	return fleet, held
}

// ForgetInFleet returns the state of a fleet, as a run stores it, without the keys that gone
// reports, and the names of those that it had. Alerts of theirs that wait for the watermark are
// dropped: nobody is there to be told. The settings of the run are not needed.
func ForgetInFleet(state []byte, gone func(key string) bool) (without []byte, names map[string]bool, err error) {
	r := compact.Reader{B: state}
	fn := &fleetNode{}
	fleet, held := readHeld(&r)
	fn.held, fn.digests = held, incidents.ReadDigests(&r)
	if r.Bad || len(r.B) > 0 {
		return nil, nil, compact.ErrCut
	}
	if fn.of, err = incidents.RestoreAny(fleet); err != nil {
		return nil, nil, err
	}
	names = map[string]bool{}
	goes := func(key string) bool {
		if !gone(key) {
			return false
		}
		names[key] = true
		return true
	}
	for _, name := range fn.of.Names() {
		if goes(name) {
			fn.of.Forget(name)
		}
	}
	maps.DeleteFunc(fn.held, func(name alarmName, _ heldAlert) bool { return goes(name.key) })
	fn.digests.Forget(goes)
	without, err = fn.encode()
	return without, names, err
}

func (fn *fleetNode) encode() ([]byte, error) {
	fleet, err := fn.of.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	b := compact.AppendString(nil, string(fleet))
	b = binary.AppendUvarint(b, uint64(len(fn.held)))
	for _, name := range slices.SortedFunc(maps.Keys(fn.held), alarmName.compare) {
		for _, s := range []string{name.key, name.id, name.kind} {
			b = compact.AppendString(b, s)
		}
		h := fn.held[name]
		b = compact.AppendString(compact.AppendTime(b, h.at), string(h.told))
	}
	return fn.digests.AppendBinary(b), nil
}

// finish stores the state of the fleet, and reports what was done.
func (fn *fleetNode) finish() error {
	// What the node takes are no records of the source.
	report := account.Report{Emitted: fn.emitted - fn.taken}
	if fn.changed {
		b, err := fn.encode()
		if err != nil {
			return err
		}
		if err := fn.state.Write(fn.in, b); err != nil {
			return err
		}
		fn.written = b
		report.States = []account.KeyState{{Key: stored.FleetKey, State: b}}
	}
	fn.account.Report(report)
	fn.awaits.done(fn.account)
	fn.in = nil
	return nil
}

// encodeIncidentsFn emits what an encoder makes of alerts and incidents.
type encodeIncidentsFn struct {
	fleetNode
	Encoder Registered
	State   state.Value[[]byte]
	Due     timers.EventTime

	encoder IncidentEncoder
	encoded Encoded
	alerts  chunk
	emit    func([]byte)
}

func (fn *encodeIncidentsFn) Setup(ctx context.Context) error {
	fn.encoder = incidentEncoders.of(ctx, fn.Encoder)
	return fn.setUp(ctx, &fn.State, &fn.Due)
}

func (fn *encodeIncidentsFn) StartBundle(emit func([]byte)) {
	fn.start()
	fn.emit = emit
}

func (fn *encodeIncidentsFn) ProcessElement(_ context.Context, sp state.Provider, tp timers.Provider, _ string, notices []byte, _ func([]byte)) error {
	return fn.take(sp, tp, notices, fn)
}

func (fn *encodeIncidentsFn) OnTimer(_ context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, _ string, timer timers.Context, _ func([]byte)) error {
	return fn.wakes(ts, sp, tp, timer.Tag, fn)
}

func (fn *encodeIncidentsFn) FinishBundle(func([]byte)) error {
	fn.alerts.flush(fn.emit)
	return fn.finish()
}

func (fn *encodeIncidentsFn) alert(key string, t keyed.Told, incident string) {
	fn.encoder.Alert(&fn.encoded, key, t, incident)
	fn.put()
}

func (fn *encodeIncidentsFn) event(e *incidents.Event) {
	fn.encoder.Incident(&fn.encoded, e)
	fn.put()
}

func (fn *encodeIncidentsFn) digest(d *incidents.Digest) {
	fn.encoder.Digest(&fn.encoded, d)
	fn.put()
}

// put adds what was encoded to the chunk.
func (fn *encodeIncidentsFn) put() {
	fn.emitted += fn.encoded.Lines
	fn.alerts.add(fn.encoded.Alerts, fn.emit)
	fn.encoded.reset()
}
