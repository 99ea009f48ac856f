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

// A Settings is the model's part of a config: how observations are learned, and what is told of them.
type Settings struct {
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
}

// Values of Settings.Transform.
const (
	Filter = "filter" // online: every observation as it comes
	Smooth = "smooth" // finished sessions, forward and backward
)

// Values of Settings.Records.
const (
	Brief = "brief" // without the fields that few people read
	Full  = "full"
)

// Values of Settings.Order.
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

// Switches say whether something is on for the keys that match patterns. The first that matches a key holds.
type Switches []Switch

// A Switch is for the keys that match its pattern.
type Switch struct {
	Match string
	On    bool
}

// Switches are what the exceptions say of a field, those that set it.
func (c *Settings) Switches(field func(KeyRule) *bool) (all Switches) {
	for _, k := range c.Keys {
		if on := field(k); on != nil {
			all = append(all, Switch{k.Match, *on})
		}
	}
	return all
}

// Of reports whether it is on for a key, or otherwise if no pattern matches.
func (s Switches) Of(key string, otherwise bool) bool {
	for _, is := range s {
		if domain.Matches(is.Match, key) {
			return is.On
		}
	}
	return otherwise
}

// A Session is what is smoothed as one.
type Session struct {
	Gap             time.Duration // ends it; 0 is that of each key, see keyed.SmoothConfig
	AllowedLateness time.Duration // after its end, in which it is still revised
	Max             int           // observations, above which it is cut
	By              []string      // columns or fields that tell sessions without times apart
}

// Clock is the zone in which people read times of the config: that of its intervals, else of its alarms,
// else Zone.
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
		return time.UTC // Parse has refused it
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

// seasonKeys are what a model says of its season.
type seasonKeys struct {
	seasons  []usual.Season
	zone     string
	holidays []string
}

// A Source is what settings go by of where observations come from. The zero one has an end, times in
// UTC, and values of any length.
type Source struct {
	Path      string   // of its keys in the config, which errors name; empty: Time is not looked at
	Time      []string // names of what a time is made of; empty: observations have none
	Values    []string // names of what a value is made of; nil: each observation brings its own length
	Zone      string   // of times without one; empty: UTC
	Trials    bool     // times are whole numbers of trials
	Unending  bool     // it goes on until it is stopped
	Watermark bool     // it says up to which time it has been read
	// Share has the source give two fields, the first of which is a share of the second. Nil: it does.
	Share func(of, to string)
}

// A Reading reads the settings of a config that may have other keys too. These are read along with Keys, and
// what has to hold of all of them is checked between the four checks, which are called in their order here.
type Reading struct {
	*keytable.Decoder
	Source Source // is set before the checks, Values before the last

	c *Settings
	// Of priors the nodes are kept, to be read last: what they must be depends on family and columns.
	priorNode  *yaml.Node
	keyPriors  map[*KeyRule]**yaml.Node
	warmUp     int
	season     seasonKeys // of the model
	keySeasons map[*KeyRule]*seasonKeys
	more       aggregateKeys
	quiet      []quietTime
}

// NewReading reads into c, which it sets to what no keys mean.
func NewReading(d *keytable.Decoder, c *Settings) *Reading {
	*c = Settings{
		Transform:      Filter,
		Top:            hafvf.DefaultMember().Top,
		BankForgetting: hafvf.DefaultForgetting,
		Order:          EventTime,
		Model:          Model{Scale: hafvf.Linear},
		Records:        Brief,
		Session:        Session{Max: keyed.DefaultMax},
	}
	return &Reading{Decoder: d, c: c, keyPriors: map[*KeyRule]**yaml.Node{}, season: seasonKeys{zone: "UTC"}, keySeasons: map[*KeyRule]*seasonKeys{}}
}

// Parse reads settings from YAML (JSON is YAML too), of observations from source, by a new decoder. Keys at the top
// that others own are passed over. The error joins a keytable.KeyError per mistake, in the order of the lines.
func Parse(by *keytable.Decoder, text []byte, others []string, source Source) (*Settings, error) {
	c := &Settings{}
	d := NewReading(by, c)
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

// Keys returns the keys of settings, in the order of their declaration.
func Keys() []keytable.Description {
	return keytable.Describe(NewReading(&keytable.Decoder{}, &Settings{}).Keys())
}

// maxRules is the maximum number of exceptions by key.
const maxRules = 10_000

// CheckModel checks the model, what follows it, and what is told of it.
func (d *Reading) CheckModel() {
	c := d.c
	if len(c.Keys) > maxRules {
		d.Fail("keys", "has %d exceptions; hafvf supports %d: let patterns such as pump-* match several keys", len(c.Keys), maxRules)
	}
	if c.Session.Gap == 0 && (d.Source.Unending || c.Session.AllowedLateness > 0) {
		c.Session.Gap = keyed.LeastGap
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

// CheckTimes checks what goes by times.
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

// Filter returns the settings of the filters of keys, without the names of the values.
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

// NamesOf are the names by which messages call values, of columns or fields of those names.
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

// PerSecond is what the unit of a rate ends with.
const PerSecond = "/s"

// UnitOf is the unit of observations, of values in that unit.
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

// SetLater returns the function that names what of the filter of a key a later exception sets than the first that matches it:
// that did not count while the first held whole.
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
		now, _ := settings(key)
		return before.Differ(now, true)
	}
}

// filterOf returns the settings of the filter, or of the filter of one key rule.
func (c *Settings) filterOf(prior map[string]any, warmUp int, season *usual.RhythmConfig, levels []hafvf.Beta, top float64, bank []hafvf.Member) hafvf.Config {
	f := hafvf.Config{Family: c.Model.Family, Prior: prior, Dim: c.Model.Dim, Bank: bank, WarmUp: warmUp, Season: season}
	if bank == nil && (levels != nil || top != 0) {
		f.Member = &hafvf.Member{Levels: levels, Top: top}
	}
	if c.Model.Scale != hafvf.Linear { // linear is left out of the settings of states
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
