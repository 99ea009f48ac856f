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

// A PipeClock gives ReadPipe the times of records. A run carries it, see account.WithValue.
type PipeClock struct {
	// Disorder is the maximum time that a record may be behind the latest time.
	Disorder time.Duration
	// Observe calls f with the key and time of each observation in records, in their order. Records without an
	// observation are skipped.
	Observe func(records []Record, f func(key string, t time.Time))
	// Disordered is called once if a time is behind the latest one by more than Disorder.
	Disordered func(delay time.Duration)
}

// ReadPipe is Read of standard input with a watermark.
//
// While records arrive, the watermark is before the latest of their times by slightly more than PipeClock.Disorder.
// During a pause, it follows the clock at the usual distance of the records. The watermark starts with the first
// record of a second key, or with the first pause: in a table that is sorted by key, the times go back at each key.
// When a time goes back by more than Disorder, and when the input ends, ReadPipe calls account.Run.AwaitEnd.
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
	// pipeIdle is the time without records after which a pause starts.
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

// pipeTimes tracks the times of the records of a pipe. It ignores times after the present, which may be wrong.
type pipeTimes struct {
	key     string        // of the first record
	started bool          // another key or a pause has occurred
	latest  time.Time     // latest time; zero before the first
	age     time.Duration // delay of latest behind the clock on arrival
	arrived time.Time     // arrival of the last records
	lag     eventlag.Lag
}

// observe adds the times of records that arrived at now. It returns false if a time goes back by more than
// Disorder.
func (p *pipeTimes) observe(clock *PipeClock, records []Record, now time.Time) bool {
	var lags []time.Duration
	var maxDelay time.Duration
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
		maxDelay = max(maxDelay, p.latest.Sub(t))
		if !t.Before(p.latest) {
			p.latest, p.age = t, lag
		}
	})
	p.lag.Add(now, lags)
	if maxDelay <= clock.Disorder {
		return true
	}
	clock.Disordered(maxDelay)
	return false
}

// watermark returns the time before which no record is expected, or zero if it is not known yet. received means
// that records have arrived since the last call.
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
