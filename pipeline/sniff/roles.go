package sniff

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
)

// Recognisers score each column as a time, a key or a value. The column with the largest sum of scores wins.

// A recogniser returns a score for a column: positive if its property speaks for the column, negative if against it.
type recogniser func(*column) float64

// sum returns the total score of a column.
func sum(recognisers []recogniser, c *column) (total float64) {
	for _, r := range recognisers {
		total += r(c)
	}
	return total
}

// scoreIf returns a recogniser that gives the score to the columns for which holds is true, and 0 to others.
func scoreIf(score float64, holds func(*column) bool) recogniser {
	return func(c *column) float64 {
		if holds(c) {
			return score
		}
		return 0
	}
}

// named returns a recogniser of column names. The score is largest for the first name of the list, and larger for a
// whole name than for a name that contains the word.
func named(score float64, names []string) recogniser {
	return func(c *column) float64 {
		if r := rank(c.name, names); r < unusual {
			return score * (1 - float64(r)/float64(4*len(names)))
		}
		return 0
	}
}

// best returns the eligible column with the largest sum above minScore, or nil. The first of equal sums wins.
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

// first returns the first column for which holds is true, or nil.
func (t *table) first(holds func(*column) bool) *column { return t.best(nil, -1, holds) }

// Common column names, the most certain first.
var (
	timeNames  = []string{"time", "timestamp", "ts", "datetime", "date", "day", "at", "when", "zeit", "datum", "zeitpunkt", "zeitstempel", "month", "quarter", "week", "last_changed", "t", "epoch"}
	hourNames  = []string{"hour", "hr", "stunde", "minute", "second"}
	keyNames   = []string{"key", "id", "name", "series", "entity", "device", "sensor", "host", "machine", "station", "service", "page", "site", "customer", "user", "account", "symbol", "metric", "item", "product", "subject", "participant", "subjid", "subj", "sub", "ppt", "patient", "person", "imei", "msisdn", "mac", "serial", "node", "vehicle", "meter", "asset", "store", "shop", "ticker", "anlage"}
	valueNames = []string{"x", "value", "val", "y", "reading", "measurement", "count", "amount", "wert", "state"}
	// quantityNames are words for measured quantities.
	quantityNames = []string{"temperature", "temp", "pressure", "humidity", "voltage", "power", "energy", "flow", "speed", "latency", "duration", "elapsed", "usage", "load", "cpu", "rt", "bytes", "size", "price", "sales", "revenue", "cost"}
	// idNames are words for numbers that identify something.
	idNames = []string{"id", "uid", "pid", "no", "nr", "code", "zip", "port", "index", "row", "line", "seq", "sequence", "block", "trial", "version", "firmware", "imei", "msisdn", "phone"}
	// labelNames are words for properties of a record. Such columns do not identify series.
	labelNames = []string{"status", "state", "level", "severity", "condition", "quality", "flag", "result", "outcome", "type", "comment", "note", "unit", "choice", "response", "rating", "score", "weekday", "weather", "event", "version"}
)

// rank returns the position of a column's name among the names, or unusual if it matches none. All whole names come
// before names that only contain a word of the list.
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
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_-. @/:=*\x00", r) })
}

// forTime scores columns of times.
var forTime = []recogniser{
	named(6, timeNames),
	scoreIf(3, func(c *column) bool { return c.forms().numbers.Share < minShare }),
	scoreIf(2, func(c *column) bool { return !c.stamp().dates }),
	scoreIf(2, func(c *column) bool { return c.parts != nil }),
	scoreIf(-6, func(c *column) bool { return c.forms().distinct == 1 && len(c.texts) > 1 }),
	scoreIf(-4, func(c *column) bool { return 2*c.forms().present < len(c.texts) }),
}

// forValue scores columns of values.
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

// forKey scores columns of keys by their names and types. The fit of the times is scored separately.
var forKey = []recogniser{
	named(4, keyNames),
	scoreIf(1, func(c *column) bool { return !c.numeric() }),
	scoreIf(-1, func(c *column) bool { return rank(c.name, labelNames) < unusual }),
	scoreIf(-3, func(c *column) bool { return rank(c.name, labelNames) < len(labelNames) }),
}

// unitNames matches a name that ends with a unit, as names of measurements do.
var unitNames = regexp.MustCompile(`(?i:[_ ./](ns|us|ms|s|secs?|seconds?|min|minutes|hours|bytes|kb|mb|gb|wh|kwh|w|kw|mw|v|mv|ma|hz|rpm|bar|mbar|pa|hpa|kpa|psi|c|celsius|fahrenheit|kelvin|mm|cm|km|kg|l|m3|ppm|ppb|db|dbm|lux|usd|eur|gbp|percent|pct|ratio))$|[a-z](Ms|Seconds|Bytes|Celsius|Percent)$|°[CFK]?\]?$|%$|\([^()]+\)$|\[[^\[\]]+\]$`)

// identifies reports whether the name of a column means that its numbers identify something.
func (c *column) identifies() bool {
	words := wordsOf(c.name)
	return slices.ContainsFunc(idNames, func(s string) bool { return slices.Contains(words, s) }) || strings.HasSuffix(c.name, "Id") || strings.HasSuffix(c.name, "ID")
}

// rating reports whether a column has at most 11 whole numbers and a name of a choice or rating.
func (c *column) rating() bool {
	return c.whole() && c.forms().distinct <= 11 && rank(c.name, labelNames) < unusual
}

// calendar returns the column of times, or nil. It may be joined from a date column and a time-of-day column.
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
		case n.Share >= minShare && !usualName: // whole numbers must be Unix times
			return n.Share == 1 && backwards(c.stamp().nanos) < .1
		}
		return true
	})
}

// isDuration reports whether a column of times of day has the name of a duration.
func (c *column) isDuration() bool { return c.forms().clock && rank(c.name, quantityNames) < unusual }

// join adds a column for a date and a time of day in two columns.
func (t *table) join() {
	if slices.ContainsFunc(t.columns, func(c *column) bool { return c.parts != nil }) {
		return // already joined
	}
	for _, clock := range t.columns {
		hours := clock.mayBeHours()
		if !clock.forms().clock && !hours || clock.isDuration() {
			continue
		}
		for _, date := range t.columns {
			f := date.forms()
			if hours && !date.oncePerHour(clock) || len(f.stamps) == 0 || !f.stamps[0].dates || f.numbers.Share >= minShare && rank(date.name, timeNames) == unusual {
				continue
			}
			both := &column{name: date.name, parts: []string{date.name, clock.name}, texts: make([]string, len(date.texts)), hours: hours}
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

// mayBeHours reports whether a column has 24 different whole numbers from 0 to 24, or also 25 where a clock is set back.
func (c *column) mayBeHours() bool {
	n := c.forms().distinct
	return c.whole() && (n == 24 || n == 25) && slices.Min(c.values()) >= 0 && slices.Max(c.values()) <= float64(n)
}

// oncePerHour reports whether dates have most of the hours, and nine of ten hours of a date equally often.
func (date *column) oncePerHour(hours *column) bool {
	records, times := map[[2]int32]int{}, map[int]int{} // by date and hour; number of hours by their number of records
	for i, day := range date.forms().codes {
		records[[2]int32{day, hours.forms().codes[i]}]++
	}
	for _, n := range records {
		times[n]++
	}
	return len(records) >= 12*date.forms().distinct && 10*slices.Max(slices.Collect(maps.Values(times))) >= 9*len(records)
}

// zoneOf returns the zone in the name of a column of times, such as Date Time, GMT+02:00; "" if it has none.
func zoneOf(name string) string {
	if m := offsetInName.FindStringSubmatch(name); m != nil {
		return "Etc/GMT" + map[string]string{"+": "-", "-": "+"}[m[1]] + m[2] // the IANA names have the opposite sign
	}
	for _, z := range zonesInNames {
		if strings.Contains(strings.ToUpper(name), z[0]) {
			return z[1]
		}
	}
	return ""
}

var (
	offsetInName = regexp.MustCompile(`(?i)(?:GMT|UTC) ?([+-])0?(\d\d?)(?::?00)?(?:[^\d:]|$)`)
	// zonesInNames are IANA names of zones by their abbreviations in winter and summer, or their offsets.
	zonesInNames = [][2]string{
		{"CET/CEST", "CET"}, {"EET/EEST", "EET"}, {"WET/WEST", "WET"}, {"GMT/BST", "Europe/London"},
		{"EST/EDT", "EST5EDT"}, {"CST/CDT", "CST6CDT"}, {"MST/MDT", "MST7MDT"}, {"PST/PDT", "PST8PDT"},
		{"+03:30", "Asia/Tehran"}, {"+04:30", "Asia/Kabul"}, {"+05:30", "Asia/Kolkata"}, {"+05:45", "Asia/Kathmandu"}, {"+06:30", "Asia/Yangon"}, {"+09:30", "Australia/Darwin"},
	}
)

// A fit describes the times of the keys that a choice of key columns makes.
type fit struct {
	repeats float64 // share of the records that repeat a time of their key
	early   float64 // share of the records that are earlier than a previous one of their key
	steady  float64 // share of a key's steps within a quarter of its median step; mean over keys
	keys    int
	steps   []int64 // steps of all keys in nanoseconds, sorted
}

// fit computes the fit of the times under a key. A nil key means that all records have one key.
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

// groups returns the group of each record under the key columns, and the number of groups.
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
	// tiedKeys is the share of records with a repeated time from which on a part of the key is missing.
	tiedKeys = .1
	// longLabel is the maximum length of a label in bytes.
	longLabel = 64
)

// partOfTime reports whether the name of a column means a time, or a part of one.
func (c *column) partOfTime() bool {
	words := wordsOf(c.name)
	return len(words) > 0 && slices.Contains(slices.Concat(timeNames, hourNames), words[len(words)-1])
}

// label reports whether a column can be a part of the key. A label is a short text or a whole number that repeats,
// and at least 9 of 10 records have one. Times, times of day, columns with such names, numbers with fractions or
// units, and constants are not labels.
func (t *table) label(c, timeCol *column) bool {
	f := c.forms()
	switch {
	case c == timeCol || c.parts != nil || c.nested > 0 || f.distinct < 2 || f.longest > longLabel:
		return false
	case 10*f.present < 9*len(c.texts) || 10*f.distinct > 9*f.present:
		return false
	case f.clock || c.timed() && (f.numbers.Share < minShare || rank(c.name, keyNames) == unusual):
		return false
	case c.partOfTime() || timeCol != nil && slices.Contains(timeCol.parts, c.name):
		return false
	}
	return f.numbers.Share < minShare || c.whole()
}

// key returns the columns and the parts of the paths that identify the series. It prefers columns under which no time
// repeats and the steps of a key are steady, then columns with the names of keys. Times must call for a part of the
// paths, unless it has the name of a key.
func (t *table) key(timeCol *column) (key []*column) {
	repeats := func(c *column) bool { return 3*c.forms().distinct <= max(len(c.texts), 3) }
	calledAsKey := func(c *column) bool {
		return rank(c.name, keyNames) < unusual && rank(c.name, labelNames) >= len(labelNames) && rank(c.name, valueNames) >= len(valueNames)
	}
	// A key column must have a usual name or repeat.
	eligible := func(c *column) bool {
		switch {
		case !t.label(c, timeCol):
			return false
		case c.numeric() || c.inPath:
			return repeats(c) && calledAsKey(c) || t.isBlockNumber(c, nil)
		}
		return repeats(c) || calledAsKey(c)
	}
	own := t.fileColumn(timeCol)
	defer func(columns []*column) { t.columns = columns }(t.columns)
	t.columns = slices.Concat(t.pathColumns(), t.columns)
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
		case (c.numeric() || c.inPath) && !(t.explains(plain, extended) || extended.steady > plain.steady+.2):
			continue
		case !repeats(c) || gain < -.1 && plain.steady >= .5 && plain.repeats < tiedKeys: // would break regular steps
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

// needed removes the key columns that do not improve the fit, but never own. It returns the others in the order of
// the file.
func (t *table) needed(key []*column, own *column, current fit, timeCol *column) []*column {
	if current.repeats >= tiedKeys && len(key) > 1 {
		key = key[:1] // the records are events, which no column separates
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

// explains reports whether a further key column removes at least half of the repeated times, or nine tenths of many
// times that go back, and leaves the steps about as steady.
func (t *table) explains(before, after fit) bool {
	repeats := before.repeats > .005 && 2*after.repeats <= before.repeats
	back := before.early > tiedKeys && 10*after.early <= before.early && after.repeats <= before.repeats
	return (repeats || back) && after.steady >= max(before.steady-.1, min(.5, 1-before.repeats))
}

// stamp returns the chosen form of the times.
func (c *column) stamp() timeForm { return c.forms().stamps[0] }

// chooseTimeForm moves the form of the times with the steadiest steps to the front. It returns the format of another
// form that fits as well, or an empty string.
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
		// A 12-hour clock usually has the month first.
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

// backwards returns the share of times that are earlier than the previous time.
func backwards(nanos []int64) float64 {
	n := 0
	for i := 1; i < len(nanos); i++ {
		if nanos[i] < nanos[i-1] {
			n++
		}
	}
	return float64(n) / float64(max(len(nanos), 1))
}

// An interval is the aggregation of a draft.
type interval struct{ every, value, why string }

// irregular reports whether sorted steps look like steps between random events, such as a Poisson process. It
// compares the 90 % quantile of the steps with the 10 % quantile: the ratio is about 22 for a Poisson process, and
// below 6 for a clock with jitter.
func irregular(steps []int64) bool {
	const ratio = 6
	return len(steps) >= 10 && steps[len(steps)*9/10] > ratio*steps[len(steps)/10]
}

// shortInterval is the shortest interval that roundInterval returns.
const shortInterval = "1m"

// roundInterval returns a round duration in which a key has at least the given number of events on average.
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

// rises reports whether the values of a column are counters under the key, and whether they number the records in the
// order of the file.
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

// climbs reports whether a series has enough steps to distinguish a counter from chance, and whether it rises like a
// counter. A counter may reset or wrap.
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
	if counter := keyed.FallsOf(x, 0); counter.Recovered == 0 {
		ups, falls = ups+counter.Wraps, falls-counter.Wraps
	}
	return ups+falls >= 10, ups+falls >= 10 && 20*falls <= ups
}

// Names of the two columns of a ratio.
var (
	successNames = []string{"errors", "error", "failures", "failed", "fails", "clicks", "conversions", "bought", "defects", "bounces", "hits", "successes", "k"}
	trialNames   = []string{"requests", "total", "views", "impressions", "visits", "trials", "attempts", "calls", "sessions", "all", "n"}
)

// ratio returns the two columns of a ratio, by their names, if both are whole numbers and 0 ≤ successes ≤ trials in
// every record. Otherwise it returns nil.
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

// numberedPattern returns the pattern of at least three columns of numbers whose names differ only in a number at the
// end.
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

// lostTimes returns columns with names of times whose texts are not times.
func (t *table) lostTimes() (lost []*column) {
	for _, c := range t.columns {
		if c.nested == 0 && c.forms().present > 0 && !c.timed() && rank(c.name, timeNames) < unusual && slices.ContainsFunc(wordsOf(c.name), func(w string) bool { return slices.Contains(timeNames, w) && len(w) > 2 || w == "ts" }) {
			lost = append(lost, c)
		}
	}
	return lost
}
