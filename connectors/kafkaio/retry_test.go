package kafkaio

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/segmentio/kafka-go"
)

// askPatiently returns the first error that is not retryable.
func TestAskPatientlyFails(t *testing.T) {
	final := errors.New("final")
	answers := []error{kafka.Unknown, final, nil}
	err := askPatiently(t.Context(), noLimit, slog.New(slog.DiscardHandler), func(context.Context) (err error) {
		err, answers = answers[0], answers[1:]
		return err
	})
	if err != final || len(answers) != 1 {
		t.Errorf("error %v, and %d answers are left", err, len(answers))
	}
}
