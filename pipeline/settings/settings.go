package settings

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/pipeline/settings/keytable"
)

// Settings is the model's part of a config: how observations are learned, and when alarms are raised.
type Settings struct {
	Transform string // Filter or Smooth
	Model     Model
	Levels    []hafvf.Beta // bottom up; empty means no level; nil with Smooth means segments
	Top       float64      // γ in [0, 1]: fixed weight of the topmost level

	Bank           []hafvf.Member // replaces Levels and Top; nil for one filter
	BankForgetting float64
	Detect         *Detect              // nil: no detection
	Silence        *keyed.SilenceConfig // nil: silence is not reported
	Expire         time.Duration        // a key without a record for this time is forgotten; 0: never
	Zone           string               // zone of the model's season; without a season, zone of the source
	Keys           []KeyRule            // exceptions for keys, field by field
	Quiet          []keyed.QuietTime    // times in which nothing is learned or reported
	QuietFiles     []QuietFile          // files of further quiet times

	Aggregate *keyed.AggregateConfig // nil: each record is an observation

	Order    string // EventTime or Arrival
	Lateness time.Duration
	TimeUnit time.Duration // time in which the weight acts once; 0: per observation
	Session  Session       // for Smooth
	Records  string        // Brief or Full
	Interval float64       // for Filter: probability of the predictive interval; 0: none
	Odds     float64       // for Smooth: minimum odds of a change; 0: the family's default
	Walk     bool          // for Smooth: whether a level may walk or follow a line
}

// Values of Settings.Transform.
const (
	Filter = "filter" // online: one estimate per observation
	Smooth = "smooth" // finished sessions, forward and backward
)

// Values of Settings.Records.
const (
	Brief = "brief" // without the rarely used fields
	Full  = "full"
)

// Values of Settings.Order.
const (
	EventTime = "event_time" // order of event times per key
	Arrival   = "arrival"    // order of the source
)

// A Model is a family and its prior.
type Model struct {
	Family string
	// Prior holds the textbook parameters that the config sets: numbers as float64, vectors as []float64, matrices as
	// [][]float64, and bool. The family has defaults for the others.
	Prior map[string]any
	// Dim is the length of the observation vector, or the number of categories of categorical. It is from the config,
	// else the number of columns. 0 means that only the prior determines it.
	Dim int
	// WarmUp is the number of a key's first observations that set the prior; 0 if the config sets it.
	WarmUp int
	Season *usual.RhythmConfig // nil: none
	Scale  hafvf.Scale
}

// Detect holds the settings of detection and its alarms, and which alerts are permitted.
type Detect struct {
	hafvf.Detect
	keyed.AlarmConfig
	keyed.AlertConfig
}

// A KeyRule is an exception for the keys that match a pattern.
type KeyRule struct {
	Match  string
	Prior  map[string]any // nil: the model's prior
	WarmUp int            // see Model.WarmUp
	Season *usual.RhythmConfig
	Levels []hafvf.Beta
	Top    float64
	Bank   []hafvf.Member
	// Detect holds fields of detect. Alerts is false for keys whose alarms are not reported. For each field the first
	// matching rule that sets it wins.
	Detect keyed.AlertRule
	Alerts *bool
	// Sets lists the parts of the filter that the rule sets. For each part the first matching rule that sets it wins.
	Sets []keyed.FilterPart
}

// Switches turn something on or off for the keys that match patterns. The first match wins.
type Switches []Switch

// A Switch applies to the keys that match its pattern.
type Switch struct {
	Match string
	On    bool
}

// Switches returns the switches of the exceptions that set a field. field returns nil for an exception that does not
// set it.
func (c *Settings) Switches(field func(KeyRule) *bool) (switches Switches) {
	for _, k := range c.Keys {
		if enabled := field(k); enabled != nil {
			switches = append(switches, Switch{k.Match, *enabled})
		}
	}
	return switches
}

// For returns the switch of a key, or otherwise if no pattern matches.
func (s Switches) For(key string, otherwise bool) bool {
	for _, rule := range s {
		if domain.Matches(rule.Match, key) {
			return rule.On
		}
	}
	return otherwise
}

// A Session sets which records are smoothed together.
type Session struct {
	Gap             time.Duration // gap that ends a session; 0: chosen per key, see keyed.SmoothConfig
	AllowedLateness time.Duration // time after its end in which a session is still revised
	Max             int           // maximum number of observations; a longer session is cut
	By              []string      // columns or fields that separate sessions without times
}

// Clock returns the zone of the times that people read: the zone of the intervals, else of the alarms, else Zone.
func (c *Settings) Clock() *time.Location {
	name := c.Zone
	switch {
	case c.Aggregate != nil:
		name = c.Aggregate.Zone
	case c.Detect != nil:
		name = c.Detect.Zone
	}
	zone, err := domain.Zone(name)
	if err != nil {
		return time.UTC // Parse has already rejected it
	}
	return zone
}

func defaultDetect() *Detect {
	return &Detect{
		Detect:      hafvf.DefaultDetect(),
		AlarmConfig: keyed.DefaultAlarms(),
		AlertConfig: keyed.AlertConfig{Direction: keyed.Both},
	}
}

// seasonKeys are the keys of a model's season.
type seasonKeys struct {
	seasons  []usual.Season
	zone     string
	holidays []string
}

// A Source describes the observations where settings depend on it. The zero value has an end, times in UTC, and
// values of any length.
type Source struct {
	Path      string   // path of the source in the config, for errors; empty: Time is not checked
	Time      []string // names of the parts of a time; empty: observations have no times
	Values    []string // names of the values; nil: the length may differ between observations
	Zone      string   // zone of times without an offset; empty: UTC
	Trials    bool     // times are trial numbers
	Unbounded bool     // the source has no end
	Watermark bool     // the source reports up to which time it has been read
	// Share sets the two fields of a share in the source. nil: the source needs no setting.
	Share func(successes, trials string)
}

// A Reading reads the settings of a config that may have other keys too. Read the other keys along with Keys. The
// four checks must be called in their order here; checks across all keys go between them.
type Reading struct {
	*keytable.Decoder
	Source Source // set it before the checks; set Values before CheckPriors

	c *Settings
	// The priors are read last, because their parameters depend on family and columns.
	priorNode      *yaml.Node
	keyPriors      map[*KeyRule]**yaml.Node
	warmUp         int
	season         seasonKeys // season of the model
	keySeasons     map[*KeyRule]*seasonKeys
	aggregateInput aggregateKeys
	quiet          []quietTime
}

// NewReading returns a Reading into c. It sets c to the defaults of absent keys.
func NewReading(d *keytable.Decoder, c *Settings) *Reading {
	*c = Settings{
		Transform:      Filter,
		Top:            hafvf.DefaultMember().Top,
		BankForgetting: hafvf.DefaultForgetting,
		Order:          EventTime,
		Model:          Model{Scale: hafvf.Linear},
		Records:        Brief,
		Session:        Session{Max: keyed.DefaultMax},
		Walk:           true,
	}
	return &Reading{Decoder: d, c: c, keyPriors: map[*KeyRule]**yaml.Node{}, season: seasonKeys{zone: "UTC"}, keySeasons: map[*KeyRule]*seasonKeys{}}
}

// Parse reads settings from YAML or JSON, with a new decoder. Top-level keys in others are skipped. The error joins a
// keytable.KeyError per mistake, in the order of the lines.
func Parse(dec *keytable.Decoder, text []byte, others []string, source Source) (*Settings, error) {
	c := &Settings{}
	d := NewReading(dec, c)
	d.Source = source
	keys := d.Keys()
	for _, other := range others {
		keys = append(keys, keytable.Key{Name: other, Read: keytable.Later("", new(*yaml.Node))})
	}
	if d.Read(text, keys) {
		d.CheckModel()
		d.CheckTimes()
		d.CheckQuiet()
		d.CheckPriors()
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Keys describes the keys of settings in the order of their declaration.
func Keys() []keytable.Description {
	return keytable.Describe(NewReading(&keytable.Decoder{}, &Settings{}).Keys())
}

// maxRules is the maximum number of exceptions for keys.
const maxRules = 10_000

// CheckModel checks the model, the filters, and the settings that depend on them.
func (d *Reading) CheckModel() {
	c := d.c
	if len(c.Keys) > maxRules {
		d.Fail("keys", "has %d exceptions; hafvf supports %d: let patterns such as pump-* match several keys", len(c.Keys), maxRules)
	}
	if c.Session.Gap == 0 && (d.Source.Unbounded || c.Session.AllowedLateness > 0) {
		c.Session.Gap = keyed.MinGap
	}
	d.aggregate(c)
	d.filters(c)
	d.seasons(c)
	if c.Model.Family == "" && !d.Has("model.family") && !d.Failed("model") && !d.Failed("") {
		d.Fail("model.family", "missing; one of %s is required", strings.Join(expfam.Families(), ", "))
	}
	if err := hafvf.Scalable(c.Model.Family); err != nil && c.Model.Scale != hafvf.Linear && c.Model.Family != "" {
		d.Fail("model.scale", "%v", err)
	}
	d.checkTransform(c)
}

// CheckTimes checks the settings that need times.
func (d *Reading) CheckTimes() {
	c := d.c
	if c.Silence != nil && c.Transform == Filter && !d.Failed("transform") {
		if err := keyed.Order(c.Order).CheckTimes(); err != nil {
			d.Fail("silence", "%v", err)
		}
	}
	d.checkExpire(c)
	if c.Order == EventTime {
		reason := "an empty name means that there is no time, which needs order: arrival"
		if c.Transform == Smooth {
			reason = "an empty name means that there is no time, and sessions without times need order: arrival"
		}
		d.NeedTime(reason)
	}
}

// Filter returns the configuration of the filters of keys, without the names of the values.
func (c *Settings) Filter() keyed.Config {
	cfg := keyed.Config{
		Filter: c.filterOf(c.Model.Prior, c.Model.WarmUp, c.Model.Season, c.Levels, c.Top, c.Bank),
		Order:  keyed.Order(c.Order), Lateness: c.Lateness, TimeUnit: c.TimeUnit, Interval: c.Interval, Silence: c.Silence, Expire: c.Expire, Aggregate: c.Aggregate,
		NameKeys: true, Quiet: slices.Clone(c.Quiet),
	}
	for _, f := range c.QuietFiles {
		cfg.Quiet = append(cfg.Quiet, f.Times...)
	}
	for _, k := range c.Keys {
		if len(k.Sets) > 0 {
			cfg.Keys = append(cfg.Keys, keyed.Rule{Match: k.Match, Filter: c.filterOf(k.Prior, k.WarmUp, k.Season, k.Levels, k.Top, k.Bank), Sets: k.Sets})
		}
		if detect := k.Detect; detect != (keyed.AlertRule{}) || len(k.Sets) == 0 {
			detect.Match = k.Match
			cfg.AlertRules = append(cfg.AlertRules, detect)
		}
	}
	if d := c.Detect; d != nil {
		cfg.Alarms, cfg.Alerts = &d.AlarmConfig, d.AlertConfig
	} else if c.Silence != nil {
		alarms := keyed.DefaultAlarms()
		alarms.Zone = c.Zone
		cfg.Alarms = &alarms
	}
	return cfg
}

// NamesOf returns the names of the observation's values in messages. values are the names of the columns or fields.
func (c *Settings) NamesOf(values []string) (names []string) {
	switch {
	case c.Model.Family == "binomial" && len(values) == 2:
		return []string{values[0] + "/" + values[1]}
	case c.Aggregate == nil:
		return values
	case c.Aggregate.Value.Counts():
		return []string{string(c.Aggregate.Value)}
	}
	for _, v := range values {
		names = append(names, string(c.Aggregate.Value)+" of "+v)
	}
	return names
}

// PerSecond is the suffix of the unit of a rate.
const PerSecond = "/s"

// UnitOf returns the unit of observations, given the unit of the values.
func (c *Settings) UnitOf(values string) string {
	a := c.Aggregate
	switch {
	case a == nil:
		return values
	case a.Value == keyed.Count:
		return ""
	case a.Value == keyed.Rate:
		return PerSecond
	}
	return values + map[time.Duration]string{time.Second: PerSecond, time.Minute: "/min", time.Hour: "/h"}[a.Per]
}

// SetLater returns a function that names the parts of a key's filter that an exception after the first match sets.
// Earlier versions applied only the first match.
func (c *Settings) SetLater() func(key string) []string {
	cfg := c.Filter()
	settings := cfg.Settings()
	return func(key string) []string {
		var matching []keyed.Rule
		for _, r := range cfg.Keys {
			if r.Matches(key) {
				matching = append(matching, r)
			}
		}
		if len(matching) < 2 {
			return nil
		}
		whole := cfg
		whole.Keys = matching[:1]
		before, _ := whole.Settings()(key)
		after, _ := settings(key)
		return before.Diff(after, true)
	}
}

// filterOf returns the settings of the filter, or of the filter of one exception.
func (c *Settings) filterOf(prior map[string]any, warmUp int, season *usual.RhythmConfig, levels []hafvf.Beta, top float64, bank []hafvf.Member) hafvf.Config {
	f := hafvf.Config{Family: c.Model.Family, Prior: prior, Dim: c.Model.Dim, Bank: bank, WarmUp: warmUp, Season: season}
	if bank == nil && (levels != nil || top != 0) {
		f.Member = &hafvf.Member{Levels: levels, Top: top}
	}
	if c.Model.Scale != hafvf.Linear { // the settings of states leave out linear
		f.Scale = c.Model.Scale
	}
	if bank != nil {
		f.Forgetting = c.BankForgetting
	}
	if d := c.Detect; d != nil {
		f.Detect = &d.Detect
	}
	return f
}
