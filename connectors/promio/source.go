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
	// Only samples are encoded within a stage, because the runner measures their size.
	beam.RegisterCoder(reflect.TypeFor[Batch](), func(b Batch) ([]byte, error) { return json.Marshal(b) }, func(b []byte) (out Batch, err error) {
		err = json.Unmarshal(b, &out)
		return out, err
	})
}

// A Batch contains series of one time window, sorted by key. All series of a key in a window are in the same batch.
type Batch struct{ Series []Series }

// batchPoints is the number of points from which a batch ends. All series of one key stay in one batch.
const batchPoints = 1 << 12

// Read queries src, and returns a PCollection<Batch> in the order of the time windows. It reads the past first.
// Then, unless src is bounded, it continues with new points. Read needs a runner in this process. The watermark is
// the time up to which the server has answered.
func Read(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("promio.Read")
	return beam.ParDo(s, &readFn{Source: src}, beam.Impulse(s))
}

// readFn queries one window per call and defers the rest.
type readFn struct {
	inorder.Offsets
	inorder.Timed[offsetrange.Restriction]
	Source Source

	reader *windowReader
}

// CreateInitialRestriction returns the times of the points to query, in Unix milliseconds.
func (fn *readFn) CreateInitialRestriction(ctx context.Context, _ []byte) offsetrange.Restriction {
	now := time.Now()
	rest := offsetrange.Restriction{Start: fn.Source.Begin(now).UnixMilli(), End: inorder.Unbounded}
	if p := account.Value[*Position](account.From(ctx), ""); p != nil && !p.Begin.IsZero() {
		rest.Start = fn.Source.alignUp(p.Begin).UnixMilli()
	}
	if fn.Source.Bounded {
		rest.End = fn.end(ctx, fn.Source.lastFinal(now).Add(fn.Source.Step)).UnixMilli()
	}
	return rest
}

// end returns the earlier of two times: end, which is after the last point, and Position.Until.
func (fn *readFn) end(ctx context.Context, end time.Time) time.Time {
	if p := account.Value[*Position](account.From(ctx), ""); p != nil && !p.Until.IsZero() && p.Until.Before(end) {
		return fn.Source.alignUp(p.Until)
	}
	return end
}

// pollPause is the maximum time that a call waits for a point to become final.
const pollPause = 250 * time.Millisecond

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
	start := time.UnixMilli(rest.Start).UTC()
	until := fn.end(ctx, fn.Source.lastFinal(time.Now()).Add(fn.Source.Step)).Add(-fn.Source.Step)
	if rest.End != inorder.Unbounded {
		until = time.UnixMilli(rest.End).Add(-fn.Source.Step)
	}
	if until.Before(start) {
		select {
		case <-time.After(min(pollPause, max(pollPause/10, time.Until(start.Add(fn.Source.Delay))))):
			return sdf.ResumeProcessingIn(0), nil
		case <-run.Stopped():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	var found []Series
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
		found, steps, err = fn.reader.next(asking, start, int(until.Sub(start)/fn.Source.Step)+1)
		cancel()
		if err != nil && (ctx.Err() != nil || !run.IsStopped()) {
			return nil, err
		}
	}
	if run.IsStopped() {
		if run.Suspended() {
			<-ctx.Done() // ctx ends when no record is in flight
			return nil, context.Cause(ctx)
		}
		inorder.End(rt)
		return sdf.StopProcessing(), nil
	}
	before := start.Add(time.Duration(steps) * fn.Source.Step)
	if !rt.TryClaim(before.UnixMilli() - 1) {
		return sdf.ResumeProcessingIn(0), nil // the runner has deferred the rest
	}
	n := emitAll(found, start, emit)
	if err := position.handOver(ctx, run, n, before); err != nil {
		return nil, err
	}
	w.MS = max(w.MS, before.UnixMilli())
	if rt.IsDone() {
		return sdf.StopProcessing(), nil
	}
	return sdf.ResumeProcessingIn(0), nil
}

// emitAll emits series in batches and returns the number of their points.
func emitAll(found []Series, start time.Time, emit func(beam.EventTime, Batch)) (n int) {
	size, begin := 0, 0
	for i, s := range found {
		if size >= batchPoints && s.Key != found[i-1].Key {
			emit(mtime.FromTime(start), Batch{found[begin:i]})
			begin, size = i, 0
		}
		size += len(s.Points)
		n += len(s.Points)
	}
	if begin < len(found) {
		emit(mtime.FromTime(start), Batch{found[begin:]})
	}
	return n
}
