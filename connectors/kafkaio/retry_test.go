package kafkaio

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"hafvf/internal/testing/expect"
)

// What is asked patiently returns the error that does not pass, or the last one when the budget is spent.
func TestAskPatientlyReturnsErrors(t *testing.T) {
	final := errors.New("final")
	for _, c := range []struct {
		errs   []error // of the attempts, the last one for ever
		budget time.Duration
		want   error
		asked  int
	}{
		{[]error{nil}, forEver, nil, 1},
		{[]error{kafka.Unknown, nil}, forEver, nil, 2},
		{[]error{kafka.Unknown, final}, forEver, final, 2},
		{[]error{kafka.Unknown}, time.Nanosecond, kafka.Unknown, 1},
	} {
		asked := 0
		err := askPatiently(t.Context(), c.budget, slog.New(slog.DiscardHandler), func(context.Context) error {
			asked++
			return c.errs[min(asked, len(c.errs))-1]
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%v: error %v", c.errs, err)
		}
		expect.Same(t, c.asked, asked, c.errs)
	}
}
