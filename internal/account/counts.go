package account

import "time"

// Counts are the counts of nodes, see Counters.
type Counts struct {
	Records, Rejected, Late, Missing, NotConverged, Keys, Sessions, Changes, Outliers, NoveltyAlarms, ChangeAlarms, Silences         int64
	Muted, Resting, Reset, LateIdle, Forgotten, ExpiredKeys, Panics, Rewound, Unchanged, Drifting, Skipped, Quiet, Restarts, LateFar int64
	// Behind is the longest time by which a late observation was behind the latest of its key. Observations within
	// the lateness of the key, or behind by more than FarBehind, do not count. BehindAt is the time of the observation.
	Behind   time.Duration
	BehindAt time.Time
	// The largest scores of muted and of resting alarms.
	MutedScore, RestingScore float64
}

// FarBehind is the limit above which a late observation has a wrong time, and does not suggest a longer lateness.
const FarBehind = 365 * 24 * time.Hour

// A Counter describes one of the Counts as a Beam metric. The function Of returns its field.
type Counter struct {
	Name, Doc string
	Of        func(*Counts) *int64
}

// Counters lists all integers of Counts.
var Counters = []Counter{
	{"records", "estimates, or smoothed observations", func(c *Counts) *int64 { return &c.Records }},
	{"rejected", "observations that could not be used", func(c *Counts) *int64 { return &c.Rejected }},
	{"late", "rejected observations that came after a later one of their key", func(c *Counts) *int64 { return &c.Late }},
	{"late_idle", "late observations that were within the lateness of their key", func(c *Counts) *int64 { return &c.LateIdle }},
	{"late_far", "late observations that were more than a year behind", func(c *Counts) *int64 { return &c.LateFar }},
	{"missing", "observations without a value", func(c *Counts) *int64 { return &c.Missing }},
	{"quiet", "observations in quiet times", func(c *Counts) *int64 { return &c.Quiet }},
	{"restarts", "resets of counters, with value: increase", func(c *Counts) *int64 { return &c.Restarts }},
	{"not_converged", "updates that did not converge", func(c *Counts) *int64 { return &c.NotConverged }},
	{"keys", "keys that were seen", func(c *Counts) *int64 { return &c.Keys }},
	{"expired_keys", "keys that were forgotten because they had no observation for a time of expire", func(c *Counts) *int64 { return &c.ExpiredKeys }},
	{"forgotten_keys", "keys that were forgotten on request", func(c *Counts) *int64 { return &c.Forgotten }},
	{"reset_keys", "keys that were reset because their state could not be read or could not learn", func(c *Counts) *int64 { return &c.Reset }},
	{"turned_back", "returns of keys from a wrong time", func(c *Counts) *int64 { return &c.Rewound }},
	{"panics", "panics in the mathematics of a key", func(c *Counts) *int64 { return &c.Panics }},
	{"outliers", "observations that were classified as outliers", func(c *Counts) *int64 { return &c.Outliers }},
	{"changes", "changes that were found", func(c *Counts) *int64 { return &c.Changes }},
	{"novelty_alarms", "alarms of kind novelty, without reports that an episode is worse", func(c *Counts) *int64 { return &c.NoveltyAlarms }},
	{"change_alarms", "alarms of kind change", func(c *Counts) *int64 { return &c.ChangeAlarms }},
	{"muted_alarms", "alarms that the debt of earlier alarms suppressed, see usual.Decision", func(c *Counts) *int64 { return &c.Muted }},
	{"resting_alarms", "deviations that returned within an open episode, see keyed.Detection", func(c *Counts) *int64 { return &c.Resting }},
	{"silences", "alarms of kind silent", func(c *Counts) *int64 { return &c.Silences }},
	{"sessions", "sessions that were smoothed", func(c *Counts) *int64 { return &c.Sessions }},
	{"unchanged", "sessions without a change", func(c *Counts) *int64 { return &c.Unchanged }},
	{"drifting", "sessions without a change whose level drifts or wanders", func(c *Counts) *int64 { return &c.Drifting }},
	{"skipped_lines", "skipped lines of files: above a header, comments, and headers of further tables", func(c *Counts) *int64 { return &c.Skipped }},
}

// Add adds the counts of o to c. For Behind and the scores it takes the maximum.
func (c *Counts) Add(o Counts) {
	for _, counter := range Counters {
		*counter.Of(c) += *counter.Of(&o)
	}
	c.MaxBehind(o.Behind, o.BehindAt)
	c.MutedScore, c.RestingScore = max(c.MutedScore, o.MutedScore), max(c.RestingScore, o.RestingScore)
}

// MaxBehind sets Behind and BehindAt if behind is larger. t is the time of the observation.
func (c *Counts) MaxBehind(behind time.Duration, t time.Time) {
	if behind > c.Behind {
		c.Behind, c.BehindAt = behind, t
	}
}
