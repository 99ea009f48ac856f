package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hafvf/internal/series"
)

// lasting is how long an Alertmanager takes a key to be silent, or an alarm to last, that nobody
// says to have recovered.
const lasting = 365 * 24 * time.Hour

// ownLabels are those of every alert. A label of a series has another name.
var ownLabels = []string{"alertname", "id", "key", "kind"}

// An alertmanagerAlert is an alert as an Alertmanager takes it, which knows it by its labels.
type alertmanagerAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt,omitzero"`
}

// forAlertmanager turns the record of an alert into an alert of an Alertmanager. The end of
// a silence resolves the alert of its beginning, and an incident that closes or merges the one that
// opened. The end of an alarm, which has a threshold, resolves novelty and change of its key: two
// alerts, with a comma between them. An alert has the labels of its key's series, see
// series.Labels. If the sink has SendResolved, those last until then; else they are resolved after
// the Alertmanager's resolve_timeout, as others that have no end.
func forAlertmanager(s Sink, record []byte) ([]byte, error) {
	var r struct {
		Key, ID, Kind, Message string
		State                  string // of an incident
		Time, Start            time.Time
		Threshold              *float64
		Labels, Replaced       map[string]string
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is no alert: %w", err)
	}
	p := alertmanagerAlert{
		Labels:      map[string]string{},
		Annotations: map[string]string{"summary": r.Message, "id": r.ID},
		StartsAt:    r.Start,
	}
	if r.Kind != "incident" { // its key is a group
		copyLabels(p.Labels, series.Labels(r.Key, s.Key))
		if p.Labels["exported_key"] == r.Key {
			delete(p.Labels, "exported_key") // the key is no series
		}
	}
	copyLabels(p.Labels, r.Labels)
	p.Labels["alertname"], p.Labels["key"], p.Labels["kind"] = "hafvf", r.Key, r.Kind
	switch r.Kind {
	case "silent":
		p.EndsAt = time.Now().Add(lasting)
	case "novelty", "change":
		if s.SendResolved {
			p.EndsAt = time.Now().Add(lasting)
		}
	case "recovered":
		p.EndsAt = r.Time
		if r.Threshold != nil {
			p.Labels["kind"] = "change"
			change, err := json.Marshal(p)
			p.Labels["kind"] = "novelty"
			novelty, err2 := json.Marshal(p)
			return slices.Concat(novelty, []byte{','}, change), cmp.Or(err, err2)
		}
		p.Labels["kind"] = "silent"
	case "incident":
		// Its group may become wider, so the id alone names it.
		p.Labels["key"], p.Labels["id"], p.EndsAt = "", r.ID, time.Now().Add(lasting)
		p.Annotations["group"] = r.Key
		if r.State == "closed" || r.State == "merged" {
			p.EndsAt = r.Time
		}
		if r.Replaced != nil {
			return withReplaced(p, r.Replaced, r.Time)
		}
	}
	return json.Marshal(p)
}

// copyLabels copies labels. One that every alert has gets another name.
func copyLabels(to, from map[string]string) {
	for name, value := range from {
		if slices.Contains(ownLabels, name) {
			name = "exported_" + name
		}
		to[name] = value
	}
}

// withReplaced resolves the alert that the incident was before under other labels, in front of the one that it is.
func withReplaced(p alertmanagerAlert, replaced map[string]string, at time.Time) ([]byte, error) {
	was := p
	was.Labels, was.EndsAt = map[string]string{}, at
	copyLabels(was.Labels, replaced)
	for _, name := range ownLabels {
		was.Labels[name] = p.Labels[name]
	}
	before, err := json.Marshal(was)
	now, err2 := json.Marshal(p)
	return slices.Concat(before, []byte{','}, now), cmp.Or(err, err2)
}
