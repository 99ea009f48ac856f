package inspect

import (
	"fmt"
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
	n := 0
	for i, text := range at.texts {
		k := keyAt(key, i)
		if was, seen := last[k]; seen && text == was {
			n++
		}
		last[k] = text
	}
	return float64(n) / float64(max(len(at.texts), 1))
}

// label reports whether a column can be a part of the key: a text in every record that is short, or
// a whole number that is called as a key is.
func (t *table) label(c, at *column) bool {
	if c == at || c.nested > 0 || len(c.texts) != len(at.texts) || c.distinct() < 2 {
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
	if err == nil && t.named(fields.Time) != nil {
		var key []*column
		for _, name := range fields.Key {
			if of := t.named(name); of != nil {
				key = append(key, of)
			}
		}
		names := slices.Clone(fields.Key)
		for _, of := range t.complete(t.named(fields.Time), key) {
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

// interval is a round length of time in which a usual key has five events or more.
func (t *table) interval(at *column, key []*column) string {
	last := map[string]time.Time{}
	var steps []time.Duration
	for i, text := range at.texts {
		when, err := times.Parse(text)
		if err != nil {
			continue
		}
		k := keyAt(key, i)
		if was, seen := last[k]; seen {
			steps = append(steps, when.Sub(was).Abs())
		}
		last[k] = when
	}
	slices.Sort(steps)
	const events = 5
	for _, every := range []string{"1m", "5m", "15m", "1h", "6h"} {
		if d, err := time.ParseDuration(every); err == nil && len(steps) > 0 && events*steps[len(steps)/2] <= d {
			return every
		}
	}
	return "24h"
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
	if successes == nil || trials == nil || len(successes.texts) != len(trials.texts) {
		return nil, nil
	}
	p := new(observe.Parser)
	for i := range trials.texts {
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
