package usual

import (
	"math"
	"slices"

	"hafvf/internal/compact"
)

// AppendPlan appends the encoded plan of a stream with the profile state s to b.
func (p *Profile) AppendPlan(b []byte, s State, plan Plan) []byte {
	return compact.Encode(b, plan, p.planForm(s))
}

// DecodePlan decodes the plan of a stream with the profile state s. b has nothing else.
func (p *Profile) DecodePlan(b []byte, s State) (plan Plan, err error) {
	err = compact.Decode(b, &plan, p.planForm(s))
	return plan, err
}

func (p *Profile) planForm(s State) func(*compact.Codec, *Plan) {
	return func(c *compact.Codec, plan *Plan) {
		if !c.Writes {
			*plan = p.NewPlan(s)
		}
		for i := range *plan {
			coordinate := &(*plan)[i]
			moved, events, table := coordinate.seen != p.coordinate(s, i).streak[streakSeen], coordinate.events.events > 0, coordinate.table.slot > 0
			t := &coordinate.table
			free, months := table && t.free != weekend, coordinate.months != monthly{}
			if c.Bits(&moved, &events, &table, &free, &t.twoWeeks, &t.holidays, &months, &t.alternating); moved {
				c.Doubles(&coordinate.seen)
			}
			shorts(c, coordinate.lately.floats())
			if compact.Unsigned(c, &coordinate.lately.age); events {
				shorts(c, coordinate.events.floats())
			}
			if table {
				t.form(c, p.slots, free)
			}
			if months {
				coordinate.months.form(c)
			}
			c.Check(c.Writes || coordinate.valid(p, events, table))
		}
		plan.spikesForm(c)
	}
}

func shorts(c *compact.Codec, values []*float32) {
	compact.Each(c, values, func(b []byte, v float32) []byte { return compact.AppendShort(b, float64(v)) }, func(r *compact.Reader) float32 { return float32(r.Short()) })
}

func (s *lately) floats() []*float32 { return []*float32{&s.late, &s.always, &s.side} }

func (s *eventScatter) floats() []*float32 {
	values := []*float32{&s.cases, &s.events, &s.squares, &s.weight}
	for i := range s.sums {
		values = append(values, &s.sums[i], &s.logs[i])
	}
	return values
}

func (t *planTable) floats() []*float32 {
	return slices.Concat([]*float32{&t.sum, &t.log, &t.mean}, t.day.floats(), t.week.floats())
}

func (l *likeness) floats() []*float32 { return []*float32{&l.alike, &l.same, &l.other} }

// form encodes or decodes a table with the given number of slots. The visits of hours are run-length encoded. free means
// that the free days differ from Saturday and Sunday.
func (t *planTable) form(c *compact.Codec, slots int, free bool) {
	if !c.Writes {
		t.begin(0)
	}
	shorts(c, t.floats())
	compact.Unsigned(c, &t.slot)
	compact.Unsigned(c, &t.n)
	compact.Unsigned(c, &t.visits)
	compact.Unsigned(c, &t.day.n, &t.week.n)
	if compact.Bytes(c, &t.unit); t.visits > 0 {
		t.slotsForm(c, 0, slots, true)
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
	codeBits(c, 12, dayHours, func(i int) int { return int(t.hours[i]) }, func(i, v int) { t.hours[i] = int16(v) })
	if free {
		compact.Bytes(c, &t.free)
	}
	if t.twoWeeks {
		shorts(c, t.fortnight.floats())
		compact.Unsigned(c, &t.fortnight.n)
		t.slotsForm(c, weekSlots, fortnight, t.alternating)
	}
	if t.holidays {
		t.slotsForm(c, fortnight, tableSlots, true)
	}
	if !c.Writes {
		t.weigh()
	}
}

// slotsForm encodes or decodes the last visits of a range of slots and, if offsets is set, their offsets.
func (t *planTable) slotsForm(c *compact.Codec, from, end int, offsets bool) {
	for i := from; offsets && i < end; i++ {
		compact.Bytes(c, &t.offset[i])
	}
	codeBits(c, 6, end-from, func(i int) int {
		if t.last[from+i] == unknown {
			return -maxVisitUnits - 1
		}
		return int(t.last[from+i]) / visitUnits
	}, func(i, v int) {
		if v >= -maxVisitUnits {
			t.last[from+i] = int8(visitUnits * v)
		}
	})
}

// codeBits encodes or decodes n signed numbers of width bits each, at most 12.
func codeBits(c *compact.Codec, width, n int, get func(i int) int, set func(i, v int)) {
	buffer, bits := uint32(0), 0
	for i := range n {
		if c.Writes {
			buffer |= uint32(get(i)) & (1<<width - 1) << bits
			for bits += width; bits >= 8; bits -= 8 {
				c.B = append(c.B, byte(buffer))
				buffer >>= 8
			}
			continue
		}
		for ; bits < width; bits += 8 {
			buffer |= uint32(c.Byte()) << bits
		}
		v := int(buffer & (1<<width - 1))
		if v >= 1<<(width-1) {
			v -= 1 << width
		}
		set(i, v)
		buffer >>= width
		bits -= width
	}
	if c.Writes && bits > 0 {
		c.B = append(c.B, byte(buffer))
	}
}

// valid reports whether c can be a plan with these parts.
func (c *coordinatePlan) valid(p *Profile, events, table bool) bool {
	// More than a sum of squares up to farthest², over the smallest c; a float32 reaches ten times that.
	const bound = 1e37
	within := func(values []*float32, low, high float64) bool {
		return !slices.ContainsFunc(values, func(v *float32) bool { return !(float64(*v) >= low && float64(*v) <= high) })
	}
	ok := math.Abs(c.seen) <= 1e3*maxStandardized && within(c.lately.floats(), -10, 10) && c.lately.age <= tailPrecise
	if e := &c.events; events {
		ok = ok && e.events > 0 && e.squares > 0 && within(e.floats(), -bound, bound) && min(e.cases, e.weight, slices.Min(e.sums[:])) >= 0
	}
	t := &c.table
	ok = ok && (t.twoWeeks || !t.alternating) && (p.slots == weekSlots || !t.twoWeeks)
	if table {
		ok = ok && p.slots > 0 && t.slot >= 1 && t.slot <= 2*fortnight && t.n >= 0 && t.visits <= meanVisits && within(t.floats(), -bound, bound) &&
			t.unit >= -maxExponent && t.unit <= maxExponent && t.free < 1<<7 && slices.Max(t.hourN[:]) <= maxHourVisits
		for _, l := range []*likeness{&t.day, &t.week, &t.fortnight} {
			ok = ok && l.n <= maxPairs && l.same >= 0 && within(l.floats(), -bound, bound)
		}
	}
	return ok
}
