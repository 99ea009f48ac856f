// Package account connects the nodes of package transforms with the program that
// runs them in its own process. The embedded runner neither holds a source back
// nor keeps state over a restart: the program counts what is in flight, stores the
// states, and hands them out again.
package account

import "sync"

// An Account is the program's side. Fields may be nil. The functions are called by
// several goroutines.
type Account struct {
	// Report is called at the end of every bundle.
	Report func(Report)
	// Restore returns the state that a key had in the previous run, nil where it
	// had none.
	Restore func(key string) []byte
	// Restored returns all states that Restore can return. The timers of waiting
	// observations are restored from these.
	Restored func() map[string][]byte
}

// A Report is what a bundle did.
type Report struct {
	// Taken is the number of observations that the states now include, and Emitted
	// that of the estimates and rejections that the bundle put out.
	Taken, Emitted int
	// States are those of the keys in the bundle.
	States []KeyState
	Counts Counts
}

// A KeyState is the state of a key, encoded.
type KeyState struct {
	Key   string
	State []byte
	// Waiting are the places of observations that wait in the state.
	Waiting []Place
}

// A Place is the position of an observation in the log that it came from.
type Place struct {
	Log string
	Seq int64
}

// Counts are what the nodes count, also as Beam metrics.
type Counts struct {
	Records, Rejected, Late, Missing, NotConverged, Keys, Sessions, Changes, Outliers int64
}

// Add adds the counts of o.
func (c *Counts) Add(o Counts) {
	c.Records += o.Records
	c.Rejected += o.Rejected
	c.Late += o.Late
	c.Missing += o.Missing
	c.NotConverged += o.NotConverged
	c.Keys += o.Keys
	c.Sessions += o.Sessions
	c.Changes += o.Changes
	c.Outliers += o.Outliers
}

var accounts sync.Map // of *Handle by name

// Open makes an account known by name to the nodes that run in this process, and
// returns a function that closes it.
func Open(name string, a Account) (closeAccount func()) {
	accounts.Store(name, &Handle{account: a})
	return func() { accounts.Delete(name) }
}

// A Handle is the nodes' side of an account.
type Handle struct {
	account Account
	timers  sync.Once
}

// Of returns the account of that name, or one that does nothing where there is
// none.
func Of(name string) *Handle {
	if v, ok := accounts.Load(name); ok {
		return v.(*Handle)
	}
	return &Handle{}
}

// Report reports what a bundle did.
func (h *Handle) Report(r Report) {
	if h.account.Report != nil {
		h.account.Report(r)
	}
}

// Restore returns the state that a key had in the previous run, or nil.
func (h *Handle) Restore(key string) []byte {
	if h.account.Restore == nil {
		return nil
	}
	return h.account.Restore(key)
}

// RestoreTimers calls f with every state of the previous run, once per account and
// up to the first error.
func (h *Handle) RestoreTimers(f func(key string, state []byte) error) (err error) {
	h.timers.Do(func() {
		if h.account.Restored == nil {
			return
		}
		for key, b := range h.account.Restored() {
			if err = f(key, b); err != nil {
				return
			}
		}
	})
	return err
}
