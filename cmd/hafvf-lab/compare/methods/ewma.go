package methods

import "math"

// EWMA chart (Roberts 1959; Lucas and Saccucci 1990): E ← E + λ(x − E) with control limits ±Lσ√(λ/(2−λ)). λ = .1 and
// L = 2.814 give one false alarm in 500 observations if mean and standard deviation are known. Here both are
// estimated as in cusum.
var ewmas = []Method{
	{Name: "ewma", About: "EWMA chart", Setting: "λ = .1, L = 2.814, mean and sd of 50 observations", Source: "Roberts 1959; Lucas and Saccucci 1990",
		Detects: true, New: func(Start) Follower { return &phased{chart: &ewma{lambda: .1, width: 2.814}, length: 50} }},
}

type ewma struct{ lambda, width, e float64 }

func (e *ewma) watch(z float64) (bool, int) {
	e.e += e.lambda * (z - e.e)
	_, sd := e.level()
	return math.Abs(e.e) > e.width*sd, -1
}

func (e *ewma) level() (mean, sd float64) { return e.e, math.Sqrt(e.lambda / (2 - e.lambda)) }
func (e *ewma) reset()                    { e.e = 0 }
func (e *ewma) floats() int               { return 1 }
