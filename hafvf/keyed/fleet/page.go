package fleet

import (
	"maps"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// Pages of alarms outside incidents. Fleet.pageCandidates has the last event of each alarm that may become a page, by
// the name of the first alarm of its episode, and the end of the episode by endOf this name. The event of a page whose
// episode is open is empty.

// firstOf returns the name of the first alarm of an alert's episode.
func firstOf(t keyed.AlertEvent) incidents.AlarmName {
	if t.Episode == nil {
		return incidents.AlarmName{Key: t.Key, ID: t.ID, Kind: t.Kind}
	}
	return incidents.AlarmName{Key: t.Key, ID: t.Episode.ID, Kind: string(usual.NoveltyAlarm)}
}

// endOf returns the name of the end of an episode that begins with an alarm.
func endOf(name incidents.AlarmName) incidents.AlarmName {
	name.Kind = keyed.RecoveredAlarm
	return name
}

// followPage takes an alarm, a report that its episode is worse, or the end of its episode. It reports what follows a
// page, and stores what may become one.
func (f *Fleet) followPage(t keyed.AlertEvent, event []byte) {
	ends := t.BackToUsual()
	if t.Kind == keyed.RecoveredAlarm && (!ends || t.Episode == nil) {
		return // the end of a silence
	}
	first := firstOf(t)
	candidate, found := f.pageCandidates[first]
	switch {
	case found && len(candidate) == 0:
		if f.listener.Single(t.Key, t, true); ends {
			delete(f.pageCandidates, first)
		}
	case !ends:
		f.pageCandidates[first] = event
	case found:
		f.pageCandidates[endOf(first)] = event
	}
}

// decidePage reports an alarm that is a page, with the last report of its episode, and the end if it is known.
func (f *Fleet) decidePage(s incidents.Single) error {
	event := f.pageCandidates[s.AlarmName]
	if !s.Page || len(event) == 0 {
		return nil
	}
	t, err := eventOf(s.Key, event)
	if err != nil {
		return err
	}
	f.listener.Single(s.Key, t, false)
	if t.Episode == nil {
		return nil
	}
	f.pageCandidates[s.AlarmName] = nil
	end, found := f.pageCandidates[endOf(s.AlarmName)]
	if !found {
		return nil
	}
	delete(f.pageCandidates, endOf(s.AlarmName))
	if t, err = eventOf(s.Key, end); err == nil {
		f.followPage(t, end)
	}
	return err
}

// dropCandidates drops the alarms that can no longer become pages.
func (f *Fleet) dropCandidates() {
	maps.DeleteFunc(f.pageCandidates, func(name incidents.AlarmName, event []byte) bool {
		if name.Kind == keyed.RecoveredAlarm {
			name.Kind = string(usual.NoveltyAlarm)
		}
		return len(event) > 0 && !f.grouping.MayBecomePage(name)
	})
}
