package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/observe"
)

// Records of several series that stand in one file have equal times, or times that go to and fro.
// The columns that tell the series apart are those under which the times of each series advance.

const (
	// tiedKeys is the share of the records that do not come after the one before of their key,
	// from which on a column of the key is missing.
	tiedKeys = .1
	// longLabel is the length of a text in bytes above which it is no label.
	longLabel = 64
)

// keyAt tells the key of record i from others, by its columns.
func keyAt(key []*column, i int) string {
	var parts []string
	for _, c := range key {
		parts = append(parts, c.texts[i])
	}
	return strings.Join(parts, "\x00")
}

// tied is the share of the records that do not come after the record before of their key.
func (t *table) tied(at *column, key []*column) float64 {
	last := map[string]string{}
	n, all := 0, 0
	for i, text := range at.texts {
		if text == "" {
			continue
		}
		all++
		k := keyAt(key, i)
		if was, seen := last[k]; seen && text == was {
			n++
		}
		last[k] = text
	}
	return float64(n) / float64(max(all, 1))
}

// label reports whether a column can be a part of the key: a text in every record that is short, or
// a whole number that is called as a key is.
func (t *table) label(c, at *column) bool {
	if c == at || c.nested > 0 || c.distinct() < 2 {
		return false
	}
	if slices.ContainsFunc(c.texts, func(s string) bool { return s == "" || len(s) > longLabel }) {
		return false
	}
	return !c.numeric() || rank(c.name, keyNames) < unusual && rank(c.name, valueNames) == unusual && !slices.ContainsFunc(c.texts, func(s string) bool { return strings.ContainsAny(s, ".,") })
}

// complete adds to the key the columns under which times advance. It returns the key as it is if
// times advance already, or if no column helps.
func (t *table) complete(at *column, key []*column) []*column {
	ties := t.tied(at, key)
	if ties < tiedKeys {
		return key
	}
	all := slices.Clone(key)
	for ties >= tiedKeys {
		var best *column
		least := ties
		for _, c := range t.columns {
			if slices.Contains(all, c) || !t.label(c, at) {
				continue
			}
			with := t.tied(at, append(slices.Clone(all), c))
			if with < least || best != nil && with == least && rank(c.name, keyNames) < rank(best.name, keyNames) {
				best, least = c, with
			}
		}
		if best == nil || least > ties/2 {
			break
		}
		all, ties = append(all, best), least
	}
	if ties >= tiedKeys {
		return key
	}
	// A column that another one implies is not needed.
	for _, c := range slices.Clone(all) {
		if rest := slices.DeleteFunc(slices.Clone(all), func(o *column) bool { return o == c }); len(all) > 1 && t.tied(at, rest) < tiedKeys {
			all = rest
		}
	}
	slices.SortFunc(all, func(a, b *column) int { return slices.Index(t.columns, a) - slices.Index(t.columns, b) })
	return all
}

// named returns the column of a name, nil if there is none.
func (t *table) named(name string) *column {
	if i := slices.IndexFunc(t.columns, func(c *column) bool { return c.name == name }); i >= 0 {
		return t.columns[i]
	}
	return nil
}

// missingKey suggests a key if times do not advance under the one that there is.
func (s *sample) missingKey(c *config.Config, file connectors.Source, fields config.Fields) (found Suggestion, ok bool) {
	l := s.look
	if l.Timed == 0 || float64(l.Tied) < tiedKeys*float64(l.Timed) || c.Aggregate != nil || fields.Layout != config.Long {
		return found, false
	}
	why := fmt.Sprintf("%s of the records have the time of the record before of their key", percent(l.Tied, l.Timed))
	t, err := readTable(file.Path)
	if err == nil && len(fields.Time) == 1 && t.named(fields.Time[0]) != nil {
		var key []*column
		for _, name := range fields.Key {
			if of := t.named(name); of != nil {
				key = append(key, of)
			}
		}
		names := slices.Clone(fields.Key)
		for _, of := range t.complete(t.named(fields.Time[0]), key) {
			if !slices.Contains(names, of.name) {
				names = append(names, of.name)
			}
		}
		if len(names) > len(fields.Key) {
			return Suggestion{"source." + file.Format + ".key", yamlKey(names), why}, true
		}
	}
	return Suggestion{"aggregate", "{every: 1m, value: mean}", why + ", and no column tells them apart; or another interval, or count"}, true
}

// yamlKey writes a name, or a list of several.
func yamlKey(names []string) string {
	if len(names) == 1 {
		return yamlText(names[0])
	}
	return yamlList(names)
}

// An interval is how a draft aggregates events.
type interval struct {
	every, value, why string
	wait              string // "" of none
}

func (i interval) String() string {
	if i.wait == "" {
		return fmt.Sprintf("{every: %s, value: %s}", i.every, i.value)
	}
	return fmt.Sprintf("{every: %s, value: %s, wait: %s}", i.every, i.value, i.wait)
}

// steps are the times between successive records of a key, sorted.
func (t *table) steps(at *column, key []*column) (all []time.Duration) {
	last := map[string]time.Time{}
	for i, text := range at.texts {
		when, err := times.Parse(text)
		if err != nil {
			continue
		}
		k := keyAt(key, i)
		if was, seen := last[k]; seen {
			all = append(all, when.Sub(was).Abs())
		}
		last[k] = when
	}
	slices.Sort(all)
	return all
}

// irregular reports whether sorted steps are as those of events that come at random: the longest
// tenth of a Poisson process is above 22 times the shortest. A clock with jitter stays below.
func irregular(steps []time.Duration) bool {
	const ratio = 6
	return len(steps) >= 10 && steps[len(steps)*9/10] > ratio*steps[len(steps)/10]
}

// shortInterval is the shortest that roundInterval returns.
const shortInterval = "1m"

// roundInterval is a round length of time in which a usual key has five events or more.
func roundInterval(steps []time.Duration) string {
	const events = 5
	for _, every := range []string{shortInterval, "5m", "15m", "1h", "6h"} {
		if d, err := time.ParseDuration(every); err == nil && len(steps) > 0 && events*steps[len(steps)/2] <= d {
			return every
		}
	}
	return "24h"
}

// rises reports whether a column is a counter or a number of the record: under the key, or in the
// order of the file, its numbers rise, and hardly ever fall.
func (t *table) rises(c *column, key []*column) bool {
	var file climb
	keys := map[string]*climb{}
	rising, of := 0, 0
	for i, text := range c.texts {
		x, err := new(observe.Parser).Number(text)
		if err != nil {
			continue
		}
		k := keys[keyAt(key, i)]
		if k == nil {
			k = new(climb)
			keys[keyAt(key, i)] = k
		}
		k.add(x)
		file.add(x)
	}
	for _, k := range keys {
		if k.moves() {
			of++
			if k.rises() {
				rising++
			}
		}
	}
	return file.rises() || of > 0 && 2*rising > of
}

// A climb counts how the numbers of a series follow each other.
type climb struct {
	ups, falls, n int
	last          float64
}

func (c *climb) add(x float64) {
	if c.n++; c.n > 1 && x > c.last {
		c.ups++
	} else if c.n > 1 && x < c.last {
		c.falls++
	}
	c.last = x
}

// moves reports whether there are enough steps to tell a counter from chance.
func (c *climb) moves() bool { return c.ups+c.falls >= 10 }

// rises reports whether the numbers are as those of a counter, which at times begins anew.
func (c *climb) rises() bool { return c.moves() && 20*c.falls <= c.ups }

// identifies reports whether the name of a column says that its numbers identify something.
func (c *column) identifies() bool {
	words := strings.FieldsFunc(strings.ToLower(c.name), func(r rune) bool { return strings.ContainsRune("_-. @", r) })
	return slices.ContainsFunc(idNames, func(s string) bool { return slices.Contains(words, s) }) || strings.HasSuffix(c.name, "Id") || strings.HasSuffix(c.name, "ID")
}

// idNames are words for numbers that identify.
var idNames = []string{"id", "uid", "pid", "no", "nr", "code", "zip", "port", "index", "row", "line", "seq", "sequence", "version", "firmware"}

// units matches a name that ends with a unit, as that of a measurement does.
var units = regexp.MustCompile(`(?i:[_ ./](ns|us|ms|s|secs?|seconds?|min|minutes|hours|bytes|kb|mb|gb|wh|kwh|w|kw|mw|v|mv|ma|hz|rpm|bar|mbar|pa|hpa|kpa|psi|c|celsius|fahrenheit|kelvin|mm|cm|km|kg|l|m3|ppm|ppb|db|dbm|lux|usd|eur|gbp|percent|pct|ratio))$|[a-z](Ms|Seconds|Bytes|Celsius|Percent)$|°[CFK]?\]?$|%$|\([^()]+\)$|\[[^\[\]]+\]$`)

// quantityNames are words for what is measured.
var quantityNames = []string{"temperature", "temp", "pressure", "humidity", "voltage", "power", "energy", "flow", "speed", "latency", "duration", "elapsed", "usage", "load", "cpu", "bytes", "size", "price", "sales", "revenue", "cost"}

// value returns the column that is called most like a value among those for which f holds: as
// values usually are, then as a quantity, then with a unit, then as any.
func (t *table) value(f func(*column) bool) *column {
	for _, usual := range [][]string{valueNames, quantityNames} {
		if c := t.best(usual, f); c == nil || rank(c.name, usual) < unusual {
			return c
		}
	}
	return cmp.Or(t.best(nil, func(c *column) bool { return f(c) && units.MatchString(c.name) }), t.best(nil, f))
}

// Names of the two columns of a share.
var (
	successNames = []string{"errors", "error", "failures", "failed", "fails", "clicks", "conversions", "bought", "defects", "bounces", "hits", "successes", "k"}
	trialNames   = []string{"requests", "total", "views", "impressions", "visits", "trials", "attempts", "calls", "sessions", "all", "n"}
)

// ratio returns the columns of a share: whole numbers, of which one is never above the other, with
// the names of such.
func (t *table) ratio() (successes, trials *column) {
	whole := func(c *column) bool { return c.numeric() && c.nested == 0 }
	successes = t.best(successNames, func(c *column) bool { return whole(c) && rank(c.name, successNames) < unusual })
	trials = t.best(trialNames, func(c *column) bool {
		return whole(c) && c != successes && rank(c.name, trialNames) < unusual
	})
	if successes == nil || trials == nil {
		return nil, nil
	}
	p := new(observe.Parser)
	for i := range trials.texts {
		if successes.texts[i] == "" && trials.texts[i] == "" {
			continue
		}
		k, err := p.Number(successes.texts[i])
		n, err2 := p.Number(trials.texts[i])
		if err != nil || err2 != nil || k > n || k < 0 || k != float64(int64(k)) || n != float64(int64(n)) {
			return nil, nil
		}
	}
	return successes, trials
}

// numbered returns the pattern of three and more columns of numbers whose names differ in a number
// at their ends.
func (t *table) numbered(except ...*column) (pattern string) {
	count := map[string]int{}
	for _, c := range t.columns {
		if stem := strings.TrimRight(c.name, "0123456789"); stem != c.name && stem != "" && c.numeric() && !slices.Contains(except, c) {
			if count[stem]++; count[stem] >= 3 && count[stem] > count[strings.TrimSuffix(pattern, "*")] {
				pattern = stem + "*"
			}
		}
	}
	return pattern
}
