// Package methods has ways to follow a stream of numbers, one a file, behind one
// interface: filters, detectors of changes, and charts of quality control. All are causal
// and see one observation at a time, except those that say that they have seen the whole
// stream before.
//
// To add a method, write a file with a type that has Update and Bytes, and add a Method
// for it to All.
package methods

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hafvf/hafvf/expfam"
	"hafvf/internal/message"
)

// A Method is one way to follow a stream, with one setting.
type Method struct {
	Name    string // as a user asks for it
	About   string // what it is, in a few words
	Setting string
	Source  string
	// Gaussian methods have a density on the real line. On values of another family it is
	// not to be compared with their probabilities, and does not count.
	Gaussian bool
	// Detects says that the method tells of changes, and Places that it knows where they
	// were.
	Detects, Places bool
	// Hindsight methods see the whole stream before they begin.
	Hindsight bool
	// Smooths says that the estimate of an observation knows the later ones.
	Smooths bool
	// Slow methods take a hundred times as long as others.
	Slow bool
	// OnRequest methods run only where they are named.
	OnRequest bool
	// New returns a follower at the beginning of a stream.
	New func(s Start) Follower
}

// Start is what a method may know at the beginning of a stream.
type Start struct {
	Family string
	// Model has the naive prior that the first observations give, where the family has
	// location or scale.
	Model expfam.Model
	// Location and Scale are those of the first observations.
	Location, Scale float64
	// Period is the number of observations after which the values may recur; 1 where
	// nothing is known.
	Period int
	Seed   uint64    // of methods that draw
	Whole  []float64 // the stream, for methods with hindsight only
}

// A Follower follows one stream.
type Follower interface {
	// Update learns the next observation.
	Update(x float64) Step
	// Bytes is the size of what the follower has to keep until the next observation.
	Bytes() int
}

// A Step is what a follower says of an observation.
type Step struct {
	// LogPredictive is log p(x|past) in nats, from before x was seen; NaN where the method
	// has no density.
	LogPredictive float64
	// Mean and SD are the estimate of the distribution's mean after x. SD is NaN where the
	// method has none.
	Mean, SD float64
	// Change says that a new regime has begun, Age observations before this one. Age is −1
	// where the method doesn't know.
	Change bool
	Age    int
}

var nan = math.NaN()

// own are the forms of this program's filter.
var own = slices.Concat(ours, collapseds, grids, matcheds)

// All are the methods, in the order of a table.
var All = slices.Concat(own, forgettings, truncateds, mixtures, particles, kalmans, gaussianFilters, runLengths, adwins, pageHinkleys, cusums, ewmas, naives)

// Select returns the methods of the names, in the order of All. Without names it returns
// all but those on request, and if quick without the slow ones. An error lists the names
// that there are.
func Select(names []string, quick bool) ([]Method, error) {
	known := Names()
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("no method %q; the nearest is %q of %s", n, message.Closest(n, known), strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(All), func(m Method) bool {
		if len(names) == 0 {
			return m.OnRequest || quick && m.Slow
		}
		return !slices.Contains(names, m.Name)
	}), nil
}

// Names are those of all methods.
func Names() (names []string) {
	for _, m := range All {
		names = append(names, m.Name)
	}
	return names
}

// Own reports whether the method of the name is a form of this program's filter.
func Own(name string) bool {
	return slices.ContainsFunc(own, func(m Method) bool { return m.Name == name })
}

// Begin returns the start of a stream of a family whose first observations are these.
func Begin(family string, first []float64) (Start, error) {
	s := Start{Family: family, Period: 1}
	var err error
	if s.Model, err = expfam.New(family, nil, 0); err != nil {
		return s, err
	}
	if fitted, ok := s.Model.(expfam.Fitted); ok {
		rows := make([][]float64, len(first))
		for i, x := range first {
			rows[i] = []float64{x}
		}
		s.Model = fitted.Fit(fitted.LocationScale(rows))
	}
	s.Location, s.Scale = expfam.LocationScale(first)
	if family != "normal" {
		s.Location, s.Scale = moments(first)
	}
	return s, nil
}

// moments returns mean and standard deviation of few events: one observation of half an
// event more keeps the latter from zero.
func moments(x []float64) (mean, sd float64) {
	n := float64(len(x)) + 1
	mean = .5 / n
	for _, v := range x {
		mean += v / n
	}
	square := (.5 - mean) * (.5 - mean) / n
	for _, v := range x {
		square += (v - mean) * (v - mean) / n
	}
	return mean, math.Sqrt(square)
}

// logNormal is the log density of N(mean, variance) at x.
func logNormal(x, mean, variance float64) float64 {
	d := x - mean
	return -.5 * (math.Log(2*math.Pi*variance) + d*d/variance)
}

// logAdd is log(e^a + e^b), b finite.
func logAdd(a, b float64) float64 { return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) }

// logSum is log Σ exp(v).
func logSum(v ...float64) float64 {
	top := slices.Max(v)
	if math.IsInf(top, -1) {
		return top
	}
	sum := 0.0
	for _, x := range v {
		sum += math.Exp(x - top)
	}
	return top + math.Log(sum)
}

// A float has word bytes.
const word = 8

// A conjugate is the likelihood of a stream with its conjugate prior.
type conjugate struct {
	expfam.Model
	line  expfam.Line
	stats []float64
	base  float64
	row   [1]float64
	mean  [1]float64
	sd    [1]float64
}

func newConjugate(m expfam.Model) conjugate {
	return conjugate{Model: m, line: m.NewLine(), stats: make([]float64, m.Len())}
}

// see makes x the observation that the methods below are about.
func (c *conjugate) see(x float64) {
	c.row[0] = x
	clear(c.stats)
	c.Observe(c.stats, c.row[:], 1)
	c.base = c.LogBase(c.row[:])
}

// predictive is log p(x) under θ₀ + w·d.
func (c *conjugate) predictive(d []float64, w float64) float64 {
	c.line.Set(d, c.stats)
	return c.line.Gain(w) + c.base
}

// learn makes of the sample d that of θ₀ + w·d + T(x).
func (c *conjugate) learn(d []float64, w float64) {
	c.Scale(d, w)
	c.Observe(d, c.row[:], 1)
}

// estimate is mean and standard deviation of the likelihood's mean under θ₀ + d.
func (c *conjugate) estimate(d []float64) (mean, sd float64) {
	c.Estimate(c.mean[:], c.sd[:], d, nil)
	return c.mean[0], c.sd[0]
}

// A blend is a mixture of estimates.
type blend struct{ total, mean, square float64 }

func (b *blend) add(weight, mean, sd float64) {
	b.total += weight
	b.mean += weight * mean
	b.square += weight * (sd*sd + mean*mean)
}

func (b *blend) moments() (mean, sd float64) {
	mean = b.mean / b.total
	return mean, math.Sqrt(max(0, b.square/b.total-mean*mean))
}
