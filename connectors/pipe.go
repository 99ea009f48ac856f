package connectors

import (
	"context"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"

	"hafvf/connectors/internal/eventlag"
	"hafvf/internal/account"
	"hafvf/internal/inorder"
)

// A PipeClock tells ReadPipe the times of records. A run carries it, see account.WithValue.
type PipeClock struct {
	// Disorder is how far the time of a record may be behind the latest time.
	Disorder time.Duration
	// Observe calls f with key and time of the observations of some records, in their order. A record without an observation
	// has none.
	Observe func(records []Record, f func(key string, t time.Time))
	// Disordered is called once if a time is behind the latest one by more than Disorder: behind says by how much.
	Disordered func(behind time.Duration)
}

// ReadPipe is Read of standard input with a watermark. While records come, the watermark is before the latest of their times,
// by more than PipeClock.Disorder. In a pause it follows the clock, at the distance that the records usually have.
// It begins when records of a second key have come, or with the first pause: a table that is sorted by key goes back before
// that. From the first time that goes back by more than Disorder, and when the input ends, the run awaits the end.
func ReadPipe(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("connectors.ReadPipe")
	return beam.ParDo(s, &pipeFn{readFn: newReadFn(src)}, beam.Impulse(s))
}

type pipeFn struct {
	readFn
	inorder.Timed[offsetrange.Restriction]
}

const (
	// pipeWait is how long a call waits for a record. Then the watermark follows the clock.
	pipeWait = 250 * time.Millisecond
	// pipeIdle is how long a pipe has no record in a pause.
	pipeIdle = time.Second
)

func (fn *pipeFn) ProcessElement(ctx context.Context, w *inorder.Watermark, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, Batch)) (sdf.ProcessContinuation, error) {
	run := account.From(ctx)
	clock := account.Value[*PipeClock](run, "")
	received := false
	in, ended, err := fn.emitBundle(ctx, rt, pipeWait, func(in *input, b Batch) {
		received = true
		if !run.AwaitsEnd() && !in.times.observe(clock, b.Records, time.Now()) {
			run.AwaitEnd()
		}
		emit(beam.EventTime(mtime.Time(w.MS)), b)
	})
	if ended {
		run.AwaitEnd()
	}
	if err != nil || ended {
		return sdf.StopProcessing(), err
	}
	if t := in.times.watermark(clock, received, time.Now()); !run.AwaitsEnd() && !t.IsZero() {
		w.MS = max(w.MS, t.UnixMilli())
	}
	return sdf.ResumeProcessingIn(0), nil
}

// pipeTimes is what the times of the records of a pipe have shown. Times ahead of the clock count for nothing: they may be
// wrong.
type pipeTimes struct {
	key     string        // of the first record
	started bool          // another key has come, or a pause
	latest  time.Time     // of the times; zero before the first
	age     time.Duration // how far that was behind the clock when it arrived
	arrived time.Time     // when the last records had been handed over
	lag     eventlag.Lag
}

// observe takes the times of records that have arrived. It returns false if a time goes back.
func (p *pipeTimes) observe(clock *PipeClock, records []Record, now time.Time) bool {
	var lags []time.Duration
	var behind time.Duration
	clock.Observe(records, func(key string, t time.Time) {
		lag := now.Sub(t)
		if t.IsZero() || lag < 0 {
			return
		}
		lags = append(lags, lag)
		if p.latest.IsZero() {
			p.key, p.latest = key, t
		}
		p.started = p.started || key != p.key
		behind = max(behind, p.latest.Sub(t))
		if !t.Before(p.latest) {
			p.latest, p.age = t, lag
		}
	})
	p.lag.Add(now, lags)
	if behind <= clock.Disorder {
		return true
	}
	clock.Disordered(behind)
	return false
}

// watermark returns the time before which no record is expected; zero while that is not known. came says that records have
// come since the last call.
func (p *pipeTimes) watermark(clock *PipeClock, received bool, now time.Time) time.Time {
	if received {
		p.arrived = now
	}
	usualLag := p.lag.Usual
	if usualLag == 0 {
		usualLag = eventlag.Unknown
	}
	byClock := now.Add(-max(usualLag, clock.Disorder, p.age))
	paused := now.Sub(p.arrived) > pipeIdle
	p.started = p.started || paused
	switch last := p.latest.Add(-clock.Disorder - time.Millisecond); {
	case p.latest.IsZero() || !p.started:
		return time.Time{}
	case paused || byClock.Before(last):
		return byClock
	default:
		return last
	}
}
