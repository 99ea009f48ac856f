// Package expfam holds the families of models that a filter may have: likelihoods of
// exponential families with their conjugate priors. One file is one family, and registers it
// by name.
//
//	m, err := expfam.New("poisson", expfam.Params{"shape": 2.0, "rate": 0.1}, 0)
//
// A filter sees a Model through the Line of its log-partition. Smaller interfaces say what
// else a model can do: predict distributions (Predictor), take its prior from data (Fitted),
// regress on its own past (Sequential). Package hafvf lists families, parameters and priors.
package expfam
