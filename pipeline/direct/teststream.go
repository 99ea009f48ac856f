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

// A testStream is a source for tests. Each of its events happens when nothing else is left
// to do.
type testStream struct {
	payload pipepb.TestStreamPayload
	to      *collection
	next    int        // event
	at      mtime.Time // watermark
}

// nextEvent makes the next event of a TestStream happen. It reports whether there was one.
func (e *engine) nextEvent() bool {
	for _, s := range e.stages {
		if s.script == nil || s.script.at == mtime.MaxTimestamp {
			continue
		}
		if err := e.happen(s.script); err != nil {
			e.fail(err)
		}
		return true
	}
	return false
}

func (e *engine) happen(s *testStream) error {
	if s.next == len(s.payload.GetEvents()) {
		s.at = mtime.MaxTimestamp
		return nil
	}
	event := s.payload.GetEvents()[s.next]
	s.next++
	if w := event.GetWatermarkEvent(); w != nil {
		s.at = max(s.at, mtime.FromMilliseconds(w.GetNewWatermark()))
	}
	if p := event.GetProcessingTimeEvent(); p != nil {
		const most = 1 << 40 // about 35 years; an infinite advance would overflow
		e.ahead += time.Duration(min(p.GetAdvanceDuration(), most)) * time.Millisecond
	}
	for _, el := range event.GetElementEvent().GetElements() {
		encoded, err := headed(s.to, mtime.FromMilliseconds(el.GetTimestamp()), el.GetEncodedElement())
		if err != nil {
			return err
		}
		if err := e.deliver(s.to, encoded); err != nil {
			return err
		}
	}
	return nil
}

// headed is the element of a collection with that time, in the global window.
func headed(c *collection, at mtime.Time, encoded []byte) (element, error) {
	var b bytes.Buffer
	if err := exec.EncodeWindowedValueHeader(c.winEnc, window.SingleGlobalWindow, at, typex.NoFiringPane(), &b); err != nil {
		return element{}, err
	}
	b.Write(encoded)
	return c.parse(b.Bytes())
}
