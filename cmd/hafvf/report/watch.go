package report

import (
	"math"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
)

// AddWatched takes an estimate of a run with its alerts. It is a pipeline.Watch.
func (c *Collector) AddWatched(name string, e *keyed.Estimate, told []keyed.Told) {
	one := Estimate{Key: name, Time: e.Time, X: math.NaN(), Alarm: e.Alarm != nil, Score: math.NaN(), Threshold: math.NaN()}
	one.Predicted.Mean, one.Predicted.SD = first(e.Predicted.Mean), first(e.Predicted.SD)
	mean := list(e.Predicted.Mean)
	if len(e.Predicted.Mean) == 1 {
		mean = e.Predicted.Mean[0]
	}
	if v := output.Observed(observation(e), mean); len(v) > 0 {
		one.X = v[0]
	}
	one.Usual.Mean, one.Usual.SD = math.NaN(), math.NaN()
	if d := e.Detection; d != nil {
		one.Score, one.Threshold, one.Muted, one.Outlier = d.Score, d.Threshold, d.Muted, d.Kind == hafvf.Outlier
		one.Usual.Mean, one.Usual.SD = first(d.Usual.Mean), first(d.Usual.SD)
	}
	c.AddEstimate(&one)
	for _, t := range told {
		a := Alert{
			Key: name, Kind: t.Kind, Time: t.Of.Time, ID: t.Of.ID, Start: t.Start, Score: Number(t.Score), Threshold: Number(t.Threshold), Size: Number(t.Size),
			X: Number(one.X), Usual: momentsOf(t.Usual), Before: momentsOf(t.Before), After: momentsOf(t.After), Message: t.Message, Expected: none,
		}
		c.AddAlert(&a)
	}
}

// observation is x as a record has it.
func observation(e *keyed.Estimate) any {
	switch {
	case e.Missing || len(e.X) == 0:
		return nil
	case e.Shape == keyed.List:
		var all []any
		for _, v := range e.X {
			all = append(all, list(v))
		}
		return all
	case e.Shape == keyed.Vector:
		return list(e.X[0])
	}
	return first(e.X[0])
}

func list(v []float64) any {
	all := make([]any, len(v))
	for i, f := range v {
		all[i] = f
	}
	return all
}

func momentsOf(m keyed.Moments) Moments { return Moments{Number(first(m.Mean)), Number(first(m.SD))} }

func first(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return v[0]
}
