package serve

import (
	"math"
	"slices"
	"strconv"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// A column is a field of records as a number; NaN is null.
type column func(*keyed.Estimate) float64

var (
	kinds  = []string{string(hafvf.None), string(hafvf.Outlier), string(hafvf.Change), string(hafvf.Revision)}
	alarms = []string{string(usual.NoveltyAlarm), string(usual.ChangeAlarm)}
)

// place is that of a name, NaN if there is none.
func place(all []string, name string) float64 {
	if i := slices.Index(all, name); i >= 0 {
		return float64(i)
	}
	return math.NaN()
}

func flagged(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// setColumns declares the columns: the fields of brief records, of observations of so many numbers.
func (m *model) setColumns(length, outputs int) {
	add := func(name string, of column) {
		m.columns, m.description.Columns = append(m.columns, of), append(m.description.Columns, name)
	}
	numbers := func(name string, n int, of func(*keyed.Estimate) []float64) {
		for i := range n {
			as := name
			if n > 1 || name != "x" && m.layout.Vector {
				as += "_" + strconv.Itoa(i)
			}
			add(as, func(e *keyed.Estimate) float64 {
				if v := of(e); i < len(v) {
					return v[i]
				}
				return math.NaN()
			})
		}
	}
	add("n", func(e *keyed.Estimate) float64 { return float64(e.N) })
	numbers("x", length, func(e *keyed.Estimate) []float64 {
		if len(e.X) != 1 {
			return nil
		}
		return e.X[0]
	})
	if m.layout.Events {
		add("events", func(e *keyed.Estimate) float64 { return float64(e.Events) })
	}
	numbers("predicted_mean", outputs, func(e *keyed.Estimate) []float64 { return e.Predicted.Mean })
	numbers("predicted_sd", outputs, func(e *keyed.Estimate) []float64 { return e.Predicted.SD })
	numbers("estimate_mean", outputs, func(e *keyed.Estimate) []float64 { return e.Estimate.Mean })
	numbers("estimate_sd", outputs, func(e *keyed.Estimate) []float64 { return e.Estimate.SD })
	if m.layout.Interval {
		numbers("lower", outputs, func(e *keyed.Estimate) []float64 { return e.Lower })
		numbers("upper", outputs, func(e *keyed.Estimate) []float64 { return e.Upper })
	}
	add("log_predictive", func(e *keyed.Estimate) float64 { return e.LogPredictive })
	add("weight", func(e *keyed.Estimate) float64 { return e.Weight })
	add("memory", func(e *keyed.Estimate) float64 { return e.Memory })
	if m.layout.WarmUp {
		add("warm_up", func(e *keyed.Estimate) float64 { return flagged(e.WarmUp) })
	}
	if m.layout.Quiet {
		add("quiet", func(e *keyed.Estimate) float64 { return flagged(e.Quiet) })
	}
	if !m.layout.Detect {
		return
	}
	detected := func(of func(*keyed.Detection) float64) column {
		return func(e *keyed.Estimate) float64 {
			if e.Detection == nil {
				return math.NaN()
			}
			return of(e.Detection)
		}
	}
	usually := func(of func(*keyed.Detection) []float64) func(*keyed.Estimate) []float64 {
		return func(e *keyed.Estimate) []float64 {
			if e.Detection == nil {
				return nil
			}
			return of(e.Detection)
		}
	}
	m.description.Names["detect_kind"], m.description.Names["detect_alarm"] = kinds, alarms
	add("detect_kind", detected(func(d *keyed.Detection) float64 { return place(kinds, string(d.Kind)) }))
	add("detect_p_outlier", detected(func(d *keyed.Detection) float64 { return d.Outlier }))
	add("detect_p_change", detected(func(d *keyed.Detection) float64 { return d.Change }))
	numbers("detect_usual_mean", outputs, usually(func(d *keyed.Detection) []float64 { return d.Usual.Mean }))
	numbers("detect_usual_sd", outputs, usually(func(d *keyed.Detection) []float64 { return d.Usual.SD }))
	add("detect_score", detected(func(d *keyed.Detection) float64 { return d.Score }))
	add("detect_alarm", func(e *keyed.Estimate) float64 {
		if e.Alarm == nil {
			return math.NaN()
		}
		return place(alarms, e.Alarm.Kind)
	})
}

// appendRow appends the numbers of an estimate. Infinite ones are null in records.
func (m *model) appendRow(b []float64, e *keyed.Estimate) []float64 {
	for _, of := range m.columns {
		v := of(e)
		if math.IsInf(v, 0) {
			v = math.NaN()
		}
		b = append(b, v)
	}
	return b
}
