package serve

import (
	"math"
	"slices"
	"strconv"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// What columns of names may say; a number is the place of the name.
var (
	kinds  = []string{string(hafvf.None), string(hafvf.Outlier), string(hafvf.Change), string(hafvf.Revision)}
	alarms = []string{string(usual.NoveltyAlarm), string(usual.ChangeAlarm)}
)

// A sheet gathers the fields of records as numbers, row by row. NaN is null.
type sheet struct {
	names   []string // of the columns, if names is not nil
	numbers []float64
}

func (s *sheet) one(name string, v float64) {
	if s.names != nil {
		s.names = append(s.names, name)
	} else if math.IsInf(v, 0) { // null in records
		s.numbers = append(s.numbers, math.NaN())
	} else {
		s.numbers = append(s.numbers, v)
	}
}

// all adds n numbers, of a vector or of none; without one they are null.
func (s *sheet) all(name string, n int, vector bool, v []float64) {
	for i := range n {
		switch {
		case s.names != nil && vector:
			s.one(name+"_"+strconv.Itoa(i), 0)
		case i < len(v):
			s.one(name, v[i])
		default:
			s.one(name, math.NaN())
		}
	}
}

func (s *sheet) flag(name string, is bool) {
	v := 0.
	if is {
		v = 1
	}
	s.one(name, v)
}

func (s *sheet) choice(name string, among []string, is string) {
	v := math.NaN()
	if i := slices.Index(among, is); i >= 0 {
		v = float64(i)
	}
	s.one(name, v)
}

var undetected = keyed.Detection{Outlier: math.NaN(), Change: math.NaN(), Score: math.NaN()}

// appendRow appends the fields of a brief record.
func (m *model) appendRow(s *sheet, e *keyed.Estimate) {
	l, outputs := &m.layout, m.outputs
	x := []float64(nil)
	if len(e.X) == 1 {
		x = e.X[0]
	}
	s.one("n", float64(e.N))
	s.all("x", m.length, m.length > 1, x)
	if l.Events {
		s.one("events", float64(e.Events))
	}
	s.all("predicted_mean", outputs, l.Vector, e.Predicted.Mean)
	s.all("predicted_sd", outputs, l.Vector, e.Predicted.SD)
	s.all("estimate_mean", outputs, l.Vector, e.Estimate.Mean)
	s.all("estimate_sd", outputs, l.Vector, e.Estimate.SD)
	if l.Interval {
		s.all("lower", outputs, l.Vector, e.Lower)
		s.all("upper", outputs, l.Vector, e.Upper)
	}
	s.one("log_predictive", e.LogPredictive)
	s.one("weight", e.Weight)
	s.one("memory", e.Memory)
	if l.WarmUp {
		s.flag("warm_up", e.WarmUp)
	}
	if l.Quiet {
		s.flag("quiet", e.Quiet)
	}
	if !l.Detect {
		return
	}
	d, alarm := e.Detection, ""
	if d == nil {
		d = &undetected
	}
	if e.Alarm != nil {
		alarm = e.Alarm.Kind
	}
	s.choice("detect_kind", kinds, string(d.Kind))
	s.one("detect_p_outlier", d.Outlier)
	s.one("detect_p_change", d.Change)
	s.all("detect_usual_mean", outputs, l.Vector, d.Usual.Mean)
	s.all("detect_usual_sd", outputs, l.Vector, d.Usual.SD)
	s.one("detect_score", d.Score)
	s.choice("detect_alarm", alarms, alarm)
}
