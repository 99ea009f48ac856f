package keyed

import (
	"fmt"
	"math"
	"strings"
	"time"

	"hafvf/hafvf"
	"hafvf/internal/message"
)

// sentence says what happened to a key, from what to what, since when, and how sure that is:
// the message of the alert of an estimate. Values are as in Config.
func (a *Alert) sentence(key string, e *Estimate, values []string) string {
	i := a.Output
	since := ""
	if !a.Start.IsZero() {
		since = " at " + a.Start.UTC().Format(time.RFC3339)
	}
	switch a.Kind {
	case SilentAlarm:
		return fmt.Sprintf("%s: nothing has come%s, for more than %v.", key, strings.Replace(since, " at ", " since ", 1), e.Time.Sub(a.Start).Round(time.Second))
	case RecoveredAlarm:
		return fmt.Sprintf("%s: it speaks again, after %v.", key, e.Time.Sub(a.Start).Round(time.Second))
	}
	what, before := a.what(values), a.Before.Mean[i]
	x := what + " is "
	if v, ok := a.seen(e.X); ok {
		x += fmt.Sprintf("%.4g", v)
	} else {
		x += "unusual"
	}
	x += fmt.Sprintf("%s, usually %.4g (%s sd)", since, before, deviations(a.Size))
	switch hafvf.Kind(a.Kind) {
	case hafvf.Change, hafvf.Revision:
		after := a.After.Mean[i]
		verb := "rose"
		if after < before {
			verb = "fell"
		}
		if a.Corrects != "" {
			verb += ", as it turns out,"
		}
		return fmt.Sprintf("%s: %s %s from %.4g to %.4g (%s sd)%s, seen %s later, with a probability of %s.",
			key, what, verb, before, after, deviations(a.Size), since, message.Count(a.Delay, "observation", "observations"), probability(a.LogOdds))
	case hafvf.Outlier:
		return fmt.Sprintf("%s: %s, an outlier with a probability of %s.", key, x, probability(a.LogOdds))
	}
	if math.Abs(a.Size) < 2 {
		x += ", and the last values together are unusual"
	}
	if age := e.Detection.Age; age < youngRegime && age < e.N/2 {
		x += fmt.Sprintf(", in a regime that began %s ago", message.Count(age, "observation", "observations"))
	}
	return fmt.Sprintf("%s: %s; score %.1f, an alarm from %.1f.", key, x, a.Score, a.Threshold)
}

// youngRegime is the age, in observations, below which a message tells how old a regime is.
const youngRegime = 100

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
