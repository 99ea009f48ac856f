package promio

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/inorder"
)

func init() {
	register.Function5x2((&readFn{}).ProcessElement)
	dofn.Register(func(f *readFn) any { return f.ProcessElement })
	register.Emitter2[beam.EventTime, Batch]()
	// Within a stage nothing is encoded but samples, of which the runner takes the size.
	beam.RegisterCoder(reflect.TypeFor[Batch](), func(b Batch) ([]byte, error) { return json.Marshal(b) }, func(b []byte) (out Batch, err error) {
		err = json.Unmarshal(b, &out)
		return out, err
	})
}

// A Batch holds series of one window of time, sorted by their keys. Another batch of the window
// has other keys.
type Batch struct{ Series []Series }

// batchPoints is how many points a batch has, if the series of one key do not have more.
const batchPoints = 1 << 12

// Read asks src, and returns a PCollection<Batch>, in the order of the windows: first of the past
// and then, unless src is bounded, on and on. It needs a runner in this process. The watermark is
// the time up to which the server has answered.
func Read(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("promio.Read")
	return beam.ParDo(s, &readFn{Source: src}, beam.Impulse(s))
}

// readFn asks for one window in a call, and puts the rest off.
type readFn struct {
	inorder.Offsets
	inorder.Timed[offsetrange.Restriction]
	Source Source

	reader *windowReader
}

// CreateInitialRestriction is the times of the points to be asked for, in Unix milliseconds.
func (fn *readFn) CreateInitialRestriction(ctx context.Context, _ []byte) offsetrange.Restriction {
	now := time.Now()
	rest := offsetrange.Restriction{Start: fn.Source.Begin(now).UnixMilli(), End: inorder.Unbounded}
	if p := account.Value[*Position](account.From(ctx), ""); p != nil && !p.Begin.IsZero() {
		rest.Start = fn.Source.onGrid(p.Begin).UnixMilli()
	}
	if fn.Source.Bounded {
		rest.End = fn.end(ctx, fn.Source.final(now).Add(fn.Source.Step)).UnixMilli()
	}
	return rest
}

// end is a time behind the last point, or that up to which the run is to ask if that is before it.
func (fn *readFn) end(ctx context.Context, at time.Time) time.Time {
	if p := account.Value[*Position](account.From(ctx), ""); p != nil && !p.Until.IsZero() && p.Until.Before(at) {
		return fn.Source.onGrid(p.Until)
	}
	return at
}

// breath is how long a call waits for a point to become final.
const breath = 250 * time.Millisecond

func (fn *readFn) ProcessElement(ctx context.Context, w *inorder.Watermark, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, Batch)) (sdf.ProcessContinuation, error) {
	run := account.From(ctx)
	position := account.Value[*Position](run, "")
	rest := rt.GetRestriction().(offsetrange.Restriction)
	if rt.IsDone() {
		return sdf.StopProcessing(), nil
	}
	if fn.reader == nil {
		var err error
		fn.reader, err = newReader(fn.Source, account.Value[*slog.Logger](run, ""), account.Value[*Tally](run, ""))
		if err != nil {
			return nil, err
		}
	}
	from := time.UnixMilli(rest.Start).UTC()
	until := fn.end(ctx, fn.Source.final(time.Now()).Add(fn.Source.Step)).Add(-fn.Source.Step)
	if rest.End != inorder.Unbounded {
		until = time.UnixMilli(rest.End).Add(-fn.Source.Step)
	}
	if until.Before(from) {
		select {
		case <-time.After(min(breath, max(breath/10, time.Until(from.Add(fn.Source.Delay))))):
			return sdf.ResumeProcessingIn(0), nil
		case <-run.Stopped():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	var all []Series
	steps := 0
	if !run.IsStopped() {
		asking, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-run.Stopped():
				cancel()
			case <-asking.Done():
			}
		}()
		var err error
		all, steps, err = fn.reader.next(asking, from, int(until.Sub(from)/fn.Source.Step)+1)
		cancel()
		if err != nil && (ctx.Err() != nil || !run.IsStopped()) {
			return nil, err
		}
	}
	if run.IsStopped() {
		if run.Suspended() {
			<-ctx.Done() // which comes when nothing is in flight
			return nil, context.Cause(ctx)
		}
		inorder.End(rt)
		return sdf.StopProcessing(), nil
	}
	before := from.Add(time.Duration(steps) * fn.Source.Step)
	if !rt.TryClaim(before.UnixMilli() - 1) {
		return sdf.ResumeProcessingIn(0), nil // the runner has put the rest off
	}
	n := emitAll(all, from, emit)
	if err := position.handOver(ctx, run, n, before); err != nil {
		return nil, err
	}
	w.MS = max(w.MS, before.UnixMilli())
	if rt.IsDone() {
		return sdf.StopProcessing(), nil
	}
	return sdf.ResumeProcessingIn(0), nil
}

// emitAll emits series in batches, and returns the number of their points.
func emitAll(all []Series, from time.Time, emit func(beam.EventTime, Batch)) (n int) {
	size, begin := 0, 0
	for i, s := range all {
		if size >= batchPoints && s.Key != all[i-1].Key {
			emit(mtime.FromTime(from), Batch{all[begin:i]})
			begin, size = i, 0
		}
		size += len(s.Points)
		n += len(s.Points)
	}
	if begin < len(all) {
		emit(mtime.FromTime(from), Batch{all[begin:]})
	}
	return n
}
