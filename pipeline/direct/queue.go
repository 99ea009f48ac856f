package direct

import (
	"container/heap"
	"iter"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// A timeQueue is a priority queue with the earliest value on top. Values with equal times keep their order. Values
// for which dropped is true are removed lazily.
type timeQueue[T any] struct {
	dropped func(T) bool
	entries entries[T]
	n       int64
	bound   int // size from which dropped values are removed
}

type entries[T any] []entry[T]

type entry[T any] struct {
	v    T
	time mtime.Time
	n    int64
}

func (e entries[T]) Len() int      { return len(e) }
func (e entries[T]) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e entries[T]) Less(i, j int) bool {
	return e[i].time < e[j].time || e[i].time == e[j].time && e[i].n < e[j].n
}
func (e *entries[T]) Push(x any) { *e = append(*e, x.(entry[T])) }
func (e *entries[T]) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = entry[T]{}
	*e = (*e)[:last]
	return x
}

func (q *timeQueue[T]) push(v T, t mtime.Time) {
	const minEntries = 64
	if len(q.entries) >= max(q.bound, minEntries) {
		// Without this, values that are postponed repeatedly would stay until their time.
		q.entries = slices.DeleteFunc(q.entries, func(e entry[T]) bool { return q.dropped(e.v) })
		heap.Init(&q.entries)
		q.bound = 2 * len(q.entries)
	}
	q.n++
	heap.Push(&q.entries, entry[T]{v, t, q.n})
}

// top returns the earliest value that is not dropped, and its time.
func (q *timeQueue[T]) top() (v T, t mtime.Time, ok bool) {
	for len(q.entries) > 0 {
		if e := q.entries[0]; !q.dropped(e.v) {
			return e.v, e.time, true
		}
		q.pop()
	}
	return v, mtime.MaxTimestamp, false
}

// pop removes the top.
func (q *timeQueue[T]) pop() { heap.Pop(&q.entries) }

// before removes and yields the values with times before end, the earliest first.
func (q *timeQueue[T]) before(end mtime.Time) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v, t, ok := q.top(); ok && t < end; v, t, ok = q.top() {
			if q.pop(); !yield(v) {
				return
			}
		}
	}
}
