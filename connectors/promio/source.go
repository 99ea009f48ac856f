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
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
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
	Source Source

	reader *windowReader
}

// A restriction is what is to be asked, in Unix milliseconds.
type restriction struct {
	Next int64 // the time of the next point
	End  int64 // the time behind the last one; 0 if there is none
	Over bool
}

func (r restriction) done() bool { return r.Over || r.End > 0 && r.Next >= r.End }

func (fn *readFn) CreateInitialRestriction(ctx context.Context, _ []byte) restriction {
	now := time.Now()
	rest := restriction{Next: fn.Source.Begin(now).UnixMilli()}
	if p := account.Value[*Position](account.From(ctx), ""); p != nil && !p.Begin.IsZero() {
		rest.Next = fn.Source.onGrid(p.Begin).UnixMilli()
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

// SplitRestriction splits nothing: windows have one order.
func (fn *readFn) SplitRestriction(_ []byte, r restriction) []restriction { return []restriction{r} }

func (fn *readFn) RestrictionSize([]byte, restriction) float64 { return 1 }

func (fn *readFn) CreateTracker(r restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&tracker{rest: r})
}

// A tracker claims times before which all was asked. It gives away all or nothing.
type tracker struct {
	rest         restriction
	checkpointed bool
}

// over claims what is left, unread.
type over struct{}

func (t *tracker) TryClaim(claim any) bool {
	if t.checkpointed || t.rest.Over {
		return false
	}
	switch c := claim.(type) {
	case int64:
		t.rest.Next = c
	case over:
		t.rest.Over = true
	}
	return true
}

func (t *tracker) GetError() error { return nil }

func (t *tracker) TrySplit(fraction float64) (primary, residual any, err error) {
	if fraction > 0 || t.IsDone() {
		return t.rest, nil, nil
	}
	t.checkpointed = true
	done := t.rest
	done.Over = true
	return done, t.rest, nil
}

func (t *tracker) GetProgress() (done, remaining float64) {
	if t.IsDone() {
		return 1, 0
	}
	return 0, 1
}

func (t *tracker) IsDone() bool        { return t.checkpointed || t.rest.done() }
func (t *tracker) GetRestriction() any { return t.rest }
func (t *tracker) IsBounded() bool     { return t.rest.End > 0 }

// A watermark is a time in Unix milliseconds that never goes back.
type watermark struct{ ms int64 }

func (w *watermark) CurrentWatermark() time.Time { return time.UnixMilli(w.ms) }

func (fn *readFn) InitialWatermarkEstimatorState(_ beam.EventTime, _ restriction, _ []byte) int64 {
	return mtime.MinTimestamp.Milliseconds()
}
func (fn *readFn) CreateWatermarkEstimator(ms int64) *watermark { return &watermark{ms} }
func (fn *readFn) WatermarkEstimatorState(w *watermark) int64   { return w.ms }

// breath is how long a call waits for a point to become final.
const breath = 250 * time.Millisecond

func (fn *readFn) ProcessElement(ctx context.Context, w *watermark, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, Batch)) (sdf.ProcessContinuation, error) {
	run := account.From(ctx)
	position := account.Value[*Position](run, "")
	rest := rt.GetRestriction().(restriction)
	if rest.done() {
		return sdf.StopProcessing(), nil
	}
	if fn.reader == nil {
		var err error
		fn.reader, err = newReader(fn.Source, account.Value[*slog.Logger](run, ""), account.Value[*Tally](run, ""))
		if err != nil {
			return nil, err
		}
	}
	from := time.UnixMilli(rest.Next).UTC()
	until := fn.end(ctx, fn.Source.final(time.Now()).Add(fn.Source.Step)).Add(-fn.Source.Step)
	if rest.End > 0 {
		until = time.UnixMilli(rest.End).Add(-fn.Source.Step)
	}
	most := int(until.Sub(from)/fn.Source.Step) + 1
	if until.Before(from) {
		select {
		case <-time.After(min(breath, max(breath/10, time.Until(from.Add(fn.Source.Delay))))):
			return sdf.ResumeProcessingIn(0), nil
		case <-run.Stopped():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		most = 0
	}
	var all []Series
	steps := 0
	if most > 0 && !run.IsStopped() {
		asking, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-run.Stopped():
				cancel()
			case <-asking.Done():
			}
		}()
		var err error
		all, steps, err = fn.reader.next(asking, from, most)
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
		rt.TryClaim(over{})
		return sdf.StopProcessing(), nil
	}
	before := from.Add(time.Duration(steps) * fn.Source.Step)
	if !rt.TryClaim(before.UnixMilli()) {
		return sdf.ResumeProcessingIn(0), nil // the runner has put the rest off
	}
	n := emitAll(all, from, emit)
	if err := position.handOver(ctx, run, n, before); err != nil {
		return nil, err
	}
	w.ms = max(w.ms, before.UnixMilli())
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
