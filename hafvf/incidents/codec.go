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
	"time"

	"hafvf/internal/compact"
)

const format = 1 // of the bytes

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
	w := stateWriter{b: append(b, format)}
	w.text(f.cfg.groups())
	w.b = compact.AppendFlags(w.b, f.started)
	w.moment(f.at)
	w.float(f.debt)
	w.moment(f.namedAt)
	w.number(len(f.named))
	for _, name := range f.named {
		w.text(name)
	}
	index := w.keys(f.keys)
	recent := w.groups(f)
	w.incidents(f.open, recent)
	w.number(len(recent))
	for _, a := range recent {
		w.number(index[a.name])
		w.moment(a.at)
		w.moment(a.time - a.at)
		w.text(a.id)
		w.text(a.kind)
		w.floats(a.score, a.size, a.p)
		w.number(w.explaining[a.explained()])
	}
	waiting := slices.Clone(f.waiting)
	slices.SortFunc(waiting, (*alarm).compare)
	w.number(len(waiting))
	for _, a := range waiting {
		w.moment(a.time)
		w.text(a.name)
		w.text(a.id)
		w.text(a.kind)
		w.floats(a.score, a.size)
	}
	arrived := slices.Clone(f.arrived)
	slices.SortFunc(arrived, registration.compare)
	w.number(len(arrived))
	for _, r := range arrived {
		w.moment(r.at)
		w.text(r.name)
		w.moment(r.step)
		w.float(r.allowed)
	}
	w.number(len(f.taken))
	last := moment(0)
	for _, t := range f.taken {
		w.b = append(w.b, t.id[:]...)
		w.moment(t.at - last)
		last = t.at
	}
	w.number(len(f.past))
	for _, e := range f.past {
		w.text(e.group)
		w.moment(e.opened)
		w.number(e.size)
	}
	return w.b, nil
}

type stateWriter struct {
	b          []byte
	explaining map[*incident]int // numbers of the incidents, from 1
}

func (w *stateWriter) number(n int)    { w.b = binary.AppendUvarint(w.b, uint64(n)) }
func (w *stateWriter) moment(m moment) { w.b = binary.AppendVarint(w.b, int64(m)) }
func (w *stateWriter) text(s string)   { w.b = compact.AppendString(w.b, s) }
func (w *stateWriter) float(v float64) {
	w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(v))
}
func (w *stateWriter) floats(all ...float64) {
	for _, v := range all {
		w.float(v)
	}
}

// after writes what of a text differs from the one before it.
func (w *stateWriter) after(s, before string) {
	n := 0
	for n < min(len(s), len(before)) && s[n] == before[n] {
		n++
	}
	w.number(n)
	w.text(s[n:])
}

// keys writes the keys in their order, and returns the place of each.
func (w *stateWriter) keys(all map[string]*key) (index map[string]int) {
	keys := slices.Sorted(maps.Keys(all))
	index = make(map[string]int, len(keys))
	w.number(len(keys))
	before := &key{}
	for i, name := range keys {
		index[name] = i
		k := all[name]
		w.after(name, before.name)
		same := k.step == before.step && k.allowed == before.allowed
		w.b = compact.AppendFlags(w.b, k.assumed, same, len(k.alone) > 0)
		if !same {
			w.moment(k.step)
			w.float(k.allowed)
		}
		if len(k.alone) > 0 {
			w.number(len(k.alone))
			for _, m := range k.alone {
				w.moment(m)
			}
		}
		before = k
	}
	return index
}

// groups writes what the groups of the keys have learned. It returns their recent alarms in the order
// in which they came.
func (w *stateWriter) groups(f *Fleet) (recent []*alarm) {
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		g := f.groups[name]
		w.moment(g.since)
		w.moment(g.at)
		w.moment(g.step)
		w.float(g.allowed)
		hours := uint32(0)
		for h, n := range g.n {
			if n != 0 {
				hours |= 1 << h
			}
		}
		w.b = binary.LittleEndian.AppendUint32(w.b, hours)
		for _, n := range g.n {
			if n != 0 {
				w.float(n)
			}
		}
		for _, a := range g.recent.alarms[g.recent.first:] {
			if a.key != nil && a.at > f.at-longest*g.step {
				recent = append(recent, a)
			}
		}
	}
	// An alarm is recent in several groups.
	slices.SortFunc(recent, func(a, b *alarm) int { return cmp.Compare(a.order, b.order) })
	return slices.Compact(recent)
}

// incidents writes the open incidents, and of others that recent alarms belong to what explains
// these.
func (w *stateWriter) incidents(open []*incident, recent []*alarm) {
	w.explaining = map[*incident]int{nil: 0}
	for _, inc := range open {
		w.explaining[inc] = len(w.explaining)
	}
	var over []*incident
	for _, a := range recent {
		inc := a.explained()
		if _, there := w.explaining[inc]; !there {
			w.explaining[inc] = len(w.explaining)
			over = append(over, inc)
		}
	}
	w.number(len(open))
	for _, inc := range open {
		w.text(inc.id)
		w.text(inc.group)
		w.moment(inc.opened)
		w.moment(inc.last)
		w.moment(inc.window)
		w.floats(inc.score, inc.threshold, inc.expected)
		w.b = compact.AppendFlags(w.b, inc.page, inc.weekly, inc.paged > 0)
		if inc.paged > 0 {
			w.number(inc.paged)
			w.moment(inc.pagedAt)
			w.b = compact.AppendFlags(w.b, inc.wider)
		}
		w.number(inc.recurs)
		w.number(inc.usual)
		w.number(inc.reported)
		w.moment(inc.step)
		w.number(len(inc.members))
		before := ""
		for _, name := range slices.Sorted(maps.Keys(inc.members)) {
			m := inc.members[name]
			w.after(name, before)
			before = name
			w.moment(m.at - inc.opened)
			w.moment(m.step)
			w.floats(m.Score, m.Size, m.P)
		}
	}
	w.number(len(over))
	for _, inc := range over {
		w.text(inc.group)
		w.moment(inc.opened)
	}
}

// Restore makes a fleet of the bytes of another one. Its Budget and Zone may differ from those
// before, its Separators and labels must not.
func Restore(cfg Config, b []byte) (*Fleet, error) {
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	r := stateReader{Reader: compact.Reader{B: b}}
	if v := r.Byte(); v != format && !r.Bad {
		return nil, fmt.Errorf("incidents: state of format %d, not %d", v, format)
	}
	if s := r.Text(); s != f.cfg.groups() && !r.Bad {
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
	r := stateReader{Reader: compact.Reader{B: b}}
	r.Byte() // Restore looks at the format
	cfg := Config{Separators: r.Text()}
	if labels, found := strings.CutPrefix(cfg.Separators, byLabels); found {
		cfg = Config{By: strings.Split(labels, ",")}
	}
	return Restore(cfg, b)
}

type stateReader struct{ compact.Reader }

func (r *stateReader) check(ok bool) {
	if !ok {
		r.Fail()
	}
}

func (r *stateReader) number() int {
	n := r.Uvarint()
	r.check(n <= math.MaxInt32)
	return int(min(n, math.MaxInt32))
}

func (r *stateReader) bool() bool {
	v := r.Byte()
	r.check(v <= 1)
	return v == 1
}

// moment reads one that a fleet takes.
func (r *stateReader) moment() moment {
	m := moment(r.Varint())
	if m > farthest || m < -farthest {
		r.Fail()
		return 0
	}
	return m
}

// span reads a time between moments.
func (r *stateReader) span() moment { return moment(r.Varint()) }

// step reads a step of a key.
func (r *stateReader) step() moment {
	m := r.span()
	r.check(m > 0 && m <= moment(longestStep))
	return m
}

func (r *stateReader) float() float64 {
	var b [8]byte
	r.Take(b[:])
	return math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
}

// within reads a float from least to most.
func (r *stateReader) within(least, most float64) float64 {
	v := r.float()
	r.check(v >= least && v <= most)
	return v
}

// amount reads a float that is finite and not negative.
func (r *stateReader) amount() float64 { return r.within(0, math.MaxFloat64) }

// score reads a float that is not NaN.
func (r *stateReader) score() float64 { return r.within(math.Inf(-1), math.Inf(1)) }

func (r *stateReader) probability() float64 { return r.within(0, 1) }

// allowed reads the allowance of a key.
func (r *stateReader) allowed() float64 {
	return r.within(allowance(mostBudget), allowance(leastBudget))
}

// after reads a text that follows one before it in the order of texts, unless it is the first.
func (r *stateReader) after(before string, first bool) string {
	n := r.number()
	if n > len(before) {
		r.Fail()
		return ""
	}
	rest := r.Text()
	s := before[:n] + rest
	shared := n < len(before) && rest != "" && rest[0] == before[n]
	r.check(!shared && (first || s > before))
	return s
}

func (r *stateReader) fleet(f *Fleet) {
	f.started = r.bool()
	f.at = r.moment()
	f.debt = r.amount()
	f.namedAt = r.moment()
	for range r.Count(1) {
		f.named = append(f.named, r.Text())
	}
	keys := r.keys(f)
	r.groups(f)
	explaining := r.incidents(f)
	last := moment(math.MinInt64)
	for range r.Count(5 + 3*8) {
		if a := r.recent(f, keys, explaining); a != nil {
			r.check(last <= a.at)
			last = a.at
			for i, g := range a.key.groups {
				if keep := longest * g.step; a.at > f.at-keep {
					g.recent.add(a, i, keep)
				}
			}
		}
	}
	var before *alarm
	for range r.Count(4 + 2*8) {
		a := &alarm{time: r.moment(), name: r.Text(), id: r.Text(), kind: r.Text(), score: r.score(), size: r.float()}
		r.check(before == nil || before.compare(a) < 0)
		before = a
		f.waiting = append(f.waiting, a) // sorted, and so a heap
		f.seen[identify(a.id, a.name, a.kind)] = struct{}{}
	}
	for i := range r.Count(3 + 8) {
		g := registration{at: r.moment(), name: r.Text(), step: r.step(), allowed: r.allowed()}
		r.check(i == 0 || g.compare(f.arrived[i-1]) >= 0)
		f.arrived = append(f.arrived, g)
	}
	was := moment(0)
	for i := range r.Count(len(identity{}) + 1) {
		var t trace
		r.Take(t.id[:])
		by := r.span()
		t.at = was + by
		r.check(t.at <= f.at && t.at >= -farthest && (i == 0 || by >= 0 && t.at >= was))
		was = t.at
		_, repeated := f.seen[t.id]
		r.check(!repeated)
		f.seen[t.id] = struct{}{}
		f.taken = append(f.taken, t)
	}
	for range r.Count(3) {
		f.past = append(f.past, episode{r.Text(), r.moment(), r.number()})
	}
}

func (r *stateReader) keys(f *Fleet) []*key {
	n := r.Count(3)
	keys := make([]*key, 0, n)
	before := &key{}
	for i := range n {
		k := &key{name: r.after(before.name, i == 0), step: before.step, allowed: before.allowed}
		assumed, same, alone := r.Flags()
		k.assumed = assumed
		if !same {
			k.step, k.allowed = r.step(), r.allowed()
		}
		if alone {
			for range r.Count(1) {
				k.alone = append(k.alone, r.moment())
			}
		}
		r.check(k.step > 0 && len(k.alone) <= restless+5)
		if r.Bad {
			return nil
		}
		f.keys[k.name] = k
		f.enter(k, 0)
		keys = append(keys, k)
		before = k
	}
	return keys
}

// groups reads what the groups of the keys have learned.
func (r *stateReader) groups(f *Fleet) {
	for _, name := range slices.Sorted(maps.Keys(f.groups)) {
		g := f.groups[name]
		g.since, g.at = r.moment(), r.moment()
		least := g.step
		g.step = r.step()
		g.allowed = r.amount()
		r.check(g.since <= g.at && g.step >= least && g.allowed > 0)
		var b [4]byte
		r.Take(b[:])
		hours := binary.LittleEndian.Uint32(b[:])
		r.check(hours < 1<<24)
		for h := range g.n {
			if hours&(1<<h) != 0 {
				g.n[h] = r.amount()
				r.check(g.n[h] > 0)
			}
		}
		if r.Bad {
			return
		}
	}
}

// incidents reads those that are open, and then what explains recent alarms.
func (r *stateReader) incidents(f *Fleet) (explaining []*incident) {
	for range r.Count(20) {
		inc := &incident{id: r.Text(), group: r.Text(), opened: r.moment(), last: r.moment(), window: r.span()}
		inc.score, inc.threshold, inc.expected = r.score(), r.amount(), r.amount()
		var paged bool
		if inc.page, inc.weekly, paged = r.Flags(); paged {
			inc.paged, inc.pagedAt, inc.wider = r.number(), r.moment(), r.bool()
		}
		inc.recurs, inc.usual, inc.reported = r.number(), r.number(), r.number()
		if inc.page && !paged { // a state of before
			inc.paged, inc.pagedAt = max(1, inc.reported), inc.opened
		}
		inc.step = r.step()
		r.check(inc.window > 0 && inc.window <= longest*moment(longestStep))
		inc.members, inc.steps = map[string]Member{}, map[moment]int{}
		most, before := inc.step, ""
		for i := range r.Count(4 + 3*8) {
			m := Member{Key: strings.Clone(r.after(before, i == 0)), at: inc.opened + r.span(), step: r.step()}
			m.Score, m.Size, m.P = r.score(), r.float(), r.probability()
			r.check(m.at <= farthest && m.at >= -farthest)
			m.Time = m.at.time()
			before = m.Key
			inc.enter(m)
		}
		r.check(inc.step == most)
		f.open = append(f.open, inc)
		explaining = append(explaining, inc)
	}
	for range r.Count(2) {
		explaining = append(explaining, &incident{group: r.Text(), opened: r.moment()})
	}
	return explaining
}

func (r *stateReader) recent(f *Fleet, keys []*key, explaining []*incident) *alarm {
	f.order++
	n := r.number()
	a := &alarm{order: f.order, at: r.moment()}
	a.time = a.at + r.span()
	a.id, a.kind, a.score, a.size, a.p = r.Text(), r.Text(), r.score(), r.float(), r.probability()
	explained := r.number()
	r.check(n < len(keys) && explained <= len(explaining) && a.at <= f.at && a.time <= a.at && a.time >= -farthest)
	if r.Bad {
		return nil
	}
	a.key, a.name = keys[n], keys[n].name
	if explained > 0 {
		a.incident = explaining[explained-1]
	}
	return a
}

// AppendBinary appends the encoded event to b. The error is nil.
func (e *Event) AppendBinary(b []byte) ([]byte, error) {
	b = compact.AppendFlags(b, e.Page)
	for _, s := range []string{e.ID, string(e.State), e.Into, e.Group, e.Message} {
		b = compact.AppendString(b, s)
	}
	for _, t := range []time.Time{e.Time, e.Start, e.End} {
		b = compact.AppendTime(b, t)
	}
	for _, n := range []int64{int64(e.Keys), int64(e.NumMembers), int64(e.Window)} {
		b = binary.AppendVarint(b, n)
	}
	b = compact.AppendFloats(b, []float64{e.Expected, e.Score, e.Threshold})
	b = binary.AppendUvarint(b, uint64(len(e.Members)))
	for _, m := range e.Members {
		b = compact.AppendTime(compact.AppendString(b, m.Key), m.Time)
		b = compact.AppendFloats(b, []float64{m.Score, m.Size, m.P})
	}
	return b, nil
}

// UnmarshalBinary decodes what AppendBinary encoded.
func (e *Event) UnmarshalBinary(b []byte) error {
	*e = Event{}
	r := &compact.Reader{B: b}
	e.Page, _, _ = r.Flags()
	e.ID, e.State, e.Into, e.Group, e.Message = r.Text(), State(r.Text()), r.Text(), r.Text(), r.Text()
	e.Time, e.Start, e.End = r.Time(), r.Time(), r.Time()
	e.Keys, e.NumMembers, e.Window = int(r.Varint()), int(r.Varint()), time.Duration(r.Varint())
	r.Numbers(&e.Expected, &e.Score, &e.Threshold)
	for range r.Count(1) {
		m := Member{Key: r.Text(), Time: r.Time()}
		r.Numbers(&m.Score, &m.Size, &m.P)
		e.Members = append(e.Members, m)
	}
	if r.Bad || len(r.B) > 0 {
		return compact.ErrCut
	}
	return nil
}
