package methods

// Page–Hinkley test with forgetting (Page 1954): for rises the test of River (drift.PageHinkley, with its minimum of
// 30 observations), and for falls its mirror image.
var pageHinkleys = []Method{
	{Name: "page-hinkley", About: "Page–Hinkley test", Setting: "δ = .005, λ = 50, α = .9999, values standardised", Source: "Page 1954, as River has it",
		Detects: true, New: func(s Start) Follower {
			return &standardised{s.Location, s.Scale, &pageHinkley{delta: .005, threshold: 50, alpha: .9999}}
		}},
}

type pageHinkley struct {
	delta, threshold, alpha float64

	n        int
	mean     float64
	up, down float64
}

func (p *pageHinkley) Update(x float64) Step {
	p.n++
	p.mean += (x - p.mean) / float64(p.n)
	p.up = max(0, p.alpha*p.up+x-p.mean-p.delta)
	p.down = max(0, p.alpha*p.down-x+p.mean-p.delta)
	step := Step{LogPredictive: nan, Mean: p.mean, SD: nan, Age: -1}
	if p.n+1 >= 30 && max(p.up, p.down) >= p.threshold {
		step.Change = true
		*p = pageHinkley{delta: p.delta, threshold: p.threshold, alpha: p.alpha}
	}
	return step
}

func (p *pageHinkley) Bytes() int { return word * 4 }
