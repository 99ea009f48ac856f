package median

import (
	"hafvf/internal/testing/expect"
	"math"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	v := []float64{3, 1, 2, 10}
	if m := Of(v); m != 2.5 || v[0] != 3 {
		t.Errorf("%g of %v", m, v)
	}
	expect.Same(t, 6.0, Of([]float64{7, 5, 6}))
	if m := Of([]float64{}); !math.IsNaN(m) {
		t.Error(m)
	}
	expect.Same(t, time.Duration(2), Of([]time.Duration{4, 1, 3, 2}))
	expect.Same(t, time.Duration(0), Of([]time.Duration{}))
}
