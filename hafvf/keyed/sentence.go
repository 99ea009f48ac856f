package keyed

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// A sentence is the message of an alert: who does what, when, the value, and the usual value.
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

// subject returns the name of an output of the key in messages, and the unit of its values. An output without a
// name of its own is a metric. The metric is named by the key, or else by the configuration.
func (t *Track) subject(cfg *Config, output int) (who string, u unit) {
	outputs, name := t.stages.decider.outputs, t.valueName(cfg, output)
	who = t.key
	valuePart, unnamed := strings.CutSuffix(" "+name, " value") // also of "p95 of value"
	switch {
	case t.stages.decider.counted != nil:
		return who + " " + name, unitNamed("ratio", "")
	case outputs > 1 || !unnamed && name != "x":
		return who + " " + name, unitNamed(name, cfg.Unit)
	}
	metric, unitText := cfg.Metric, cfg.Unit
	own, labels, _ := strings.Cut(t.key, "{")
	switch series := strings.HasSuffix(labels, "}"); {
	case series && own == "" && !strings.ContainsAny(metric, " ()*/+-%^"):
		who = metric + who
	case series && own != "":
		if metric = own; strings.HasPrefix(unitText, "/") && valuePart == "" {
			unitText = "" // rate() removes the name of a metric, so this is not a rate
		}
	case metric == "":
		metric = t.key
	default:
		who += " " + metric
	}
	if unnamed {
		who += strings.TrimSuffix(valuePart, " of")
	}
	return who, unitNamed(metric, unitText)
}

// valueName returns the name of an output without its key.
func (t *Track) valueName(cfg *Config, output int) string {
	switch outputs, n := t.stages.decider.outputs, len(cfg.Values); {
	case n == outputs:
		return cfg.Values[output]
	case outputs > 1:
		return fmt.Sprintf("x[%d]", output)
	case n > 0:
		return cfg.Values[n-1] // the target follows its regressors
	}
	return "x"
}

// sentence returns the message of an alert of the estimate e, which has passed toData. For a run of values, it also
// sets a.Start and a.Delay to the start of the run. An alert of Ongoing has an episode already, with its worst value.
func (t *Track) sentence(cfg *Config, a *Alert, e *Estimate) string {
	decider, run, kind := t.stages.decider, t.decisions.run(a.Output), hafvf.Kind(a.Kind)
	who, u := t.subject(cfg, a.Output)
	u.hasRatios = !u.temperature && (t.stages.scale != nil || run.positive && !run.negative)
	mean, sd := a.Usual.Mean[a.Output], a.Usual.SD[a.Output]
	switch {
	case kind == hafvf.Change || kind == hafvf.Revision:
		return t.regimes(cfg, a, e, run, who, u)
	case a == e.Alarm && decider.missed.Score > 0:
		return t.missed(cfg, &decider.missed, who, u)
	case a == e.Alarm && decider.joint && !decider.fromBaseline:
		return t.apart(cfg, a, e)
	}
	x, seen := decider.seen(a, e)
	f, s := u.figure(mean, sd, x), sentence{who: who, what: "is unusual"}
	if seen {
		s.value = f.forDistance(x - mean).value(x)
	}
	if !math.IsNaN(mean) {
		s.usual = t.usually(a.Output, e.Time) + " " + f.band(mean, sd)
		if seen {
			s.what = f.difference(x, mean, sd, "above usual", "below usual")
		}
	}
	ep, equal, start, ongoing := &t.decisions.episode, "", a, a.Episode != nil
	near := ongoing && math.Abs(a.Size) < nearSD
	fromBaseline := ongoing || a == e.Alarm && decider.fromBaseline
	switch {
	case kind == hafvf.Outlier || fromBaseline && !near:
	case run.isReturn(a.Size) && !decider.stuck && !ongoing:
		s.what = "back to usual"
	case seen && (run.isStuck() || decider.stuck):
		a.Start, a.Delay, equal = run.equalStart, run.equal-1, fmt.Sprintf(", %d equal values", run.equal)
		s.what, s.value = "frozen at "+u.figure(x, math.NaN(), x).value(x), ""
		switch {
		case !unremarkable(a.Size) && decider.stuck:
			s.usual = "which is rare for this key, " + s.usual
		case decider.stuck:
			s.usual = "which is rare for this key"
		case unremarkable(a.Size):
			s.usual = "usual sd " + f.value(sd)
		}
	case near:
		s.what, start = "is near usual", &Alert{}
	case run.n > 1 && !run.gap:
		a.Start, a.Delay = run.start, run.n-1
	case !unremarkable(a.Size):
	case decider.movesMost:
		s.what = "varies more than usual from value to value"
	default:
		s.what = "varies more than usual"
	}
	words, earlier, at := ", worst", ep.worst.Value, ep.worst.Time
	if ep.open && fromBaseline && !ongoing {
		s.who, s.what, start = s.who+" is getting worse:", strings.TrimPrefix(s.what, "is "), &Alert{Start: ep.since, Delay: ep.delay()}
		words, earlier, at = ", after", ep.reportX, ep.reportTime
	}
	when, shown := t.when(cfg, start, e.Time, equal)
	s.when = when
	switch {
	case equal != "":
	case fromBaseline:
		if past := t.valueAt(f, mean, earlier, at, shown); ep.open && !math.IsNaN(earlier) && !strings.HasPrefix(past, " "+s.value+" ") {
			s.value += words + past
		}
		s.usual = "usual before "
		if !ep.start.IsZero() {
			s.usual += t.clock(ep.start, shown) + " "
		}
		s.usual += f.band(mean, sd)
	case kind == hafvf.Outlier:
		s.when += ", an outlier"
	}
	if s.what == atZero {
		s.value = ""
	}
	return s.String()
}

// run returns the run of recent values of an output, which is empty in the warm-up.
func (s *decisions) run(output int) *oneSidedRun {
	if output < len(s.runs) {
		return &s.runs[output]
	}
	return &oneSidedRun{}
}

// valueAt returns a value and its time, each after a space; nothing for one that is not known.
func (t *Track) valueAt(f figure, mean, v float64, at, today time.Time) (text string) {
	if !math.IsNaN(v) {
		text = " " + f.forDistance(v-mean).value(v)
	}
	if !at.IsZero() {
		text += " " + t.at(at, today)
	}
	return text
}

// regimes returns the message of a change: the mean before and after it, and its time.
func (t *Track) regimes(cfg *Config, a *Alert, e *Estimate, run *oneSidedRun, who string, u unit) string {
	s, sd := sentence{who: who}, a.Usual.SD[a.Output]
	s.when, _ = t.when(cfg, a, e.Time, "")
	before, after := a.Before.Mean[a.Output], a.After.Mean[a.Output]
	f := u.figure(before, math.NaN(), after)
	s.what = f.difference(after, before, sd, "higher", "lower")
	if run.isReturn((after - a.Usual.Mean[a.Output]) / sd) {
		s.what = "back to usual"
	}
	if a.Corrects != "" {
		s.when += ", correcting an earlier alert"
	}
	s.value, s.usual = f.value(after)+" on average", f.value(before)+" before"
	return s.String()
}

// apart returns the message of an alarm of two outputs that usually depend on each other and do not at e.
func (t *Track) apart(cfg *Config, a *Alert, e *Estimate) string {
	var values, bands [2]string
	decider, seen := t.stages.decider, false
	for i, output := range decider.pair {
		_, u := t.subject(cfg, output)
		mean, sd := a.Usual.Mean[output], a.Usual.SD[output]
		at := *a
		at.Output = output
		x, ok := decider.seen(&at, e)
		f := u.figure(mean, sd, x)
		seen, values[i], bands[i] = ok, f.value(x), f.band(mean, sd)
	}
	who, _ := t.subject(cfg, decider.pair[0])
	s := sentence{who: who, what: "and " + t.valueName(cfg, decider.pair[1]) + " do not move together as usual", usual: t.usually(a.Output, e.Time) + " " + bands[0] + " and " + bands[1]}
	if s.when, _ = t.when(cfg, &Alert{}, e.Time, ""); seen {
		s.value = values[0] + " and " + values[1]
	}
	return s.String()
}

// missed returns the message of a regular spike or drop that has not come.
func (t *Track) missed(cfg *Config, m *usual.MissedSpike, who string, u unit) string {
	verb, scale := "reaches", t.stages.scale
	if m.Usual < m.Extreme {
		verb = "falls to"
	}
	extreme, usualValue := scale.value(m.Extreme), scale.value(m.Usual)
	return sentence{
		who: who, what: "stayed at " + u.figure(extreme, math.NaN(), extreme).value(extreme), when: fmt.Sprintf("from %s to %s", t.clock(m.From, cfg.today()), t.clock(m.From.Add(time.Hour), m.From)),
		usual: fmt.Sprintf("usually it %s %s then (%d of %d days)", verb, u.figure(usualValue, math.NaN(), usualValue).value(usualValue), m.SpikeDays, m.Days),
	}.String()
}

// when returns the time part of a message, since a.Start or at now, and the time that it shows. The other times of the
// message have a date only if their date differs from it. more follows the duration.
func (t *Track) when(cfg *Config, a *Alert, now time.Time, more string) (text string, shown time.Time) {
	switch {
	case a.Start.Before(now) && !a.Start.IsZero():
		return fmt.Sprintf("since %s (%s%s)", t.clock(a.Start, cfg.today()), message.Span(now.Sub(a.Start)), more), a.Start
	case now.IsZero() && a.Delay > 0:
		return fmt.Sprintf("for %d observations", a.Delay+1), now
	case now.IsZero():
		return "", now
	}
	return t.at(now, cfg.today()), now
}

// today returns the time whose date messages omit: the present of a live input, else the zero Time. The messages of
// other inputs do not depend on the time of the run.
func (c *Config) today() time.Time {
	if c.OmitToday {
		return time.Now()
	}
	return time.Time{}
}

// at returns the words for a time or, for keys with steps of a day, a date.
func (t *Track) at(shown, today time.Time) string {
	if t.decisions.step >= day {
		return "on " + t.clock(shown, today)
	}
	return "at " + t.clock(shown, today)
}

// usually returns the words that say for which times the mean is usual.
func (t *Track) usually(output int, now time.Time) string {
	decider, d := t.stages.decider, &t.decisions
	switch {
	case !d.timed || len(decider.cfg.Seasons) == 0:
		return "usually"
	case decider.planned[output]:
		return fmt.Sprintf("usual on %ss at %02d:00", decider.calendar.Weekday(now), now.In(decider.calendar.Zone()).Hour())
	case d.step >= day:
		return "usual on such a day"
	}
	return "usual at this hour"
}

const day = 24 * time.Hour

// clock returns a time for readers, in the zone of the alarms, with the date if it is not the date of today. Keys with
// steps of a day show the date alone.
func (t *Track) clock(shown, today time.Time) string {
	if t.decisions.step >= day {
		return shown.In(t.stages.decider.calendar.Zone()).Format(time.DateOnly)
	}
	return clockOf(shown, today, t.decisions.step, t.stages.decider.calendar.Zone())
}

// clockOf returns message.Clock. It omits seconds if the step between observations is at least a minute.
func clockOf(shown, today time.Time, step time.Duration, zone *time.Location) string {
	if step >= time.Minute {
		shown = shown.Truncate(time.Minute)
	}
	return message.Clock(shown, today, zone)
}

// seen returns the observed value of the alert's output. ok is false for categories and for several vectors.
func (d *decider) seen(a *Alert, e *Estimate) (v float64, ok bool) {
	if len(e.X) != 1 {
		return 0, false
	}
	switch x := e.X[0]; {
	case d.counted != nil:
		return d.counted.Share(x), true
	case len(a.Before.Mean) == 1:
		return x[len(x)-1], true
	case len(x) == len(a.Before.Mean):
		return x[a.Output], true
	}
	return 0, false
}

// ended returns the message of the end of an alarm that lasted.
func (t *Track) ended(cfg *Config, a *Alert, side string) string {
	ep, w := a.Episode, &a.Episode.Worst
	who, u := t.subject(cfg, a.Output)
	s, usualWords := sentence{who: who, what: "back to usual"}, "usual "
	mean, sd := ep.UsualBefore.Mean[a.Output], ep.UsualBefore.SD[a.Output]
	if start := t.decisions.episode.start; a.Level != LevelBack && !start.IsZero() {
		usualWords = "usual before " + t.clock(start, a.NormalFrom) + " "
	}
	if !a.NormalFrom.IsZero() {
		s.when = "since " + t.clock(a.NormalFrom, cfg.today())
		if lasted := a.NormalFrom.Sub(ep.Since); !ep.Since.IsZero() && lasted > 0 {
			s.when += ", after " + message.Span(lasted)
		}
	}
	var parts []string
	switch {
	case a.Level == LevelStill:
		s.what = strings.TrimSuffix("is quiet "+s.when, " ")
		s.when = ""
		s.what += ", still " + side + " usual"
	case a.Level == LevelNew && side != "":
		s.what, parts = "stays "+side+" usual", []string{"usual from now on"}
	case a.Level == LevelNew:
		s.what, parts = "has a new level", []string{"usual from now on"}
	}
	if !math.IsNaN(w.Size) {
		f := u.figure(mean, sd, w.Value)
		parts = append(parts, "worst"+t.valueAt(f, mean, w.Value, w.Time, a.NormalFrom))
		if !math.IsNaN(mean) {
			s.usual = usualWords + f.band(mean, sd)
		}
	}
	s.value = strings.Join(parts, ", ")
	return s.String()
}

// outOfDomainMessage returns the message of a value that the family does not allow, with the reason.
func (t *Track) outOfDomainMessage(cfg *Config, o *Observation) string {
	family := t.stages.cfg.Family
	if s := t.stages.cfg.Scale; s != "" && s != hafvf.Linear {
		family += " with scale " + string(s)
	}
	who, u := t.subject(cfg, 0)
	s := sentence{who: who, what: "impossible"}
	s.when, _ = t.when(cfg, &Alert{}, o.Time, "")
	s.usual = fmt.Sprintf("outside the domain of the family %s (%v)", family, t.stages.check(o))
	if len(o.X) == 1 && len(o.X[0]) == 1 {
		s.value = u.figure(o.X[0][0], math.NaN(), o.X[0][0]).value(o.X[0][0])
	}
	return s.String()
}

// message returns the message of an alert about the silence at the time now: since when the key is silent, or how
// long it was.
func (s *Silence) message(kind, key string, now time.Time) string {
	zone, err := domain.Zone(s.Zone)
	if err != nil {
		zone = time.UTC // the computer that wrote the state knows more zones
	}
	step := s.Bound / 2 // messages show seconds only for keys that are silent after less than two minutes
	if kind == RecoveredAlarm {
		return sentence{who: key, what: "back", when: "at " + clockOf(now, time.Time{}, step, zone) + ", after " + message.Span(now.Sub(s.Since)) + " of silence"}.String()
	}
	usually := "the limit is " + message.Span(s.Bound)
	switch {
	case s.Daily:
		usually = "it usually comes by " + clockOf(s.Since.Add(s.Bound), now, step, zone)
	case s.Usual > 0:
		span := message.Span(s.Usual)
		unitWords := map[string]string{"1 s": "second", "1 min": "minute", "1 h": "hour"}
		usually = "usually a value every " + cmp.Or(unitWords[span], span)
		if !s.Regular {
			usually += " at this hour"
		}
	}
	return sentence{who: key, what: "silent", when: fmt.Sprintf("since %s (%s)", clockOf(s.Since, time.Time{}, step, zone), message.Span(now.Sub(s.Since))), value: usually}.String()
}
