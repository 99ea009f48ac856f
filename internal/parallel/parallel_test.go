package parallel

import (
	"hafvf/internal/testing/expect"
	"strings"
	"sync/atomic"
	"testing"
)

func TestDo(t *testing.T) {
	for _, n := range []int{0, 1, 3, 1000} {
		for _, workers := range []int{1, 2, 7} {
			calls := make([]atomic.Int64, n)
			busy := make([]atomic.Bool, workers)
			Do(n, workers, func(worker, i int) {
				if busy[worker].Swap(true) {
					t.Errorf("worker %d has two calls at a time", worker)
				}
				calls[i].Add(1)
				busy[worker].Store(false)
			})
			for i := range calls {
				expect.Same(t, int64(1), calls[i].Load(), "calls for ", i, " of ", n, " on ", workers, " goroutines")
			}
		}
	}
}

func TestDoPanics(t *testing.T) {
	for _, workers := range []int{1, 3} {
		func() {
			defer func() {
				p := recover()
				if raised, ok := p.(*Raised); ok && workers > 1 {
					if p = raised.Value; !strings.Contains(string(raised.Stack), "TestDoPanics.func") {
						t.Errorf("the stack does not contain f: %s", raised.Stack)
					}
				}
				if p != "of f" {
					t.Errorf("%d goroutines: panic %v", workers, p)
				}
			}()
			Do(10, workers, func(_, i int) {
				if i == 4 {
					panic("of f")
				}
			})
		}()
	}
}
