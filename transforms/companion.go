package transforms

import (
	"sync"

	"hafvf/hafvf"
)

// A Companion is a program that runs the nodes in its own process and follows
// them: the embedded runner pushes back on nothing and keeps no state over a
// restart. Fields may be nil. The functions are called by several goroutines.
type Companion struct {
	// Report is told what a bundle did, when it ends.
	Report func(Report)
	// Restore returns the state that a key had in the run before, nil where it had
	// none.
	Restore func(key string) []byte
	// Restored are the states that Restore can return, of which Filter looks for
	// observations that wait for their turn.
	Restored func() map[string][]byte
}

// A Report is what a bundle did.
type Report struct {
	// Taken observations are worked into states; of Filter, Emitted estimates and
	// rejections came of that.
	Taken, Emitted int
	// States are those of the keys that the bundle met.
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

// A Place is where an observation is in the log that it came from.
type Place struct {
	Log string
	Seq int64
}

// Counts are what the nodes count, as Beam metrics and for a Companion.
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

// note counts an estimate.
func (c *Counts) note(e *Estimate) {
	c.Records++
	if e.Missing {
		c.Missing++
	}
	if !e.Converged {
		c.NotConverged++
	}
	if d := e.Detection; d != nil {
		switch d.Kind {
		case hafvf.Outlier:
			c.Outliers++
		case hafvf.Change:
			c.Changes++
		}
	}
}

// accompanied is a companion that is known in this process.
type accompanied struct {
	Companion
	awaken sync.Once
}

var companions sync.Map // of *accompanied by name

// Accompany makes a companion known by name to the nodes that run in this
// process, and returns a function that forgets it.
func Accompany(name string, c Companion) (forget func()) {
	companions.Store(name, &accompanied{Companion: c})
	return func() { companions.Delete(name) }
}

// companionOf returns the companion of that name, one that does nothing where
// there is none.
func companionOf(name string) *accompanied {
	c := &accompanied{}
	if v, ok := companions.Load(name); ok {
		c = v.(*accompanied)
	}
	return c
}

func (c *accompanied) report(r Report) {
	if c.Report != nil {
		c.Report(r)
	}
}

// restore returns a key's state of the run before.
func (c *accompanied) restore(key string) []byte {
	if c.Restore == nil {
		return nil
	}
	return c.Restore(key)
}

// asleep calls f, once per run, with the states of the run before.
func (c *accompanied) asleep(f func(key string, state []byte) error) (err error) {
	c.awaken.Do(func() {
		if c.Restored == nil {
			return
		}
		for key, b := range c.Restored() {
			if err = f(key, b); err != nil {
				return
			}
		}
	})
	return err
}
