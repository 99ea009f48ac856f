package methods

// Seasonal naive forecast (Hyndman and Athanasopoulos, Forecasting: Principles and Practice): the value one period
// ago.
var naives = []Method{
	{Name: "naive", About: "seasonal naive forecast", Setting: "the value a period ago; the last value if there is no period", Source: "Hyndman and Athanasopoulos, Forecasting",
		New: func(s Start) Follower { return &naive{period: s.Period} }},
}

type naive struct {
	period int
	past   []float64 // values of one period; the oldest is at index next
	next   int
}

func (f *naive) Update(x float64) Step {
	if len(f.past) < f.period {
		f.past = append(f.past, x)
		return Step{LogPredictive: nan, Mean: x, SD: nan, Age: -1}
	}
	f.past[f.next] = x
	f.next = (f.next + 1) % f.period
	return Step{LogPredictive: nan, Mean: f.past[f.next], SD: nan, Age: -1}
}

func (f *naive) Bytes() int { return word * f.period }
