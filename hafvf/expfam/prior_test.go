package expfam

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// A family outside this package can read a matrix with Prior.Matrix, as the families of this package do.
func TestPriorMatrix(t *testing.T) {
	for _, c := range []struct {
		prior Params
		want  []float64
		err   string
	}{
		{nil, []float64{3, 0, 0, 3}, ""},
		{Params{"scale": 2.}, []float64{2, 0, 0, 2}, ""},
		{Params{"scale": []any{[]any{2., 1.}, []any{1., 2.}}}, []float64{2, 1, 1, 2}, ""},
		{Params{"scale": []any{[]any{1., 2.}, []any{2., 1.}}}, nil, "positive definite"},
		{Params{"scale": []any{[]any{1., 0.}, []any{1., 1.}}}, nil, "symmetric"},
		{Params{"scale": []any{[]any{1., 0.}}}, nil, "has 1 rows, want 2"},
	} {
		p := newPrior(c.prior)
		got := p.Matrix("scale", 2, 3)
		if err := p.Done(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: error %v, want %q in it", c.prior, err, c.err)
		}
		if c.want != nil && !mat.Equal(got, mat.NewDense(2, 2, c.want)) {
			t.Errorf("%v: %v", c.prior, mat.Formatted(got))
		}
	}
}
