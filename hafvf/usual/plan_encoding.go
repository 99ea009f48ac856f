package usual

import (
	"encoding/binary"
	"math"

	"hafvf/internal/compact"
)

// AppendPlan appends the encoded plan of a stream of that state to b.
func (p *Profile) AppendPlan(b []byte, plan Plan, s State) []byte {
	for i := range plan {
		c := &plan[i]
		moved := c.seen != p.coordinate(s, i).streak[streakSeen]
		b = compact.AppendFlags(b, moved, c.events.events > 0, c.table.slot > 0)
		if moved {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c.seen))
		}
		b = appendShort(b, c.lately.floats())
		b = binary.AppendUvarint(b, uint64(c.lately.age))
		if c.events.events > 0 {
			b = appendShort(b, c.events.floats())
		}
		if c.table.slot > 0 {
			b = c.table.append(b, p.slots)
		}
	}
	return b
}

// ReadPlan reads what AppendPlan wrote of a stream of that state. The reader has failed if that is no plan.
func (p *Profile) ReadPlan(r *compact.Reader, s State) Plan {
	plan := p.NewPlan(s)
	for i := range plan {
		c := &plan[i]
		moved, events, table := r.Flags()
		if moved {
			var b [8]byte
			r.Take(b[:])
			c.seen = math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
		}
		readShort(r, c.lately.floats())
		c.lately.age = uint16(r.Uvarint())
		if events {
			readShort(r, c.events.floats())
		}
		if table {
			c.table.read(r, p.slots)
		}
		if !c.valid(p, events, table) {
			r.Fail()
		}
	}
	return plan
}

func appendShort(b []byte, v []*float32) []byte {
	for _, f := range v {
		b = compact.AppendShort(b, float64(*f))
	}
	return b
}

func readShort(r *compact.Reader, to []*float32) {
	for _, v := range to {
		*v = float32(r.Short())
	}
}

func (s *lately) floats() []*float32 { return []*float32{&s.late, &s.always, &s.side} }

func (s *eventScatter) floats() []*float32 {
	all := []*float32{&s.cases, &s.events, &s.squares, &s.weight}
	for i := range s.sums {
		all = append(all, &s.sums[i], &s.logs[i])
	}
	return all
}

func (t *planTable) floats() []*float32 {
	return []*float32{&t.sum, &t.log, &t.mean, &t.day.alike, &t.day.same, &t.day.other, &t.week.alike, &t.week.same, &t.week.other}
}

// append encodes a table of so many offsets. Of equal visits of hours in a row it writes how many there are.
func (t *planTable) append(b []byte, slots int) []byte {
	b = appendShort(b, t.floats())
	for _, n := range []int{int(t.slot), int(t.n), int(t.visits), int(t.day.n), int(t.week.n)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = append(b, byte(t.unit))
	if t.visits > 0 {
		for i := range slots {
			b = append(b, byte(t.offset[i]))
		}
		b = appendBits(b, 6, slots, t.visitCode)
	}
	for i := 0; i < dayHours; {
		n := 1
		for i+n < dayHours && t.hourN[i+n] == t.hourN[i] {
			n++
		}
		b = append(b, byte(n), t.hourN[i])
		i += n
	}
	return appendBits(b, 12, dayHours, func(i int) int { return int(t.hours[i]) })
}

// visitCode is what is encoded of a last visit.
func (t *planTable) visitCode(slot int) int {
	if t.last[slot] == unknown {
		return -mostVisit - 1
	}
	return int(t.last[slot]) / visitUnits
}

// appendBits appends n signed numbers of so many bits, at most 12.
func appendBits(b []byte, width, n int, of func(i int) int) []byte {
	held, bits := uint32(0), 0
	for i := range n {
		held |= uint32(of(i)) & (1<<width - 1) << bits
		for bits += width; bits >= 8; bits -= 8 {
			b = append(b, byte(held))
			held >>= 8
		}
	}
	if bits > 0 {
		b = append(b, byte(held))
	}
	return b
}

// readBits reads what appendBits wrote.
func readBits(r *compact.Reader, width, n int, to func(i, v int)) {
	held, bits := uint32(0), 0
	for i := range n {
		for ; bits < width; bits += 8 {
			held |= uint32(r.Byte()) << bits
		}
		v := int(held & (1<<width - 1))
		if v >= 1<<(width-1) {
			v -= 1 << width
		}
		to(i, v)
		held >>= width
		bits -= width
	}
}

func (t *planTable) read(r *compact.Reader, slots int) {
	t.begin(0)
	readShort(r, t.floats())
	t.slot, t.n = int16(r.Uvarint()), int32(r.Uvarint())
	t.visits, t.day.n, t.week.n = uint8(r.Uvarint()), uint16(r.Uvarint()), uint16(r.Uvarint())
	t.unit = int8(r.Byte())
	if t.visits > 0 {
		for i := range slots {
			t.offset[i] = int8(r.Byte())
		}
		readBits(r, 6, slots, func(i, v int) {
			if t.last[i] = unknown; v >= -mostVisit {
				t.last[i] = int8(visitUnits * v)
			}
		})
	}
	for i := 0; i < dayHours && !r.Bad; {
		n, visits := int(r.Byte()), r.Byte()
		if n == 0 || n > dayHours-i {
			r.Fail()
			return
		}
		for ; n > 0; n, i = n-1, i+1 {
			t.hourN[i] = visits
		}
	}
	readBits(r, 12, dayHours, func(i, v int) { t.hours[i] = int16(v) })
	t.weigh()
}

// valid reports whether c can be a plan with these parts.
func (c *coordinatePlan) valid(p *Profile, events, table bool) bool {
	// More than a sum of squares of what is at most farthest, by the least c; a float32 has ten times that.
	const most = 1e37
	within := func(all []*float32, least, most float64) bool {
		for _, v := range all {
			if !(float64(*v) >= least && float64(*v) <= most) {
				return false
			}
		}
		return true
	}
	ok := math.Abs(c.seen) <= 1e3*maxStandardized && within(c.lately.floats(), -10, 10) && c.lately.age <= tailPrecise
	if e := &c.events; events {
		ok = ok && e.events > 0 && e.squares > 0 && within(e.floats(), -most, most) && within([]*float32{&e.cases, &e.weight}, 0, most)
		for i := range e.sums {
			ok = ok && e.sums[i] >= 0
		}
	}
	if t := &c.table; table {
		ok = ok && p.slots > 0 && t.slot >= 1 && t.slot <= weekSlots && t.n >= 0 && t.visits <= meanVisits && t.day.n <= mostAlike && t.week.n <= mostAlike &&
			within(t.floats(), -most, most) && t.day.same >= 0 && t.week.same >= 0 && t.unit >= -mostExponent && t.unit <= mostExponent
		for _, n := range t.hourN {
			ok = ok && n <= hourMost
		}
	}
	return ok
}
