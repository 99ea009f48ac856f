package keyed

import (
	"encoding/json"
	"math"
	"time"

	"hafvf/hafvf"
)

// A jsonNumber is a number that is written as null if it is not finite.
type jsonNumber float64

func (v jsonNumber) MarshalJSON() ([]byte, error) {
	if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

func jsonNumbers(v []float64) (numbers []jsonNumber) {
	for _, f := range v {
		numbers = append(numbers, jsonNumber(f))
	}
	return numbers
}

// jsonOutputs returns a number if the model has one output, else a list.
func jsonOutputs(v []float64) any {
	if len(v) == 1 {
		return jsonNumber(v[0])
	}
	return jsonNumbers(v)
}

// jsonValue returns x in the shape of the input. It is null if x is missing.
func jsonValue(x [][]float64, shape Shape) any {
	switch {
	case shape == List:
		rows := [][]jsonNumber{}
		for _, row := range x {
			rows = append(rows, jsonNumbers(row))
		}
		return rows
	case len(x) != 1:
		return nil
	case shape == Vector:
		return jsonNumbers(x[0])
	}
	return jsonOutputs(x[0])
}

func jsonTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

type jsonMoments struct {
	Mean   any          `json:"mean"`
	SD     any          `json:"sd"`
	Regime *jsonMoments `json:"regime,omitempty"`
}

func jsonMomentsOf(m Moments) *jsonMoments {
	return &jsonMoments{Mean: jsonOutputs(m.Mean), SD: jsonOutputs(m.SD)}
}

// jsonEpisode has the fields of records that describe an episode.
type jsonEpisode struct {
	Episode     any          `json:"episode"`
	UsualBefore *jsonMoments `json:"usual_before"`
	Worst       any          `json:"worst"`
}

func jsonEpisodeOf(r *EpisodeReport) (e jsonEpisode) {
	if r == nil {
		return e
	}
	e.Episode = struct {
		ID      string       `json:"id"`
		Since   *time.Time   `json:"since"`
		Reports int64        `json:"reports"`
		State   EpisodeState `json:"state"`
	}{r.ID, jsonTime(r.Since), r.Reports, r.State}
	e.UsualBefore = jsonMomentsOf(r.UsualBefore)
	e.Worst = struct {
		Value jsonNumber `json:"value"`
		Time  *time.Time `json:"time"`
		Size  jsonNumber `json:"size"`
	}{jsonNumber(r.Worst.Value), jsonTime(r.Worst.Time), jsonNumber(r.Worst.Size)}
	return e
}

type jsonDetection struct {
	Kind      hafvf.Kind   `json:"kind"`
	Stay      jsonNumber   `json:"p_stay"`
	Outlier   jsonNumber   `json:"p_outlier"`
	Change    jsonNumber   `json:"p_change"`
	Start     *time.Time   `json:"start"`
	Age       int64        `json:"age"`
	Usual     *jsonMoments `json:"usual"`
	Score     jsonNumber   `json:"score"`
	Threshold jsonNumber   `json:"threshold"`
	Alarm     *string      `json:"alarm"`
	jsonEpisode
}

// MarshalJSON writes the estimate with the field names of the program's records. Numbers that are not finite are null.
// It leaves out the key, which an estimate does not have, and the posterior, whose names only the model knows.
func (e Estimate) MarshalJSON() ([]byte, error) {
	estimate := jsonMomentsOf(e.Estimate)
	var detect *jsonDetection
	if d := e.Detection; d != nil {
		estimate.Regime = jsonMomentsOf(e.Regime)
		detect = &jsonDetection{d.Kind, jsonNumber(d.Stay), jsonNumber(d.Outlier), jsonNumber(d.Change), jsonTime(d.Start), d.Age, jsonMomentsOf(d.Usual), jsonNumber(d.Score), jsonNumber(d.Threshold), nil, jsonEpisodeOf(d.Episode)}
		if e.Alarm != nil {
			detect.Alarm = &e.Alarm.Kind
		}
	}
	return json.Marshal(struct {
		Time          *time.Time     `json:"time"`
		ID            string         `json:"id"`
		N             int64          `json:"n"`
		X             any            `json:"x"`
		Predicted     *jsonMoments   `json:"predicted"`
		Estimate      *jsonMoments   `json:"estimate"`
		LogPredictive jsonNumber     `json:"log_predictive"`
		ELBO          jsonNumber     `json:"elbo"`
		Weight        jsonNumber     `json:"weight"`
		Memory        jsonNumber     `json:"memory"`
		WarmUp        bool           `json:"warm_up,omitempty"`
		Detect        *jsonDetection `json:"detect,omitempty"`
	}{
		jsonTime(e.Time), e.ID, e.N, jsonValue(e.X, e.Shape), jsonMomentsOf(e.Predicted), estimate,
		jsonNumber(e.LogPredictive), jsonNumber(e.ELBO), jsonNumber(e.Weight), jsonNumber(e.Memory), e.WarmUp, detect,
	})
}

// MarshalJSON writes the program's record of the alert. Numbers that are not finite are null.
func (a AlertEvent) MarshalJSON() ([]byte, error) {
	var corrects *string
	if a.Corrects != "" {
		corrects = &a.Corrects
	}
	var level *Level
	if a.Level != "" {
		level = &a.Level
	}
	return json.Marshal(struct {
		Key       string       `json:"key"`
		Time      *time.Time   `json:"time"`
		Kind      string       `json:"kind"`
		ID        string       `json:"id"`
		Corrects  *string      `json:"corrects"`
		Start     *time.Time   `json:"start"`
		Delay     int64        `json:"delay"`
		Odds      jsonNumber   `json:"odds"`
		Score     jsonNumber   `json:"score"`
		Threshold jsonNumber   `json:"threshold"`
		X         any          `json:"x"`
		Predicted *jsonMoments `json:"predicted"`
		Usual     *jsonMoments `json:"usual"`
		Size      jsonNumber   `json:"size"`
		Before    *jsonMoments `json:"before"`
		After     *jsonMoments `json:"after"`
		jsonEpisode
		Since   *time.Time `json:"since"`
		Level   *Level     `json:"level"`
		Message string     `json:"message"`
	}{
		a.Key, jsonTime(a.Time), a.Kind, a.ID, corrects, jsonTime(a.Start), a.Delay, jsonNumber(a.LogOdds), jsonNumber(a.Score), jsonNumber(a.Threshold),
		jsonValue(a.X, a.Shape), jsonMomentsOf(a.Predicted), jsonMomentsOf(a.Usual), jsonNumber(a.Size), jsonMomentsOf(a.Before), jsonMomentsOf(a.After), jsonEpisodeOf(a.Episode), jsonTime(a.NormalFrom), level, a.Message,
	})
}
