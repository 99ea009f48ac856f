package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hafvf/internal/series"
)

// openDuration is how long an Alertmanager keeps an alert whose end is not known yet.
const openDuration = 365 * 24 * time.Hour

// reservedLabels are the names of hafvf's own labels. copyLabels renames labels of a series with these names.
var reservedLabels = []string{"alertname", "id", "key", "kind"}

// An alertmanagerAlert is an alert in the JSON of the Alertmanager's API. An Alertmanager identifies an alert by
// its labels.
type alertmanagerAlert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt,omitzero"`
}

// forAlertmanager turns the record of an alert into one or two alerts of an Alertmanager, separated by a comma.
//
//   - An alert has the labels of its key's series, see series.Labels, and the labels of the record.
//   - The end of a silence resolves the alert of its beginning. An incident that closes or merges resolves the
//     alert that opened it.
//   - A report that an episode is worse has the labels, the id and the start of the episode's first alarm: it updates
//     the summary of that alert.
//   - The end of an episode has a threshold. It resolves both alerts of its key: novelty and change.
//   - If Sink.Ends is set, novelty and change stay active until then. Otherwise the Alertmanager resolves them
//     after its resolve_timeout.
func forAlertmanager(s Sink, record []byte) ([]byte, error) {
	var r struct {
		Key, ID, Kind, Message string
		State                  string // of an incident
		Time, Start            time.Time
		Threshold              *float64
		Labels                 map[string]string
		Episode                struct { // null outside of episodes
			ID    string
			Since time.Time
		}
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is not an alert: %w", err)
	}
	p := alertmanagerAlert{
		Labels:      map[string]string{},
		Annotations: map[string]string{"summary": r.Message, "id": r.ID},
		StartsAt:    r.Start,
	}
	if r.Kind != "incident" { // the key of an incident is a group
		copyLabels(p.Labels, series.Labels(r.Key, s.Key))
		if p.Labels["exported_key"] == r.Key {
			delete(p.Labels, "exported_key") // the key is not a series
		}
	}
	copyLabels(p.Labels, r.Labels)
	p.Labels["alertname"], p.Labels["key"], p.Labels["kind"] = "hafvf", r.Key, r.Kind
	switch r.Kind {
	case "silent":
		p.EndsAt = time.Now().Add(openDuration)
	case "novelty", "change":
		if r.Episode.ID != "" {
			p.Annotations["id"], p.StartsAt = r.Episode.ID, r.Episode.Since
		}
		if s.SendResolved {
			p.EndsAt = time.Now().Add(openDuration)
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
		// The group of an incident can grow, so only the ID identifies the incident.
		p.Labels["key"], p.Labels["id"], p.EndsAt = "", r.ID, time.Now().Add(openDuration)
		p.Annotations["group"] = r.Key
		if r.State == "closed" || r.State == "merged" {
			p.EndsAt = r.Time
		}
	}
	return json.Marshal(p)
}

// copyLabels copies labels from src to dst. A reserved name gets the prefix "exported_".
func copyLabels(dst, src map[string]string) {
	for name, value := range src {
		if slices.Contains(reservedLabels, name) {
			name = "exported_" + name
		}
		dst[name] = value
	}
}
