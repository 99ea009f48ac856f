package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"hafvf/connectors"
	"hafvf/internal/dofn"
	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Function2x0((&sayFn{}).ProcessElement)
	dofn.Register(func(f *sayFn) any { return f.ProcessElement })
	register.Function1x0((&catchFn{}).ProcessElement)
	dofn.Register(func(f *catchFn) any { return f.ProcessElement })
}

// sayFn emits alerts.
type sayFn struct{ N int }

func (fn *sayFn) ProcessElement(_ []byte, emit func([]byte)) {
	for i := range fn.N {
		emit(append(connectors.Chunk(nil).Begin([]byte("k"), fmt.Sprint(i)), fmt.Sprintf("{\"id\":\"%d\"}\n", i)...))
	}
}

var caught struct {
	sync.Mutex
	ids []string
}

type catchFn struct{}

func (catchFn) ProcessElement(r connectors.Refused) {
	caught.Lock()
	defer caught.Unlock()
	caught.ids = append(caught.ids, r.ID)
}

// A step that holds alerts in its state delivers each, also to a receiver that was away, and
// passes on those that the receiver refuses.
func TestWriteHeld(t *testing.T) {
	expect.Long(t, "pauses between requests")
	var mu sync.Mutex
	taken, failures := map[string]int{}, 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if failures--; failures >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var all []struct{ ID string }
		if json.NewDecoder(r.Body).Decode(&all) != nil {
			t.Error("no alerts")
		}
		for _, a := range all {
			if a.ID == "7" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		for _, a := range all {
			taken[a.ID]++
		}
	}))
	defer server.Close()
	p, s := beam.NewPipelineWithRoot()
	chunks := beam.ParDo(s, &sayFn{20}, beam.Impulse(s))
	refused := WriteStored(s, Sink{URL: secret.Text{Text: server.URL}, Batch: 100, Timeout: time.Second}, 0, chunks)
	beam.ParDo0(s, &catchFn{}, refused)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	expect.Get(direct.Execute(ctx, p))(t)
	mu.Lock()
	defer mu.Unlock()
	caught.Lock()
	defer caught.Unlock()
	if len(taken) != 19 || taken["7"] != 0 || fmt.Sprint(caught.ids) != "[7]" {
		t.Errorf("taken %v, refused %v", taken, caught.ids)
	}
	expect.Same(t, 1, len(Shared()), "outboxes")
}

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

// A fakeRunner keeps a bag and a timer, as a runner does for one key.
type fakeRunner struct {
	state.Provider
	bag   []any
	timer *timers.TimerMap
	fails error
}

func (r *fakeRunner) ReadBagState(string) ([]any, []state.Transaction, error) {
	return slices.Clone(r.bag), nil, r.fails
}

func (r *fakeRunner) WriteBagState(t state.Transaction) error {
	r.bag = append(r.bag, t.Val)
	return nil
}

func (r *fakeRunner) ClearBagState(state.Transaction) error {
	r.bag = nil
	return nil
}

func (r *fakeRunner) Set(t timers.TimerMap) { r.timer = &t }

// An alert stays in the state, and the timer set, until the receiver has answered; a failure of the
// state fails the bundle.
func TestHold(t *testing.T) {
	url, come := away(t, &receiver{codes: []int{http.StatusBadRequest}})
	fn := &holdFn{Sink: Sink{URL: secret.Text{Text: url}, Timeout: time.Second}, MaxAge: time.Hour, Waiting: state.MakeBagState[[]byte]("w"), Next: timers.InProcessingTime("n")}
	fn.Setup()
	runner := &fakeRunner{}
	var refused []connectors.Refused
	refuse := func(f connectors.Refused) { refused = append(refused, f) }
	take := func(a Alert) error {
		return fn.ProcessElement(t.Context(), runner, runner, "receiver", a.Chunk(), refuse)
	}
	poll := func() error {
		runner.timer = nil
		return fn.OnTimer(t.Context(), 0, runner, runner, "receiver", timers.Context{}, refuse)
	}
	expect.OK(t, take(Alert{ID: "old", Text: []byte(`{"time":"2020-01-01T00:00:00Z"}`)}))
	if len(runner.bag) != 0 || runner.timer != nil {
		t.Errorf("an alert that is too old stays: %q, %v", runner.bag, runner.timer)
	}
	one := alert(1)
	one.Key = []byte("k")
	expect.OK(t, take(one))
	for range 2 {
		if len(runner.bag) != 1 || runner.timer == nil {
			t.Errorf("the state holds %q, and the timer is %v", runner.bag, runner.timer)
		}
		expect.OK(t, poll())
	}
	boxes[fn.name].Close(0, 0)
	delete(boxes, fn.name) // as in another process, which has the state
	runner.fails = errors.New("no state")
	expect.Error(t, poll(), "no state")
	runner.fails = nil
	come()
	expect.Soon(t, "the alert is refused", func() bool { return poll() == nil && len(refused) == 1 })
	expect.Same(t, []any{"k", "1", `{"id":"1"}`}, []any{string(refused[0].Key), refused[0].ID, string(refused[0].Text)})
	if len(runner.bag) != 0 || runner.timer != nil {
		t.Errorf("the state still holds %q, and the timer is %v", runner.bag, runner.timer)
	}
	fn.Sink.URL.Text = "http://%"
	fn.Setup()
	expect.Error(t, take(alert(2)), "webhook.url")
	expect.Error(t, poll(), "webhook.url")
}
