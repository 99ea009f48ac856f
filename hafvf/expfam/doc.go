// Package expfam holds the families of models that a filter may have: likelihoods of exponential families with
// their conjugate priors. Each family has its own file, and registers itself by name.
//
//	m, err := expfam.New("poisson", expfam.Params{"shape": 2.0, "rate": 0.1}, 0)
//
// A filter sees a Model through the Line of its log-partition. Smaller interfaces describe further abilities of
// a model: predictive distributions (Predictor), a prior from data (Fitted), regression on previous values
// (Sequential). Package hafvf lists families, parameters and priors.
package expfam
