package direct

import (
	"container/heap"
	"iter"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// A timeQueue has the earliest value on top. Values of one time keep the order in which they
// came. A value that is gone is dropped some time later.
type timeQueue[T any] struct {
	gone    func(T) bool
	entries entries[T]
	n       int64
	bound   int // size from which values that are gone are looked for
}

type entries[T any] []entry[T]

type entry[T any] struct {
	v  T
	at mtime.Time
	n  int64
}

func (e entries[T]) Len() int      { return len(e) }
func (e entries[T]) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e entries[T]) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e *entries[T]) Push(x any) { *e = append(*e, x.(entry[T])) }
func (e *entries[T]) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry[T]{}
	*e = (*e)[:last]
	return x
}

func (q *timeQueue[T]) push(v T, at mtime.Time) {
	const least = 64
	if len(q.entries) >= max(q.bound, least) {
		// Otherwise values that are put off again and again would stay until their time.
		q.entries = slices.DeleteFunc(q.entries, func(e entry[T]) bool { return q.gone(e.v) })
		heap.Init(&q.entries)
		q.bound = 2 * len(q.entries)
	}
	q.n++
	heap.Push(&q.entries, entry[T]{v, at, q.n})
}

// top returns the earliest value that is not gone, and its time.
func (q *timeQueue[T]) top() (v T, at mtime.Time, ok bool) {
	for len(q.entries) > 0 {
		if e := q.entries[0]; !q.gone(e.v) {
			return e.v, e.at, true
		}
		q.pop()
	}
	return v, mtime.MaxTimestamp, false
}

// pop drops the top.
func (q *timeQueue[T]) pop() { heap.Pop(&q.entries) }

// before removes the values of times before end, the earliest first.
func (q *timeQueue[T]) before(end mtime.Time) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v, at, ok := q.top(); ok && at < end; v, at, ok = q.top() {
			if q.pop(); !yield(v) {
				return
			}
		}
	}
}
