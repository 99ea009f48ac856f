package serve

import (
	"bytes"
	"sync"

	"hafvf/hafvf/keyed"
)

// kept are decoded states of the last answers. One is used again if the caller's bytes are those that it was
// encoded to: it counts for nothing but time.
type kept struct {
	sync.Mutex
	young, old map[string]*keptState // old ones are those that were not used since young were none
	bytes      int                   // of young, about
	least      int                   // of each, beside what goes by the bytes of its encoding
}

type keptState struct {
	state []byte
	e     keyed.KeyState
}

const mostKept = 16 << 20 // bytes of young or old ones

// take removes and returns the state of the key that has these bytes; nil if there is none.
func (k *kept) take(key string, state []byte) *keyed.KeyState {
	k.Lock()
	defer k.Unlock()
	for _, all := range []map[string]*keptState{k.young, k.old} {
		if s := all[key]; s != nil && bytes.Equal(s.state, state) {
			delete(all, key)
			return &s.e
		}
	}
	return nil
}

func (k *kept) put(key string, state []byte, e keyed.KeyState) {
	if len(state) == 0 {
		return
	}
	k.Lock()
	defer k.Unlock()
	size := k.least + 6*len(state) // with its warm-up a decoded state is larger than later
	if k.bytes += size; k.young == nil || k.bytes > mostKept {
		k.young, k.old, k.bytes = map[string]*keptState{}, k.young, size
	}
	k.young[key] = &keptState{bytes.Clone(state), e}
}
