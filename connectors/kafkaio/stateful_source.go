package kafkaio

import (
	"context"
	"slices"

	"hafvf/internal/dofn"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Function6x1((&loopFn{}).ProcessElement)
	dofn.Register(func(f *loopFn) any { return f.ProcessElement })
	register.Function2x0((&readersFn{}).ProcessElement)
	dofn.Register(func(f *readersFn) any { return f.ProcessElement })
	register.Emitter2[string, []byte]()
}

// readersFn emits the names of the readers as keys.
type readersFn struct{ Names []string }

func (fn *readersFn) ProcessElement(_ []byte, emit func(string, []byte)) {
	for _, name := range fn.Names {
		emit(name, nil)
	}
}

// loopFn does the same as readFn, but is a stateful function. Splittable functions leak memory on Beam's Flink runner
// before 2.76.0, which keeps a part of each residual for ever (fixed by Beam's pull request 39191). The reader's state
// is the restriction. Each call is a timer, which sets the next timer at the watermark: the runner holds the output's
// watermark back to the time of a timer. The timer fires at once, because the impulse's watermark has passed it.
type loopFn struct {
	Source Source
	Run    string // names the consumers between calls
	Rest   state.Value[restriction]
	Next   timers.EventTime
}

func newLoopFn(src Source, run string) *loopFn {
	return &loopFn{Source: src, Run: run, Rest: state.MakeValueState[restriction]("rest"), Next: timers.InEventTime("next")}
}

// ProcessElement assigns partitions to a reader.
func (fn *loopFn) ProcessElement(ctx context.Context, sp state.Provider, tp timers.Provider, name string, _ []byte, _ func(beam.EventTime, Batch)) error {
	rest, err := fn.Source.deal(ctx, nil, slices.Index(fn.Source.Readers, name), len(fn.Source.Readers))
	if err != nil {
		return err
	}
	fn.Next.Set(tp, mtime.MinTimestamp.ToTime())
	return fn.Rest.Write(sp, rest)
}

// OnTimer emits a bundle.
func (fn *loopFn) OnTimer(ctx context.Context, ts beam.EventTime, sp state.Provider, tp timers.Provider, _ string, _ timers.Context, emit func(beam.EventTime, Batch)) error {
	rest, _, err := fn.Rest.Read(sp)
	if err != nil {
		return err
	}
	rt := sdf.NewLockRTracker(&tracker{rest: rest})
	ended, watermark, err := fn.Source.call(ctx, fn.Run, nil, rt, ts, emit)
	if err != nil || ended {
		return err
	}
	fn.Next.Set(tp, max(ts, mtime.FromTime(watermark)).ToTime())
	return fn.Rest.Write(sp, rt.GetRestriction().(restriction))
}
