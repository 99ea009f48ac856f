package hafvf

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
)

// MigratedState says what of a state means the same under another configuration, and was
// carried over. The rest is as in a new state.
type MigratedState struct {
	Levels    bool // of each member with levels
	Shares    bool // of the members
	Detection bool // excursions, and what outliers are like
}

// joining is the share of a member that joins without a sample, relative to that of the
// first. It is the prior probability of a change.
const joining = changeMean

// Carry returns the state that this bank goes on with from s, a state of the bank other of
// the same family, dimension and scale, and what of s it has besides the effective samples.
// An effective sample θ − θ₀ means the same under any prior, levels and members:
//
//   - A member has sample and levels of the member of other with the same settings. If
//     there is none, it has the sample of the heaviest member, and naive levels.
//   - A member with AR has a sample only from such a member under the same prior, whose
//     units its regressors have. Without, it joins with a thousandth of the share of the
//     first member: it knows nothing of the stream yet, and with a larger share it would
//     pass a change that is under way for the regime.
//   - The shares stay if the members do. Else the members with a sample have equal ones.
//   - The detection stays under the same prior, settings and AR.
//
// Weights are per step, or per unit of time: where that differs, samePace is false, and all
// levels are naive. Carry panics where samples have another length.
func (b *Bank) Carry(other *Bank, s State, samePrior, samePace bool) (State, MigratedState) {
	other.checkState(s)
	if b.Model().Len() != other.Model().Len() || b.Dim() != other.Dim() {
		panic(badModel)
	}
	other.shares(other.gains, s, 1)
	heaviest := 0
	for i, share := range other.gains {
		if other.of[i] == 0 && share > other.gains[heaviest] {
			heaviest = i
		}
	}
	out, c := b.NewState(), MigratedState{Levels: samePace}
	sameMembers := len(b.members) == len(other.members) && b.forgetting == other.forgetting
	odds := b.oddsOf(out)
	for i, f := range b.members {
		to, order := b.Member(out, i), b.views[b.of[i]].order
		j := other.like(f, order)
		sameMembers = sameMembers && j == i && (order == 0 || samePrior)
		switch {
		case order > 0 && (j < 0 || !samePrior):
			odds[i-1] = math.Log(joining)
			continue
		case j >= 0 && samePace:
			copy(to[:f.stepLen()], other.Member(s, j))
		default:
			c.Levels = c.Levels && f.Levels() == 0
		}
		from := heaviest
		if j >= 0 {
			from = j
		}
		sample := other.members[from].Sample(other.Member(s, from))
		if samePrior {
			copy(f.Sample(to), sample)
		} else {
			expfam.Rebase(f.Sample(to), sample, f.model, other.members[from].model)
		}
	}
	if c.Shares = sameMembers; sameMembers {
		copy(odds, other.oddsOf(s))
	}
	f, g := b.members[0], other.members[0]
	if f.seq != nil && f.seq.Window() == g.seq.Window() {
		copy(b.Member(out, 0)[f.stepLen():], other.Member(s, 0)[g.stepLen():])
	}
	if samePrior && b.order() == other.order() {
		copy(b.lags(out), other.lags(s))
	}
	if b.detector != nil && other.detector != nil && samePrior && b.detector.like(other.detector) {
		c.Detection = true
		copy(b.detection(out), other.detection(s))
	}
	return out, c
}

// like reports whether levels of the two mean the same.
func (f *Filter) like(g *Filter) bool {
	return g.top == f.top && slices.Equal(g.naive, f.naive)
}

// like is the first member with the settings of f and an AR of that order, -1 if there is
// none.
func (b *Bank) like(f *Filter, order int) int {
	for i, g := range b.members {
		if b.views[b.of[i]].order == order && f.like(g) {
			return i
		}
	}
	return -1
}

// like reports whether states of the two mean the same.
func (dr *detector) like(other *detector) bool {
	return dr.commit == other.commit && dr.minLength == other.minLength &&
		slices.EqualFunc(dr.views, other.views, func(v, w view) bool { return v.order == w.order && v.at == w.at })
}
