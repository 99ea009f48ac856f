package serve

import (
	"bytes"
	"runtime"
	"sync"
	"unsafe"

	"hafvf/hafvf/keyed"
)

// kept are decoded states of the last answers. One is used again if the caller's bytes are those that it was
// encoded to: it counts for nothing but time.
type kept struct {
	sync.Mutex
	young, old map[string]*keptState // old ones are those that were not used since young were none
	bytes      int                   // of young
	least      int                   // bytes of a decoded state, of a key before its first observation
}

type keptState struct {
	state []byte
	e     keyed.KeyState
}

const (
	mostKept = 16 << 20 // bytes of young or old ones
	// decoded is how many times the bytes of its encoding a state has beside those of a new one, or more.
	decoded = 6
)

// leastOf measures the memory of new states.
func leastOf(est *keyed.Estimator) int {
	const n = 16
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if _, err := est.Open("key", nil); err != nil {
			panic(err) // a new state is no wrong one
		}
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc)/n + int(unsafe.Sizeof(keptState{}))
}

func (k *kept) size(s *keptState) int { return decoded*len(s.state) + k.least }

// take removes and returns the state of the key that has these bytes; nil if there is none.
func (k *kept) take(key string, state []byte) *keyed.KeyState {
	k.Lock()
	defer k.Unlock()
	s := k.young[key]
	if s != nil {
		k.bytes -= k.size(s)
		delete(k.young, key)
	} else {
		s = k.old[key]
		delete(k.old, key)
	}
	if s == nil || !bytes.Equal(s.state, state) {
		return nil
	}
	return &s.e
}

func (k *kept) put(key string, state []byte, e keyed.KeyState) {
	if len(state) == 0 {
		return
	}
	s := &keptState{bytes.Clone(state), e}
	k.Lock()
	defer k.Unlock()
	if k.young == nil || k.bytes+k.size(s) > mostKept {
		k.young, k.old, k.bytes = map[string]*keptState{}, k.young, 0
	}
	if was := k.young[key]; was != nil { // of a key that stood twice in a batch
		k.bytes -= k.size(was)
	}
	k.young[key] = s
	k.bytes += k.size(s)
}
