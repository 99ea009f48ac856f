package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// alertmanagerPath is where an Alertmanager takes alerts, below its URL.
const alertmanagerPath = "api/v2/alerts"

// lasting is how long an Alertmanager takes a key to be silent that nobody says to have
// recovered.
const lasting = 365 * 24 * time.Hour

// A posted is an alert as an Alertmanager takes it, which knows it by its labels.
type posted struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt,omitzero"`
}

// forAlertmanager turns the record of an alert into an alert of an Alertmanager. The end of
// a silence resolves the alert of its beginning, and an incident that closes or merges the one that
// opened. The others have no end, and are resolved
// after the Alertmanager's resolve_timeout.
func forAlertmanager(record []byte) ([]byte, error) {
	var r struct {
		Key, ID, Kind, Message string
		State                  string // of an incident
		Time, Start            time.Time
		Labels                 map[string]string
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is no alert: %w", err)
	}
	p := posted{
		Labels:      map[string]string{},
		Annotations: map[string]string{"summary": r.Message, "id": r.ID},
		StartsAt:    r.Start,
	}
	maps.Copy(p.Labels, r.Labels)
	p.Labels["alertname"], p.Labels["key"], p.Labels["kind"] = "hafvf", r.Key, r.Kind
	switch r.Kind {
	case "silent":
		p.EndsAt = time.Now().Add(lasting)
	case "recovered":
		p.Labels["kind"], p.EndsAt = "silent", r.Time
	case "incident":
		// Its group may become wider, so the id alone names it.
		p.Labels["key"], p.Labels["id"], p.EndsAt = "", r.ID, time.Now().Add(lasting)
		p.Annotations["group"] = r.Key
		if r.State == "closed" || r.State == "merged" {
			p.EndsAt = r.Time
		}
	}
	return json.Marshal(p)
}
