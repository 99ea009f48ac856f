package usual

import (
	"math"

	"hafvf/internal/compact"
)

// PlanForm is how a plan of a stream of that state is encoded.
func (p *Profile) PlanForm(s State) func(*compact.Codec, *Plan) {
	return func(c *compact.Codec, plan *Plan) {
		if !c.Writes {
			*plan = p.NewPlan(s)
		}
		for i := range *plan {
			of := &(*plan)[i]
			moved, events, table := of.seen != p.coordinate(s, i).streak[streakSeen], of.events.events > 0, of.table.slot > 0
			if c.Bits(&moved, &events, &table); moved {
				c.Doubles(&of.seen)
			}
			shorts(c, of.lately.floats())
			if compact.Unsigned(c, &of.lately.age); events {
				shorts(c, of.events.floats())
			}
			if table {
				of.table.form(c, p.slots)
			}
			c.Check(c.Writes || of.valid(p, events, table))
		}
		plan.spikesForm(c)
	}
}

func shorts(c *compact.Codec, all []*float32) {
	compact.Each(c, all, func(b []byte, v float32) []byte { return compact.AppendShort(b, float64(v)) }, func(r *compact.Reader) float32 { return float32(r.Short()) })
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

// form is that of a table of so many offsets. Of equal visits of hours in a row it has how many there are.
func (t *planTable) form(c *compact.Codec, slots int) {
	if !c.Writes {
		t.begin(0)
	}
	shorts(c, t.floats())
	compact.Unsigned(c, &t.slot)
	compact.Unsigned(c, &t.n)
	compact.Unsigned(c, &t.visits)
	compact.Unsigned(c, &t.day.n, &t.week.n)
	if compact.Bytes(c, &t.unit); t.visits > 0 {
		for i := range slots {
			compact.Bytes(c, &t.offset[i])
		}
		bitsOf(c, 6, slots, t.visitCode, func(i, v int) {
			if t.last[i] = unknown; v >= -mostVisit {
				t.last[i] = int8(visitUnits * v)
			}
		})
	}
	for i := 0; i < dayHours && !c.Bad; {
		n, visits := uint8(1), t.hourN[i]
		for c.Writes && i+int(n) < dayHours && t.hourN[i+int(n)] == visits {
			n++
		}
		compact.Bytes(c, &n, &visits)
		if n == 0 || int(n) > dayHours-i {
			c.Fail()
			return
		}
		for ; n > 0; n, i = n-1, i+1 {
			t.hourN[i] = visits
		}
	}
	bitsOf(c, 12, dayHours, func(i int) int { return int(t.hours[i]) }, func(i, v int) { t.hours[i] = int16(v) })
	if !c.Writes {
		t.weigh()
	}
}

// visitCode is what is encoded of a last visit.
func (t *planTable) visitCode(slot int) int {
	if t.last[slot] == unknown {
		return -mostVisit - 1
	}
	return int(t.last[slot]) / visitUnits
}

// bitsOf are n signed numbers of so many bits, at most 12.
func bitsOf(c *compact.Codec, width, n int, of func(i int) int, to func(i, v int)) {
	held, bits := uint32(0), 0
	for i := range n {
		if c.Writes {
			held |= uint32(of(i)) & (1<<width - 1) << bits
			for bits += width; bits >= 8; bits -= 8 {
				c.B = append(c.B, byte(held))
				held >>= 8
			}
			continue
		}
		for ; bits < width; bits += 8 {
			held |= uint32(c.Byte()) << bits
		}
		v := int(held & (1<<width - 1))
		if v >= 1<<(width-1) {
			v -= 1 << width
		}
		to(i, v)
		held >>= width
		bits -= width
	}
	if c.Writes && bits > 0 {
		c.B = append(c.B, byte(held))
	}
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
