// Package compare follows streams and series with several methods, and scores what they
// predict, estimate and detect, and what they cost.
package compare

import (
	"context"
	"runtime"
	"sync/atomic"

	"hafvf/cmd/hafvf-lab/compare/methods"
	"hafvf/internal/parallel"
)

// WarmUp is the number of first observations of a stream that give the methods its units.
// They are learned, and not scored.
const WarmUp = 50

// A Comparison is cases and the methods that are to follow them.
type Comparison struct {
	Methods []methods.Method
	Groups  []Group
	// Progress, if set, is called after each run of a method over a stream, by several
	// goroutines.
	Progress func(done, of int)
}

// A Group is cases that are summed up together.
type Group struct {
	Name  string
	Truth Truth
	Cases []Case
}

// Truth is what is known of the cases of a group.
type Truth int

// What may be known.
const (
	Unknown  Truth = iota // nothing
	Windows               // stretches in which something happened
	Complete              // changes, and the mean of every observation
)

// A Case is a kind of stream, with one draw for each seed, or a single series.
type Case struct {
	Name  string
	Short string // for the head of a column; empty: Name
	Draws []func() (Series, error)
}

// A Series is values in the order of time.
type Series struct {
	Family string
	X      []float64
	Period int // observations after which the values may recur; 1 where none is known
	Seed   uint64

	Mean    []float64 // true ones of the distribution
	Changes []int     // first observations of new regimes, from 0
	Windows [][2]int  // first and last observations in them
}

// Run follows all cases with all methods, on all processors. An error is of a series, or
// that of ctx when it ends before.
func (c Comparison) Run(ctx context.Context) (*Report, error) {
	type task struct{ group, at, draw, method int }
	var tasks []task
	results := make([][][][]outcome, len(c.Groups)) // by group, case, method, draw
	for g, group := range c.Groups {
		results[g] = make([][][]outcome, len(group.Cases))
		for at, one := range group.Cases {
			results[g][at] = make([][]outcome, len(c.Methods))
			for m := range c.Methods {
				results[g][at][m] = make([]outcome, len(one.Draws))
			}
			for draw := range one.Draws {
				for m := range c.Methods {
					tasks = append(tasks, task{g, at, draw, m})
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
		series, err := group.Cases[t.at].Draws[t.draw]()
		if err == nil {
			results[t.group][t.at][t.method][t.draw], err = follow(ctx, c.Methods[t.method], series, group.Truth)
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

// follow runs one method over one series.
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
	runtime.LockOSThread() // whose time is measured
	defer runtime.UnlockOSThread()
	began := processorTime()
	for t, x := range s.X {
		if t%256 == 0 && ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		steps[t] = f.Update(x)
	}
	took := processorTime() - began
	o := s.score(m, steps, truth)
	o[micros] = float64(took.Nanoseconds()) / 1e3 / float64(len(s.X))
	o[size] = float64(f.Bytes())
	return o, nil
}
