package output

import (
	"encoding/json"
	"math"
	"time"
)

// An Alert is an alert or an incident, as far as it is read.
type Alert struct {
	Key                    string
	Kind                   string
	Time                   time.Time // zero for a record without a time
	ID                     string
	Start                  time.Time
	Score, Threshold, Size Scalar
	X                      Vectors
	Usual, Before, After   Moments
	Message                string
	Incident               string // id of the incident that the alarm belongs to

	// Of an incident.
	State    string
	Page     bool
	End      time.Time
	Group    string
	Keys     int // of the group
	Alarmed  int // of these; 0 where the record does not say
	Members  []Member
	Expected Scalar
	Labels   map[string]string // that its keys share
}

// A Member is an alarm of an incident.
type Member struct {
	Key            string
	Time           time.Time
	Score, Size, P Scalar
}

// NewAlert returns an alert without numbers.
func NewAlert() *Alert {
	none := Scalar(math.NaN())
	return &Alert{Score: none, Threshold: none, Size: none, Expected: none}
}

// A Scalar is a number of a record, of a list the first. NaN stands for none, and is null in JSON as ±Inf is.
type Scalar float64

// UnmarshalJSON takes whatever stands there.
func (n *Scalar) UnmarshalJSON(b []byte) error {
	var v Values
	err := v.UnmarshalJSON(b)
	*n = Scalar(First(v))
	return err
}

// MarshalJSON implements json.Marshaler.
func (n Scalar) MarshalJSON() ([]byte, error) {
	if n.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// IsZero reports whether there is no number that is finite, for omitzero.
func (n Scalar) IsZero() bool { return math.IsNaN(float64(n - n)) }
