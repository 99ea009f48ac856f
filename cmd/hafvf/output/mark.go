package output

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/clock"
	"hafvf/internal/message"
	"hafvf/pipeline/records"
)

// An AmbiguousID is the error of Marks if alarms of several keys have the ID.
type AmbiguousID struct{ error }

// maxListedKeys is the maximum number of keys that an AmbiguousID lists.
const maxListedKeys = 10

// A markable is an alarm of a file, with the mark for it.
type markable struct {
	records.Mark
	named, member bool // by the ID of one of its alerts, or of its incident
}

// markables are the alarms of a file, in order.
type markables struct {
	id    string // ID of the alarm or incident to mark
	list  []*markable
	index map[[2]string]*markable // by key and ID
}

// Marks returns the marks of the alarm with this ID in a file of alerts, or of the members of the incident with this
// ID. They have the value and the note of mark. If mark has a key, the alarms of other keys are not marked. The path
// "-" is standard input.
func Marks(ctx context.Context, path, id string, mark records.Mark) (marks []records.Mark, err error) {
	all := &markables{id: id, index: map[[2]string]*markable{}}
	err = ForEach(ctx, path, func(r *Record) bool { return r.Kind != nil }, func(r *Record) error {
		if r.Alert != nil {
			all.add(r.Alert)
		}
		return nil
	})
	if notRecord, ok := errors.AsType[NotRecord](err); err != nil && !(ok && notRecord.Cut) {
		return nil, err
	}
	named := slices.ContainsFunc(all.list, func(m *markable) bool { return m.named })
	keys := map[string]bool{}
	for _, m := range all.list {
		if !(m.named || !named && m.member) || mark.Key != nil && *mark.Key != *m.Key {
			continue
		}
		m.Mark.Mark, m.Note = mark.Mark, mark.Note
		if err := m.Check(); err != nil {
			return nil, fmt.Errorf("the alarm %s cannot be marked: %w", message.Quote(id), err)
		}
		keys[*m.Key] = true
		marks = append(marks, m.Mark)
	}
	from := path
	if path == "-" {
		from = "standard input"
	}
	switch {
	case len(all.list) == 0:
		return nil, fmt.Errorf("%s has no alarms: give the alerts of hafvf run", from)
	case len(marks) == 0:
		ofKey := ""
		if mark.Key != nil {
			ofKey = " of the key " + message.Quote(*mark.Key)
		}
		return nil, fmt.Errorf("%s has no alarm and no incident with the id %s%s: give the id of an alert in it, or the file with this alert", from, message.Quote(id), ofKey)
	case named && len(keys) > 1:
		listed := slices.Sorted(maps.Keys(keys))
		for i, key := range listed {
			listed[i] = message.Quote(key)
		}
		if len(listed) > maxListedKeys {
			listed = append(listed[:maxListedKeys], "…")
		}
		return nil, AmbiguousID{fmt.Errorf("alarms of %d keys have the id %s: choose with --key one of %s", len(keys), message.Quote(id), strings.Join(listed, ", "))}
	}
	return marks, nil
}

// add adds an alert. It ignores beliefs, and the end of a silence.
func (all *markables) add(a *Alert) {
	ended := a.Kind == keyed.RecoveredAlarm && a.Episode.ID != ""
	switch {
	case a.Kind == incidents.Kind && a.ID == all.id:
		for _, m := range a.Members {
			if m.Episode != "" {
				all.report(m.Key, m.Episode, m.Time, m.Time, float64(m.Size), nil).member = true
			}
		}
		return
	case !ended && !a.IsAlarm():
		return
	}
	size, output := float64(a.Size), a.Output
	if outputs := max(len(a.Usual.Mean), len(a.Before.Mean)); outputs > 1 && output == nil {
		if output = a.output(outputs); ended {
			size, output = math.NaN(), nil // its x is not the worst one
		}
	}
	m := all.report(a.Key, cmp.Or(a.Episode.ID, a.ID), cmp.Or(a.Episode.Since, a.Start, a.Time), a.Time, size, output)
	m.named = m.named || a.ID == all.id || m.ID == all.id
	m.member = m.member || a.Incident == all.id
}

// report adds a report of an alarm: it is the first one, that it is worse, or its end.
func (all *markables) report(key, id string, start, t time.Time, size float64, output *int) *markable {
	m := all.index[[2]string{key, id}]
	if m == nil {
		m = &markable{Mark: records.Mark{ID: id, Key: &key, Start: start}}
		all.index[[2]string{key, id}] = m
		all.list = append(all.list, m)
	}
	m.Start, m.Time = clock.Earlier(m.Start, start), clock.Later(m.Time, t)
	sameOutput := m.Output == nil || output == nil || *m.Output == *output
	if first := m.Size == 0; sameOutput && (first && size != 0 && !math.IsNaN(size) || size*m.Size > 0 && math.Abs(size) > math.Abs(m.Size)) {
		m.Size, m.Side = size, records.Above
		if size < 0 {
			m.Side = records.Below
		}
		m.Output = cmp.Or(m.Output, output)
	}
	return m
}

// output returns the coordinate of the alert's size: the one whose deviation is nearest to it. Deviations are exact
// unless a scale transforms the values.
func (a *Alert) output(outputs int) *int {
	value, from, sd := make([]float64, outputs), a.Usual.Mean, a.Usual.SD
	if a.Kind == string(usual.ChangeAlarm) {
		copy(value, a.After.Mean)
		from, sd = a.Before.Mean, a.Predicted.SD
	} else {
		for _, x := range a.X {
			for i := range min(len(x), outputs) {
				value[i] += x[i] / float64(len(a.X))
			}
		}
	}
	nearest, distance := 0, math.Inf(1)
	for i := range min(outputs, len(from), len(sd)) {
		if d := math.Abs((value[i]-from[i])/sd[i] - float64(a.Size)); d < distance {
			nearest, distance = i, d
		}
	}
	return &nearest
}
