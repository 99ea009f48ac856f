package incidents

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hafvf/internal/compact"
)

const (
	format = 2 // of the bytes
)

// errState is the error of bytes that AppendBinary did not make.
var errState = errors.New("incidents: state is cut short or malformed")

// AppendBinary appends the whole state of the fleet to b: its keys, what their groups have
// learned, the alarms that wait or are recent, and the incidents. Equal states have equal bytes.
// The error is always nil.
//
// There are about ten bytes for a key, at most 240 for a group, 20 for an alarm of the last day,
// about 60 and the id for one of the last 32 steps, of which a group keeps the latest 32,768, and
// about 40 for a member of an open incident, which has every key at most once.
func (f *Fleet) AppendBinary(b []byte) ([]byte, error) {
	c := stateCodec{compact.Codec{Reader: compact.Reader{B: compact.AppendString(append(b, format), f.cfg.groups())}, Writes: true}}
	c.fleet(f)
	return c.B, nil
}

// Restore makes a fleet of the bytes of another one. Its Budget and Zone may differ from those
// before, its Separators and labels must not.
func Restore(cfg Config, b []byte) (*Fleet, error) {
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	r := stateCodec{compact.Codec{Reader: compact.Reader{B: b}}}
	v := r.Byte()
	if v > format && !r.Bad {
		return nil, fmt.Errorf("incidents: state of format %d, not %d: %w", v, format, compact.ErrNewer)
	}
	if v != format && !r.Bad {
		return nil, fmt.Errorf("incidents: state of format %d, not %d", v, format)
	}
	s := r.Text()
	if s != f.cfg.groups() && !r.Bad {
		return nil, fmt.Errorf("incidents: state of groups by %q, not %q", s, f.cfg.groups())
	}
	r.fleet(f)
	if r.Bad || len(r.B) > 0 {
		return nil, errState
	}
	return f, nil
}

// RestoreAny is Restore whatever the groups of the other fleet are: it takes them over.
func RestoreAny(b []byte) (*Fleet, error) {
	r := compact.Reader{B: b}
	r.Byte() // Restore looks at the format
	cfg := Config{Separators: r.Text(), Single: maxSingle}
	if labels, found := strings.CutPrefix(cfg.Separators, byLabels); found {
		cfg.Separators, cfg.By = "", strings.Split(labels, ",")
	}
	return Restore(cfg, b)
}

// A stateCodec writes the state of a fleet, or reads it and checks what it reads.
type stateCodec struct{ compact.Codec }

func (c *stateCodec) texts(all ...*string) { compact.Texts(&c.Codec, all...) }

func (c *stateCodec) numbers(all ...*int) {
	compact.Unsigned(&c.Codec, all...)
	for _, n := range all {
		if c.Check(*n >= 0 && *n <= math.MaxInt32); c.Bad {
			*n = 0
		}
	}
}

func (c *stateCodec) bool(on *bool) {
	v := byte(0)
	if *on {
		v = 1
	}
	compact.Bytes(&c.Codec, &v)
	c.Check(v <= 1)
	*on = v == 1
}

// moments are those that a fleet takes.
func (c *stateCodec) moments(all ...*moment) {
	for _, m := range all {
		if c.span(m); !c.Writes && (*m > farthest || *m < -farthest) {
			c.Fail()
			*m = 0
		}
	}
}

// span is a time between moments.
func (c *stateCodec) span(m *moment) { compact.Signed(&c.Codec, m) }

// since is a moment by its distance from one before it.
func (c *stateCodec) delta(m *moment, before moment) {
	by := *m - before
	c.span(&by)
	*m = before + by
}

// step is that of a key.
func (c *stateCodec) step(m *moment) {
	c.span(m)
	c.Check(*m > 0 && *m <= moment(maxStep))
}

// within is a float from least to most.
func (c *stateCodec) between(v *float64, least, most float64) {
	c.Doubles(v)
	c.Check(*v >= least && *v <= most)
}

// amount is a float that is finite and not negative.
func (c *stateCodec) amount(v *float64) { c.between(v, 0, math.MaxFloat64) }

// score is a float that is not NaN.
func (c *stateCodec) score(v *float64) { c.between(v, math.Inf(-1), math.Inf(1)) }

// allowed is the allowance of a key.
func (c *stateCodec) allowed(v *float64) {
	c.between(v, allowance(maxBudget), allowance(minBudget))
}

// after is what of a text differs from one before it, which it follows in the order of texts unless it is the
// first.
func (c *stateCodec) suffix(s *string, before string, first bool) {
	n := 0
	for n < min(len(*s), len(before)) && (*s)[n] == before[n] {
		n++
	}
	rest := (*s)[n:]
	if c.numbers(&n); n > len(before) {
		c.Fail()
		return
	}
	c.texts(&rest)
	if !c.Writes {
		*s = before[:n] + rest
		shared := n < len(before) && rest != "" && rest[0] == before[n]
		c.Check(!shared && (first || *s > before))
	}
}

func (c *stateCodec) fleet(f *Fleet) {
	c.bool(&f.started)
	c.moments(&f.now)
	c.amount(&f.debt)
	c.moments(&f.namedAt)
	compact.List(&c.Codec, &f.named, 1, func(name *string) { c.texts(name) })
	keys, index := c.keys(f)
	c.groups(f)
	var recent []*alarm
	if c.Writes {
		recent = f.recent()
	}
	explaining, number := c.incidents(f, recent)
	c.recent(f, recent, keys, index, explaining, number)
	waiting := slices.Clone(f.waiting) // sorted, and so a heap
	slices.SortFunc(waiting, (*alarm).compare)
	var before *alarm
	compact.List(&c.Codec, (*[]*alarm)(&waiting), 4+2*8, func(p **alarm) {
		a := compact.Ref(p)
		c.moments(&a.time)
		c.texts(&a.name, &a.id, &a.kind)
		c.score(&a.score)
		c.Doubles(&a.size)
		c.amount(&a.relative)
		c.Check(before == nil || before.compare(a) < 0)
		before = a
		if !c.Writes {
			f.seen[identify(a.id, a.name, a.kind)] = struct{}{}
		}
	})
	arrived := slices.Clone(f.arrived)
	slices.SortFunc(arrived, registration.compare)
	var registered *registration
	compact.List(&c.Codec, (*[]registration)(&arrived), 3+8, func(r *registration) {
		c.moments(&r.time)
		c.texts(&r.name)
		c.step(&r.step)
		c.allowed(&r.allowed)
		c.Check(registered == nil || r.compare(*registered) >= 0)
		registered = r
	})
	var was *trace
	compact.List(&c.Codec, &f.taken, len(identity{})+1, func(t *trace) {
		c.Raw(t.id[:])
		if was == nil {
			c.span(&t.takenAt)
		} else {
			c.delta(&t.takenAt, was.takenAt)
		}
		c.Check(t.takenAt <= f.now && t.takenAt >= -farthest && (was == nil || t.takenAt >= was.takenAt))
		if was = t; !c.Writes {
			_, repeated := f.seen[t.id]
			c.Check(!repeated)
			f.seen[t.id] = struct{}{}
		}
	})
	compact.List(&c.Codec, &f.past, 3, func(e *episode) {
		c.texts(&e.group)
		c.moments(&e.opened)
		c.numbers(&e.size)
	})
	if c.Writes && f.singles.used() || !c.Writes && len(c.B) > 0 { // a state without alarms ends here
		f.singles.form(c)
	}
	if !c.Writes {
		f.waiting, f.arrived = waiting, arrived
	}
}

// keys are the keys in their order, with the place of each.
func (c *stateCodec) keys(f *Fleet) (keys []*key, index map[string]int) {
	index = make(map[string]int, len(f.keys))
	for i, name := range slices.Sorted(maps.Keys(f.keys)) {
		keys, index[name] = append(keys, f.keys[name]), i
	}
	before := &key{}
	compact.List(&c.Codec, &keys, 3, func(p **key) {
		if c.Bad {
			return
		}
		k := compact.Ref(p)
		c.suffix(&k.name, before.name, before.step == 0)
		same, alone := k.step == before.step && k.allowed == before.allowed, len(k.alone) > 0
		if c.Bits(&k.assumed, &same, &alone); same {
			k.step, k.allowed = before.step, before.allowed
		} else {
			c.step(&k.step)
			c.allowed(&k.allowed)
		}
		if alone {
			compact.List(&c.Codec, &k.alone, 1, func(m *moment) { c.moments(m) })
		}
		c.Check(k.step > 0 && len(k.alone) <= noisyAlarms+5)
		if !c.Writes && !c.Bad {
			f.keys[k.name] = k
			f.enter(k, 0)
		}
		before = k
	})
	return keys, index
}

// groups are what the groups of the keys have learned.
func (c *stateCodec) groups(f *Fleet) {
	c.small(f)
	first := map[uint64]*group{}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		g := f.groups[name]
		if !g.begun {
			continue
		}
		// A group by labels that has the keys of another has learned the same, if both began together.
		if like := first[g.keyHash]; like == nil {
			first[g.keyHash] = g
		} else if len(f.cfg.By) > 0 {
			same := g.start == like.start && g.decayedAt == like.decayedAt && g.step == like.step && g.allowed == like.allowed && g.n == like.n
			if c.bool(&same); same {
				g.start, g.decayedAt, g.step, g.allowed, g.n = like.start, like.decayedAt, like.step, like.allowed, like.n
				continue
			}
		}
		least := g.step
		c.moments(&g.start, &g.decayedAt)
		c.step(&g.step)
		c.amount(&g.allowed)
		c.Check(g.start <= g.decayedAt && g.step >= least && g.allowed > 0)
		hours := uint32(0)
		for h, n := range g.n {
			if n != 0 {
				hours |= 1 << h
			}
		}
		b := binary.LittleEndian.AppendUint32(nil, hours)
		c.Raw(b)
		hours = binary.LittleEndian.Uint32(b)
		c.Check(hours < 1<<24)
		for h := range g.n {
			if hours&(1<<h) != 0 {
				c.amount(&g.n[h])
				c.Check(g.n[h] > 0)
			}
		}
		if c.Bad {
			return
		}
	}
}

// small are the groups by labels that have had more keys.
func (c *stateCodec) small(f *Fleet) {
	if len(f.cfg.By) == 0 {
		return
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		if g := f.groups[name]; g.begun && g.keys < f.minKeys(g) {
			names = append(names, name)
		}
	}
	compact.List(&c.Codec, &names, 1, func(name *string) {
		c.texts(name)
		g := f.groups[*name]
		if c.Check(g != nil); g != nil {
			g.begun = true
		}
	})
}

// recent are the recent alarms of all groups, in the order in which they came.
func (f *Fleet) recent() (recent []*alarm) {
	for _, g := range f.groups {
		for _, a := range g.recent.alarms[g.recent.first:] {
			if a.key != nil && a.takenAt > f.now-maxWindowSteps*g.step {
				recent = append(recent, a)
			}
		}
	}
	// An alarm is recent in several groups.
	slices.SortFunc(recent, func(a, b *alarm) int { return cmp.Compare(a.order, b.order) })
	return slices.Compact(recent)
}

// incidents are the open ones, and of others that recent alarms belong to what explains these. It returns
// both, with their numbers from 1.
func (c *stateCodec) incidents(f *Fleet, recent []*alarm) (explaining []*incident, number map[*incident]int) {
	number = map[*incident]int{nil: 0}
	for _, inc := range f.open {
		number[inc] = len(number)
	}
	var over []*incident
	for _, a := range recent {
		inc := a.explained()
		if _, there := number[inc]; !there {
			number[inc] = len(number)
			over = append(over, inc)
		}
	}
	compact.List(&c.Codec, &f.open, 20, func(p **incident) { c.open(compact.Ref(p)) })
	compact.List(&c.Codec, &over, 2, func(p **incident) {
		inc := compact.Ref(p)
		c.texts(&inc.group)
		c.moments(&inc.opened)
	})
	return slices.Concat(f.open, over), number
}

// open is an open incident.
func (c *stateCodec) open(inc *incident) {
	c.texts(&inc.id, &inc.group)
	c.moments(&inc.opened, &inc.last)
	c.span(&inc.window)
	c.score(&inc.score)
	c.amount(&inc.threshold)
	c.amount(&inc.expected)
	paged, labels := inc.paged > 0, len(inc.labels) > 0
	c.Bits(&inc.page, &inc.weekly, &paged, &labels)
	labelsForm(&c.Codec, labels, &inc.labels)
	if paged {
		c.numbers(&inc.paged)
		c.moments(&inc.pagedAt)
		c.bool(&inc.wider)
	}
	c.numbers(&inc.recurs, &inc.usual, &inc.reported)
	if inc.reportedPage = inc.page; !c.Writes && inc.page && !paged { // a state of before
		inc.paged, inc.pagedAt = max(1, inc.reported), inc.opened
	}
	c.step(&inc.step)
	c.Check(inc.window > 0 && inc.window <= maxWindowSteps*moment(maxStep))
	var members []Member
	for _, name := range slices.Sorted(maps.Keys(inc.members)) {
		members = append(members, inc.members[name])
	}
	if !c.Writes {
		inc.members = map[string]Member{}
	}
	most, before, first := inc.step, "", true
	compact.List(&c.Codec, &members, 4+3*8, func(m *Member) {
		c.suffix(&m.Key, before, first)
		c.delta(&m.moment, inc.opened)
		c.step(&m.step)
		c.score(&m.Score)
		c.Doubles(&m.Size)
		c.between(&m.P, 0, 1)
		c.Check(m.moment <= farthest && m.moment >= -farthest)
		if before, first = m.Key, false; !c.Writes {
			m.Key, m.Time = strings.Clone(m.Key), m.moment.time()
			inc.enter(*m)
		}
	})
	c.Check(inc.step == most)
}

// recent are the recent alarms, each with the places of its key and of what explains it.
func (c *stateCodec) recent(f *Fleet, recent []*alarm, keys []*key, index map[string]int, explaining []*incident, number map[*incident]int) {
	last := moment(math.MinInt64)
	compact.List(&c.Codec, &recent, 5+3*8, func(p **alarm) {
		a := compact.Ref(p)
		n, explained := index[a.name], number[a.explained()]
		c.numbers(&n)
		c.moments(&a.takenAt)
		c.delta(&a.time, a.takenAt)
		c.texts(&a.id, &a.kind)
		c.score(&a.score)
		c.Doubles(&a.size)
		c.between(&a.p, 0, 1)
		c.numbers(&explained)
		c.Check(n < len(keys) && explained <= len(explaining) && a.takenAt <= f.now && a.time <= a.takenAt && a.time >= -farthest && a.takenAt >= last)
		if last = a.takenAt; c.Writes || c.Bad {
			return
		}
		f.order++
		a.order, a.decided, a.key, a.name = f.order, true, keys[n], keys[n].name
		if explained > 0 {
			a.incident = explaining[explained-1]
		}
		f.addRecent(a)
	})
}

// AppendBinary appends the encoded event to b. The error is nil.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	return compact.Encode(b, *e, eventForm), nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (e *Event) UnmarshalBinary(b []byte) error { return compact.Decode(b, e, eventForm) }

// labelsForm is how labels are encoded, if there are some.
func labelsForm(c *compact.Codec, some bool, all *map[string]string) {
	if !some {
		return
	}
	if !c.Writes {
		*all = map[string]string{}
	}
	compact.Entries(c, *all, 2, cmp.Compare[string], func(name, value *string) { compact.Texts(c, name, value) })
}

func eventForm(c *compact.Codec, e *Event) {
	labels, page, replaced := len(e.Labels) > 0, len(e.PageLabels) > 0, e.Replaced != nil
	c.Bits(&e.Page, &labels, &page, &replaced, &e.Paged)
	labelsForm(c, labels, &e.Labels)
	labelsForm(c, page, &e.PageLabels)
	labelsForm(c, replaced, &e.Replaced)
	compact.Texts(c, &e.ID)
	compact.Texts(c, &e.State)
	compact.Texts(c, &e.Into, &e.Group, &e.Message)
	c.Times(&e.Time, &e.Start, &e.End)
	compact.Signed(c, &e.Keys, &e.NumMembers)
	compact.Signed(c, &e.Window)
	c.Scalars(&e.Expected, &e.Score, &e.Threshold)
	compact.List(c, &e.Members, 1, func(m *Member) {
		compact.Texts(c, &m.Key)
		c.Times(&m.Time)
		c.Scalars(&m.Score, &m.Size, &m.P)
	})
}
