// Package inorder has the common parts of splittable functions that read in one order. A split gives away all
// unclaimed positions or none: two readers of one source would read it twice and out of order.
package inorder

import (
	"math"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
)

// Unbounded is the end of a restriction whose end is unknown.
const Unbounded = math.MaxInt64

// End claims the rest of a restriction without reading it.
func End(rt *sdf.LockRTracker) {
	// In an endless restriction this is the last position but one: with the last, the tracker overflows.
	rt.TryClaim(rt.GetRestriction().(offsetrange.Restriction).End - 1)
}

// A Whole function does not split its restrictions R initially. Embed it.
type Whole[R any] struct{}

func (Whole[R]) SplitRestriction(_ []byte, r R) []R { return []R{r} }
func (Whole[R]) RestrictionSize([]byte, R) float64  { return 1 }

// An Offsets function reads a range of offsets. Embed it.
type Offsets struct {
	Whole[offsetrange.Restriction]
}

func (Offsets) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&tracker{offsetrange.NewTracker(r)})
}

type tracker struct{ *offsetrange.Tracker }

func (t *tracker) TrySplit(fraction float64) (primary, residual any, err error) {
	if fraction > 0 {
		return t.GetRestriction(), nil, nil
	}
	return t.Tracker.TrySplit(0)
}

func (t *tracker) GetProgress() (done, remaining float64) {
	done, _ = t.Tracker.GetProgress()
	if t.IsDone() {
		return done, 0
	}
	return done, 1
}

// A Watermark is a time in Unix milliseconds.
type Watermark struct{ MS int64 }

func (w *Watermark) CurrentWatermark() time.Time { return time.UnixMilli(w.MS) }

// A Timed function with restrictions R has a Watermark. Embed it.
type Timed[R any] struct{}

func (Timed[R]) InitialWatermarkEstimatorState(beam.EventTime, R, []byte) int64 {
	return mtime.MinTimestamp.Milliseconds()
}
func (Timed[R]) CreateWatermarkEstimator(ms int64) *Watermark { return &Watermark{ms} }
func (Timed[R]) WatermarkEstimatorState(w *Watermark) int64   { return w.MS }
