package webhook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
	Ended       bool              `json:"-"` // the alert is over at EndsAt
	Ongoing     bool              `json:"-"` // the record only describes the present state of the alert
}

// forAlertmanager turns the record of an alert into one or two alerts of an Alertmanager, separated by a comma.
func forAlertmanager(s Sink, record []byte) ([]byte, error) {
	alerts, err := alertmanagerAlerts(s, record)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(alerts)
	return bytes.TrimSuffix(bytes.TrimPrefix(b, []byte{'['}), []byte{']'}), err
}

// alertmanagerChange returns the alerts that a record opens or ends. An alert without an end is over when the
// Alertmanager resolves it: it is not open.
func alertmanagerChange(s Sink, record []byte) (c change, err error) {
	alerts, err := alertmanagerAlerts(s, record)
	for _, a := range alerts {
		c.ongoing = a.Ongoing
		id, _ := json.Marshal(a.Labels) // a map of texts
		switch {
		case a.Ended:
			c.ends = append(c.ends, string(id))
		case !a.EndsAt.IsZero():
			c.opens = string(id)
		}
	}
	return c, err
}

// alertmanagerAlerts returns the alerts of an Alertmanager for the record of an alert.
//
//   - An alert has the labels of its key's series, see series.Labels, and the labels of the record.
//   - The end of a silence resolves the alert of its beginning. An incident that closes or merges resolves the
//     alert that opened it.
//   - A report that an episode is worse has the labels, the id and the start of the episode's first alarm: it updates
//     the summary of that alert.
//   - The end of an episode has a threshold. It resolves both alerts of its key: novelty and change.
//   - With Sink.Repeat, an alert stays active for some repeats. Otherwise it stays active for a year; a novelty or change
//     only if Sink.SendResolved is set.
//   - The Alertmanager resolves alerts without an end after its resolve_timeout.
func alertmanagerAlerts(s Sink, record []byte) ([]alertmanagerAlert, error) {
	var r struct {
		Key, ID, Kind, Message string
		State                  string // of an incident
		Ongoing                bool
		Time, Start            time.Time
		Threshold              *float64
		Labels                 map[string]string
		Episode                struct { // null outside of episodes
			ID, State string
			Since     time.Time
		}
	}
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is not an alert: %w", err)
	}
	p := alertmanagerAlert{
		Labels:      map[string]string{},
		Annotations: map[string]string{"summary": r.Message, "id": r.ID},
		StartsAt:    r.Start,
		Ongoing:     r.Ongoing,
	}
	if r.Kind != "incident" { // the key of an incident is a group
		copyLabels(p.Labels, series.Labels(r.Key, s.Key))
		if p.Labels["exported_key"] == r.Key {
			delete(p.Labels, "exported_key") // the key is not a series
		}
	}
	copyLabels(p.Labels, r.Labels)
	p.Labels["alertname"], p.Labels["key"], p.Labels["kind"] = "hafvf", r.Key, r.Kind
	open := time.Now().Add(cmp.Or(missedRepeats*s.Repeat, openDuration))
	switch r.Kind {
	case "silent":
		p.EndsAt = open
	case "novelty", "change":
		if r.Episode.ID != "" {
			p.Annotations["id"], p.StartsAt = r.Episode.ID, r.Episode.Since
		}
		if s.SendResolved && s.Repeat == 0 || s.Repeat > 0 && r.Episode.ID != "" && r.Episode.State != "closed" {
			p.EndsAt = open
		}
	case "recovered":
		p.EndsAt, p.Ended = r.Time, true
		if r.Threshold != nil {
			p.Labels["kind"] = "novelty"
			change := p
			change.Labels = maps.Clone(p.Labels)
			change.Labels["kind"] = "change"
			return []alertmanagerAlert{p, change}, nil
		}
		p.Labels["kind"] = "silent"
	case "incident":
		// The group of an incident can grow, so only the ID identifies the incident.
		p.Labels["key"], p.Labels["id"], p.EndsAt = "", r.ID, open
		p.Annotations["group"] = r.Key
		if r.State == "closed" || r.State == "merged" {
			p.EndsAt, p.Ended = r.Time, true
		}
	}
	return []alertmanagerAlert{p}, nil
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
