// Package hafvf is the Hierarchical Adaptive Forgetting Variational Filter
// (Moens 2018): a Bayesian filter that follows the distribution of a stream and
// learns how fast to forget it.
//
// The prior needs the scale of the data: the default prior of normal has mean 0 and sd 1. For values of another
// scale, set Config.Prior, or fit the model to observations with expfam.Fitted, as package keyed does with
// Config.WarmUp.
//
//	f, err := hafvf.Config{Family: "normal"}.Filter()
//	state := f.NewState()        // one per stream
//	step := f.Update(state, []float64{20.1})
//	fmt.Println(step.Memory)     // number of observations behind the posterior
//
// To raise alarms on the values of keys, start with package keyed and its configuration
// keyed.Recommended(family). This package contains the mathematics below it.
//
// # Families
//
// The model of a stream is one of these likelihoods with its conjugate prior, or your own model, see
// expfam.Register. A parameter that is missing in Params has its default. If a parameter is a vector or a
// matrix, a number sets every entry, or the diagonal. The last column gives the unit of memory.
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
//	ar           regression on the stream's own previous values, latest first, then 1
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
//	γ               fixed weight above the topmost level            Member.Top
//	d = θ − θ₀      effective sample                                Filter.Sample
//	θ^η − θ₀^η      effective memory                                Step.Memory
//	B(θ)            log-partition                                   Line, a Jet of it
//	u₁, u₂, u₃      increments of Proposition 1                     Filter.Increments
//
// The depth is the number of levels. Depth 0 with top = 1 is exact conjugate inference, and with top < 1
// exponential forgetting. Depth 1 with top < 1 is the paper's fixed decay. Depth 2 is the HAFVF.
//
// # Update
//
// One step learns the sum T of the statistics of J observations. Let f(w) = B(θ₀+w·d) and
// q(w) = B(θ₀+w·d+T) − f(w). Every level has the prior φ̂ = φ₀ + m·(φ−φ₀), where m is the mean of the level
// above or γ. The step maximises over all levels
//
//	L = q(ŵ) − ½ Var[w] f″(ŵ) − Σ KL(φ‖φ̂) − ½ Σ Var[b] ∂²B(φ̂)/∂b²
//
// and sets d ← ŵ·d + T. The stationary points of L are the fixed points φ = φ̂ + u₁ + u₂ + u₃ of
// Proposition 1; Newton's method finds them. L can have two local maxima right after a surprising observation.
// If an upper bound of L allows a better maximum than the one found, the filter tries other starts. This finds
// the higher maximum on the streams of the tests; it is not proven to find it always.
//
// # Predictive
//
// Before it learns, a step reports log p(x|past) = log E[exp q(w)] + log h(x), where w ~ Beta(φ̂) and φ̂ has the
// prior means of the levels above. The expectation is integrated numerically.
//
// # Irregular times
//
// UpdateAfter interprets w as the weight per unit of time. Over Δ units the weight of memory is v = w^Δ, and
// E[v] and Var[v], moments of Beta(φ) in closed form, replace ŵ and Var[w].
//
// # Smoothing
//
// Smooth runs the filter forward and backward over a finished session and merges
// the two samples of every step, the paper's fθ + bθ − ΣT − θ₀. Changes finds the changepoints: steps at which
// the distributions before and after differ.
//
// Package segments finds the segments of a session, and distinguishes accidents, edges and drift.
//
// # Banks, outliers and changes
//
// A Bank averages filters with different levels over the same stream, weighted by their predictive densities
// (Bayesian model averaging). Members with AR predict the values of a normal model from the previous ones. With
// Detect a bank distinguishes outliers, which do not affect the filter's memory, from changes, which end it. A
// bank of one filter without detection equals that filter. The naive prior of an expfam.Fitted model can be
// computed from data.
//
// # Seasons and alarms
//
// Package usual estimates the season of a stream, and limits alarms to a budget. Package keyed combines both with
// a Bank, for streams with keys and times.
//
// # Results and errors
//
// A Step holds the log predictive density, the objective (ELBO), E[w], the memory, and whether the iteration
// converged. Converged is reported, never assumed; the state is valid in both cases.
//
// expfam.New, Config and Check check settings and observations of users, and return errors. NewFilter and NewBank
// take values from a program, and panic if a value is out of range. All methods panic if a vector or a state has
// the wrong length. Undefined numbers are NaN.
package hafvf
