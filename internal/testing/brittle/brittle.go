// Package brittle registers the family "brittle" for tests; its mathematics panics. The family exists in all tests
// of a package that imports brittle.
package brittle

import "hafvf/hafvf/expfam"

// brittle is the family normal, but observing a value above 1000 panics.
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
