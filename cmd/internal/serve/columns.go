package serve

import (
	"math"
	"slices"
	"strconv"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// The names of columns with names. A number in such a column is an index into them.
var (
	kinds  = []string{string(hafvf.None), string(hafvf.Outlier), string(hafvf.Change), string(hafvf.Revision)}
	alarms = []string{string(usual.NoveltyAlarm), string(usual.ChangeAlarm)}
	states = []string{string(keyed.EpisodeOpen), string(keyed.EpisodeWorse), string(keyed.EpisodeClosed)}
)

// columns collects the fields of records as numbers, row by row. NaN is null. If names is not nil, it collects the
// names of the columns instead.
type columns struct {
	names   []string
	numbers []float64
}

func (c *columns) one(name string, v float64) {
	if c.names != nil {
		c.names = append(c.names, name)
	} else if math.IsInf(v, 0) { // null in records
		c.numbers = append(c.numbers, math.NaN())
	} else {
		c.numbers = append(c.numbers, v)
	}
}

// vector adds n numbers; numbers that v does not have are null. If numbered is true, the names of the columns end in an
// index.
func (c *columns) vector(name string, n int, numbered bool, v []float64) {
	for i := range n {
		switch {
		case c.names != nil && numbered:
			c.one(name+"_"+strconv.Itoa(i), 0)
		case i < len(v):
			c.one(name, v[i])
		default:
			c.one(name, math.NaN())
		}
	}
}

func (c *columns) flag(name string, set bool) {
	v := 0.
	if set {
		v = 1
	}
	c.one(name, v)
}

// choice adds the index of value in names, or null.
func (c *columns) choice(name string, names []string, value string) {
	v := math.NaN()
	if i := slices.Index(names, value); i >= 0 {
		v = float64(i)
	}
	c.one(name, v)
}

var undetected = keyed.Detection{Outlier: math.NaN(), Change: math.NaN(), Score: math.NaN()}

// appendRow appends the fields of a brief record, without the ID of its episode, which is no number.
func (m *model) appendRow(c *columns, e *keyed.Estimate) {
	l, outputs := &m.layout, m.outputs
	x := []float64(nil)
	if len(e.X) == 1 {
		x = e.X[0]
	}
	c.one("n", float64(e.N))
	c.vector("x", m.length, m.length > 1, x)
	if l.Events {
		c.one("events", float64(e.Events))
	}
	c.vector("predicted_mean", outputs, l.Vector, e.Predicted.Mean)
	c.vector("predicted_sd", outputs, l.Vector, e.Predicted.SD)
	c.vector("estimate_mean", outputs, l.Vector, e.Estimate.Mean)
	c.vector("estimate_sd", outputs, l.Vector, e.Estimate.SD)
	if l.Interval {
		c.vector("lower", outputs, l.Vector, e.Lower)
		c.vector("upper", outputs, l.Vector, e.Upper)
	}
	c.one("log_predictive", e.LogPredictive)
	c.one("weight", e.Weight)
	c.one("memory", e.Memory)
	if l.WarmUp {
		c.flag("warm_up", e.WarmUp)
	}
	if l.Quiet {
		c.flag("quiet", e.Quiet)
	}
	if !l.Detect {
		return
	}
	d, alarm, state := e.Detection, "", ""
	if d == nil {
		d = &undetected
	}
	if e.Alarm != nil {
		alarm = e.Alarm.Kind
	}
	if d.Episode != nil {
		state = string(d.Episode.State)
	}
	c.choice("detect_kind", kinds, string(d.Kind))
	c.one("detect_p_outlier", d.Outlier)
	c.one("detect_p_change", d.Change)
	c.vector("detect_usual_mean", outputs, l.Vector, d.Usual.Mean)
	c.vector("detect_usual_sd", outputs, l.Vector, d.Usual.SD)
	c.one("detect_score", d.Score)
	c.choice("detect_alarm", alarms, alarm)
	c.choice("detect_episode_state", states, state)
}
