package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/connectors"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/fleet"
	"hafvf/internal/dofn"
	"hafvf/internal/domain"
	"hafvf/internal/jsontext"
	"hafvf/internal/reminder"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
	"hafvf/transforms"
)

func init() {
	transforms.Register(asRecords, func(ctx context.Context, text string) transforms.IncidentEncoder { return newEncoder(ctx, text) })
	transforms.Register(asRecords, func(ctx context.Context, text string) transforms.Encoder { return newEncoder(ctx, text) })
	transforms.Register(asRecords, func(ctx context.Context, text string) transforms.SmoothedEncoder { return newEncoder(ctx, text) })
	register.Function3x0((&encodeRejectedFn{}).ProcessElement)
	dofn.Register(func(f *encodeRejectedFn) any { return f.ProcessElement })
	register.Function2x1((&pickFn{}).ProcessElement)
	dofn.Register(func(f *pickFn) any { return f.ProcessElement })
	register.Function3x0((&encodeRefusedFn{}).ProcessElement)
	dofn.Register(func(f *encodeRefusedFn) any { return f.ProcessElement })
}

// asRecords is the name under which the encoders are registered. Their setting is an encoding in JSON.
const asRecords = "records"

// encoding is the setting of an encoder.
type encoding struct {
	Layout    records.Layout
	Form      records.Form      `json:"As"` // form of the records
	Receivers []receiver        // receivers of alerts
	Alerted   settings.Switches `json:",omitempty"` // keys whose alerts are reported
	Alone     settings.Switches `json:",omitempty"` // keys that join no incident
	Counters  bool              `json:",omitempty"` // values are increases of counters
}

// A receiver selects the alerts of one receiver, and has their form.
type receiver struct {
	config.Choice
	Form records.Form `json:"As"`
	// OnlyPages is set for receivers by HTTP, which notify people: they get incidents that are pages, and the ends of
	// those.
	OnlyPages bool `json:"Pages,omitempty"`
	// Stateful is set if the receiver stores alerts by their labels. It then gets all events of an incident that was a
	// page, with the labels of that page.
	Stateful bool `json:"Keeps,omitempty"`
	// Repeats is set if open alerts are repeated until their end: the receiver gets all ends of its keys.
	Repeats bool `json:",omitempty"`
}

// wants reports whether kind is in kinds and the key matches the receiver.
func (r *receiver) wants(key, kind string, kinds []string) bool {
	return slices.Contains(kinds, kind) && r.matches(key)
}

// matches reports whether the receiver gets alerts of the key.
func (r *receiver) matches(key string) bool {
	return (r.Keys == "" || domain.Matches(r.Keys, key)) && (r.Except == "" || !domain.Matches(r.Except, key))
}

// kinds returns the kinds of alarms that the receiver gets one by one, in a fleet with the given number of keys.
func (r *receiver) kinds(keys int) []string {
	if r.SmallFleetKinds != nil && keys < config.FewKeys {
		return r.SmallFleetKinds
	}
	return r.Kinds
}

// takes reports whether the receiver gets an alert of the key, in a fleet with the given number of keys. A receiver
// that gets an alarm for a change does not get the belief in the same change too.
func (r *receiver) takes(key string, t keyed.AlertEvent, keys int) bool {
	switch t.Source {
	case keyed.SourceOngoing:
		return r.Repeats && r.matches(key)
	case keyed.SourceAlarm:
		if r.Repeats && t.Kind == keyed.RecoveredAlarm {
			return r.matches(key)
		}
		return r.wants(key, t.Kind, r.kinds(keys)) && (r.SendResolved || !t.BackToUsual())
	}
	return r.wants(key, t.Kind, r.Beliefs) && !(t.Source == keyed.SourceDuplicate && r.wants(key, t.Kind, r.kinds(keys)))
}

// An encoder writes estimates, alerts and events of incidents as lines, each with its key and ID, and counts them for
// the summary of the run.
type encoder struct {
	encoding
	run      *run
	observer Observer
	tally    tally
}

func newEncoder(ctx context.Context, text string) *encoder {
	run := runOf(ctx)
	e := &encoder{encoding: jsontext.Read[encoding](text), run: run, observer: run.observer()}
	e.tally.counters = e.Counters
	return e
}

func (e *encoder) Estimate(dst *transforms.Encoded, key string, est *keyed.Estimate) {
	e.tally.estimate(key, est)
	if e.Form != records.Nothing {
		dst.Records = e.Layout.AppendEstimate(connectors.Chunk(dst.Records).Begin([]byte(key), est.ID), e.Form, key, est)
	}
	e.appendAlerts(dst, key, est, est.Alerts(key))
}

// repeats reports whether a receiver repeats open alerts.
func (e *encoder) repeats() bool {
	return slices.ContainsFunc(e.Receivers, func(r receiver) bool { return r.Repeats })
}

func (e *encoder) WantsOngoing() bool { return e.observer.Ongoing != nil || e.repeats() }

// Ongoing sends the present state of an episode to the receivers that store alerts, at every second observation. They
// ignore it unless they have an open alert of the episode.
func (e *encoder) Ongoing(dst *transforms.Encoded, key string, t keyed.AlertEvent) {
	if e.observer.Ongoing != nil {
		e.observer.Ongoing(key, t)
	}
	switch {
	case t.N%2 == 1 || !e.Alerted.For(key, true) || !e.repeats():
	case e.Layout.Incidents:
		dst.Alerts = fleet.AppendNotices(dst.Alerts, key, nil, []keyed.AlertEvent{t})
	default:
		e.alert(dst, key, t, "", 0)
	}
}

func (e *encoder) Silent(dst *transforms.Encoded, key string, s keyed.SilenceEvent) {
	alerts := s.Alerts(key)
	if s.Until.IsZero() {
		alerts[0].Message += e.run.found.rejectedSince(key)
	}
	e.appendAlerts(dst, key, nil, alerts)
}

func (e *encoder) Outside(dst *transforms.Encoded, key string, est *keyed.Estimate) {
	e.appendAlerts(dst, key, nil, est.Alerts(key))
}

// appendAlerts appends the alerts of an estimate. est is nil if the alerts belong to no record.
func (e *encoder) appendAlerts(dst *transforms.Encoded, key string, est *keyed.Estimate, alerts []keyed.AlertEvent) {
	e.observer.Estimate(key, est, alerts)
	if reportable := len(alerts) > 0 || est != nil && est.Pace != (keyed.Pace{}); reportable && !e.Alerted.For(key, true) {
		return
	}
	switch {
	case !e.Layout.Incidents:
	case len(alerts) > 0 && e.Alone.For(key, false):
		dst.Alerts = fleet.AppendAlone(dst.Alerts, key, alerts)
		return
	default:
		dst.Alerts = fleet.AppendNotices(dst.Alerts, key, est, alerts)
		return
	}
	for _, t := range alerts {
		e.alert(dst, key, t, "", 0)
	}
}

// alert appends an alert for each receiver that gets it.
func (e *encoder) alert(dst *transforms.Encoded, key string, t keyed.AlertEvent, incident string, keys int) {
	for i := range e.Receivers {
		if r := &e.Receivers[i]; r.takes(key, t, keys) {
			dst.Alerts = e.Layout.AppendAlert(e.begin(dst, i, key, t.ID), r.Form, t, incident, r.Labels)
		}
	}
}

// begin begins the line of an alert. If there are several receivers, it puts the index of the receiver before the ID.
func (e *encoder) begin(dst *transforms.Encoded, receiver int, key, id string) []byte {
	if len(e.Receivers) > 1 {
		id = string(rune(receiver)) + id
	}
	return connectors.Chunk(dst.Alerts).Begin([]byte(key), id)
}

func (e *encoder) Alert(dst *transforms.Encoded, key string, t keyed.AlertEvent, incident string, keys int) {
	e.observer.Alert(key, t, incident)
	e.alert(dst, key, t, incident, keys)
}

// Single sends an alarm that is a page, a later report of its episode or its end to the receivers by HTTP, except those
// that already got it. The end may be known before the page, so receivers with repeats get it again.
func (e *encoder) Single(dst *transforms.Encoded, key string, t keyed.AlertEvent, follows bool, keys int) {
	if !follows {
		e.observer.Single(key, t)
	}
	for i := range e.Receivers {
		if r := &e.Receivers[i]; r.OnlyPages && r.matches(key) && (!r.takes(key, t, keys) || r.Repeats && t.BackToUsual()) {
			dst.Alerts = e.Layout.AppendPage(e.begin(dst, i, key, t.ID), t, r.Labels)
		}
	}
}

func (e *encoder) Open(event *incidents.Event) {
	e.run.found.incident(event)
	e.observer.Incident(event)
}

func (e *encoder) Assigned(a incidents.Assignment) { e.observer.Assigned(a) }

func (e *encoder) Incident(dst *transforms.Encoded, event *incidents.Event) {
	e.Open(event)
	// All events of an incident have the incident's ID. Consumers recognize repeated events by this longer ID.
	id := fmt.Sprintf("%s/%s/%s", event.ID, event.State, event.Time.Format(time.RFC3339Nano))
	for i := range e.Receivers {
		r := &e.Receivers[i]
		if !r.wantsIncident(event) {
			continue
		}
		for n, labels := range event.AlertLabels {
			if n == 0 || r.Stateful {
				dst.Alerts = e.Layout.AppendIncident(e.begin(dst, i, event.Group, id), r.Form, event, labels, r.Labels)
			}
		}
	}
}

func (e *encoder) Digest(dst *transforms.Encoded, d *incidents.Digest, keys int) {
	for i := range e.Receivers {
		r, selected := &e.Receivers[i], *d
		if selected.Alarms = r.lists(d, keys); len(selected.Alarms) > 0 {
			dst.Alerts = e.Layout.AppendDigest(e.begin(dst, i, "", records.DigestID(&selected)), r.Form, &selected, r.Labels)
		}
	}
}

// lists returns the alarms that the receiver gets in the digest, in a fleet with the given number of keys. If the
// receiver has the default kinds, it omits alarms of these kinds: they were sent at once.
func (r *receiver) lists(d *incidents.Digest, keys int) []incidents.Alarm {
	few := keys < config.FewKeys
	if r.Digest != d.Every || r.NoSmallFleetDigest && few {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.Alarms), func(a incidents.Alarm) bool {
		return !r.matches(a.Key) || r.SmallFleetKinds != nil && !few && slices.Contains(r.Kinds, a.Kind)
	})
}

// wantsIncident reports whether the receiver gets an event of an incident: its group or one of the members listed in
// the event has to match the receiver's keys. With Except, a member has to match.
func (r *receiver) wantsIncident(e *incidents.Event) bool {
	if r.OnlyPages && !e.Page && !(r.Stateful && e.Paged) {
		return false
	}
	return r.Except == "" && r.wants(e.Group, incidents.Kind, r.Kinds) || slices.ContainsFunc(e.Members, func(m incidents.Member) bool { return r.wants(m.Key, incidents.Kind, r.Kinds) })
}

// pickFn selects the alerts of one receiver if there are several.
type pickFn struct{ Receiver int }

func (fn *pickFn) ProcessElement(chunk []byte, emit func([]byte)) error {
	var picked connectors.Chunk
	for line, err := range connectors.Chunk(chunk).Lines() {
		if err != nil {
			return err
		}
		if receiver, size := utf8.DecodeRuneInString(line.ID); int(receiver) == fn.Receiver {
			picked = append(picked.Begin(line.Key, line.ID[size:]), line.Text...)
		}
	}
	if len(picked) > 0 {
		emit(picked)
	}
	return nil
}

func (e *encoder) Smoothed(dst *transforms.Encoded, key string, s *keyed.Smoothed) {
	e.tally.smoothed(key, s)
	e.observer.Smoothed(key, s)
	if e.Form != records.Nothing {
		dst.Records = e.Layout.AppendSmoothed(connectors.Chunk(dst.Records).Begin([]byte(key), s.ID), e.Form, key, s)
	}
}

func (e *encoder) Forgotten(dst *transforms.Encoded, key string) {
	if e.Layout.Incidents {
		dst.Alerts = fleet.AppendForgotten(dst.Alerts, key)
	}
}

func (e *encoder) Rewound(key string, ahead, reset time.Time) {
	e.run.rewinds.log(e.run.log, key, ahead, reset)
}

// A rewindLog logs which keys went back from wrong times. It names maxRewindsLogged keys a minute, and counts further
// ones, because thousands of keys may go back at once.
type rewindLog struct {
	mu       sync.Mutex
	minute   reminder.Reminder
	logged   int // in this minute
	unlogged int // since the last logged key
}

// maxRewindsLogged is the maximum number of keys that a rewindLog names in a minute.
const maxRewindsLogged = 10

func (l *rewindLog) log(log *slog.Logger, key string, ahead, reset time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.minute.Due(time.Minute) {
		l.logged = 0
	}
	if l.logged == maxRewindsLogged {
		l.unlogged++
		return
	}
	attrs := []any{"key", key, "from", ahead, "to", reset}
	if l.unlogged > 0 {
		attrs = append(attrs, "others", l.unlogged)
	}
	log.Warn("key went back from a time ahead of the clock: its next records were late in a row", attrs...)
	l.logged, l.unlogged = l.logged+1, 0
}

func (e *encoder) Flush() { e.tally.flush(&e.run.found) }

// A panicLog logs panics in the computations of keys, once per key.
type panicLog struct {
	mu     sync.Mutex
	logged map[string]bool
}

// maxPanicsLogged is the maximum number of keys that a panicLog names.
const maxPanicsLogged = 1000

func (l *panicLog) log(log *slog.Logger, key string, p *keyed.PanicError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged[key] || len(l.logged) == maxPanicsLogged {
		return
	}
	if l.logged == nil {
		l.logged = map[string]bool{}
	}
	l.logged[strings.Clone(key)] = true
	log.Error("the computation of a key panicked, a bug in hafvf: please report it; the records are in the dead letter, all other keys continue", "key", key, "panic", p.Value, "stack", p.Stack)
}

// encodeRejectedFn writes observations that the filter rejected, and keys that it reset, as dead-letter records.
type encodeRejectedFn struct{}

func (fn *encodeRejectedFn) ProcessElement(ctx context.Context, r keyed.Rejected, emit func([]byte)) {
	run := runOf(ctx)
	if r.Panic != nil {
		run.panics.log(run.log, r.Key, r.Panic)
	}
	if !r.Reset {
		run.found.reject(r.Reason, r.ID, r.Raw, 1)
	} else {
		run.log.Warn("key was reset", "key", r.Key, "reason", r.Reason)
	}
	emit(records.AppendReject(connectors.Chunk(nil).Begin([]byte(r.Key), r.ID), records.SourcePlace{ID: r.ID, Log: r.Log, Seq: r.Seq}, r.Raw, r.Reason))
}

// encodeRefusedFn writes refused records as dead-letter records: alerts that a webhook refused, or with Estimates
// estimates that Prometheus refused.
type encodeRefusedFn struct{ Estimates bool }

func (fn *encodeRefusedFn) ProcessElement(ctx context.Context, r connectors.Refused, emit func([]byte)) {
	if run := runOf(ctx); !fn.Estimates {
		run.undelivered(r)
	} else {
		run.found.refused.add(run.log, "sink refused a record: it is in the dead letter", "id", r.ID, "reason", r.Reason)
	}
	emit(appendRefused(nil, r))
}

// appendRefused appends the dead-letter record of a record that a receiver refused.
func appendRefused(dst connectors.Chunk, r connectors.Refused) connectors.Chunk {
	return records.AppendReject(dst.Begin(r.Key, r.ID), records.SourcePlace{ID: r.ID}, string(r.Text), r.Reason)
}
