package records

import (
	"time"

	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
)

// episodeOf is the episode to which a record belongs; null if get returns nil. With short, a brief record has only its
// id and state.
func episodeOf[T any](get func(T) *keyed.EpisodeReport, short bool) field[T] {
	since := instant("since", "start of the first alarm.", func(v T) time.Time { return get(v).Since })
	reports := count("reports", "", "Number of reports so far: 1 at the first alarm, and one more whenever the episode was worse, at most 4.", func(v T) (int64, bool) { return get(v).Reports, true })
	since.full, reports.full = short, short
	return orNull(object("episode", "Deviation of the key, from an alarm until the values are usual again; null outside of episodes, for silences and for beliefs.",
		text("id", "id of the first alarm. All records of an episode have the same id.", func(v T) string { return get(v).ID }), since, reports,
		text("state", "open; worse, if the episode is reported again; closed, if it ends here.", func(v T) string { return string(get(v).State) }),
	), inEpisode(get))
}

// usualBefore is the usual value before an episode; null if get returns nil.
func usualBefore[T any](get func(T) *keyed.EpisodeReport) field[T] {
	return orNull(moments("usual_before", "The value that was usual before the episode, with the seasons of this time; null outside of episodes.", func(v T) keyed.Moments { return get(v).UsualBefore }), inEpisode(get))
}

// worst is the worst observation of an episode so far; null if get returns nil.
func worst[T any](get func(T) *keyed.EpisodeReport) field[T] {
	return orNull(object("worst", "Observation of the episode so far that is farthest from usual_before; null outside of episodes.",
		number("value", "", "Its value, or for a vector the value of its farthest coordinate.", func(v T) float64 { return get(v).Worst.Value }),
		instant("time", "Its time.", func(v T) time.Time { return get(v).Worst.Time }),
		number("size", "standard deviations", "Its signed distance from usual_before.", func(v T) float64 { return get(v).Worst.Size }),
	), inEpisode(get))
}

func inEpisode[T any](get func(T) *keyed.EpisodeReport) func(T) bool {
	return func(v T) bool { return get(v) != nil }
}

// reportOfMember returns the values of a member's episode; nil without an episode.
func reportOfMember(m incidents.Member) *keyed.EpisodeReport {
	ep := m.Episode
	if ep == nil {
		return nil
	}
	return &keyed.EpisodeReport{UsualBefore: keyed.Moments{Mean: ep.UsualMean, SD: ep.UsualSD}, Worst: keyed.Worst{Time: ep.Worst.Time, Value: ep.Worst.Value, Size: ep.Worst.Size}}
}
