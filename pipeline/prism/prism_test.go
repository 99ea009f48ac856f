package prism

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"hafvf/internal/dofn"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// In a role the test binary is a process of its own, for what cannot be undone.
const roleVariable = "HAFVF_TEST_ROLE"

var roles = map[string]func() (said string, err error){}

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the runner's
	if role := os.Getenv(roleVariable); role != "" {
		said, err := roles[role]()
		fmt.Print(said)
		if err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func init() {
	register.Function3x0((&numbersFn{}).ProcessElement)
	dofn.Register(func(f *numbersFn) any { return f.ProcessElement })
	register.Emitter2[string, int]()
	register.Function4x1((&sumFn{}).ProcessElement)
	dofn.Register(func(f *sumFn) any { return f.ProcessElement })
	register.Emitter1[string]()
	register.Function2x1((&waitFn{}).ProcessElement)
	dofn.Register(func(f *waitFn) any { return f.ProcessElement })
}

const keys, numbers = 4, 40

var emitted = beam.NewCounter("test", "emitted")

// numbersFn emits 1 … numbers for each key.
type numbersFn struct{}

func (fn *numbersFn) ProcessElement(ctx context.Context, _ []byte, emit func(string, int)) {
	for i := range numbers {
		for k := range keys {
			emit(fmt.Sprint(k), i+1)
			emitted.Inc(ctx, 1)
		}
	}
}

// sumFn keeps the sum of a key's numbers in its state, element by element, and emits
// the key when it has all of them.
type sumFn struct{ Sum state.Value[int] }

func (fn *sumFn) ProcessElement(sp state.Provider, key string, n int, emit func(string)) error {
	sum, _, err := fn.Sum.Read(sp)
	if err != nil {
		return err
	}
	if sum+n == numbers*(numbers+1)/2 {
		emit(key)
	}
	return fn.Sum.Write(sp, sum+n)
}

// No update of a state is lost, and the counters come back.
func TestExecute(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	complete := beam.ParDo(s, &sumFn{state.MakeValueState[int]("sum")}, beam.ParDo(s, &numbersFn{}, beam.Impulse(s)))
	passert.Count(s, complete, "keys with every number", keys)
	r, err := Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	counters := r.Metrics().Query(func(r beam.MetricResult) bool { return r.Name() == "emitted" }).Counters()
	if len(counters) != 1 || counters[0].Result() != keys*numbers {
		t.Errorf("counters %v", counters)
	}
}

// waitFn waits until its pipeline is over.
type waitFn struct{}

var waiting = make(chan struct{}, 1)

func (fn *waitFn) ProcessElement(ctx context.Context, _ []byte) error {
	waiting <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func waits() *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &waitFn{}, beam.Impulse(s))
	return p
}

// A job that somebody cancels has not ended well.
func TestForeignCancel(t *testing.T) {
	go func() {
		<-waiting
		conn, err := grpcx.Dial(t.Context(), server.endpoint, dialTimeout)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		client := jobpb.NewJobServiceClient(conn)
		jobs, err := client.GetJobs(t.Context(), &jobpb.GetJobsRequest{})
		if err != nil {
			t.Error(err)
		}
		for _, job := range jobs.GetJobInfo() {
			client.Cancel(t.Context(), &jobpb.CancelJobRequest{JobId: job.GetJobId()})
		}
	}()
	if _, err := Execute(t.Context(), waits()); !errors.Is(err, ErrCancelled) {
		t.Errorf("error %v", err)
	}
}

func TestOwnCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() {
		<-waiting
		cancel(enough)
	}()
	if _, err := Execute(ctx, waits()); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
}
