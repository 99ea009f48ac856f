package transforms

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/hafvf/keyed"
)

// A Given is an observation of a key.
type Given struct {
	Key         string
	Observation keyed.Observation
}

func init() {
	register.Function2x1(pairOf)
	register.Function1x2(observePair)
	observers.Store("given", observer(func(element any) (string, keyed.Observation, error) {
		return withoutError(observePair)(element.(Given))
	}))
}

func pairOf(key string, o keyed.Observation) Given    { return Given{key, o} }
func observePair(g Given) (string, keyed.Observation) { return g.Key, g.Observation }
func paired(s beam.Scope, col beam.PCollection) (Registered, beam.PCollection) {
	pairs := beam.ParDo(s, pairOf, col)
	return registerObserve("Filter", observePair, withoutError(observePair), pairs), pairs
}

// FilterIn is Filter for a PCollection<KV<string, keyed.Observation>> with a Host.
func FilterIn(s beam.Scope, cfg keyed.Config, host Host, col beam.PCollection) FilterOutput {
	in, pairs := paired(s, col)
	return filterObserved(s, cfg, host, in, pairs)
}

// FilterPairs is Filter for a PCollection<KV<string, keyed.Observation>>.
func FilterPairs(s beam.Scope, cfg keyed.Config, col beam.PCollection) (estimates, rejected beam.PCollection) {
	out := FilterIn(s, cfg, Host{InProcess: true}, col)
	return out.Estimates, out.Rejected
}

// SmoothPairs is Smooth for a PCollection<KV<string, keyed.Observation>> with a SmoothConfig.
func SmoothPairs(s beam.Scope, cfg SmoothConfig, col beam.PCollection) (smoothed, rejected beam.PCollection) {
	in, pairs := paired(s, col)
	out := smoothObserved(s, cfg, in, pairs)
	return out.Smoothed, out.Rejected
}
