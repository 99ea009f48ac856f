package direct

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
)

// A grouping is a GroupByKey with the default trigger: a window fires when the watermark has passed its end, and
// again for each late element.
type grouping struct {
	out         *collection
	merges      bool       // overlapping windows merge
	accumulates bool       // a pane repeats the elements of previous panes
	lateness    mtime.Time // allowed lateness in milliseconds
}

func newGrouping(in, out *collection) (*grouping, error) {
	w := in.strategy
	switch t := w.GetTrigger().GetTrigger().(type) {
	case nil, *pipepb.Trigger_Default_:
	case *pipepb.Trigger_AfterEndOfWindow_:
		if t.AfterEndOfWindow.GetEarlyFirings() != nil || t.AfterEndOfWindow.GetLateFirings() != nil {
			return nil, refusedTrigger(w)
		}
	default:
		return nil, refusedTrigger(w)
	}
	return &grouping{
		out: out, merges: w.GetMergeStatus() == pipepb.MergeStatus_NEEDS_MERGE,
		accumulates: w.GetAccumulationMode() == pipepb.AccumulationMode_ACCUMULATING, lateness: mtime.Time(w.GetAllowedLateness()),
	}, nil
}

func refusedTrigger(w *pipepb.WindowingStrategy) error {
	return fmt.Errorf("the trigger {%v} is not supported by the direct runner: use the default trigger", w.GetTrigger())
}

// A keyWindow is a window of a key with its values.
type keyWindow struct {
	key    string // encoded key
	window typex.Window
	values []byte // encoded values, concatenated
	n      int    // number of values
	unsent bool   // some values were in no pane yet
	panes  int64  // number of panes so far
	closed bool   // merged into another window, or expired
}

func (w *keyWindow) end() mtime.Time { return w.window.MaxTimestamp() }

// groups are the windows of a shard.
type groups struct {
	byKey map[string][]*keyWindow
	due   timeQueue[*keyWindow] // windows with a pane to send, by their ends
	over  timeQueue[*keyWindow] // all windows, by their ends
}

func newGroups() *groups {
	return &groups{
		byKey: map[string][]*keyWindow{},
		due:   timeQueue[*keyWindow]{dropped: func(w *keyWindow) bool { return w.closed || !w.unsent }},
		over:  timeQueue[*keyWindow]{dropped: func(w *keyWindow) bool { return w.closed }},
	}
}

// run adds elements to the windows and returns the panes that are due.
func (g *grouping) run(dst *groups, elements []element, watermark mtime.Time) (panes [][]byte, err error) {
	send := func(w *keyWindow, timing typex.PaneTiming) error {
		pane, err := g.pane(w, timing)
		panes = append(panes, pane)
		return err
	}
	for _, e := range elements {
		for _, late := range g.add(dst, e, watermark) {
			if err := send(late, typex.PaneLate); err != nil {
				return nil, err
			}
		}
	}
	for w := range dst.due.before(watermark) {
		if err := send(w, typex.PaneOnTime); err != nil {
			return nil, err
		}
	}
	for w := range dst.over.before(watermark - g.lateness) {
		dst.forget(w)
	}
	return panes, nil
}

// add adds an element to its windows. It returns the late windows, whose panes must be sent at once.
func (g *grouping) add(dst *groups, e element, watermark mtime.Time) (late []*keyWindow) {
	for _, in := range e.windows {
		if in.MaxTimestamp()+g.lateness < watermark {
			continue // the element is too late and is dropped
		}
		w := g.find(dst, e.key, in)
		w.values = append(w.values, e.value...)
		w.n++
		switch {
		case w.end() < watermark:
			w.unsent = true
			if !slices.Contains(late, w) {
				late = append(late, w)
			}
		case !w.unsent:
			w.unsent = true
			dst.due.push(w, w.end())
		}
	}
	return late
}

// find returns the window of a key. If windows merge, it first merges the overlapping ones.
func (g *grouping) find(dst *groups, key string, in typex.Window) *keyWindow {
	windows := dst.byKey[key]
	if !g.merges {
		if i := slices.IndexFunc(windows, func(w *keyWindow) bool { return w.window.Equals(in) }); i >= 0 {
			return windows[i]
		}
		return dst.open(&keyWindow{key: key, window: in})
	}
	span := in.(window.IntervalWindow)
	if i := slices.IndexFunc(windows, func(w *keyWindow) bool { return covers(w.window.(window.IntervalWindow), span) }); i >= 0 {
		return windows[i]
	}
	merged := &keyWindow{key: key}
	for _, w := range slices.Clone(windows) {
		o := w.window.(window.IntervalWindow)
		if o.Start >= span.End || span.Start >= o.End {
			continue
		}
		span = window.IntervalWindow{Start: min(span.Start, o.Start), End: max(span.End, o.End)}
		merged.values = append(merged.values, w.values...)
		merged.n += w.n
		merged.unsent = merged.unsent || w.unsent
		merged.panes = max(merged.panes, w.panes)
		dst.forget(w)
	}
	merged.window = span
	return dst.open(merged)
}

func covers(w, span window.IntervalWindow) bool { return w.Start <= span.Start && w.End >= span.End }

func (gs *groups) open(w *keyWindow) *keyWindow {
	gs.byKey[w.key] = append(gs.byKey[w.key], w)
	gs.over.push(w, w.end())
	if w.unsent {
		gs.due.push(w, w.end())
	}
	return w
}

func (gs *groups) forget(w *keyWindow) {
	w.closed = true
	rest := slices.DeleteFunc(gs.byKey[w.key], func(o *keyWindow) bool { return o == w })
	if gs.byKey[w.key] = rest; len(rest) == 0 {
		delete(gs.byKey, w.key)
	}
}

// pane encodes the next pane of a window as an element.
func (g *grouping) pane(w *keyWindow, timing typex.PaneTiming) ([]byte, error) {
	info := typex.PaneInfo{Timing: timing, IsFirst: w.panes == 0, Index: w.panes, NonSpeculativeIndex: w.panes}
	_, info.IsLast = w.window.(window.GlobalWindow)
	var b bytes.Buffer
	if err := exec.EncodeWindowedValueHeader(g.out.winEnc, []typex.Window{w.window}, w.end(), info, &b); err != nil {
		return nil, err
	}
	b.Grow(len(w.key) + len(w.values) + 4)
	b.WriteString(w.key)
	if err := coder.EncodeInt32(int32(w.n), &b); err != nil {
		return nil, err
	}
	b.Write(w.values)
	w.panes++
	w.unsent = false
	if !g.accumulates {
		w.values, w.n = nil, 0
	}
	return b.Bytes(), nil
}
