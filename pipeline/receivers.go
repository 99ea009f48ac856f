package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/webhook"
	"hafvf/internal/account"
	"hafvf/internal/message"
)

// What becomes of the alerts of a run in this process that go to a receiver by HTTP.

const (
	// patience is how long a run that has come to its end waits for a receiver that takes
	// nothing.
	patience = time.Minute
	// stopTime is how long a run that was stopped sends what a receiver takes. A receiver that
	// takes nothing is not waited for.
	stopTime = 5 * time.Second
	// stuckTime is how long it does so if it has waited for another output before.
	stuckTime = time.Second
)

// openOutboxes opens the outboxes of the graph's receivers. With a changelog it holds what waits
// in them: a run that is killed loses nothing, and the next one sends it.
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
		cfg := webhook.OutboxConfig{Sink: *s.hook, MaxAge: s.maxAge, Log: r.log, Delivered: r.finishAlerts}
		if r.durable() {
			n := 0
			cfg.Store = func(a webhook.Alert) string {
				n++
				id := fmt.Sprintf("%d/%016x-%08x", i, begun.UnixNano(), n)
				r.ledger.StoreValue(id, a.Chunk())
				return id
			}
		}
		box, err := webhook.OpenOutbox(cfg, stored[i])
		if err != nil {
			return err
		}
		if n := len(stored[i]); n > 0 {
			r.log.Info("alerts that an earlier run has not delivered are sent", "receiver", box.Place(), "alerts", n)
		}
		delete(stored, i)
		r.outboxes = append(r.outboxes, box)
		account.WithValue(r.account, alertsName(i), box)
	}
	for _, alerts := range stored { // of a receiver that the config has no more
		var refused []webhook.Delivery
		for _, a := range alerts {
			refused = append(refused, webhook.Delivery{Alert: a, Refused: "an earlier run could not deliver it, and the config has no such receiver any more"})
		}
		r.finishAlerts(refused)
	}
	return nil
}

// receivers are the outboxes of the run, or if it is a worker's those of its steps.
func (r *run) receivers() []*webhook.Outbox { return slices.Concat(r.outboxes, webhook.Shared()) }

// durable reports whether the changelog holds what waits in the outboxes.
func (r *run) durable() bool { return r.ledger != nil && r.ledger.Durable() }

// storedAlerts are what a changelog holds, by receiver, in the order in which they were put there:
// their ids have the receiver, the beginning of the run, and a number.
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

// failedTime is how long a run that has failed sends what receivers take.
func (r *run) failedTime() time.Duration {
	if r.isStopped() {
		return stuckTime
	}
	return stopTime
}

// closeOutboxes ends the outboxes. What they have not delivered goes to the dead letter, unless
// the changelog holds it. With a limit, or once the run is to stop, it waits for no receiver that
// takes nothing, and for others no longer than that. It does nothing when called again.
func (r *run) closeOutboxes(limit time.Duration) error {
	if r.delivered {
		return r.deadLetterErr
	}
	r.delivered = true
	wait := patience
	if limit > 0 {
		wait = 0
	}
	closed := make(chan struct{})
	if limit == 0 {
		go func() {
			select {
			case <-r.stopping:
				for _, box := range r.outboxes {
					box.Hurry(stopTime)
				}
			case <-closed:
			}
		}()
	}
	unsent := make([][]webhook.Alert, len(r.outboxes))
	var closing sync.WaitGroup
	for i, box := range r.outboxes {
		if s := box.Stats(); !s.Away.IsZero() && limit == 0 {
			r.log.Info("the input has ended; the run waits for the receiver of alerts", "receiver", box.Place(), "waiting", s.Waiting, "at_most", wait.String())
		}
		closing.Go(func() { unsent[i] = box.Close(wait, limit) })
	}
	closing.Wait()
	close(closed)
	var lost []webhook.Delivery
	for i, box := range r.outboxes {
		switch n := len(unsent[i]); {
		case n > 0 && r.durable():
			r.log.Warn("alerts wait in the changelog for the next run", "receiver", box.Place(), "alerts", n)
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

// expired is the number of alerts that were too old.
func (r *run) expired() (n int64) {
	for _, box := range r.outboxes {
		n += box.Stats().Expired
	}
	return n
}

// finishAlerts notes what became of alerts: those that were refused go to the dead letter, and the
// changelog holds none of them any more.
func (r *run) finishAlerts(deliveries []webhook.Delivery) {
	var chunk connectors.Chunk
	for _, a := range webhook.Refusals(deliveries) {
		r.undelivered(a)
		chunk = appendRefused(chunk, a)
	}
	if len(chunk) > 0 {
		if err := r.writeDead(chunk); err != nil {
			r.log.Error("alerts are neither delivered nor in the dead letter", "reason", err)
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

// undelivered notes an alert that was not delivered.
func (r *run) undelivered(a connectors.Refused) {
	r.found.lost.add(r.log, "an alert was not delivered; it is in the dead letter", "key", string(a.Key), "id", a.ID, "reason", a.Reason)
}

// writeDead writes a chunk to the dead letter from outside of the pipeline.
func (r *run) writeDead(chunk connectors.Chunk) error {
	switch {
	case r.dead.file != nil:
		return connectors.WriteChunk(account.Value[*connectors.Writer](r.account, "rejected"), chunk)
	case r.dead.topic != nil:
		within := stopTime
		if r.isStopped() {
			within = 2 * stuckTime
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return r.dead.topic.WriteChunk(ctx, chunk, r.log)
	}
	return nil
}
