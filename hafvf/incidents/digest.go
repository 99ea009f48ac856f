package incidents

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/compact"
)

// A Digest lists the alarms of a stretch of time that belong to no incident.
type Digest struct {
	Every    time.Duration // the setting that asks for it
	From, To time.Time     // alarms at To are of the next one
	Alarms   []Alarm
}

// Digests gather the alarms that are in no incident. They begin at multiples of their length
// on the clock of the zone, from the midnight of 1970-01-05, a Monday.
type Digests struct {
	every []time.Duration // sorted
	zone  *time.Location

	from  map[time.Duration]time.Time // of the digest that is open; nothing before the first alarm
	alone map[AlarmName]Alarm
}

// NewDigests returns those of some lengths, which are sorted, by the clock of a zone; nil is UTC.
func NewDigests(every []time.Duration, zone *time.Location) Digests {
	return Digests{every, cmp.Or(zone, time.UTC), map[time.Duration]time.Time{}, map[AlarmName]Alarm{}}
}

// Note notes an alarm that was taken, or that has changed its incident since.
func (d *Digests) Note(a Alarm, incident string) {
	if len(d.every) == 0 {
		return
	}
	name := AlarmName{a.Key, a.ID, a.Kind}
	switch {
	case incident != "":
		delete(d.alone, name)
		return
	case a.Time.IsZero(): // it is noted already
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

// Next is the end of the digest that ends first; false if none is open.
func (d *Digests) Next() (first time.Time, some bool) {
	for every, from := range d.from {
		if end := d.grid(every).Next(from); !some || end.Before(first) {
			first, some = end, true
		}
	}
	return first, some
}

// EndOf is the end of the first digest that an alarm of that time would open; false if none is
// asked for.
func (d *Digests) EndOf(at time.Time) (first time.Time, some bool) {
	for _, every := range d.every {
		if end := d.grid(every).Next(at); !some || end.Before(first) {
			first, some = end, true
		}
	}
	return first, some
}

// Close returns the digests that have ended by a time, or all at the end of the input.
func (d *Digests) Close(by time.Time, all bool) (closed []Digest) {
	for _, every := range d.every {
		from, open := d.from[every]
		if !open {
			continue
		}
		to := d.grid(every).Next(from)
		if to.After(by) && !all {
			continue
		}
		digest := Digest{Every: every, From: from, To: to}
		var next time.Time // of the first alarm after this digest
		for _, a := range d.alone {
			if !a.Time.Before(to) {
				next = clock.Earlier(next, a.Time)
			} else if !a.Time.Before(from) {
				digest.Alarms = append(digest.Alarms, a)
			}
		}
		slices.SortFunc(digest.Alarms, func(a, b Alarm) int {
			return cmp.Or(cmp.Compare(b.Score, a.Score), a.Time.Compare(b.Time), cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind))
		})
		if delete(d.from, every); !next.IsZero() && !all { // else the next alarm opens one
			d.from[every] = d.grid(every).Start(next)
		}
		if len(digest.Alarms) > 0 {
			closed = append(closed, digest)
		}
	}
	if len(d.every) > 0 {
		longest := d.every[len(d.every)-1]
		maps.DeleteFunc(d.alone, func(_ AlarmName, a Alarm) bool { return all || a.Time.Before(by.Add(-longest-longest/2)) })
	}
	return closed
}

// Form is how what is open is encoded. What is read is of all lengths: see Adopt.
func (d *Digests) Form(c *compact.Codec) {
	compact.Entries(c, d.from, 2, cmp.Compare[time.Duration], func(every *time.Duration, from *time.Time) {
		compact.Signed(c, every)
		c.Times(from)
	})
	compact.Entries(c, d.alone, 5, AlarmName.Compare, func(n *AlarmName, a *Alarm) {
		n.Form(c)
		c.Times(&a.Time)
		c.Scalars(&a.Score, &a.Size)
		a.Key, a.ID, a.Kind = n.Key, n.ID, n.Kind
	})
}

// Messages is how the messages of the alarms that Form has encoded are.
func (d *Digests) Messages(c *compact.Codec) {
	for _, name := range slices.SortedFunc(maps.Keys(d.alone), AlarmName.Compare) {
		a := d.alone[name]
		compact.Texts(c, &a.Message)
		d.alone[name] = a
	}
}

// Adopt takes what is open of all. Digests of a length that nobody asks for any more are dropped.
func (d *Digests) Adopt(all Digests) {
	for every, from := range all.from {
		if slices.Contains(d.every, every) {
			d.from[every] = from
		}
	}
	if len(d.every) > 0 {
		maps.Copy(d.alone, all.alone)
	}
}

// Forget drops the alarms of the keys that gone reports.
func (d *Digests) Forget(gone func(key string) bool) {
	maps.DeleteFunc(d.alone, func(name AlarmName, _ Alarm) bool { return gone(name.Key) })
}

// An AlarmName names an alarm.
type AlarmName struct{ Key, ID, Kind string }

// Compare orders names by key, id and kind.
func (n AlarmName) Compare(o AlarmName) int {
	return cmp.Or(cmp.Compare(n.Key, o.Key), cmp.Compare(n.ID, o.ID), cmp.Compare(n.Kind, o.Kind))
}

// Form is how a name is encoded.
func (n *AlarmName) Form(c *compact.Codec) { compact.Texts(c, &n.Key, &n.ID, &n.Kind) }
