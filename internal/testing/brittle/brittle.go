// Package brittle registers the family "brittle", whose mathematics panics, for tests. Every test of a
// package that imports it knows the family.
package brittle

import "hafvf/hafvf/expfam"

// brittle is a normal whose samples panic at values above 1000.
type brittle struct{ expfam.Model }

func init() {
	expfam.Register("brittle", func(p expfam.Prior, _ int) (expfam.Model, error) {
		m, err := expfam.New("normal", nil, 0)
		if err != nil {
			return nil, err
		}
		return brittle{m}, p.Done()
	})
}

func (m brittle) Observe(d, x []float64, weight float64) {
	if x[0] > 1000 {
		panic("it breaks")
	}
	m.Model.Observe(d, x, weight)
}
