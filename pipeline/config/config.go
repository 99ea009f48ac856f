// Package config reads configs: the settings of the model, and the source, sinks and runner.
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

// A Config has the settings of a pipeline: its source, its transform and its sinks. Parse returns a Config whose
// defaults are filled in and whose values are checked.
type Config struct {
	settings.Settings
	Incidents *Incidents // nil: alarms are not grouped
	State     string     // path of the file of states; empty: none

	Source     Source
	Sink       Sink
	DeadLetter *Sink // nil: standard error, as JSON Lines
	Marks      *Sink // where marks are read: File or Kafka; nil: none
	Alerts     []Receiver
	Runner     Runner
}

// Trial is the TimeFormat of whole trial numbers. They are not times.
const Trial = "trial"

// Filter returns the settings of the filters of keys, without the names of the values.
func (c *Config) Filter() keyed.Config {
	cfg := c.Settings.Filter()
	if p := c.Source.Prometheus(); p != nil {
		cfg.Lookback = p.Lookback
	}
	return cfg
}

// SessionOrder returns the order of the records in a session of Smooth.
func (c *Config) SessionOrder() keyed.Order {
	if f, _ := c.Source.fields(); f.TimeFormat == Trial {
		return keyed.Trials
	}
	return keyed.Order(c.Order)
}

// A Source is the source of records.
type Source struct {
	Origins []SourceKind // exactly one in a valid config
}

// A SourceKind is a kind of source: Files, Kafka or Prometheus.
type SourceKind interface {
	fields() (f *Fields, path string) // the fields of a record, and the path of their keys; nil if its records have a fixed form
	shaped() bool                     // each record has its own number of values
	unbounded() bool                  // the source continues until it is stopped
	check(d *decoder, c *Config)      // checks combinations of keys, and gives sinks what they need from the source
	checkFlink(d *decoder)            // refuses what the runner flink does not support
}

// origins declare the kinds of source, one per row.
var origins = []func(*Source) []keytable.Key{(*Source).filesKeys, (*Source).kafkaKeys, (*Source).prometheusKeys}

func (s *Source) keys() (keys []keytable.Key) {
	for _, declare := range origins {
		keys = append(keys, declare(s)...)
	}
	return keys
}

func (s *Source) set(o SourceKind) func() { return func() { s.Origins = append(s.Origins, o) } }

// originOf returns the origin of type O, nil if the source has none.
func originOf[O SourceKind](s *Source) (origin O) {
	for _, o := range s.Origins {
		if o, ok := o.(O); ok {
			return o
		}
	}
	return origin
}

func (s *Source) anyOrigin(condition func(SourceKind) bool) bool {
	return slices.ContainsFunc(s.Origins, condition)
}

// Unbounded reports whether the source continues until it is stopped.
func (s *Source) Unbounded() bool { return s.anyOrigin(SourceKind.unbounded) }

// fields returns the fields of the source's records, and the path of their keys. Without configurable fields it returns
// empty Fields and "".
func (s *Source) fields() (f *Fields, path string) {
	for _, o := range s.Origins {
		if f, path := o.fields(); f != nil {
			return f, path
		}
	}
	return &Fields{}, ""
}

// columns returns the fields of the value. It returns nil if each record has its own number of values.
func (s *Source) columns() []string {
	f, path := s.fields()
	if path == "" || len(f.Values) == 1 && s.anyOrigin(SourceKind.shaped) {
		return nil
	}
	return f.Values
}

// Unit returns the unit of the values, "" if it is unknown.
func (s *Source) Unit() string {
	if f, _ := s.fields(); f.Unit != AnyUnit {
		return f.Unit
	}
	return ""
}

// A Sink is a destination of records. Exactly one of File, Kafka, Webhook, Discard and Prometheus is set.
type Sink struct {
	File  *File
	Kafka *kafkaio.Sink
	// Format, for Kafka, is registry.Avro with a Registry, or JSON if it is empty.
	Format   string
	Registry *registry.Config
	Webhook  *webhook.Sink // for alerts
	Discard  bool          // records are discarded
	// Prometheus gets scores by remote write; it is for estimates only.
	Prometheus *promio.Sink
}

// A Receiver is a destination of alerts, with the choice of alerts for it.
type Receiver struct {
	Sink
	Choice
	Path   string        // path of its keys in the config: alerts, or alerts.0
	MaxAge time.Duration // maximum age of an alert; 0: no limit
}

// A Choice selects the alerts for a receiver.
type Choice struct {
	Kinds        []string          // kinds of alarms
	SendResolved bool              `json:"Ends"` // recovered includes values: the config lists it in kinds
	Beliefs      []string          // kinds of beliefs
	Keys         string            // pattern of its keys; empty: all
	Except       string            `json:",omitempty"` // pattern of excluded keys; empty: none
	Labels       map[string]string `json:",omitempty"` // additional labels of each alert
	Digest       time.Duration     `json:",omitempty"` // period of the digest of alarms outside incidents; 0: no digest
	// SmallFleetKinds replaces Kinds while the fleet has had fewer than FewKeys keys; nil: Kinds applies.
	// NoSmallFleetDigest disables the digest of such a fleet.
	SmallFleetKinds    []string `json:"Few,omitempty"`
	NoSmallFleetDigest bool     `json:"NoFew,omitempty"`
}

// Layouts of records.
const (
	Long   = "long"   // a record is an observation
	Wide   = "wide"   // a record has an observation of another key in each column of values
	Series = "series" // a record has lists of times and values of one key
)

// AnyUnit is the Unit of values with arbitrary units.
const AnyUnit = "any"

// Fields describe where the parts of an observation are in a record, and how they are written. They are columns of a
// table, or fields of a JSON object, whose names may be dotted paths.
type Fields struct {
	Key    []string // joined with "/"; a name may be a PathPart; empty: all records are one series
	Time   []string // joined with a blank; see UsesRecordTime; empty: records have no time
	Values []string // several make one vector
	By     []string `json:",omitempty"` // By of the session
	Carry  []string `json:",omitempty"` // names or, for Files, patterns of columns that records repeat
	Layout string   // Long, Wide or Series
	// Columns are the columns of the layout wide, names or patterns. Values then names the value of a column.
	Columns []string

	Zone       string // of times without an offset
	TimeFormat string // of times that are not recognized without it; empty: none
	Untimed    bool   `json:",omitempty"` // times are not read
	Missing    []string
	Decimal    rune // decimal separator of texts
	// Unit is the unit after numbers in texts; AnyUnit allows all. Empty: none.
	Unit string `json:",omitempty"`
	// Thousands separates groups of three digits in texts; 0: none.
	Thousands rune `json:",omitempty"`
	// ValuesAs are two texts that are read as 0 and 1; nil: values are numbers.
	ValuesAs []string `json:",omitempty"`
	// MaxAhead is the maximum time that a record may be ahead of the clock; 0: no limit.
	MaxAhead time.Duration
	// Forget makes a record of a topic without a value forget its key.
	Forget bool `json:",omitempty"`
}

// A File is a file that a sink writes; the path "-" is standard output.
type File struct {
	Format string // as in Files
	Path   string
}

// Parse reads a config in YAML or JSON, after it has applied the overrides in set in their order. An override is
// "a.b=c": a path of keys and list indexes, and a value in YAML.
//
// Parse checks every value. The error joins a KeyError for each mistake, at most 50: first those of the text in the
// order of their lines, then those of overrides. name is the file name in these errors.
func Parse(name string, text []byte, set []string) (*Config, error) {
	secrets := []string{"sasl", "passw"}
	for _, form := range webhook.Forms {
		secrets = append(secrets, form.Name)
	}
	// A misspelt key of Kafka may belong to a login.
	c, d, keys := begin(&keytable.Decoder{Name: name, Overrides: set, Secrets: secrets, Secretive: []string{"kafka"}})
	if d.Read(text, keys) {
		d.layout(c)
		d.setSource(c)
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

// begin returns a config with the defaults, its decoder, and the keys that the decoder reads.
func begin(base *keytable.Decoder) (*Config, *decoder, []keytable.Key) {
	c := &Config{Sink: Sink{File: &File{Format: connectors.JSONLines, Path: "-"}}, Runner: Runner{Name: Direct}}
	d := &decoder{settings.NewReading(base, &c.Settings)}
	return c, d, c.keys(d.Keys())
}

// AlarmKinds returns all kinds of alarms.
func AlarmKinds() []string {
	return []string{string(usual.NoveltyAlarm), string(usual.ChangeAlarm), keyed.SilentAlarm, keyed.RecoveredAlarm, incidents.Kind}
}

// FewKeys is the number of keys of a fleet from which on the default kinds are pagerKinds.
const FewKeys = 20

// pagerKinds are the default kinds of receivers by HTTP if alarms are grouped into incidents.
func pagerKinds() []string { return []string{incidents.Kind, keyed.SilentAlarm, keyed.RecoveredAlarm} }

// pagerDigest is the default period of the digest that lists the other alarms.
const pagerDigest = 24 * time.Hour

// A decoder reads a config.
type decoder struct{ *settings.Reading }

// setSource gives the settings what they need from the source.
func (d *decoder) setSource(c *Config) {
	f, path := c.Source.fields()
	d.Source = settings.Source{
		Path: path, Time: f.Time, Zone: f.Zone, Trials: f.TimeFormat == Trial, Unbounded: c.Source.Unbounded(), Watermark: c.Source.Kafka() != nil,
		Share: func(ofField, toField string) {
			f.Values = []string{ofField, toField}
			d.Refuse(path+".values", "a share uses the fields aggregate.of and aggregate.to instead")
			if c.Source.Prometheus() != nil {
				d.Fail("aggregate.value", "a share takes two fields of a record, and a point is one number: divide in the query")
			}
			if f.Layout != Long && f.Layout != "" {
				d.Fail(path+".layout", "a share takes two fields of a record: layout long")
			}
		},
	}
}

// fields sets the fields that the transform and the aggregation need.
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

// layout sets the columns of the layout wide, and checks the layout series.
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

// checkNumbers refuses number formats that contradict each other.
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
			d.Fail(keytable.Join(path, name), "needs names in values: a pattern there selects only columns of plain numbers")
		}
		if d.Has(keytable.Join(path, name)) && name != "values_as" && f.ValuesAs != nil && !d.Failed(path+".values_as") {
			d.Fail(keytable.Join(path, name), "is for numbers, but values_as lists the only values: leave out one of them")
		}
	}
	family := c.Model.Family
	if f.Unit != "" && (family == "bernoulli" || family == "categorical") {
		d.Fail(path+".unit", "is for measurements; %s has choices", family)
	}
	if f.ValuesAs == nil || d.Failed(path+".values_as") {
		return
	}
	if family == "binomial" || family == "exponential" {
		d.Fail(path+".values_as", "makes 0 and 1, and %s has other values", family)
	}
	for _, text := range f.ValuesAs {
		if text == "" || strings.EqualFold(text, "nan") || slices.Contains(f.Missing, text) {
			d.Fail(path+".values_as", "%s is a missing value", message.Quote(text))
		}
	}
}

func delimiter(dst *rune) keytable.ValueParser {
	p := keytable.Parsed("one character", func(s string) error {
		r := []rune(s)
		if len(r) != 1 || strings.ContainsRune("\r\n\"\x00\uFFFD", r[0]) {
			return fmt.Errorf("must be one character, and neither a quote nor a line break, not %s", message.Quote(s))
		}
		*dst = r[0]
		return nil
	})
	p.Initial = strconv.Quote(string(*dst))
	return p
}

// separator reads one of the allowed characters in numbers. In data, a blank also stands for no-break and thin spaces,
// and ' for ’. takes describes the allowed characters.
func separator(dst *rune, takes, allowed string) keytable.ValueParser {
	return keytable.Parsed(takes, func(s string) error {
		normalized := strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(s)
		if len(normalized) != 1 || !strings.Contains(allowed, normalized) {
			return fmt.Errorf("must be %s, not %s", takes, message.Quote(s))
		}
		*dst = rune(normalized[0])
		return nil
	})
}

// unit reads the unit after a number.
func unit(dst *string) keytable.ValueParser {
	return keytable.Checked(dst, `text, such as "°C", or any`, func(s string) error {
		if s != strings.TrimSpace(s) || strings.ContainsAny(s[:1], "0123456789.,+-") {
			return fmt.Errorf("must not start like a number, nor start or end with a blank, as %s does", message.Quote(s))
		}
		return nil
	})
}

// valuesAs reads two different values.
func valuesAs(dst *[]string) keytable.ValueParser {
	r := missing(dst).WithCheck(func() error {
		if values := *dst; len(values) != 2 || values[0] == values[1] {
			return errors.New("must be two different values, the first of which is 0 and the second 1")
		}
		return nil
	})
	r.Takes = "two values, such as [off, on]"
	return r
}

// keyFields reads the name of a field or a part of the path, a list of these, or none.
func keyFields(dst *[]string) keytable.ValueParser {
	several := keytable.ListOf("names", dst, keyPart).WithCheck(func() error {
		if len(*dst) == 0 {
			return errors.New("must name at least one of the names")
		}
		return nil
	})
	initial := strconv.Quote(strings.Join(*dst, ""))
	return keytable.ValueParser{Takes: "name, {path: part}, list of these, or none", Initial: initial, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			several.Read(d, path, n)
			return
		}
		var name string
		switch {
		case valueIn(n, "path") != nil:
			*dst = make([]string, 1)
			keyPart(&(*dst)[0]).Read(d, path, n)
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

// timeFields reads a name, a list of names, or {record: true}. An empty name means none.
func timeFields(dst *[]string) keytable.ValueParser {
	r := keytable.OneOrMore("names", dst)
	readNames := r.Read
	r.Takes += ", or {record: true}"
	r.Initial = strconv.Quote(strings.Join(*dst, ""))
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" {
			*dst = nil
			return
		}
		if record := valueIn(n, "record"); record != nil && record.Value == "true" {
			*dst = []string{recordTime}
			return
		}
		readNames(d, path, n)
	}
	return r
}

// missing reads a list of texts, including those that YAML would read as numbers or null.
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

// timeFormat reads the format of a time.
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

// keys declares the keys that describe a record. noun is "Column" or "Field".
func (f *Fields) keys(noun string) []keytable.Key {
	maxAheadDefault := ""
	if f.MaxAhead == 0 {
		maxAheadDefault = "none"
	}
	return []keytable.Key{
		{Name: "key", Doc: "Column or field of the key. A list is joined with \"/\", with %25 for % and %2F for / in its parts. none makes one series. For files, {path: \"site=*\"} is the text of * in the one part of path that matches, {path: 2} the second part. In JSON, a.b is field b of a; labels become a key as in Prometheus.", Read: keyFields(&f.Key)},
		{Name: "time", Doc: "Column or field of the time. A list is joined with spaces. Empty means no time, which needs order: arrival. For kafka, {record: true} is the timestamp of the Kafka record.", Read: timeFields(&f.Time)},
		{Name: "values", Doc: "Columns or fields of the value. Several columns make one vector.", Read: keytable.OneOrMore(strings.ToLower(noun)+"s", &f.Values)},
		{Name: "zone", Doc: "Time zone of times without an offset. In an hour that occurs twice, the order of a key's records decides.", Read: keytable.Zone(&f.Zone)},
		{Name: "time_format", Doc: "Format of times, except dates, ISO 8601, HTTP times and Unix times. Without a day, the day is the first. %q is a quarter, %G-W%V an ISO week. " + times.Unix + " reads numbers as Unix times, " + times.Spreadsheet + " as days since 1899-12-30 (else refused), " + Trial + " (smooth) as whole trial numbers.", Read: timeFormat(&f.TimeFormat)},
		{Name: "max_ahead", Doc: "How far a time may be ahead of this computer's clock. Records further ahead are rejected. A key that has learned such a time is rewound at its fifth late record in a row.", Initial: maxAheadDefault, Read: keytable.DurationOr("none", &f.MaxAhead)},
		{Name: "missing", Doc: "Texts of a missing value, in addition to an empty text, null and NaN.", Read: missing(&f.Missing)},
		{Name: "unit", Doc: "Unit next to numbers in texts; numbers with another unit are rejected. any accepts all units and ignores them: 1 kB and 1 MB are both 1.", Read: unit(&f.Unit)},
		{Name: "thousands", Doc: "Separator of groups of three digits.", Read: separator(&f.Thousands, `",", ".", "'" or " "`, ",.' ")},
		{Name: "values_as", Doc: "Two values that are read as 0 and 1; other values are rejected.", Read: valuesAs(&f.ValuesAs)},
	}
}

// decimal declares the key for the decimal separator.
func (f *Fields) decimal() keytable.Key {
	return keytable.Key{Name: "decimal", Doc: "Decimal separator of texts.", Initial: strconv.Quote(string(f.Decimal)), Read: separator(&f.Decimal, `"." or ","`, ",.")}
}
