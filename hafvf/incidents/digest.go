package incidents

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/compact"
)

// A Digest lists the alarms of a period that belong to no incident.
type Digest struct {
	Every    time.Duration // period
	From, To time.Time     // To is excluded
	Alarms   []Alarm
}

// Digests collects the alarms outside incidents. Digests begin at multiples of their period in local time, counted from
// midnight of 1970-01-05, a Monday.
type Digests struct {
	every []time.Duration // sorted
	zone  *time.Location

	from  map[time.Duration]time.Time // start of the open digest, by period; none before the first alarm
	alone map[AlarmName]Alarm
}

// NewDigests returns Digests with the given periods, which must be sorted, in the local time of zone. A nil zone means
// UTC.

func NewDigests(every []time.Duration, zone *time.Location) Digests {
	return Digests{every, cmp.Or(zone, time.UTC), map[time.Duration]time.Time{}, map[AlarmName]Alarm{}}
}

// Add adds an alarm if incident is empty, or else removes it. A zero time means that the alarm was added before.
func (d *Digests) Add(a Alarm, incident string) {
	if len(d.every) == 0 {
		return
	}
	name := AlarmName{a.Key, a.ID, a.Kind}
	switch {
	case incident != "":
		delete(d.alone, name)
		return
	case a.Time.IsZero(): // it was added before
		return
	}
	d.alone[name] = a
	for _, every := range d.every {
		if _, open := d.from[every]; !open {
			d.from[every] = d.grid(every).Start(a.Time)
		}
	}
}

func (d *Digests) grid(every time.Duration) clock.Grid { return clock.Grid{Every: every, Zone: d.zone} }

// Next returns the end of the open digest that ends first. ok is false if none is open.
func (d *Digests) Next() (first time.Time, ok bool) {
	for every, from := range d.from {
		if end := d.grid(every).Next(from); !ok || end.Before(first) {
			first, ok = end, true
		}
	}
	return first, ok
}

// FirstEnd returns the end of the first digest that an alarm at t would open. ok is false if there are no periods.
func (d *Digests) FirstEnd(t time.Time) (first time.Time, ok bool) {
	for _, every := range d.every {
		if end := d.grid(every).Next(t); !ok || end.Before(first) {
			first, ok = end, true
		}
	}
	return first, ok
}

// Close closes the digests that have ended by t, or all if flush is true, and returns those with alarms.
func (d *Digests) Close(t time.Time, flush bool) (closed []Digest) {
	for _, every := range d.every {
		from, open := d.from[every]
		if !open {
			continue
		}
		end := d.grid(every).Next(from)
		if end.After(t) && !flush {
			continue
		}
		digest := Digest{Every: every, From: from, To: end}
		var next time.Time // the first alarm after this digest
		for _, a := range d.alone {
			if !a.Time.Before(end) {
				next = clock.Earlier(next, a.Time)
			} else if !a.Time.Before(from) {
				digest.Alarms = append(digest.Alarms, a)
			}
		}
		slices.SortFunc(digest.Alarms, func(a, b Alarm) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), a.Time.Compare(b.Time), cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind))
		})
		if delete(d.from, every); !next.IsZero() && !flush { // else the next alarm opens a digest
			d.from[every] = d.grid(every).Start(next)
		}
		if len(digest.Alarms) > 0 {
			closed = append(closed, digest)
		}
	}
	if len(d.every) > 0 {
		longest := d.every[len(d.every)-1]
		maps.DeleteFunc(d.alone, func(_ AlarmName, a Alarm) bool { return flush || a.Time.Before(t.Add(-longest-longest/2)) })
	}
	return closed
}

// Append appends the encoded open digests, without the messages of their alarms, to b.
func (d *Digests) Append(b []byte) []byte { return compact.Append(b, d.form) }

// Decode decodes open digests from the front of b. It returns the rest of b. The digests may have other periods: see
// TakeOver.
func (d *Digests) Decode(b []byte) (rest []byte, err error) { return compact.Front(b, d.form) }

// AppendMessages appends the messages of the alarms to b.
func (d *Digests) AppendMessages(b []byte) []byte { return compact.Append(b, d.messages) }

// DecodeMessages decodes the messages of the alarms that Decode has decoded, from the front of b. It returns the rest of b.
func (d *Digests) DecodeMessages(b []byte) (rest []byte, err error) {
	return compact.Front(b, d.messages)
}

func (d *Digests) form(c *compact.Codec) {
	compact.Entries(c, d.from, 2, cmp.Compare[time.Duration], func(every *time.Duration, from *time.Time) {
		compact.Signed(c, every)
		c.Times(from)
	})
	compact.Entries(c, d.alone, 5, AlarmName.Compare, func(n *AlarmName, a *Alarm) {
		n.form(c)
		c.Times(&a.Time)
		c.Scalars(&a.Score, &a.Size)
		a.Key, a.ID, a.Kind = n.Key, n.ID, n.Kind
	})
}

// messages encodes or decodes the messages of the alarms, in the order of form.
func (d *Digests) messages(c *compact.Codec) {
	for _, name := range slices.SortedFunc(maps.Keys(d.alone), AlarmName.Compare) {
		a := d.alone[name]
		compact.Texts(c, &a.Message)
		d.alone[name] = a
	}
}

// TakeOver takes over the open digests of stored. It drops digests with a period that d does not have.
func (d *Digests) TakeOver(stored Digests) {
	for every, from := range stored.from {
		if slices.Contains(d.every, every) {
			d.from[every] = from
		}
	}
	if len(d.every) > 0 {
		maps.Copy(d.alone, stored.alone)
	}
}

// Forget removes the alarms of the keys for which gone returns true.
func (d *Digests) Forget(forgotten func(key string) bool) {
	maps.DeleteFunc(d.alone, func(name AlarmName, _ Alarm) bool { return forgotten(name.Key) })
}

// An AlarmName identifies an alarm.
type AlarmName struct{ Key, ID, Kind string }

// Compare orders names by key, ID and kind.
func (n AlarmName) Compare(o AlarmName) int {
	return cmp.Or(cmp.Compare(n.Key, o.Key), cmp.Compare(n.ID, o.ID), cmp.Compare(n.Kind, o.Kind))
}

func (n *AlarmName) form(c *compact.Codec) { compact.Texts(c, &n.Key, &n.ID, &n.Kind) }
