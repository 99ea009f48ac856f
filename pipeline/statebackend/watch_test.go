package statebackend

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
)

func init() {
	register.DoFn4x2[context.Context, *sdf.LockRTracker, []byte, func(string, int), sdf.ProcessContinuation, error](&endlessFn{})
	register.Function2x2(waitIn)
	register.Function2x0(ignore)
	register.Emitter2[string, int]()
	register.Iter1[int]()
}

// An endlessFn never ends. It emits one element or, if it is busy, one for each call.
type endlessFn struct{ Busy bool }

func (*endlessFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{End: 1 << 40}
}
func (*endlessFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}
func (*endlessFn) RestrictionSize([]byte, offsetrange.Restriction) float64 { return 1 }
func (*endlessFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(offsetrange.NewTracker(r))
}

func (fn *endlessFn) ProcessElement(ctx context.Context, rt *sdf.LockRTracker, _ []byte, emit func(string, int)) (sdf.ProcessContinuation, error) {
	start := rt.GetRestriction().(offsetrange.Restriction).Start
	rt.TryClaim(start)
	n := 0
	if start == 0 || fn.Busy {
		emit("k", 1)
		n = 1
	}
	if err := account.From(ctx).HandOver(ctx, n, nil); err != nil {
		return nil, err
	}
	return sdf.ResumeProcessingIn(time.Millisecond), nil
}

var gate chan struct{} // waitIn waits for it

func waitIn(key string, n int) (string, int) {
	<-gate
	return key, n
}

func ignore(string, func(*int) bool) {}

// A syncLog is a log for several goroutines.
type syncLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *syncLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *syncLog) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// A run without progress logs the step: one that does not return, unless it is an output that logs itself, and one
// that buffers results. It logs each once.
func TestWatchLogsStall(t *testing.T) {
	expect.Long(t, "a run that stalls")
	defer func(former time.Duration) { stallLogAfter = former }(stallLogAfter)
	stallLogAfter = 300 * time.Millisecond
	gate = make(chan struct{})
	run := account.Open(account.StateKeeper{})
	defer run.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var log syncLog
	p, s := beam.NewPipelineWithRoot()
	waiting := beam.ParDo(s.Scope("in"), waitIn, beam.ParDo(s, &endlessFn{}, beam.Impulse(s)))
	beam.ParDo0(s, ignore, beam.GroupByKey(s.Scope("of"), waiting))
	_, patient := run.WithStopTimeout(ctx)
	ended := make(chan error)
	go func() {
		ended <- Execute(run.In(ctx), p, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context, func()) {})
	}()
	time.Sleep(3 * stallLogAfter)
	if log.contains("pipeline stalled") {
		t.Error("a warning while an output waits")
	}
	patient()
	expect.Soon(t, "a warning of the step", func() bool { return log.contains("step=in/statebackend.waitIn") })
	close(gate)
	expect.Soon(t, "a warning of the grouping", func() bool { return log.contains("step=of/CoGBK records=1") })
	time.Sleep(2 * stallLogAfter)
	cancel()
	<-ended
	for _, once := range []string{"step=in/statebackend.waitIn", "step=of/CoGBK"} {
		if text := log.text.String(); strings.Count(text, once) != 1 {
			t.Errorf("%q should contain %s once", text, once)
		}
	}
}

// A grouping in the global window of a source without an end keeps everything back. The log says so, also while records
// arrive.
func TestWatchLogsBuffering(t *testing.T) {
	defer func(former time.Duration) { stallLogAfter = former }(stallLogAfter)
	stallLogAfter = 300 * time.Millisecond
	run := account.Open(account.StateKeeper{})
	defer run.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var log syncLog
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, ignore, beam.GroupByKey(s.Scope("all"), beam.ParDo(s, &endlessFn{Busy: true}, beam.Impulse(s))))
	ended := make(chan error)
	go func() {
		ended <- Execute(run.In(ctx), p, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context, func()) {})
	}()
	expect.Soon(t, "a warning", func() bool { return log.contains("a step still buffers their results\" step=all/CoGBK") })
	cancel()
	<-ended
}
