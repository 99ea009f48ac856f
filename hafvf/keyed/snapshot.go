package keyed

import (
	"math"
	"slices"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/internal/clock"
)

// A Snapshot describes the state of a key between two observations.
type Snapshot struct {
	N       int64     // observations so far
	Time    time.Time // latest time in the state; zero if it stores no times, as with the order Arrival
	Waiting int       // observations that were read but not learned yet
	WarmUp  bool      // the prior is not set yet

	// The other fields are NaN while there is no prior. Estimate does not include the season. It is NaN for a
	// regression, whose estimate needs regressors.
	Estimate Moments
	// Weight, Memory, Levels and Posterior are values of the member with the largest share, as in an Estimate.
	Weight, Memory    float64
	Levels, Posterior []float64
	Bank              []MemberStep // LogPredictive is NaN; nil without a bank
}

// Snapshot decodes the state b of the key. The error wraps ErrOtherConfig if the state was written with another
// configuration.
func (est *Estimator) Snapshot(key string, b []byte) (Snapshot, error) {
	e, err := est.decodeKeyState(key, b)
	if err != nil {
		return Snapshot{}, err
	}
	c := e.stages
	var out Estimate
	c.blank(&Memory{}, &out, e.n, &Observation{}, false)
	s := Snapshot{
		N: e.n, Waiting: len(e.waiting) + e.intervals.events(), WarmUp: !e.priorSet, Estimate: out.Estimate,
		Time: clock.Later(e.clock, e.last), Weight: math.NaN(), Memory: math.NaN(), Posterior: slices.Repeat([]float64{math.NaN()}, c.params),
	}
	if e.heartbeat != nil {
		s.Time = clock.Later(s.Time, e.heartbeat.last)
	}
	if !e.priorSet && e.locationScale == nil {
		return s, nil
	}
	c.usePrior(e.Track)
	bank := c.bank
	shares, heaviest := make([]float64, bank.Members()), 0
	bank.Shares(shares, e.state)
	for i, share := range shares {
		f, member := bank.Filter(i), bank.Member(e.state, i)
		if len(c.cfg.Bank) > 0 {
			s.Bank = append(s.Bank, MemberStep{Share: share, Weight: f.Weight(member), Memory: f.Model().Memory(f.Sample(member)), LogPredictive: math.NaN()})
			if c.cfg.Bank[i].AR == 0 && share > shares[heaviest] {
				heaviest = i
			}
		}
	}
	f, member := bank.Filter(heaviest), bank.Member(e.state, heaviest)
	row := bank.Regressors(e.state, nil)
	if m, ok := bank.Model().(expfam.Exposed); ok {
		row = m.Unit()
	}
	bank.Estimate(s.Estimate.Mean, s.Estimate.SD, e.state, row)
	c.scale.momentsToData(s.Estimate)
	s.Weight, s.Memory = f.Weight(member), f.Model().Memory(f.Sample(member))
	bank.Model().Posterior(s.Posterior, f.Sample(member))
	s.Levels = make([]float64, 2*f.Levels())
	copyLevels(s.Levels, f, member)
	return s, nil
}
