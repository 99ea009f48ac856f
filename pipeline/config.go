// Package pipeline turns a config and raw records into a running filter: the
// YAML config, the decoding of records, and the composed graphs.
package pipeline

import (
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf"
)

// A Config says what a pipeline reads, which filter it runs, and where its
// records go. Parse makes one; defaults are filled in and every value is
// checked.
type Config struct {
	Transform string // Filter or Smooth
	Model     Model
	Levels    []hafvf.Beta // bottom up; empty means no level
	Top       float64      // γ in [0, 1]: the fixed weight of the topmost level

	Bank           []hafvf.Member // in place of Levels and Top; nil for one filter
	BankForgetting float64
	Detect         *Detect   // nil: no detection
	Keys           []KeyRule // exceptions; the first that matches a key holds

	Order    string // EventTime or Arrival
	Lateness time.Duration
	TimeUnit time.Duration // in which the weight acts once; 0: per observation
	Session  Session       // of Smooth
	Odds     float64       // of Smooth: in favour of a change, from which on it is one

	Source     Source
	Sink       Sink
	DeadLetter *Sink // nil: standard error, as JSON Lines
	Alerts     *Sink // nil: nowhere
	Runner     Runner
}

// Values of Config.Transform.
const (
	Filter = "filter" // online: every observation as it comes
	Smooth = "smooth" // finished sessions, forward and backward
)

// A Session is what is smoothed as one.
type Session struct {
	Gap             time.Duration // ends it
	AllowedLateness time.Duration // after its end, in which it is still revised
	Max             int           // observations, above which it is cut
}

// Values of Config.Order.
const (
	EventTime = "event_time" // per key in the order of event times
	Arrival   = "arrival"    // as the source gives them
)

// A Model is a family and its prior.
type Model struct {
	Family string
	// Prior holds the textbook parameters that the config gives: numbers as
	// float64, vectors as []float64, matrices as [][]float64, and bool. The
	// family has defaults for the others.
	Prior map[string]any
	// Dim is the length of the observation vector (for categorical, the number
	// of categories), as the config or else the columns give it; 0 where only the
	// prior does.
	Dim int
	// WarmUp is the number of a key's first observations that set the prior; 0
	// where the config gives it.
	WarmUp int
}

// Detect are the settings of detection.
type Detect struct {
	Commit    float64       // probability from which on a change is certain
	MinLength int           // observations that a new regime must have
	Cooldown  time.Duration // in which a key raises no second alert of a kind
	MinChange float64       // of an alert, in standard deviations
}

// A KeyRule is an exception for the keys that match a pattern.
type KeyRule struct {
	Match  string
	Prior  map[string]any // nil: as Model has it
	WarmUp int            // as in Model
	Levels []hafvf.Beta
	Top    float64
	Bank   []hafvf.Member
}

// A Source is where records come from; exactly one field is set.
type Source struct {
	CSV     *CSV
	JSONL   *JSONL
	Parquet *Parquet
	Kafka   *Kafka
}

// A Sink is where records go; exactly one field is set.
type Sink struct {
	CSV     *File
	JSONL   *File
	Parquet *File
	Kafka   *kafkaio.Sink
}

// Columns name the parts of an observation in a table. An empty Time means that
// the table has no time column.
type Columns struct {
	Key, Time string
	Values    []string
}

// CSV is a source of delimited text with a header line. The path may be a
// pattern; "-" is standard input.
type CSV struct {
	Path string
	Columns
	Delimiter rune
}

// JSONL is a source with one JSON object per line. The path may be a pattern;
// "-" is standard input.
type JSONL struct{ Path string }

// Parquet is a source of Parquet files. The path may be a pattern.
type Parquet struct {
	Path string
	Columns
}

// A File is written by a sink; the path "-" is standard output.
type File struct{ Path string }

// maxConfig is the largest config, in bytes, that Parse looks at.
const maxConfig = 1 << 20

// Parse reads a config from YAML (JSON is YAML too) after applying the
// overrides in set, in order, to it. An override is "a.b=c": a path of keys and
// list indexes, and a value in YAML.
//
// Every value is checked. The error joins a KeyError per mistake, in the order
// of the lines; name is the file that they name.
func Parse(name string, text []byte, set []string) (*Config, error) {
	c := &Config{
		Transform:      Filter,
		Top:            hafvf.DefaultMember().Top,
		BankForgetting: hafvf.DefaultForgetting,
		Order:          EventTime,
		Session:        Session{Gap: 30 * time.Minute, Max: 10_000_000},
		Odds:           10,
		Sink:           Sink{JSONL: &File{Path: "-"}},
		Runner:         Runner{Name: Prism},
	}
	d := &decoder{name: name, set: set, at: map[string]int{}}
	root := d.tree(text)
	if root != nil {
		nodes := &priorNodes{}
		d.at[""] = root.Line
		d.mapping("", root, c.keys(nodes))
		d.filters(c, nodes)
		d.check(c)
		d.priors(c, nodes)
	}
	if len(d.errs) > 0 {
		return nil, d.join()
	}
	return c, nil
}

// priorNodes are what the config gives as priors, read last: what they must be
// depends on family and columns.
type priorNodes struct {
	model  *yaml.Node
	keys   []*yaml.Node // of the rules
	warmUp int
}

// defaultLevels are weak for the filter, which has to follow at once, and strong
// for the smoother, which looks back.
func defaultLevels(transform string) []hafvf.Beta {
	if transform == Smooth {
		return []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}
	}
	return hafvf.DefaultMember().Levels
}

// keys declares the config: each key, what it means, and how a value is read
// into c, priors into nodes.
func (c *Config) keys(nodes *priorNodes) []key {
	return []key{
		{name: "transform", doc: "filter (the default): every observation as it comes; or smooth: finished sessions, forward and backward", read: choice(&c.Transform, Filter, Smooth)},
		{name: "model", doc: "what is assumed of the values", keys: []key{
			{name: "family", doc: "one of " + strings.Join(hafvf.Families(), ", ") + "; required", read: choice(&c.Model.Family, hafvf.Families()...)},
			{name: "prior", doc: "the family's textbook parameters; or auto (with others: {auto: true, order: 3}): from a key's first observations, for smooth from the session", read: later(&nodes.model)},
			{name: "warm_up", doc: "number of first observations that prior: auto looks at; 50 by default", read: whole(&nodes.warmUp, 2)},
			{name: "dim", doc: "length of the observation vector, where neither prior nor columns fix it: coordinates for mvnormal, regressors and target for regression; for categorical the number of categories, where alpha is a number", read: whole(&c.Model.Dim, 1)},
		}},
		{name: "levels", doc: "Beta priors {alpha, beta} of the forgetting weights, bottom up; by default [{alpha: 0.9, beta: 0.1}, {alpha: 1, beta: 1}], for smooth [{alpha: 9, beta: 1}, {alpha: 1, beta: 1}]", read: levels(&c.Levels)},
		{name: "top", doc: "fixed weight of the topmost level, in [0, 1]; 1 by default", read: number(&c.Top, unitInterval)},
		{name: "bank", doc: "in place of levels and top: several filters {levels, top} of the family, averaged by how well they predict", read: members(&c.Bank)},
		{name: "bank_forgetting", doc: "forgetting of the bank's weights, in (0, 1]; 0.999 by default", read: number(&c.BankForgetting, aboveZeroToOne)},
		{name: "detect", doc: "true: tell outliers from changes; or its settings", read: detect(&c.Detect)},
		{name: "keys", doc: "exceptions {match: pattern, model: {prior}, levels, top, bank}; the first that matches a key holds", read: keyRules(&c.Keys, nodes)},
		{name: "order", doc: "event_time (the default) or arrival", read: choice(&c.Order, EventTime, Arrival)},
		{name: "lateness", doc: "how long a record waits for earlier ones of its key; 0s by default", read: duration(&c.Lateness)},
		{name: "time_unit", doc: "unit of time in which the weight acts once, such as 1m; by default it acts once per observation", read: milliseconds(&c.TimeUnit)},
		{name: "session", doc: "smooth: what is smoothed as one", keys: []key{
			{name: "gap", doc: "time without an observation of the key that ends a session; 30m by default", read: milliseconds(&c.Session.Gap)},
			{name: "allowed_lateness", doc: "how long after its end a session is revised by what comes late; 0s by default", read: duration(&c.Session.AllowedLateness)},
			{name: "max", doc: "observations above which a session is cut into parts; 10000000 by default", read: whole(&c.Session.Max, 1)},
		}},
		{name: "change", doc: "smooth: what counts as a change", keys: []key{
			{name: "odds", doc: "odds in its favour, above which it is reported; 10 by default", read: number(&c.Odds, positive)},
		}},
		{name: "source", doc: "where records come from: exactly one connector; required", required: true, single: true, keys: c.Source.keys()},
		{name: "sink", doc: "where estimates go: one connector; JSON Lines on standard output by default", single: true,
			seen: func() { c.Sink = Sink{} }, keys: c.Sink.keys()},
		{name: "dead_letter", doc: "where rejected records go; JSON Lines on standard error by default", single: true, keys: c.deadLetterKeys()},
		{name: "alerts", doc: "where alerts go, with detect; nowhere by default", single: true,
			seen: func() { c.Alerts = &Sink{} }, keys: c.alertKeys()},
		{name: "runner", doc: "what executes the pipeline", keys: c.Runner.keys()},
	}
}

func (s *Source) keys() []key {
	csv := &CSV{Columns: defaultColumns(), Delimiter: ','}
	jsonl := &JSONL{}
	parquet := &Parquet{Columns: defaultColumns()}
	return []key{
		{name: "csv", doc: "delimited text with a header line", seen: func() { s.CSV = csv },
			keys: slices.Concat([]key{sourcePath(&csv.Path)}, csv.Columns.keys(), []key{
				{name: "delimiter", doc: `one character; "," by default`, read: delimiter(&csv.Delimiter)},
			})},
		{name: "jsonl", doc: "one JSON object per line", seen: func() { s.JSONL = jsonl },
			keys: []key{sourcePath(&jsonl.Path)}},
		{name: "parquet", doc: "Parquet files", seen: func() { s.Parquet = parquet },
			keys: slices.Concat([]key{sourcePath(&parquet.Path)}, parquet.Columns.keys())},
		s.kafkaKey(),
	}
}

func sourcePath(dst *string) key {
	return key{name: "path", doc: `a file, a pattern such as data/*.csv, or "-" for standard input; required`, required: true, read: text(dst, notEmpty)}
}

func defaultColumns() Columns {
	return Columns{Key: "key", Time: "time", Values: []string{"x"}}
}

func (c *Columns) keys() []key {
	return []key{
		{name: "key", doc: "column of the entity; key by default", read: text(&c.Key, notEmpty)},
		{name: "time", doc: "column of the time; time by default, empty where there is none", read: text(&c.Time, mayBeEmpty)},
		{name: "values", doc: "columns that make the value; [x] by default", read: texts("columns", &c.Values)},
	}
}

func (s *Sink) keys() []key {
	connector := func(name, doc string, dst **File) key {
		f := &File{Path: "-"}
		return key{name: name, doc: doc, seen: func() { *dst = f }, keys: []key{
			{name: "path", doc: `a file, or "-" (the default) for standard output`, read: text(&f.Path, notEmpty)},
		}}
	}
	return []key{
		connector("csv", "delimited text with a header line", &s.CSV),
		connector("jsonl", "one JSON object per line", &s.JSONL),
		connector("parquet", "one Parquet file", &s.Parquet),
		s.kafkaKey(),
	}
}

// alertKeys are those of a sink, which there may be none of.
func (c *Config) alertKeys() []key {
	s := &Sink{}
	keys := s.keys()
	for i, k := range keys {
		keys[i].seen = func() {
			k.seen()
			c.Alerts = s
		}
	}
	return keys
}

func (c *Config) deadLetterKeys() []key {
	f := &File{}
	topic := &Sink{}
	kafka := topic.kafkaKey()
	seen := kafka.seen
	kafka.seen = func() {
		seen()
		c.DeadLetter = topic
	}
	return []key{
		{name: "jsonl", doc: "one JSON object per line", seen: func() { c.DeadLetter = &Sink{JSONL: f} }, keys: []key{
			{name: "path", doc: `a file, or "-" for standard output; required`, required: true, read: text(&f.Path, notEmpty)},
		}},
		kafka,
	}
}

// columns returns the value columns of a tabular source and the key that names
// them; nil for a source whose records bring their own shape.
func (s *Source) columns() (values []string, path string) {
	switch {
	case s.CSV != nil:
		return s.CSV.Values, "source.csv.values"
	case s.Parquet != nil:
		return s.Parquet.Values, "source.parquet.values"
	}
	return nil, ""
}

func levels(dst *[]hafvf.Beta) reader {
	return list("a list of {alpha, beta}", dst, func(d *decoder, path string, n *yaml.Node, l *hafvf.Beta) {
		d.mapping(path, n, []key{
			{name: "alpha", required: true, read: number(&l.Alpha, positive)},
			{name: "beta", required: true, read: number(&l.Beta, positive)},
		})
	})
}

// members reads the filters of a bank; at least one.
func members(dst *[]hafvf.Member) reader {
	one := list("a list of {levels, top}", dst, func(d *decoder, path string, n *yaml.Node, m *hafvf.Member) {
		d.mapping(path, n, []key{
			{name: "levels", required: true, read: levels(&m.Levels)},
			{name: "top", required: true, read: number(&m.Top, unitInterval)},
		})
	})
	return func(d *decoder, path string, n *yaml.Node) {
		one(d, path, n)
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.fail(path, "must hold at least one filter {levels, top}")
		}
	}
}

// keyRules reads exceptions, their priors into nodes.
func keyRules(dst *[]KeyRule, nodes *priorNodes) reader {
	return list("a list of {match, …}", dst, func(d *decoder, path string, n *yaml.Node, k *KeyRule) {
		k.Top = 1
		nodes.keys = append(nodes.keys, nil)
		d.mapping(path, n, []key{
			{name: "match", required: true, read: pattern(&k.Match)},
			{name: "model", keys: []key{{name: "prior", read: later(&nodes.keys[len(nodes.keys)-1])}}},
			{name: "levels", read: levels(&k.Levels)},
			{name: "top", read: number(&k.Top, unitInterval)},
			{name: "bank", read: members(&k.Bank)},
		})
	})
}

// list reads a list into dst, each entry by read.
func list[T any](want string, dst *[]T, read func(d *decoder, path string, n *yaml.Node, v *T)) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.wrongType(path, want, n)
			return
		}
		*dst = make([]T, len(n.Content))
		for i, e := range n.Content {
			read(d, d.entry(path, i, e), e, &(*dst)[i])
		}
	}
}

// pattern reads a pattern of keys.
func pattern(dst *string) reader {
	return func(d *decoder, p string, n *yaml.Node) {
		before := len(d.errs)
		text(dst, notEmpty)(d, p, n)
		if _, err := path.Match(*dst, ""); err != nil && len(d.errs) == before {
			d.fail(p, "%s is not a pattern: * stands for any text, ? for one character, [a-c] for one of them", quote(*dst))
		}
	}
}

// detect reads true, false, or settings.
func detect(dst **Detect) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		v := &Detect{Commit: 0.95, MinLength: 5}
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
			var on bool
			if n.Decode(&on) == nil && on {
				*dst = v
			}
			return
		}
		if n.Kind != yaml.MappingNode {
			d.wrongType(path, "true, false, or a mapping", n)
			return
		}
		*dst = v
		d.mapping(path, n, []key{
			{name: "commit", read: number(&v.Commit, between0And1)},
			{name: "min_length", read: whole(&v.MinLength, 1)},
			{name: "cooldown", read: duration(&v.Cooldown)},
			{name: "min_change", read: number(&v.MinChange, notNegative)},
		})
	}
}

// milliseconds reads a duration in the resolution of Beam's windows, above zero.
func milliseconds(dst *time.Duration) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		before := len(d.errs)
		duration(dst)(d, path, n)
		if len(d.errs) == before && (*dst < time.Millisecond || *dst%time.Millisecond != 0) {
			d.fail(path, "must be a number of milliseconds above zero, not %s", n.Value)
		}
	}
}

// texts reads a list of names; at least one.
func texts(what string, dst *[]string) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		someTexts(what, dst)(d, path, n)
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.fail(path, "must name at least one of the %s", what)
		}
	}
}

// someTexts reads a list of names, which may be empty.
func someTexts(what string, dst *[]string) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.wrongType(path, "a list of "+what, n)
			return
		}
		*dst = make([]string, len(n.Content))
		for i, e := range n.Content {
			text(&(*dst)[i], notEmpty)(d, d.entry(path, i, e), e)
		}
	}
}

func delimiter(dst *rune) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		var s string
		if !d.text(path, n, &s) {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsRune("\r\n\"\x00\uFFFD", r[0]) {
			d.fail(path, "must be one character, and neither a quote nor a line break, not %s", quote(s))
			return
		}
		*dst = r[0]
	}
}
