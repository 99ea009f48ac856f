package output

import (
	"encoding/json"
	"math"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// An Alert is an alert or an incident. It has the fields that reports need.
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
	Incident               string // ID of the alarm's incident
	Episode                Episode

	// Fields of an incident.
	State    string
	Page     bool
	End      time.Time
	Group    string
	Keys     int // keys of the group
	Alarmed  int // alarmed keys of the group; 0 if the record lacks the number
	Members  []Member
	Expected Scalar
	Labels   map[string]string // labels that its keys share
}

// A Member is an alarm of an incident.
type Member struct {
	Key            string
	Time           time.Time
	Score, Size, P Scalar
	Episode        string // ID of the episode; empty for a silence
}

// An Episode is the episode that an alert begins, reports again or ends. It is zero without one.
type Episode struct {
	ID, State string
	Since     time.Time
}

// IsWorse reports whether the alert only reports that the episode of an earlier alarm is worse.
func (a *Alert) IsWorse() bool { return a.Episode.State == string(keyed.EpisodeWorse) }

// IsAlarm reports whether the alert is an alarm, which can be marked. Beliefs and ends are not alarms.
func (a *Alert) IsAlarm() bool {
	return a.Kind == string(usual.NoveltyAlarm) || a.Kind == keyed.SilentAlarm || a.Kind == string(usual.ChangeAlarm) && a.Episode.ID != ""
}

// NewAlert returns an alert whose numbers are NaN.
func NewAlert() *Alert {
	none := Scalar(math.NaN())
	return &Alert{Score: none, Threshold: none, Size: none, Expected: none}
}

// AlertOf returns the alert as a record would contain it, with the first number of each vector.
func AlertOf(key string, event keyed.AlertEvent) Alert {
	first := func(m keyed.Moments) Moments { return Moments{Values{First(m.Mean)}, Values{First(m.SD)}} }
	a := Alert{
		Key: key, Kind: event.Kind, Time: event.Time, ID: event.ID, Start: event.Start, Message: event.Message,
		Score: Scalar(event.Score), Threshold: Scalar(event.Threshold), Size: Scalar(event.Size), Expected: Scalar(math.NaN()),
		X:     Vectors{{First(Observed(event.X, event.Predicted.Mean))}},
		Usual: first(event.Usual), Before: first(event.Before), After: first(event.After),
	}
	if e := event.Episode; e != nil {
		a.Episode = Episode{ID: e.ID, State: string(e.State)}
	}
	return a
}

// A Scalar is a number of a record; for a list, its first number. NaN means no number. In JSON, NaN and ±Inf are
// null.
type Scalar float64

// UnmarshalJSON accepts any JSON value: values other than numbers and lists become NaN.
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

// IsZero reports whether the number is not finite, for omitzero.
func (n Scalar) IsZero() bool { return math.IsNaN(float64(n - n)) }
