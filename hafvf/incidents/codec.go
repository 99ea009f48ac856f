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
	format       = 3 // of the encoded bytes
	formerFormat = 2 // without episodes
)

// errState means that bytes do not come from AppendBinary.
var errState = errors.New("incidents: state is cut short or malformed")

// AppendBinary appends the whole state of the fleet to b: its keys, what their groups have learned, the waiting and the
// recent alarms, and the incidents. Equal states have equal bytes. The error is always nil.
//
// The size is about ten bytes per key, at most 240 per group, 20 per alarm of the last day, about 60 and the ID per
// alarm of the last 32 steps (at most 32,768 per group), and about 40 per member of an open incident, with every key at
// most once.
func (f *Fleet) AppendBinary(b []byte) ([]byte, error) {
	c := stateCodec{compact.Codec{Reader: compact.Reader{B: compact.AppendString(append(b, format), f.cfg.groups())}, Writes: true}, true}
	c.fleet(f)
	return c.B, nil
}

// Restore decodes a fleet that AppendBinary encoded. The Budget and Zone of cfg may differ from the previous ones, its
// Separators and By must not. The error wraps compact.ErrNewer if the format is newer.
func Restore(cfg Config, b []byte) (*Fleet, error) {
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	r := stateCodec{compact.Codec{Reader: compact.Reader{B: b}}, true}
	v := r.Byte()
	if v > format && !r.Bad {
		return nil, fmt.Errorf("incidents: state of format %d, not %d: %w", v, format, compact.ErrNewer)
	}
	if r.episodes = v == format; v != format && v != formerFormat && !r.Bad {
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

// RestoreAny is Restore with the grouping of the encoded fleet.
func RestoreAny(b []byte) (*Fleet, error) {
	r := compact.Reader{B: b}
	r.Byte() // Restore checks the format
	cfg := Config{Separators: r.Text(), MaxSinglePages: maxSingle}
	if labels, found := strings.CutPrefix(cfg.Separators, byLabels); found {
		cfg.Separators, cfg.By = "", strings.Split(labels, ",")
	}
	return Restore(cfg, b)
}

// A stateCodec encodes the state of a fleet, or decodes and checks it.
type stateCodec struct {
	compact.Codec
	episodes bool // the state has the episodes of alarms
}

func (c *stateCodec) texts(values ...*string) { compact.Texts(&c.Codec, values...) }

func (c *stateCodec) numbers(values ...*int) {
	compact.Unsigned(&c.Codec, values...)
	for _, n := range values {
		if c.Check(*n >= 0 && *n <= math.MaxInt32); c.Bad {
			*n = 0
		}
	}
}

func (c *stateCodec) bool(value *bool) {
	v := byte(0)
	if *value {
		v = 1
	}
	compact.Bytes(&c.Codec, &v)
	c.Check(v <= 1)
	*value = v == 1
}

// moments encodes or decodes moments within ±farthest.
func (c *stateCodec) moments(values ...*moment) {
	for _, m := range values {
		if c.span(m); !c.Writes && (*m > farthest || *m < -farthest) {
			c.Fail()
			*m = 0
		}
	}
}

// span encodes or decodes a time between moments.
func (c *stateCodec) span(m *moment) { compact.Signed(&c.Codec, m) }

// delta encodes or decodes a moment as the difference from prev.
func (c *stateCodec) delta(m *moment, prev moment) {
	difference := *m - prev
	c.span(&difference)
	*m = prev + difference
}

// step encodes or decodes the step of a key.
func (c *stateCodec) step(m *moment) {
	c.span(m)
	c.Check(*m > 0 && *m <= moment(maxStep))
}

// limited encodes or decodes a float from low to high.
func (c *stateCodec) limited(v *float64, low, high float64) {
	c.Doubles(v)
	c.Check(*v >= low && *v <= high)
}

// episode encodes or decodes the episode of an alarm, which may be nil.
func (c *stateCodec) episode(e **Episode) {
	if c.episodes {
		episodeForm(&c.Codec, e)
	}
}

func episodeForm(c *compact.Codec, e **Episode) {
	id := ""
	if *e != nil {
		id = (*e).ID
	}
	if compact.Texts(c, &id); id == "" {
		return
	}
	p := compact.Ref(e)
	p.ID = id
	c.Lists(&p.UsualMean, &p.UsualSD)
	c.Times(&p.Worst.Time)
	c.Scalars(&p.Worst.Value, &p.Worst.Size)
}

// amount encodes or decodes a finite float that is not negative.
func (c *stateCodec) amount(v *float64) { c.limited(v, 0, math.MaxFloat64) }

// score encodes or decodes a float that is not NaN.
func (c *stateCodec) score(v *float64) { c.limited(v, math.Inf(-1), math.Inf(1)) }

// allowed encodes or decodes the allowed rate of a key.
func (c *stateCodec) allowed(v *float64) {
	c.limited(v, allowance(maxBudget), allowance(minBudget))
}

// suffix encodes or decodes a text as the part that differs from prev. Unless first is true, the text must be greater
// than prev.
func (c *stateCodec) suffix(s *string, prev string, first bool) {
	n := 0
	for n < min(len(*s), len(prev)) && (*s)[n] == prev[n] {
		n++
	}
	rest := (*s)[n:]
	if c.numbers(&n); n > len(prev) {
		c.Fail()
		return
	}
	c.texts(&rest)
	if !c.Writes {
		*s = prev[:n] + rest
		shared := n < len(prev) && rest != "" && rest[0] == prev[n]
		c.Check(!shared && (first || *s > prev))
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
	waiting := slices.Clone(f.waiting) // sorted, and thus a heap
	slices.SortFunc(waiting, (*alarm).compare)
	var before *alarm
	compact.List(&c.Codec, (*[]*alarm)(&waiting), 4+2*8, func(p **alarm) {
		a := compact.Ref(p)
		c.moments(&a.time)
		c.texts(&a.name, &a.id, &a.kind)
		c.score(&a.score)
		c.Doubles(&a.size)
		c.amount(&a.relative)
		c.episode(&a.episode)
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
	var prev *trace
	compact.List(&c.Codec, &f.processed, len(identity{})+1, func(t *trace) {
		c.Raw(t.id[:])
		if prev == nil {
			c.span(&t.takenAt)
		} else {
			c.delta(&t.takenAt, prev.takenAt)
		}
		c.Check(t.takenAt <= f.now && t.takenAt >= -farthest && (prev == nil || t.takenAt >= prev.takenAt))
		if prev = t; !c.Writes {
			_, repeated := f.seen[t.id]
			c.Check(!repeated)
			f.seen[t.id] = struct{}{}
		}
	})
	compact.List(&c.Codec, &f.past, 3, func(e *pastIncident) {
		c.texts(&e.group)
		c.moments(&e.opened)
		c.numbers(&e.size)
	})
	if c.Writes && f.singles.used() || !c.Writes && len(c.B) > 0 { // without singles the state ends here
		f.singles.form(c)
	}
	if !c.Writes {
		f.waiting, f.arrived = waiting, arrived
	}
}

// keys encodes or decodes the keys in sorted order. It returns them, and the index of each by name.
func (c *stateCodec) keys(f *Fleet) (keys []*key, index map[string]int) {
	index = make(map[string]int, len(f.keys))
	for i, name := range slices.Sorted(maps.Keys(f.keys)) {
		keys, index[name] = append(keys, f.keys[name]), i
	}
	prev := &key{}
	compact.List(&c.Codec, &keys, 3, func(p **key) {
		if c.Bad {
			return
		}
		k := compact.Ref(p)
		c.suffix(&k.name, prev.name, prev.step == 0)
		same, alone := k.step == prev.step && k.allowed == prev.allowed, len(k.alone) > 0
		if c.Bits(&k.assumed, &same, &alone); same {
			k.step, k.allowed = prev.step, prev.allowed
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
		prev = k
	})
	return keys, index
}

// groups encodes or decodes the learned state of the groups.
func (c *stateCodec) groups(f *Fleet) {
	c.small(f)
	first := map[uint64]*group{}
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		g := f.groups[name]
		if !g.begun {
			continue
		}
		// A group by labels with the same keys as another has learned the same, if both began together.
		if like := first[g.keyHash]; like == nil {
			first[g.keyHash] = g
		} else if len(f.cfg.By) > 0 {
			same := g.start == like.start && g.decayedAt == like.decayedAt && g.step == like.step && g.allowed == like.allowed && g.n == like.n
			if c.bool(&same); same {
				g.start, g.decayedAt, g.step, g.allowed, g.n = like.start, like.decayedAt, like.step, like.allowed, like.n
				continue
			}
		}
		minStep := g.step
		c.moments(&g.start, &g.decayedAt)
		c.step(&g.step)
		c.amount(&g.allowed)
		c.Check(g.start <= g.decayedAt && g.step >= minStep && g.allowed > 0)
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

// small encodes or decodes the names of the groups by labels that have begun, and have too few keys now.
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

// recent returns the recent alarms of all groups, in the order of processing.
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

// incidents encodes or decodes the open incidents and, of the closed incidents of recent alarms, the group and the
// opening. It returns both, with their numbers from 1.
func (c *stateCodec) incidents(f *Fleet, recent []*alarm) (explaining []*incident, number map[*incident]int) {
	number = map[*incident]int{nil: 0}
	for _, inc := range f.open {
		number[inc] = len(number)
	}
	var closed []*incident
	for _, a := range recent {
		inc := a.explained()
		if _, ok := number[inc]; !ok {
			number[inc] = len(number)
			closed = append(closed, inc)
		}
	}
	compact.List(&c.Codec, &f.open, 20, func(p **incident) { c.open(compact.Ref(p)) })
	compact.List(&c.Codec, &closed, 2, func(p **incident) {
		inc := compact.Ref(p)
		c.texts(&inc.group)
		c.moments(&inc.opened)
	})
	return slices.Concat(f.open, closed), number
}

// open encodes or decodes an open incident.
func (c *stateCodec) open(inc *incident) {
	c.texts(&inc.id, &inc.group)
	c.moments(&inc.opened, &inc.last)
	c.span(&inc.window)
	c.score(&inc.score)
	c.amount(&inc.threshold)
	c.amount(&inc.expected)
	paged, labels, more := inc.paged > 0, len(inc.labels) > 0 && len(inc.labels[0]) > 0, len(inc.labels) > 1
	c.Bits(&inc.page, &inc.weekly, &paged, &labels, &more)
	alertLabelsForm(&c.Codec, labels, more, &inc.labels)
	if paged {
		c.numbers(&inc.paged)
		c.moments(&inc.pagedAt)
		c.bool(&inc.wider)
	}
	c.numbers(&inc.recurs, &inc.usual, &inc.reported)
	c.step(&inc.step)
	c.Check(paged || !inc.page)
	c.Check(inc.window > 0 && inc.window <= maxWindowSteps*moment(maxStep))
	var members []Member
	for _, name := range slices.Sorted(maps.Keys(inc.members)) {
		members = append(members, inc.members[name])
	}
	if !c.Writes {
		inc.members = map[string]Member{}
	}
	maxMemberStep, prev, first := inc.step, "", true
	compact.List(&c.Codec, &members, 4+3*8, func(m *Member) {
		c.suffix(&m.Key, prev, first)
		c.delta(&m.moment, inc.opened)
		c.step(&m.step)
		c.score(&m.Score)
		c.Doubles(&m.Size)
		c.limited(&m.P, 0, 1)
		c.episode(&m.Episode)
		c.Check(m.moment <= farthest && m.moment >= -farthest)
		if prev, first = m.Key, false; !c.Writes {
			m.Key, m.Time = strings.Clone(m.Key), m.moment.time()
			inc.enter(*m)
		}
	})
	c.Check(inc.step == maxMemberStep)
}

// recent encodes or decodes the recent alarms, each with the index of its key and the number of its incident.
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
		c.limited(&a.p, 0, 1)
		c.numbers(&explained)
		c.episode(&a.episode)
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

// AppendBinary appends the encoded event to b. The error is always nil.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	return compact.Encode(b, *e, eventForm), nil
}

// UnmarshalBinary decodes an event that AppendBinary encoded.
func (e *Event) UnmarshalBinary(b []byte) error { return compact.Decode(b, e, eventForm) }

// labelsForm encodes or decodes labels, if present is true.
func labelsForm(c *compact.Codec, present bool, labels *map[string]string) {
	if !present {
		return
	}
	if !c.Writes {
		*labels = map[string]string{}
	}
	compact.Entries(c, *labels, 2, cmp.Compare[string], func(name, value *string) { compact.Texts(c, name, value) })
}

// alertLabelsForm encodes or decodes Event.AlertLabels: the first ones if they are not empty, and more.
func alertLabelsForm(c *compact.Codec, first, more bool, labels *[]map[string]string) {
	if len(*labels) == 0 {
		*labels = []map[string]string{{}}
	}
	labelsForm(c, first, &(*labels)[0])
	if more {
		rest := (*labels)[1:]
		compact.List(c, &rest, 1, func(l *map[string]string) { labelsForm(c, true, l) })
		*labels = append((*labels)[:1:1], rest...)
	}
}

func eventForm(c *compact.Codec, e *Event) {
	labels, first, more, former := len(e.Labels) > 0, len(e.AlertLabels) > 0 && len(e.AlertLabels[0]) > 0, len(e.AlertLabels) > 1, false
	c.Bits(&e.Page, &labels, &first, &former, &e.Paged, &more)
	labelsForm(c, labels, &e.Labels)
	alertLabelsForm(c, first, more, &e.AlertLabels)
	labelsForm(c, former, new(map[string]string)) // labels that an older version replaced
	compact.Texts(c, &e.ID)
	compact.Texts(c, &e.State)
	compact.Texts(c, &e.MergedInto, &e.Group, &e.Message)
	c.Times(&e.Time, &e.Start, &e.End)
	compact.Signed(c, &e.Keys, &e.NumMembers)
	compact.Signed(c, &e.Window)
	c.Scalars(&e.Expected, &e.Score, &e.Threshold)
	compact.List(c, &e.Members, 1, func(m *Member) {
		compact.Texts(c, &m.Key)
		c.Times(&m.Time)
		c.Scalars(&m.Score, &m.Size, &m.P)
	})
	if c.Writes || len(c.B) > 0 { // events of older versions end here
		for i := range e.Members {
			episodeForm(c, &e.Members[i].Episode)
		}
	}
}
