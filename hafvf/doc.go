// Package hafvf is the Hierarchical Adaptive Forgetting Variational Filter
// (Moens 2018): a Bayesian filter that follows the distribution of a stream and
// learns how fast to forget it.
//
//	f, err := hafvf.Config{Family: "normal"}.Filter()
//	state := f.NewState()        // of one stream
//	step := f.Update(state, []float64{20.1})
//	fmt.Println(step.Memory)     // how many observations the posterior rests on
//
// To raise alarms on the values of keys, begin with keyed.Recommended(family), the set-up that package
// keyed runs. This package is the mathematics below it.
//
// # Families
//
// The model of a stream is one of these likelihoods with its conjugate prior, or
// one of your own, see expfam.Register. A parameter that Params leaves out has its default. A number
// for a vector or a matrix stands for every entry, or for the diagonal. Memory is
// counted in the units of the last column.
//
//	family       observation              parameter  default   domain             memory
//	bernoulli    0 or 1                   alpha      1         > 0                alpha + beta
//	                                      beta       1         > 0
//	binomial     k of n trials: k, n      alpha      1         > 0                alpha + beta
//	                                      beta       1         > 0
//	categorical  0, …, K−1                alpha      1         > 0, K ≥ 2         alpha
//	poisson      0, 1, …                  shape      1         > 0                rate
//	                                      rate       1         > 0
//	exponential  ≥ 0                      shape      1         > 0                shape
//	                                      rate       1         > 0
//	normal       real                     mu         0         real               kappa
//	                                      kappa      1         > 0
//	                                      alpha      1         > 0
//	                                      beta       1         > 0
//	mvnormal     m reals                  mu         0         real               kappa
//	                                      kappa      1         > 0
//	                                      nu         m + 1     > m − 1
//	                                      scale      1         positive definite
//	regression   n regressors, target     mean       0         real               2·alpha
//	                                      precision  1         positive definite
//	                                      alpha      1         > 0
//	                                      beta       1         > 0
//	ar           real, one a step         order      2         whole, ≥ 1         2·alpha
//	                                      intercept  false     true or false
//	                                      mean       0         real
//	                                      precision  1         positive definite
//	                                      alpha      1         > 0
//	                                      beta       1         > 0
//
// Their likelihoods and priors are
//
//	bernoulli    x ~ Bernoulli(p), p ~ Beta(alpha, beta)
//	binomial     k ~ Binomial(n, p), p ~ Beta(alpha, beta)
//	categorical  x ~ Categorical(p), p ~ Dirichlet(alpha)
//	poisson      x ~ Poisson(λ), λ ~ Gamma(shape, rate)
//	exponential  x ~ Exponential(λ), λ its rate, λ ~ Gamma(shape, rate)
//	normal       x ~ N(μ, σ²), μ|σ² ~ N(mu, σ²/kappa), σ² ~ InvGamma(alpha, beta)
//	mvnormal     x ~ N(μ, Σ), μ|Σ ~ N(mu, Σ/kappa), Σ ~ InvWishart(scale, nu)
//	regression   y ~ N(cᵀu, σ²), c|σ² ~ N(mean, σ²·precision⁻¹), σ² ~ InvGamma(alpha, beta)
//	ar           regression on the stream's own last values, latest first, then 1
//	             for the intercept
//
// Counts are at most 2⁵³, reals at most 1e140 in magnitude.
//
// # Notation
//
//	paper           meaning                                         here
//	z, θ = (ξ, η)   latent parameters, natural parameters of their  Model.Posterior, in
//	                posterior; η counts observations                textbook parameters
//	θ₀              naive prior of z                                Params, Prior
//	φ₀, β₀, …       naive priors of the weights w, b, …             levels of NewFilter
//	φ, β, …         their posteriors                                Filter.Level
//	w ~ Beta(φ)     weight of yesterday's posterior against θ₀      level 0
//	b ~ Beta(β)     weight of yesterday's φ against φ₀              level 1
//	γ               fixed weight above the topmost level            Config.Top
//	d = θ − θ₀      effective sample                                Filter.Sample
//	θ^η − θ₀^η      effective memory                                Step.Memory
//	B(θ)            log-partition                                   Line, a Jet of it
//	u₁, u₂, u₃      increments of Proposition 1                     Filter.Increments
//
// The depth is the number of levels. No level and top = 1 is exact conjugate
// inference, no level and top < 1 exponential forgetting, one level and top < 1
// the paper's fixed decay, and two levels the HAFVF.
//
// # Update
//
// One step takes the sum T of the statistics of J observations. With f(w) =
// B(θ₀+w·d), q(w) = B(θ₀+w·d+T) − f(w), and for every level the prior φ̂ = φ₀ +
// m·(φ−φ₀), m the mean of the level above or γ, it maximises over all levels
//
//	L = q(ŵ) − ½ Var[w] f″(ŵ) − Σ KL(φ‖φ̂) − ½ Σ Var[b] ∂²B(φ̂)/∂b²
//
// and sets d ← ŵ·d + T. The stationary points of L are the fixed points φ = φ̂ +
// u₁ + u₂ + u₃ of Proposition 1; Newton's method finds them. L can have two local
// maxima right after a surprising observation. The filter tries other starts where
// the best value found leaves room for a better one. This finds the higher maximum
// on the streams of the tests; it is not proven to find it always.
//
// # Predictive
//
// Before it learns, a step reports log p(x|past) = log E[exp q(w)] + log h(x),
// with w ~ Beta(φ̂), φ̂ under the prior means of the levels above, integrated
// numerically.
//
// # Irregular times
//
// UpdateAfter takes w as the weight per unit of time: over Δ units memory weighs
// v = w^Δ, and E[v] and Var[v], moments of Beta(φ) in closed form, stand in place
// of ŵ and Var[w].
//
// # Smoothing
//
// Smooth runs the filter forward and backward over a finished session and merges
// the two samples of every step, the paper's fθ + bθ − ΣT − θ₀. Changes finds the
// changepoints: steps where the samples before and after have two distributions.
//
// Package segments finds the segments of a session, and tells accidents, edges and drift
// apart.
//
// # Banks, outliers and changes
//
// A Bank averages filters of different levels over the same stream, weighted by
// their predictive densities (Bayesian model averaging). Members with AR predict the
// values of a normal model from the last ones. With Detect a bank tells outliers,
// which leave the filter's memory alone, from changes, which end it. A bank of one
// filter without detection is that filter. A Fitted model takes location and scale
// of its naive prior from data.
//
// # What is usual
//
// Package usual has the season of a stream, which a Bank may stand behind, and the alarms that
// keep to a budget. Package keyed puts them around a Bank, for streams with keys and times.
//
// # Results and errors
//
// A Step holds the log predictive density, the objective (ELBO), E[w], the memory,
// and whether the iteration converged. Converged is reported, never assumed; the
// state is valid either way.
//
// Settings and observations that come from users are checked by expfam.New, Config and
// Check, which return errors. NewFilter and NewBank take values that a program names, and
// panic if one is out of range, as all methods do at a vector or a state of the wrong length.
// Numbers that are undefined are NaN.
package hafvf
