package keyed

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// A sentence is the message of an alert: who does what and by how much, when, the value, and what is usual.
type sentence struct{ who, what, when, value, usual string }

func (s sentence) String() string {
	text := s.who + " " + s.what
	for _, part := range [...][2]string{{" ", s.when}, {": ", s.value}, {", ", s.usual}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	return text + "."
}

// subject says what an output is of the key, and how its values are written. A value without a name of its
// own is that of a metric, which the key names or else the configuration.
func (t *Track) subject(cfg *Config, output int) (who string, u unit) {
	outputs, n, name := t.stages.checks.Model().Outputs(), len(cfg.Values), "x"
	switch {
	case n == outputs:
		name = cfg.Values[output]
	case outputs > 1:
		name = fmt.Sprintf("x[%d]", output)
	case n > 0:
		name = cfg.Values[n-1] // the target, behind its regressors
	}
	metric, _, series := strings.Cut(t.key, "{")
	if series = series && strings.HasSuffix(t.key, "}"); !series {
		metric = ""
	}
	given := cfg.Unit
	if metric != "" && strings.HasPrefix(given, "/") {
		given = "" // what makes a rate takes the name
	}
	who = t.key
	of, unnamed := strings.CutSuffix(" "+name, " value")
	if unnamed = unnamed || name == "x"; name == "x" {
		of = ""
	}
	switch of = strings.TrimSuffix(of, " of"); { // such as p95
	case outputs > 1 || !unnamed:
		who += " " + name
	case metric != "":
		who, name = who+of, metric
	case cfg.Metric == "":
		who, name = who+of, t.key
	case series:
		who, name = cfg.Metric+who+of, cfg.Metric
	default:
		who, name = who+of+" "+cfg.Metric, cfg.Metric
	}
	if a := cfg.Aggregate; a != nil {
		switch {
		case a.Value == Rate:
			name, given = "", "/s"
		case a.Value == Count:
			name, given = "", ""
		default:
			given += per(a.Per)
		}
	}
	if _, counted := t.stages.checks.Model().(expfam.Counted); counted {
		return who, unit{multiplesOf["ratio"], ""}
	}
	return who, unitNamed(name, given)
}

// sentence is the message of the alert of an estimate, which has left the stages.
func (t *Track) sentence(cfg *Config, a *Alert, e *Estimate) string {
	who, u := t.subject(cfg, a.Output)
	s := sentence{who: who, when: t.when(a.Start, e.Time, a.Delay)}
	kind := hafvf.Kind(a.Kind)
	if kind == hafvf.Change || kind == hafvf.Revision {
		t.regimes(&s, u, a)
		return s.String()
	}
	mean, sd := a.Usual.Mean[a.Output], a.Usual.SD[a.Output]
	if !t.stages.decider.measured {
		mean = max(0, mean)
	}
	x, seen := a.seen(e.X)
	if m, ok := t.stages.checks.Model().(expfam.Counted); ok && seen {
		x = m.Share(e.X[0])
	}
	known, f := !math.IsNaN(mean), u.figure(mean, sd, x)
	if seen {
		s.value = f.seen(x, mean)
	}
	if known {
		s.usual = t.usually(a.Output, e.Time) + " " + f.band(mean, sd)
	}
	s.what = "is unusual"
	if seen && known {
		if s.what = f.much(x, mean, sd, "above usual", "below usual"); s.what == atZero {
			s.value = ""
		}
	}
	decider, cause, run := t.stages.decider, t.causeOf(a), t.decisions.run(a.Output)
	switch {
	case a == e.Alarm && decider.farther:
		began := "the last alarm"
		if was := &t.decisions.before; !was.at.IsZero() {
			began = t.clock(was.at, e.Time)
		}
		s.when, s.usual = s.when+", as far again as at "+began, "usual before that "+f.band(mean, sd)
	case kind == hafvf.Outlier:
		s.when += ", an outlier"
	case !seen:
	case cause == returning:
		s.what = "back to usual"
	case cause == frozen:
		s.what, s.value = "frozen at "+u.figure(x, math.NaN(), x).value(x), ""
		equal := fmt.Sprintf("%d equal values", run.equal)
		if s.when = "for " + equal; !e.Time.IsZero() && !run.repeat.IsZero() {
			s.when = fmt.Sprintf("since %s (%s, %s)", t.clock(run.repeat, e.Time), message.Span(e.Time.Sub(run.repeat)), equal)
		}
		switch {
		case unremarkable(a.Size) && decider.stuck:
			s.usual = "which is rare here"
		case unremarkable(a.Size):
			s.usual = "values usually scatter by " + f.value(sd)
		case decider.stuck:
			s.usual = "which is rare here, " + s.usual
		}
	case cause == oneSided || !unremarkable(a.Size):
	case decider.moves:
		s.what = "moves from value to value more than usual"
	default:
		s.what = "scatters more than usual"
	}
	return s.String()
}

// regimes says from what to what the key went.
func (t *Track) regimes(s *sentence, u unit, a *Alert) {
	i := a.Output
	before, after := t.roundedOff(i, a.Before.Mean[i]), t.roundedOff(i, a.After.Mean[i])
	f := u.figure(before, math.NaN(), after)
	s.what = f.much(after, before, 0, "higher", "lower")
	if t.decisions.run(i).returns((after - a.Usual.Mean[i]) / a.Usual.SD[i]) {
		s.what = "back to usual"
	}
	if a.Corrects != "" {
		s.when += ", as it turns out"
	}
	s.value, s.usual = f.value(after)+" on average", "before "+f.value(before)
}

// when says when that was which began at start, before so many observations, and is told now.
func (t *Track) when(start, now time.Time, before int64) string {
	switch {
	case now.IsZero() || start.IsZero():
		if before == 0 {
			return ""
		}
		return fmt.Sprintf("for %d observations", before+1)
	case start.Before(now):
		return fmt.Sprintf("since %s (%s)", t.clock(start, now), message.Span(now.Sub(start)))
	case t.decisions.step >= day:
		return "on " + t.clock(start, now)
	}
	return "at " + t.clock(start, now)
}

// roundedOff is the mean of an output without what is far below the unit of its values.
func (t *Track) roundedOff(output int, v float64) float64 {
	if output < len(t.decisions.units) && math.Abs(v) < t.decisions.units[output]/1e3 {
		return 0
	}
	return v
}

// usually says for when a mean is usual.
func (t *Track) usually(output int, at time.Time) string {
	decider, d := t.stages.decider, &t.decisions
	switch {
	case !d.timed || len(decider.cfg.Seasons) == 0:
		return "usually"
	case decider.planned[output]:
		at = at.In(decider.zone)
		return fmt.Sprintf("usual on %ss at %02d:00", at.Weekday(), at.Hour())
	case d.step >= day:
		return "usual on such a day"
	}
	return "usual at this hour"
}

const day = 24 * time.Hour

// clock is the time at as a person reads it at the time now, in the zone of the alarms.
func (t *Track) clock(at, now time.Time) string {
	if t.decisions.step >= day {
		return at.In(t.stages.decider.zone).Format(time.DateOnly)
	}
	return clockOf(at, now, t.decisions.step, t.stages.decider.zone)
}

// clockOf is message.Clock, without seconds where as much as a minute lies between observations.
func clockOf(at, now time.Time, step time.Duration, zone *time.Location) string {
	if step >= time.Minute {
		at = at.Truncate(time.Minute)
	}
	return message.Clock(at, now, zone)
}

// seen is the observed value that the alert is about; ok is false where the observation
// is of categories or several vectors.
func (a *Alert) seen(step [][]float64) (v float64, ok bool) {
	if len(step) != 1 {
		return 0, false
	}
	switch x := step[0]; {
	case len(a.Before.Mean) == 1:
		return x[len(x)-1], true
	case len(x) == len(a.Before.Mean):
		return x[a.Output], true
	}
	return 0, false
}

// ended is the message of the end of an alarm that has lasted, with an estimate.
func (t *Track) ended(cfg *Config, a *Alert, l *lastingAlarm, e *Estimate) string {
	who, u := t.subject(cfg, a.Output)
	s := sentence{who: who, what: "back to usual"}
	if side := l.stays(); side != "" {
		s.what = "stays " + side + " usual, no alarm any more"
	}
	if !l.back.IsZero() {
		s.when = "since " + t.clock(l.back, e.Time)
		if lasted := l.back.Sub(l.start); !l.start.IsZero() && lasted > 0 {
			s.when += ", after " + message.Span(lasted)
		}
	}
	p, was := &l.peak, &t.decisions.before
	if p.size == 0 {
		return s.String()
	}
	mean, sd := math.NaN(), math.NaN()
	if was.known() {
		before := Moments{slices.Clone(was.usual.Mean), slices.Clone(was.usual.SD)}
		t.stages.scale.moments(before)
		mean, sd = before.Mean[p.output], before.SD[p.output]
	}
	f := u.figure(mean, sd, p.x)
	s.value = "farthest"
	if !p.at.IsZero() {
		s.value += " at " + t.clock(p.at, e.Time)
	}
	if !math.IsNaN(p.x) {
		s.value += " with " + f.seen(p.x, mean)
	}
	if was.known() {
		s.usual = "usual " + f.band(mean, sd)
	}
	return s.String()
}

// outsideOf says what is outside of the family, and why.
func (t *Track) outsideOf(cfg *Config, o *Observation) string {
	family := t.stages.cfg.Family
	if s := t.stages.cfg.Scale; s != "" && s != hafvf.Linear {
		family += " with scale " + string(s)
	}
	who, u := t.subject(cfg, 0)
	s := sentence{who: who, what: "impossible", when: t.when(o.Time, o.Time, 0)}
	s.usual = fmt.Sprintf("the family %s does not have its values (%v)", family, t.stages.check(o))
	if len(o.X) == 1 && len(o.X[0]) == 1 {
		s.value = u.figure(o.X[0][0], math.NaN(), o.X[0][0]).value(o.X[0][0])
		s.usual = fmt.Sprintf("which the family %s does not have (%v)", family, t.stages.check(o))
	}
	return s.String()
}

// message says since when nothing came from a key, or for how long nothing had come, of an alert
// of the silence at a time.
func (s *Silence) message(kind, key string, at time.Time) string {
	zone, err := domain.Zone(s.Zone)
	if err != nil {
		zone = time.UTC // the state comes from a computer that knows more zones
	}
	step := s.Bound / 2 // seconds are for keys that are silent within two minutes
	if kind == RecoveredAlarm {
		return sentence{who: key, what: "back", when: "at " + clockOf(at, at, step, zone) + ", after " + message.Span(at.Sub(s.Since)) + " of silence"}.String()
	}
	usually := "the limit is " + message.Span(s.Bound)
	if s.Usual > 0 {
		span := message.Span(roughly(s.Usual))
		one := map[string]string{"1 s": "second", "1 min": "minute", "1 h": "hour"}
		usually = "usually a value every " + cmp.Or(one[span], span)
		if !s.Regular {
			usually += " at this hour"
		}
	}
	return sentence{who: key, what: "silent", when: fmt.Sprintf("since %s (%s)", clockOf(s.Since, at, step, zone), message.Span(at.Sub(s.Since))), value: usually}.String()
}

// roughly rounds a duration to about two digits.
func roughly(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d >= 10*unit {
			return d.Round(unit)
		}
		if d >= 2*unit {
			return d.Round(unit / 10)
		}
	}
	return max(d.Round(10*time.Millisecond), time.Millisecond)
}
