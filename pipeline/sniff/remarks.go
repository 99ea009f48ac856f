package sniff

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A Remark is an uncertainty about the data or the draft.
type Remark struct {
	Text    string // observation, with the column and an example
	Setting string // setting that may fix it; empty if none does
	Doubt   bool   // the config is probably wrong, or several configs fit
}

// Remarks are the remarks of a Result or a draft.
type Remarks []Remark

func (rs *Remarks) add(doubt bool, setting, format string, args ...any) {
	*rs = append(*rs, Remark{fmt.Sprintf(format, args...), setting, doubt})
}

func (r Remark) String() string {
	if r.Setting == "" {
		return r.Text
	}
	return r.Text + "; see " + r.Setting
}

// remarks adds remarks where the records contradict the config.
func (s *sample) remarks(c *config.Config) {
	res := s.result
	add := res.Remarks.add
	late := res.Late
	if res.Far > 0 { // later records are late because of it
		late = 0
	}
	if lost := late + res.Records - res.Parsed; lost > 0 && res.Records > 0 {
		doubt := 10*lost > res.Records
		if n := res.Records - res.Parsed; n > 0 && doubt {
			r := res.Rejections[0]
			add(true, "", "%s of the records are rejected, such as %s: %s", message.Percent(n, res.Records), r.Place, r.Reason)
		}
		switch {
		case late == 0:
		case res.MaxDelay > account.FarBehind:
			add(doubt, "order", "%s of the records are late, by up to %s, the first at %s: times go back there; order: arrival uses the order of the source", message.Percent(res.Late, res.Records), message.AtLeast(res.MaxDelay), s.early.place)
		case s.clockSetBack() == "" && res.SkippedTimes == 0 && !slices.ContainsFunc(res.Suggestions, func(s Suggestion) bool { return s.Key == "lateness" || s.Key == "aggregate.wait" }):
			add(doubt, "key", "%s of the records are late, by up to %s, the first at %s: a part of the key may be missing", message.Percent(res.Late, res.Records), message.AtLeast(res.MaxDelay), s.early.place)
		}
	}
	s.lostParts()
	if res.SkippedTimes > 0 {
		add(false, "zone", "%s not exist in the zone because its clock is set forward, the first at %s: they use the offset before the change", message.Count(res.SkippedTimes, "time does", "times do"), res.FirstSkipped)
	}
	if day := s.clockSetBack(); day != "" {
		add(false, "zone", "times without a zone go back by an hour at %s (%s), like clocks at the end of summer time", day, s.early.place)
	}
	if res.Single > 0 {
		one := slices.IndexFunc(res.Keys, func(k string) bool { return s.keys[k].n == 1 })
		add(2*res.Single > len(res.Keys), "key", "%d of %d keys have one record, such as %s", res.Single, len(res.Keys), message.Quote(res.Keys[one]))
	}
	if c.Aggregate == nil && res.Tied > res.SkippedTimes && (s.clockSetBack() == "" || res.Tied > 4*res.Early) {
		text := fmt.Sprintf("%s of the records repeat a time of their key", message.Percent(res.Tied, res.Timed))
		if res.TiedKey != "" {
			text += ", most of " + message.Quote(res.TiedKey)
		}
		add(res.TiedKey != "", "key", "%s: a part of the key may be missing, or they are duplicates", text)
	}
	if v, n := s.sentinel(); n > 0 {
		add(false, "missing", "the value %g occurs %s, far from all others: if it means a missing value, set missing: [%g]", v, message.Count(n, "time", "times"), v)
	}
	if len(res.Counters) > 0 && len(res.Counters) < len(res.Keys) {
		add(false, "aggregate", "the values of %s rise and do not fall, like a counter, such as %s: aggregate: {every: 1h, value: increase} learns the increases", message.Count(len(res.Counters), "key", "keys"), message.Some(res.Counters, 4))
	}
	increases := c.Aggregate != nil && c.Aggregate.Value == keyed.Increase
	var mixed []string
	for _, key := range res.Keys {
		numbers := s.keys[key].numbers
		shared := c.Aggregate == nil && interleaved(numbers)
		if increases {
			falls := keyed.FallsOf(numbers, c.Aggregate.Modulus)
			res.Restarts += falls.Restarts
			shared = 20*falls.Recovered > len(numbers)
		}
		if shared {
			mixed = append(mixed, key)
		}
	}
	if len(mixed) > 0 {
		add(true, "key", "%s: more than 5 %% of the values are falls that recover within three records: two counters may share the key", message.Some(mixed, 4))
	}
	for _, pair := range decode.Switches {
		if slices.Contains(s.parser.Missing, pair[0]) && slices.Contains(s.parser.Missing, pair[1]) {
			add(false, "values_as", "%s and %s count as missing in a column of numbers: values_as: [%s, %s] makes them 0 and 1 in a source of their own", pair[0], pair[1], pair[0], pair[1])
		}
	}
}

// interleaved reports whether numbers fall often and consist of two series that only rise, like two counters under
// one name.
func interleaved(x []float64) bool {
	const minRises = 5 // more rises than this are required of each series
	low, high, last := math.Inf(-1), math.Inf(-1), math.Inf(-1)
	falls, lows, highs := 0, 0, 0
	for _, v := range x {
		if v < last {
			falls++
		}
		switch last = v; {
		case v > high:
			high, highs = v, highs+1
		case v == high:
		case v > low:
			low, lows = v, lows+1
		case v < low:
			return false
		}
	}
	return 20*falls > len(x) && lows > minRises && highs > minRises
}

// clockSetBack returns the time at which the times of keys go back by at most an hour, if that is in a night in which
// clocks are set back. Otherwise it returns an empty string.
func (s *sample) clockSetBack() string {
	t := s.early.time
	back := t.Month() == time.October && t.Day() > 24 || t.Month() == time.November && t.Day() < 8 || t.Month() == time.April && t.Day() < 8
	if s.result.Early == 0 || s.result.MaxDelay > time.Hour || !back || t.Weekday() != time.Sunday || t.Hour() < 1 || t.Hour() > 3 || s.parser.Zone != "UTC" || s.result.Step > time.Hour {
		return ""
	}
	return t.Format("2006-01-02 15:04")
}

// sentinel returns the value that is probably not a measurement, and how often it occurs. Such a value repeats in a
// key, and its distance to the nearest other value is more than twice the range of the other values.
func (s *sample) sentinel() (v float64, n int) {
	const minOthers = 5 // minimum number of different other values
	count := map[float64]int{}
	for _, key := range s.keys {
		x := slices.Sorted(slices.Values(key.numbers))
		for _, low := range []bool{true, false} {
			if !low {
				slices.Reverse(x)
			}
			repeats := 1
			for repeats < len(x) && x[repeats] == x[0] {
				repeats++
			}
			rest := slices.Compact(slices.Clone(x[min(repeats, len(x)):]))
			if repeats < 2 || len(rest) < minOthers || repeats > len(x)-repeats {
				continue
			}
			if gap, spread := math.Abs(x[0]-rest[0]), math.Abs(rest[0]-rest[len(rest)-1]); gap > 2*spread {
				count[x[0]] += repeats
			}
		}
	}
	for value, repeats := range count {
		if repeats > n || repeats == n && value < v {
			v, n = value, repeats
		}
	}
	return v, n
}

// family returns the family that fits the values.
func (s *sample) family() string {
	const few = 20
	res := s.result
	n := res.Components - res.Missing
	switch {
	case n == 0 || res.Fractions > 0 || res.Negative > 0 || res.Max == 0:
		return "normal"
	case n < few && res.Max <= 1:
		return "normal" // shares and rates may start with 0 and 1
	case res.Min == 0 && res.Max == 1:
		return "bernoulli"
	}
	mean, dispersion, _ := dispersion(s.series())
	zeros := float64(n) * math.Exp(-mean)
	switch {
	case zeros >= few/2 && res.Zero == 0: // ratings and choices
		return "normal"
	case mean < 2 || dispersion > 1./5 && dispersion < 2:
		return "poisson"
	}
	return "normal"
}

// series returns the numbers of each key, with the hours of their times.
func (s *sample) series() (numbers [][]float64, hours [][]uint8) {
	for _, key := range s.result.Keys {
		numbers, hours = append(numbers, s.keys[key].numbers), append(hours, s.keys[key].hours)
	}
	return numbers, hours
}

// A key with less than fewRecords records is too short for a suggestion.
const fewRecords = 10

// length returns the median duration and the median number of observations of a key. If the sample is not the whole
// source, it returns 0 and math.MaxInt.
func (s *sample) length(c *config.Config) (span time.Duration, n int) {
	var spans []time.Duration
	var counts []int
	for _, v := range s.keys {
		spans, counts = append(spans, v.latest.Sub(v.first)), append(counts, v.n)
	}
	if len(spans) == 0 || !s.result.Whole {
		return 0, math.MaxInt
	}
	slices.Sort(spans)
	slices.Sort(counts)
	span, n = spans[len(spans)/2], counts[len(counts)/2]
	if c.Aggregate != nil {
		n = int(span / c.Aggregate.Every)
	}
	return span, n
}

// warmUp returns the number of first observations that the prior of short keys should use, and the reason. Both are
// empty if the default fits.
func (s *sample) warmUp(c *config.Config) (value, why string) {
	if _, n := s.length(c); c.Model.WarmUp == keyed.DefaultWarmUp && n >= fewRecords && n < 2*keyed.DefaultWarmUp {
		return strconv.Itoa(max(5, n/4)), fmt.Sprintf("a key has %d observations", n)
	}
	return "", ""
}

// detect returns a value of detect that fits the step and the length of the series, and the reason. Both are empty if
// the defaults fit.
func (s *sample) detect(c *config.Config) (value, why string) {
	res := s.result
	d := c.Detect
	span, n := s.length(c)
	if d == nil || n < fewRecords || res.Step <= 0 && res.Timed > 0 {
		return "", ""
	}
	if res.Timed == 0 { // the budget counts observations
		if float64(n) >= d.BudgetOf(0) {
			return "", ""
		}
		return fmt.Sprintf("{budget: %d, rest: %d, settling: 0}", max(n/2, minBudgetObservations), max(3, min(n/20, 60))),
			fmt.Sprintf("a key has %d observations; the defaults are for thousands, and suppress alarms at first", n)
	}
	const day = 24 * time.Hour
	budget := time.Duration(d.BudgetOf(res.Step) * float64(res.Step))
	minBudget := minBudgetObservations * res.Step
	short := span > 0 && budget > message.RoundUp(max(span, minBudget))
	switch {
	case short:
		budget = max(span/2, minBudget)
	case budget < minBudget && (span == 0 || budget < span):
		return fmt.Sprintf("{budget: %s}", message.Duration(message.RoundUp(minBudget))),
			fmt.Sprintf("about one alarm in %d records of a key, at most ten in the first %d; now one in %.0f", minBudgetObservations, minBudgetObservations, d.BudgetOf(res.Step))
	default:
		return "", ""
	}
	parts := []string{"budget: " + message.Duration(message.RoundUp(budget))}
	if n < 20*6 {
		parts = append(parts, fmt.Sprintf("rest: %d", max(3, n/20)))
	}
	switch {
	case span < 2*day:
		parts = append(parts, "season: []")
	case span < 14*day:
		parts = append(parts, "season: [24h]")
	}
	if span < 4*day {
		parts = append(parts, "settling: 0")
	}
	return "{" + strings.Join(parts, ", ") + "}", fmt.Sprintf("a key lasts %s; the defaults are for weeks, and suppress alarms in the first four days", message.Duration(message.RoundUp(span)))
}

// missingKey suggests a key if many records repeat a time of the configured key.
func (s *sample) missingKey(c *config.Config, file connectors.Source, fields config.Fields) (found Suggestion, ok bool) {
	res := s.result
	if res.Timed == 0 || float64(res.Tied) < tiedKeys*float64(res.Timed) || c.Aggregate != nil || fields.Layout != config.Long {
		return found, false
	}
	why := fmt.Sprintf("%s of the records repeat a time of their key", message.Percent(res.Tied, res.Timed))
	if t, err := readTable(file.Path); err == nil {
		if timeCol := t.calendar(); timeCol != nil {
			more := slices.DeleteFunc(namesOf(t.key(timeCol)), func(name string) bool { return slices.Contains(fields.Key, name) })
			if len(more) > 0 {
				return Suggestion{"source." + file.Format + ".key", config.YAMLNames(slices.Concat(fields.Key, more)), why}, true
			}
		}
	}
	return Suggestion{"aggregate", "{every: 1m, value: mean}", why + ", and no column separates them; or another interval, or count"}, true
}
