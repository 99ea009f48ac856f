package sniff

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
)

// Which column is the time, the key or the value is told by small recognisers. Each has a score,
// and the column of the highest sum is taken.

// A recogniser says how much speaks for a column, or against it: a score, times how far it holds.
type recogniser func(*column) float64

// sum is what speaks for a column.
func sum(recognisers []recogniser, c *column) (total float64) {
	for _, r := range recognisers {
		total += r(c)
	}
	return total
}

// given is a recogniser of what holds or does not.
func scoreIf(score float64, holds func(*column) bool) recogniser {
	return func(c *column) float64 {
		if holds(c) {
			return score
		}
		return 0
	}
}

// named recognises the names of a list, the first surest; a whole name before a part of one.
func named(score float64, names []string) recogniser {
	return func(c *column) float64 {
		if r := rank(c.name, names); r < unusual {
			return score * (1 - float64(r)/float64(4*len(names)))
		}
		return 0
	}
}

// best returns the column of the highest sum above the least, the first of several; nil without one.
func (t *table) best(recognisers []recogniser, minScore float64, eligible func(*column) bool) (found *column) {
	for _, c := range t.columns {
		if !eligible(c) {
			continue
		}
		if s := sum(recognisers, c); s > minScore {
			found, minScore = c, s
		}
	}
	return found
}

// first returns the first column of which something holds; nil without one.
func (t *table) first(holds func(*column) bool) *column { return t.best(nil, -1, holds) }

// Names that columns usually have, the surest first.
var (
	timeNames  = []string{"time", "timestamp", "ts", "datetime", "date", "day", "at", "when", "zeit", "datum", "zeitpunkt", "zeitstempel", "month", "quarter", "week", "last_changed", "t", "epoch"}
	hourNames  = []string{"hour", "hr", "stunde", "minute"}
	keyNames   = []string{"key", "id", "name", "series", "entity", "device", "sensor", "host", "machine", "station", "service", "page", "site", "customer", "user", "account", "symbol", "metric", "item", "product", "subject", "participant", "subjid", "subj", "sub", "ppt", "patient", "person", "imei", "msisdn", "mac", "serial", "node", "vehicle", "meter", "asset", "store", "shop", "ticker", "anlage"}
	valueNames = []string{"x", "value", "val", "y", "reading", "measurement", "count", "amount", "wert", "state"}
	// quantityNames are words for what is measured.
	quantityNames = []string{"temperature", "temp", "pressure", "humidity", "voltage", "power", "energy", "flow", "speed", "latency", "duration", "elapsed", "usage", "load", "cpu", "rt", "bytes", "size", "price", "sales", "revenue", "cost"}
	// idNames are words for numbers that identify.
	idNames = []string{"id", "uid", "pid", "no", "nr", "code", "zip", "port", "index", "row", "line", "seq", "sequence", "block", "trial", "version", "firmware", "imei", "msisdn", "phone"}
	// labelNames are words for what a record is like, which tells no series apart.
	labelNames = []string{"status", "state", "level", "severity", "condition", "quality", "flag", "result", "outcome", "type", "comment", "note", "unit", "choice", "response", "rating", "score", "weekday", "weather", "event", "version"}
)

// rank is how sure the name of a column is among the usual ones: a whole name comes before
// a part of one. It is unusual for other names.
func rank(name string, names []string) int {
	name = strings.ToLower(name)
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	words := wordsOf(name)
	for i, u := range names {
		if slices.Contains(words, u) || len(u) > 3 && strings.Contains(name, u) {
			return len(names) + i
		}
	}
	return unusual
}

const unusual = 1000

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_-. @/:", r) })
}

// forTime are those of the column of times.
var forTime = []recogniser{
	named(6, timeNames),
	scoreIf(3, func(c *column) bool { return c.forms().numbers.Share < minShare }),
	scoreIf(2, func(c *column) bool { return !c.stamp().dates }),
	scoreIf(2, func(c *column) bool { return c.parts != nil }),
	scoreIf(-6, func(c *column) bool { return c.forms().distinct == 1 && len(c.texts) > 1 }),
	scoreIf(-4, func(c *column) bool { return 2*c.forms().present < len(c.texts) }),
}

// forValue are those of the column of values.
var forValue = []recogniser{
	named(12, valueNames),
	named(5, quantityNames),
	scoreIf(5, func(c *column) bool { return len(c.forms().numbers.Units) > 0 }),
	scoreIf(3, func(c *column) bool { return unitNames.MatchString(c.name) }),
	scoreIf(1, func(c *column) bool { return c.forms().numbers.Fractions }),
	scoreIf(-.5, func(c *column) bool { return c.forms().distinct == 1 }),
	scoreIf(-2, func(c *column) bool { return c.forms().numbers.Words != nil }),
	scoreIf(-2, (*column).rating),
}

// forKey are those of a column of keys, besides what it does to the times.
var forKey = []recogniser{
	named(4, keyNames),
	scoreIf(1, func(c *column) bool { return !c.numeric() }),
	scoreIf(-1, func(c *column) bool { return rank(c.name, labelNames) < unusual }),
	scoreIf(-3, func(c *column) bool { return rank(c.name, labelNames) < len(labelNames) }),
}

// unitNames matches a name that ends with a unit, as that of a measurement does.
var unitNames = regexp.MustCompile(`(?i:[_ ./](ns|us|ms|s|secs?|seconds?|min|minutes|hours|bytes|kb|mb|gb|wh|kwh|w|kw|mw|v|mv|ma|hz|rpm|bar|mbar|pa|hpa|kpa|psi|c|celsius|fahrenheit|kelvin|mm|cm|km|kg|l|m3|ppm|ppb|db|dbm|lux|usd|eur|gbp|percent|pct|ratio))$|[a-z](Ms|Seconds|Bytes|Celsius|Percent)$|°[CFK]?\]?$|%$|\([^()]+\)$|\[[^\[\]]+\]$`)

// identifies reports whether the name of a column says that its numbers identify something.
func (c *column) identifies() bool {
	words := wordsOf(c.name)
	return slices.ContainsFunc(idNames, func(s string) bool { return slices.Contains(words, s) }) || strings.HasSuffix(c.name, "Id") || strings.HasSuffix(c.name, "ID")
}

// rating reports whether the texts are few whole numbers, and called as choices and ratings are.
func (c *column) rating() bool {
	return c.whole() && c.forms().distinct <= 11 && rank(c.name, labelNames) < unusual
}

// calendar is the column of times: one, or a date and a time of day that stand apart. It returns nil
// without one.
func (t *table) calendar() *column {
	t.join()
	return t.best(forTime, -1, func(c *column) bool {
		if !c.timed() {
			return false
		}
		usualName := rank(c.name, timeNames) < unusual
		switch n := c.forms().numbers; {
		case n.Share >= minShare && (n.Fractions && !usualName || rank(c.name, valueNames) < unusual):
			return false
		case n.Share >= minShare && !usualName: // whole numbers as those of Unix times
			return n.Share == 1 && backwards(c.stamp().nanos) < .1
		}
		return true
	})
}

// lasts reports whether a column that reads as times of day is called as a duration is.
func (c *column) isDuration() bool { return c.forms().clock && rank(c.name, quantityNames) < unusual }

// join adds a column for a date and a time of day that stand in two.
func (t *table) join() {
	if slices.ContainsFunc(t.columns, func(c *column) bool { return c.parts != nil }) {
		return // it is there
	}
	for _, clock := range t.columns {
		if !clock.forms().clock || clock.isDuration() {
			continue
		}
		for _, date := range t.columns {
			f := date.forms()
			if len(f.stamps) == 0 || !f.stamps[0].dates || f.numbers.Share >= minShare && rank(date.name, timeNames) == unusual {
				continue
			}
			both := &column{name: date.name, parts: []string{date.name, clock.name}, texts: make([]string, len(date.texts))}
			for i, s := range date.texts {
				if s != "" && clock.texts[i] != "" {
					both.texts[i] = s + " " + clock.texts[i]
				}
			}
			if both.timed() {
				t.columns = append(t.columns, both)
				return
			}
		}
	}
}

// A fit says how the times of keys follow each other.
type fit struct {
	repeats float64 // share of the records whose time their key has had
	early   float64 // share of the records that stand behind a later one of their key
	steady  float64 // share of the steps of a key that are within a quarter of its median; of all keys
	keys    int
	steps   []int64 // of all keys, nanoseconds, sorted
}

// fit looks at the times under a key, in the order of the times.
func (t *table) fit(timeCol *column, key []*column) (f fit) {
	groups, n := t.groups(key)
	type visit struct {
		group, piece int
		nanos        int64
	}
	var visited []visit
	early, latest := 0, map[int]int64{}
	for i, nanos := range timeCol.stamp().nanos {
		if nanos == never {
			continue
		}
		visited = append(visited, visit{groups[i], t.pieces[i], nanos})
		if last, seen := latest[groups[i]]; seen && nanos < last {
			early++
		} else {
			latest[groups[i]] = nanos
		}
	}
	slices.SortFunc(visited, func(a, b visit) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.nanos, b.nanos))
	})
	repeats, judged := 0, 0
	var steps []int64
	end := func() {
		if len(steps) > 2 {
			slices.Sort(steps)
			if i, _ := slices.BinarySearch(steps, 1); i < len(steps) {
				middle := steps[i+(len(steps)-i)/2]
				within := 0
				for _, s := range steps {
					if 4*s >= 3*middle && 4*s <= 5*middle {
						within++
					}
				}
				f.steady += float64(within) / float64(len(steps))
			}
			judged++
		}
		f.steps = append(f.steps, steps...)
		steps = steps[:0]
	}
	for i, v := range visited {
		if i > 0 && v.group == visited[i-1].group {
			if v.nanos == visited[i-1].nanos {
				repeats++
			}
			if v.piece == visited[i-1].piece {
				steps = append(steps, v.nanos-visited[i-1].nanos)
			}
			continue
		}
		end()
	}
	end()
	f.repeats = float64(repeats) / float64(max(len(visited), 1))
	f.early = float64(early) / float64(max(len(visited), 1))
	f.steady /= float64(max(judged, 1))
	f.keys = n
	slices.Sort(f.steps)
	return f
}

// groups numbers the keys that columns make, and returns that of each record.
func (t *table) groups(key []*column) (group []int, n int) {
	group, n = make([]int, t.records), 1
	for _, c := range key {
		seen := map[[2]int]int{}
		codes := c.forms().codes
		for i := range group {
			pair := [2]int{group[i], int(codes[i])}
			g, known := seen[pair]
			if !known {
				g = len(seen)
				seen[pair] = g
			}
			group[i] = g
		}
		n = len(seen)
	}
	return group, n
}

const (
	// tiedKeys is the share of the records whose time their key has had, from which on a part of the
	// key is missing.
	tiedKeys = .1
	// longLabel is the length of a text in bytes above which it is no label.
	longLabel = 64
)

// partOfTime reports whether a column is called as a time is, or a part of one.
func (c *column) partOfTime() bool {
	words := wordsOf(c.name)
	return len(words) > 0 && slices.Contains(slices.Concat(timeNames, hourNames), words[len(words)-1])
}

// label reports whether a column can be a part of the key: short texts or whole numbers that
// repeat, in nearly each record. Times, times of day, what is called so, numbers with fractions or units, and what is the
// same in all records are none.
func (t *table) label(c, at *column) bool {
	f := c.forms()
	switch {
	case c == at || c.parts != nil || c.nested > 0 || f.distinct < 2 || f.longest > longLabel:
		return false
	case 10*f.present < 9*len(c.texts) || 10*f.distinct > 9*f.present:
		return false
	case f.clock || c.timed() && (f.numbers.Share < minShare || rank(c.name, keyNames) == unusual):
		return false
	case c.partOfTime() || at != nil && slices.Contains(at.parts, c.name):
		return false
	}
	return f.numbers.Share < minShare || c.whole()
}

// key returns the columns that tell the series apart: those under which no time repeats and the
// steps of a key are the steadiest, and else those that are called as keys are.
func (t *table) key(timeCol *column) (key []*column) {
	repeats := func(c *column) bool { return 3*c.forms().distinct <= max(len(c.texts), 3) }
	calledAsKey := func(c *column) bool {
		return rank(c.name, keyNames) < unusual && rank(c.name, labelNames) >= len(labelNames) && rank(c.name, valueNames) >= len(valueNames)
	}
	// By its name or as it repeats.
	eligible := func(c *column) bool {
		switch {
		case !t.label(c, timeCol):
			return false
		case c.numeric():
			return repeats(c) && calledAsKey(c) || t.isBlockNumber(c, nil)
		}
		return repeats(c) || calledAsKey(c)
	}
	own := t.fileColumn(timeCol)
	if timeCol == nil {
		if own != nil {
			return []*column{own}
		}
		first := t.best(forKey, -1, eligible)
		if first == nil || !calledAsKey(first) {
			first = cmp.Or(t.first(func(c *column) bool { return t.label(c, nil) && t.isBlockNumber(c, nil) }), first)
		}
		if first != nil {
			return []*column{first}
		}
		return nil
	}
	plain := t.fit(timeCol, nil)
	var first *column
	maxSum := -.5
	for _, c := range t.columns {
		if !t.label(c, timeCol) {
			continue
		}
		extended := t.fit(timeCol, []*column{c})
		gain := plain.repeats - extended.repeats + extended.steady - plain.steady
		switch {
		case calledAsKey(c) && (!c.numeric() || repeats(c)):
		case c.numeric() && (t.isBlockNumber(c, timeCol) || t.hasAllAtMostTimes(c, timeCol)):
		case c.numeric() && !(t.explains(plain, extended) || extended.steady > plain.steady+.2):
			continue
		case !repeats(c) || gain < -.1 && plain.steady >= .5 && plain.repeats < tiedKeys: // it would break a clock
			continue
		}
		if sum := 10*max(gain, -.1) + sum(forKey, c); sum > maxSum {
			first, maxSum = c, sum
		}
	}
	if own != nil {
		first = own
	}
	if first == nil {
		return nil
	}
	key = []*column{first}
	current := t.fit(timeCol, key)
	for {
		var best *column
		var bestFit fit
		for _, c := range t.columns {
			if slices.Contains(key, c) || !t.label(c, timeCol) {
				continue
			}
			extended := t.fit(timeCol, append(slices.Clone(key), c))
			if (t.explains(current, extended) || extended.steady > current.steady+.2 && extended.repeats <= current.repeats) && (best == nil || extended.repeats < bestFit.repeats || extended.repeats == bestFit.repeats && (extended.keys < bestFit.keys || extended.keys == bestFit.keys && rank(c.name, keyNames) < rank(best.name, keyNames))) {
				best, bestFit = c, extended
			}
		}
		if best == nil {
			break
		}
		key, current = append(key, best), bestFit
	}
	return t.needed(key, own, current, timeCol)
}

// needed are the columns of a key that do not follow from its others, in the order of the file. own stays.
func (t *table) needed(key []*column, own *column, current fit, timeCol *column) []*column {
	if current.repeats >= tiedKeys && len(key) > 1 {
		key = key[:1] // they are events, which no column tells apart
	}
	// A column that the others imply is not needed.
	for _, c := range slices.Clone(key) {
		if c == own {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(key), func(o *column) bool { return o == c })
		if reduced := t.fit(timeCol, rest); len(rest) > 0 && reduced.repeats <= current.repeats && reduced.steady >= current.steady-.01 && reduced.early <= current.early+tiedKeys/2 {
			key = rest
		}
	}
	slices.SortFunc(key, func(a, b *column) int { return slices.Index(t.columns, a) - slices.Index(t.columns, b) })
	return key
}

// explains reports whether a further column of the key takes most of the repeated times away, or of many times that go back,
// and leaves steps that are as steady.
func (t *table) explains(before, after fit) bool {
	repeats := before.repeats > .005 && 2*after.repeats <= before.repeats
	back := before.early > tiedKeys && 10*after.early <= before.early && after.repeats <= before.repeats
	return (repeats || back) && after.steady >= max(before.steady-.1, min(.5, 1-before.repeats))
}

// stamp is the form of the times that is taken.
func (c *column) stamp() timeForm { return c.forms().stamps[0] }

// chooseTimeForm puts that form of the times first under which the steps of the keys are the steadiest.
// It returns another one that fits as well, empty without one.
func (t *table) chooseTimeForm(timeCol *column, key []*column) (either string) {
	stamps := timeCol.forms().stamps
	steady := make([]float64, len(stamps))
	for i := range stamps {
		stamps[0], stamps[i] = stamps[i], stamps[0]
		f := t.fit(timeCol, key)
		steady[i] = f.steady - f.repeats - backwards(stamps[0].nanos)
		stamps[0], stamps[i] = stamps[i], stamps[0]
	}
	best := 0
	for i := range stamps {
		// A clock of twelve hours goes with the month first.
		if american := strings.Contains(stamps[i].format, "%I") && strings.HasPrefix(stamps[i].format, "%m") && !strings.HasPrefix(stamps[best].format, "%m"); steady[i] > steady[best]+.01 || american && steady[i] >= steady[best] {
			best = i
		}
	}
	for i := range stamps {
		if either == "" && steady[i] >= steady[best]-.01 && !slices.Equal(stamps[i].nanos, stamps[best].nanos) {
			either = stamps[i].format
		}
	}
	stamps[0], stamps[best] = stamps[best], stamps[0]
	return either
}

// backwards is the share of times that come before the one before.
func backwards(nanos []int64) float64 {
	n := 0
	for i := 1; i < len(nanos); i++ {
		if nanos[i] < nanos[i-1] {
			n++
		}
	}
	return float64(n) / float64(max(len(nanos), 1))
}

// An interval is how a draft aggregates events.
type interval struct{ every, value, why string }

// irregular reports whether sorted steps are as those of events that come at random: the longest
// tenth of a Poisson process is above 22 times the shortest. A clock with jitter stays below.
func irregular(steps []int64) bool {
	const ratio = 6
	return len(steps) >= 10 && steps[len(steps)*9/10] > ratio*steps[len(steps)/10]
}

// shortInterval is the shortest that roundInterval returns.
const shortInterval = "1m"

// roundInterval is a round length of time in which a usual key has so many events or more, in busy and
// in quiet hours together.
func roundInterval(steps []int64, events int64) string {
	var sum int64
	for _, s := range steps {
		sum += s
	}
	for _, every := range []string{shortInterval, "5m", "15m", "1h", "6h"} {
		if d, err := time.ParseDuration(every); err == nil && len(steps) > 0 && events*(sum/int64(len(steps))) <= int64(d) {
			return every
		}
	}
	return "24h"
}

// rises reports whether the numbers of a column rise, and hardly ever fall: as those of a counter under
// the key, or as numbers of the records do in the order of the file.
func (t *table) rises(c *column, key []*column) (counter, numbered bool) {
	groups, n := t.groups(key)
	keys := make([][]float64, n)
	numbers := c.values()
	for i, x := range numbers {
		keys[groups[i]] = append(keys[groups[i]], x)
	}
	rising, moving := 0, 0
	for _, x := range keys {
		if moves, rises := climbs(x); moves {
			if moving++; rises {
				rising++
			}
		}
	}
	_, numbered = climbs(numbers)
	return moving > 0 && 2*rising > moving, numbered
}

// climbs reports whether the numbers of a series take enough steps to tell a counter from chance, and
// whether they are as those of one, which at times begins anew.
func climbs(x []float64) (moves, rises bool) {
	ups, falls, last := 0, 0, math.NaN()
	for _, v := range x {
		if v > last {
			ups++
		} else if v < last {
			falls++
		}
		if v == v {
			last = v
		}
	}
	if counter := keyed.FallsOf(x, 0); counter.MadeUp == 0 {
		ups, falls = ups+counter.Wraps, falls-counter.Wraps
	}
	return ups+falls >= 10, ups+falls >= 10 && 20*falls <= ups
}

// Names of the two columns of a share.
var (
	successNames = []string{"errors", "error", "failures", "failed", "fails", "clicks", "conversions", "bought", "defects", "bounces", "hits", "successes", "k"}
	trialNames   = []string{"requests", "total", "views", "impressions", "visits", "trials", "attempts", "calls", "sessions", "all", "n"}
)

// ratio returns the columns of a share: whole numbers, of which one is never above the other, with
// the names of such.
func (t *table) ratio() (successes, trials *column) {
	successes = t.best([]recogniser{named(1, successNames)}, 0, (*column).numeric)
	trials = t.best([]recogniser{named(1, trialNames)}, 0, func(c *column) bool { return c.numeric() && c != successes })
	if successes == nil || trials == nil {
		return nil, nil
	}
	k, n := successes.values(), trials.values()
	for i := range k {
		if k[i] > n[i] || k[i] < 0 || successes.forms().numbers.Fractions || trials.forms().numbers.Fractions {
			return nil, nil
		}
	}
	return successes, trials
}

// numbered returns the pattern of three and more columns of numbers whose names differ in a number
// at their ends.
func (t *table) numberedPattern(except ...*column) (pattern string) {
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

// lostTimes are columns that are called as times are and hold none.
func (t *table) lostTimes(timeCol *column) (lost []*column) {
	for _, c := range t.columns {
		part := timeCol != nil && slices.Contains(timeCol.parts, c.name)
		if c.nested == 0 && c.forms().present > 0 && !c.timed() && !part && c != timeCol && rank(c.name, timeNames) < unusual && slices.ContainsFunc(wordsOf(c.name), func(w string) bool { return slices.Contains(timeNames, w) && len(w) > 2 || w == "ts" }) {
			lost = append(lost, c)
		}
	}
	return lost
}
