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

// The outputs of the node for a batch do not depend on the number of goroutines: neither the estimates nor their
// order.
func TestWorkIsTheSameOnAnyNumberOfGoroutines(t *testing.T) {
	cfg := keyed.Config{
		Filter: hafvf.Config{Family: "normal", WarmUp: 20, Bank: hafvf.DefaultBankFor("normal"), Detect: &hafvf.Detect{}},
		Keys:   []keyed.Rule{{Match: "k1*", Filter: hafvf.Config{Family: "normal"}}},
	}
	text := expect.Get(json.Marshal(cfg))(t)
	// Two batches with twenty keys. One key has most of the observations, some observations are late, and a key may
	// have two blocks.
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
	run := func(goroutines int) (outputs []string) {
		fn := &encodeFn{Config: string(text), Encoder: Registered{Name: objects}}
		expect.OK(t, fn.Setup(t.Context()))
		fn.workers = nil
		for range goroutines {
			est := expect.Get(keyed.NewEstimator(cfg))(t)
			fn.workers = append(fn.workers, &worker{Estimator: est, encoder: objectEncoder{}})
		}
		keys := map[string]*openKey{}
		for _, batch := range batches {
			var active []*openKey
			for i, b := range batch {
				e := keys[b.key]
				if e == nil {
					e = &openKey{key: b.key}
					e.KeyState, e.err = fn.workers[i%goroutines].Open(e.key, nil)
					keys[b.key] = e
				}
				if len(e.blocks) == 0 {
					active = append(active, e)
				}
				e.blocks = append(e.blocks, b.block)
			}
			emit := func(b []byte) {
				err := unpack(b, func(key string, e keyed.Estimate) { outputs = append(outputs, fmt.Sprintf("%s %x", key, bytesOf(e))) })
				if err != nil {
					t.Error(err)
				}
			}
			fn.record, fn.reject = emit, func(r keyed.Rejected) { outputs = append(outputs, fmt.Sprintf("%+v", r)) }
			expect.OK(t, fn.work(active))
			fn.records.flush(emit)
			for i := range 20 {
				b, _ := keys[fmt.Sprintf("k%d", i)].AppendBinary(nil)
				outputs = append(outputs, fmt.Sprintf("%x", b))
			}
		}
		if n := fn.report.Counts; n.Records < 3000 || n.Late < 40 || int(n.Records+n.Rejected) != fn.report.Taken {
			t.Errorf("%+v", fn.report)
		}
		return outputs
	}
	var log bytes.Buffer
	defer func(former *slog.Logger) { slog.SetDefault(former) }(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	lates.Reminder = reminder.Reminder{}
	want := run(1)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "late: ") {
		t.Errorf("the log of many late observations: %q", text)
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
