package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/account"
	"hafvf/internal/clock"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
)

// A Summary reports the results of a run.
type Summary struct {
	account.Counts
	AlreadyRead int64 // records skipped; with a file of states, records that the previous run has read
	Elapsed     time.Duration
	Refused     int64 // estimates in the dead letter because the sink refused them
	Undelivered int64 // alerts in the dead letter because the receiver refused them
	Expired     int64 // alerts not sent because they were too old
	Partials    int64 // partial answers of the source's server
	Dropped     int64 // points of that server that were not requested, or were repeated
	Stopped     bool  // before the end of the input
	// Lag is the lag of the partition whose records are farthest behind the clock. It is zero for files, and if nothing
	// waits for the watermark.
	Lag   kafkaio.EventLag
	Marks string // number of marks, in words
	// Partial are the files with the new output of a run that was stopped or failed, and left its outputs unchanged.
	Partial []string
	// Deleted are the maximum numbers of records that were deleted before they were read, by topic.
	Deleted map[string]int64
	Largest []LargestAlarm // largest of each key; at most maxLargest, largest first
	// LargestAlarms is the number of keys with an alarm, or with a change that the smoother found; at most
	// maxCountedKeys.
	LargestAlarms int

	// Moving are sessions without a change whose level drifts or wanders; at most maxMoving, clearest drifts first.
	Moving []Moving

	// Incidents are the incidents that opened, in their last reported state, those least probable by chance first.
	Incidents []incidents.Event

	Rejections []records.Rejection // most frequent reasons, most frequent first
	WarmUps    []string            // keys with fewer observations than their warm-up
	// RejectedKeys are the keys whose last records were all rejected, with the number of these records.
	RejectedKeys []string
	// MixedCounters are keys with counters that often fall and recover, at most maxPoorFits.
	MixedCounters []string
	Unmatched     []string  // patterns in keys and quiet that matched no key
	PoorFits      []PoorFit // keys whose values the family does not fit, worst first; at most maxPoorFits

	uncounted bool // more keys than LargestAlarms have an alarm or change

	nothingNew      bool     // a run with stored states has read no record
	ahead           bool     // some time was ahead of the clock
	observations    int64    // observations read, including rejected ones
	deadLetter      string   // description of the dead letter
	failedReceivers []string // receivers that took none of the alerts of a bounded run, in words

	gaps   [2]time.Duration // smallest and largest gap of sessions by time
	steps  bool             // the gaps were derived from the steps of keys
	single singleSessions

	groups      bool // alarms are grouped into incidents
	outputsKept bool // outputs and file of states stay unchanged
	detects     bool
	resumes     bool // the run has a file of states
	warmUp      int
	clock       *time.Location // nil for UTC
	advice      advice
}

// Err returns an error if the run rejected more than half of the records, if most sessions have one record, or if a
// receiver took none of its alerts. The first is a *RejectedError. Err returns nil for a run that was stopped.
func (s Summary) Err() error {
	if s.Stopped {
		return nil
	}
	var undelivered error
	if len(s.failedReceivers) > 0 {
		undelivered = fmt.Errorf("%s: they are in the dead letter (%s) or the changelog, the reasons are in the log", strings.Join(s.failedReceivers, ", "), s.deadLetter)
	}
	var single error
	if n := s.single; 2*n.single > n.sessions {
		single = errors.New(message.SingleSessions(n.single, n.sessions, s.gaps[0], s.gaps[1], n.step))
	}
	return errors.Join(s.rejected(), single, undelivered)
}

// A RejectedError means that more than half of the records were rejected.
type RejectedError struct {
	error
	NoneUsable bool // no record could be used
}

func (s Summary) rejected() error {
	total := s.read()
	if s.Rejected*2 <= total {
		return nil
	}
	err := fmt.Errorf("%d of %d records were rejected, more than half", s.Rejected, total)
	if len(s.Rejections) > 0 {
		err = fmt.Errorf("%w, most of them because of this: %s", err, s.Rejections[0].Reason)
	}
	switch noneUsable := s.useless(); {
	case noneUsable:
		return &RejectedError{fmt.Errorf("%w; no record could be used", err), true}
	case s.resumes:
		err = fmt.Errorf("%w; outputs and state are written, and the next run reads only new records: fix the rejected records, whose text is raw in the dead letter (%s), and pass them to it in a separate file", err, s.deadLetter)
	default:
		err = fmt.Errorf("%w; outputs are written: fix the records or the config, and run again", err)
	}
	return &RejectedError{err, false}
}

// useless reports whether records were rejected and no record could be used.
func (s Summary) useless() bool { return s.Rejected > 0 && s.Rejected >= s.read() }

// read returns the number of observations read. An aggregated interval is one record with several observations.
func (s Summary) read() int64 { return max(s.Rejected+s.Records, s.observations) }

// A LargestAlarm is the largest alarm of a key or, with the smoother, its clearest change. Without detection it is the
// step at which the filter forgot most.
type LargestAlarm struct {
	Key  string
	ID   string
	Time time.Time // start of a change
	// Size is in standard deviations for alarms, in nats of evidence for changes of the smoother, and in effective
	// observations for steps at which the filter forgot.
	Size  float64
	About string // further details in words

	n int64 // number of the record in its key or session
}

// suppressed returns the number of suppressed alarms and their largest score, in words.
func suppressed(n int64, why string, score float64) string {
	if score == 0 {
		return fmt.Sprintf("%d %s", n, why)
	}
	return fmt.Sprintf("%d %s (largest score %.1f)", n, why, score)
}

// String returns the summary as text.
func (s Summary) String() string {
	var b strings.Builder
	if s.nothingNew {
		b.WriteString("no new records: outputs that got no records are unchanged\n")
	}
	title, unit := "largest changes (observations forgotten at one step)", "forgot"
	switch {
	case s.Sessions > 0:
		title, unit = "the clearest change of each key (evidence in nats)", "evidence"
		fmt.Fprintf(&b, "%s, %s, ", count(s.Sessions, "session"), count(s.Changes, "change"))
	case s.detects:
		title, unit = "the largest alarm of each key (in standard deviations)", "by"
		fmt.Fprintf(&b, "%s, %s (%s, %s), %s, %s, found %s and %s, ", count(s.Keys, "key"), count(s.NoveltyAlarms+s.ChangeAlarms, "alarm"),
			message.Count(s.NoveltyAlarms, "novelty", "novelties"), count(s.ChangeAlarms, "change"), suppressed(s.Muted, "muted", s.MutedScore), suppressed(s.Resting, "resting", s.RestingScore), count(s.Changes, "change"), count(s.Outliers, "outlier"))
	default:
		fmt.Fprintf(&b, "%s, ", count(s.Keys, "key"))
	}
	if s.groups {
		fmt.Fprintf(&b, "%s, ", count(int64(len(s.Incidents)), "incident"))
	}
	if s.Silences > 0 {
		fmt.Fprintf(&b, "%s, ", count(s.Silences, "silence"))
	}
	quiet := ""
	if s.Quiet > 0 {
		quiet = fmt.Sprintf(", %d quiet", s.Quiet)
	}
	fmt.Fprintf(&b, "%s (%d missing%s), %d rejected, %d not converged, %.1f s", count(s.Records, "record"), s.Missing, quiet, s.Rejected, s.NotConverged, s.Elapsed.Seconds())
	if s.AlreadyRead > 0 {
		fmt.Fprintf(&b, "; %s of the previous run skipped", count(s.AlreadyRead, "record"))
	}
	if s.Stopped {
		b.WriteString("; stopped before the end of the input")
		if !s.outputsKept && len(s.Deleted) == 0 {
			b.WriteString(", nothing read was lost")
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(s.Deleted)) {
		fmt.Fprintf(&b, "; up to %s of topic %s were deleted before they were read: they are in no estimate; give the topic a longer retention", count(s.Deleted[topic], "record"), topic)
	}
	b.WriteByte('\n')
	b.WriteString(s.UnchangedOutputs())
	s.hints(&b)
	s.incidents(&b)
	if len(s.Largest) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "%s:\n", title)
	for _, f := range s.Largest {
		position := f.ID
		if !f.Time.IsZero() {
			position = s.stamp(f.Time)
		}
		fmt.Fprintf(&b, "  %-24s %s  ", message.Printable(f.Key), position)
		quoted := []string{fmt.Sprintf("%s %.4g", unit, f.Size), f.About}
		if math.IsNaN(f.Size) { // values on a scale without standard deviations
			quoted = quoted[1:]
		}
		b.WriteString(strings.Join(slices.DeleteFunc(quoted, func(s string) bool { return s == "" }), ", "))
		b.WriteByte('\n')
	}
	if more := s.LargestAlarms - len(s.Largest); more > 0 {
		b.WriteString("  and ")
		if s.uncounted {
			b.WriteString("over ")
		}
		b.WriteString(message.Count(more, "more key", "more keys"))
		if s.Sessions > 0 {
			b.WriteString("; hafvf sessions makes a table of all")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// moving lists sessions without a change that drift or wander.
func (s Summary) moving(b *strings.Builder) {
	if s.Drifting == 0 {
		return
	}
	hint := ""
	if s.Drifting*5 > s.Unchanged {
		hint = "; if they have levels by design, set change: {walk: false}"
	}
	fmt.Fprintf(b, "of %s without a change %s%s\n", count(s.Unchanged, "session"), message.Count(s.Drifting, "drifts or wanders", "drift or wander"), hint)
	for _, m := range s.Moving {
		words := "wanders"
		if d := m.Drift; d != nil {
			words = message.Drift(d.From, d.To, d.Positive, m.Start.Time, m.End.Time, cmp.Or(s.clock, time.UTC))
		}
		fmt.Fprintf(b, "  %-24s %s\n", message.Printable(m.Key), words)
	}
	if more := s.Drifting - int64(len(s.Moving)); more > 0 && len(s.Moving) > 0 {
		fmt.Fprintf(b, "  and %s\n", message.Count(more, "more session", "more sessions"))
	}
}

// A Moving is a session without a change whose level drifts or wanders.
type Moving struct {
	Key string
	keyed.Session
}

// compare puts the clearest drifts first, and wandering sessions last.
func (m Moving) compare(o Moving) int {
	clear := func(d *keyed.Drift) float64 {
		if d == nil {
			return 0
		}
		return math.Abs(d.Rate) / (d.Upper - d.Lower)
	}
	return cmp.Or(cmp.Compare(clear(o.Drift), clear(m.Drift)), cmp.Compare(m.Key, o.Key), m.Start.Compare(o.Start))
}

// keepMoving adds sessions to the first maxMoving.
func keepMoving(list []Moving, more ...Moving) []Moving {
	list = append(list, more...)
	slices.SortFunc(list, Moving.compare)
	return list[:min(len(list), maxMoving)]
}

// incidents lists the first incidents.
func (s Summary) incidents(b *strings.Builder) {
	if len(s.Incidents) == 0 {
		return
	}
	const named = 10
	b.WriteString("incidents, the least probable by chance first:\n")
	for _, e := range s.Incidents[:min(len(s.Incidents), named)] {
		note := ""
		if !e.Page {
			note = ", no page"
		}
		fmt.Fprintf(b, "  %s  score %.1f%s: %s\n", s.stamp(e.Start), e.Score, note, e.Message)
	}
	if more := len(s.Incidents) - named; more > 0 {
		fmt.Fprintf(b, "  and %s\n", message.Count(more, "more incident", "more incidents"))
	}
}

func (s Summary) stamp(t time.Time) string {
	return t.In(cmp.Or(s.clock, time.UTC)).Format(time.RFC3339)
}

// UnchangedOutputs names in one line which outputs of the run stay unchanged. It is empty if all were written.
func (s Summary) UnchangedOutputs() string {
	switch {
	case len(s.Partial) > 0 && s.resumes:
		return "outputs and state are unchanged; the output of this run is in " + strings.Join(s.Partial, ", ") + "\n"
	case len(s.Partial) > 0:
		return "outputs are unchanged; the output of this run is in " + strings.Join(s.Partial, ", ") + "\n"
	case s.outputsKept && s.resumes:
		return "the state is unchanged\n"
	}
	return ""
}

// count returns n with a noun, whose plural ends in s.
func count(n int64, singular string) string { return message.Count(n, singular, singular+"s") }

// hints lists the input that was not used, with the remedies.
func (s Summary) hints(b *strings.Builder) {
	if len(s.Rejections) > 0 {
		b.WriteString("rejected, by reason, each with its first record:\n")
		for _, r := range s.Rejections {
			fmt.Fprintf(b, "  %d × %s\n      %s: %s\n", r.Count, r.Reason, r.Place, message.Printable(r.Raw))
		}
	}
	if n := int64(len(s.RejectedKeys)); n > 0 {
		fmt.Fprintf(b, "warning: the last records of %s were all rejected: %s\n", count(n, "key"), message.Some(s.RejectedKeys, 5))
	}
	for _, hint := range []struct {
		n                      int64
		text, singular, plural string
	}{
		{s.Reset, "warning: %s reset, because the state could not be read or could learn nothing: the dead letter has the reasons\n", "key was", "keys were"},
		{s.Panics, "warning: the computation of a key panicked %s, a bug in hafvf: the log has the place, and the dead letter has the records\n", "time", "times"},
		{s.Restarts, "counters were reset %s: a fall to less than half is a reset, not a wrap\n", "time", "times"},
		{s.Skipped, "%s skipped: above a header, comments, or the header of another table\n", "line was", "lines were"},
		{s.Forgotten, "%s, because of tombstones in the topic\n", "key was forgotten", "keys were forgotten"},
		{s.ExpiredKeys, "%s: no record for longer than expire\n", "key was forgotten", "keys were forgotten"},
		{s.Expired, "%s older than alerts.max_age and not sent\n", "alert was", "alerts were"},
		{s.Partials, "warning: the server of the source returned %s: the log has the reasons\n", "partial answer", "partial answers"},
		{s.Dropped, "warning: the server of the source returned %s that were not requested, or were repeated: they were dropped\n", "point", "points"},
		{s.Refused, "warning: the sink refused %s: the dead letter has the reasons\n", "record", "records"},
		{s.Undelivered, "warning: %s not delivered: the dead letter has the reasons\n", "alert was", "alerts were"},
	} {
		if hint.n > 0 {
			fmt.Fprintf(b, hint.text, message.Count(hint.n, hint.singular, hint.plural))
		}
	}
	if s.steps {
		fmt.Fprintf(b, "sessions end at gaps of %s, %d median steps of the key and at least %s; session.gap sets another gap\n", message.Range(s.gaps[0], s.gaps[1]), keyed.GapSteps, message.Duration(keyed.MinGap))
	}
	if s.Marks != "" {
		fmt.Fprintln(b, s.Marks)
	}
	if s.Lag.Usual > 0 {
		fmt.Fprintf(b, "99 %% of the records arrived within %v of their times, all of them within %v\n", roundLag(s.Lag.Usual), roundLag(s.Lag.Max))
	}
	if s.Rewound > 0 {
		fmt.Fprintf(b, "%s had a time ahead of the clock, which was discarded when the next records were late in a row: max_ahead of the source rejects such times\n", message.Count(s.Rewound, "key", "keys"))
	}
	s.late(b)
	s.moving(b)
	if len(s.WarmUps) > 0 {
		const named = 5
		fmt.Fprintf(b, "fewer observations than warm_up (%d), in which no alarm is raised: %s, %s\n",
			s.warmUp, count(int64(len(s.WarmUps)), "key"), message.Some(s.WarmUps, named))
	}
	for _, m := range s.PoorFits {
		fmt.Fprintf(b, "warning: %.0f %% of the records of %s are outliers: the family does not fit%s\n", 100*m.Share, message.Printable(m.Key), s.advice.suggestion(m))
	}
	for _, key := range s.MixedCounters {
		fmt.Fprintf(b, "warning: %s falls at more than 5 %% of its records, and recovers within three records: two counters may share the key\n", message.Printable(key))
	}
	for i, pattern := range s.Unmatched {
		const named = 10
		if i == named {
			fmt.Fprintf(b, "warning: no key matches %d more patterns of keys or quiet\n", len(s.Unmatched)-named)
			break
		}
		fmt.Fprintf(b, "warning: no key matches %s of keys or quiet\n", domain.ShowPattern(pattern))
	}
}

// late reports how late records were, with the remedies.
func (s Summary) late(b *strings.Builder) {
	inTurn := s.Late - s.LateIdle - s.LateFar
	switch {
	case s.Late > 0 && s.resumes:
		fmt.Fprintf(b, "%s had times before the last record of the key, in this run or in the state: give only new records to a run with a state\n", count(s.Late, "record"))
		if s.LateIdle > 0 {
			fmt.Fprintf(b, "%d of them were within the lateness: the previous run released waiting records at the end of its file\n", s.LateIdle)
		}
	case inTurn > 0 && s.advice.zone != nil && clock.Forward(s.BehindAt, s.advice.zone):
		fmt.Fprintf(b, "%s late by up to %v, when the clock of the zone was set forward: a skipped time uses the offset before the change\n", message.Count(inTurn, "record was", "records were"), s.Behind)
	case inTurn > 0:
		fmt.Fprintf(b, "%s late by up to %v: with %s: %s none is late\n", message.Count(inTurn, "record was", "records were"), s.Behind, cmp.Or(s.advice.wait, "lateness"), message.Duration(message.RoundUp(s.Behind)))
	}
	if s.LateFar > 0 && !s.resumes {
		hint := "times go back there; order: arrival uses the order of the records"
		if s.ahead {
			hint = "check for times ahead of the clock: max_ahead of the source rejects them"
		}
		fmt.Fprintf(b, "%s late by more than a year: %s\n", message.Count(s.LateFar, "record was", "records were"), hint)
	}
	if s.LateIdle > 0 && !s.resumes {
		fmt.Fprintf(b, "%s within the lateness of the key, but after the watermark: ", message.Count(s.LateIdle, "record was", "records were"))
		if s.Lag.Max > 0 {
			fmt.Fprintf(b, "with source.kafka.disorder: %s the watermark waits\n", message.Duration(message.RoundUp(s.Lag.Max)))
		} else {
			b.WriteString("raise source.kafka.disorder\n")
		}
	}
}

// roundLag rounds a lag for display.
func roundLag(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// A PoorFit is a key with a share of outliers above poorFitShare.
type PoorFit struct {
	Key             string
	Share           float64 // outliers per record of the key
	Whole, Positive bool    // all values are whole; all are above zero
	Negative        bool    // some value is below zero
}

// An advice has the settings that a config has not tried for values that its family does not fit.
type advice struct {
	family, scale, season bool
	// wait is the setting that prevents late records; "" for lateness.
	wait string
	zone *time.Location // of local times
}

func adviceOf(c *config.Config) advice {
	wait := ""
	if c.Aggregate != nil {
		wait = "aggregate.wait"
	}
	zone, err := domain.Zone(c.Zone)
	if err != nil {
		zone = time.UTC // Parse has refused the zone
	}
	return advice{
		wait: wait, zone: zone,
		family: c.Model.Family == "normal",
		scale:  c.Model.Scale == hafvf.Linear && hafvf.Scalable(c.Model.Family) == nil,
		season: c.Model.Season == nil && usual.Seasonal(c.Model.Family) == nil && c.Order == settings.EventTime,
	}
}

// suggestion returns the advice for a key, "" if no setting is left to try.
func (a advice) suggestion(m PoorFit) string {
	var try []string
	if a.family && m.Whole && !m.Negative {
		try = append(try, "model.family: poisson")
	}
	switch {
	case !a.scale || m.Negative:
	case m.Positive:
		try = append(try, "model.scale: log")
	default:
		try = append(try, "model.scale: log1p")
	}
	if a.season {
		try = append(try, "model.season")
	}
	if len(try) == 0 {
		return ""
	}
	return "; try " + strings.Join(try, ", or ")
}

const (
	poorFitShare   = 0.05
	poorFitRecords = 200     // minimum records of a key for its share of outliers
	maxPoorFits    = 5       // maximum keys in a summary
	maxMoving      = 5       // maximum sessions in a summary
	maxCountedKeys = 100_000 // maximum keys whose outliers are counted, and maximum keys with an alarm
)

// Values counts the records of a key with detection, and reports whether some of its values are fractions, zero or
// negative.
type Values struct {
	Records, Outliers         int64
	Fractions, Zero, Negative bool
}

// Add counts a record.
func (n *Values) Add(outlier bool, values ...float64) {
	n.Records++
	if outlier {
		n.Outliers++
	}
	for _, v := range values {
		n.Fractions = n.Fractions || v != math.Trunc(v)
		n.Zero = n.Zero || v == 0
		n.Negative = n.Negative || v < 0
	}
}

// PoorFit returns the share of outliers if it is above poorFitShare, which shows that the family does not fit.
// Otherwise, and below poorFitRecords, it returns 0.
func (n Values) PoorFit() float64 {
	if share := float64(n.Outliers) / float64(n.Records); n.Records >= poorFitRecords && share > poorFitShare {
		return share
	}
	return 0
}

// keyCounts counts the records of a key. alarmed is set if the key had an alarm or a change.
type keyCounts struct {
	Values
	events, madeUp int64 // of a counter
	alarmed        bool
	keySessions
}

func (n keyCounts) merge(m keyCounts) keyCounts {
	return keyCounts{Values: Values{n.Records + m.Records, n.Outliers + m.Outliers, n.Fractions || m.Fractions, n.Zero || m.Zero, n.Negative || m.Negative},
		events: n.events + m.events, madeUp: n.madeUp + m.madeUp, alarmed: n.alarmed || m.alarmed, keySessions: n.keySessions.merge(m.keySessions)}
}

// mixedCounters returns the keys for which more than 5 % of the events are falls that later rises compensate.
func mixedCounters(keys map[string]keyCounts) (mixed []string) {
	for key, n := range keys {
		if 20*n.madeUp > n.events {
			mixed = append(mixed, key)
		}
	}
	slices.Sort(mixed)
	return mixed[:min(len(mixed), maxPoorFits)]
}

// poorFits returns the keys with the largest shares of outliers.
func poorFits(keys map[string]keyCounts) (fits []PoorFit) {
	for key, n := range keys {
		if share := n.PoorFit(); share > 0 {
			fits = append(fits, PoorFit{Key: key, Share: share, Whole: !n.Fractions, Positive: !n.Zero && !n.Negative, Negative: n.Negative})
		}
	}
	slices.SortFunc(fits, func(a, b PoorFit) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Key, b.Key)) })
	return fits[:min(len(fits), maxPoorFits)]
}

// A tally is a part of the summary that one goroutine counts without a lock.
type tally struct {
	largest  []LargestAlarm
	moving   []Moving
	keys     map[string]keyCounts // with detection, with sessions, or of counters
	counters bool                 // values are increases of counters
}

func (t *tally) estimate(key string, e *keyed.Estimate) {
	if t.counters && e.Events > 0 {
		n := t.forKey(key)
		if n.events += e.Events; e.Falls != nil {
			n.madeUp += int64(e.Falls.Recovered)
		}
		t.keys[strings.Clone(key)] = n
	}
	switch {
	case e.Missing:
	case e.Detection != nil:
		n, values := t.forKey(key), make([]float64, 0, 1)
		for _, x := range e.X {
			values = append(values, x[len(x)-1])
		}
		n.Add(e.Detection.Kind == hafvf.Outlier, values...)
		n.alarmed = n.alarmed || e.Alarm != nil
		t.keys[key] = n
		if a := e.Alarm; a != nil {
			when := e.Time
			if a.Kind == string(usual.ChangeAlarm) {
				when = a.Start
			}
			t.add(LargestAlarm{Key: key, ID: e.ID, Time: when, Size: math.Abs(a.Size), n: e.N}, func() string {
				if a.Kind == string(usual.ChangeAlarm) {
					return fmt.Sprintf("change %.4g → %.4g, reported %s later", a.Before.Mean[a.Output], a.After.Mean[a.Output], count(a.Delay, "observation"))
				}
				return fmt.Sprintf("novelty, usually %.4g", a.Usual.Mean[a.Output])
			})
		}
	default:
		// memory = E[w]·before + J, so (1 − E[w])·before was forgotten.
		retained := e.Memory - float64(len(e.X))
		if forgot := retained * (1 - e.Weight) / e.Weight; forgot > 1 {
			t.add(LargestAlarm{Key: key, ID: e.ID, Time: e.Time, Size: forgot, n: e.N}, func() string { return fmt.Sprintf("kept %.4g", e.Memory) })
		}
	}
}

func (t *tally) smoothed(key string, s *keyed.Smoothed) {
	if s.N == 1 && s.Revision == 0 && !s.Time.IsZero() {
		n, single := t.forKey(key), 0
		if s.Session.N == 1 {
			single = 1
		}
		n.keySessions = n.keySessions.merge(keySessions{1, single, s.Time, s.Time})
		t.keys[strings.Clone(key)] = n
	}
	if s.N == 1 && s.Session.Moves() {
		t.moving = keepMoving(t.moving, Moving{strings.Clone(key), s.Session})
	}
	if s.Change {
		if n := t.forKey(key); !n.alarmed {
			n.alarmed = true
			t.keys[strings.Clone(key)] = n
		}
		t.add(LargestAlarm{Key: key, ID: s.ID, Time: s.Time, Size: s.ChangeEvidence, n: s.N}, func() string {
			if g := s.Segment; g != nil && len(g.Before.Mean) == 1 {
				change := keyed.DescribeChange(g.Before, g.Level(), func(v float64) string { return fmt.Sprintf("%.4g", v) })
				return fmt.Sprintf("%s for %d observations", change, g.N)
			}
			return ""
		})
	}
}

// forKey returns the counts of a key.
func (t *tally) forKey(key string) keyCounts {
	if t.keys == nil {
		t.keys = map[string]keyCounts{}
	}
	return t.keys[key]
}

// add adds b if it is among the largest. describe returns the details of b; it is called only then, because the
// estimate is valid only during the call.
func (t *tally) add(b LargestAlarm, describe func() string) {
	if math.IsInf(b.Size, 0) || len(t.largest) == maxLargest && b.compare(t.largest[maxLargest-1]) > 0 {
		return
	}
	b.Key, b.ID, b.About = strings.Clone(b.Key), strings.Clone(b.ID), describe()
	t.largest = keepLargest(t.largest, b)
}

// flush adds the tally to f, and resets the tally.
func (t *tally) flush(f *runFindings) {
	if len(t.keys)+len(t.largest)+len(t.moving) > 0 {
		f.addTally(t)
	}
	clear(t.keys)
	t.largest, t.moving = t.largest[:0], t.moving[:0]
}

const maxLargest = 10

// compare orders by size, largest first, and then by key, time and n. The result therefore does not depend on the order
// in which goroutines find the alarms.
func (b LargestAlarm) compare(o LargestAlarm) int {
	return cmp.Or(cmp.Compare(o.Size, b.Size), cmp.Compare(b.Key, o.Key), b.Time.Compare(o.Time), cmp.Compare(b.n, o.n))
}

// keepLargest adds b to the largest alarms, at most one per key.
func keepLargest(list []LargestAlarm, b LargestAlarm) []LargestAlarm {
	if i := slices.IndexFunc(list, func(o LargestAlarm) bool { return o.Key == b.Key }); i >= 0 {
		if list[i].compare(b) <= 0 {
			return list
		}
		list = slices.Delete(list, i, i+1)
	}
	index, _ := slices.BinarySearchFunc(list, b, LargestAlarm.compare)
	list = slices.Insert(list, index, b)
	return list[:min(len(list), maxLargest)]
}
