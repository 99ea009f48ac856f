package direct

import (
	"fmt"
	"hafvf/internal/testing/expect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Function2x0(emitMany)
	register.Function1x2(digitOf)
	register.Function2x0(countGroup)
	register.Function1x0(countOne)
}

// many is the number of elements that emitMany emits for one element.
const many = 3_000_000

func emitMany(_ int, emit func(int)) {
	for i := range many {
		emit(i)
	}
}

func digitOf(i int) (string, int) { return fmt.Sprint(i % 10), i }

// arrived counts the elements at the end of the pipeline.
var arrived atomic.Int64

func countGroup(_ string, values func(*int) bool) {
	for v := 0; values(&v); {
		arrived.Add(1)
	}
}

func countOne(int) { arrived.Add(1) }

// TestMemoryOfElements checks that millions of elements from one element take little memory.
func TestMemoryOfElements(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const maxHeap = 300 << 20
	for name, build := range map[string]func(s beam.Scope, in beam.PCollection){
		"grouped": func(s beam.Scope, in beam.PCollection) {
			beam.ParDo0(s, countGroup, beam.GroupByKey(s, beam.ParDo(s, digitOf, in)))
		},
		"passed on": func(s beam.Scope, in beam.PCollection) {
			beam.ParDo0(s, countOne, beam.Reshuffle(s, in))
		},
	} {
		t.Run(name, func(t *testing.T) {
			arrived.Store(0)
			p, s := beam.NewPipelineWithRoot()
			build(s, beam.ParDo(s, emitMany, beam.Create(s, 1)))
			var heap uint64
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					heap = max(heap, m.HeapAlloc)
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			}()
			_, err := Execute(t.Context(), p)
			close(stop)
			<-stopped
			expect.OK(t, err)
			expect.Same(t, int64(many), arrived.Load(), "arrived")
			if t.Logf("%d MB", heap>>20); heap > maxHeap {
				t.Errorf("%d MB of heap, want at most %d", heap>>20, maxHeap>>20)
			}
		})
	}
}
