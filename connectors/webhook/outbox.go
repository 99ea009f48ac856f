package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"hafvf/internal/message"
	"hafvf/internal/reminder"
)

// An Alert is a record on its way to a receiver.
type Alert struct {
	Key      []byte
	ID       string
	Text     []byte // without its line end
	StoredID string // ID under which the alert is stored, see OutboxConfig.Store; empty if it is not stored
}

// An OutboxConfig configures an Outbox.
type OutboxConfig struct {
	Sink Sink
	// MaxAge is the maximum age of an alert, by its field time. Older alerts are dropped. Zero means no limit.
	MaxAge time.Duration
	// Store stores a queued alert and returns its StoredID. If Store is nil, alerts are not stored.
	Store func(Alert) (id string)
	// Delivered must not be nil. It is called with alerts that the receiver has accepted or refused, before they leave
	// the queue. With Sink.Repeat, an accepted alert that is open follows when it is replaced or ended.
	Delivered func([]Delivery)
	// CanEnd reports whether a later record can end a stored alert. If it cannot, the alert is sent once and not
	// repeated. Nil means that every alert can end.
	CanEnd func(Alert) bool
	Log    *slog.Logger // must not be nil
}

// A Delivery is an alert that the receiver has accepted or refused.
type Delivery struct {
	Alert
	Refused string // reason; empty if the receiver has accepted the alert
}

// An Outbox queues alerts and sends them in the background. An unreachable receiver does not block the pipeline. An
// alert is sent at least once; the receiver recognises repeats by their IDs.
type Outbox struct {
	cfg          OutboxConfig
	client       *Client
	ctx          context.Context // of the requests
	cancel       context.CancelFunc
	done         chan struct{}
	closeStarted chan struct{} // closed by Close
	hurry        chan time.Duration

	mu          sync.Mutex
	waiting     []entry
	bytes       int
	stats       Stats
	outage      reminder.Reminder // while the receiver accepts nothing
	failed      time.Time         // last failed attempt
	gatherUntil time.Time         // gathered alerts wait until then
	open        map[string]Alert  // the last record of each open alert, by its labels, see Sink.Repeat
	openChanged bool              // since the last call of Open
	repeatAt    time.Time         // when open alerts are sent again
	changed     chan struct{}     // closed when an alert arrives or the outbox is closing
}

// An entry is a queued alert.
type entry struct {
	Alert
	change
	queuedAt time.Time
	gathers  bool // may wait for other alerts, see Sink.Batches
}

// Stats counts the alerts of an Outbox by their result.
type Stats struct {
	Sent    int64
	Failed  int64 // refused, rejected by a full queue, or given up
	Expired int64 // older than MaxAge
	Waiting int
	Oldest  time.Time // when the first waiting alert was queued; zero if none waits
	Away    time.Time // start of the receiver's outage; zero while it accepts alerts
	Reason  string    // cause of the outage
}

const (
	// maxWaiting and maxWaitingBytes bound the queue.
	maxWaiting      = 10_000
	maxWaitingBytes = 64 << 20
	// linger is how long an alert waits for others, to share a request with them.
	linger = 200 * time.Millisecond
	// gatherInterval is how long gathered alerts wait after a request that contained some.
	gatherInterval = time.Minute
	// repeatInterval is the time between two warnings during an outage.
	repeatInterval = time.Minute
)

// OpenOutbox returns an outbox that also sends stored, the waiting alerts of an earlier run. The caller must call
// Close.
func OpenOutbox(cfg OutboxConfig, stored []Alert) (*Outbox, error) {
	client, err := NewClient(cfg.Sink, cfg.Log)
	if err != nil {
		return nil, err
	}
	o := &Outbox{cfg: cfg, client: client, open: map[string]Alert{}, done: make(chan struct{}), closeStarted: make(chan struct{}), hurry: make(chan time.Duration, 1), changed: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	for _, a := range stored {
		c := o.changeOf(a.Text)
		if c.opens != "" && cfg.CanEnd != nil && !cfg.CanEnd(a) {
			c = change{}
		}
		o.enqueue(a, c)
	}
	go o.send()
	return o, nil
}

// Put queues an alert for the receiver. queued is false if the alert is older than OutboxConfig.MaxAge, or, with
// Sink.Repeat, if it ends no alert of the receiver. A record with the field ongoing is not queued either: it replaces an
// open alert at its next repeat. The error is not nil if the queue is full; it includes the cause of the receiver's
// outage, if there is one.
func (o *Outbox) Put(a Alert) (queued bool, err error) { return o.put(a, false) }

// put is Put. A stored alert that is open may be older than OutboxConfig.MaxAge.
func (o *Outbox) put(a Alert, stored bool) (queued bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.changeOf(a.Text)
	switch {
	case c.ongoing:
		if open, ok := o.open[c.opens]; ok {
			open.Text = slices.Clone(a.Text)
			o.open[c.opens] = open
		}
		return false, nil
	case len(c.ends) > 0 && !o.resolves(c):
		return false, nil
	case !(stored && c.opens != "") && o.expired(a):
		o.stats.Expired++
		return false, nil
	case len(o.waiting) >= maxWaiting || o.bytes+len(a.Text) > maxWaitingBytes:
		o.stats.Failed++
		return false, errors.New(o.withReason(message.Count(len(o.waiting), "alert", "alerts") + " wait for the receiver, and the queue is full"))
	}
	if o.cfg.Store != nil && a.StoredID == "" {
		a.StoredID = o.cfg.Store(a)
	}
	o.enqueue(a, c)
	return true, nil
}

// withReason appends the cause of the receiver's outage to text, if there is one.
func (o *Outbox) withReason(text string) string {
	if o.stats.Reason != "" {
		text += ": " + o.stats.Reason
	}
	return text
}

// enqueue queues a copy of an alert.
func (o *Outbox) enqueue(a Alert, c change) {
	a.Key, a.Text = slices.Clone(a.Key), slices.Clone(a.Text)
	e := entry{Alert: a, change: c, queuedAt: time.Now()}
	if o.cfg.Sink.Batches {
		var record struct{ Kind string }
		e.gathers = json.Unmarshal(a.Text, &record) == nil && (record.Kind == "silent" || record.Kind == "recovered")
	}
	o.waiting = append(o.waiting, e)
	o.bytes += len(a.Text)
	o.wakeSender()
}

func (o *Outbox) wakeSender() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// expired reports whether an alert is older than OutboxConfig.MaxAge.
func (o *Outbox) expired(a Alert) bool {
	if o.cfg.MaxAge == 0 {
		return false
	}
	var record struct{ Time time.Time }
	return json.Unmarshal(a.Text, &record) == nil && !record.Time.IsZero() && time.Since(record.Time) > o.cfg.MaxAge
}

// Stats returns the counts up to now.
func (o *Outbox) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stats
	s.Away = o.outage.Since
	if s.Waiting = len(o.waiting); s.Waiting > 0 {
		s.Oldest = o.waiting[0].queuedAt
	}
	return s
}

// Place returns the part of the receiver's URL that messages may show.
func (o *Outbox) Place() string { return o.client.client.Place() }

// send sends queued alerts, and repeats open ones, until the outbox is closing and the queue is empty.
func (o *Outbox) send() {
	defer close(o.done)
	tries, closeStarted := 0, o.closeStarted
	for {
		batch, repeats, ok := o.next()
		if !ok {
			return
		}
		if repeats != nil {
			o.repeat(repeats)
			continue
		}
		texts := make([][]byte, len(batch))
		for i, e := range batch {
			texts[i] = e.Text
		}
		retryErr := o.finish(batch, o.client.Post(o.ctx, texts))
		if retryErr == nil {
			tries = 0
			continue
		}
		tries++
		select {
		case <-time.After(o.client.retry.PauseAfter(tries, retryErr)):
		case <-closeStarted:
			closeStarted = nil // retry at once, then pause again
		case <-o.ctx.Done():
			return
		}
	}
}

// next waits for alerts and returns the next ones to send, or open alerts to send again. ok is false if the outbox is
// closing and empty, or was cancelled.
func (o *Outbox) next() (batch []entry, repeats []Alert, ok bool) {
	for {
		var timer <-chan time.Time
		o.mu.Lock()
		n, closing, changed := len(o.waiting), o.closing(), o.changed
		if repeats = o.dueRepeats(); len(o.open) > 0 {
			timer = time.After(time.Until(o.repeatAt))
		}
		if n > 0 {
			wait := time.Until(o.sendAt())
			if len(o.open) == 0 || wait < time.Until(o.repeatAt) {
				timer = time.After(wait)
			}
			if n >= o.client.batch || closing || wait <= 0 {
				batch = slices.Clone(o.waiting[:min(n, o.client.batch)])
			}
		}
		o.mu.Unlock()
		switch {
		case o.ctx.Err() != nil || n == 0 && closing:
			return nil, nil, false
		case repeats != nil && !closing:
			return nil, repeats, true
		case batch != nil:
			return batch, nil, true
		}
		select {
		case <-changed:
		case <-timer:
		case <-o.ctx.Done():
		}
	}
}

// sendAt returns when to send the next request. The queue must not be empty.
func (o *Outbox) sendAt() time.Time {
	t := o.waiting[0].queuedAt.Add(linger)
	if i := slices.IndexFunc(o.waiting, func(e entry) bool { return !e.gathers }); i >= 0 {
		t = o.waiting[i].queuedAt.Add(linger)
	} else if o.gatherUntil.After(t) {
		t = o.gatherUntil
	}
	return t
}

func (o *Outbox) closing() bool {
	select {
	case <-o.closeStarted:
		return true
	default:
		return false
	}
}

// finish counts the alerts of a batch, and removes those that the receiver has accepted or refused from the queue.
// It returns the error of an alert that has to be sent again, or nil if there is none.
func (o *Outbox) finish(batch []entry, results []error) (retryErr error) {
	var left, accepted []entry
	var deliveries []Delivery
	bytes, failed, gathered := 0, int64(0), false
	for i, e := range batch {
		result := results[i]
		if result != nil && (temporary(result) || o.ctx.Err() != nil) {
			left, retryErr = append(left, e), result
			continue
		}
		bytes += len(e.Text)
		if result != nil {
			failed++
			deliveries = append(deliveries, Delivery{e.Alert, result.Error()})
			continue
		}
		accepted = append(accepted, e)
		gathered = gathered || e.gathers
	}
	o.mu.Lock()
	for _, a := range o.applySent(accepted) {
		deliveries = append(deliveries, Delivery{Alert: a})
	}
	o.mu.Unlock()
	if len(deliveries) > 0 {
		o.cfg.Delivered(deliveries)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(left, o.waiting[len(batch):]...)
	o.bytes -= bytes
	o.stats.Sent += int64(len(accepted))
	if gathered {
		o.gatherUntil = time.Now().Add(gatherInterval)
	}
	o.stats.Failed += failed
	o.logOutage(retryErr)
	return retryErr
}

// logOutage records whether the receiver accepts alerts; a nil error means that it does. During an outage it warns
// at once and then every minute.
func (o *Outbox) logOutage(err error) {
	switch {
	case err == nil && o.outage.Since.IsZero():
	case err == nil:
		o.cfg.Log.Info("alert receiver available again", "receiver", o.Place(), "after", o.outage.Lasts().Round(time.Second).String())
		o.outage, o.stats.Reason = reminder.Reminder{}, ""
	case o.ctx.Err() != nil:
	default:
		o.stats.Reason, o.failed = err.Error(), time.Now()
		if o.outage.Due(repeatInterval) {
			o.cfg.Log.Warn("alert receiver unavailable: alerts are queued, the pipeline continues", "receiver", o.Place(), "waiting", len(o.waiting), "reason", o.stats.Reason)
		}
	}
}

// Close sends the queued alerts and returns those that are left. If the receiver is unavailable, Close
// gives up after patience, but not before one attempt. It always gives up after limit, unless limit is zero. Close
// may be called only once.
func (o *Outbox) Close(patience, limit time.Duration) (left []Alert) {
	begun := time.Now()
	o.mu.Lock()
	close(o.closeStarted)
	o.wakeSender()
	o.mu.Unlock()
	var timeUp <-chan time.Time
	if limit > 0 {
		timeUp = time.After(limit)
	}
	tick := time.NewTicker(linger)
	defer tick.Stop()
	for waits := true; waits; {
		select {
		case limit := <-o.hurry:
			patience, timeUp = 0, time.After(limit)
		case <-o.done:
			waits = false
		case <-timeUp:
			waits = false
		case <-tick.C:
			o.mu.Lock()
			waits = o.outage.Since.IsZero() || !o.failed.After(begun) || time.Since(begun) < patience
			o.mu.Unlock()
		}
	}
	o.cancel()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.waiting {
		left = append(left, e.Alert)
	}
	return left
}

// Hurry makes a running Close continue as if it had been called with no patience and the given limit. It may be
// called only once.
func (o *Outbox) Hurry(limit time.Duration) { o.hurry <- limit }

// GiveUp counts alerts as failed that Close has returned and nobody stores. It returns them with the reason.
func (o *Outbox) GiveUp(left []Alert) (deliveries []Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	reason := o.withReason("the run ended before the receiver accepted it")
	for _, a := range left {
		deliveries = append(deliveries, Delivery{a, reason})
	}
	o.stats.Failed += int64(len(left))
	o.waiting, o.bytes = nil, 0
	return deliveries
}
