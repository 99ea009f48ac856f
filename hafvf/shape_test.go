package hafvf

import (
	"math"
	"math/rand/v2"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// Wrong lengths panic with the constant that names them, also if the capacity of a slice would be sufficient.
func TestWrongLengthsPanic(t *testing.T) {
	normal, _ := familyStream(t, "normal", nil)
	pair, _ := familyStream(t, "mvnormal", rand.New(rand.NewPCG(1, 1)))
	line := familytest.New(t, "regression", Params{"mean": []float64{0, 0}})
	ar := familytest.New(t, "ar", Params{"order": 2})
	member := DefaultMember()
	f, two := NewFilter(normal, member.Levels, 1), NewFilter(pair, member.Levels, 1)
	past := NewFilter(ar, member.Levels, 1)
	b, r := NewBank(normal, DefaultBank(), 1, &Detect{}), NewBank(line, DefaultBank(), 1, nil)
	pairs := NewBank(pair, DefaultBank(), 1, nil)
	x, mean, sd := []float64{1}, make([]float64, 1), make([]float64, 1)
	long := make([]float64, 2)
	room := make([]float64, 1, 8)
	smoothed := f.Smooth([][][]float64{{x}})
	for name, c := range map[string]struct {
		want any
		call func()
	}{
		"state of another filter":     {badState, func() { f.Update(two.NewState(), x) }},
		"no state":                    {badState, func() { f.Update(nil, x) }},
		"state, cut":                  {badState, func() { f.UpdateAfter(f.NewState()[:4], 1, x) }},
		"vector too long":             {badDim, func() { f.Update(f.NewState(), long) }},
		"vector too short":            {badDim, func() { two.Update(two.NewState(), x) }},
		"vector too short, with room": {badDim, func() { two.Update(two.NewState(), room) }},
		"empty vector":                {badDim, func() { f.Update(f.NewState(), []float64{}) }},
		"second vector":               {badDim, func() { f.Update(f.NewState(), x, long) }},
		"two vectors of a sequence":   {badCount, func() { past.Update(past.NewState(), x, x) }},
		"vector of a sequence":        {badDim, func() { past.Update(past.NewState(), long) }},
		"row of a cut state":          {badState, func() { past.Row(past.NewState()[:3], x) }},
		"negative time":               {badElapsed, func() { f.UpdateAfter(f.NewState(), -1, x) }},
		"time not a number":           {badElapsed, func() { b.UpdateAfter(b.NewState(), math.NaN(), x) }},
		"filter's state in a bank":    {badState, func() { b.Update(f.NewState(), x) }},
		"bank's state in a filter":    {badState, func() { f.Update(b.NewState(), x) }},
		"vector of a bank":            {badDim, func() { b.Update(b.NewState(), long) }},
		"smooth":                      {badDim, func() { f.Smooth([][][]float64{{x}, {long}}) }},
		"estimate of a step":          {badDst, func() { smoothed.Estimate(long, long, 0) }},
		"bank predict":                {badDst, func() { b.Predict(long, sd, b.NewState(), nil) }},
		"bank predict, short":         {badDst, func() { pairs.Predict(mean, sd, pairs.NewState(), nil) }},
		"bank predict after, state":   {badState, func() { b.PredictAfter(mean, sd, f.NewState(), 2, nil) }},
		"bank predict regime":         {badDst, func() { b.PredictRegime(mean, nil, b.NewState(), 1, nil) }},
		"bank estimate":               {badState, func() { b.Estimate(mean, sd, b.NewState()[1:], nil) }},
		"bank regime":                 {badDst, func() { b.EstimateRegime(nil, sd, b.NewState(), nil) }},
		"bank shares":                 {badDst, func() { b.Shares(mean, b.NewState()) }},
		"bank excursions":             {badState, func() { b.ExcursionStarts(nil, nil) }},
		"bank regressors":             {badState, func() { b.Regressors(nil, nil) }},
		"no regressors":               {"expfam: too few regressors", func() { r.Predict(mean, sd, r.NewState(), nil) }},
		"too few regressors":          {"expfam: too few regressors", func() { r.Estimate(mean, sd, r.NewState(), x) }},
		"too few regressors, predictive": {"expfam: too few regressors", func() {
			line.(expfam.Predictor).Predictive(make([]expfam.Distribution, 1), make([]float64, line.Len()), 1, room)
		}},
		"bank interval":          {badDst, func() { b.Interval(mean, nil, .9, b.NewState(), 1, nil) }},
		"model of another shape": {badModel, func() { f.Use(pair) }},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %v", got, c.want)
				}
			}()
			c.call()
		})
	}
}
