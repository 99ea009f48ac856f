package webhook

import (
	"maps"
	"slices"
	"time"

	"hafvf/connectors"
)

const (
	// missedRepeats is the number of repeats after which a receiver ends an alert that is no longer sent.
	missedRepeats = 4
	// maxRepeats is the maximum number of open alerts in one request.
	maxRepeats = 1000
)

// A change says which alerts of a receiver a record opens or ends. Alerts are identified by their labels.
type change struct {
	opens   string   // empty for none
	ends    []string // none for a record that opens an alert
	ongoing bool     // the record only describes the present state of the alert
}

// changeOf returns the change of a record. It returns no change if the receiver does not need repeats.
func (o *Outbox) changeOf(record []byte) (c change) {
	if o.cfg.Sink.Repeat > 0 {
		c, _ = o.client.form.change(o.cfg.Sink, record) // a record that is no alert is refused later
	}
	return c
}

// resolves reports whether an alert that the record ends is open, or waits to be sent.
func (o *Outbox) resolves(c change) bool {
	return slices.ContainsFunc(c.ends, func(id string) bool {
		_, open := o.open[id]
		return open || slices.ContainsFunc(o.waiting, func(e entry) bool { return e.opens == id })
	})
}

// applySent applies the changes of sent alerts to the open alerts. It returns the alerts that need not be stored any longer.
func (o *Outbox) applySent(sent []entry) (done []Alert) {
	replace := func(id string) {
		if prev, ok := o.open[id]; ok {
			done = append(done, prev)
			delete(o.open, id)
			o.openChanged = true
		}
	}
	for _, e := range sent {
		if e.opens == "" {
			for _, id := range e.ends {
				replace(id)
			}
			done = append(done, e.Alert)
			continue
		}
		replace(e.opens)
		if len(o.open) == 0 {
			o.repeatAt = time.Now().Add(o.cfg.Sink.Repeat)
		}
		o.open[e.opens], o.openChanged = e.Alert, true
	}
	return done
}

// dueRepeats returns the open alerts if it is time to send them again.
func (o *Outbox) dueRepeats() (due []Alert) {
	if len(o.open) == 0 || time.Now().Before(o.repeatAt) {
		return nil
	}
	o.repeatAt = time.Now().Add(o.cfg.Sink.Repeat)
	for _, id := range slices.Sorted(maps.Keys(o.open)) {
		due = append(due, o.open[id])
	}
	return due
}

// repeat sends open alerts again. An outage ends the attempt until the next repeat.
func (o *Outbox) repeat(alerts []Alert) {
	for chunk := range slices.Chunk(alerts, max(maxRepeats, o.client.batch)) {
		texts := make([][]byte, len(chunk))
		for i, a := range chunk {
			texts[i] = a.Text
		}
		var outage error
		for _, err := range o.client.Post(o.ctx, texts) {
			if temporary(err) {
				outage = err
			}
		}
		o.mu.Lock()
		o.logOutage(outage)
		o.mu.Unlock()
		if outage != nil {
			return
		}
	}
}

// Open returns the open alerts of a receiver with Sink.Repeat, as a connectors.Chunk, to be passed to OpenOutbox after a
// restart. changed is false if they are the same as in the previous call.
func (o *Outbox) Open() (chunk []byte, changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.openChanged {
		return nil, false
	}
	o.openChanged = false
	all := connectors.Chunk{}
	for _, id := range slices.Sorted(maps.Keys(o.open)) {
		a := o.open[id]
		all = append(append(all.Begin(a.Key, a.ID), a.Text...), '\n')
	}
	return all, true
}
