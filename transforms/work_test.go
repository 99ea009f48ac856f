package transforms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/reminder"
	"hafvf/internal/testing/expect"
)

// What the node emits of a batch does not depend on the number of goroutines: neither
// the estimates nor their order.
func TestWorkIsTheSameOnAnyNumberOfGoroutines(t *testing.T) {
	cfg := keyed.Config{
		Filter: hafvf.Config{Family: "normal", WarmUp: 20, Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}},
		Keys:   []keyed.Rule{{Match: "k1*", Filter: hafvf.Config{Family: "normal"}}},
	}
	text := expect.Get(json.Marshal(cfg))(t)
	// Two batches of twenty keys, one of which has most of the observations; some are
	// late, and a key may have two blocks.
	rng := rand.New(rand.NewPCG(5, 6))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var batches [2][]queuedBlock
	for n := range batches {
		for i := range 30 {
			size := 20
			if i == 3 {
				size = 1500
			}
			var block []byte
			for j := range size {
				o := keyed.Observation{Time: begin.Add(time.Duration(n*2000+j) * time.Minute), X: [][]float64{{rng.NormFloat64() + float64(n*i)}}}
				if rng.IntN(50) == 0 {
					o.Time = begin.Add(-time.Hour)
				}
				block, _ = o.AppendBinary(block)
			}
			batches[n] = append(batches[n], queuedBlock{key: fmt.Sprintf("k%d", i%20), block: blockBytes{block, string(block)}})
		}
	}
	run := func(goroutines int) (all []string) {
		fn := &encodeFn{Config: string(text), Encoder: Registered{Name: objects}}
		expect.OK(t, fn.Setup(t.Context()))
		fn.workers = nil
		for range goroutines {
			est := expect.Get(keyed.NewEstimator(cfg))(t)
			fn.workers = append(fn.workers, &worker{Estimator: est, encoder: objectEncoder{}})
		}
		entities := map[string]*openKey{}
		for _, batch := range batches {
			var active []*openKey
			for i, a := range batch {
				e := entities[a.key]
				if e == nil {
					e = &openKey{key: a.key}
					e.KeyState, e.err = fn.workers[i%goroutines].Open(e.key, nil)
					entities[a.key] = e
				}
				if len(e.blocks) == 0 {
					active = append(active, e)
				}
				e.blocks = append(e.blocks, a.block)
			}
			emit := func(b []byte) {
				err := unpack(b, func(key string, e keyed.Estimate) { all = append(all, fmt.Sprintf("%s %x", key, encoded(e))) })
				if err != nil {
					t.Error(err)
				}
			}
			fn.record, fn.reject = emit, func(r keyed.Rejected) { all = append(all, fmt.Sprintf("%+v", r)) }
			expect.OK(t, fn.work(active))
			fn.records.flush(emit)
			for i := range 20 {
				b, _ := entities[fmt.Sprintf("k%d", i)].AppendBinary(nil)
				all = append(all, fmt.Sprintf("%x", b))
			}
		}
		if n := fn.report.Counts; n.Records < 3000 || n.Late < 40 || int(n.Records+n.Rejected) != fn.report.Taken {
			t.Errorf("%+v", fn.report)
		}
		return all
	}
	var log bytes.Buffer
	defer func(was *slog.Logger) { slog.SetDefault(was) }(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	lates.Reminder = reminder.Reminder{}
	want := run(1)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "late: ") {
		t.Errorf("the log says of many late observations %q", text)
	}
	for _, goroutines := range []int{2, 7} {
		got := run(goroutines)
		if len(got) != len(want) {
			t.Fatalf("%d outputs on %d goroutines, %d on one", len(got), goroutines, len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("output %d on %d goroutines:\n%s\non one:\n%s", i, goroutines, got[i], want[i])
			}
		}
	}
}
