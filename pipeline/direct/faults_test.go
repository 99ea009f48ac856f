package direct

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.DoFn2x1[int, func(int), error](&faultyFn{})
	register.DoFn3x0[timers.Provider, string, int](&restlessFn{})
	register.Function1x1(double)
	register.Function2x1(failMerge)
}

var errTyped = errors.New("the sensor burns")

// faultyFn fails at the moment At of its life, in the way How.
type faultyFn struct{ At, How string }

func (fn *faultyFn) fail(moment string) error {
	if fn.At != moment {
		return nil
	}
	switch fn.How {
	case "panic":
		panic("a wild pointer")
	case "nil":
		var p *faultyFn
		p.At = moment
	case "goexit":
		runtime.Goexit()
	}
	return errTyped
}

func (fn *faultyFn) Setup() error                { return fn.fail("setup") }
func (fn *faultyFn) StartBundle(func(int)) error { return fn.fail("start") }
func (fn *faultyFn) ProcessElement(i int, emit func(int)) error {
	emit(i) // calls the next step, which returns
	return fn.fail("process")
}
func (fn *faultyFn) FinishBundle(func(int)) error { return fn.fail("finish") }
func (fn *faultyFn) Teardown() error              { return fn.fail("teardown") }

func double(i int) int { return 2 * i }

func failMerge(a, b int) int { panic("a wild pointer") }

// TestFaultsName checks that any failure of a function at any moment ends the run with an error that names its step,
// and not another step of the stage.
func TestFaultsName(t *testing.T) {
	for _, moment := range []string{"setup", "start", "process", "finish", "teardown"} {
		for how, want := range map[string]string{"error": errTyped.Error(), "panic": "a wild pointer", "nil": "nil pointer", "goexit": "ended its goroutine"} {
			t.Run(moment+"/"+how, func(t *testing.T) {
				p, s := beam.NewPipelineWithRoot()
				before := beam.ParDo(s.Scope("Before"), double, beam.Create(s, 1, 2, 3))
				faulty := beam.ParDo(s.Scope("Faulty"), &faultyFn{moment, how}, before)
				beam.ParDo(s.Scope("Beside"), double, before)
				beam.ParDo(s.Scope("After"), double, faulty)
				expectFault(t, p, "Faulty/", want)
			})
		}
	}
	t.Run("merge", func(t *testing.T) {
		p, s := beam.NewPipelineWithRoot()
		beam.Combine(s.Scope("Faulty"), failMerge, beam.Create(s, 1, 2, 3))
		expectFault(t, p, "Faulty/", "a wild pointer")
	})
}

// expectFault runs a pipeline, and expects an error of a step.
func expectFault(t *testing.T, p *beam.Pipeline, step, text string) {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := Execute(t.Context(), p)
		result <- err
	}()
	select {
	case err := <-result:
		var fault *Error
		wraps := errors.Is(err, errTyped) == (text == errTyped.Error())
		if p := new(Panic); text == "a wild pointer" && (!errors.As(err, &p) || p.Value != text || !strings.HasPrefix(p.Stack, "goroutine ")) {
			t.Errorf("panic %+v", p)
		}
		if !errors.As(err, &fault) || !strings.HasPrefix(fault.Step, step) || !strings.Contains(fault.Err.Error(), text) || !wraps {
			t.Errorf("error %v, want one of the step %s with %q", err, step, text)
		}
	case <-time.After(time.Minute):
		t.Fatal("Execute does not come back")
	}
}

// restlessFn sets a timer in processing time that sets itself again each time it fires.
type restlessFn struct{ Again timers.ProcessingTime }

func (fn *restlessFn) ProcessElement(tp timers.Provider, _ string, _ int) {
	fn.Again.Set(tp, time.Now())
}

func (fn *restlessFn) OnTimer(tp timers.Provider, _ string, _ timers.Context) {
	fn.Again.Set(tp, time.Now())
}

// TestEndless checks that an endless pipeline ends with its context.
func TestEndless(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &restlessFn{timers.InProcessingTime("again")}, beam.ParDo(s, oneKey, beam.Create(s, 1)))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Execute(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
}
