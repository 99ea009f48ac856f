// Package transforms holds the filter as Beam PTransforms: Filter, a stateful
// node keyed per entity.
package transforms

import "time"

// Shape says how the value of an observation was written, so that it can go out
// as it came in.
type Shape uint8

const (
	Scalar Shape = iota // one number
	Vector              // one vector
	List                // a list of vectors: J observations of one step
)

// An Observation is what one entity showed at one time.
type Observation struct {
	// Time is the event time; the zero Time means that there is none, which
	// only Config.Order Arrival accepts.
	Time time.Time
	// ID names the observation to the outside, deterministically: it goes into
	// the estimate and makes repeated output recognisable.
	ID string
	// X holds the J vectors of the step. A vector with a NaN in it is missing;
	// an observation of which every vector is missing is a missing observation.
	X [][]float64
	// Shape is the form in which X was given.
	Shape Shape
}
