package sniff

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A Drafted config has comments that say what was found in the data.
type Drafted struct {
	Config  []byte
	Remarks Remarks // what is not sure
}

// Sure reports whether what was guessed reads the data, and is the only guess that fits.
func (d Drafted) Sure() bool {
	return !slices.ContainsFunc(d.Remarks, func(r Remark) bool { return r.Doubt })
}

// Draft drafts a config for the file at path.
func Draft(path string) (Drafted, error) {
	t, err := readTable(path)
	if err != nil {
		return Drafted{}, err
	}
	if t.records == 0 {
		return Drafted{}, fmt.Errorf("%s has no records; its columns are %s", path, t)
	}
	if len(t.columns) == 0 && !t.format.Columns {
		return Drafted{}, fmt.Errorf("%s: no line is a JSON object: if objects stand over several lines, %s writes one to a line", path, t.jq("."))
	}
	d := t.guess()
	if d.unread != "" {
		return Drafted{}, fmt.Errorf("%s: %s", path, d.unread)
	}
	if d.values == nil && d.aggregate.every == "" {
		return Drafted{}, fmt.Errorf("%s: no column of numbers was found among %s", path, t)
	}
	return d.result()
}

// DraftQuery is Draft for a query to the Prometheus at a URL, of the last points that it returns.
func DraftQuery(url, query string) (Drafted, error) {
	d := &draft{table: &table{path: url}, family: "normal", query: query, suggestions: map[string]Suggestion{}}
	return d.result()
}

// result is the config that a look at the data leaves.
func (d *draft) result() (Drafted, error) {
	// A look reads the data with the guess, and finds what a guess cannot. It may find more
	// once that is said.
	path := d.path
	var seen *sample
	var c *config.Config
	for range 4 {
		var err error
		c, err = config.Parse(path, d.yaml(nil), nil)
		if err != nil && d.family != "normal" {
			d.family = "normal" // takes whatever an aggregate makes
			c, err = config.Parse(path, d.yaml(nil), nil)
		}
		if err != nil {
			return Drafted{}, fmt.Errorf("%s: no config could be made of what it holds: %w", path, err)
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
	for _, r := range result.Remarks {
		if r.Setting == "" || !slices.ContainsFunc(d.remarks, func(known Remark) bool { return known.Setting == r.Setting }) {
			d.remarks = append(d.remarks, r)
		}
	}
	var missing []string
	if err := yaml.Unmarshal([]byte(d.suggestions["missing"].Value), &missing); err != nil {
		panic("inspect: " + err.Error())
	}
	if i := slices.IndexFunc(missing, func(s string) bool { return !decode.Absent(s) && !decode.IsSwitch(s) }); i >= 0 {
		d.remarks.add(false, "missing",
			"the text %s stands where numbers are, and is taken for a missing one", message.Quote(missing[i]))
	}
	if d.table != nil && d.encoding != "" {
		d.remarks.add(false, "encoding", "the file is not UTF-8, and read as %s", d.encoding)
	}
	d.season, d.seasonNote = seen.season(c)
	return Drafted{d.yaml(result), d.remarks}, nil
}

// A draft is a guess of what a config says.
type draft struct {
	*table
	layout      string
	key         []string
	times       []string
	timeFormat  string
	values      []string
	numbers     decode.Numbers // of the values
	others      []string       // numeric columns that are left out
	family      string
	query       string                // of a server, whose URL is the path; empty for a file
	aggregate   interval              // zero of observations
	suggestions map[string]Suggestion // of looks, by the last part of the key
	remarks     Remarks
	// season is one that helps, and seasonNote says why; empty for none.
	season, seasonNote string
	unread             string // what of the values is in no column, and a way to them; empty if there is nothing
	// formatNote says which other time_format fits.
	formatNote string
}

// guess guesses what the columns are.
func (t *table) guess() *draft {
	d := &draft{table: t, family: "normal", layout: config.Long, suggestions: map[string]Suggestion{}}
	if d.exported() {
		return d
	}
	at := t.calendar()
	keys := t.key(at)
	d.timed(at, keys)
	d.keyed(at, keys)
	number := func(c *column) bool {
		return c != at && c.parts == nil && !slices.Contains(d.key, c.name) && !(at != nil && slices.Contains(at.parts, c.name)) && (c.numeric() && !c.forms().clock || len(c.forms().numbers.Words) > 0 || c.nested > 0 && strings.EqualFold(c.name, "x"))
	}
	measured := func(c *column) bool {
		rises, numbered := t.rises(c, keys)
		return number(c) && !c.identifies() && !rises && !numbered
	}
	var steps []int64
	if at != nil {
		steps = t.fit(at, keys).steps
	}
	x := t.best(forValue, -3, measured)
	if x == nil || t.records == 1 {
		if d.unread = t.unread(); d.unread != "" {
			return d
		}
	}
	if x == nil && at != nil && !irregular(steps) {
		if x = t.best(forValue, -9, func(c *column) bool { rises, _ := t.rises(c, keys); return rises && number(c) && !c.identifies() }); x != nil {
			d.aggregate = interval{every: roundInterval(steps, 1), value: "increase", why: "the values rise and do not fall, as those of a counter"}
		}
	}
	if x == nil && (at == nil || !irregular(steps)) { // better any number than none
		x = t.best(forValue, -9, number)
	}
	if x == nil {
		if at != nil {
			d.aggregate, d.family = interval{every: roundInterval(steps, 5), value: "count", why: "events of a key per interval, as there is no column of measurements"}, "poisson"
		}
		return d
	}
	d.values = []string{x.name}
	if every := roundInterval(steps, 5); irregular(steps) && every == shortInterval && d.aggregate.every == "" {
		d.aggregate = interval{every: every, value: "median", why: "the events of a key come at random times, several a minute; or count, p95"}
	}
	if k, n := t.ratio(); k != nil {
		d.family, d.values = "binomial", []string{k.name, n.name}
		d.aggregate = interval{}
		return d
	}
	if pattern := t.numbered(append(keys, at)...); len(keys) > 0 && pattern != "" && t.format.Columns {
		d.layout, d.values = config.Wide, []string{pattern}
		return d
	}
	// Several columns of numbers, of which none is called as a value is, are a series each.
	if at != nil && len(d.key) == 0 && t.format.Columns && rank(x.name, valueNames) == unusual {
		if columns, all := t.series(at, number); len(columns) >= 2 && d.aggregate.every == "" {
			d.layout, d.values = config.Wide, namesOf(columns)
			d.measures(columns...)
			if n := d.numbers; len(columns) == all && n.Units == nil && n.Thousands == 0 && n.Words == nil { // which a pattern does not see
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

// keyed takes the columns of the key. If there are none, a text that all records have may be the key, and
// texts in blocks are worth a remark.
func (d *draft) keyed(at *column, keys []*column) {
	if keys != nil {
		d.key = namesOf(keys)
		return
	}
	if c := d.table.best(forKey, 1, func(c *column) bool {
		return c.forms().distinct == 1 && c != at && !c.numeric() && !c.timed() && c.nested == 0 && 10*c.forms().present >= 9*len(c.texts)
	}); c != nil {
		d.key = []string{c.name} // of a file per device
	}
	for _, c := range d.table.columns {
		if runs := d.table.runs(c); d.table.label(c, at) && !c.numeric() && runs <= 3*c.forms().distinct {
			d.remarks.add(false, "key", "column %s has %d different texts, such as %s, in blocks: it may tell series apart", message.Quote(c.name), c.forms().distinct, example(c))
		}
	}
}

func namesOf(columns []*column) (all []string) {
	for _, c := range columns {
		all = append(all, c.name)
	}
	return all
}

// timed takes the column of times, and the form of them under which the keys go on steadily.
func (d *draft) timed(at *column, keys []*column) {
	if at != nil {
		d.times = []string{at.name}
		if at.parts != nil {
			d.times = at.parts
		}
		either := d.chooseTimeForm(at, keys)
		if d.timeFormat = at.stamp().format; either != "" {
			d.formatNote = "or " + config.YAMLText(either) + ", which fits the times as well"
			d.remarks.add(true, "time_format: "+config.YAMLText(either), "column %s: the times, such as %s, are read as %s; %s fits them as well", message.Quote(at.name), example(at), d.timeFormat, either)
		} else if d.timeFormat != "" {
			d.formatNote = "the times have this form"
		}
	}
	lost := d.lostTimes(at)
	if at == nil && lost == nil {
		d.remarks.add(false, "", "no column of times was found: records count as they come, and silence, seasons and the times of alarms are lost")
	}
	for _, c := range lost {
		d.remarks.add(at == nil, "time_format", "column %s is called as times are, and its texts, such as %s, are none that are known", message.Quote(c.name), example(c))
	}
}

// measures takes how columns write numbers.
func (d *draft) measures(columns ...*column) {
	var different []string
	for _, c := range columns {
		different = append(different, c.forms().different...)
	}
	n := decode.NumbersOf(different)
	if len(n.Units) > 1 {
		d.remarks.add(true, "unit", "column %s: its numbers have several units, %s: bring them to one", message.Quote(columns[0].name), message.Some(n.Units, 4))
		n.Units = nil
	}
	if n.Either != "" {
		d.remarks.add(true, `thousands: ","`, "column %s: %s is read with a decimal comma; its comma may stand between thousands", message.Quote(columns[0].name), n.Either)
	}
	if n.Words != nil {
		d.family = "bernoulli"
	}
	d.numbers = n
}

// example is a text of a column.
func example(c *column) string { return message.Quote(c.forms().different[0]) }

// exported takes the lines that a database of metrics exports, if they are such: labels, and a list
// of values.
func (d *draft) exported() bool {
	values, at := d.named("values"), d.named("timestamps")
	labelled := slices.ContainsFunc(d.columns, func(c *column) bool { return strings.HasPrefix(c.name, "metric") })
	answer := d.named("data.resultType") != nil // of Prometheus
	if d.format.Columns || !answer && !(values != nil && values.nested > 0 && labelled) {
		return false
	}
	d.layout, d.key, d.values = config.Series, []string{"metric"}, []string{"values"}
	if !answer && at != nil && at.nested > 0 {
		d.times = []string{"timestamps"}
	}
	return true
}

// series are the columns of measurements. all is how many the pattern * would read, also those
// that have nothing yet.
func (t *table) series(at *column, number func(*column) bool) (values []*column, all int) {
	for _, c := range t.columns {
		if c == at || c.parts != nil || slices.Contains(at.parts, c.name) {
			continue
		}
		all++
		if rises, _ := t.rises(c, nil); c.forms().present > 0 && !c.rating() && number(c) && !c.identifies() && !rises {
			values = append(values, c)
		}
	}
	return values, all
}

// taken are the suggestions of a look that a draft takes over.
var taken = []string{"missing", "lateness", "wait", "family", "scale", "warm_up", "detect", "bank"}

// runs is how often the text of a column changes from a record to the next.
func (t *table) runs(c *column) (n int) {
	codes := c.forms().codes
	for i := 1; i < len(codes); i++ {
		if codes[i] != codes[i-1] {
			n++
		}
	}
	return n
}

// adopt takes over what a look found. It reports whether that is something new.
func (d *draft) adopt(l *Result) (changed bool) {
	for _, s := range l.Suggestions {
		if name := s.Key[strings.LastIndex(s.Key, ".")+1:]; slices.Contains(taken, name) && d.suggestions[name] != s {
			d.suggestions[name], changed = s, true
			if name == "family" {
				d.family = s.Value
			}
		}
	}
	return changed
}

// yaml writes the config, with comments if there is a look.
func (d *draft) yaml(l *Result) []byte {
	var b bytes.Buffer
	line := func(text, comment string) {
		if comment != "" && l != nil {
			text = fmt.Sprintf("%-38s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	say := func(indent, name, why string) {
		if s, noted := d.suggestions[name]; noted {
			line(indent+name+": "+s.Value, why+s.Why)
		}
	}
	if l != nil {
		d.head(&b, l)
	}
	line("model:", "")
	line("  family: "+d.family, familyComments[d.family])
	if d.family != "bernoulli" {
		line("  prior: auto", "from the first values of each key")
		say("  ", "warm_up", "")
	}
	say("  ", "scale", "")
	if d.season != "" {
		line("  # season: "+d.season, d.seasonNote)
	}
	if _, noted := d.suggestions["detect"]; !noted {
		line("detect: true", "tells outliers from changes; a key raises at most ten alarms in its first week, later about one a week")
	}
	say("", "detect", "tells outliers from changes; ")
	say("", "bank", "")
	if d.query != "" {
		line("silence: true", "tells of series that end")
		if l != nil && len(l.Keys) > 1 {
			groups := "true"
			if by := series.Groups(l.Keys); len(by) > 0 {
				groups = "{by: " + config.YAMLList(by) + "}"
			}
			line("incidents: "+groups, "alarms of many series with one cause are one message")
		}
	}
	say("", "lateness", "")
	if d.query == "" && d.times == nil && d.layout != config.Series {
		line("order: arrival", "no column of times was found")
	}
	if a := d.aggregate; a.every != "" {
		more := ""
		if s, noted := d.suggestions["wait"]; noted {
			more = ", wait: " + s.Value
		}
		line("aggregate: {every: "+a.every+", value: "+a.value+more+"}", a.why)
	}
	if d.query != "" {
		d.asks(l, line)
	} else {
		d.reads(l, line)
	}
	line("sink:", "")
	line("  jsonl: {path: estimates.jsonl}", "")
	line("alerts:", "")
	if d.query == "" {
		line("  jsonl: {path: alerts.jsonl}", "")
		return b.Bytes()
	}
	line("  - jsonl: {path: alerts.jsonl}", "has all alarms")
	if l != nil {
		kinds := "" // all alarms
		if len(l.Keys) >= config.FewKeys {
			kinds = ", kinds: [incident, silent, recovered], digest: 24h"
		}
		line(`  # - {alertmanager: {url: "http://localhost:9093"}`+kinds+"}", "")
	}
	return b.Bytes()
}

// head says of what the config is made, and what is not sure.
func (d *draft) head(b *bytes.Buffer, l *Result) {
	of := fmt.Sprintf("Of %s of %s.", l.read(), filepath.Base(d.path))
	if l.Queried {
		of = fmt.Sprintf("Of the last %d points of the query.", l.Records)
	}
	fmt.Fprintf(b, "# %s Check it: hafvf check. All keys: hafvf check --keys.\n", of)
	for _, r := range d.remarks {
		fmt.Fprintf(b, "# Not sure: %s\n", r)
	}
}

// asks writes a source that asks a server, with a state: it has no end.
func (d *draft) asks(l *Result, line func(text, comment string)) {
	line("state: hafvf.states", "a run goes on where the one before has stopped")
	line("source:", "")
	line("  prometheus:", "")
	line("    url: "+config.YAMLText(d.path), "")
	comment := found(l)
	if l != nil && len(l.Counters) > 0 {
		comment = "the values rise as those of a counter: ask for its rate(…[5m])"
	}
	line("    query: "+config.YAMLText(d.query), comment)
	line("    start: -14d", "learns the past first; step: 1m")
}

// reads writes a source that reads a file.
func (d *draft) reads(l *Result, line func(text, comment string)) {
	line("source:", "")
	line("  "+d.table.format.Name+":", "")
	at := func(key, value, comment string) { line("    "+key+": "+value, comment) }
	at("path", config.YAMLText(d.path), "")
	text := func(key, value, comment string) {
		if value != "" {
			at(key, config.YAMLText(value), comment)
		}
	}
	text("delimiter", strings.TrimPrefix(d.Delimiter, ","), "")
	if d.Skip > 0 {
		at("skip", strconv.Itoa(d.Skip), "lines before the header")
	}
	text("comment", d.Comment, "lines that begin so are passed over")
	text("encoding", d.encoding, "the file is not UTF-8; or latin-1")
	numberKeys(d.numbers, func(key, value string) { at(key, value, "") })
	switch {
	case d.layout == config.Wide:
		at("layout", config.Wide, found(l)+"; long: one value in a row")
		if len(d.key) > 0 {
			at("key", config.YAMLNames(d.key), "")
		}
	case d.layout == config.Series:
		at("layout", config.Series, "lists of times and values in each line")
		at("key", config.YAMLNames(d.key), found(l))
	case len(d.key) == 0:
		at("key", "none", "one series; or the name of the column that tells series apart")
	default:
		comment := found(l)
		if n := d.keyless(); n > 0 {
			comment += "; " + message.Count(n, "record has none", "records have none")
		}
		at("key", config.YAMLNames(d.key), comment)
	}
	span := ""
	if l != nil && l.Timed > 0 {
		span = fmt.Sprintf("%s to %s", l.First.Format("2006-01-02 15:04"), l.Last.Format("2006-01-02 15:04"))
	}
	if d.times != nil || d.layout != config.Series { // else times stand beside the values
		at("time", config.YAMLNames(d.times), span)
	}
	text("time_format", d.timeFormat, d.formatNote)
	others := ""
	if len(d.others) > 0 {
		others = "or " + message.Some(d.others, 8)
	}
	if d.values != nil {
		at("values", config.YAMLList(d.values), others)
	}
	if s, noted := d.suggestions["missing"]; noted {
		at("missing", s.Value, "")
	}
}

// keyless is the number of the records that lack a part of the key.
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

// found says which keys a look found.
func found(l *Result) string {
	switch {
	case l == nil:
		return ""
	case len(l.Keys) == 1:
		return "1 key so far: " + message.Some(l.Keys, 1)
	}
	return fmt.Sprintf("%d keys so far: %s", len(l.Keys), message.Some(l.Keys, 4))
}

var familyComments = map[string]string{
	"normal":    "numbers",
	"poisson":   "counts; normal for other numbers",
	"bernoulli": "0 or 1",
	"binomial":  "how many, and of how many",
}
