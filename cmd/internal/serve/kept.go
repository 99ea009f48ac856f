package serve

import (
	"bytes"

	"hafvf/hafvf/keyed"
)

// kept are decoded states of the last answers. One is used again if the caller's bytes are those that it was
// encoded to: it counts for nothing but time.
type kept struct {
	young, old map[string]*keptState // old ones are those that were not used since young were none
	bytes      int                   // of young
}

type keptState struct {
	state []byte
	e     keyed.KeyState
}

const (
	mostKept = 16 << 20 // bytes of young or old ones
	// A state that is decoded has so many times the bytes that it is encoded to, and so many more.
	decodedTimes, decodedMore = 6, 2 << 10
)

func (k *keptState) size() int { return decodedTimes*len(k.state) + decodedMore }

// take removes and returns the state of the key that has these bytes; nil if there is none.
func (k *kept) take(key string, state []byte) *keyed.KeyState {
	s := k.young[key]
	if s != nil {
		k.bytes -= s.size()
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
	if k.young == nil || k.bytes+s.size() > mostKept {
		k.young, k.old, k.bytes = map[string]*keptState{}, k.young, 0
	}
	if was := k.young[key]; was != nil { // of a key that stood twice in a batch
		k.bytes -= was.size()
	}
	k.young[key] = s
	k.bytes += s.size()
}
