package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// The outputs of the node for sessions do not depend on the number of goroutines: neither the records nor their
// order.
func TestSmoothIsTheSameOnAnyNumberOfGoroutines(t *testing.T) {
	expect.Long(t, "numbers of goroutines")
	cfg := SmoothConfig{SmoothConfig: keyed.SmoothConfig{
		Filter: hafvf.Config{Family: "normal", WarmUp: 20, Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}},
		Keys:   []keyed.Rule{{Match: "k1*", Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: 1}}}},
		Gap:    time.Hour,
	}}
	text := expect.Get(json.Marshal(cfg))(t)
	// One session is smoothed alone. The sessions before and after it fill several batches.
	const alone = 70
	rng := rand.New(rand.NewPCG(7, 8))
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sessions := make([][]byte, 100)
	batched, records := 0, 0
	for i := range sessions {
		s := sessionRevision{Revision: int64(i % 3)}
		n := 1 + rng.IntN(800)
		if i == alone {
			n = 15_000
		}
		for j := range n {
			s.Observations = append(s.Observations, keyed.Observation{
				Time: begin.Add(time.Duration(j) * time.Second), X: [][]float64{{rng.NormFloat64() + float64(j/300%2*4)}},
			})
		}
		records += n
		sessions[i] = compact.Encode(nil, s, sessionForm)
		if i != alone {
			batched += len(sessions[i])
		}
	}
	if len(sessions[alone]) < smoothBytes || batched < 2*smoothBytes {
		t.Fatalf("one session has %d bytes, the others %d", len(sessions[alone]), batched)
	}
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	run := func(goroutines int) (list []string) {
		runtime.GOMAXPROCS(goroutines)
		fn := &encodeSmoothedFn{Config: string(text), Encoder: Registered{Name: objects}}
		expect.OK(t, fn.Setup(t.Context()))
		if len(fn.smoothers) != goroutines {
			t.Fatalf("%d smoothers on %d goroutines", len(fn.smoothers), goroutines)
		}
		emit := func(b []byte) {
			err := unpack(b, func(key string, s keyed.Smoothed) { list = append(list, fmt.Sprintf("%s %+v", key, s)) })
			if err != nil {
				t.Error(err)
			}
		}
		fn.StartBundle(emit, nil)
		for i, b := range sessions {
			expect.OK(t, fn.ProcessElement(context.Background(), fmt.Sprintf("k%d", i), b, emit, nil))
		}
		expect.OK(t, fn.drain())
		fn.records.flush(emit)
		if int(fn.counts.Records) != records || len(list) != records || int(fn.counts.Sessions) != len(sessions) || fn.counts.Changes < 100 {
			t.Errorf("%+v of %d observations in %d sessions, and %d records", fn.counts, records, len(sessions), len(list))
		}
		return list
	}
	want := run(1)
	for _, goroutines := range []int{2, 8} {
		if got := run(goroutines); !slices.Equal(got, want) {
			i := slices.IndexFunc(want, func(w string) bool { return !slices.Contains(got, w) })
			t.Errorf("%d goroutines do not return record %d of one goroutine", goroutines, i)
		}
	}
}

// A session that is cut short is an error, which names the key.
func TestSmoothCutSession(t *testing.T) {
	text, err := json.Marshal(SmoothConfig{SmoothConfig: keyed.SmoothConfig{Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Top: 1}}, Gap: time.Hour}})
	expect.OK(t, err)
	fn := &encodeSmoothedFn{Config: string(text), Encoder: Registered{Name: objects}}
	expect.OK(t, fn.Setup(t.Context()))
	emit := func([]byte) { t.Error("a record") }
	fn.StartBundle(emit, nil)
	expect.OK(t, fn.ProcessElement(context.Background(), "k", []byte{0, 9, 9}, emit, nil))
	if err := fn.drain(); err == nil || err.Error() != `key "k": `+compact.ErrCut.Error() {
		t.Errorf("error %v", err)
	}
}
