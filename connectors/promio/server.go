// Package promio reads series from servers with the API of Prometheus as a Beam source, and writes series to them
// by remote write.
package promio

import (
	"log/slog"
	"sync/atomic"
	"time"

	"hafvf/connectors/internal/retry"
)

// retryPolicy sets the pauses between attempts. Their number is not limited.
var retryPolicy = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second}

// repeatInterval is the time between two warnings during an outage.
const repeatInterval = time.Minute

// maxAnswer is the maximum length of an answer in bytes.
const maxAnswer = 32 << 20

// discardLog is the log of a run without one.
var discardLog = slog.New(slog.DiscardHandler)

// A Tally counts partial answers and dropped points. If a run carries a Tally, see account.WithValue, Read
// counts in it.
type Tally struct {
	Partial atomic.Int64 // answers that the server reports to be partial
	Dropped atomic.Int64 // points outside the queried window, and duplicates
}

// An answerError means that an answer is missing, refused or partial. Its flags say whether another attempt may
// help.
type answerError struct {
	error
	temporary bool // the same query may succeed later
	shrink    bool // a shorter query may succeed
	partial   bool // the answer is partial
}

func (e *answerError) Unwrap() error { return e.error }
