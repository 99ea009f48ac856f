package connectors

import (
	"context"
	"errors"
	"sync"
)

// A Gate holds back a source on the embedded runner, which keeps whatever it is
// given in memory and pushes back on nothing. The source adds what it emitted,
// whoever takes records up downstream reports them done, and the source begins
// to hand over a bundle only when the one before it is done. A bundle becomes
// visible downstream only when it ends, so that at most two bundles are in
// memory, one being read and one being worked on, and no record of a bundle
// overtakes one of an earlier bundle.
//
// The source and its consumers find each other by the gate's name and have to
// live in one process.
type Gate struct {
	name string

	mu   sync.Mutex
	n    int
	idle chan struct{} // closed while n ≤ 0

	stop, closed func()
	stopped      <-chan struct{}
	gone         <-chan struct{}
}

var gates sync.Map // of *Gate by name

// NewGate registers a gate. It panics if there is one of this name already.
func NewGate(name string) *Gate {
	g := &Gate{name: name, idle: make(chan struct{})}
	close(g.idle)
	g.stop, g.stopped = latch()
	g.closed, g.gone = latch()
	if _, taken := gates.LoadOrStore(name, g); taken {
		panic("connectors: gate " + name + " exists already")
	}
	return g
}

// latch returns a channel and a function that closes it, once.
func latch() (send func(), received <-chan struct{}) {
	c := make(chan struct{})
	return sync.OnceFunc(func() { close(c) }), c
}

// gateOf returns the gate of that name, nil if there is none.
func gateOf(name string) *Gate {
	g, _ := gates.Load(name)
	gate, _ := g.(*Gate)
	return gate
}

// Close forgets the gate; a source that waits for it fails.
func (g *Gate) Close() {
	gates.CompareAndDelete(g.name, g)
	g.closed()
}

// Add counts n records as in flight, or −n as dealt with. A DoFn that deals with
// records calls it from FinishBundle, not while it processes elements: it may run in
// the source's own bundle, the records of which are added only when the source's
// part of it is over.
func (g *Gate) Add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.n
	g.n += n
	switch {
	case was <= 0 && g.n > 0:
		g.idle = make(chan struct{})
	case was > 0 && g.n <= 0:
		close(g.idle)
	}
}

var errGateClosed = errors.New("the run is over: its gate is closed")

// Wait returns when no record is in flight, with ctx's error when that ends
// first, or with an error when the gate is closed.
func (g *Gate) Wait(ctx context.Context) error {
	idle := g.Idle()
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-g.gone:
		return errGateClosed
	}
}

// Idle is closed while no record is in flight; ask anew after it was not.
func (g *Gate) Idle() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.idle
}

// Stopped is closed when Stop was called.
func (g *Gate) Stopped() <-chan struct{} { return g.stopped }

// Stop makes the source end at its next record as if its input ended there:
// what it has emitted is worked on to the end. Only a source on this gate is
// stopped.
func (g *Gate) Stop() { g.stop() }
