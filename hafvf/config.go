package hafvf

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
)

// Config describes a filter as data, for what is configured or sent to another
// process. Its JSON form is stable.
type Config struct {
	Family string  `json:"family"`
	Prior  Params  `json:"prior,omitempty"`
	Dim    int     `json:"dim,omitempty"` // only where the prior leaves it open
	Levels []Beta  `json:"levels"`        // naive priors of w, b, …, bottom up
	Top    float64 `json:"top"`           // γ; zero is a value: forget all
}

// Filter makes the filter. An error names what is wrong.
func (c Config) Filter() (*Filter, error) {
	m, err := New(c.Family, c.Prior, c.Dim)
	if err != nil {
		return nil, err
	}
	if !(c.Top >= 0 && c.Top <= 1) {
		return nil, fmt.Errorf("top: %g is outside [0, 1]", c.Top)
	}
	for i, l := range c.Levels {
		if !(l.Alpha > 0 && l.Beta > 0 && l.Alpha+l.Beta < math.Inf(1)) {
			return nil, fmt.Errorf("levels.%d: {alpha: %g, beta: %g} needs finite numbers above zero", i, l.Alpha, l.Beta)
		}
	}
	return NewFilter(m, c.Levels, c.Top), nil
}

// Fingerprint tells configurations apart: a state belongs to one of them.
func (c Config) Fingerprint() uint64 {
	text, err := json.Marshal(c)
	if err != nil {
		panic("hafvf: configuration is not JSON: " + err.Error())
	}
	h := fnv.New64a()
	h.Write(text)
	return h.Sum64()
}
