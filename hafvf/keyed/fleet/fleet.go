// Package fleet groups the alarms of all keys into incidents, using package incidents, and lists the others in
// digests. Keys send notices. An alarm waits until the watermark has passed it, because an incident needs all
// alarms of its time.
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
	// Digests are the periods of the digests, which list alarms outside incidents.
	Digests []time.Duration
}

// A Listener receives the alerts, incidents and digests of a Fleet.
type Listener interface {
	// Alert receives an alert of a key. incident is the ID of its incident, or empty.
	Alert(key string, t keyed.AlertEvent, incident string)
	// Single receives an alarm outside incidents that is a page, after its Alert, in the words of the last report of its
	// episode. With follows, it receives a later report of the episode of a page, or its end.
	Single(key string, t keyed.AlertEvent, follows bool)
	// Assigned is called when an alarm joins an incident, before its Alert, and when the alarm moves to another
	// incident.
	Assigned(incidents.Assignment)
	// Incident receives an event of an incident.
	Incident(*incidents.Event)
	// Digest receives the alarms outside incidents.
	Digest(*incidents.Digest)
}

// A Fleet holds the alarms and incidents of all keys.
type Fleet struct {
	grouping       *incidents.Fleet
	waiting        map[incidents.AlarmName]waitingAlert // alerts that the watermark has not passed
	pageCandidates map[incidents.AlarmName][]byte       // encoded last events of alarms that may become pages; empty for pages whose episodes are open
	digests        incidents.Digests
	maxKeys        int // maximum number of keys at one time
	listener       Listener
	changed        bool
}

type waitingAlert struct {
	time  time.Time
	event []byte
}

// New returns a fleet without keys. It returns the errors of incidents.New.
func New(cfg Config, listener Listener) (f *Fleet, err error) {
	f = &Fleet{waiting: map[incidents.AlarmName]waitingAlert{}, pageCandidates: map[incidents.AlarmName][]byte{}, digests: incidents.NewDigests(cfg.Digests, cfg.Zone), listener: listener, changed: true}
	f.grouping, err = incidents.New(cfg.Config)
	return f, err
}

// Restore decodes a fleet that AppendBinary has encoded. If b cannot be read, or has other groups, reset is the
// reason, and f starts without incidents. With other groups, f keeps the waiting alarms, and the listener hears that the
// open incidents are closed.
func Restore(cfg Config, b []byte, listener Listener) (f *Fleet, reset, err error) {
	if f, err = New(cfg, listener); err != nil {
		return nil, nil, err
	}
	stored, inner, err := decode(b)
	if err != nil {
		return f, err, nil
	}
	grouping, reset := incidents.Restore(cfg.Config, inner)
	if reset == nil {
		digests := incidents.NewDigests(cfg.Digests, cfg.Zone)
		digests.TakeOver(stored.digests)
		return &Fleet{grouping: grouping, waiting: stored.waiting, pageCandidates: stored.pageCandidates, digests: digests, maxKeys: max(stored.maxKeys, grouping.Keys()), listener: listener}, nil, nil
	}
	if former, err := incidents.RestoreAny(inner); err == nil {
		for _, e := range former.Open() {
			e.State, e.End = incidents.Closed, e.Time
			listener.Incident(&e)
		}
	}
	f.maxKeys = stored.maxKeys
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

// decode decodes a fleet except for inner, its encoded incidents.
func decode(b []byte) (f *Fleet, inner []byte, err error) {
	f = &Fleet{waiting: map[incidents.AlarmName]waitingAlert{}, pageCandidates: map[incidents.AlarmName][]byte{}, digests: incidents.NewDigests(nil, nil)}
	err = compact.Decode(b, &inner, f.form)
	return f, inner, err
}

// form encodes or decodes a fleet with encoded incidents.
func (f *Fleet) form(c *compact.Codec, inner *[]byte) {
	compact.Texts(c, inner)
	compact.Entries(c, f.waiting, 5, incidents.AlarmName.Compare, func(n *incidents.AlarmName, h *waitingAlert) {
		nameForm(c, n)
		c.Times(&h.time)
		compact.Texts(c, &h.event)
	})
	c.Nested(f.digests.Append, f.digests.Decode)
	tail := uint8(tailTag)
	compact.Unsigned(c, &f.maxKeys)
	compact.Bytes(c, &tail)
	c.Check(tail == tailTag)
	compact.Entries(c, f.pageCandidates, 4, incidents.AlarmName.Compare, func(n *incidents.AlarmName, event *[]byte) {
		nameForm(c, n)
		compact.Texts(c, event)
	})
	c.Nested(f.digests.AppendMessages, f.digests.DecodeMessages)
}

// tailTag precedes the page candidates and the messages of the digests.
const tailTag = 2

func nameForm(c *compact.Codec, n *incidents.AlarmName) { compact.Texts(c, &n.Key, &n.ID, &n.Kind) }

// MaxKeys returns the maximum number of keys that the fleet had at one time.
func (f *Fleet) MaxKeys() int { return f.maxKeys }

// Open returns the open incidents.
func (f *Fleet) Open() []incidents.Event { return f.grouping.Open() }

// AppendBinary appends the encoded fleet to b. The error is always nil.
func (f *Fleet) AppendBinary(b []byte) ([]byte, error) {
	inner, _ := f.grouping.AppendBinary(nil) // never fails
	return compact.Encode(b, inner, f.form), nil
}

// Changed reports whether the fleet has changed since the last call.
func (f *Fleet) Changed() bool {
	defer func() { f.changed = false }()
	return f.changed
}

// Process handles notices. It reports beliefs, and alerts without a time, at once.
func (f *Fleet) Process(notices []byte) error {
	return eachNotice(notices, func(n notice) error {
		if n.role == forgottenKey {
			f.changed = true
			return f.forget(n.key)
		}
		if n.pace != (keyed.Pace{}) && f.grouping.Register(n.key, n.time, n.pace.Step, n.pace.Budget) {
			f.changed = true
		}
		if n.event == nil {
			return nil
		}
		t, err := eventOf(n.key, n.event)
		if err != nil {
			return err
		}
		if t.Source = n.role; n.role == noIncident {
			t.Source = keyed.SourceAlarm
		}
		if n.role != keyed.SourceAlarm || t.Time.IsZero() {
			f.listener.Alert(n.key, t, "")
			return nil
		}
		f.wait(incidents.AlarmName{Key: n.key, ID: t.ID, Kind: t.Kind}, waitingAlert{t.Time, n.event}, t)
		return nil
	})
}

// wait makes an alarm wait for the watermark, unless it is a repeat. The end of an alarm also waits, so that it is not
// reported before the alarm.
func (f *Fleet) wait(name incidents.AlarmName, h waitingAlert, t keyed.AlertEvent) {
	if name.Kind == keyed.RecoveredAlarm || f.grouping.Add(alarmOf(t)) {
		f.waiting[name] = h
		f.changed = true
	}
}

// alarmOf returns the alarm of an alert.
func alarmOf(t keyed.AlertEvent) incidents.Alarm {
	a := incidents.Alarm{ID: t.ID, Key: t.Key, Kind: t.Kind, Time: t.Time, Score: t.Score, Size: t.Size, Threshold: t.Threshold, Message: t.Message}
	if ep := t.Episode; ep != nil {
		a.Episode = &incidents.Episode{ID: ep.ID, UsualMean: ep.UsualBefore.Mean, UsualSD: ep.UsualBefore.SD, Worst: incidents.Worst{Time: ep.Worst.Time, Value: ep.Worst.Value, Size: ep.Worst.Size}}
	}
	return a
}

// forget removes a key. It reports the key's waiting alerts at once, without waiting for the watermark.
func (f *Fleet) forget(key string) error {
	f.grouping.Forget(key)
	f.digests.Forget(func(k string) bool { return k == key })
	for _, name := range f.waitingAlerts(func(name incidents.AlarmName, _ waitingAlert) bool { return name.Key == key }) {
		if err := f.release(name); err != nil {
			return err
		}
	}
	maps.DeleteFunc(f.pageCandidates, func(name incidents.AlarmName, _ []byte) bool { return name.Key == key })
	return nil
}

// waitingAlerts returns the names of the waiting alerts that are selected, in the order of their times.
func (f *Fleet) waitingAlerts(selected func(incidents.AlarmName, waitingAlert) bool) (names []incidents.AlarmName) {
	for name, h := range f.waiting {
		if selected(name, h) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b incidents.AlarmName) int {
		return cmp.Or(f.waiting[a].time.Compare(f.waiting[b].time), a.Compare(b))
	})
	return names
}

// release reports a waiting alert, without an incident.
func (f *Fleet) release(name incidents.AlarmName) error {
	h := f.waiting[name]
	t, err := eventOf(name.Key, h.event)
	if err != nil {
		return err
	}
	delete(f.waiting, name)
	f.listener.Alert(name.Key, t, "")
	f.followPage(t, h.event)
	return nil
}

// Next returns the next time at which a watermark has an effect, and the time of the last waiting alert. They are
// zero if there is none.
func (f *Fleet) Next() (next, last time.Time) {
	first, last := f.waitingRange()
	next, _ = f.grouping.Next()
	end, _ := f.digests.Next()
	return clock.Earlier(clock.Earlier(next, end), first), last
}

// waitingRange returns the times of the first and the last waiting alert; zero if there is none.
func (f *Fleet) waitingRange() (first, last time.Time) {
	for _, h := range f.waiting {
		first, last = clock.Earlier(first, h.time), clock.Later(last, h.time)
	}
	return first, last
}

// End processes all alarms after the end of the input, whose latest time is latest, and closes the digests.
// Incidents of the last minutes stay open, because nothing is known about the time after them.
func (f *Fleet) End(latest time.Time) error {
	_, last := f.waitingRange()
	latest = clock.Later(latest, last)
	if err := f.Advance(latest); err != nil {
		return err
	}
	f.closeDigests(latest, true)
	return nil
}

// Advance processes the alarms that the watermark has passed.
func (f *Fleet) Advance(watermark time.Time) error {
	f.changed = true
	// The content of a digest must not depend on the steps of the watermark: close it before processing later
	// alarms, which may open the next digest.
	for {
		end, open := f.digests.Next()
		if first, _ := f.waitingRange(); !open && !first.IsZero() {
			end, open = f.digests.FirstEnd(first)
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

// advance processes the alarms up to the watermark. The order of the output does not depend on the steps of the
// watermark: an alarm follows the pages and the ends of episodes before it.
func (f *Fleet) advance(watermark time.Time) error {
	step := f.grouping.Advance(watermark)
	f.maxKeys = max(f.maxKeys, f.grouping.Keys())
	alarms := map[incidents.AlarmName]bool{}
	for _, a := range step.Assigned {
		alarms[incidents.AlarmName{Key: a.Key, ID: a.ID, Kind: a.Kind}] = true
	}
	singles, ends := step.Singles, f.waitingAlerts(func(name incidents.AlarmName, h waitingAlert) bool { return !h.time.After(watermark) && !alarms[name] })
	reportUntil := func(t time.Time) (err error) { // pages and ends before t
		for err == nil {
			page := len(singles) > 0 && singles[0].Time.Before(t)
			end := len(ends) > 0 && f.waiting[ends[0]].time.Before(t)
			switch {
			case page && !(end && f.waiting[ends[0]].time.Before(singles[0].Time)):
				err = f.decidePage(singles[0])
				singles = singles[1:]
			case end:
				err = f.release(ends[0])
				ends = ends[1:]
			default:
				return nil
			}
		}
		return err
	}
	for _, a := range step.Assigned {
		f.listener.Assigned(a)
		name := incidents.AlarmName{Key: a.Key, ID: a.ID, Kind: a.Kind}
		h, isWaiting := f.waiting[name]
		if !isWaiting { // already reported: it joins an incident that was found later
			f.digests.Add(incidents.Alarm{ID: a.ID, Key: a.Key, Kind: a.Kind}, a.Incident)
			continue
		}
		if err := reportUntil(h.time); err != nil {
			return err
		}
		delete(f.waiting, name)
		t, err := eventOf(name.Key, h.event)
		if err != nil {
			return err
		}
		if !t.IsWorse() {
			f.digests.Add(alarmOf(t), a.Incident)
		}
		f.listener.Alert(a.Key, t, a.Incident)
		f.followPage(t, h.event)
	}
	if err := reportUntil(watermark.Add(time.Nanosecond)); err != nil {
		return err
	}
	f.dropCandidates()
	for _, e := range mergeEvents(step.Events) {
		f.listener.Incident(&e)
	}
	return nil
}

func (f *Fleet) closeDigests(end time.Time, includeOpen bool) {
	for _, d := range f.digests.Close(end, includeOpen) {
		f.listener.Digest(&d)
	}
}

// mergeEvents merges the updates of an incident with an earlier event of the same time, for example if several keys
// alarm at once. The watermark passes them together.
func mergeEvents(events []incidents.Event) (merged []incidents.Event) {
	last := map[string]int{} // index in merged by ID
	for _, e := range events {
		i, seen := last[e.ID]
		if seen && e.State == incidents.Update && merged[i].Time.Equal(e.Time) && merged[i].State != incidents.Merged {
			earlier := merged[i]
			e.State, e.Page = earlier.State, e.Page || earlier.Page
			merged[i] = e
			continue
		}
		last[e.ID] = len(merged)
		merged = append(merged, e)
	}
	return merged
}

// Forget removes the keys for which remove is true from an encoded fleet. It returns the encoded rest, and the
// names of the removed keys. Waiting alerts of these keys are dropped, because there is no listener. Forget does
// not need the configuration of the fleet.
func Forget(encoded []byte, remove func(key string) bool) (rest []byte, names map[string]bool, err error) {
	f, inner, err := decode(encoded)
	if err != nil {
		return nil, nil, err
	}
	if f.grouping, err = incidents.RestoreAny(inner); err != nil {
		return nil, nil, err
	}
	names = map[string]bool{}
	removes := func(key string) bool {
		if !remove(key) {
			return false
		}
		names[key] = true
		return true
	}
	for _, name := range f.grouping.Names() {
		if removes(name) {
			f.grouping.Forget(name)
		}
	}
	maps.DeleteFunc(f.waiting, func(name incidents.AlarmName, _ waitingAlert) bool { return removes(name.Key) })
	maps.DeleteFunc(f.pageCandidates, func(name incidents.AlarmName, _ []byte) bool { return removes(name.Key) })
	f.digests.Forget(removes)
	rest, err = f.AppendBinary(nil)
	return rest, names, err
}
