package transforms

import (
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/hafvf/keyed"
)

// expireTag is the tag of the timers of expiry.
const expireTag = "expire"

// A key that expires begins anew in any case: its next observation says by its time that the key
// has. What follows here only gives the room of its state back, within expiryParts of the time in
// which it expires. So a cell has one timer, and no key has a place of its own for it.
const expiryParts = 16

// expires reports whether the node forgets keys that expire.
func (fn *node) expires() bool { return fn.Live && fn.cfg.Expire > 0 }

// awaitExpiry has a cell looked at before long in which a key speaks, unless it has a timer for
// that. What the timer should be set for is not known before the cell is read.
func (fn *node) awaitExpiry(tp timers.Provider, cell string, speaks time.Time) {
	if now := time.Now(); speaks.After(now) {
		speaks = now // the time may be wrong
	}
	// A key that speaks later must not put the timer off, which may not have fired. If its time is
	// long past, another instance of the node may have seen it fire, on a cluster.
	at := fn.onGrid(speaks.Add(fn.cfg.Expire / expiryParts))
	set, known := fn.expiries[cell]
	if !known || at.Before(set) || fn.memory == nil && speaks.After(set.Add(fn.cfg.Expire)) {
		fn.setExpiry(tp, cell, at)
	}
}

// onGrid is the first time at which cells are looked at that is not before t.
func (fn *node) onGrid(t time.Time) time.Time {
	step := max(fn.cfg.Expire/expiryParts, time.Millisecond)
	on := t.Truncate(step)
	if on.Before(t) {
		on = on.Add(step)
	}
	return on
}

// setExpiry sets the timer of a cell.
func (fn *node) setExpiry(tp timers.Provider, cell string, at time.Time) {
	fn.set(tp, at, expireTag)
	fn.expiries[cell] = at
}

// planExpiry sets the timer of a cell for the first of its keys that expires.
func (fn *node) planExpiry(tp timers.Provider, c *opened) {
	var first time.Time
	fn.eachExpiry(c, func(_ string, at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	})
	if !first.IsZero() {
		fn.setExpiry(tp, c.name, fn.onGrid(first.Add(time.Millisecond))) // after it, not at it
	}
}

// eachExpiry calls do with the keys of a cell that expire, and when.
func (fn *node) eachExpiry(c *opened, do func(key string, at time.Time)) {
	for key, b := range c.All() {
		if fn.keys[key] != nil {
			continue
		}
		if at := fn.workers[0].Expiry(b); !at.IsZero() {
			do(key, at)
		}
	}
	for e := range fn.openIn(c) {
		if at := e.Expiry(); !at.IsZero() {
			do(e.key, at)
		}
	}
}

// expire forgets the keys of a cell that have expired, and sets its timer for those that are
// left. Silences, and intervals without events, are told before.
func (fn *node) expire(tp timers.Provider, c *opened, now time.Time) error {
	delete(fn.expiries, c.name)
	var due []string
	fn.eachExpiry(c, func(key string, at time.Time) {
		if at.Before(now) {
			due = append(due, key)
		}
	})
	if err := c.readable(); err != nil {
		return err
	}
	slices.Sort(due) // the output has one order
	for part := range slices.Chunk(due, batchBlocks) {
		active, err := fn.opened(c, part)
		if err != nil {
			return err
		}
		for _, e := range active {
			e.Release(now.Add(-fn.workers[0].Patience()))
		}
		if err := fn.work(slices.Clone(active)); err != nil {
			return err
		}
		for _, e := range active {
			fn.tell(now, e)
			if at := e.Expiry(); at.IsZero() || !at.Before(now) {
				fn.note(c, e)
				continue // what waited was of another time
			}
			fn.drop(c, e)
		}
		fn.settle()
	}
	fn.planExpiry(tp, c)
	return c.readable()
}

// drop forgets a key that has expired. If it speaks again in this bundle, it begins anew. All keys
// of a topic may expire in one bundle: what is decoded of them must not wait for its end.
func (fn *node) drop(c *opened, e *held) {
	w := fn.workers[0]
	e.tellForgotten(w)
	fn.put(w.encoded, Encoded{}, w.encoded)
	fn.flush()
	fn.report.Counts.ExpiredKeys++
	c.Put(e.key, nil)
	delete(fn.keys, e.key)
	delete(c.waits, e.key)
	delete(c.deadlines.first, e.key)
	e.forgot, e.Entity = true, keyed.Entity{}
}
