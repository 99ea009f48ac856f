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

// Counters are all Counts that are numbers.
var Counters = []Counter{
	{"records", "estimates, or smoothed observations", func(c *Counts) *int64 { return &c.Records }},
	{"rejected", "observations that could not be used", func(c *Counts) *int64 { return &c.Rejected }},
	{"late", "those of them that came after a later one of their key", func(c *Counts) *int64 { return &c.Late }},
	{"late_idle", "those of these that were within the lateness of their key", func(c *Counts) *int64 { return &c.LateIdle }},
	{"late_far", "those of the late ones that were more than a year behind", func(c *Counts) *int64 { return &c.LateFar }},
	{"missing", "observations without a value", func(c *Counts) *int64 { return &c.Missing }},
	{"quiet", "observations of quiet times", func(c *Counts) *int64 { return &c.Quiet }},
	{"restarts", "how often counters began anew, of value: increase", func(c *Counts) *int64 { return &c.Restarts }},
	{"not_converged", "updates that did not converge", func(c *Counts) *int64 { return &c.NotConverged }},
	{"keys", "keys that were seen", func(c *Counts) *int64 { return &c.Keys }},
	{"expired_keys", "keys that were forgotten, as they had no observation for so long", func(c *Counts) *int64 { return &c.ExpiredKeys }},
	{"forgotten_keys", "keys that were forgotten because somebody asked for it", func(c *Counts) *int64 { return &c.Forgotten }},
	{"reset_keys", "keys that began again, as their states could not be read or could learn nothing", func(c *Counts) *int64 { return &c.Reset }},
	{"turned_back", "how often a key went back from a wrong time", func(c *Counts) *int64 { return &c.Rewound }},
	{"panics", "how often the mathematics of a key panicked", func(c *Counts) *int64 { return &c.Panics }},
	{"outliers", "observations that were believed to be outliers", func(c *Counts) *int64 { return &c.Outliers }},
	{"changes", "changes that were found", func(c *Counts) *int64 { return &c.Changes }},
	{"novelty_alarms", "alarms of kind novelty", func(c *Counts) *int64 { return &c.NoveltyAlarms }},
	{"change_alarms", "alarms of kind change", func(c *Counts) *int64 { return &c.ChangeAlarms }},
	{"muted_alarms", "how often the debt of earlier alarms alone stood against one, see usual.Decision", func(c *Counts) *int64 { return &c.Muted }},
	{"resting_alarms", "how often an alarm before it alone stood against one, see usual.Decision", func(c *Counts) *int64 { return &c.Resting }},
	{"silences", "alarms of kind silent", func(c *Counts) *int64 { return &c.Silences }},
	{"sessions", "sessions that were smoothed", func(c *Counts) *int64 { return &c.Sessions }},
	{"unchanged", "those of them without a change", func(c *Counts) *int64 { return &c.Unchanged }},
	{"skipped_lines", "lines of files that were passed over: above a header, comments, and headers of further tables", func(c *Counts) *int64 { return &c.Skipped }},
	{"drifting", "those of these whose level drifts or wanders", func(c *Counts) *int64 { return &c.Drifting }},
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
