package hafvf

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// An encoded state is what it was before, ends where it ends, and is refused if it is cut
// short, or of another format or configuration.
func TestStateIsEncoded(t *testing.T) {
	for family, test := range map[string]struct {
		prior Params
		dim   int
	}{"regression": {nil, 17}, "ar": {Params{"order": 3}, 0}, "mvnormal": {nil, 3}, "normal": {}, "poisson": {}} {
		t.Run(family, func(t *testing.T) {
			m, err := New(family, test.prior, test.dim)
			if err != nil {
				t.Fatal(err)
			}
			b := NewBank(m, DefaultBankOf(family), DefaultForgetting, &Detect{})
			s, rng := b.NewState(), rand.New(rand.NewPCG(1, 5))
			for range 40 {
				x := make([]float64, b.Dim())
				for i := range x {
					x[i] = float64(rng.IntN(4))
				}
				b.Update(s, x)
			}
			encoded := s.Append(nil)
			again, err := b.DecodeState(encoded)
			if err != nil || !sameBits(s, again) {
				t.Errorf("decoded: %v, %v", again, err)
			}
			if again, rest, err := b.ReadState(append(encoded[:len(encoded):len(encoded)], 1, 2, 3)); err != nil || !sameBits(s, again) || len(rest) != 3 {
				t.Errorf("before three bytes: %v, %d left, %v", again, len(rest), err)
			}
			for n := range encoded {
				if _, err := b.DecodeState(encoded[:n]); err == nil {
					t.Fatalf("%d bytes passed for %d", n, len(encoded))
				}
			}
			if _, err := b.DecodeState(append(encoded[:len(encoded):len(encoded)], 0)); err == nil {
				t.Error("a byte more passed")
			}
			encoded[0] = 2
			if _, err := b.DecodeState(encoded); err == nil || !strings.Contains(err.Error(), "start without it") {
				t.Errorf("of another format: %v", err)
			}
		})
	}
}
