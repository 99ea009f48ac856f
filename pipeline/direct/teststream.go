package direct

import (
	"bytes"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// A testStream is a source for tests. Each of its events happens when nothing else is left to do.
type testStream struct {
	payload   pipepb.TestStreamPayload
	dst       *collection
	next      int        // index of the next event
	watermark mtime.Time // watermark
}

// nextEvent applies the next event of a TestStream. It returns false if there is none.
func (e *engine) nextEvent() bool {
	for _, s := range e.stages {
		if s.script == nil || s.script.watermark == mtime.MaxTimestamp {
			continue
		}
		if err := e.apply(s.script); err != nil {
			e.fail(err)
		}
		return true
	}
	return false
}

func (e *engine) apply(s *testStream) error {
	if s.next == len(s.payload.GetEvents()) {
		s.watermark = mtime.MaxTimestamp
		return nil
	}
	event := s.payload.GetEvents()[s.next]
	s.next++
	if w := event.GetWatermarkEvent(); w != nil {
		s.watermark = max(s.watermark, mtime.FromMilliseconds(w.GetNewWatermark()))
	}
	if p := event.GetProcessingTimeEvent(); p != nil {
		const maxAdvance = 1 << 40 // about 35 years; an infinite advance would overflow
		e.ahead += time.Duration(min(p.GetAdvanceDuration(), maxAdvance)) * time.Millisecond
	}
	for _, el := range event.GetElementEvent().GetElements() {
		encoded, err := withHeader(s.dst, mtime.FromMilliseconds(el.GetTimestamp()), el.GetEncodedElement())
		if err != nil {
			return err
		}
		if err := e.deliver(s.dst, encoded); err != nil {
			return err
		}
	}
	return nil
}

// withHeader returns an element of the collection at time t, in the global window.
func withHeader(c *collection, t mtime.Time, encoded []byte) (element, error) {
	var b bytes.Buffer
	if err := exec.EncodeWindowedValueHeader(c.winEnc, window.SingleGlobalWindow, t, typex.NoFiringPane(), &b); err != nil {
		return element{}, err
	}
	b.Write(encoded)
	return c.parse(b.Bytes())
}
