package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/message"
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
	turnedDesc   = prometheus.NewDesc("hafvf_keys_turned_back_total", "How often a key went back from a time ahead of the clock.", nil, nil)
	eventLagDesc = prometheus.NewDesc("hafvf_event_lag_seconds", "How far records of a partition are behind the clock when they arrive: 99 % of them, of late.", []string{"partition"}, nil)
	refusedDesc  = prometheus.NewDesc("hafvf_records_refused_total", "Estimates that the sink did not take. They are in the dead letter.", nil, nil)
	partialDesc  = prometheus.NewDesc("hafvf_partial_answers_total", "Answers of the server of the source of which it says that they are not whole.", nil, nil)
	droppedDesc  = prometheus.NewDesc("hafvf_points_dropped_total", "Points of the server of the source that it was not asked for, or that came twice.", nil, nil)
	missingDesc  = prometheus.NewDesc("hafvf_records_missing_total", "Records without a value.", nil, nil)
	failedDesc   = prometheus.NewDesc("hafvf_not_converged_total", "Estimates whose iteration did not converge.", nil, nil)
	alarmsDesc   = prometheus.NewDesc("hafvf_alarms_total", "Alarms raised.", []string{"kind"}, nil)
	mutedDesc    = prometheus.NewDesc("hafvf_alarms_muted_total", "Alarms that were not raised, because the debt of earlier alarms of their keys stood against them.", nil, nil)
	openedDesc   = prometheus.NewDesc("hafvf_incidents_total", "Incidents opened.", nil, nil)
	openDesc     = prometheus.NewDesc("hafvf_incidents_open", "Incidents that have not closed yet.", nil, nil)
	changesDesc  = prometheus.NewDesc("hafvf_changes_total", "Changes detected.", nil, nil)
	outliersDesc = prometheus.NewDesc("hafvf_outliers_total", "Outliers detected.", nil, nil)
	resetDesc    = prometheus.NewDesc("hafvf_keys_reset_total", "Keys that began anew, because the state could not be read or could learn nothing.", nil, nil)
	panicsDesc   = prometheus.NewDesc("hafvf_panics_total", "How often the mathematics of a key panicked, which is a fault of hafvf. The records are in the dead letter.", nil, nil)
	keysDesc     = prometheus.NewDesc("hafvf_keys", "Keys that this run has seen, less those that it has forgotten.", nil, nil)
	expiredKeys  = prometheus.NewDesc("hafvf_keys_expired_total", "Keys that were forgotten, as they had no record for longer than expire.", nil, nil)
	sentDesc     = prometheus.NewDesc("hafvf_alerts_sent_total", "Alerts that the receiver took.", receiverLabels, nil)
	failedToDesc = prometheus.NewDesc("hafvf_alerts_failed_total", "Alerts that the receiver did not take. They are in the dead letter.", receiverLabels, nil)
	expiredDesc  = prometheus.NewDesc("hafvf_alerts_expired_total", "Alerts that were not sent, because they were older than max_age.", receiverLabels, nil)
	waitingDesc  = prometheus.NewDesc("hafvf_alerts_waiting", "Alerts that wait for the receiver.", receiverLabels, nil)
	oldestDesc   = prometheus.NewDesc("hafvf_alerts_oldest_waiting_seconds", "For how long the first of them has been waiting.", receiverLabels, nil)
	deletedDesc  = prometheus.NewDesc("hafvf_records_deleted_total", "Records of a topic that were deleted before they were read, at most.", []string{"topic"}, nil)
	lagAgeDesc   = prometheus.NewDesc("hafvf_lag_age_seconds", "Time since the brokers said last where the partitions end.", nil, nil)
	lagDesc      = prometheus.NewDesc("hafvf_lag_records", "Records of a partition that have not been taken up.", []string{"partition"}, nil)
)

// receiverLabels are those of metrics of receivers: the place in the list of receivers, and what
// may be said of the URL.
var receiverLabels = []string{"receiver", "host"}

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
	}{{readDesc, taken}, {outDesc, n.Records}, {rejectedDesc, n.Rejected}, {lateDesc, n.Late}, {resetDesc, n.Reset}, {panicsDesc, n.Panics}, {expiredKeys, n.ExpiredKeys}, {turnedDesc, n.TurnedBack}, {missingDesc, n.Missing}, {failedDesc, n.NotConverged}, {mutedDesc, n.Muted}, {changesDesc, n.Changes}, {outliersDesc, n.Outliers}, {partialDesc, r.answers.Partial.Load()}, {droppedDesc, r.answers.Dropped.Load()}} {
		c <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.n))
	}
	c <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(r.countRefused()))
	for kind, n := range map[string]int64{string(usual.NoveltyAlarm): n.NoveltyAlarms, string(usual.ChangeAlarm): n.ChangeAlarms, keyed.SilentAlarm: n.Silences} {
		c <- prometheus.MustNewConstMetric(alarmsDesc, prometheus.CounterValue, float64(n), kind)
	}
	if opened, open, groups := r.countIncidents(); groups {
		c <- prometheus.MustNewConstMetric(openedDesc, prometheus.CounterValue, float64(opened))
		c <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(open))
	}
	c <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(max(0, n.Keys-n.ExpiredKeys-n.Forgotten)))
	for i, box := range r.receivers() {
		s, oldest := box.Stats(), 0.
		if !s.Oldest.IsZero() {
			oldest = time.Since(s.Oldest).Seconds()
		}
		for _, v := range []struct {
			desc *prometheus.Desc
			kind prometheus.ValueType
			v    float64
		}{
			{sentDesc, prometheus.CounterValue, float64(s.Sent)}, {failedToDesc, prometheus.CounterValue, float64(s.Failed)},
			{expiredDesc, prometheus.CounterValue, float64(s.Expired)}, {waitingDesc, prometheus.GaugeValue, float64(s.Waiting)},
			{oldestDesc, prometheus.GaugeValue, oldest},
		} {
			c <- prometheus.MustNewConstMetric(v.desc, v.kind, v.v, strconv.Itoa(i), box.Place())
		}
	}
	for topic, n := range r.account.DeletedByTopic() {
		c <- prometheus.MustNewConstMetric(deletedDesc, prometheus.CounterValue, float64(n), topic)
	}
	eventLags := kafkaio.EventLags // of a worker's sources
	if r.ledger != nil {
		eventLags = r.ledger.EventLags
	}
	for partition, lag := range eventLags() {
		c <- prometheus.MustNewConstMetric(eventLagDesc, prometheus.GaugeValue, lag.Usual.Seconds(), partition)
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

// Note says what is wrong outside of a run that is well: receivers that take no alerts. It is
// empty if nothing is.
func (m *Metrics) Note() (note string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return ""
	}
	for _, box := range m.run.receivers() {
		if s := box.Stats(); !s.Away.IsZero() {
			note += fmt.Sprintf("%s has taken no alerts for %v, and %s: %s\n", box.Place(), time.Since(s.Away).Round(time.Second), message.Count(s.Waiting, "waits", "wait"), s.Reason)
		}
	}
	return note
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
