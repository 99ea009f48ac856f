// Package parallel spreads work over goroutines.
package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Do calls f once for every i in 0, …, n−1, on at most so many goroutines, and returns
// when all calls have. worker is in 0, …, workers−1, and no two calls at the same time
// have the same one: what a worker needs for itself can be looked up by it. A panic of f
// is raised by Do, after the other calls have returned; that of another goroutine as a *Raised.
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

// Raised is the panic of a call on another goroutine, with the stack of that.
type Raised struct {
	Value any
	Stack []byte
}

func (r *Raised) Error() string { return fmt.Sprintf("%v\n\n%s", r.Value, r.Stack) }

// Chunks cuts 0, …, n−1 into one stretch for each of so many workers, and calls f for
// each stretch as Do does. worker is the place of the stretch among them.
func Chunks(n, workers int, f func(worker, from, end int)) {
	Do(workers, workers, func(_, i int) { f(i, i*n/workers, (i+1)*n/workers) })
}
