package hafvf

import "hafvf/hafvf/expfam"

// A Model is a likelihood with its conjugate prior, from a family of package expfam.
type Model = expfam.Model

// Params holds the parameters of a naive prior θ₀ by their textbook names, see expfam.Params.
type Params = expfam.Params

// New calls expfam.New.
func New(family string, params Params, dim int) (Model, error) {
	return expfam.New(family, params, dim)
}
