package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"hafvf/connectors/kafkaio"
	"hafvf/connectors/webhook"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/account"
	"hafvf/internal/message"
)

// Metrics is a Prometheus collector for one run at a time. It is safe for concurrent use. Methods of a nil *Metrics
// that record something do nothing.
type Metrics struct {
	stages *prometheus.HistogramVec

	mu  sync.Mutex
	run *run
}

// A Metric describes a metric of /metrics.
type Metric struct {
	Name, Doc string
	Labels    []string
}

// MetricTable lists all metrics of this package.
var MetricTable []Metric

// metric adds a metric to MetricTable and returns its description.
func metric(name, doc string, labels ...string) *prometheus.Desc {
	MetricTable = append(MetricTable, Metric{name, doc, labels})
	return prometheus.NewDesc(name, doc, labels, nil)
}

var (
	readDesc       = metric("hafvf_records_in_total", "records read")
	outDesc        = metric("hafvf_records_out_total", "estimates made")
	rejectedDesc   = metric("hafvf_records_rejected_total", "records in the dead letter")
	lateDesc       = metric("hafvf_records_late_total", "rejected records that were late")
	rewoundDesc    = metric("hafvf_keys_turned_back_total", "how often a key went back from a time ahead of the clock")
	eventLagDesc   = metric("hafvf_event_lag_seconds", "delay behind the clock within which 99 % of the recent records arrived. Present if `expire`, which a topic has by default, `lateness`, `silence` or sessions need it", "partition")
	refusedDesc    = metric("hafvf_records_refused_total", "estimates that a sink `prometheus` refused. They are in the dead letter")
	partialDesc    = metric("hafvf_partial_answers_total", "partial answers to a source `prometheus`. They are requested again or, with `partial: take`, used")
	droppedDesc    = metric("hafvf_points_dropped_total", "dropped points of a source `prometheus`: not requested, or repeated")
	missingDesc    = metric("hafvf_records_missing_total", "records without a value")
	failedDesc     = metric("hafvf_not_converged_total", "estimates whose iteration did not converge")
	alarmsDesc     = metric("hafvf_alarms_total", "alarms raised", "kind")
	mutedDesc      = metric("hafvf_alarms_muted_total", "alarms that the budget suppressed. To get them, set a shorter `detect.budget`")
	restingDesc    = metric("hafvf_alarms_resting_total", "deviations that returned within an open episode of their key. To get them as alarms, set a shorter `detect.rest`")
	suppressedDesc = metric("hafvf_alarms_held_back_score", "the largest score of the suppressed alarms, as `muted` or `resting`", "why")
	openedDesc     = metric("hafvf_incidents_total", "incidents opened, with `incidents`")
	openDesc       = metric("hafvf_incidents_open", "incidents that have not closed")
	incidentDesc   = metric("hafvf_incident", "1 while an incident of the group is open, then 0. The first 100 groups of a run are named, further groups share `others`", "group")
	changesDesc    = metric("hafvf_changes_total", "detected changes, alarm or not")
	outliersDesc   = metric("hafvf_outliers_total", "detected outliers, alarm or not")
	resetDesc      = metric("hafvf_keys_reset_total", "keys that were reset, because their state could not be read or could learn nothing")
	panicsDesc     = metric("hafvf_panics_total", "how often the computation of a key panicked, a bug in hafvf. The records are in the dead letter")
	keysDesc       = metric("hafvf_keys", "keys seen since the start, without forgotten ones")
	expiredKeys    = metric("hafvf_keys_expired_total", "keys that were forgotten, because they had no record for longer than `expire`")
	sentDesc       = metric("hafvf_alerts_sent_total", "alerts that the receiver accepted", receiverLabels...)
	failedToDesc   = metric("hafvf_alerts_failed_total", "alerts that went to the dead letter", receiverLabels...)
	expiredDesc    = metric("hafvf_alerts_expired_total", "alerts that were not sent, because they were older than `max_age`", receiverLabels...)
	waitingDesc    = metric("hafvf_alerts_waiting", "alerts that are pending for the receiver", receiverLabels...)
	oldestDesc     = metric("hafvf_alerts_oldest_waiting_seconds", "the age of the oldest pending alert", receiverLabels...)
	deletedDesc    = metric("hafvf_records_deleted_total", "maximum number of records that were deleted (retention) before they were read", "topic")
	lagAgeDesc     = metric("hafvf_lag_age_seconds", "time since the brokers last reported where the partitions end")
	lagDesc        = metric("hafvf_lag_records", "records in the topic that hafvf has not yet read, as the brokers report at the scrape", "partition")
)

// stageMetric describes a histogram.
var stageMetric = Metric{"hafvf_stage_seconds", "the time that a batch of records takes, a histogram: `read` (until the batch is gathered and earlier batches are done), `process` (until all outputs are stored), `commit` (of states and offsets)", []string{"stage"}}

func init() { MetricTable = append(MetricTable, stageMetric) }

// receiverLabels are the labels of metrics about receivers: the index in the list of receivers, and the URL without
// secrets.
var receiverLabels = []string{"receiver", "host"}

// NewMetrics returns metrics to register with Prometheus.
func NewMetrics() *Metrics {
	return &Metrics{stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    stageMetric.Name,
		Help:    stageMetric.Doc,
		Buckets: prometheus.ExponentialBuckets(.001, 2.5, 12),
	}, stageMetric.Labels)}
}

// Describe implements prometheus.Collector. It sends nothing, which turns off Prometheus's checks: the metrics depend
// on the run.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// A Status is the state of a run in progress, for its metrics and the live page.
type Status struct {
	account.Counts
	Observations int64            // observations read
	KnownKeys    int64            // keys seen, without forgotten ones
	Lags         map[string]int64 // unread records by partition, as the brokers reported LagAge ago
	LagAge       time.Duration
	EventLags    map[string]kafkaio.EventLag // by partition
	Receivers    []ReceiverStatus
}

// A ReceiverStatus counts the alerts for one receiver.
type ReceiverStatus struct {
	webhook.Stats
	Place string // URL without secrets
}

// Waited returns how long the oldest pending alert has waited; 0 if none is pending.
func (r *ReceiverStatus) Waited() time.Duration {
	if r.Oldest.IsZero() {
		return 0
	}
	return time.Since(r.Oldest)
}

// Alarms returns the number of alarms that the run has raised.
func (r *Status) Alarms() int64 { return r.NoveltyAlarms + r.ChangeAlarms + r.Silences }

// Reading returns the status of the current run. It is zero before a run has started.
func (m *Metrics) Reading() Status { return m.current().reading() }

// current returns the current run, nil before one has started.
func (m *Metrics) current() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run
}

func (r *run) reading() (status Status) {
	if r == nil {
		return status
	}
	status.Counts, status.Observations = r.account.Counts()
	status.KnownKeys = max(0, status.Keys-status.ExpiredKeys-status.Forgotten)
	for _, box := range r.receivers() {
		status.Receivers = append(status.Receivers, ReceiverStatus{box.Stats(), box.Place()})
	}
	status.Lags, status.LagAge = r.ledger.Lag() // a worker has no ledger: the lags of its sources
	status.EventLags = r.ledger.EventLags()
	return status
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	m.stages.Collect(c)
	r := m.current()
	if r == nil {
		return
	}
	n := r.reading()
	for _, counter := range []struct {
		desc *prometheus.Desc
		n    int64
	}{{readDesc, n.Observations}, {outDesc, n.Records}, {rejectedDesc, n.Rejected}, {lateDesc, n.Late}, {resetDesc, n.Reset}, {panicsDesc, n.Panics}, {expiredKeys, n.ExpiredKeys}, {rewoundDesc, n.Rewound}, {missingDesc, n.Missing}, {failedDesc, n.NotConverged}, {mutedDesc, n.Muted}, {restingDesc, n.Resting}, {changesDesc, n.Changes}, {outliersDesc, n.Outliers}, {partialDesc, r.answers.Partial.Load()}, {droppedDesc, r.answers.Dropped.Load()}} {
		c <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.n))
	}
	c <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(r.found.refused.count()))
	for kind, n := range map[string]int64{string(usual.NoveltyAlarm): n.NoveltyAlarms, string(usual.ChangeAlarm): n.ChangeAlarms, keyed.SilentAlarm: n.Silences} {
		c <- prometheus.MustNewConstMetric(alarmsDesc, prometheus.CounterValue, float64(n), kind)
	}
	for why, score := range map[string]float64{"muted": n.MutedScore, "resting": n.RestingScore} {
		c <- prometheus.MustNewConstMetric(suppressedDesc, prometheus.GaugeValue, score, why)
	}
	if r.groups {
		opened, open := r.found.incidentCounts()
		c <- prometheus.MustNewConstMetric(openedDesc, prometheus.CounterValue, float64(opened))
		c <- prometheus.MustNewConstMetric(openDesc, prometheus.GaugeValue, float64(open))
		for group, open := range r.found.openByGroup() {
			c <- prometheus.MustNewConstMetric(incidentDesc, prometheus.GaugeValue, open, group)
		}
	}
	c <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(n.KnownKeys))
	for i, s := range n.Receivers {
		for _, v := range []struct {
			desc *prometheus.Desc
			kind prometheus.ValueType
			v    float64
		}{
			{sentDesc, prometheus.CounterValue, float64(s.Sent)}, {failedToDesc, prometheus.CounterValue, float64(s.Failed)},
			{expiredDesc, prometheus.CounterValue, float64(s.Expired)}, {waitingDesc, prometheus.GaugeValue, float64(s.Waiting)},
			{oldestDesc, prometheus.GaugeValue, s.Waited().Seconds()},
		} {
			c <- prometheus.MustNewConstMetric(v.desc, v.kind, v.v, strconv.Itoa(i), s.Place)
		}
	}
	for topic, n := range r.account.DeletedByTopic() {
		c <- prometheus.MustNewConstMetric(deletedDesc, prometheus.CounterValue, float64(n), topic)
	}
	for partition, lag := range n.EventLags {
		c <- prometheus.MustNewConstMetric(eventLagDesc, prometheus.GaugeValue, lag.Usual.Seconds(), partition)
	}
	if len(n.Lags) > 0 {
		c <- prometheus.MustNewConstMetric(lagAgeDesc, prometheus.GaugeValue, n.LagAge.Seconds())
	}
	for partition, lag := range n.Lags {
		c <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(lag), partition)
	}
}

// maxInFlight is the time that records may be in flight before Health reports an error.
const maxInFlight = 5 * time.Minute

// Health returns an error if no run has started, or if records are in flight for longer than maxInFlight.
func (m *Metrics) Health() error {
	switch r := m.current(); {
	case r == nil:
		return errors.New("the run has not started")
	case r.account.Busy() > maxInFlight:
		return fmt.Errorf("the same records have been in flight for %v", r.account.Busy().Round(time.Second))
	}
	return nil
}

// UnavailableReceivers names the receivers that take no alerts. It is empty if all do. Such a run is healthy.
func (m *Metrics) UnavailableReceivers() (note string) {
	for _, s := range m.Reading().Receivers {
		if !s.Away.IsZero() {
			note += fmt.Sprintf("%s has taken no alerts for %v, and %s: %s\n", s.Place, time.Since(s.Away).Round(time.Second), message.Count(s.Waiting, "alert waits", "alerts wait"), s.Reason)
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
