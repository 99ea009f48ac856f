package median

import (
	"math"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	v := []float64{3, 1, 2, 10}
	if m := Of(v); m != 2.5 || v[0] != 3 {
		t.Errorf("%g of %v", m, v)
	}
	if m := Of([]float64{7, 5, 6}); m != 6 {
		t.Error(m)
	}
	if m := Of([]float64{}); !math.IsNaN(m) {
		t.Error(m)
	}
	if m := Of([]time.Duration{4, 1, 3, 2}); m != 2 {
		t.Error(m)
	}
	if m := Of([]time.Duration{}); m != 0 {
		t.Error(m)
	}
}
