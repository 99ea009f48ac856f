package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/observe"
)

// Draft returns a config for the file at path, with comments that say what was found in
// its first records.
func Draft(path string) ([]byte, error) {
	t, err := readTable(path)
	if err != nil {
		return nil, err
	}
	d := t.guess()
	if t.records == 0 {
		return nil, fmt.Errorf("%s has no records; its columns are %s", path, t)
	}
	if d.fields.Values == nil && d.aggregate.every == "" {
		return nil, fmt.Errorf("%s: no column of numbers was found among %s", path, t)
	}
	return d.settled()
}

// DraftQuery is Draft for a query to the Prometheus at a URL, of the last points that it returns.
func DraftQuery(url, query string) ([]byte, error) {
	d := &draft{table: &table{path: url}, family: "normal", query: query}
	return d.settled()
}

// settled is the config that a look at the data leaves.
func (d *draft) settled() ([]byte, error) {
	// A look reads the data with the guess, and finds what a guess cannot. It may find more
	// once that is said.
	path := d.path
	var look *Look
	for range 4 {
		c, err := config.Parse(path, d.yaml(nil), nil)
		if err != nil {
			return nil, fmt.Errorf("%s: no config could be made of what it holds: %w", path, err)
		}
		if look, err = LookAt(c); err != nil {
			return nil, err
		}
		if !d.settle(look) {
			break
		}
	}
	if look.Parsed == 0 {
		return nil, fmt.Errorf("%s: no observation was found:\n%s", path, look)
	}
	return d.yaml(look), nil
}

// A table is the beginning of a file: columns, or the fields of JSON objects.
type table struct {
	path      string
	format    connectors.Format
	delimiter string // of CSV
	columns   []*column
	index     map[string]int // of the columns, by the path of a JSON field
	records   int            // that were read
}

// A column holds a text of every record, "" of those that do not have it: the texts of columns
// stand beside each other.
type column struct {
	name    string
	texts   []string
	nested  int // lists and so on
	records int // all there are
}

// maxCells bounds the texts of all columns: each has one of every record.
const maxCells = 1 << 24

// put makes s the text of a record. Records come in their order; the last text of one counts.
func (c *column) put(record int, s string) {
	c.fill(record)
	c.texts = append(c.texts[:record], s)
}

// fill adds the texts of the records before the n-th that do not have the column.
func (c *column) fill(n int) {
	for len(c.texts) < n {
		c.texts = append(c.texts, "")
	}
}

// readTable reads the first records of a file, whose format its name tells.
func readTable(path string) (*table, error) {
	t := &table{path: path, format: connectors.FormatOfFile(path), index: map[string]int{}}
	src := connectors.Source{Format: t.format.Name, Path: path}
	var names []string
	var records []connectors.Record
	var err error
	if t.format.Delimited {
		// The delimiter is the one that makes most columns.
		for _, d := range connectors.Delimiters {
			src.Delimiter = d
			columns, rows, peekErr := connectors.Peek(src, lookRows)
			if peekErr == nil && (names == nil || len(columns) > len(names)) {
				t.delimiter, names, records = d, columns, rows
			} else if peekErr != nil && err == nil {
				err = peekErr
			}
		}
		if names == nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, func(s string) bool { _, err := new(observe.Parser).Number(s); return err != nil }) {
			return nil, fmt.Errorf("%s begins with the numbers %s, where the names of the columns are due: put a header line before them", path, some(names, 8))
		}
	} else if names, records, err = connectors.Peek(src, lookRows); err != nil {
		return nil, err
	}
	t.records = len(records)
	for _, name := range names {
		t.columns = append(t.columns, &column{name: name, records: len(records)})
	}
	for n, r := range records {
		if !t.format.Columns {
			t.addObject(n, r.Raw)
			continue
		}
		for i, text := range r.Fields {
			t.columns[i].put(n, strings.TrimSpace(text))
		}
	}
	for _, c := range t.columns {
		c.fill(t.records)
	}
	return t, nil
}

// String lists the columns.
func (t *table) String() string {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return cmp.Or(some(names, 20), "none")
}

// addObject adds the fields of the JSON object of a record.
func (t *table) addObject(record int, line []byte) {
	// A line that is no object is a rejected record for the look.
	_ = observe.Leaves(line, func(path, text string, scalar bool) {
		i, there := t.index[path]
		if !there {
			i = len(t.columns)
			if (i+1)*t.records > maxCells {
				return // records that have nothing in common
			}
			t.index[path] = i
			t.columns = append(t.columns, &column{name: path, records: t.records})
		}
		if c := t.columns[i]; scalar {
			c.put(record, text)
		} else {
			c.nested++
		}
	})
}

// share is that of the texts, without those that are missing, for which f holds.
func (c *column) share(f func(string) bool) float64 {
	n, all := 0, 0
	for _, s := range c.texts {
		if absent(s) {
			continue
		}
		all++
		if f(s) {
			n++
		}
	}
	if all == 0 || c.nested > 0 {
		return 0
	}
	return float64(n) / float64(all)
}

func absent(s string) bool {
	return observe.Missing(s) || slices.Contains(missingWords, strings.ToLower(s))
}

// most is the share of a column's texts that have the form it is taken for, at least.
const most = .5

func (c *column) numeric() bool {
	return c.share(func(s string) bool {
		_, err := new(observe.Parser).Number(s)
		return err == nil || decimalComma.MatchString(s)
	}) >= most
}

// timed reports whether the texts are times; numbers are those of the years 1990 to 2100
// only.
func (c *column) timed() bool {
	return c.share(func(s string) bool {
		t, err := times.Parse(s)
		return err == nil && t.Year() >= 1990 && t.Year() <= 2100
	}) >= most || len(formatsOf(slices.DeleteFunc(slices.Clone(c.texts), absent))) > 0
}

// present is the number of the texts that are not missing.
func (c *column) present() (n int) {
	for _, s := range c.texts {
		if !absent(s) {
			n++
		}
	}
	return n
}

// distinct is the number of different texts.
func (c *column) distinct() int {
	seen := map[string]bool{}
	for _, s := range c.texts {
		if s != "" {
			seen[s] = true
		}
	}
	return len(seen)
}

// Names that columns usually have, the surest first.
var (
	timeNames  = []string{"time", "timestamp", "ts", "datetime", "date", "day", "at", "when", "zeit", "datum"}
	keyNames   = []string{"key", "id", "name", "series", "entity", "device", "sensor", "host", "machine", "station", "service", "page", "site", "customer", "user", "account", "symbol", "metric", "item", "product"}
	valueNames = []string{"x", "value", "val", "y", "reading", "measurement", "count", "amount"}
)

// rank is how sure the name of a column is among the usual ones: a whole name comes before
// a part of one. It is larger than any for other names.
func rank(name string, usual []string) int {
	name = strings.ToLower(name)
	if i := slices.Index(usual, name); i >= 0 {
		return i
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("_-. @", r) })
	for i, u := range usual {
		if slices.Contains(words, u) || len(u) > 3 && strings.Contains(name, u) {
			return len(usual) + i
		}
	}
	return unusual
}

const unusual = 1000

// best returns the column of the surest name among those for which f holds, nil without
// one.
func (t *table) best(usual []string, f func(*column) bool) (found *column) {
	for _, c := range t.columns {
		if f(c) && (found == nil || rank(c.name, usual) < rank(found.name, usual)) {
			found = c
		}
	}
	return found
}

// A draft is a guess of what a config says.
type draft struct {
	*table
	fields    config.Fields
	others    []string // numeric columns that are left out
	family    string
	query     string   // of a server, whose URL is the path; empty for a file
	aggregate interval // zero of observations
	lateness  string
	scale     Suggestion
	detect    Suggestion // in place of true
	bank      Suggestion // in place of the default
	// formatNote says which other time_format fits.
	formatNote string
}

// guess guesses what the columns are.
func (t *table) guess() *draft {
	d := &draft{table: t, family: "normal"}
	at := t.best(timeNames, (*column).timed)
	if at != nil {
		d.fields.Time = []string{at.name}
	}
	usualKey := func(c *column) bool { return rank(c.name, keyNames) < unusual }
	repeats := func(c *column) bool { return 3*c.distinct() <= max(c.records, 3) }
	key := t.best(keyNames, func(c *column) bool {
		switch {
		case c == at || c.nested > 0 || 10*c.present() < 9*c.records: // an empty key is no key
			return false
		case !c.numeric():
			return repeats(c) || usualKey(c) && 10*c.distinct() <= 9*c.records // more are ids of records
		}
		return repeats(c) && usualKey(c)
	})
	if d.exported() {
		return d
	}
	var keys []*column
	if key != nil && rank(key.name, valueNames) > 0 {
		keys = []*column{key}
	}
	if at != nil {
		keys = t.complete(at, keys)
	}
	for _, c := range keys {
		d.fields.Key = append(d.fields.Key, c.name)
	}
	number := func(c *column) bool {
		return c != at && !slices.Contains(keys, c) && (c.numeric() || c.nested > 0 && strings.EqualFold(c.name, "x"))
	}
	var steps []time.Duration
	if at != nil {
		steps = t.steps(at, keys)
	}
	x := t.value(func(c *column) bool { return number(c) && !c.identifies() && !t.rises(c, keys) })
	if x == nil && !irregular(steps) { // better a counter than nothing
		x = t.value(number)
	}
	if x == nil {
		if at != nil {
			d.aggregate, d.family = interval{every: roundInterval(steps), value: "count", why: "events of a key per interval, as there is no column of measurements"}, "poisson"
		}
		return d
	}
	d.fields.Values = []string{x.name}
	if every := roundInterval(steps); irregular(steps) && every == shortInterval {
		d.aggregate = interval{every: every, value: "median", why: "the events of a key come at random times, several a minute; or count, p95"}
	}
	if k, n := t.ratio(); k != nil {
		d.family, d.fields.Values = "binomial", []string{k.name, n.name}
		d.aggregate = interval{}
		return d
	}
	if pattern := t.numbered(append(keys, at)...); len(keys) > 0 && pattern != "" && t.format.Columns {
		d.fields.Layout, d.fields.Values = config.Wide, []string{pattern}
		return d
	}
	// Several columns of numbers, of which none is called as a value is, are a series each.
	if at != nil && keys == nil && t.format.Columns && rank(x.name, valueNames) == unusual {
		if values, all := t.series(at); len(values) >= 3 && d.aggregate.every == "" {
			if len(values) == all {
				values = []string{"*"}
			}
			d.fields.Layout, d.fields.Values = config.Wide, values
			return d
		}
	}
	for _, c := range t.columns {
		if c != x && number(c) && !c.identifies() && !t.rises(c, keys) {
			d.others = append(d.others, c.name)
		}
	}
	return d
}

// exported takes the lines that a database of metrics exports, if they are such: labels, and a list
// of values.
func (d *draft) exported() bool {
	values, at := d.named("values"), d.named("timestamps")
	labelled := slices.ContainsFunc(d.columns, func(c *column) bool { return strings.HasPrefix(c.name, "metric") })
	answer := d.named("data.resultType") != nil // of Prometheus
	if d.format.Columns || !answer && !(values != nil && values.nested > 0 && labelled) {
		return false
	}
	d.fields.Layout, d.fields.Key, d.fields.Values, d.fields.Time = config.Series, []string{"metric"}, []string{"values"}, nil
	if !answer && at != nil && at.nested > 0 {
		d.fields.Time = []string{"timestamps"}
	}
	return true
}

// series are the columns of measurements. all is how many the pattern * would read, also those
// that have nothing yet.
func (t *table) series(at *column) (values []string, all int) {
	for _, c := range t.columns {
		empty := c.present() == 0
		if c == at || !c.numeric() && !empty {
			continue
		}
		if all++; !empty && !c.identifies() && !t.rises(c, nil) {
			values = append(values, c.name)
		}
	}
	return values, all
}

// settle takes over what a look found of how records are to be read. It reports whether
// that is something new.
func (d *draft) settle(l *Look) (changed bool) {
	was := *d
	for _, s := range l.Suggestions {
		switch name := s.Key[strings.LastIndex(s.Key, ".")+1:]; name {
		case "decimal":
			d.fields.Decimal = ','
		case "missing":
			if err := yaml.Unmarshal([]byte(s.Value), &d.fields.Missing); err != nil {
				panic("inspect: " + err.Error())
			}
		case "time_format":
			if err := yaml.Unmarshal([]byte(s.Value), &d.fields.TimeFormat); err != nil {
				panic("inspect: " + err.Error())
			}
			d.formatNote = s.Why
		case "lateness":
			d.lateness = s.Value
		case "wait":
			d.aggregate.wait = s.Value
		case "family":
			d.family = s.Value
		case "scale":
			d.scale = s
		case "detect":
			d.detect = s
		case "bank":
			d.bank = s
		}
	}
	return !reflect.DeepEqual(was, *d)
}

// yaml writes the config, with comments if there is a look.
func (d *draft) yaml(l *Look) []byte {
	var b bytes.Buffer
	line := func(text, comment string) {
		if comment != "" && l != nil {
			text = fmt.Sprintf("%-38s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	if l != nil {
		of := fmt.Sprintf("Of the first %d records of %s.", l.Records, filepath.Base(d.path))
		if l.Queried {
			of = fmt.Sprintf("Of the last %d points of the query.", l.Records)
		}
		fmt.Fprintf(&b, "# %s Check it: hafvf check. All keys: hafvf check --keys.\n", of)
	}
	line("model:", "")
	line("  family: "+d.family, familyComments[d.family])
	if d.family != "bernoulli" {
		line("  prior: auto", "from the first values of each key")
	}
	if d.scale.Value != "" {
		line("  scale: "+d.scale.Value, d.scale.Why)
	}
	if l != nil && usual.Seasonal(d.family) == nil {
		if season, note := l.rhythm(); season != "" {
			line("  # season: "+season, note)
		}
	}
	if d.detect.Value == "" {
		line("detect: true", "tells outliers from changes; a key raises at most ten alarms in its first week, later about one a week")
	} else {
		line("detect: "+d.detect.Value, "tells outliers from changes; "+d.detect.Why)
	}
	if d.bank.Value != "" {
		line("bank: "+d.bank.Value, d.bank.Why)
	}
	switch {
	case d.query == "" && len(d.fields.Time) == 0 && d.fields.Layout != config.Series:
		line("order: arrival", "no column of times was found")
	case d.lateness != "":
		comment := ""
		if l != nil {
			comment = l.behind()
		}
		line("lateness: "+d.lateness, comment)
	}
	if a := d.aggregate; a.every != "" {
		line("aggregate: "+a.String(), a.why)
	}
	if d.query != "" {
		d.asks(l, line)
	} else {
		d.reads(l, line)
	}
	line("sink:", "")
	line("  jsonl: {path: estimates.jsonl}", "")
	line("alerts:", "")
	line("  jsonl: {path: alerts.jsonl}", "")
	return b.Bytes()
}

// asks writes a source that asks a server, with a state: it has no end.
func (d *draft) asks(l *Look, line func(text, comment string)) {
	line("state: hafvf.states", "a run goes on where the one before has stopped")
	line("source:", "")
	line("  prometheus:", "")
	line("    url: "+yamlText(d.path), "")
	comment := found(l)
	if l != nil && len(l.Counters) > 0 {
		comment = "the values rise as those of a counter: ask for its rate(…[5m])"
	}
	line("    query: "+yamlText(d.query), comment)
	line("    start: -14d", "learns the past first; step: 1m")
}

// reads writes a source that reads a file.
func (d *draft) reads(l *Look, line func(text, comment string)) {
	line("source:", "")
	line("  "+d.table.format.Name+":", "")
	at := func(key, value, comment string) { line("    "+key+": "+value, comment) }
	at("path", yamlText(d.path), "")
	if d.delimiter != "" && d.delimiter != "," {
		at("delimiter", yamlText(d.delimiter), "")
	}
	if d.fields.Decimal == ',' {
		at("decimal", yamlText(","), "")
	}
	switch {
	case d.fields.Layout == config.Wide:
		at("layout", config.Wide, found(l)+"; long: one value in a row")
		if len(d.fields.Key) > 0 {
			at("key", yamlKey(d.fields.Key), "")
		}
	case d.fields.Layout == config.Series:
		at("layout", config.Series, "lists of times and values in each line")
		at("key", yamlKey(d.fields.Key), found(l))
	case len(d.fields.Key) == 0:
		at("key", "none", "one series; or the name of the column that tells series apart")
	default:
		comment := found(l)
		if n := d.keyless(); n > 0 {
			comment += "; " + message.Count(n, "record has none", "records have none")
		}
		at("key", yamlKey(d.fields.Key), comment)
	}
	times := ""
	if l != nil && l.Timed > 0 {
		times = fmt.Sprintf("%s to %s", l.First.Format("2006-01-02 15:04"), l.Last.Format("2006-01-02 15:04"))
	}
	if len(d.fields.Time) > 0 || d.fields.Layout != config.Series { // else times stand beside the values
		at("time", cmp.Or(yamlText(strings.Join(d.fields.Time, "")), `""`), times)
	}
	if d.fields.TimeFormat != "" {
		at("time_format", yamlText(d.fields.TimeFormat), d.formatNote)
	}
	others := ""
	if len(d.others) > 0 {
		others = "or " + some(d.others, 8)
	}
	if d.fields.Values != nil {
		at("values", yamlList(d.fields.Values), others)
	}
	if d.fields.Missing != nil {
		at("missing", yamlList(d.fields.Missing), "")
	}
}

// keyless is the number of the records that lack a part of the key.
func (d *draft) keyless() (n int) {
	var key []*column
	for _, name := range d.fields.Key {
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
func found(l *Look) string {
	switch {
	case l == nil:
		return ""
	case len(l.Keys) == 1:
		return "1 key so far: " + some(l.Keys, 1)
	}
	return fmt.Sprintf("%d keys so far: %s", len(l.Keys), some(l.Keys, 4))
}

var familyComments = map[string]string{
	"normal":    "numbers",
	"poisson":   "counts; normal for other numbers",
	"bernoulli": "0 or 1",
	"binomial":  "how many, and of how many",
}

// yamlText writes a text as a scalar that stands anywhere in YAML.
func yamlText(s string) string {
	b, err := yaml.Marshal(&yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}}})
	if err != nil {
		panic("inspect: " + err.Error())
	}
	b = bytes.TrimSpace(b)
	return string(b[1 : len(b)-1])
}

// yamlList writes texts as a list in one line.
func yamlList(texts []string) string {
	var all []string
	for _, s := range texts {
		all = append(all, yamlText(s))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
