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
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// Settings are the payload of a settings frame: a text, and what it goes by of where the observations come from.
type Settings struct {
	Text    string   `json:"text"`    // of CONFIG.md, YAML or JSON; what is not of the model is not used
	Name    string   `json:"name"`    // of the text, which errors name; default: settings
	Values  []string `json:"values"`  // names of the numbers of an observation; default: x
	Zone    string   `json:"zone"`    // of times without one; default: UTC
	Untimed bool     `json:"untimed"` // observations have no time
	// Unending says that observations come until the caller is stopped.
	Unending bool `json:"unending"`
}

// A Description is what a settings frame is answered.
type Description struct {
	Model   int      `json:"model"`
	Unused  []string `json:"unused"`  // keys of the text that do not concern the model
	Columns []string `json:"columns"` // of answers
	// Names are those of columns that have one of a few values: 0 is the first.
	Names    map[string][]string `json:"names"`
	Length   int                 `json:"length"`   // numbers of an observation; of events 0, any length that fits
	Order    string              `json:"order"`    // event_time or arrival
	Clocked  bool                `json:"clocked"`  // a key of which nothing comes may be told silent, or forgotten
	Full     bool                `json:"full"`     // records have all fields
	Zone     string              `json:"zone"`     // of the clock of alarms or intervals
	Settings string              `json:"settings"` // those that the meaning of states depends on
	// Patience is how long an observation waits after its time, and an interval after its end, in nanoseconds: by lateness
	// and aggregate.wait.
	Patience int64 `json:"patience"`
}

// A model is what settings make.
type model struct {
	cfg         keyed.Config
	layout      records.Layout
	description Description
	length      int // numbers of an observation
	outputs     int
	alerted     settings.Switches  // keys whose alarms are alerts
	estimators  []*keyed.Estimator // one per goroutine
	kept        kept
}

// elsewhere are the keys of a config that are the caller's business.
var elsewhere = []string{"source", "sink", "dead_letter", "alerts", "marks", "state", "runner", "incidents"}

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
	m.description.Full = c.Records == settings.Full
	m.description.Clocked = m.cfg.Silence != nil || m.cfg.Expire > 0
	m.cfg.Brief = c.Records == settings.Brief
	m.cfg.Values, m.cfg.Unit = c.NamesOf(s.Values), c.UnitOf("")
	all := []hafvf.Config{m.cfg.Filter}
	for _, k := range m.cfg.Keys {
		all = append(all, k.Filter)
	}
	if m.layout, err = records.NewLayout(all...); err != nil {
		return nil, err
	}
	m.layout.Brief, m.layout.Interval, m.layout.Events, m.layout.Quiet = m.cfg.Brief, c.Interval != 0, c.Aggregate != nil, c.Quiet != nil
	m.alerted = c.Switches(func(k settings.KeyRule) *bool { return k.Alerts })
	for range runtime.GOMAXPROCS(0) {
		est, err := keyed.NewEstimator(m.cfg)
		if err != nil {
			return nil, err
		}
		m.estimators = append(m.estimators, est)
	}
	bank, err := m.cfg.Filter.NewBank()
	if err != nil {
		return nil, err
	}
	of := bank.Model()
	m.length, m.outputs = of.Dim(), of.Outputs()
	if _, ok := of.(expfam.Sequential); ok {
		m.length = 1
	}
	m.kept.least = 4<<10 + 32*of.Len()*bank.Members()
	columns := sheet{names: []string{}}
	m.appendRow(&columns, &keyed.Estimate{})
	m.description.Columns, m.description.Settings = columns.names, m.cfg.AllSettings().String()
	m.description.Patience = m.estimators[0].MaxDelay().Nanoseconds()
	if m.layout.Detect {
		m.description.Names["detect_kind"], m.description.Names["detect_alarm"] = kinds, alarms
	}
	if c.Aggregate == nil {
		m.description.Length = m.length
	}
	return m, nil
}

// read reads the text, and says which keys of it are not used.
func (s *Settings) read() (c *settings.Settings, unused []string, err error) {
	unused, given, err := s.preview()
	if err != nil {
		return nil, nil, err
	}
	d := &keytable.Decoder{Name: s.Name}
	if !given {
		d.Overrides = []string{"model.family=normal", "model.prior=auto"}
	}
	source := settings.Source{Path: "source", Time: []string{"time"}, Values: s.Values, Zone: s.Zone, Unending: s.Unending}
	if s.Untimed {
		source.Time = nil
	}
	c, err = settings.Parse(d, []byte(s.Text), elsewhere, source)
	return c, unused, err
}

// preview goes through the text before it is read: which keys of it are not used, and whether a family or a prior is given
// anywhere. The error is of a file that it names, as the process opens none, and of sessions.
func (s *Settings) preview() (unused []string, given bool, err error) {
	refuse := func(line int, key, reason string) {
		if err == nil {
			err = &keytable.KeyError{File: s.Name, Line: line, Key: key, Reason: reason}
		}
	}
	var walk func(path string, n *yaml.Node)
	walk = func(path string, n *yaml.Node) {
		if path == "transform" && n.Value == settings.Smooth {
			refuse(n.Line, path, "must be filter: the program smooths, which looks back on whole sessions")
		}
		if n.Kind != yaml.MappingNode {
			for i, e := range n.Content {
				walk(keytable.Join(path, strconv.Itoa(i)), e)
			}
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, at := n.Content[i], keytable.Join(path, keytable.KeyName(n.Content[i].Value))
			given = given || k.Value == "family" || k.Value == "prior"
			if k.Value == "file" {
				refuse(k.Line, at, "the caller reads files: give what stands in it")
			}
			walk(at, n.Content[i+1])
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
	for _, name := range elsewhere {
		add(name, func(string, *yaml.Node) { unused = append(unused, name) })
	}
	(&keytable.Decoder{Name: s.Name}).Read([]byte(s.Text), keys) // Parse says what is wrong
	return unused, given, err
}
