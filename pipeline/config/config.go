// Package config reads configs: the settings of the model, and what is read, written and run.
package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/connectors/registry"
	"hafvf/connectors/webhook"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// A Config says what a pipeline reads, which filter it runs, and where its
// records go. Parse makes one; defaults are filled in and every value is
// checked.
type Config struct {
	settings.Settings
	Incidents *Incidents // nil: alarms of several keys are not grouped
	State     string     // file of the filters' states; empty: none

	Source     Source
	Sink       Sink
	DeadLetter *Sink // nil: standard error, as JSON Lines
	Marks      *Sink // which is read: File or Kafka; nil: none
	Alerts     []Receiver
	Runner     Runner
}

// Trial is the TimeFormat of whole numbers of trials, which are no times.
const Trial = "trial"

// Filter returns the settings of the filters of keys, without the names of the values.
func (c *Config) Filter() keyed.Config {
	cfg := c.Settings.Filter()
	if p := c.Source.Prometheus(); p != nil {
		cfg.Lookback = p.Lookback
	}
	return cfg
}

// SessionOrder is what a session of Smooth goes by.
func (c *Config) SessionOrder() keyed.Order {
	if f, _ := c.Source.fields(); f.TimeFormat == Trial {
		return keyed.Trials
	}
	return keyed.Order(c.Order)
}

// A Source is where records come from.
type Source struct {
	Origins []SourceKind // what is set: one, but for a mistake
}

// A SourceKind is a kind of source: Files, Kafka or Prometheus.
type SourceKind interface {
	fields() (f *Fields, path string) // what is in a record, by the keys at path; nil if it has a form of its own
	shaped() bool                     // a record brings its own shape
	unending() bool                   // the source goes on until it is stopped
	check(d *decoder, c *Config)      // what concerns more than one key; sinks learn what they need of the source
	checkFlink(d *decoder)            // refuses what the runner flink cannot do
}

// origins declare the kinds of source, one a row.
var origins = []func(*Source) []keytable.Key{(*Source).filesKeys, (*Source).kafkaKeys, (*Source).prometheusKeys}

func (s *Source) keys() (all []keytable.Key) {
	for _, declare := range origins {
		all = append(all, declare(s)...)
	}
	return all
}

func (s *Source) set(o SourceKind) func() { return func() { s.Origins = append(s.Origins, o) } }

// originOf returns the origin of a type, nil if the source has none.
func originOf[O SourceKind](s *Source) (of O) {
	for _, o := range s.Origins {
		if o, is := o.(O); is {
			return o
		}
	}
	return of
}

func (s *Source) is(what func(SourceKind) bool) bool { return slices.ContainsFunc(s.Origins, what) }

// Unending reports whether the source goes on until it is stopped.
func (s *Source) Unending() bool { return s.is(SourceKind.unending) }

// fields returns what the source says of its records, and the key of it.
func (s *Source) fields() (f *Fields, path string) {
	for _, o := range s.Origins {
		if f, path := o.fields(); f != nil {
			return f, path
		}
	}
	return &Fields{}, ""
}

// columns returns the fields of the value; nil for a source whose records bring their own shape.
func (s *Source) columns() []string {
	f, path := s.fields()
	if path == "" || len(f.Values) == 1 && s.is(SourceKind.shaped) {
		return nil
	}
	return f.Values
}

// Unit is that of the values; empty if none is known.
func (s *Source) Unit() string {
	if f, _ := s.fields(); f.Unit != AnyUnit {
		return f.Unit
	}
	return ""
}

// A Sink is where records go; exactly one field is set.
type Sink struct {
	File  *File
	Kafka *kafkaio.Sink
	// Format of Kafka is registry.Avro with a Registry, or JSON if it is empty.
	Format   string
	Registry *registry.Config
	Webhook  *webhook.Sink // of alerts
	None     bool          // records are not written
	// Prometheus is a sink of scores, for estimates alone.
	Prometheus *promio.Sink
}

// A Receiver is where alerts go, and which do.
type Receiver struct {
	Sink
	Choice
	At     string        // the path of its keys in the config: alerts, or alerts.0
	MaxAge time.Duration // above which an alert is not sent; 0: none is too old
}

// A Choice says which alerts go to a receiver.
type Choice struct {
	Kinds   []string          // of alarms
	Ends    bool              // recovered is of values too: kinds is written out, and names it
	Beliefs []string          // kinds of beliefs
	Keys    string            // pattern; empty: all
	Except  string            `json:",omitempty"` // pattern of keys that are not its; empty: none
	Labels  map[string]string `json:",omitempty"` // that each alert has besides its own
	Digest  time.Duration     `json:",omitempty"` // of the alarms in no incident; 0: none
	// Few are the kinds of alarms of a fleet that has never had FewKeys keys, nil if they are Kinds. NoFew: it has no
	// digest.
	Few   []string `json:",omitempty"`
	NoFew bool     `json:",omitempty"`
}

// Layouts of records.
const (
	Long   = "long"   // a record is an observation
	Wide   = "wide"   // a record has an observation in each column of values, a key each
	Series = "series" // a record has lists of times and values, of one key
)

// AnyUnit is the Unit of values that may have any.
const AnyUnit = "any"

// Fields say where in a record the parts of an observation stand, and how they are
// written: columns of a table, or fields of a JSON object, whose names may be dotted paths.
type Fields struct {
	Key    []string // joined with "/"; empty: all records are one series
	Time   []string // several are joined with a blank; empty: records have no time
	Values []string // several make one vector
	By     []string `json:",omitempty"` // that of Session
	Carry  []string `json:",omitempty"` // that records repeat; of Files names or patterns
	Layout string   // Long, Wide or Series
	// Columns are those of the layout wide, names or patterns. Then Values is what one of
	// them holds.
	Columns []string

	Zone       string // of times without one
	TimeFormat string // of times that are not understood without it
	Untimed    bool   `json:",omitempty"` // times are not read
	Missing    []string
	Decimal    rune // of numbers in texts
	// Unit stands beside numbers in texts; AnyUnit is each. Empty: none.
	Unit string `json:",omitempty"`
	// Thousands stands between groups of three digits in texts; 0: nothing.
	Thousands rune `json:",omitempty"`
	// ValuesAs are two values that are read as 0 and 1; nil: values are numbers.
	ValuesAs []string `json:",omitempty"`
	// MaxAhead is how far a time may be ahead of the clock; if 0, no time is too far.
	MaxAhead time.Duration
	// Forget has a record of a topic without a value forget its key.
	Forget bool `json:",omitempty"`
}

// A File is written by a sink; the path "-" is standard output.
type File struct {
	Format string // as in Files
	Path   string
}

// Parse reads a config from YAML (JSON is YAML too) after applying the
// overrides in set, in order, to it. An override is "a.b=c": a path of keys and
// list indexes, and a value in YAML.
//
// Every value is checked. The error joins a KeyError per mistake, in the order
// of the lines; name is the file that they name.
func Parse(name string, text []byte, set []string) (*Config, error) {
	secrets := []string{"sasl", "passw"}
	for _, form := range webhook.Forms {
		secrets = append(secrets, form.Name)
	}
	// A misspelt key of Kafka is not known to be that of a login.
	c, d, keys := begin(&keytable.Decoder{Name: name, Overrides: set, Secrets: secrets, Secretive: []string{"kafka"}})
	if d.Read(text, keys) {
		d.layout(c)
		d.given(c)
		d.CheckModel()
		d.fields(c)
		d.checkAlarms(c)
		d.CheckTimes()
		d.checkNumbers(c)
		d.checkFiles(c)
		for _, o := range c.Source.Origins {
			o.check(d, c)
		}
		d.checkKafka(c)
		d.checkWritten(c)
		d.checkRunner(c)
		d.checkMarks(c)
		d.CheckQuiet()
		d.joinedPatterns(c)
		d.receivers(c)
		d.CheckPriors()
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// begin returns a config with the defaults, and what reads into it.
func begin(of *keytable.Decoder) (*Config, *decoder, []keytable.Key) {
	c := &Config{Sink: Sink{File: &File{Format: connectors.JSONLines, Path: "-"}}, Runner: Runner{Name: Direct}}
	d := &decoder{settings.NewReading(of, &c.Settings)}
	return c, d, c.keys(d.Keys())
}

// AlarmKinds are those that there are.
func AlarmKinds() []string {
	return []string{string(usual.NoveltyAlarm), string(usual.ChangeAlarm), keyed.SilentAlarm, keyed.RecoveredAlarm, incidents.Kind}
}

// FewKeys is the number of keys from which on pagerKinds hold.
const FewKeys = 20

// pagerKinds are those that people get by default where alarms become incidents.
func pagerKinds() []string { return []string{incidents.Kind, keyed.SilentAlarm, keyed.RecoveredAlarm} }

// pagerDigest lists the other alarms.
const pagerDigest = 24 * time.Hour

// A decoder reads a config.
type decoder struct{ *settings.Reading }

// given tells the settings what they go by of the source.
func (d *decoder) given(c *Config) {
	f, path := c.Source.fields()
	d.Source = settings.Source{
		Path: path, Time: f.Time, Zone: f.Zone, Trials: f.TimeFormat == Trial, Unending: c.Source.Unending(), Watermark: c.Source.Kafka() != nil,
		Share: func(of, to string) {
			f.Values = []string{of, to}
			d.Refuse(path+".values", "a share is of the fields aggregate.of and aggregate.to")
			if c.Source.Prometheus() != nil {
				d.Fail("aggregate.value", "a share takes two fields of a record, and a point is one number: divide in the query")
			}
			if f.Layout != Long && f.Layout != "" {
				d.Fail(path+".layout", "a share takes two fields of a record: layout long")
			}
		},
	}
}

// fields settles what is read of a record, as the settings want it.
func (d *decoder) fields(c *Config) {
	f, _ := c.Source.fields()
	if c.Aggregate != nil && c.Aggregate.Value.Counts() && f.Layout == Long {
		f.Values = nil
	}
	if c.Transform == settings.Smooth && c.SessionOrder() != keyed.EventTime {
		f.By, f.Untimed = c.Session.By, f.TimeFormat != Trial
	}
	d.Source.Values = c.Source.columns()
}

// layout settles what the layouts wide and series need.
func (d *decoder) layout(c *Config) {
	f, path := c.Source.fields()
	switch f.Layout {
	case Wide:
		if !d.Has(path + ".key") {
			f.Key = nil
		}
		if !d.Has(path + ".values") {
			f.Values = []string{"*"}
		}
		f.Columns, f.Values = f.Values, []string{"value"}
	case Series:
		if len(f.Values) != 1 {
			d.Fail(path+".values", "the layout series has one list of values")
		}
		if len(f.Time) > 1 {
			d.Fail(path+".time", "the layout series has one list of times")
		}
	}
}

// checkNumbers refuses ways to write numbers that do not go together.
func (d *decoder) checkNumbers(c *Config) {
	f, path := c.Source.fields()
	if path == "" {
		return
	}
	if d.Has(path+".thousands") && f.Thousands == f.Decimal {
		d.Fail(path+".thousands", "%q is decimal: it cannot be both", f.Decimal)
	}
	for _, name := range []string{"unit", "thousands", "values_as"} {
		if d.Has(keytable.Join(path, name)) && f.Layout == Wide && slices.ContainsFunc(f.Columns, connectors.IsPattern) {
			d.Fail(keytable.Join(path, name), "takes names in values, where there is a pattern: that looks for plain numbers")
		}
		if d.Has(keytable.Join(path, name)) && name != "values_as" && f.ValuesAs != nil && !d.Failed(path+".values_as") {
			d.Fail(keytable.Join(path, name), "is of numbers, and values_as names the only values: leave out one of them")
		}
	}
	family := c.Model.Family
	if f.Unit != "" && (family == "bernoulli" || family == "categorical") {
		d.Fail(path+".unit", "is of measurements; %s has choices", family)
	}
	if f.ValuesAs == nil || d.Failed(path+".values_as") {
		return
	}
	if family == "binomial" || family == "exponential" {
		d.Fail(path+".values_as", "makes 0 and 1, and %s has other values", family)
	}
	for _, is := range f.ValuesAs {
		if is == "" || strings.EqualFold(is, "nan") || slices.Contains(f.Missing, is) {
			d.Fail(path+".values_as", "%s is a missing value", message.Quote(is))
		}
	}
}

func delimiter(dst *rune) keytable.ValueParser {
	return keytable.ValueParser{Takes: "one character", Initial: strconv.Quote(string(*dst)), Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		var s string
		if !d.Text(path, n, &s) {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsRune("\r\n\"\x00\uFFFD", r[0]) {
			d.Fail(path, "must be one character, and neither a quote nor a line break, not %s", message.Quote(s))
			return
		}
		*dst = r[0]
	}}
}

// separator reads a character of numbers in texts, one of some. One blank stands for each, and ' for ’.
func separator(dst *rune, takes, some string) keytable.ValueParser {
	return keytable.ValueParser{Takes: takes, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		var s string
		if !d.Text(path, n, &s) {
			return
		}
		is := strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(s)
		if len(is) != 1 || !strings.Contains(some, is) {
			d.Fail(path, "must be %s, not %s", takes, message.Quote(s))
			return
		}
		*dst = rune(is[0])
	}}
}

// unit reads what stands beside a number.
func unit(dst *string) keytable.ValueParser {
	return keytable.Checked(dst, `text, such as "°C", or any`, func(s string) error {
		if s != strings.TrimSpace(s) || strings.ContainsAny(s[:1], "0123456789.,+-") {
			return fmt.Errorf("must not begin as a number, nor begin or end with a blank, as %s does", message.Quote(s))
		}
		return nil
	})
}

// valuesAs reads two different values.
func valuesAs(dst *[]string) keytable.ValueParser {
	r := missing(dst).Then(func() error {
		if all := *dst; len(all) != 2 || all[0] == all[1] {
			return errors.New("must be two different values, the first of which is 0 and the second 1")
		}
		return nil
	})
	r.Takes = "two values, such as [off, on]"
	return r
}

// keyFields reads the name of a field, a list of names, or none.
func keyFields(dst *[]string) keytable.ValueParser {
	several := keytable.Texts("names", dst)
	return keytable.ValueParser{Takes: "name, list of names, or none", Initial: strconv.Quote(strings.Join(*dst, "")), Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			several.Read(d, path, n)
			return
		}
		var name string
		switch {
		case n.Kind == yaml.MappingNode:
			d.WrongType(path, "a name, a list of names, or none", n)
		case !d.Text(path, n, &name):
		case name == "":
			d.Fail(path, "must not be empty; a source without keys has key: none")
		case name == "none":
			*dst = nil
		default:
			*dst = []string{name}
		}
	}}
}

// timeFields reads a name or a list of names, or an empty name for none.
func timeFields(dst *[]string) keytable.ValueParser {
	r := keytable.OneOrMore("names", dst)
	some := r.Read
	r.Initial = strconv.Quote(strings.Join(*dst, ""))
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" {
			*dst = nil
			return
		}
		some(d, path, n)
	}
	return r
}

// missing reads texts, of which YAML takes some for numbers or null.
func missing(dst *[]string) keytable.ValueParser {
	return keytable.ListOf("texts, such as [NA, -, -999]", dst, func(s *string) keytable.ValueParser {
		return keytable.ValueParser{Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.ScalarNode {
				d.WrongType(path, "text", n)
				return
			}
			*s = strings.TrimSpace(n.Value)
		}}
	})
}

// timeFormat reads the form of a time.
func timeFormat(dst *string) keytable.ValueParser {
	return keytable.Checked(dst, "strftime, such as %d.%m.%Y %H:%M, or a Go layout", func(s string) error {
		if s == Trial {
			return nil
		}
		_, err := times.NewParser("", s)
		return err
	})
}

func defaultFields() Fields {
	return Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}, Layout: Long, Zone: "UTC", Decimal: '.'}
}

// keys declare what a record looks like. It has columns or fields.
func (f *Fields) keys(what string) []keytable.Key {
	none := ""
	if f.MaxAhead == 0 {
		none = "none"
	}
	return []keytable.Key{
		{Name: "key", Doc: "Column or field of the key. A list is joined with \"/\"; in its parts, % becomes %25 and / becomes %2F. none makes one series of all records. In JSON, a.b is the field b of the object a, and an object of labels becomes a key as Prometheus writes it.", Read: keyFields(&f.Key)},
		{Name: "time", Doc: "Column or field of the time. A list is joined with spaces. Empty means no time, which needs order: arrival.", Read: timeFields(&f.Time)},
		{Name: "values", Doc: "Columns or fields of the value. Several columns make one vector.", Read: keytable.OneOrMore(strings.ToLower(what)+"s", &f.Values)},
		{Name: "zone", Doc: "Time zone of times without an offset. In an hour that occurs twice, the order of a key's records decides.", Read: keytable.Zone(&f.Zone)},
		{Name: "time_format", Doc: "Format of times, except dates, ISO 8601, HTTP times and Unix times. Without a day, the day is the first. %q is a quarter, %G-W%V an ISO week. " + times.Unix + " reads numbers as Unix times, " + times.Spreadsheet + " as days since 1899-12-30 (else refused), " + Trial + " (smooth) as whole trial numbers.", Read: timeFormat(&f.TimeFormat)},
		{Name: "max_ahead", Doc: "How far a time may be ahead of this computer's clock. Records further ahead are rejected. A key that has learned such a time is rewound at its fifth late record in a row.", Initial: none, Read: keytable.DurationOr("none", &f.MaxAhead)},
		{Name: "missing", Doc: "Texts of a missing value, in addition to an empty text, null and NaN.", Read: missing(&f.Missing)},
		{Name: "unit", Doc: "Unit next to numbers in texts; numbers with another unit are rejected. any accepts all units and ignores them: 1 kB and 1 MB are both 1.", Read: unit(&f.Unit)},
		{Name: "thousands", Doc: "Separator of groups of three digits.", Read: separator(&f.Thousands, `",", ".", "'" or " "`, ",.' ")},
		{Name: "values_as", Doc: "Two values that are read as 0 and 1; other values are rejected.", Read: valuesAs(&f.ValuesAs)},
	}
}

// decimal declares how texts write a fraction.
func (f *Fields) decimal() keytable.Key {
	return keytable.Key{Name: "decimal", Doc: "Decimal separator of texts.", Initial: strconv.Quote(string(f.Decimal)), Read: separator(&f.Decimal, `"." or ","`, ",.")}
}
