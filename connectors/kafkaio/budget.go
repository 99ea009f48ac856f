package kafkaio

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Limits of the memory for records that are read ahead, in bytes.
const (
	// aheadBytes limits the decoded records that no consumer has taken yet, over all readers of the process.
	aheadBytes = 32 << 20
	// arrivingBytes limits the answers of one reader that are not decoded yet.
	arrivingBytes = 16 << 20
	// minFetch and maxFetch bound the compressed size that one fetch asks for. A broker sends at least one batch,
	// however large.
	minFetch, maxFetch = 64 << 10, 1 << 20
)

// processBudget is shared by all readers of the process.
var processBudget = &budget{bytes: aheadBytes}

// A budget bounds the records that readers hold. A fetcher claims as many bytes as it may decode at once, and returns
// what it did not need. Claims are granted in the order of arrival, so that no partition starves. A reader that holds
// nothing gets its claim at once, whatever the others hold. So every reader makes progress, and all readers together
// exceed the budget by at most one claim per reader.
type budget struct {
	bytes int

	mu      sync.Mutex
	used    int
	waiting []*claim
}

// A claim is a request for bytes that waits to be granted.
type claim struct {
	share   *budgetShare
	bytes   int
	granted chan struct{} // closed when the claim is granted or its reader ends
}

// A budgetShare is the part of a budget that one reader holds.
type budgetShare struct {
	*budget
	partitions atomic.Int32 // number of partitions that are fetched

	bytes int // bytes held; protected by the budget's lock, like ended
	ended bool
}

// fetchBytes returns the size to ask for in a fetch of one partition. It divides arrivingBytes by the number of
// partitions, because all answers may arrive at the same time.
func (s *budgetShare) fetchBytes() int {
	return min(max(arrivingBytes/max(int(s.partitions.Load()), 1), minFetch), maxFetch)
}

// claim takes n bytes from the budget, and waits until they are available. It reports false if ctx ends first.
func (s *budgetShare) claim(ctx context.Context, n int) bool {
	c := &claim{s, n, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	s.grant()
	s.mu.Unlock()
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
		return false
	}
}

// add changes the bytes that the reader holds by n.
func (s *budgetShare) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.bytes += n
	s.used += n
	s.grant()
}

// end returns all bytes of the reader to the budget.
func (s *budgetShare) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= s.bytes
	s.bytes, s.ended = 0, true
	s.grant()
}

// grant grants the waiting claims that fit. The caller holds b.mu.
func (b *budget) grant() {
	full := false
	b.waiting = slices.DeleteFunc(b.waiting, func(c *claim) bool {
		full = full || b.used+c.bytes > b.bytes
		switch {
		case c.share.ended:
		case full && c.share.bytes > 0:
			return false
		default:
			c.share.bytes += c.bytes
			b.used += c.bytes
		}
		close(c.granted)
		return true
	})
}

// memory estimates the memory of the batch's records in bytes.
func (b batch) memory() int { return b.bytes + cap(b.records)*int(unsafe.Sizeof(Record{})) }
