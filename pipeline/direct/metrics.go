package direct

import (
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
)

// totals adds up the metrics of bundles. It is the result of a run.
type totals struct {
	names map[string]string // names of steps by id

	mu            sync.Mutex
	counters      map[metrics.StepKey]int64
	distributions map[metrics.StepKey]metrics.DistributionValue
	gauges        map[metrics.StepKey]metrics.GaugeValue
}

func newTotals(names map[string]string) *totals {
	return &totals{
		names: names, counters: map[metrics.StepKey]int64{},
		distributions: map[metrics.StepKey]metrics.DistributionValue{}, gauges: map[metrics.StepKey]metrics.GaugeValue{},
	}
}

func (t *totals) key(l metrics.Labels) metrics.StepKey {
	return metrics.StepKey{Step: t.names[l.Transform()], Name: l.Name(), Namespace: l.Namespace()}
}

// add adds the metrics of a bundle.
func (t *totals) add(s *metrics.Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// The extractor only fails without functions.
	_ = metrics.Extractor{
		SumInt64: func(l metrics.Labels, v int64) { t.counters[t.key(l)] += v },
		DistributionInt64: func(l metrics.Labels, count, sum, minimum, maximum int64) {
			d, ok := t.distributions[t.key(l)]
			if !ok {
				d.Min, d.Max = minimum, maximum
			}
			t.distributions[t.key(l)] = metrics.DistributionValue{Count: d.Count + count, Sum: d.Sum + sum, Min: min(d.Min, minimum), Max: max(d.Max, maximum)}
		},
		GaugeInt64: func(l metrics.Labels, v int64, timestamp time.Time) {
			if !timestamp.Before(t.gauges[t.key(l)].Timestamp) {
				t.gauges[t.key(l)] = metrics.GaugeValue{Value: v, Timestamp: timestamp}
			}
		},
	}.ExtractFrom(s)
}

// JobID implements beam.PipelineResult. A run in this process has no id.
func (t *totals) JobID() string { return "" }

// Metrics implements beam.PipelineResult.
func (t *totals) Metrics() metrics.Results {
	t.mu.Lock()
	defer t.mu.Unlock()
	var counters []metrics.CounterResult
	for k, v := range t.counters {
		counters = append(counters, metrics.CounterResult{Attempted: v, Committed: v, Key: k})
	}
	var distributions []metrics.DistributionResult
	for k, v := range t.distributions {
		distributions = append(distributions, metrics.DistributionResult{Attempted: v, Committed: v, Key: k})
	}
	var gauges []metrics.GaugeResult
	for k, v := range t.gauges {
		gauges = append(gauges, metrics.GaugeResult{Attempted: v, Committed: v, Key: k})
	}
	return *metrics.NewResults(counters, distributions, gauges, nil, nil)
}
