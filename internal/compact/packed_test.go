package compact

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Packed floats are read back exactly, bit by bit, also if other bytes follow.
func TestPacked(t *testing.T) {
	value := rapid.OneOf(
		rapid.Float64(),
		rapid.SampledFrom([]float64{0, 0, 0, math.Copysign(0, -1), 1, 7, 1000, .5, -1, 1<<19 - 1, 1 << 19, 1 << 40, .1, .2, math.NaN(), math.Inf(-1)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(value, 0, 400).Draw(t, "floats")
		b := AppendPacked([]byte{9}, v)[1:]
		if maxBytes := 9*len(v) + 2; len(b) > maxBytes {
			t.Fatalf("%d floats take %d bytes", len(v), len(b))
		}
		r := Reader{B: append(b[:len(b):len(b)], 7)}
		got := make([]float64, len(v))
		r.Packed(got)
		if r.Bad || len(r.B) != 1 {
			t.Fatalf("bad %v, %d bytes left", r.Bad, len(r.B))
		}
		for i := range v {
			if math.Float64bits(v[i]) != math.Float64bits(got[i]) {
				t.Fatalf("float %d of %v became %v", i, v, got[i])
			}
		}
		if len(v) > 0 {
			r = Reader{B: b[:len(b)-1]}
			if r.Packed(got); !r.Bad {
				t.Fatal("accepted without its last byte")
			}
		}
	})
}

// Zeros, small integers and repeated floats take little space.
func TestPackedIsShort(t *testing.T) {
	for name, c := range map[string]struct {
		v    []float64
		want int
	}{
		"zeros":         {make([]float64, 100), 2},
		"whole":         {[]float64{1, 15, 1000}, 4},
		"again":         {[]float64{.1, .2, .1, .2}, 1 + 16 + 2},
		"nothing":       {nil, 0},
		"as they are":   {[]float64{.1, -.2, 1e300}, 1 + 24},
		"a half":        {[]float64{.5}, 9},
		"negative zero": {[]float64{math.Copysign(0, -1)}, 9},
	} {
		if b := AppendPacked(nil, c.v); len(b) != c.want {
			t.Errorf("%s: %d bytes, want %d", name, len(b), c.want)
		}
	}
}

// A run that extends beyond the floats, or refers to one before them, is refused.
func TestPackedRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":         {},
		"no literal":      {0<<2 + literal},
		"literal too few": {1<<2 + literal, 1, 2, 3},
		"no zeros":        {0<<2 + zeros},
		"too many zeros":  {3<<2 + zeros},
		"before all":      {1<<2 + repeat},
		"itself":          {1<<2 + integer, 0<<2 + repeat},
		"too few":         {1<<2 + integer},
	} {
		r := Reader{B: b}
		if r.Packed(make([]float64, 2)); !r.Bad {
			t.Errorf("%s: accepted", name)
		}
	}
}
