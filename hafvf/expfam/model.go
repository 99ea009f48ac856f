package expfam

import (
	"fmt"
	"math"

	"hafvf/internal/linear"
)

// A Model is a likelihood p(x|z) = h(x) exp(zᵀT(x) − A(z)) with its conjugate
// prior p(z|θ) = exp(θᵀT(z) − B(θ)) and the naive prior θ₀ (Assumption 2 of the
// paper). The filter never sees θ itself but the effective sample d = θ − θ₀, the
// statistics of past observations after forgetting. Forgetting scales a sample,
// learning adds to it, smoothing merges two; nothing is ever subtracted.
//
// The model lays a sample out in its Len floats: as plain natural statistics (embed
// Natural), or in a form that keeps more digits. A sample of zeros is the empty one.
//
// A model is immutable and safe for concurrent use.
type Model interface {
	// Len is the number of floats in a sample.
	Len() int
	// Dim is the length of an observation vector.
	Dim() int
	// Check says why x, of length Dim and without NaN, is not an observation of
	// this likelihood.
	Check(x []float64) error

	// Observe adds weight·T(x) to the sample d. The weight is in (0, 1].
	Observe(d, x []float64, weight float64)
	// Scale multiplies the sample d by w in [0, 1].
	Scale(d []float64, w float64)
	// Merge adds the sample e to the sample d.
	Merge(d, e []float64)
	// Memory is θ^η − θ₀^η, the number of observations that the sample is worth,
	// in the units of the prior's count parameter.
	Memory(d []float64) float64
	// PriorMemory is θ₀^η, in the same units.
	PriorMemory() float64
	// LogBase is log h(x).
	LogBase(x []float64) float64
	// NewLine returns scratch for following B along θ₀ + s·d.
	NewLine() Line

	// Params describes the textbook parameters of the posterior, in order.
	Params() []Param
	// Posterior writes the textbook parameters of θ₀ + d to dst, matrices by rows.
	Posterior(dst, d []float64)
	// Outputs is the length of the likelihood's mean.
	Outputs() int
	// Estimate writes mean and standard deviation, under θ₀ + d, of the
	// likelihood's mean. x gives the regressors where there are some; its target
	// is not read. What is undefined is NaN, what is infinite +Inf.
	Estimate(mean, sd, d, x []float64)
	// Predict writes mean and standard deviation of one observation under
	// θ₀ + s·d; x as in Estimate.
	Predict(mean, sd, d []float64, s float64, x []float64)
}

// A Line follows the log-partition along s ↦ θ₀ + s·d, s in [0, 1], as seen by
// new statistics T: with f(s) = B(θ₀+s·d) and q(s) = B(θ₀+s·d+T) − f(s). That is
// all the filter knows of a family. A line is scratch: not safe for concurrent
// use.
type Line interface {
	// Set prepares the line for the sample d and the new statistics t, both of
	// which stay untouched and must not change while the line is used.
	Set(d, t []float64)
	// Gain is q(s), in nats.
	Gain(s float64) float64
	// Jet is the derivatives of q and f at s.
	Jet(s float64) Jet
}

// An EvidenceLine is a Line that knows Gain(0) − Gain(1) in less time than two gains take.
type EvidenceLine interface {
	Line
	Evidence() float64
}

// A WeighedLine is a Line that can give its new statistics another weight in less time than
// Set takes.
type WeighedLine interface {
	Line
	// Weigh multiplies the new statistics by w > 0.
	Weigh(w float64)
}

// A PredictiveLine is a Line that predicts as its model does, in less time if it is asked next for the gain of the
// same sample at the same s.
type PredictiveLine interface {
	Line
	// Predictive is that of Predictor. It leaves what Set has set.
	Predictive(dst []Distribution, d []float64, s float64, x []float64)
}

// A Jet holds derivatives along a line. The log-partition's own value never
// enters: differences keep the digits that values would lose.
type Jet struct {
	Q1, Q2     float64 // q′, q″
	F2, F3, F4 float64 // f″, f‴, f⁗
}

// A Param is one textbook parameter: a scalar (Rows = Cols = 0), a vector
// (Cols = 0) or a matrix.
type Param struct {
	Name       string
	Rows, Cols int
}

// Size is the number of floats of the parameter.
func (p Param) Size() int { return max(p.Rows, 1) * max(p.Cols, 1) }

// A Predictor is a model whose predictive distributions have distribution functions.
type Predictor interface {
	Model
	// Predictive writes the distributions of the outputs of an observation under θ₀ + s·d; x
	// as in Estimate. Their moments are those of Predict, but for rounding.
	Predictive(dst []Distribution, d []float64, s float64, x []float64)
}

// A Sequential model takes regressors from the entity's own past. The filter
// keeps the window, with the prediction in place of a missing value, and hands the
// model rows. Outputs of the model is 1.
type Sequential interface {
	Model
	// Window is the number of past values that a row needs.
	Window() int
	// Row writes to row, of length Dim, the regressors that the window (latest
	// first) gives, and the target x.
	Row(row, window []float64, x float64)
}

// Discrete is a model of categories. Its outputs are indicators.
type Discrete interface {
	Model
	// Categories is their number.
	Categories() int
}

// Scaleless is a model without a parameter of scale: the mean of its observations says how far
// they spread. So one of them tells little of whether the mean has changed.
type Scaleless interface {
	Model
	Scaleless()
}

// noScale makes a model Scaleless.
type noScale struct{}

func (noScale) Scaleless() {}

// Informed is a model whose observations tell less the more one value prevails: of a
// coin that shows heads in two tosses of a hundred, a hundred tosses tell as much as
// eight of a fair one. Evidence for a change then takes longer to gather, so that
// excursions live longer, and with less probability. What counts is the square of the
// information under the running regime. A coin between .18 and .82 is as good as a fair
// one: if it were not, false changes in volatile streams of such coins would go from
// .14 to .42 in 10,000.
type Informed interface {
	Model
	// Information is what an observation tells under θ₀ + d, relative to the most
	// that one can: in [0, 1].
	Information(d []float64) float64
	// Reference is the model with the prior that tells least, for excursions from a
	// regime that tells little and has run long. Under a uniform prior 300 tosses
	// without heads after a rate of .04 are found in one of five streams, and under this
	// one in half of them.
	Reference() Model
}

// Regressive is a model whose mean depends on regressors in the row.
type Regressive interface {
	Model
	// Regressors is their number.
	Regressors() int
}

// Natural lays a sample out as N plain natural statistics. Embed it in a model that
// needs no other layout.
type Natural struct{ N int }

// Len implements Model.
func (n Natural) Len() int { return n.N }

// Scale implements Model.
func (n Natural) Scale(d []float64, w float64) { linear.Scale(d, w) }

// Merge implements Model.
func (n Natural) Merge(d, e []float64) {
	for i, v := range e {
		d[i] += v
	}
}

// MaxAbs bounds the values of continuous observations, so that sums of their
// squares stay finite.
const MaxAbs = 1e140

func CheckFinite(x []float64) error {
	for _, v := range x {
		if math.IsInf(v, 0) {
			return fmt.Errorf("x = %g is not finite", v)
		}
		if math.Abs(v) > MaxAbs {
			return fmt.Errorf("x = %g is larger than %g in magnitude", v, MaxAbs)
		}
	}
	return nil
}

// MaxCount bounds counts: above it a float64 no longer tells integers apart.
const MaxCount = 1 << 53

func checkCount(v float64) error {
	if math.IsInf(v, 0) || v != math.Trunc(v) {
		return fmt.Errorf("x = %g is not an integer", v)
	}
	if v < 0 {
		return fmt.Errorf("x = %g is below zero", v)
	}
	if v > MaxCount {
		return fmt.Errorf("x = %g is above 2^53", v)
	}
	return nil
}
