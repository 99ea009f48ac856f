package sniff

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A Drafted is a config with comments on the data, and the remarks on it.
type Drafted struct {
	Config  []byte
	Remarks Remarks // uncertainties
}

// Sure reports whether the draft reads the data and is the only guess that fits.
func (d Drafted) Sure() bool {
	return !slices.ContainsFunc(d.Remarks, func(r Remark) bool { return r.Doubt })
}

// Draft writes a config for the file at path.
func Draft(path string) (Drafted, error) {
	t, err := readTable(path)
	if err != nil {
		return Drafted{}, err
	}
	if t.records == 0 {
		return Drafted{}, fmt.Errorf("%s has no records; its columns are %s", path, t)
	}
	if len(t.columns) == 0 && !t.format.Columns {
		return Drafted{}, fmt.Errorf("%s: no line is a JSON object: if objects span several lines, %s writes one per line", path, t.jq("."))
	}
	d := t.guess()
	if d.unread != "" {
		return Drafted{}, fmt.Errorf("%s: %s", path, d.unread)
	}
	if d.values == nil && d.aggregate.every == "" {
		return Drafted{}, fmt.Errorf("%s: %s without a column of numbers, and without times by which to count records; its columns are %s", path, t.format.Title, t)
	}
	return d.result()
}

// DraftQuery writes a config for a query to the Prometheus server at url. It reads the last points of the query.
func DraftQuery(url, query string) (Drafted, error) {
	d := &draft{table: &table{path: url}, family: "normal", query: query, suggestions: map[string]Suggestion{}}
	return d.result()
}

// result inspects the data with the drafted config, adopts suggestions, and returns the config.
func (d *draft) result() (Drafted, error) {
	// Inspecting the data with the guess shows more than the guess could. Adopting a suggestion may lead to further
	// ones.
	path := d.path
	var seen *sample
	var c *config.Config
	for range 4 {
		var err error
		c, err = config.Parse(path, d.yaml(nil), nil)
		if err != nil && d.family != "normal" {
			d.family = "normal" // an aggregate may be outside the domain of the family
			c, err = config.Parse(path, d.yaml(nil), nil)
		}
		if err != nil {
			return Drafted{}, fmt.Errorf("%s: cannot make a config from its contents: %w", path, err)
		}
		if seen, err = sniffRecords(c); err != nil {
			return Drafted{}, err
		}
		if !d.adopt(seen.result) {
			break
		}
	}
	result := seen.result
	if d.query != "" && result.Parsed == 0 {
		return Drafted{}, fmt.Errorf("%s: no observation was found:\n%s", path, result)
	}
	if result.Timed == 0 && !result.Queried {
		seen.repeats(d.table, d.key)
	}
	for _, r := range result.Remarks {
		if r.Setting == "" || !slices.ContainsFunc(d.remarks, func(known Remark) bool { return known.Setting == r.Setting }) {
			d.remarks = append(d.remarks, r)
		}
	}
	var missing []string
	if err := yaml.Unmarshal([]byte(d.suggestions["missing"].Value), &missing); err != nil {
		panic("sniff: " + err.Error())
	}
	if i := slices.IndexFunc(missing, func(s string) bool { return !decode.Absent(s) && !decode.IsSwitch(s) }); i >= 0 {
		d.remarks.add(false, "missing",
			"the text %s occurs among numbers, and is read as missing", message.Quote(missing[i]))
	}
	if d.table != nil && d.encoding != "" {
		d.remarks.add(false, "encoding", "the file is not UTF-8, and read as %s", d.encoding)
	}
	d.season, d.seasonNote = seen.season(c)
	if d.local && d.zone == "" && seen.hasRhythm() {
		d.remarks.add(false, "detect.zone", "the times have no zone and are read as UTC, and the values follow the hours of the day or week: if the clock changes to summer time, set zone in the source")
	}
	return Drafted{d.yaml(result), d.remarks}, nil
}

// A draft is a guess of the settings in a config.
type draft struct {
	*table
	layout      string
	key         []string
	times       []string
	timeFormat  string
	zone        string // from the name of the column of times; empty if it has none
	local       bool   // the times have no zone
	values      []string
	numbers     decode.Numbers // of the values
	others      []string       // numeric columns that are not used
	family      string
	query       string                // query to the server whose URL is path; empty for a file
	aggregate   interval              // zero if each record is an observation
	suggestions map[string]Suggestion // adopted suggestions by the last part of their key
	remarks     Remarks
	// season is a season that improves predictions, and seasonNote the reason. Both are empty if there is none.
	season, seasonNote string
	unread             string // values that are in no column, and a way to convert them; empty if there are none
	// formatNote names another time_format that fits.
	formatNote string
}

// guess chooses the columns and settings.
func (t *table) guess() *draft {
	d := &draft{table: t, family: "normal", layout: config.Long, suggestions: map[string]Suggestion{}}
	if d.exported() {
		return d
	}
	timeCol := t.calendar()
	keys := t.key(timeCol)
	d.timed(timeCol, keys)
	d.keyed(timeCol, keys)
	number := func(c *column) bool {
		return c != timeCol && c.parts == nil && !slices.Contains(d.key, c.name) && !(timeCol != nil && slices.Contains(timeCol.parts, c.name)) && (c.numeric() && !c.forms().clock || len(c.forms().numbers.Words) > 0 || c.nested > 0 && strings.EqualFold(c.name, "x"))
	}
	measured := func(c *column) bool {
		rises, numbered := t.rises(c, keys)
		return number(c) && !c.identifies() && !rises && !numbered
	}
	var steps []int64
	if timeCol != nil {
		steps = t.fit(timeCol, keys).steps
	}
	x := t.best(forValue, -3, measured)
	if x == nil || t.records == 1 {
		if d.unread = t.unread(); d.unread != "" {
			return d
		}
	}
	if x == nil && timeCol != nil && !irregular(steps) {
		if x = t.best(forValue, -9, func(c *column) bool { rises, _ := t.rises(c, keys); return rises && number(c) && !c.identifies() }); x != nil {
			d.aggregate = interval{every: roundInterval(steps, 1), value: "increase", why: "the values rise and do not fall, like a counter"}
		}
	}
	if x == nil && (timeCol == nil || !irregular(steps)) { // any number is better than none
		x = t.best(forValue, -9, number)
	}
	if x == nil {
		if timeCol != nil {
			d.aggregate, d.family = interval{every: roundInterval(steps, 5), value: "count", why: "events of a key per interval, as there is no column of measurements"}, "poisson"
		}
		return d
	}
	d.values = []string{x.name}
	if every := roundInterval(steps, 5); irregular(steps) && every == shortInterval && d.aggregate.every == "" {
		d.aggregate = interval{every: every, value: "median", why: "the events of a key occur at random times, several per minute; or count, p95"}
	}
	if k, n := t.ratio(); k != nil {
		d.family, d.values = "binomial", []string{k.name, n.name}
		d.aggregate = interval{}
		return d
	}
	if pattern := t.numberedPattern(append(keys, timeCol)...); len(keys) > 0 && pattern != "" && t.format.Columns {
		d.layout, d.values = config.Wide, []string{pattern}
		return d
	}
	// Several columns of numbers become one series each, unless the first has the name of a value.
	if timeCol != nil && len(d.key) == 0 && t.format.Columns && rank(x.name, valueNames) == unusual {
		if columns, nColumns := t.series(timeCol, number); len(columns) >= 2 && d.aggregate.every == "" {
			d.layout, d.values = config.Wide, namesOf(columns)
			d.measures(columns...)
			// The pattern * may replace the names if it reads the same columns as plain numbers.
			if n := d.numbers; len(columns) == nColumns && n.Units == nil && n.Thousands == 0 && n.Words == nil {
				d.values = []string{"*"}
			}
			return d
		}
	}
	d.measures(x)
	for _, c := range t.columns {
		if c != x && measured(c) {
			d.others = append(d.others, c.name)
		}
	}
	return d
}

// keyed sets the columns of the key. If there are none, a text that is the same in nearly all records may be the key,
// and texts in blocks cause a remark.
func (d *draft) keyed(timeCol *column, keys []*column) {
	if keys != nil {
		d.key = namesOf(keys)
		return
	}
	if c := d.table.best(forKey, 1, func(c *column) bool {
		return c.forms().distinct == 1 && c != timeCol && !c.numeric() && !c.timed() && c.nested == 0 && 10*c.forms().present >= 9*len(c.texts)
	}); c != nil {
		d.key = []string{c.name} // files with one device each
	}
	for _, c := range d.table.columns {
		if runs := d.table.runs(c); d.table.label(c, timeCol) && !c.numeric() && runs <= 3*c.forms().distinct {
			d.remarks.add(false, "key", "column %s has %d different texts, such as %s, in blocks: it may identify series", message.Quote(c.name), c.forms().distinct, example(c))
		}
	}
}

// namesOf returns the names of columns.
func namesOf(columns []*column) (names []string) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}

// timed sets the columns of the times, and the time format with the steadiest steps.
func (d *draft) timed(timeCol *column, keys []*column) {
	if timeCol != nil {
		d.times = []string{timeCol.name}
		if timeCol.parts != nil {
			d.times = timeCol.parts
		}
		if timeCol.hours {
			hour := d.named(timeCol.parts[1])
			d.remarks.add(slices.Max(hour.values()) >= 24, "time", "column %s has 24 whole numbers, once a day each: they are read as hours, 24 as the end of the day", message.Quote(hour.name))
		}
		d.zone, d.local = zoneOf(timeCol.name), isLocal(timeCol.forms().different[0], timeCol.stamp().format)
		either := d.chooseTimeForm(timeCol, keys)
		if d.timeFormat = timeCol.stamp().format; either != "" {
			d.formatNote = "or " + config.YAMLText(either) + ", which fits the times as well"
			d.remarks.add(true, "time_format: "+config.YAMLText(either), "column %s: the times, such as %s, are read as %s; %s fits them as well", message.Quote(timeCol.name), example(timeCol), d.timeFormat, either)
		} else if d.timeFormat != "" {
			d.formatNote = "the times have this form"
		}
	}
	var lost []*column
	if timeCol == nil {
		lost = d.lostTimes()
	}
	if timeCol == nil && lost == nil {
		d.remarks.add(false, "", "no column of times was found: records are used in the order of the file, without silence, seasons and times of alarms")
	}
	for _, c := range lost {
		d.remarks.add(true, "time_format", "column %s has the name of a time, and its texts, such as %s, have no known form", message.Quote(c.name), example(c))
	}
}

// isLocal reports whether the time in a text depends on the zone.
func isLocal(text, format string) bool {
	read := func(zone string) time.Time {
		p, err := times.NewParser(zone, format)
		if err != nil {
			return time.Time{}
		}
		t, _ := p.Parse(text)
		return t
	}
	return !read("Asia/Tokyo").Equal(read("UTC"))
}

// measures sets the notation of the numbers in columns.
func (d *draft) measures(columns ...*column) {
	var different []string
	for _, c := range columns {
		different = append(different, c.forms().different...)
	}
	n := decode.NumbersOf(different)
	if len(n.Units) > 1 {
		d.remarks.add(true, "unit", "column %s: its numbers have several units, %s: convert them to one unit", message.Quote(columns[0].name), message.Some(n.Units, 4))
		n.Units = nil
	}
	if n.Either != "" {
		d.remarks.add(true, `thousands: ","`, "column %s: %s is read with a decimal comma; the comma may separate thousands", message.Quote(columns[0].name), n.Either)
	}
	if n.Decimal == ',' && n.Thousands == 0 && n.Either == "" {
		n.Thousands = '.' // can mean nothing else in larger numbers
	}
	if n.Words != nil {
		d.family = "bernoulli"
	}
	if text := minusOne(different); text != "" {
		d.remarks.add(true, "missing", "column %s: %s occurs next to only 0 and 1: if it means a missed trial, set missing: [%q]", message.Quote(columns[0].name), text, text)
	}
	d.numbers = n
}

// minusOne returns the text of −1 if the numbers of texts are −1, 0 and 1; else "".
func minusOne(texts []string) string {
	found := map[float64]string{}
	for _, s := range texts {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return ""
		}
		found[x] = s
	}
	if len(found) == 3 && found[0] != "" && found[1] != "" {
		return found[-1]
	}
	return ""
}

// example returns the first text of a column, quoted.
func example(c *column) string { return message.Quote(c.forms().different[0]) }

// exported recognises exports of a metrics database, which have labels and a list of values in each line, and sets
// their layout.
func (d *draft) exported() bool {
	values, timestamps := d.named("values"), d.named("timestamps")
	labelled := slices.ContainsFunc(d.columns, func(c *column) bool { return strings.HasPrefix(c.name, "metric") })
	answer := d.named("data.resultType") != nil // a response of Prometheus
	if d.format.Columns || !answer && !(values != nil && values.nested > 0 && labelled) {
		return false
	}
	d.layout, d.key, d.values = config.Series, []string{"metric"}, []string{"values"}
	if !answer && timestamps != nil && timestamps.nested > 0 {
		d.times = []string{"timestamps"}
	}
	return true
}

// series returns the columns of measurements. nColumns is the number of columns that the pattern * would read,
// including columns without values so far.
func (t *table) series(timeCol *column, number func(*column) bool) (values []*column, nColumns int) {
	for _, c := range t.columns {
		if c == timeCol || c.parts != nil || slices.Contains(timeCol.parts, c.name) {
			continue
		}
		nColumns++
		if rises, _ := t.rises(c, nil); c.forms().present > 0 && !c.rating() && number(c) && !c.identifies() && !rises {
			values = append(values, c)
		}
	}
	return values, nColumns
}

// usedSuggestions are the last parts of the suggested keys that a draft adopts.
var usedSuggestions = []string{"missing", "lateness", "wait", "family", "scale", "warm_up", "detect", "bank"}

// runs returns how often the text of a column changes from one record to the next.
func (t *table) runs(c *column) (n int) {
	codes := c.forms().codes
	for i := 1; i < len(codes); i++ {
		if codes[i] != codes[i-1] {
			n++
		}
	}
	return n
}

// adopt adopts the suggestions of a result. It reports whether any is new.
func (d *draft) adopt(res *Result) (changed bool) {
	for _, s := range res.Suggestions {
		if name := s.Key[strings.LastIndex(s.Key, ".")+1:]; slices.Contains(usedSuggestions, name) && d.suggestions[name] != s {
			d.suggestions[name], changed = s, true
			if name == "family" {
				d.family = s.Value
			}
		}
	}
	return changed
}

// yaml writes the config. A nil result leaves out the comments.
func (d *draft) yaml(res *Result) []byte {
	var b bytes.Buffer
	line := func(text, comment string) {
		if comment != "" && res != nil {
			text = fmt.Sprintf("%-38s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	suggestion := func(indent, name, why string) {
		if s, noted := d.suggestions[name]; noted {
			line(indent+name+": "+s.Value, why+s.Why)
		}
	}
	if res != nil {
		d.head(&b, res)
	}
	line("model:", "")
	line("  family: "+d.family, familyComments[d.family])
	if d.family != "bernoulli" {
		line("  prior: auto", "from the first values of each key")
		suggestion("  ", "warm_up", "")
	}
	suggestion("  ", "scale", "")
	if d.season != "" {
		line("  # season: "+d.season, d.seasonNote)
	}
	if _, noted := d.suggestions["detect"]; !noted {
		line("detect: true", "separates outliers from changes; a key raises at most ten alarms in its first week, later about one a week")
	}
	suggestion("", "detect", "separates outliers from changes; ")
	suggestion("", "bank", "")
	if d.query != "" {
		line("silence: true", "reports series that end")
		if res != nil && len(res.Keys) > 1 {
			groups := "true"
			if labels := series.Groups(res.Keys); len(labels) > 0 {
				groups = "{by: " + config.YAMLList(labels) + "}"
			}
			line("incidents: "+groups, "sends one message for alarms of many series with one cause")
		}
	}
	suggestion("", "lateness", "")
	if d.query == "" && d.times == nil && d.layout != config.Series {
		line("order: arrival", "no column of times was found")
		if d.family == "normal" {
			line("# change: {walk: false}", "with transform: smooth, if the task has levels by design")
		}
	}
	if a := d.aggregate; a.every != "" {
		more := ""
		if s, noted := d.suggestions["wait"]; noted {
			more = ", wait: " + s.Value
		}
		line("aggregate: {every: "+a.every+", value: "+a.value+more+"}", a.why)
	}
	if d.query != "" {
		d.asks(res, line)
	} else {
		d.reads(res, line)
	}
	line("sink:", "")
	line("  jsonl: {path: estimates.jsonl}", "")
	line("alerts:", "")
	if d.query == "" {
		line("  jsonl: {path: alerts.jsonl}", "")
		return b.Bytes()
	}
	line("  - jsonl: {path: alerts.jsonl}", "has all alarms")
	if res != nil {
		kinds := "" // all alarms
		if len(res.Keys) >= config.FewKeys {
			kinds = ", kinds: [incident, silent, recovered], digest: 24h"
		}
		line(`  # - {alertmanager: {url: "http://localhost:9093"}`+kinds+"}", "")
	}
	return b.Bytes()
}

// head writes the sources of the config and the remarks.
func (d *draft) head(b *bytes.Buffer, res *Result) {
	source := fmt.Sprintf("From %s of %s.", res.read(), filepath.Base(d.path))
	if res.Queried {
		source = fmt.Sprintf("From the last %d points of the query.", res.Records)
	}
	fmt.Fprintf(b, "# %s Check it: hafvf check. All keys: hafvf check --keys.\n", source)
	for _, r := range d.remarks {
		fmt.Fprintf(b, "# Not sure: %s\n", r)
	}
}

// asks writes a source that queries a server. It has no end, so it has a state.
func (d *draft) asks(res *Result, line func(text, comment string)) {
	line("state: hafvf.states", "a run resumes where the previous one stopped")
	line("source:", "")
	line("  prometheus:", "")
	line("    url: "+config.YAMLText(d.path), "")
	comment := keysComment(res)
	if res != nil && len(res.Counters) > 0 {
		comment = "the values rise like a counter: ask for its rate(…[5m])"
	}
	line("    query: "+config.YAMLText(d.query), comment)
	line("    start: -14d", "learns the past first; step: 1m")
}

// reads writes a source that reads a file.
func (d *draft) reads(res *Result, line func(text, comment string)) {
	line("source:", "")
	line("  "+d.table.format.Name+":", "")
	entry := func(key, value, comment string) { line("    "+key+": "+value, comment) }
	entry("path", config.YAMLText(d.path), "")
	textEntry := func(key, value, comment string) {
		if value != "" {
			entry(key, config.YAMLText(value), comment)
		}
	}
	textEntry("delimiter", strings.TrimPrefix(d.Delimiter, ","), "")
	if d.Skip > 0 {
		entry("skip", strconv.Itoa(d.Skip), "lines before the header")
	}
	textEntry("comment", d.Comment, "lines that begin with this are skipped")
	textEntry("encoding", d.encoding, "the file is not UTF-8; or latin-1")
	numberKeys(d.numbers, func(key, value string) { entry(key, value, "") })
	switch {
	case d.layout == config.Wide:
		entry("layout", config.Wide, keysComment(res)+"; long: one value per row")
		if len(d.key) > 0 {
			entry("key", config.YAMLNames(d.key), "")
		}
	case d.layout == config.Series:
		entry("layout", config.Series, "lists of times and values in each line")
		entry("key", config.YAMLNames(d.key), keysComment(res))
	case len(d.key) == 0:
		entry("key", "none", "one series; or the name of the column that identifies the series")
	default:
		comment := keysComment(res)
		if n := d.keyless(); n > 0 {
			comment += "; " + message.Count(n, "record has none", "records have none")
		}
		entry("key", config.YAMLNames(d.key), comment)
	}
	span := ""
	if res != nil && res.Timed > 0 {
		span = fmt.Sprintf("%s to %s", res.First.Format("2006-01-02 15:04"), res.Last.Format("2006-01-02 15:04"))
	}
	if d.times != nil || d.layout != config.Series { // otherwise the times are in the same list as the values
		entry("time", config.YAMLNames(d.times), span)
	}
	textEntry("time_format", d.timeFormat, d.formatNote)
	textEntry("zone", d.zone, "from the name of the column")
	others := ""
	if len(d.others) > 0 {
		others = "or " + message.Some(d.others, 8)
	}
	if d.values != nil {
		entry("values", config.YAMLList(d.values), others)
	}
	if s, noted := d.suggestions["missing"]; noted {
		entry("missing", s.Value, "")
	}
}

// keyless returns the number of records that lack a part of the key.
func (d *draft) keyless() (n int) {
	var key []*column
	for _, name := range d.key {
		if c := d.named(name); c != nil {
			key = append(key, c)
		}
	}
	for i := range d.records {
		if slices.ContainsFunc(key, func(c *column) bool { return c.texts[i] == "" }) {
			n++
		}
	}
	return n
}

// keysComment returns a comment on the keys in the data.
func keysComment(res *Result) string {
	switch {
	case res == nil:
		return ""
	case len(res.Keys) == 1:
		return "1 key so far: " + message.Some(res.Keys, 1)
	}
	return fmt.Sprintf("%d keys so far: %s", len(res.Keys), message.Some(res.Keys, 4))
}

var familyComments = map[string]string{
	"normal":    "numbers",
	"poisson":   "counts; normal for other numbers",
	"bernoulli": "0 or 1",
	"binomial":  "successes, and trials",
}
