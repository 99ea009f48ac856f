package keyed

import (
	"fmt"
	"math"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// message says since when nothing came from a key, or for how long nothing had come, of an alert
// of the silence at a time.
func (s *Silence) message(kind, key string, at time.Time) string {
	if kind == RecoveredAlarm {
		return fmt.Sprintf("%s: speaks again, after %s.", key, message.Duration(at.Sub(s.Since).Round(time.Second)))
	}
	zone, err := domain.Zone(s.Zone)
	if err != nil {
		zone = time.UTC // the state comes from a computer that knows more zones
	}
	usually := fmt.Sprintf("more than %s", message.Duration(s.Bound.Round(time.Second)))
	if s.Daily {
		usually = "it usually comes by " + message.Clock(s.Since.Add(s.Bound), at, zone)
	} else if s.Usual > 0 {
		usually = "usually every " + message.Duration(roughly(s.Usual))
		if !s.Regular {
			usually += " at this hour"
		}
	}
	return fmt.Sprintf("%s: nothing has come since %s; %s.", key, message.Clock(s.Since, at, zone), usually)
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

// sentence says what happened to the track, since when, how far from usual, and how sure that
// is: the message of the alert of an estimate, which has left the stages. Values are as in
// Config.
func (t *Track) sentence(a *Alert, e *Estimate, values []string) string {
	what, kind := t.key+": "+a.what(values), hafvf.Kind(a.Kind)
	if kind == hafvf.Change || kind == hafvf.Revision {
		return what + " " + t.regimes(a, e)
	}
	is, now := "is unusual", ""
	x, seen := a.seen(e.X)
	if m, ok := t.stages.checks.Model().(expfam.Counted); ok && seen {
		x = m.Share(e.X[0])
	}
	if seen {
		is, now = fmt.Sprintf("is %.4g", x), fmt.Sprintf(", now %.4g", x)
	}
	if !e.Time.IsZero() {
		is += " at " + t.clock(e.Time, e.Time)
	}
	if m := &t.stages.decider.missed; a == e.Alarm && m.Score > 0 {
		return t.missed(m, what, e.Time)
	}
	if a == e.Alarm && t.stages.decider.farther {
		was := &t.decisions.before
		began := ""
		if !was.at.IsZero() {
			began = " of " + t.clock(was.at, e.Time)
		}
		return fmt.Sprintf("%s %s, as far again from %s, which was usual before the alarm%s.", what, is, t.between(a.Usual.Mean[a.Output], a.Usual.SD[a.Output]), began)
	}
	expected := t.expected(a, e.Time)
	if kind == hafvf.Outlier {
		return fmt.Sprintf("%s %s%s, an outlier with a probability of %s.", what, is, expected, probability(a.LogOdds))
	}
	var lately oneSidedRun
	if a.Output < len(t.decisions.lately) {
		lately = t.decisions.lately[a.Output]
	}
	switch {
	case !seen:
		what += " " + is + expected
	case lately.returns(a.Size) && !t.stages.decider.stuck:
		what += " is back to usual" + now + expected
	case lately.isStuck() || t.stages.decider.stuck:
		values := fmt.Sprintf("%d equal values", lately.equal)
		if !lately.repeat.IsZero() {
			values = fmt.Sprintf("%s (%s)", message.Duration(e.Time.Sub(lately.repeat).Round(time.Second)), values)
		}
		what += fmt.Sprintf(" has been %.4g for %s", x, values)
		rare := t.stages.decider.stuck
		switch {
		case unremarkable(a.Size) && rare:
		case unremarkable(a.Size):
			what += fmt.Sprintf("; usual scatter %.2g", a.Usual.SD[a.Output])
		default:
			what += expected
		}
		if rare {
			what += "; equal values in a row are rare here"
		}
	case lately.n > 1 && !lately.gap:
		side, since := "below", fmt.Sprintf("for %d observations", lately.n)
		if lately.side > 0 {
			side = "above"
		}
		if !lately.since.IsZero() {
			since = "since " + t.clock(lately.since, e.Time)
		}
		what += " has been " + side + " usual " + since + now + expected
	case !unremarkable(a.Size):
		what += " " + is + expected
	case t.stages.decider.moves:
		what += " moves from value to value more than usual" + now + expected
	default:
		what += " scatters more than usual" + now + expected
	}
	return fmt.Sprintf("%s; score %.1f, an alarm from %.1f.", what, a.Score, a.Threshold)
}

// missed says that what usually comes in an hour has not come by the time now.
func (t *Track) missed(m *usual.Missed, what string, now time.Time) string {
	moves, scale := "reaches", t.stages.scale
	if m.Usual < m.Most {
		moves = "falls to"
	}
	return fmt.Sprintf("%s stayed at %.4g from %s to %s; usually it %s %.4g then (%d of %d days); score %.1f, an alarm from %.1f.", what, scale.value(m.Most),
		t.clock(m.From, now), t.clock(m.From.Add(time.Hour), now), moves, scale.value(m.Usual), m.Came, m.Days, m.Score, math.Log10(t.decisions.pace.Budget()))
}

// regimes says from what to what the key went, and when.
func (t *Track) regimes(a *Alert, e *Estimate) string {
	i := a.Output
	before, after := t.digits(i, a.Before.Mean[i]), t.digits(i, a.After.Mean[i])
	moved, since := "rose", ""
	if after < before {
		moved = "fell"
	}
	if a.Corrects != "" {
		moved += ", as it turns out,"
	}
	moved += fmt.Sprintf(" from %.4g to %.4g", before, after)
	if !a.Start.IsZero() {
		since = " at " + t.clock(a.Start, e.Time)
	}
	back := ""
	if i < len(t.decisions.lately) && t.decisions.lately[i].returns((after-a.Usual.Mean[i])/a.Usual.SD[i]) {
		back = ", back to usual"
	}
	return fmt.Sprintf("%s (%s sd)%s%s, seen %s later, with a probability of %s.",
		moved, deviations(a.Size), since, back, message.Count(a.Delay, "observation", "observations"), probability(a.LogOdds))
}

// digits is the mean of an output without what is far below the unit of its values.
func (t *Track) digits(output int, v float64) float64 {
	if output < len(t.decisions.units) && math.Abs(v) < t.decisions.units[output]/1e3 {
		return 0
	}
	return v
}

// expected says what is usual, with its standard deviation. It is empty where that is not known.
func (t *Track) expected(a *Alert, at time.Time) string {
	mean, sd := a.Usual.Mean[a.Output], a.Usual.SD[a.Output]
	if math.IsNaN(mean) {
		return ""
	}
	usually := "usually"
	if d := &t.decisions; d.timed && len(t.stages.decider.cfg.Seasons) > 0 {
		switch decider := t.stages.decider; {
		case decider.planned[a.Output]:
			at = at.In(decider.zone)
			usually = fmt.Sprintf("usual on %ss at %02d:00", at.Weekday(), at.Hour())
		case d.step >= day:
			usually = "usual on such a day"
		default:
			usually = "usual at this hour"
		}
	}
	return ", " + usually + " " + t.between(mean, sd)
}

// between writes mean ± sd, with two digits of sd. Counts and rates are not below zero.
func (t *Track) between(mean, sd float64) string {
	if !t.stages.decider.measured {
		mean = max(0, mean)
	}
	if !(sd >= 1e-6 && sd < 1e6 && math.Abs(mean) < 1e9) {
		return fmt.Sprintf("%.4g ± %.2g", mean, sd)
	}
	decimals := max(0, 1-int(math.Floor(math.Log10(sd))))
	return fmt.Sprintf("%.*f ± %.*f", decimals, mean, decimals, sd)
}

const day = 24 * time.Hour

// clock is the time at as a person reads it at the time now, in the zone of the alarms.
func (t *Track) clock(at, now time.Time) string {
	if t.decisions.step >= day {
		return at.In(t.stages.decider.zone).Format(time.DateOnly)
	}
	return message.Clock(at, now, t.stages.decider.zone)
}

// what names the value that the alert is about.
func (a *Alert) what(values []string) string {
	switch outputs, n := len(a.Before.Mean), len(values); {
	case n == outputs:
		return values[a.Output]
	case n > 0 && outputs == 1:
		return values[n-1] // the target, behind its regressors
	case outputs == 1:
		return "x"
	}
	return fmt.Sprintf("x[%d]", a.Output)
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

// deviations are a signed number of standard deviations as a person reads it.
func deviations(size float64) string {
	if d := math.Abs(size); d >= 100 && d < 1e6 {
		return fmt.Sprintf("%+.0f", size)
	}
	return fmt.Sprintf("%+.2g", size)
}

// probability is that of log-odds as a person reads it.
func probability(odds float64) string {
	p := 1 / (1 + math.Exp(-odds))
	if p > .9999 {
		return "more than 99.99 %"
	}
	return fmt.Sprintf("%.4g %%", 100*p)
}
