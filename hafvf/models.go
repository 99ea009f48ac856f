package hafvf

import "hafvf/hafvf/expfam"

// A Model is a likelihood with its conjugate prior, of a family of package expfam.
type Model = expfam.Model

// Params of a naive prior θ₀ by their textbook names, as in package expfam.
type Params = expfam.Params

// New is expfam.New.
func New(family string, params Params, dim int) (Model, error) {
	return expfam.New(family, params, dim)
}
