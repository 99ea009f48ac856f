package hafvf

// mixtureMoments has the buffers of Outcome.Estimate; nil before the first call.
type mixtureMoments struct{ mean, sd []float64 }

// A MemberOutcome is the outcome of one step for one filter of a bank.
type MemberOutcome struct {
	Share float64 // posterior weight of the member after the step
	Step
}

// An Outcome is the result of one update of a bank.
type Outcome struct {
	Missing       bool
	LogPredictive float64         // log p(x|past) of the whole mixture in nats; NaN if missing
	Members       []MemberOutcome // valid until the next Update
	Heaviest      int             // index of the member with the largest share, among those with the bank's own model
	Detection     Hypotheses      // zero without detection

	bank  *Bank
	state State
}

// Estimate returns mean and standard deviation of the likelihood's mean after the update, one for each of
// Model.Outputs: Bank.Estimate at the regressors of the last complete vector. They are NaN if the model has regressors
// and the step has no complete vector. Call Estimate before the next call for the bank, and before xs or the state
// change. The slices are valid until the next Estimate.
func (o Outcome) Estimate() (mean, sd []float64) {
	b := o.bank
	if n := b.Model().Outputs(); b.estimated.mean == nil {
		b.estimated = mixtureMoments{make([]float64, n), make([]float64, n)}
	}
	row := b.members[0].unknown
	if rows := b.views[0].rows; len(rows) > 0 && !o.Missing {
		row = rows[len(rows)-1]
	}
	b.Estimate(b.estimated.mean, b.estimated.sd, o.state, row)
	return b.estimated.mean, b.estimated.sd
}
