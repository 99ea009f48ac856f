// Package parallel distributes work over goroutines.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Do calls f once for each i in 0, …, n−1, on at most workers goroutines, and returns after all calls. worker is in
// 0, …, workers−1, and concurrent calls have different ones, so it can index scratch memory. If f panics, Do panics
// after the other calls have returned; a panic on another goroutine becomes a *Raised.
func Do(n, workers int, f func(worker, i int)) {
	if workers = min(workers, n); workers <= 1 {
		for i := range n {
			f(0, i)
		}
		return
	}
	var next atomic.Int64
	var panicked atomic.Pointer[Raised]
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					raised, nested := p.(*Raised)
					if !nested {
						raised = &Raised{p, debug.Stack()}
					}
					panicked.CompareAndSwap(nil, raised)
				}
			}()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(worker, i)
			}
		})
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(p)
	}
}

// Raised is a panic on another goroutine, with the stack of that goroutine.
type Raised struct {
	Value any
	Stack []byte
}

func (r *Raised) Error() string { return fmt.Sprintf("%v\n\n%s", r.Value, r.Stack) }

// Chunks divides 0, …, n−1 into one range per worker and calls f for each range, as Do does. worker is the index of
// the range.
func Chunks(n, workers int, f func(worker, start, end int)) {
	Do(workers, workers, func(_, i int) { f(i, i*n/workers, (i+1)*n/workers) })
}
