package usual

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"hafvf/internal/compact"
	"hafvf/internal/linear"
)

// An encoded state leaves out numbers that follow from others. With the forgetting w, the sum r of yₜ·yₜ₋ₖ up to a step
// and the next value y, the sum up to the next step is w·r + yₜ·yₜ₋ₖ. A coordinate has this sum for each k and each of
// its last steps, in s, h and the rows of the last values. Only the sum of the earliest step is stored, and likewise
// only the earliest sum of the values. The other sums follow to the last bit.

// The surprises of a state, and the sums of seasons times last values, are rounded to 44 bits whenever they change, so
// their last byte is zero and is not stored. The other sums of values are not rounded: if the values are far from zero,
// a variance is a small difference of large sums.

const (
	momentBytes  = momentBits / 8 // bytes of a stored moment
	roundedBytes = 7              // bytes of a rounded number

	unusedRepeats = 3 // numbers after the repeats: 0, and ignored; older versions stored runs there
)

// round rounds numbers so that their last byte is zero.
func round(values []float64) {
	for i, v := range values {
		values[i] = math.Float64frombits((math.Float64bits(v) + 1<<7) &^ (1<<8 - 1))
	}
}

// surprises returns the part of s with the views and the tail.
func (p *Profile) surprises(s State) []float64 {
	return s[p.moments.len()+1:][:p.views*viewLen+tailLen]
}

// Append appends the encoded state s to b. It may run concurrently with an Update of another state.
func (p *Profile) Append(b []byte, s State) []byte {
	sums := p.sums(s)
	var stack [64]float64
	exact := append(stack[:0], sums[0])
	p.exact(s, func(v []float64) { exact = append(exact, v...) })
	b = compact.AppendPacked(b, exact)
	// Each write has eight bytes; the next number overwrites the surplus.
	offset := len(b)
	end := offset + p.storedLen(s)
	b = slices.Grow(b, end+8-offset)[:end+8]
	p.rounded(s, func(v []float64) {
		for _, f := range v {
			binary.LittleEndian.PutUint64(b[offset:], math.Float64bits(f)>>8)
			offset += roundedBytes
		}
	})
	perQuantum := 1 / quantumOf(sums[0])
	for _, m := range sums[1:] {
		binary.LittleEndian.PutUint64(b[offset:], uint64(int64(m*perQuantum)))
		offset += momentBytes
	}
	if b = b[:end]; p.Repeats(s) {
		_, _, repeats := p.alone(s)
		b = compact.AppendPacked(b, slices.Concat(repeats, make([]float64, unusedRepeats)))
	}
	if p.joint != nil {
		b = compact.Append(b, func(c *compact.Codec) { p.joint.form(c, p.together(s)) })
	}
	return p.appendStreaks(b, s)
}

// appendStreaks encodes the streaks, unless all are empty: their counts, sums and levels, and their last values if one
// of them was learned with a bound.
func (p *Profile) appendStreaks(b []byte, s State) []byte {
	var stack [16]float64
	streaks, seen := stack[:0], []float64(nil)
	empty, same := true, true
	for i := range p.dim {
		c := p.coordinate(s, i)
		empty, same = empty && c.streak.empty(c.last[0]), same && c.streak[streakSeen] == c.last[0]
		streaks = append(streaks, c.streak[streakCount:]...)
	}
	if empty {
		return b
	}
	if b = compact.AppendPacked(b, streaks); same {
		return b
	}
	for i := range p.dim {
		seen = append(seen, p.coordinate(s, i).streak[streakSeen])
	}
	return compact.AppendPacked(b, seen)
}

// Repeats reports whether the last two values are equal, or values repeat by habit. The encoded state is then longer.
func (p *Profile) Repeats(s State) bool {
	_, _, repeats := p.alone(s)
	return slices.Max(repeats) > 0
}

// Decode decodes a state that Append encoded. repeats is the result of Repeats for that state. The error says why b is
// not a state of the profile.
func (p *Profile) Decode(b []byte, repeats bool) (State, error) {
	return p.decode(b, repeats, p.joint != nil)
}

// DecodeFormer is Decode for a state of an older version, which does not score the coordinates together.
func (p *Profile) DecodeFormer(b []byte, repeats bool) (State, error) {
	return p.decode(b, repeats, false)
}

func (p *Profile) decode(b []byte, repeats, joint bool) (State, error) {
	s := p.NewState()
	n := 1
	p.exact(s, func(v []float64) { n += len(v) })
	var stack [64]float64
	exact := slices.Grow(stack[:0], n)[:n]
	r := compact.Reader{B: b}
	stored := p.storedLen(s)
	if r.Packed(exact); r.Bad || len(r.B) < stored {
		return nil, errCorrupt
	}
	last := compact.Reader{B: r.B[stored:]}
	if _, _, repeated := p.alone(s); repeats {
		stored := make([]float64, repeatsLen+unusedRepeats)
		last.Packed(stored)
		copy(repeated, stored)
	}
	if joint {
		rest, err := compact.Front(last.B, func(c *compact.Codec) { p.joint.form(c, p.together(s)) })
		if err != nil {
			return nil, errCorrupt
		}
		last.B = rest
	}
	var streaks, seen []float64
	if len(last.B) > 0 {
		streaks = make([]float64, p.dim*(streakLen-streakCount))
		last.Packed(streaks)
	}
	if len(last.B) > 0 {
		seen = make([]float64, p.dim)
		last.Packed(seen)
	}
	if last.Bad || len(last.B) > 0 {
		return nil, errCorrupt
	}
	sums := p.sums(s)
	sums[0] = exact[0]
	rest := exact[1:]
	p.exact(s, func(v []float64) { rest = rest[copy(v, rest):] })
	// Each read has eight bytes; the first of them belong to the previous number.
	offset := len(b) - len(r.B)
	p.rounded(s, func(v []float64) {
		for i := range v {
			offset += roundedBytes
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[offset-8:]) &^ (1<<8 - 1))
		}
	})
	q := quantumOf(sums[0])
	for i := range sums[1:] {
		offset += momentBytes
		sums[1+i] = float64(int64(binary.LittleEndian.Uint64(b[offset-8:]))>>(64-momentBits)) * q
	}
	for i := range p.dim {
		c := p.coordinate(s, i)
		p.follow(c)
		streaks = streaks[copy(c.streak[streakCount:], streaks):]
		if c.streak[streakSeen] = c.last[0]; seen != nil {
			c.streak[streakSeen] = seen[i]
		}
	}
	return s, p.Valid(s)
}

// storedLen returns the number of bytes of the rounded numbers and the moments, which are not stored as floats.
func (p *Profile) storedLen(s State) int {
	return roundedBytes*(len(p.surprises(s))+p.dim*p.order()*(p.common-1)) + momentBytes*(p.moments.len()-1)
}

// exact calls each with the parts of s that are stored as floats, except n.
func (p *Profile) exact(s State, each func([]float64)) {
	each(s[p.moments.len():][:1])
	_, move, _ := p.alone(s)
	each(move)
	order := p.order()
	for i := range p.dim {
		c := p.coordinate(s, i)
		if order == 0 {
			each(c.values)
			continue
		}
		each(c.h[1:p.common])
		each(c.h[p.size-1:])
		each(c.last)
		oldest := p.lagged(c, order)
		each(oldest[:1])
		each(oldest[p.common:])
	}
}

// rounded calls each with the rounded parts of s.
func (p *Profile) rounded(s State, each func([]float64)) {
	each(p.surprises(s))
	for i := range p.dim {
		c := p.coordinate(s, i)
		for lag := 1; lag <= p.order(); lag++ {
			each(p.lagged(c, lag)[1:p.common])
		}
	}
}

// lagged returns the row of the matrix for the value lag steps before.
func (p *Profile) lagged(c coordinateState, lag int) []float64 {
	first, row := linear.TriangleLen(p.common), p.common+lag-1
	return c.matrix[linear.TriangleLen(row)-first : linear.TriangleLen(row+1)-first]
}

// follow computes the numbers that Append leaves out from the stored parts of a coordinate.
func (p *Profile) follow(c coordinateState) {
	order := p.order()
	if order == 0 {
		return
	}
	sum := p.lagged(c, order)[0]
	for lag := order - 1; lag >= 0; lag-- {
		sum = float64(profileForgetting*sum) + c.last[lag]
		if lag > 0 {
			p.lagged(c, lag)[0] = sum
		} else {
			c.h[0] = sum
		}
	}
	for k := range order {
		sum := p.lagged(c, order)[p.common+order-k-1]
		for lag := order - k - 1; lag >= 0; lag-- {
			sum = float64(profileForgetting*sum) + float64(c.last[lag]*c.last[lag+k])
			switch {
			case lag > 0:
				p.lagged(c, lag+k)[p.common+lag-1] = sum
			case k > 0:
				c.h[p.common+k-1] = sum
			default:
				*c.s = sum
			}
		}
	}
}

var errCorrupt = errors.New("state is corrupt: profile")

// Valid returns an error if s, decoded from bytes, is not a state of the profile.
func (p *Profile) Valid(s State) error {
	if len(s) != p.StateLen() {
		return fmt.Errorf("state is corrupt: profile of %d floats, want %d", len(s), p.StateLen())
	}
	const slack = 1 + 1e-9 // for rounding
	sums := p.sums(s)
	n, total := sums[0], *p.total(s)
	ok := linear.Finite(s) &&
		n >= 0 && n <= slack/(1-profileForgetting) && total >= 0 && total <= slack/(1-meanForgetting)
	// The square of a sum of products is at most the product of the sums of squares,
	// which may have underflowed.
	product := func(sum, x, y float64) bool {
		return x >= 0 && y >= 0 && sum*sum <= x*y*slack+1e-300*(1+x+y)
	}
	for _, m := range sums {
		ok = ok && math.Abs(m) <= n*slack
	}
	tail, move, repeats := p.alone(s)
	ok = ok && tail.valid(n) && move.valid(n) && repeats.valid()
	for i := range p.views {
		v := p.view(s, i)
		ok = ok && v[sumOfMean] >= 0 && v[sumOfMean] <= maxSurprise*maxSurprise*total*slack &&
			v[calibratorS] <= n*maxSurprise*maxSurprise*slack && product(v[calibratorH], n, v[calibratorS])
	}
	ok = ok && (p.joint == nil || p.joint.valid(p.together(s)))
	maxSquares := n * maxStandardized * maxStandardized * slack
	for i := range p.dim {
		c := p.coordinate(s, i)
		diagonal := func(j int) float64 {
			if j < p.common {
				return n // at most
			}
			return c.matrix[linear.TriangleLen(j+1)-linear.TriangleLen(p.common)-1]
		}
		rows := c.matrix
		for j := range p.size {
			ok = ok && product(c.h[j], diagonal(j), *c.s)
			if j < p.common {
				continue
			}
			for i, a := range rows[:j+1] {
				ok = ok && diagonal(j) <= maxSquares && product(a, diagonal(i), diagonal(j))
			}
			rows = rows[j+1:]
		}
		for _, y := range c.last {
			ok = ok && math.Abs(y) <= maxStandardized
		}
		ok = ok && *c.s <= maxSquares && c.streak.valid()
	}
	if !ok {
		return errCorrupt
	}
	return nil
}
