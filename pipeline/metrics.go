package pipeline

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
)

// Metrics is a Prometheus collector for one run at a time. A nil *Metrics does nothing.
type Metrics struct {
	stages *prometheus.HistogramVec

	mu  sync.Mutex
	run *run
}

var (
	readDesc     = prometheus.NewDesc("hafvf_records_in_total", "Records taken up.", nil, nil)
	outDesc      = prometheus.NewDesc("hafvf_records_out_total", "Estimates made.", nil, nil)
	rejectedDesc = prometheus.NewDesc("hafvf_records_rejected_total", "Records that could not be used.", nil, nil)
	lateDesc     = prometheus.NewDesc("hafvf_records_late_total", "Rejected records that came after their turn.", nil, nil)
	missingDesc  = prometheus.NewDesc("hafvf_records_missing_total", "Records without a value.", nil, nil)
	failedDesc   = prometheus.NewDesc("hafvf_not_converged_total", "Estimates whose iteration did not converge.", nil, nil)
	alarmsDesc   = prometheus.NewDesc("hafvf_alarms_total", "Alarms raised.", []string{"kind"}, nil)
	changesDesc  = prometheus.NewDesc("hafvf_changes_total", "Changes detected.", nil, nil)
	outliersDesc = prometheus.NewDesc("hafvf_outliers_total", "Outliers detected.", nil, nil)
	keysDesc     = prometheus.NewDesc("hafvf_keys", "Keys seen by this run.", nil, nil)
	deletedDesc  = prometheus.NewDesc("hafvf_records_deleted_total", "Records of a topic that were deleted before they were read, at most.", []string{"topic"}, nil)
	lagAgeDesc   = prometheus.NewDesc("hafvf_lag_age_seconds", "Time since the brokers said last where the partitions end.", nil, nil)
	lagDesc      = prometheus.NewDesc("hafvf_lag_records", "Records of a partition that have not been taken up.", []string{"partition"}, nil)
)

// NewMetrics returns metrics to register with Prometheus.
func NewMetrics() *Metrics {
	return &Metrics{stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "hafvf_stage_seconds",
		Help:    "Time that records take together: read (gathered, and waiting for those before them), process (until all their outputs are stored), commit (of states and offsets).",
		Buckets: prometheus.ExponentialBuckets(.001, 2.5, 12),
	}, []string{"stage"})}
}

// Describe implements prometheus.Collector. It describes nothing, so that Prometheus does
// not check the metrics, which depend on the run.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.stages.Collect(c)
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()
	if r == nil {
		return
	}
	n, taken := r.account.Counts()
	for _, counter := range []struct {
		desc *prometheus.Desc
		n    int64
	}{{readDesc, taken}, {outDesc, n.Records}, {rejectedDesc, n.Rejected}, {lateDesc, n.Late}, {missingDesc, n.Missing}, {failedDesc, n.NotConverged}, {changesDesc, n.Changes}, {outliersDesc, n.Outliers}} {
		c <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.n))
	}
	for kind, n := range map[string]int64{string(usual.NoveltyAlarm): n.NoveltyAlarms, string(usual.ChangeAlarm): n.ChangeAlarms, keyed.SilentAlarm: n.Silences} {
		c <- prometheus.MustNewConstMetric(alarmsDesc, prometheus.CounterValue, float64(n), kind)
	}
	c <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(n.Keys))
	for topic, n := range r.account.DeletedByTopic() {
		c <- prometheus.MustNewConstMetric(deletedDesc, prometheus.CounterValue, float64(n), topic)
	}
	lag := kafkaio.Lag // of a worker's sources
	if r.ledger != nil {
		lag = r.ledger.Lag
	}
	lags, age := lag()
	if len(lags) > 0 {
		c <- prometheus.MustNewConstMetric(lagAgeDesc, prometheus.GaugeValue, age.Seconds())
	}
	for partition, lag := range lags {
		c <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(lag), partition)
	}
}

// stalled is how long records may be in flight before a run is unhealthy.
const stalled = 5 * time.Minute

// Health returns what is wrong with the run, or nil.
func (m *Metrics) Health() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.run == nil:
		return errors.New("the run has not begun")
	case m.run.account.Busy() > stalled:
		return fmt.Errorf("the same records have been worked on for %v", m.run.account.Busy().Round(time.Second))
	}
	return nil
}

func (m *Metrics) follow(r *run) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = r
}

func (m *Metrics) stage(name string, took time.Duration) {
	if m != nil {
		m.stages.WithLabelValues(name).Observe(took.Seconds())
	}
}
