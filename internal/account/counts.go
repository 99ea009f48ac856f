package account

import "time"

// Counts are what the nodes count, see Counters.
type Counts struct {
	Records, Rejected, Late, Missing, NotConverged, Keys, Sessions, Changes, Outliers, NoveltyAlarms, ChangeAlarms, Silences         int64
	Muted, Resting, Reset, LateIdle, Forgotten, ExpiredKeys, Panics, Rewound, Unchanged, Drifting, Skipped, Quiet, Restarts, LateFar int64
	// Behind is the farthest that a late observation was behind the latest of its key, if it was not
	// within the lateness of the key, and not more than FarBehind. BehindAt is its time.
	Behind   time.Duration
	BehindAt time.Time
	// The largest scores of what was muted, and of what was resting.
	MutedScore, RestingScore float64
}

// FarBehind is from where on a late observation says that a time is wrong, and not how long others should wait.
const FarBehind = 365 * 24 * time.Hour

// A Counter is one of the Counts, as a Beam metric.
type Counter struct {
	Name, Doc string
	Of        func(*Counts) *int64
}

// Counters lists the integer fields of Counts.
var Counters = []Counter{
	{"records", "estimates, or smoothed observations", func(c *Counts) *int64 { return &c.Records }},
	{"rejected", "observations that could not be used", func(c *Counts) *int64 { return &c.Rejected }},
	{"late", "rejected observations that came after a later one of their key", func(c *Counts) *int64 { return &c.Late }},
	{"late_idle", "late observations within the lateness of their key", func(c *Counts) *int64 { return &c.LateIdle }},
	{"late_far", "late observations more than a year behind", func(c *Counts) *int64 { return &c.LateFar }},
	{"missing", "observations without a value", func(c *Counts) *int64 { return &c.Missing }},
	{"quiet", "observations in quiet times", func(c *Counts) *int64 { return &c.Quiet }},
	{"restarts", "counter resets, with value: increase", func(c *Counts) *int64 { return &c.Restarts }},
	{"not_converged", "updates that did not converge", func(c *Counts) *int64 { return &c.NotConverged }},
	{"keys", "keys that were seen", func(c *Counts) *int64 { return &c.Keys }},
	{"expired_keys", "keys that were forgotten after a time without observations", func(c *Counts) *int64 { return &c.ExpiredKeys }},
	{"forgotten_keys", "keys that were forgotten on request", func(c *Counts) *int64 { return &c.Forgotten }},
	{"reset_keys", "keys that were reset because their state could not be read or could not learn", func(c *Counts) *int64 { return &c.Reset }},
	{"turned_back", "how often a key was set back from a wrong time", func(c *Counts) *int64 { return &c.Rewound }},
	{"panics", "how often the mathematics of a key panicked", func(c *Counts) *int64 { return &c.Panics }},
	{"outliers", "observations that were classified as outliers", func(c *Counts) *int64 { return &c.Outliers }},
	{"changes", "changes that were found", func(c *Counts) *int64 { return &c.Changes }},
	{"novelty_alarms", "alarms of kind novelty", func(c *Counts) *int64 { return &c.NoveltyAlarms }},
	{"change_alarms", "alarms of kind change", func(c *Counts) *int64 { return &c.ChangeAlarms }},
	{"muted_alarms", "alarms that only the budget or a habit prevented, see usual.Decision", func(c *Counts) *int64 { return &c.Muted }},
	{"resting_alarms", "recurring deviations without an alarm only because of an earlier alarm, see usual.Decision", func(c *Counts) *int64 { return &c.Resting }},
	{"silences", "alarms of kind silent", func(c *Counts) *int64 { return &c.Silences }},
	{"sessions", "sessions that were smoothed", func(c *Counts) *int64 { return &c.Sessions }},
	{"unchanged", "sessions without a change", func(c *Counts) *int64 { return &c.Unchanged }},
	{"drifting", "unchanged sessions whose level drifts or wanders", func(c *Counts) *int64 { return &c.Drifting }},
	{"skipped_lines", "skipped lines of files: above a header, comments, and headers of further tables", func(c *Counts) *int64 { return &c.Skipped }},
}

// Add adds the counts of o.
func (c *Counts) Add(o Counts) {
	for _, counter := range Counters {
		*counter.Of(c) += *counter.Of(&o)
	}
	c.MaxBehind(o.Behind, o.BehindAt)
	c.MutedScore, c.RestingScore = max(c.MutedScore, o.MutedScore), max(c.RestingScore, o.RestingScore)
}

// MaxBehind notes how far an observation of some time was behind.
func (c *Counts) MaxBehind(behind time.Duration, at time.Time) {
	if behind > c.Behind {
		c.Behind, c.BehindAt = behind, at
	}
}
