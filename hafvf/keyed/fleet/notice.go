package fleet

import (
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// AppendNotices appends the notices of an estimate and its alerts. e is nil for alerts of a silent key.
func AppendNotices(b []byte, key string, e *keyed.Estimate, alerts []keyed.AlertEvent) []byte {
	if e != nil && e.Pace != (keyed.Pace{}) {
		b = appendNotice(b, notice{key: key, time: e.Time, pace: e.Pace})
	}
	for _, t := range alerts {
		b = appendAlert(b, key, t)
	}
	return b
}

// Roles of notices, in addition to the bases of alerts.
const (
	forgottenKey = keyed.SourceOngoing + 1 + iota // the key is forgotten
	noIncident                                    // an alarm, or its end, that must not join an incident
)

// AppendAlone appends alerts of a key whose alarms do not join incidents, digests or single pages.
func AppendAlone(b []byte, key string, alerts []keyed.AlertEvent) []byte {
	for _, t := range alerts {
		if t.Source == keyed.SourceAlarm {
			t.Source = noIncident
		}
		b = appendAlert(b, key, t)
	}
	return b
}

// AppendForgotten appends the notice that a key is forgotten.
func AppendForgotten(b []byte, key string) []byte {
	return appendNotice(b, notice{key: key, role: forgottenKey})
}

// appendAlert appends an alert of a key, with the fields that its record has.
func appendAlert(b []byte, key string, t keyed.AlertEvent) []byte {
	event, _ := t.AppendBinary(nil) // never fails
	return appendNotice(b, notice{key: key, time: t.Time, event: event, role: t.Source})
}

func appendNotice(b []byte, n notice) []byte {
	return compact.AppendString(b, compact.Encode(nil, n, noticeForm))
}

// A notice is an alert of a key, the pace of a key, or the notice that a key is forgotten.
type notice struct {
	key   string
	time  time.Time
	pace  keyed.Pace // zero without a pace
	event []byte     // nil without an alert
	role  keyed.AlertSource
}

// noticeForm encodes or decodes a notice. The alert is at the end and takes all remaining bytes.
func noticeForm(c *compact.Codec, n *notice) {
	alert := n.event != nil
	c.Bits(&alert)
	compact.Bytes(c, &n.role)
	compact.Texts(c, &n.key)
	c.Times(&n.time)
	compact.Signed(c, &n.pace.Step, &n.pace.Budget)
	switch {
	case c.Writes:
		c.B = append(c.B, n.event...)
	case alert:
		n.event, c.B = c.B, nil
	}
}

// eachNotice calls f with the notices in b.
func eachNotice(b []byte, f func(notice) error) error {
	for r := (compact.Reader{B: b}); len(r.B) > 0; {
		var n notice
		if err := compact.Decode([]byte(r.Text()), &n, noticeForm); err != nil { // a copy, because alerts wait
			return err
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}
