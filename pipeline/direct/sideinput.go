package direct

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"
)

// A sideInput is a side input of a step.
type sideInput struct {
	step, local string
	collection  *collection
	byKey       bool
	from        []*stage
	assign      *exec.WindowInto // assigns the windows of the side input

	mu      sync.Mutex             // a bundle may read while elements are added
	windows map[string]*sideWindow // by encoded window
	over    timeQueue[string]      // encoded windows by their ends
}

// A sideWindow holds the elements of one window.
type sideWindow struct {
	elements []byte            // encoded elements
	byKey    map[string][]byte // encoded values by key
}

func newSideInput(step, local string, spec *pipepb.SideInput, c *collection) (*sideInput, error) {
	fn, err := windowFn(c.strategy.GetWindowFn())
	if err != nil {
		return nil, err
	}
	return &sideInput{
		step: step, local: local, collection: c, byKey: spec.GetAccessPattern().GetUrn() == graphx.URNMultimapSideInput,
		assign: &exec.WindowInto{Fn: fn}, windows: map[string]*sideWindow{},
		over: timeQueue[string]{dropped: func(string) bool { return false }},
	}, nil
}

func windowFn(spec *pipepb.FunctionSpec) (*window.Fn, error) {
	switch spec.GetUrn() {
	case graphx.URNGlobalWindowsWindowFn:
		return window.NewGlobalWindows(), nil
	case graphx.URNFixedWindowsWindowFn:
		var p pipepb.FixedWindowsPayload
		err := proto.Unmarshal(spec.GetPayload(), &p)
		return window.NewFixedWindows(p.GetSize().AsDuration()), err
	case graphx.URNSlidingWindowsWindowFn:
		var p pipepb.SlidingWindowsPayload
		err := proto.Unmarshal(spec.GetPayload(), &p)
		return window.NewSlidingWindows(p.GetPeriod().AsDuration(), p.GetSize().AsDuration()), err
	}
	return nil, fmt.Errorf("a side input in windows of the kind %q is not supported by the direct runner", spec.GetUrn())
}

// end returns the end of the side input's window that a window of the main input maps to. As in package exec, this is
// the earliest window that contains the end of main.
func (s *sideInput) end(main typex.Window) mtime.Time {
	last := &lastWindow{}
	s.assign.Out = last
	// The error is always nil, because Out does not fail.
	_ = s.assign.ProcessElement(context.Background(), &exec.FullValue{Timestamp: main.MaxTimestamp()})
	return last.end
}

// lastWindow stores the end of an element's last window.
type lastWindow struct {
	exec.Node
	end mtime.Time
}

func (l *lastWindow) ProcessElement(_ context.Context, e *exec.FullValue, _ ...exec.ReStream) error {
	l.end = e.Windows[len(e.Windows)-1].MaxTimestamp()
	return nil
}

// watermark returns the watermark of the side input.
func (s *sideInput) watermark() mtime.Time {
	earliest := mtime.MaxTimestamp
	for _, f := range s.from {
		earliest = min(earliest, f.out)
	}
	return earliest
}

// add adds an element to its windows.
func (s *sideInput) add(e element) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range e.windows {
		name, err := exec.EncodeWindow(s.collection.winEnc, w)
		if err != nil {
			return err
		}
		sw := s.windows[string(name)]
		if sw == nil {
			sw = &sideWindow{byKey: map[string][]byte{}}
			s.windows[string(name)] = sw
			s.over.push(string(name), w.MaxTimestamp())
		}
		if s.byKey {
			sw.byKey[e.key] = append(sw.byKey[e.key], e.value...)
			continue
		}
		r := bytes.NewReader(e.bytes)
		if _, _, _, err := exec.DecodeWindowedValueHeader(s.collection.winDec, r); err != nil {
			return err
		}
		sw.elements = append(sw.elements, e.bytes[len(e.bytes)-r.Len():]...)
	}
	return nil
}

// forget deletes the windows that no element can need any more. The windows of such an element end at horizon or
// later, and the side input's window does not end before them.
func (s *sideInput) forget(horizon mtime.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.over.before(horizon) {
		delete(s.windows, name)
	}
}

// read returns the elements of an encoded window or, with keys, the values of a key.
func (s *sideInput) read(window, key []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch w := s.windows[string(window)]; {
	case w == nil:
		return nil
	case s.byKey:
		return w.byKey[string(key)]
	default:
		return w.elements
	}
}

// side returns a side input of the stage.
func (s *stage) side(id exec.StreamID, local string) *sideInput {
	return s.sides[slices.IndexFunc(s.sides, func(side *sideInput) bool { return side.step == id.PtransformID && side.local == local })]
}

// OpenIterableSideInput implements exec.StateReader.
func (b *bundle) OpenIterableSideInput(_ context.Context, id exec.StreamID, local string, window []byte) (io.ReadCloser, error) {
	return reader(b.shard.stage.side(id, local).read(window, nil)), nil
}

// OpenMultiMapSideInput implements exec.StateReader.
func (b *bundle) OpenMultiMapSideInput(_ context.Context, id exec.StreamID, local string, key, window []byte) (io.ReadCloser, error) {
	return reader(b.shard.stage.side(id, local).read(window, key)), nil
}

// GetSideInputCache implements exec.StateReader.
func (b *bundle) GetSideInputCache() exec.SideCache { return noCache{} }

// noCache caches nothing, because side inputs are in memory.
type noCache struct{}

func (noCache) QueryCache(context.Context, string, string, []byte, []byte) exec.ReStream { return nil }
func (noCache) SetCache(_ context.Context, _, _ string, _, _ []byte, in exec.ReStream) exec.ReStream {
	return in
}
