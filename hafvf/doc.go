// Package hafvf is the Hierarchical Adaptive Forgetting Variational Filter
// (Moens 2018): a Bayesian filter that follows the distribution of a stream and
// learns how fast to forget it.
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
//	γ               fixed weight of the topmost level               Config.Top
//	d = θ − θ₀      effective sample                                Filter.Sample
//	θ^η − θ₀^η      effective memory                                Step.Memory
//	B(θ)            log-partition                                   Line, a Jet of it
//	u₁, u₂, u₃      increments of Proposition 1                     Filter.Increments
//
// Depth is the number of levels. None and top = 1 is exact conjugate inference,
// none and top < 1 exponential forgetting, one with top < 1 the paper's fixed
// decay, two the HAFVF.
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
// u₁ + u₂ + u₃ of Proposition 1, found by Newton's method instead. L can have two
// local maxima right after a surprising observation; other starts are tried
// where the best value found leaves room for a better one. That finds the higher
// maximum on streams; it is not proven to find it always.
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
// the two samples of every step, the paper's fθ + bθ − ΣT − θ₀; Changes says where
// the samples before and after are of two distributions.
//
// # Banks, outliers and changes
//
// A Bank averages filters with different levels over the same stream by what they
// predict, and with Detect it tells outliers, which leave the filter's memory
// alone, from changes, which end it. A bank of one filter without detection is
// that filter, so that a Bank serves for all. A Fitted model takes location and
// scale of its naive prior from data.
//
// # What is reported
//
// A Step holds the predictive, the objective (ELBO), E[w], the memory, and
// whether and how the iteration converged: Converged is reported, never assumed,
// and a state is valid either way.
package hafvf
