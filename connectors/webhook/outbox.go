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
	StoredID string // the id under which it is stored, of OutboxConfig.Store; empty if it is not
}

// An OutboxConfig says what an outbox does with its alerts.
type OutboxConfig struct {
	Sink Sink
	// MaxAge is the age above which an alert is not sent, by its field time. Zero is none.
	MaxAge time.Duration
	// Store, if set, stores an alert that waits, and returns the id under which it does so.
	Store func(Alert) (id string)
	// Delivered is called with the alerts that do not wait any more, because the receiver has taken
	// or refused them.
	Delivered func([]Delivery)
	Log       *slog.Logger
}

// Delivery is an alert of which a receiver has said what it makes of it.
type Delivery struct {
	Alert
	Refused string // why; empty if the receiver has taken it
}

// An Outbox holds alerts that wait for a receiver, and sends them beside the pipeline. Nothing
// but the outbox waits for a receiver that is away. It sends an alert at least once: a receiver
// recognises repeats by their ids.
type Outbox struct {
	cfg          OutboxConfig
	client       *Client
	ctx          context.Context // of the requests
	cancel       context.CancelFunc
	done         chan struct{}
	closeStarted chan struct{} // closed when the outbox is closing
	hurry        chan time.Duration

	mu          sync.Mutex
	waiting     []entry
	bytes       int
	stats       Stats
	away        reminder.Reminder // the receiver takes nothing
	failed      time.Time         // when it last took nothing
	gatherUntil time.Time         // until then what is gathered waits
	changed     chan struct{}     // closed when something came or the outbox is closing
}

// entry is an alert that waits.
type entry struct {
	Alert
	queuedAt time.Time
	gathers  bool // it can wait for others, see Sink.Batches
}

// Stats are what became of alerts.
type Stats struct {
	Sent    int64
	Failed  int64 // refused, without a place, or given up
	Expired int64 // older than MaxAge
	Waiting int
	Oldest  time.Time // since when the first that waits does; zero if none does
	Away    time.Time // since when the receiver takes nothing; zero if it does
	Reason  string    // for which it takes nothing
}

const (
	// most alerts, and bytes of them, wait for a receiver.
	maxWaiting      = 10_000
	maxWaitingBytes = 64 << 20
	// linger is how long an alert waits for others, to share a request with them.
	linger = 200 * time.Millisecond
	// gather is the time between two requests of what is gathered.
	gatherInterval = time.Minute
	// repeats is the time after which the log says again that a receiver is away.
	repeatInterval = time.Minute
)

// OpenOutbox makes an outbox with alerts that wait since an earlier run. Close ends it.
func OpenOutbox(cfg OutboxConfig, stored []Alert) (*Outbox, error) {
	client, err := NewClient(cfg.Sink, cfg.Log)
	if err != nil {
		return nil, err
	}
	o := &Outbox{cfg: cfg, client: client, done: make(chan struct{}), closeStarted: make(chan struct{}), hurry: make(chan time.Duration, 1), changed: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	for _, a := range stored {
		o.enqueue(a)
	}
	go o.send()
	return o, nil
}

// Put takes an alert. It reports whether the alert waits: one that is too old does not. The
// error says why there is no place for it.
func (o *Outbox) Put(a Alert) (queued bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.expired(a):
		o.stats.Expired++
		return false, nil
	case len(o.waiting) >= maxWaiting || o.bytes+len(a.Text) > maxWaitingBytes:
		o.stats.Failed++
		return false, errors.New(o.withReason(message.Count(len(o.waiting), "alert", "alerts") + " wait for the receiver, which is all that find a place"))
	}
	if o.cfg.Store != nil && a.StoredID == "" {
		a.StoredID = o.cfg.Store(a)
	}
	o.enqueue(a)
	return true, nil
}

// because adds the reason for which the receiver takes nothing, if there is one.
func (o *Outbox) withReason(text string) string {
	if o.stats.Reason != "" {
		text += ": " + o.stats.Reason
	}
	return text
}

// append has an alert wait. It owns the alert's bytes then.
func (o *Outbox) enqueue(a Alert) {
	a.Key, a.Text = slices.Clone(a.Key), slices.Clone(a.Text)
	e := entry{Alert: a, queuedAt: time.Now()}
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

// old reports whether an alert is too old to be sent.
func (o *Outbox) expired(a Alert) bool {
	if o.cfg.MaxAge == 0 {
		return false
	}
	var record struct{ Time time.Time }
	return json.Unmarshal(a.Text, &record) == nil && !record.Time.IsZero() && time.Since(record.Time) > o.cfg.MaxAge
}

// Stats returns what became of the alerts so far.
func (o *Outbox) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.stats
	s.Away = o.away.Since
	if s.Waiting = len(o.waiting); s.Waiting > 0 {
		s.Oldest = o.waiting[0].queuedAt
	}
	return s
}

// Place is what messages may say of the receiver's URL.
func (o *Outbox) Place() string { return o.client.client.Place() }

// send sends what waits, until the outbox is closing and nothing does.
func (o *Outbox) send() {
	defer close(o.done)
	tries, closeStarted := 0, o.closeStarted
	for {
		batch, ok := o.next()
		if !ok {
			return
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
			closeStarted = nil // one attempt at once; those after it pause
		case <-o.ctx.Done():
			return
		}
	}
}

// next waits for alerts, and returns the next ones to send. ok is false if the outbox is
// closing and there is none, or was closed.
func (o *Outbox) next() (batch []entry, ok bool) {
	for {
		var timer <-chan time.Time
		o.mu.Lock()
		n, closing, changed := len(o.waiting), o.closing(), o.changed
		if n > 0 {
			wait := time.Until(o.sendAt())
			timer = time.After(wait)
			if n >= o.client.batch || closing || wait <= 0 {
				batch = slices.Clone(o.waiting[:min(n, o.client.batch)])
			}
		}
		o.mu.Unlock()
		switch {
		case o.ctx.Err() != nil || n == 0 && closing:
			return nil, false
		case batch != nil:
			return batch, true
		}
		select {
		case <-changed:
		case <-timer:
		case <-o.ctx.Done():
		}
	}
}

// due is when what waits is to be sent.
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

// finish notes what became of the first alerts that wait. It returns why some of them wait on,
// nil if none does.
func (o *Outbox) finish(batch []entry, results []error) (retryErr error) {
	var left []entry
	var deliveries []Delivery
	bytes, sent, gathered := 0, int64(0), false
	for i, e := range batch {
		result := results[i]
		if result != nil && (temporary(result) || o.ctx.Err() != nil) {
			left, retryErr = append(left, e), result
			continue
		}
		bytes += len(e.Text)
		d := Delivery{Alert: e.Alert}
		if result == nil {
			sent++
			gathered = gathered || e.gathers
		} else {
			d.Refused = result.Error()
		}
		deliveries = append(deliveries, d)
	}
	if len(deliveries) > 0 {
		o.cfg.Delivered(deliveries)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(left, o.waiting[len(batch):]...)
	o.bytes -= bytes
	o.stats.Sent += sent
	if gathered {
		o.gatherUntil = time.Now().Add(gatherInterval)
	}
	o.stats.Failed += int64(len(deliveries)) - sent
	o.logOutage(retryErr)
	return retryErr
}

// outage notes whether the receiver takes alerts, and says so in the log: at once, and once a
// minute as long as it does not.
func (o *Outbox) logOutage(why error) {
	switch {
	case why == nil && o.away.Since.IsZero():
	case why == nil:
		o.cfg.Log.Info("the receiver of alerts takes them again", "receiver", o.Place(), "after", o.away.Lasts().Round(time.Second).String())
		o.away, o.stats.Reason = reminder.Reminder{}, ""
	case o.ctx.Err() != nil:
	default:
		o.stats.Reason, o.failed = why.Error(), time.Now()
		if o.away.Due(repeatInterval) {
			o.cfg.Log.Warn("the receiver of alerts takes none; they wait, and the pipeline goes on", "receiver", o.Place(), "waiting", len(o.waiting), "reason", o.stats.Reason)
		}
	}
}

// Close sends what waits, as long as the receiver takes it. It gives up once the receiver has
// taken nothing for the time patience, after one attempt at least, or after the time limit if
// that is not zero. It returns the alerts that still wait. It is called once.
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
			waits = o.away.Since.IsZero() || !o.failed.After(begun) || time.Since(begun) < patience
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

// Hurry has a Close that waits go on as if it had been called with no patience and that limit. It is
// called once.
func (o *Outbox) Hurry(limit time.Duration) { o.hurry <- limit }

// GiveUp counts alerts that Close has left and that are not kept, and says why they are given
// up.
func (o *Outbox) GiveUp(left []Alert) (deliveries []Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	why := o.withReason("the run ended before the receiver took it")
	for _, a := range left {
		deliveries = append(deliveries, Delivery{a, why})
	}
	o.stats.Failed += int64(len(left))
	o.waiting, o.bytes = nil, 0
	return deliveries
}
