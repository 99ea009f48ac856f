package transforms_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf/keyed"
	"hafvf/internal/account"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/direct"
	"hafvf/transforms"
)

func init() {
	transforms.Register("timers", func(context.Context, string) transforms.Decoder { return secondDecoder{} })
	transforms.Register("timers", func(context.Context, string) transforms.Encoder { return forgetsEncoder{} })
	transforms.Register("slow", func(context.Context, string) transforms.Encoder { return slowEncoder{} })
}

// secondDecoder decodes a number: 1,000 times the second of an observation, plus the number of its key.
type secondDecoder struct{}

func (secondDecoder) Decode(element any, take func(string, *keyed.Observation) error, _ func([]byte, int)) {
	n := int(element.(float64))
	o := keyed.Value(timeAt(n/1000), "", 1)
	_ = take(fmt.Sprint("k", n%1000), &o) // it is valid
}

// forgotten counts the keys that were forgotten.
var forgotten atomic.Int64

// forgetsEncoder writes for an estimate the number of keys that were forgotten before.
type forgetsEncoder struct{ encoder }

func (forgetsEncoder) Estimate(dst *transforms.Encoded, key string, _ *keyed.Estimate) {
	dst.Records = fmt.Appendf(dst.Records, "%s %d\n", key, forgotten.Load())
}

func (forgetsEncoder) Forgotten(*transforms.Encoded, string) { forgotten.Add(1) }

// slowEncoder signals that a silence is reported, and then waits.
type slowEncoder struct{ encoder }

var silentCalled, silentMayReturn = make(chan bool), make(chan bool)

func (e slowEncoder) Silent(dst *transforms.Encoded, key string, s keyed.SilenceEvent) {
	silentCalled <- true
	<-silentMayReturn
	e.encoder.Silent(dst, key, s)
}

// A run that is stopped while a node processes a timer is not idle before the outputs of the timer are stored,
// although the source has handed over no records that are in flight.
func TestTimerKeepsRunBusy(t *testing.T) {
	books := account.Open(account.StateKeeper{Suspends: true})
	defer books.Close()
	expect.OK(t, books.HandOver(t.Context(), 1, nil))
	p, s := beam.NewPipelineWithRoot()
	cfg := keyed.Config{Filter: twoLevels, Silence: &keyed.SilenceConfig{After: 10 * time.Second}}
	records, alerts, _, _ := transforms.FilterEncoded(s, cfg, transforms.Host{InProcess: true, Live: true, Cells: []string{"c"}},
		transforms.Registered{Name: "timers"}, transforms.Registered{Name: "slow"}, streamOf(t, s, event{0, 1}, mark(20)))
	c := &testCase{lines: map[string][]string{}}
	cases.Store(t.Name(), c)
	beam.ParDo(s, &collectOneFn{t.Name(), "records"}, records)
	beam.ParDo(s, &collectOneFn{t.Name(), "alerts"}, alerts)
	ended := make(chan error)
	go func() {
		_, err := direct.Execute(books.In(t.Context()), p)
		ended <- err
	}()
	<-silentCalled
	books.Stop()
	isIdle := func(within time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return books.WaitIdle(ctx)
	}
	if isIdle(50 * time.Millisecond) {
		t.Error("the run is idle while a timer reports a silence")
	}
	silentMayReturn <- true
	expect.OK(t, <-ended)
	if !isIdle(time.Minute) || len(c.lines["alerts"]) != 1 {
		t.Errorf("the run is not idle, or the alerts are %q", c.lines["alerts"])
	}
}

// The division of records into bundles does not decide the outcome of a timer. A key has two observations after a
// step that has passed its deadline: the next step decides whether it is silent, and not a timer that may fire
// between them.
func TestRecordsAfterStep(t *testing.T) {
	c := &testCase{lines: map[string][]string{}}
	cases.Store(t.Name(), c)
	books := account.Open(account.StateKeeper{})
	defer books.Close()
	books.Advance(timeAt(20), false)
	expect.OK(t, books.HandOver(t.Context(), 2, nil))
	p, s := beam.NewPipelineWithRoot()
	cfg := keyed.Config{Filter: twoLevels, Silence: &keyed.SilenceConfig{After: time.Second}}
	_, alerts, _, _ := transforms.FilterEncoded(s, cfg, transforms.Host{InProcess: true, Live: true, Cells: []string{"c"}},
		transforms.Registered{Name: "timers"}, transforms.Registered{Name: "test"}, streamOf(t, s, mark(20), event{0, 0}, event{5, 5000}, mark(21)))
	beam.ParDo(s, &collectOneFn{t.Name(), "alerts"}, alerts)
	expect.Get(direct.Execute(books.In(t.Context()), p))(t)
	if got := c.lines["alerts"]; len(got) != 1 || got[0] != "k0 since 5, 1s, n 2, 1 outputs" {
		t.Errorf("alerts %q", got)
	}
}

// If a watermark passes the expiry of all keys in one step, all of them are forgotten then, in all cells, and not
// only those of the cell whose timer is first.
func TestExpiryOfAllCells(t *testing.T) {
	eachCells(t, func(t *testing.T, cells []string) {
		const keys, expire, step = 600, 10, 100
		c := &testCase{lines: map[string][]string{}}
		cases.Store(t.Name(), c)
		forgotten.Store(0)
		var events []any
		for k := range keys {
			events = append(events, event{0, float64(k)})
		}
		events = append(events, mark(step), event{step, 1000*step + keys})
		books := account.Open(account.StateKeeper{})
		defer books.Close()
		expect.OK(t, books.HandOver(t.Context(), keys+1, nil))
		books.Advance(timeAt(step), false)
		p, s := beam.NewPipelineWithRoot()
		cfg := keyed.Config{Filter: twoLevels, Expire: expire * time.Second}
		registered := transforms.Registered{Name: "timers"}
		records, _, _, _ := transforms.FilterEncoded(s, cfg, transforms.Host{InProcess: true, Live: true, Cells: cells}, registered, registered, streamOf(t, s, events...))
		beam.ParDo(s, &collectOneFn{t.Name(), "records"}, records)
		expect.Get(direct.Execute(books.In(t.Context()), p))(t)
		if last := fmt.Sprintf("k%d %d", keys, keys); !slices.Contains(c.lines["records"], last) {
			t.Errorf("%d keys were forgotten, and no record is %q", forgotten.Load(), last)
		}
	})
}
