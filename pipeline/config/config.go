// Package config reads configs: YAML with the keys of one table, which checks every
// value and is the reference as well.
package config

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/promio"
	"hafvf/connectors/registry"
	"hafvf/connectors/webhook"
	"hafvf/hafvf"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
)

// A Config says what a pipeline reads, which filter it runs, and where its
// records go. Parse makes one; defaults are filled in and every value is
// checked.
type Config struct {
	Transform string // Filter or Smooth
	Model     Model
	Levels    []hafvf.Beta // bottom up; empty means no level, and nil of Smooth segments
	Top       float64      // γ in [0, 1]: the fixed weight of the topmost level

	Bank           []hafvf.Member // in place of Levels and Top; nil for one filter
	BankForgetting float64
	Detect         *Detect              // nil: no detection
	Silence        *keyed.SilenceConfig // nil: silence is not told
	Expire         time.Duration        // after which a key is forgotten; 0: never
	Zone           string               // that of the season of the model, else of the source
	Incidents      *Incidents           // nil: alarms of several keys are not grouped
	Keys           []KeyRule            // exceptions, field by field
	Quiet          []keyed.QuietTime    // in which nothing is learned or told
	QuietFiles     []QuietFile          // of more such times

	Aggregate *keyed.AggregateConfig // nil: a record is an observation

	Order    string // EventTime or Arrival
	Lateness time.Duration
	TimeUnit time.Duration // in which the weight acts once; 0: per observation
	Session  Session       // of Smooth
	Records  string        // Brief or Full
	Interval float64       // of Filter: probability of the predictive interval; 0: none
	Odds     float64       // of Smooth: in favour of a change, from which on it is one; 0: by the family

	State string // file of the filters' states; empty: none

	Source     Source
	Sink       Sink
	DeadLetter *Sink // nil: standard error, as JSON Lines
	Marks      *Sink // which is read: File or Kafka; nil: none
	Alerts     []Receiver
	Runner     Runner
}

// Values of Config.Transform.
const (
	Filter = "filter" // online: every observation as it comes
	Smooth = "smooth" // finished sessions, forward and backward
)

// Incidents says how alarms of many keys become incidents, as package incidents does.
type Incidents struct {
	Budget     time.Duration // in which one false incident is allowed on average
	Separators string        // of the prefixes of keys
	By         []string      // labels of keys that are series, in place of separators
	Single     int           // pages a week of alarms in no incident
	Zone       string        // of the hours of the day; empty for UTC
}

// Values of Config.Records.
const (
	Brief = "brief" // without the fields that few people read
	Full  = "full"
)

// A Session is what is smoothed as one.
type Session struct {
	Gap             time.Duration // ends it; 0 is that of each key, see keyed.SmoothConfig
	AllowedLateness time.Duration // after its end, in which it is still revised
	Max             int           // observations, above which it is cut
	By              []string      // columns or fields that tell sessions without times apart
}

// Values of Config.Order.
const (
	EventTime = "event_time" // per key in the order of event times
	Arrival   = "arrival"    // as the source gives them
)

// Trial is the TimeFormat of whole numbers of trials, which are no times.
const Trial = "trial"

// Clock is the zone in which people read times of the config: that of its intervals, else of its alarms,
// else Zone.
func (c *Config) Clock() *time.Location {
	name := c.Zone
	switch {
	case c.Aggregate != nil:
		name = c.Aggregate.Zone
	case c.Detect != nil:
		name = c.Detect.Zone
	}
	zone, err := domain.Zone(name)
	if err != nil {
		return time.UTC // Parse has refused it
	}
	return zone
}

// SessionOrder is what a session of Smooth goes by.
func (c *Config) SessionOrder() keyed.Order {
	if f, _ := c.Source.fields(); f.TimeFormat == Trial {
		return keyed.Trials
	}
	return keyed.Order(c.Order)
}

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
	Season *usual.RhythmConfig // nil for none
	Scale  hafvf.Scale
}

// Detect are the settings of detection, of its alarms, and of which are permitted.
type Detect struct {
	hafvf.Detect
	keyed.AlarmConfig
	keyed.AlertConfig
}

// A KeyRule is an exception for the keys that match a pattern.
type KeyRule struct {
	Match  string
	Prior  map[string]any // nil: as Model has it
	WarmUp int            // as in Model
	Season *usual.RhythmConfig
	Levels []hafvf.Beta
	Top    float64
	Bank   []hafvf.Member
	// Detect are the fields of detect, and Alerts is false of keys of which nobody is told. For each of these the
	// first rule that matches a key and sets it holds too.
	Detect keyed.AlertRule
	Alerts *bool
	// Sets are the parts of the filter that the rule sets. Of each the first rule that matches a key and sets it holds.
	Sets []keyed.FilterPart
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
var origins = []func(*Source) []key{(*Source).filesKeys, (*Source).kafkaKeys, (*Source).prometheusKeys}

func (s *Source) keys() (all []key) {
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

// columns returns the fields of the value and the key that names them; nil for a
// source whose records bring their own shape.
func (s *Source) columns() (values []string, path string) {
	f, path := s.fields()
	if path == "" || f.Values == nil || len(f.Values) == 1 && s.is(SourceKind.shaped) {
		return nil, ""
	}
	return f.Values, path + ".values"
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
	At      string            // the path of its keys in the config: alerts, or alerts.0
	Kinds   []string          // of alarms
	Ends    bool              // recovered is of values too: kinds is written out, and names it
	Beliefs []string          // kinds of beliefs
	Keys    string            // pattern; empty: all
	Except  string            // pattern of keys that are not its; empty: none
	Labels  map[string]string // that each alert has besides its own
	MaxAge  time.Duration     // above which an alert is not sent; 0: none is too old
	Digest  time.Duration     // of the alarms in no incident; 0: none
	// Few are the kinds of alarms of fewer than FewKeys keys, nil if they are Kinds. NoFew: these have no
	// digest.
	Few   []string
	NoFew bool
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

// maxConfig is the largest config, in bytes, that Parse looks at.
const maxConfig = 1 << 20

// Parse reads a config from YAML (JSON is YAML too) after applying the
// overrides in set, in order, to it. An override is "a.b=c": a path of keys and
// list indexes, and a value in YAML.
//
// Every value is checked. The error joins a KeyError per mistake, in the order
// of the lines; name is the file that they name.
func Parse(name string, text []byte, set []string) (*Config, error) {
	c := defaults()
	d := &decoder{name: name, set: set, at: map[string]int{}}
	root := d.tree(text)
	if root != nil {
		nodes := newPriorNodes()
		d.at[""] = root.Line
		d.mapping("", root, c.keys(nodes))
		d.layout(c)
		if c.Session.Gap == 0 && (c.Source.Unending() || c.Session.AllowedLateness > 0) {
			c.Session.Gap = keyed.LeastGap
		}
		d.aggregate(c, nodes.aggregate)
		d.filters(c, nodes)
		d.seasons(c, nodes)
		d.check(c)
		d.checkQuiet(c, nodes.quiet)
		d.joinedPatterns(c)
		d.receivers(c)
		d.priors(c, nodes)
	}
	if len(d.errs) > 0 {
		return nil, d.join()
	}
	return c, nil
}

// defaults are what the config of no keys means.
func defaults() *Config {
	return &Config{
		Transform:      Filter,
		Top:            hafvf.DefaultMember().Top,
		BankForgetting: hafvf.DefaultForgetting,
		Order:          EventTime,
		Model:          Model{Scale: hafvf.Linear},
		Records:        Brief,
		Session:        Session{Max: keyed.DefaultMax},
		Sink:           Sink{File: &File{Format: connectors.JSONLines, Path: "-"}},
		Runner:         Runner{Name: Direct},
	}
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

func defaultDetect() *Detect {
	return &Detect{
		Detect:      hafvf.DefaultDetect(),
		AlarmConfig: keyed.DefaultAlarms(),
		AlertConfig: keyed.AlertConfig{Direction: keyed.Both},
	}
}

// priorNodes are what the config gives as priors. They are read last: what they must
// be depends on family and columns. What goes elsewhere once all is read stands here
// too.
type priorNodes struct {
	model   *yaml.Node
	keys    map[*KeyRule]**yaml.Node
	warmUp  int
	season  seasonKeys // of the model
	seasons map[*KeyRule]*seasonKeys
	// aggregate are keys of aggregate that others decide on.
	aggregate *aggregateKeys
	quiet     []quietTime
}

func newPriorNodes() *priorNodes {
	return &priorNodes{keys: map[*KeyRule]**yaml.Node{}, season: seasonKeys{zone: "UTC"}, seasons: map[*KeyRule]*seasonKeys{}, aggregate: &aggregateKeys{}}
}

// seasonKeys are what a model says of its season.
type seasonKeys struct {
	seasons  []usual.Season
	zone     string
	holidays []string
}
