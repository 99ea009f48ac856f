package serve

import (
	"cmp"
	"encoding/json"
	"runtime"
	"strconv"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/internal/times"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// Settings are the payload of a settings frame.
type Settings struct {
	Text    string   `json:"text"`    // YAML or JSON with keys of CONFIG.md; keys that do not concern the model are not used
	Name    string   `json:"name"`    // name of the text in errors; default: settings
	Values  []string `json:"values"`  // names of the numbers of an observation; default: x
	Zone    string   `json:"zone"`    // zone of times without an offset; default: UTC
	Untimed bool     `json:"untimed"` // observations have no time
	// Unbounded is true if observations come until the caller is stopped.
	Unbounded bool `json:"unending"`

	sessions  bool     // transform: smooth is allowed
	overrides []string // see keytable.Decoder
}

// A Description is the answer to a settings frame.
type Description struct {
	Model   int      `json:"model"`
	Unused  []string `json:"unused"`  // keys of the text that do not concern the model
	Columns []string `json:"columns"` // columns of answers
	// Names are the values of columns with names, by column. A number in the column is an index into its names.
	Names    map[string][]string `json:"names"`
	Length   int                 `json:"length"`   // numbers of an observation; 0 for events, whose length may differ
	Order    string              `json:"order"`    // event_time or arrival
	Clocked  bool                `json:"clocked"`  // a key without new observations may become silent or expire
	WarmUp   int                 `json:"warm_up"`  // observations of the warm-up; 0: none
	Full     bool                `json:"full"`     // records have all fields
	Zone     string              `json:"zone"`     // zone of alarms or intervals
	Settings string              `json:"settings"` // the settings that give states their meaning
	// Patience is the longest wait of an observation after its time, or of an interval after its end, in nanoseconds:
	// from lateness and aggregate.wait.
	Patience int64 `json:"patience"`
}

// A model is the model of a settings frame, with its estimators.
type model struct {
	cfg         keyed.Config
	layout      records.Layout
	description Description
	length      int // numbers of an observation
	outputs     int
	alerted     settings.Switches  // keys whose alarms are alerts
	estimators  []*keyed.Estimator // one per goroutine; nil before its first use
	times       *times.Parser      // of texts
	settings    string             // payload of the settings frame
	states      *stateCache        // of all models
	stateBytes  int                // estimated size of a decoded state, without the part that grows with its encoding
}

// estimator returns the estimator of a goroutine.
func (m *model) estimator(worker int) *keyed.Estimator {
	if m.estimators[worker] == nil {
		m.estimators[worker], _ = keyed.NewEstimator(m.cfg) // newModel has made the first one
	}
	return m.estimators[worker]
}

// callerKeys are the keys of a config that concern the caller, not the model.
var callerKeys = []string{"source", "sink", "dead_letter", "alerts", "marks", "state", "runner", "incidents"}

func newModel(payload []byte) (*model, error) {
	var s Settings
	if err := json.Unmarshal(payload, &s); err != nil {
		return nil, err
	}
	if s.Name = cmp.Or(s.Name, "settings"); len(s.Values) == 0 {
		s.Values = []string{"x"}
	}
	c, unused, err := s.read()
	if err != nil {
		return nil, err
	}
	m := &model{cfg: c.Filter(), description: Description{Unused: unused, Order: c.Order, Zone: c.Clock().String(), Names: map[string][]string{}}}
	if m.times, err = times.NewParser(s.Zone, ""); err != nil {
		return nil, err
	}
	m.description.WarmUp = m.cfg.Filter.WarmUp
	m.description.Full = c.Records == settings.Full
	m.description.Clocked = m.cfg.Silence != nil || m.cfg.Expire > 0
	m.cfg.OmitPosterior = c.Records == settings.Brief
	m.cfg.Values, m.cfg.Unit = c.NamesOf(s.Values), c.UnitOf("")
	filters := []hafvf.Config{m.cfg.Filter}
	for _, k := range m.cfg.Keys {
		filters = append(filters, k.Filter)
	}
	if m.layout, err = records.NewLayout(filters...); err != nil {
		return nil, err
	}
	m.layout.Brief, m.layout.Interval, m.layout.Events, m.layout.Quiet = m.cfg.OmitPosterior, c.Interval != 0, c.Aggregate != nil, c.Quiet != nil
	m.alerted = c.Switches(func(k settings.KeyRule) *bool { return k.Alerts })
	m.estimators = make([]*keyed.Estimator, runtime.GOMAXPROCS(0))
	if m.estimators[0], err = keyed.NewEstimator(m.cfg); err != nil {
		return nil, err
	}
	bank, err := m.cfg.Filter.NewBank()
	if err != nil {
		return nil, err
	}
	family := bank.Model()
	m.length, m.outputs = family.Dim(), family.Outputs()
	if _, ok := family.(expfam.Sequential); ok {
		m.length = 1
	}
	m.stateBytes = 4<<10 + 32*family.Len()*bank.Members()
	header := columns{names: []string{}}
	m.appendRow(&header, &keyed.Estimate{})
	m.description.Columns, m.description.Settings = header.names, m.cfg.AllSettings().String()
	m.description.Patience = m.estimators[0].MaxDelay().Nanoseconds()
	if m.layout.Detect {
		m.description.Names["detect_kind"], m.description.Names["detect_alarm"], m.description.Names["detect_episode_state"] = kinds, alarms, states
	}
	if c.Aggregate == nil {
		m.description.Length = m.length
	}
	return m, nil
}

// read parses the text and returns the keys that are not used.
func (s *Settings) read() (c *settings.Settings, unused []string, err error) {
	unused, hasModel, err := s.preview()
	if err != nil {
		return nil, nil, err
	}
	d := &keytable.Decoder{Name: s.Name, Overrides: s.overrides}
	if !hasModel {
		d.Overrides = append(d.Overrides, "model.family=normal", "model.prior=auto")
	}
	source := settings.Source{Path: "source", Time: []string{"time"}, Values: s.Values, Zone: s.Zone, Unbounded: s.Unbounded}
	if s.Untimed {
		source.Time = nil
	}
	c, err = settings.Parse(d, []byte(s.Text), callerKeys, source)
	return c, unused, err
}

// preview returns the keys of the text that are not used, and whether the text sets a family or a prior. It refuses the
// names of files, because the process opens none, and transform: smooth.
func (s *Settings) preview() (unused []string, hasModel bool, err error) {
	refuse := func(line int, key, reason string) {
		if err == nil {
			err = &keytable.KeyError{File: s.Name, Line: line, Key: key, Reason: reason}
		}
	}
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		if path == "transform" && n.Value == settings.Smooth && !s.sessions {
			refuse(n.Line, path, "must be filter: hafvf-serve does not smooth sessions")
		}
		if n.Kind != yaml.MappingNode {
			for i, e := range n.Content {
				walk(keytable.Join(path, strconv.Itoa(i)), e)
			}
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, key := n.Content[i], keytable.Join(path, keytable.KeyName(n.Content[i].Value))
			hasModel = hasModel || k.Value == "family" || k.Value == "prior"
			if k.Value == "file" {
				refuse(k.Line, key, "hafvf-serve opens no files: give the content of the file")
			}
			walk(key, n.Content[i+1])
		}
	}
	unused = []string{}
	var keys []keytable.Key
	add := func(name string, read func(path string, n *yaml.Node)) {
		keys = append(keys, keytable.Key{Name: name, Read: keytable.ValueParser{Read: func(_ *keytable.Decoder, path string, n *yaml.Node) { read(path, n) }}})
	}
	for _, k := range settings.Keys() {
		add(k.Path, walk)
	}
	for _, name := range callerKeys {
		add(name, func(string, *yaml.Node) { unused = append(unused, name) })
	}
	(&keytable.Decoder{Name: s.Name}).Read([]byte(s.Text), keys) // settings.Parse reports errors
	return unused, hasModel, err
}
