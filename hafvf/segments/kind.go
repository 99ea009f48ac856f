package segments

import "math"

// A Kind is the explanation of a session with the highest evidence.
type Kind int

// String returns the name of the kind, or "" if the session has none.
func (k Kind) String() string { return "" }

// Kind returns the kind of the session, and the log Bayes factor against the next kind, in nats. against is NaN if the
// session has no kind.
func (g *Segmentation) Kind() (kind Kind, against float64) { return 0, math.NaN() }
