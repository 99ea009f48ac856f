package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/webhook"
	"hafvf/hafvf/incidents"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/account"
	"hafvf/internal/message"
)

// Delivery of alerts by HTTP, for a run in this process.

const (
	// maxReceiverWait is how long a run waits at the end of its input for a receiver that takes no alerts.
	maxReceiverWait = time.Minute
	// stopTimeout is how long a stopped run sends alerts. It does not wait for a receiver that takes none.
	stopTimeout = 5 * time.Second
	// shortStopTimeout replaces stopTimeout if the run has already waited for another output.
	shortStopTimeout = time.Second
)

// openOutboxes opens an outbox for each receiver by HTTP. With a changelog, pending and open alerts are stored in it: if
// the run is killed, the next run sends them. A file of states has the open alerts.
func (r *run) openOutboxes(g *Graph) error {
	begun := time.Now()
	stored := map[int][]webhook.Alert{}
	if r.durable() {
		stored = storedAlerts(r.ledger.StoredValues())
	}
	for i, s := range g.alerts {
		if s.hook == nil {
			continue
		}
		cfg := webhook.OutboxConfig{Sink: *s.hook, MaxAge: s.maxAge, Log: r.log, Delivered: r.finishAlerts, CanEnd: func(a webhook.Alert) bool { return r.canEnd(g, a) }}
		if r.durable() {
			n := 0
			cfg.Store = func(a webhook.Alert) string {
				n++
				id := fmt.Sprintf("%d/%016x-%08x", i, begun.UnixNano(), n)
				r.ledger.StoreValue(id, a.Chunk())
				return id
			}
		}
		if b, err := r.account.Restore(statestore.OpenAlertsKey(i)); err == nil && !r.durable() {
			stored[i], _ = webhook.Alerts(b) // a state is sealed
		}
		box, err := webhook.OpenOutbox(cfg, stored[i])
		if err != nil {
			return err
		}
		if n := len(stored[i]); n > 0 {
			r.log.Info("sending alerts of an earlier run that are open or were not delivered", "receiver", box.Place(), "alerts", n)
		}
		delete(stored, i)
		if !r.durable() {
			r.account.CommitAlong(statestore.OpenAlertsKey(i), box.Open)
		}
		r.outboxes = append(r.outboxes, box)
		account.WithValue(r.account, alertsName(i), box)
	}
	for _, alerts := range stored { // of receivers that are no longer in the config
		var refused []webhook.Delivery
		for _, a := range alerts {
			refused = append(refused, webhook.Delivery{Alert: a, Refused: "an earlier run could not deliver it, and the config no longer has the receiver"})
		}
		r.finishAlerts(refused)
	}
	return nil
}

// canEnd reports whether an alert of an earlier run can end: its key still has a state, or the run has incidents.
func (r *run) canEnd(g *Graph, a webhook.Alert) bool {
	var record struct{ Kind string }
	if json.Unmarshal(a.Text, &record) == nil && record.Kind == incidents.Kind {
		return g.groups
	}
	return r.memory != nil && !r.memory.Touched(string(a.Key))
}

// receivers returns the outboxes of the run. In a worker it returns the outboxes of its steps.
func (r *run) receivers() []*webhook.Outbox { return slices.Concat(r.outboxes, webhook.Shared()) }

// durable reports whether pending alerts are stored in a changelog.
func (r *run) durable() bool { return r.ledger != nil && r.ledger.HasChangelog() }

// storedAlerts returns the alerts in a changelog by receiver, in the order in which they were stored. Their IDs consist
// of the receiver's index, the start of the run, and a number.
func storedAlerts(stored map[string][]byte) map[int][]webhook.Alert {
	byReceiver := map[int][]webhook.Alert{}
	for _, id := range slices.Sorted(maps.Keys(stored)) {
		var receiver int
		if _, err := fmt.Sscanf(id, "%d/", &receiver); err != nil {
			continue
		}
		alerts, _ := webhook.Alerts(stored[id])
		for _, a := range alerts {
			a.StoredID = id
			byReceiver[receiver] = append(byReceiver[receiver], a)
		}
	}
	return byReceiver
}

// failedTimeout returns how long a failed run sends alerts.
func (r *run) failedTimeout() time.Duration {
	if r.isStopped() {
		return shortStopTimeout
	}
	return stopTimeout
}

// closeOutboxes closes the outboxes. Undelivered alerts go to the dead letter, unless the changelog stores them. A
// limit above 0 bounds the time for sending, and receivers that take no alerts are then not waited for. Without a limit
// this applies from the moment the run is stopped, with stopTimeout. Further calls return the same error.
func (r *run) closeOutboxes(limit time.Duration) error {
	if r.delivered {
		return r.deadLetterErr
	}
	r.delivered = true
	wait := maxReceiverWait
	if limit > 0 {
		wait = 0
	}
	closed := make(chan struct{})
	if limit == 0 {
		go func() {
			select {
			case <-r.stopping:
				for _, box := range r.outboxes {
					box.Hurry(stopTimeout)
				}
			case <-closed:
			}
		}()
	}
	unsent := make([][]webhook.Alert, len(r.outboxes))
	var closing sync.WaitGroup
	for i, box := range r.outboxes {
		if s := box.Stats(); !s.Away.IsZero() && limit == 0 {
			r.log.Info("input has ended: waiting for the receiver of alerts", "receiver", box.Place(), "waiting", s.Waiting, "at_most", wait.String())
		}
		closing.Go(func() { unsent[i] = box.Close(wait, limit) })
	}
	closing.Wait()
	close(closed)
	var lost []webhook.Delivery
	for i, box := range r.outboxes {
		switch n := len(unsent[i]); {
		case n > 0 && r.durable():
			r.log.Warn("undelivered alerts are stored in the changelog for the next run", "receiver", box.Place(), "alerts", n)
		case n > 0:
			lost = append(lost, box.GiveUp(unsent[i])...)
		}
	}
	r.finishAlerts(lost)
	for i, box := range r.outboxes {
		stats := box.Stats()
		due := stats.Failed
		if r.durable() {
			due += int64(len(unsent[i]))
		}
		if due > 0 && stats.Sent == 0 {
			r.failedReceivers = append(r.failedReceivers, fmt.Sprintf("%s took none of %s", box.Place(), message.Count(due, "alert", "alerts")))
		}
	}
	return r.deadLetterErr
}

// expired returns the number of alerts that were too old to send.
func (r *run) expired() (n int64) {
	for _, box := range r.outboxes {
		n += box.Stats().Expired
	}
	return n
}

// finishAlerts writes refused alerts to the dead letter, and removes all given alerts from the changelog.
func (r *run) finishAlerts(deliveries []webhook.Delivery) {
	var chunk connectors.Chunk
	for _, a := range webhook.Refusals(deliveries) {
		r.undelivered(a)
		chunk = appendRefused(chunk, a)
	}
	if len(chunk) > 0 {
		if err := r.writeDead(chunk); err != nil {
			r.log.Error("alerts lost: neither delivered nor written to the dead letter", "reason", err)
			r.mu.Lock()
			r.deadLetterErr = err
			r.mu.Unlock()
			return
		}
	}
	if r.durable() {
		for _, a := range deliveries {
			r.ledger.StoreValue(a.StoredID, nil)
		}
	}
}

// undelivered counts and logs an alert that was not delivered.
func (r *run) undelivered(a connectors.Refused) {
	r.found.lost.add(r.log, "alert was not delivered: it is in the dead letter", "key", string(a.Key), "id", a.ID, "reason", a.Reason)
}

// writeDead writes a chunk to the dead letter directly, not through the pipeline.
func (r *run) writeDead(chunk connectors.Chunk) error {
	switch {
	case r.dead.file != nil:
		return connectors.WriteChunk(account.Value[*connectors.Writer](r.account, "rejected"), chunk)
	case r.dead.topic != nil:
		within := stopTimeout
		if r.isStopped() {
			within = 2 * shortStopTimeout
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return r.dead.topic.WriteChunk(ctx, chunk, r.log)
	}
	return nil
}
