package expfam

import (
	"fmt"
	"math"

	"hafvf/internal/linear"
)

// A Model is a likelihood p(x|z) = h(x) exp(zᵀT(x) − A(z)) with its conjugate prior p(z|θ) = exp(θᵀT(z) − B(θ))
// and the naive prior θ₀ (Assumption 2 of the paper). The filter never sees θ itself but the effective sample d
// = θ − θ₀, which holds the statistics of past observations after forgetting. Forgetting scales a sample,
// learning adds to it, smoothing merges two; nothing is ever subtracted.
//
// The model defines the layout of a sample's Len floats: plain natural statistics (embed Natural), or a form
// that keeps more digits. A sample of zeros is the empty one.
//
// A model is immutable and safe for concurrent use.
type Model interface {
	// Len returns the number of floats in a sample.
	Len() int
	// Dim returns the length of an observation vector.
	Dim() int
	// Check returns an error if x, of length Dim and without NaN, is not an observation of this likelihood.
	Check(x []float64) error

	// Observe adds weight·T(x) to the sample d. The weight is in (0, 1].
	Observe(d, x []float64, weight float64)
	// Scale multiplies the sample d by w in [0, 1].
	Scale(d []float64, w float64)
	// Merge adds the sample e to the sample d.
	Merge(d, e []float64)
	// Memory returns θ^η − θ₀^η, the effective number of observations in the sample, in the units of the
	// prior's count parameter.
	Memory(d []float64) float64
	// PriorMemory returns θ₀^η, in the same units.
	PriorMemory() float64
	// LogBase returns log h(x).
	LogBase(x []float64) float64
	// NewLine returns scratch for following B along θ₀ + s·d.
	NewLine() Line

	// Params describes the textbook parameters of the posterior, in order.
	Params() []Param
	// Posterior writes the textbook parameters of θ₀ + d to dst, matrices by rows.
	Posterior(dst, d []float64)
	// Outputs returns the length of the likelihood's mean.
	Outputs() int
	// Estimate writes mean and standard deviation, under θ₀ + d, of the likelihood's mean. x holds the
	// regressors, if the model has any; its target is not read. Undefined results are NaN, infinite ones +Inf.
	Estimate(mean, sd, d, x []float64)
	// Predict writes mean and standard deviation of one observation under θ₀ + s·d; x as in Estimate.
	Predict(mean, sd, d []float64, s float64, x []float64)
}

// A Line follows the log-partition along s ↦ θ₀ + s·d, s in [0, 1], for new statistics T: f(s) = B(θ₀+s·d) and
// q(s) = B(θ₀+s·d+T) − f(s). The filter knows nothing else about a family. A line is scratch: it is not safe
// for concurrent use.
type Line interface {
	// Set prepares the line for the sample d and the new statistics t. The line does not modify them, and they
	// must not change while the line is used.
	Set(d, t []float64)
	// Gain returns q(s), in nats.
	Gain(s float64) float64
	// Jet returns the derivatives of q and f at s.
	Jet(s float64) Jet
}

// An EvidenceLine is a Line that computes Gain(0) − Gain(1) in less time than two gains take.
type EvidenceLine interface {
	Line
	Evidence() float64
}

// A WeighedLine is a Line that can change the weight of its new statistics in less time than Set takes.
type WeighedLine interface {
	Line
	// Weigh multiplies the new statistics by w > 0.
	Weigh(w float64)
}

// A PredictiveLine is a Line that predicts as its model does. It saves time if the gain of the same sample at
// the same s is computed next.
type PredictiveLine interface {
	Line
	// Predictive is Predictor.Predictive. It does not change the state that Set has prepared.
	Predictive(dst []Distribution, d []float64, s float64, x []float64)
}

// A Jet holds derivatives along a line. The log-partition's own value is not used: differences keep the digits
// that values would lose.
type Jet struct {
	Q1, Q2     float64 // q′, q″
	F2, F3, F4 float64 // f″, f‴, f⁗
}

// A Param is one textbook parameter: a scalar (Rows = Cols = 0), a vector (Cols = 0) or a matrix.
type Param struct {
	Name       string
	Rows, Cols int
}

// Size returns the number of floats of the parameter.
func (p Param) Size() int { return max(p.Rows, 1) * max(p.Cols, 1) }

// A Predictor is a model whose predictive distributions have distribution functions.
type Predictor interface {
	Model
	// Predictive writes the distributions of the outputs of an observation under θ₀ + s·d; x as in Estimate.
	// Their moments equal those of Predict up to rounding.
	Predictive(dst []Distribution, d []float64, s float64, x []float64)
}

// A Sequential model takes regressors from the stream's own previous values. The filter maintains the window,
// with the prediction in place of a missing value, and passes rows to the model. Outputs of the model is 1.
type Sequential interface {
	Model
	// Window returns the number of previous values that a row needs.
	Window() int
	// Row writes a row of length Dim: the regressors from the window (latest first), and the target x.
	Row(row, window []float64, x float64)
}

// Discrete is a model of categories. Its outputs are indicators.
type Discrete interface {
	Model
	// Categories returns the number of categories.
	Categories() int
}

// Scaleless is a model without a scale parameter: the mean of its observations determines their spread. A
// single observation therefore carries little information on whether the mean has changed.
type Scaleless interface {
	Model
	Scaleless()
}

// noScale makes a model Scaleless.
type noScale struct{}

func (noScale) Scaleless() {}

// Informed is a model whose observations carry less information the more one value prevails: 100 tosses of a
// coin that shows heads twice in 100 tosses carry as much as eight tosses of a fair coin. Evidence for a change
// then takes longer to collect, so that excursions live longer, and with less probability. The square of the
// information under the running regime counts. A coin between .18 and .82 counts as a fair one: otherwise false
// changes in volatile streams of such coins would rise from .14 to .42 in 10,000.
type Informed interface {
	Model
	// Information returns the information of an observation under θ₀ + d, relative to the maximum, in [0, 1].
	Information(d []float64) float64
	// Reference returns the model with the least informative prior, for excursions from a long regime with
	// little information. Under a uniform prior, 300 tosses without heads after a rate of .04 are found in one
	// of five streams; under the reference prior in half of them.
	Reference() Model
}

// Regressive is a model whose mean depends on regressors in the row.
type Regressive interface {
	Model
	// Regressors returns the number of regressors.
	Regressors() int
}

// Natural implements the layout of a sample as N plain natural statistics. Embed it in a model that needs no
// other layout.
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

// MaxAbs is the maximum magnitude of continuous observations, so that sums of their squares stay finite.
const MaxAbs = 1e140

// CheckFinite returns an error if a value of x is infinite or larger than MaxAbs in magnitude.
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

// MaxCount is the maximum count: above it a float64 no longer distinguishes adjacent integers.
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
