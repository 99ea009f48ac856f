package pipeline

import (
	"context"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/kafkaio"
	"hafvf/connectors/webhook"
	"hafvf/internal/account"
)

// What becomes of the alerts of a run in this process that go to a receiver by HTTP.

const (
	// patience is how long a run that has come to its end waits for a receiver that takes
	// nothing.
	patience = time.Minute
	// stopTime is how long a run that was stopped sends what a receiver takes. A receiver that
	// takes nothing is not waited for.
	stopTime = 5 * time.Second
)

// openOutbox opens the outbox of a receiver.
func (r *run) openOutbox(name string, s graphSink) error {
	cfg := webhook.OutboxConfig{Sink: *s.hook, MaxAge: s.maxAge, Bury: r.bury, Log: r.log}
	box, err := webhook.OpenOutbox(cfg, nil)
	if err != nil {
		return err
	}
	r.outboxes = append(r.outboxes, box)
	account.Attach(r.account, name, box)
	return nil
}

// closeOutboxes ends the outboxes. What they have not delivered goes to the dead letter. It does
// nothing when called again.
func (r *run) closeOutboxes(stopped bool) error {
	if r.delivered {
		return r.buried
	}
	r.delivered = true
	for _, box := range r.outboxes {
		wait, limit := patience, time.Duration(0)
		if stopped {
			wait, limit = 0, stopTime
		}
		if left := box.Close(wait, limit); len(left) > 0 {
			r.bury(box.GiveUp(left))
		}
	}
	return r.buried
}

// expired is the number of alerts that were too old.
func (r *run) expired() (n int64) {
	for _, box := range r.outboxes {
		n += box.Stats().Expired
	}
	return n
}

// bury writes alerts that were not delivered to the dead letter.
func (r *run) bury(all []webhook.Refused) {
	var chunk connectors.Chunk
	for _, a := range all {
		r.undelivered(a)
		chunk = appendRefused(chunk, a)
	}
	if err := r.writeDead(chunk); err != nil {
		r.log.Error("alerts are neither delivered nor in the dead letter", "alerts", len(all), "reason", err)
		r.mu.Lock()
		r.buried = err
		r.mu.Unlock()
	}
}

// undelivered notes an alert that was not delivered. The log says so of the first, and once a
// minute.
func (r *run) undelivered(a webhook.Refused) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost++
	if now := time.Now(); now.Sub(r.lostTold) >= time.Minute {
		r.lostTold = now
		r.log.Error("an alert was not delivered; it is in the dead letter", "key", string(a.Key), "id", a.ID, "reason", a.Reason, "so_far", r.lost)
	}
}

// writeDead writes a chunk to the dead letter from outside of the pipeline.
func (r *run) writeDead(chunk connectors.Chunk) error {
	switch {
	case r.dead.file != nil:
		return connectors.WriteChunk(account.Part[*connectors.Writer](r.account, "rejected"), chunk)
	case r.dead.topic != nil:
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return kafkaio.WriteChunk(ctx, *r.dead.topic, chunk, r.log)
	}
	return nil
}
