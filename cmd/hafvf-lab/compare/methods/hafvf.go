package methods

import "hafvf/hafvf"

// The filter of this program (Moens 2018; see package hafvf), alone and in banks.
var ours = []Method{
	{Name: "hafvf", About: "HAFVF, two levels", Setting: "levels {.9, .1}, {1, 1}", Source: "Moens 2018",
		New: func(s Start) Follower { return newBank(s, []hafvf.Member{hafvf.DefaultMember()}, nil) }},
	{Name: "hafvf3", About: "HAFVF, three levels", Setting: "levels {.9, .1}, {1, 1}, {1, 1}", Source: "Moens 2018",
		New: func(s Start) Follower {
			return newBank(s, []hafvf.Member{{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}}, nil)
		}},
	{Name: "bank", About: "HAFVF, the default bank", Setting: "two levels, weights .985 and .9998, AR(3) for normal values", Source: "hafvf.DefaultBankFor",
		New: func(s Start) Follower { return newBank(s, hafvf.DefaultBankFor(s.Family), nil) }},
	{Name: "detect", About: "HAFVF, the default bank with detection", Setting: "the same, detect: true; estimate of the running regime", Source: "hafvf.Detect",
		Detects: true, Places: true, New: func(s Start) Follower { return newBank(s, hafvf.DefaultBankFor(s.Family), &hafvf.Detect{}) }},
}

type bank struct {
	*hafvf.Bank
	state    hafvf.State
	row      [1]float64
	mean, sd [1]float64
	n        int64 // observations so far
}

func newBank(s Start, members []hafvf.Member, detect *hafvf.Detect) *bank {
	b := hafvf.NewBank(s.Model, members, hafvf.DefaultForgetting, detect)
	return &bank{Bank: b, state: b.NewState()}
}

// Update reports a change if the bank commits to one, whether or not it would raise an alarm. A revision of the start
// of a change is not another change. The estimate equals the record field estimate or, with detection,
// the field estimate.regime, which outliers do not move.
func (b *bank) Update(x float64) Step {
	b.n++
	b.row[0] = x
	o := b.Bank.Update(b.state, b.row[:])
	estimate := b.Estimate
	if b.Detects() {
		estimate = b.EstimateRegime
	}
	estimate(b.mean[:], b.sd[:], b.state, nil)
	step := Step{LogPredictive: o.LogPredictive, Mean: b.mean[0], SD: b.sd[0], Age: -1}
	if o.Detection.Kind == hafvf.Change {
		step.Change, step.Age = true, int(b.n-o.Detection.Start)
	}
	return step
}

func (b *bank) Bytes() int { return word * len(b.state) }
