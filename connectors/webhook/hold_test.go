package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

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

// What waits in a state survives its process: another one sends it.
func TestHeldIsWhole(t *testing.T) {
	var storedAlerts []byte
	for i := range 3 {
		a := alert(i)
		a.Key, a.StoredID = []byte("k"), fmt.Sprint("kept ", i)
		storedAlerts = appendStored(storedAlerts, a)
	}
	all, err := storedIn(storedAlerts)
	if err != nil || len(all) != 3 || all[2].StoredID != "kept 2" || all[2].ID != "2" || string(all[2].Text) != `{"id":"2"}` || string(all[2].Key) != "k" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}
