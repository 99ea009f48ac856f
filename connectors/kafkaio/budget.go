package kafkaio

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// What the readers of a process hold ahead of their calls, in bytes.
const (
	// aheadBytes are of records that nobody has taken yet.
	aheadBytes = 32 << 20
	// arrivingBytes are of one reader's answers that are not decoded yet.
	arrivingBytes = 16 << 20
	// leastFetch and mostFetch bound what one fetch asks for, compressed. A broker
	// answers with one batch at least, however large.
	leastFetch, mostFetch = 64 << 10, 1 << 20
)

// processBudget is shared by all readers of the process.
var processBudget = &budget{bytes: aheadBytes}

// A budget bounds the records that readers hold. A fetcher asks for as much as it may
// decode at once, and gives back what it did not need. Claims are granted in the order
// in which they came: no partition is left behind. A reader that holds nothing is granted
// its claim at once, whatever the others hold. Thus every reader goes on, and all
// together may hold one claim per reader more.
type budget struct {
	bytes int

	mu      sync.Mutex
	used    int
	waiting []*claim
}

// A claim is one that waits.
type claim struct {
	of      *budgetShare
	bytes   int
	granted chan struct{} // closed when it is granted, or its reader ends
}

// budgetShare is what one reader holds of a budget.
type budgetShare struct {
	*budget
	partitions atomic.Int32 // that are fetched

	bytes int // under the budget's lock, as is ended
	ended bool
}

// fetchBytes is what a fetch of one partition asks for: the answers of all partitions may
// come at the same time.
func (a *budgetShare) fetchBytes() int {
	return min(max(arrivingBytes/max(int(a.partitions.Load()), 1), leastFetch), mostFetch)
}

// claim takes n bytes as soon as they are there. It reports false if ctx ends first.
func (a *budgetShare) claim(ctx context.Context, n int) bool {
	c := &claim{a, n, make(chan struct{})}
	a.mu.Lock()
	a.waiting = append(a.waiting, c)
	a.grant()
	a.mu.Unlock()
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
		return false
	}
}

// add changes what the reader holds by n bytes.
func (a *budgetShare) add(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	a.bytes += n
	a.used += n
	a.grant()
}

// end gives back all that the reader holds.
func (a *budgetShare) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used -= a.bytes
	a.bytes, a.ended = 0, true
	a.grant()
}

// grant grants what can be granted.
func (b *budget) grant() {
	full := false
	b.waiting = slices.DeleteFunc(b.waiting, func(c *claim) bool {
		full = full || b.used+c.bytes > b.bytes
		switch {
		case c.of.ended:
		case full && c.of.bytes > 0:
			return false
		default:
			c.of.bytes += c.bytes
			b.used += c.bytes
		}
		close(c.granted)
		return true
	})
}

// memory is about what the records of a batch take in memory.
func (b batch) memory() int { return b.bytes + cap(b.records)*int(unsafe.Sizeof(Record{})) }
