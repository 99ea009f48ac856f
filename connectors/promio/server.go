// Package promio reads series from Prometheus, or from what has its API, as a Beam source, and
// writes series to it.
package promio

import (
	"log/slog"
	"sync/atomic"
	"time"

	"hafvf/connectors/internal/retry"
)

// outageTimeout is the policy by which requests are repeated, for as long as it takes.
var outageTimeout = retry.Policy{First: 500 * time.Millisecond, Last: 30 * time.Second}

// repeats is the time after which the log says again that a server is away.
const repeatInterval = time.Minute

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 32 << 20

// quiet stands for the log of a run that has none.
var discardLog = slog.New(slog.DiscardHandler)

// A Tally counts what was wrong with the answers of a server. A run that carries one, see
// account.WithValue, has Read count there.
type Tally struct {
	Partial atomic.Int64 // answers of which the server says that they are not whole
	Dropped atomic.Int64 // points outside of what was asked, or that came twice
}

// An answerError is an answer other than a whole one, or no answer, with what another attempt may
// do.
type answerError struct {
	error
	temporary bool // the same may be answered later
	shrink    bool // less may be answered
	partial   bool // a part of it was
}

func (e *answerError) Unwrap() error { return e.error }
