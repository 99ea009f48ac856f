// Package fleet makes incidents of the alarms of all keys, as package incidents finds them, and
// digests of the others. Keys send notices. Their alarms wait until a watermark has passed
// them, since an incident needs all alarms of its time.
package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/internal/clock"
	"hafvf/internal/compact"
)

// Config is the configuration of a Fleet.
type Config struct {
	incidents.Config
	// Digests are the lengths of time of which the alarms in no incident are listed.
	Digests []time.Duration
}

// A Listener is told what becomes of alerts.
type Listener interface {
	// Alert is called with an alert of a key. incident is the id of the incident that it belongs to, empty
	// if it belongs to none.
	Alert(key string, t keyed.AlertEvent, incident string)
	// Single is called with an alarm in no incident that is a page, after its Alert.
	Single(key string, t keyed.AlertEvent)
	// Assigned is called when an alarm comes to belong to an incident, before its Alert, and when that
	// becomes another one.
	Assigned(incidents.Assignment)
	// Incident is called with what becomes of an incident.
	Incident(*incidents.Event)
	// Digest is called with the alarms in no incident.
	Digest(*incidents.Digest)
}

// A Fleet is what is known of all keys.
type Fleet struct {
	of       *incidents.Fleet
	waiting  map[incidents.AlarmName]waitingAlert // until their alarms are taken
	alone    map[incidents.AlarmName][]byte       // the events of alarms that may become pages
	digests  incidents.Digests
	most     int // keys that it has had at a time
	listener Listener
	changed  bool
}

type waitingAlert struct {
	at    time.Time
	event []byte
}

// New returns a fleet without keys. The error is that of incidents.New.
func New(cfg Config, notify Listener) (f *Fleet, err error) {
	f = &Fleet{waiting: map[incidents.AlarmName]waitingAlert{}, alone: map[incidents.AlarmName][]byte{}, digests: incidents.NewDigests(cfg.Digests, cfg.Zone), listener: notify, changed: true}
	f.of, err = incidents.New(cfg.Config)
	return f, err
}

// Restore returns the fleet that AppendBinary has encoded. If it cannot be read, or is of other
// groups, incidents begin anew, with the alarms that wait, and anew says why.
func Restore(cfg Config, b []byte, notify Listener) (f *Fleet, reset, err error) {
	if f, err = New(cfg, notify); err != nil {
		return nil, nil, err
	}
	stored, inner, err := decode(b)
	if err != nil {
		return f, err, nil
	}
	of, reset := incidents.Restore(cfg.Config, inner)
	if reset == nil {
		digests := incidents.NewDigests(cfg.Digests, cfg.Zone)
		digests.Adopt(stored.digests)
		return &Fleet{of: of, waiting: stored.waiting, alone: stored.alone, digests: digests, most: max(stored.most, of.Keys()), listener: notify}, nil, nil
	}
	f.most = stored.most
	for name, h := range stored.waiting {
		t, err := eventOf(name.Key, h.event)
		if err != nil {
			return nil, nil, err
		}
		f.wait(name, h, t)
	}
	return f, reset, nil
}

// eventOf decodes an alert of a key.
func eventOf(key string, b []byte) (t keyed.AlertEvent, err error) {
	err = t.UnmarshalBinary(b)
	t.Key = key
	return t, err
}

// decode returns a fleet without its incidents, which stay encoded.
func decode(b []byte) (f *Fleet, inner []byte, err error) {
	f = &Fleet{waiting: map[incidents.AlarmName]waitingAlert{}, alone: map[incidents.AlarmName][]byte{}, digests: incidents.NewDigests(nil, nil)}
	err = compact.Decode(b, &inner, f.form)
	return f, inner, err
}

// form is how a fleet with encoded incidents is encoded.
func (f *Fleet) form(c *compact.Codec, inner *[]byte) {
	compact.Texts(c, inner)
	compact.Entries(c, f.waiting, 5, incidents.AlarmName.Compare, func(n *incidents.AlarmName, h *waitingAlert) {
		n.Form(c)
		c.Times(&h.at)
		compact.Texts(c, &h.event)
	})
	if f.digests.Form(c); c.Writes || len(c.B) > 0 { // States from before the largest number was known end without.
		end := uint8(aloneFollow)
		compact.Unsigned(c, &f.most)
		compact.Bytes(c, &end)
		if c.Check(end == mostFollows || end == aloneFollow); end == aloneFollow {
			compact.Entries(c, f.alone, 4, incidents.AlarmName.Compare, func(n *incidents.AlarmName, event *[]byte) {
				n.Form(c)
				compact.Texts(c, event)
			})
			f.digests.Messages(c)
		}
	}
}

// What follows the digests of a state.
const (
	mostFollows = 1 // the largest number of keys, in front
	aloneFollow = 2 // and behind it the alarms that may become pages, and the messages of those of digests
)

// Keys is the largest number of keys that the fleet has had at a time.
func (f *Fleet) Keys() int { return f.most }

// Open are the incidents that are open.
func (f *Fleet) Open() []incidents.Event { return f.of.Open() }

// AppendBinary appends the encoded fleet to b. The error is always nil.
func (f *Fleet) AppendBinary(b []byte) ([]byte, error) {
	inner, _ := f.of.AppendBinary(nil) // which never fails
	return compact.Encode(b, inner, f.form), nil
}

// Changed reports whether the fleet has changed since the last call.
func (f *Fleet) Changed() bool {
	defer func() { f.changed = false }()
	return f.changed
}

// Take takes notices. Beliefs, and what has no time, go on at once.
func (f *Fleet) Take(notices []byte) error {
	return eachNotice(notices, func(of notice) error {
		if of.role == forgotten {
			f.changed = true
			return f.forget(of.key)
		}
		if of.pace != (keyed.Pace{}) && f.of.Register(of.key, of.at, of.pace.Step, of.pace.Budget) {
			f.changed = true
		}
		if of.event == nil {
			return nil
		}
		t, err := eventOf(of.key, of.event)
		if err != nil {
			return err
		}
		if t.Basis = of.role; of.role == alone {
			t.Basis = keyed.AlarmBasis
		}
		if of.role != keyed.AlarmBasis || t.Time.IsZero() {
			f.listener.Alert(of.key, t, "")
			return nil
		}
		f.wait(incidents.AlarmName{Key: of.key, ID: t.ID, Kind: t.Kind}, waitingAlert{t.Time, of.event}, t)
		return nil
	})
}

// wait has an alarm wait, unless it is a repeat, which is told or is held already. The end of an
// alarm waits as well, so as not to come before it.
func (f *Fleet) wait(name incidents.AlarmName, h waitingAlert, t keyed.AlertEvent) {
	if name.Kind == keyed.RecoveredAlarm || f.of.Add(incidents.Alarm{ID: name.ID, Key: name.Key, Kind: name.Kind, Time: h.at, Score: t.Score, Size: t.Size, Threshold: t.Threshold}) {
		f.waiting[name] = h
		f.changed = true
	}
}

// forget takes a key out of the fleet. What was to be told of the key before is told now: nothing
// of it waits for the watermark any more.
func (f *Fleet) forget(key string) error {
	f.of.Forget(key)
	maps.DeleteFunc(f.alone, func(name incidents.AlarmName, _ []byte) bool { return name.Key == key })
	f.digests.Forget(func(k string) bool { return k == key })
	return f.release(func(name incidents.AlarmName, _ waitingAlert) bool { return name.Key == key })
}

// release tells of the alerts that wait, as far as they are due, without an incident.
func (f *Fleet) release(due func(incidents.AlarmName, waitingAlert) bool) error {
	var names []incidents.AlarmName
	for name, h := range f.waiting {
		if due(name, h) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b incidents.AlarmName) int {
		return cmp.Or(f.waiting[a].at.Compare(f.waiting[b].at), a.Compare(b))
	})
	for _, name := range names {
		t, err := eventOf(name.Key, f.waiting[name].event)
		if err != nil {
			return err
		}
		delete(f.waiting, name)
		f.listener.Alert(name.Key, t, "")
	}
	return nil
}

// Next is the next time of which there is something to do when the watermark passes it, and the
// time of the last alert that waits. They are zero if there is none.
func (f *Fleet) Next() (next, last time.Time) {
	first, last := f.waits()
	next, _ = f.of.Next()
	end, _ := f.digests.Next()
	return clock.Earlier(clock.Earlier(next, end), first), last
}

// waits are the times of the first and the last alert that waits; zero where there is none.
func (f *Fleet) waits() (first, last time.Time) {
	for _, h := range f.waiting {
		first, last = clock.Earlier(first, h.at), clock.Later(last, h.at)
	}
	return first, last
}

// End takes all alarms, when the input has ended at a latest time. Incidents of the last minutes
// stay open: nothing is known of the time after them.
func (f *Fleet) End(latest time.Time) error {
	_, last := f.waits()
	latest = clock.Later(latest, last)
	if err := f.Advance(latest); err != nil {
		return err
	}
	f.closeDigests(latest, true)
	return nil
}

// Advance takes the alarms that the watermark has passed.
func (f *Fleet) Advance(watermark time.Time) error {
	f.changed = true
	// What a digest has does not depend on how far the watermark jumps: it closes before later
	// alarms are taken, which may be what opens it.
	for {
		end, open := f.digests.Next()
		if first, _ := f.waits(); !open && !first.IsZero() {
			end, open = f.digests.EndOf(first)
		}
		if !open || end.After(watermark) {
			return f.advance(watermark)
		}
		if err := f.advance(end.Add(-time.Nanosecond)); err != nil {
			return err
		}
		f.closeDigests(end, false)
	}
}

func (f *Fleet) advance(watermark time.Time) error {
	step := f.of.Advance(watermark)
	f.most = max(f.most, f.of.Keys())
	for _, a := range step.Assigned {
		f.listener.Assigned(a)
		name := incidents.AlarmName{Key: a.Key, ID: a.ID, Kind: a.Kind}
		h, waits := f.waiting[name]
		if !waits { // it is told, and belongs to an incident that was found later
			f.digests.Note(incidents.Alarm{ID: a.ID, Key: a.Key, Kind: a.Kind}, a.Incident)
			continue
		}
		delete(f.waiting, name)
		f.alone[name] = h.event
		t, err := eventOf(name.Key, h.event)
		if err != nil {
			return err
		}
		f.digests.Note(incidents.Alarm{ID: a.ID, Key: a.Key, Kind: a.Kind, Time: h.at, Score: t.Score, Size: t.Size, Message: t.Message}, a.Incident)
		f.listener.Alert(a.Key, t, a.Incident)
	}
	for _, s := range step.Singles {
		if s.Page {
			t, err := eventOf(s.Key, f.alone[s.AlarmName])
			if err != nil {
				return err
			}
			f.listener.Single(s.Key, t)
		}
	}
	maps.DeleteFunc(f.alone, func(name incidents.AlarmName, _ []byte) bool { return !f.of.Waits(name) })
	err := f.release(func(name incidents.AlarmName, h waitingAlert) bool {
		return name.Kind == keyed.RecoveredAlarm && !h.at.After(watermark)
	})
	if err != nil {
		return err
	}
	for _, e := range together(step.Events) {
		f.listener.Incident(&e)
	}
	return nil
}

func (f *Fleet) closeDigests(by time.Time, all bool) {
	for _, d := range f.digests.Close(by, all) {
		f.listener.Digest(&d)
	}
}

// together makes one event of those that an incident has at one time, as keys that alarm together
// have it grow several times. The watermark passes them together.
func together(all []incidents.Event) (alerted []incidents.Event) {
	last := map[string]int{} // in told, by id
	for _, e := range all {
		i, seen := last[e.ID]
		if seen && e.State == incidents.Update && alerted[i].Time.Equal(e.Time) && alerted[i].State != incidents.Merged {
			was := alerted[i]
			e.State, e.Page = was.State, e.Page || was.Page
			if was.Replaced != nil || was.State == incidents.Opened { // what was told before is what is replaced
				e.Replaced = was.Replaced
			}
			alerted[i] = e
			continue
		}
		last[e.ID] = len(alerted)
		alerted = append(alerted, e)
	}
	return alerted
}

// Forget returns what AppendBinary has encoded without the keys that gone reports, and the names of
// those that it had. Alerts of theirs that wait for the watermark are dropped: nobody is there to be
// told. The configuration of the fleet is not needed.
func Forget(encoded []byte, gone func(key string) bool) (without []byte, names map[string]bool, err error) {
	f, inner, err := decode(encoded)
	if err != nil {
		return nil, nil, err
	}
	if f.of, err = incidents.RestoreAny(inner); err != nil {
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
	for _, name := range f.of.Names() {
		if goes(name) {
			f.of.Forget(name)
		}
	}
	maps.DeleteFunc(f.waiting, func(name incidents.AlarmName, _ waitingAlert) bool { return goes(name.Key) })
	maps.DeleteFunc(f.alone, func(name incidents.AlarmName, _ []byte) bool { return goes(name.Key) })
	f.digests.Forget(goes)
	without, err = f.AppendBinary(nil)
	return without, names, err
}
