// Package compare runs several methods over streams and series, and scores their predictions, estimates, detections
// and costs.
package compare

import (
	"context"
	"runtime"
	"sync/atomic"

	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/internal/parallel"
)

// WarmUp is the number of observations at the start of a stream that set the units of the methods. The methods learn
// these observations, but they are not scored.
const WarmUp = 50

// A Comparison runs methods over groups of cases.
type Comparison struct {
	Methods []methods.Method
	Groups  []Group
	// Progress, unless nil, is called after each run of a method over a stream, by several goroutines.
	Progress func(done, total int)
}

// A Group is a set of cases with a common summary.
type Group struct {
	Name  string
	Truth Truth
	Cases []Case
}

// Truth is the knowledge about the cases of a group.
type Truth int

// Values of Truth.
const (
	Unknown  Truth = iota // nothing is known
	Windows               // windows in which something happened
	Complete              // changes, and the mean of every observation
)

// A Case is a kind of stream, with one draw for each seed, or a single series.
type Case struct {
	Name  string
	Short string // name in the head of a column; if empty, Name
	Draws []func() (Series, error)
}

// A Series is a sequence of values in time order.
type Series struct {
	Family string
	X      []float64
	Period int // observations after which the values may recur; 1 if unknown
	Seed   uint64

	Mean    []float64 // true means of the distribution, one per observation
	Changes []int     // indices of the first observations of new regimes
	Windows [][2]int  // indices of the first and last observation of each window
}

// Run runs all methods over all cases, on all processors. It returns the first error of a series, or the cause of the
// end of ctx.
func (c Comparison) Run(ctx context.Context) (*Report, error) {
	type task struct{ group, caseIndex, draw, method int }
	var tasks []task
	results := make([][][][]outcome, len(c.Groups)) // indexed by group, case, method and draw
	for g, group := range c.Groups {
		results[g] = make([][][]outcome, len(group.Cases))
		for caseIndex, item := range group.Cases {
			results[g][caseIndex] = make([][]outcome, len(c.Methods))
			for m := range c.Methods {
				results[g][caseIndex][m] = make([]outcome, len(item.Draws))
			}
			for draw := range item.Draws {
				for m := range c.Methods {
					tasks = append(tasks, task{g, caseIndex, draw, m})
				}
			}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	parallel.Do(len(tasks), runtime.GOMAXPROCS(0), func(_, i int) {
		if ctx.Err() != nil {
			return
		}
		t := tasks[i]
		group := c.Groups[t.group]
		series, err := group.Cases[t.caseIndex].Draws[t.draw]()
		if err == nil {
			results[t.group][t.caseIndex][t.method][t.draw], err = follow(ctx, c.Methods[t.method], series, group.Truth)
		}
		if err != nil {
			cancel(err)
			return
		}
		if n := int(done.Add(1)); c.Progress != nil {
			c.Progress(n, len(tasks))
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return c.report(results), nil
}

// follow runs one method over one series. It fails if the family is unknown or if ctx ends.
func follow(ctx context.Context, m methods.Method, s Series, truth Truth) (outcome, error) {
	start, err := methods.Begin(s.Family, s.X[:WarmUp])
	if err != nil {
		return outcome{}, err
	}
	start.Period, start.Seed = s.Period, s.Seed
	if m.Hindsight {
		start.Whole = s.X
	}
	f := m.New(start)
	steps := make([]methods.Step, len(s.X))
	runtime.LockOSThread() // processorTime measures this thread
	defer runtime.UnlockOSThread()
	startTime := processorTime()
	for t, x := range s.X {
		if t%256 == 0 && ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		steps[t] = f.Update(x)
	}
	elapsed := processorTime() - startTime
	o := s.score(m, steps, truth)
	o[micros] = float64(elapsed.Nanoseconds()) / 1e3 / float64(len(s.X))
	o[size] = float64(f.Bytes())
	return o, nil
}
