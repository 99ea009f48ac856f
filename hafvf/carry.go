package hafvf

import (
	"math"
	"slices"

	"hafvf/hafvf/expfam"
)

// MigratedState reports which parts of a state have the same meaning under another configuration and were
// carried over. The other parts equal those of a new state.
type MigratedState struct {
	Levels    bool // levels of every member that has levels
	Shares    bool // shares of the members
	Detection bool // excursions and the class of outliers
}

// joining is the share of a member that joins without a sample, relative to the first member's share. It is the
// prior probability of a change.
const joining = changeMean

// MigrateState converts s, a state of other, to a state of this bank. other must have the same family, dimension and
// scale. The result has the effective samples of s; the MigratedState lists the other parts that were carried
// over. An effective sample θ − θ₀ has the same meaning under any prior, levels and members:
//
//   - A member takes sample and levels of the member of other with the same settings. If there is none, it
//     takes the sample of the heaviest member, and naive levels.
//   - A member with AR takes a sample only from a member with the same AR under the same prior, because its
//     regressors are in units of the prior. Without a sample, it starts with a thousandth of the first member's
//     share: it does not know the stream yet, and with a larger share it would mistake a change in progress for
//     the regime.
//   - The shares are carried over if the members are the same. Otherwise the members with a sample have equal
//     shares.
//   - The detection is carried over if prior, settings and AR are the same.
//
// Weights are per step or per unit of time. samePace is false if this differs between the banks; then all
// levels are naive. MigrateState panics if the lengths of the samples differ.
func (b *Bank) MigrateState(other *Bank, s State, samePrior, samePace bool) (State, MigratedState) {
	other.checkState(s)
	if b.Model().Len() != other.Model().Len() || b.Dim() != other.Dim() {
		panic(badModel)
	}
	other.shares(other.gains, s, 1)
	heaviest := 0
	for i, share := range other.gains {
		if other.viewIndex[i] == 0 && share > other.gains[heaviest] {
			heaviest = i
		}
	}
	out, c := b.NewState(), MigratedState{Levels: samePace}
	sameMembers := len(b.members) == len(other.members) && b.forgetting == other.forgetting
	odds := b.logOdds(out)
	for i, f := range b.members {
		dst, order := b.Member(out, i), b.views[b.viewIndex[i]].order
		j := other.findMember(f, order)
		sameMembers = sameMembers && j == i && (order == 0 || samePrior)
		switch {
		case order > 0 && (j < 0 || !samePrior):
			odds[i-1] = math.Log(joining)
			continue
		case j >= 0 && samePace:
			copy(dst[:f.stepLen()], other.Member(s, j))
		default:
			c.Levels = c.Levels && f.Levels() == 0
		}
		source := heaviest
		if j >= 0 {
			source = j
		}
		sample := other.members[source].Sample(other.Member(s, source))
		if samePrior {
			copy(f.Sample(dst), sample)
		} else {
			expfam.Rebase(f.Sample(dst), sample, f.model, other.members[source].model)
		}
	}
	if c.Shares = sameMembers; sameMembers {
		copy(odds, other.logOdds(s))
	}
	f, g := b.members[0], other.members[0]
	if f.seq != nil && f.seq.Window() == g.seq.Window() {
		copy(b.Member(out, 0)[f.stepLen():], other.Member(s, 0)[g.stepLen():])
	}
	if samePrior && b.maxOrder() == other.maxOrder() {
		copy(b.lags(out), other.lags(s))
	}
	if b.detector != nil && other.detector != nil && samePrior && b.detector.compatible(other.detector) {
		c.Detection = true
		copy(b.detection(out), other.detection(s))
	}
	return out, c
}

// sameSettings reports whether levels of f and g have the same meaning.
func (f *Filter) sameSettings(g *Filter) bool {
	return g.top == f.top && slices.Equal(g.naive, f.naive)
}

// findMember returns the index of the first member with the settings of f and an AR of the given order, or -1.
func (b *Bank) findMember(f *Filter, order int) int {
	for i, g := range b.members {
		if b.views[b.viewIndex[i]].order == order && f.sameSettings(g) {
			return i
		}
	}
	return -1
}

// compatible reports whether states of dr and other have the same meaning.
func (dr *detector) compatible(other *detector) bool {
	return dr.commit == other.commit && dr.minLength == other.minLength &&
		slices.EqualFunc(dr.views, other.views, func(v, w view) bool { return v.order == w.order && v.offset == w.offset })
}
