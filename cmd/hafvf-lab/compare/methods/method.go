// Package methods provides methods that follow a stream of numbers, one per file, with one interface: filters,
// detectors of changes, and control charts. All methods are causal and see one observation at a time, except methods
// with Hindsight, which see the whole stream in advance.
//
// To add a method, write a file with a type that has Update and Bytes, and add a Method for it to All.
package methods

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"hafvf/hafvf/expfam"
	"hafvf/internal/message"
)

// A Method is a way to follow a stream, with one setting.
type Method struct {
	Name    string // name by which a user selects the method
	About   string // short description
	Setting string
	Source  string
	// Gaussian methods have a density on the real line. Their log predictive does not count for values of other
	// families, because a density cannot be compared with a probability.
	Gaussian bool
	// Detects means that the method reports changes, and Places that it also reports their starts.
	Detects, Places bool
	// Hindsight methods see the whole stream before its first observation.
	Hindsight bool
	// Smooths means that the estimate at an observation uses the later ones.
	Smooths bool
	// Slow methods take a hundred times as long as others.
	Slow bool
	// OnRequest methods run only if a user names them.
	OnRequest bool
	// New returns a follower at the start of a stream.
	New func(s Start) Follower
}

// Start holds what a method may know at the start of a stream.
type Start struct {
	Family string
	// Model has a naive prior. If the family has a location or scale, the prior is fitted to the first observations.
	Model expfam.Model
	// Location and Scale are the location and scale of the first observations.
	Location, Scale float64
	// Period is the number of observations after which the values may recur; 1 if it is unknown.
	Period int
	Seed   uint64    // for methods that draw random numbers
	Whole  []float64 // the stream; nil for methods without hindsight
}

// A Follower follows one stream.
type Follower interface {
	// Update learns the next observation.
	Update(x float64) Step
	// Bytes returns the size of the state between observations.
	Bytes() int
}

// A Step is the result of a follower for one observation.
type Step struct {
	// LogPredictive is log p(x|past) in nats, before x is learned. It is NaN for methods without a density.
	LogPredictive float64
	// Mean and SD are the estimate of the distribution's mean after x. SD is NaN for methods that have none.
	Mean, SD float64
	// Change reports the start of a new regime Age observations before this one. Age is −1 if it is unknown.
	Change bool
	Age    int
}

var nan = math.NaN()

// own lists the variants of this program's filter.
var own = slices.Concat(ours, collapseds, grids, matcheds)

// All lists the methods, in the order of a table.
var All = slices.Concat(own, forgettings, truncateds, mixtures, particles, kalmans, gaussianFilters, runLengths, adwins, pageHinkleys, cusums, ewmas, naives)

// Select returns the methods with the given names, in the order of All. Without names it returns all methods except
// those on request and, if quick, the slow methods. The error for an unknown name lists the known names.
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

// Names returns the names of all methods.
func Names() (names []string) {
	for _, m := range All {
		names = append(names, m.Name)
	}
	return names
}

// Own reports whether the method with the given name is a variant of this program's filter.
func Own(name string) bool {
	return slices.ContainsFunc(own, func(m Method) bool { return m.Name == name })
}

// Begin returns the start of a stream of a family. first holds the first observations of the stream.
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

// moments returns the mean and standard deviation of x and of one added observation of ½, which keeps the standard
// deviation above zero if there are few events.
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

// logNormal returns the log density of N(mean, variance) at x.
func logNormal(x, mean, variance float64) float64 {
	d := x - mean
	return -.5 * (math.Log(2*math.Pi*variance) + d*d/variance)
}

// logAdd returns log(e^a + e^b) for a finite b.
func logAdd(a, b float64) float64 { return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b))) }

// logSum returns log Σ exp(v).
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

// word is the size of a float64 in bytes.
const word = 8

// A conjugate is the likelihood of a stream with its conjugate prior, and the current observation.
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

// see sets the observation for the methods below.
func (c *conjugate) see(x float64) {
	c.row[0] = x
	clear(c.stats)
	c.Observe(c.stats, c.row[:], 1)
	c.base = c.LogBase(c.row[:])
}

// predictive returns log p(x) under θ₀ + w·d.
func (c *conjugate) predictive(d []float64, w float64) float64 {
	c.line.Set(d, c.stats)
	return c.line.Gain(w) + c.base
}

// learn replaces the sample d with the sample of θ₀ + w·d + T(x).
func (c *conjugate) learn(d []float64, w float64) {
	c.Scale(d, w)
	c.Observe(d, c.row[:], 1)
}

// estimate returns the mean and standard deviation of the likelihood's mean under θ₀ + d.
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
