package fleet

import (
	"encoding/binary"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// AppendNotices appends what a fleet has to know of an estimate, which is nil of a key that is
// silent, and of its alerts.
func AppendNotices(b []byte, key string, e *keyed.Estimate, alerts []keyed.AlertEvent) []byte {
	if e != nil && e.Pace != (keyed.Pace{}) {
		b = appendNotice(b, key, keyed.AlertEvent{Time: e.Time}, e.Pace)
	}
	for _, t := range alerts {
		b = appendNotice(b, key, t, keyed.Pace{})
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
		b = appendNotice(b, key, t, keyed.Pace{})
	}
	return b
}

// AppendForgotten appends that a key was forgotten.
func AppendForgotten(b []byte, key string) []byte {
	return appendNotice(b, key, keyed.AlertEvent{Basis: forgotten}, keyed.Pace{})
}

// appendNotice appends an alert of a key, or none where t has no Alert,
// and the pace of the key, or zero. Of an alert only that is kept which its record has.
func appendNotice(b []byte, key string, t keyed.AlertEvent, pace keyed.Pace) []byte {
	n := append(compact.AppendFlags(nil, t.Alert != nil), byte(t.Basis))
	n = compact.AppendString(n, key)
	n = compact.AppendTime(n, t.Time)
	n = binary.AppendVarint(binary.AppendVarint(n, int64(pace.Step)), int64(pace.Budget))
	if t.Alert != nil {
		n, _ = t.AppendBinary(n) // which never fails
	}
	return compact.AppendString(b, string(n))
}

// A notice is what appendNotice has appended.
type notice struct {
	key   string
	at    time.Time
	pace  keyed.Pace
	event []byte // nil if there is no alert
	role  keyed.Basis
}

// eachNotice calls f with the notices of b.
func eachNotice(b []byte, f func(notice) error) error {
	all := compact.Reader{B: b}
	for len(all.B) > 0 {
		r := compact.Reader{B: []byte(all.Text())}
		var n notice
		alerts, _, _ := r.Flags()
		n.role = keyed.Basis(r.Byte())
		n.key, n.at = r.Text(), r.Time()
		n.pace = keyed.Pace{Step: time.Duration(r.Varint()), Budget: time.Duration(r.Varint())}
		if alerts {
			n.event = r.B
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
