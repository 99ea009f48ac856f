package fleet

import (
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// AppendNotices appends what a fleet has to know of an estimate, which is nil of a key that is
// silent, and of its alerts.
func AppendNotices(b []byte, key string, e *keyed.Estimate, alerts []keyed.AlertEvent) []byte {
	if e != nil && e.Pace != (keyed.Pace{}) {
		b = appendNotice(b, notice{key: key, at: e.Time, pace: e.Pace})
	}
	for _, t := range alerts {
		b = appendAlert(b, key, t)
	}
	return b
}

// Roles of notices beside the bases of alerts.
const (
	forgotten = keyed.DuplicateBasis + 1 + iota // the key is forgotten
	alone                                       // an alarm, or the end of one, that belongs to no incident
)

// AppendAlone appends alerts of a key that is in no incident, digest or page of single alarms.
func AppendAlone(b []byte, key string, alerts []keyed.AlertEvent) []byte {
	for _, t := range alerts {
		if t.Basis == keyed.AlarmBasis {
			t.Basis = alone
		}
		b = appendAlert(b, key, t)
	}
	return b
}

// AppendForgotten appends that a key was forgotten.
func AppendForgotten(b []byte, key string) []byte {
	return appendNotice(b, notice{key: key, role: forgotten})
}

// appendAlert appends an alert of a key. Of it only that is kept which its record has.
func appendAlert(b []byte, key string, t keyed.AlertEvent) []byte {
	event, _ := t.AppendBinary(nil) // which never fails
	return appendNotice(b, notice{key: key, at: t.Time, event: event, role: t.Basis})
}

func appendNotice(b []byte, n notice) []byte {
	return compact.AppendString(b, compact.Encode(nil, n, noticeForm))
}

// A notice is an alert of a key, the pace of the key, or that it is forgotten.
type notice struct {
	key   string
	at    time.Time
	pace  keyed.Pace // zero if it says none
	event []byte     // nil if there is no alert
	role  keyed.Basis
}

// noticeForm has the alert at the end, as all bytes that are left.
func noticeForm(c *compact.Codec, n *notice) {
	alert := n.event != nil
	c.Bits(&alert)
	compact.Bytes(c, &n.role)
	compact.Texts(c, &n.key)
	c.Times(&n.at)
	compact.Signed(c, &n.pace.Step, &n.pace.Budget)
	switch {
	case c.Writes:
		c.B = append(c.B, n.event...)
	case alert:
		n.event, c.B = c.B, nil
	}
}

// eachNotice calls f with the notices of b.
func eachNotice(b []byte, f func(notice) error) error {
	for all := (compact.Reader{B: b}); len(all.B) > 0; {
		var n notice
		if err := compact.Decode([]byte(all.Text()), &n, noticeForm); err != nil { // a copy: alerts wait
			return err
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}
