package serve

import (
	"bytes"
	"maps"
	"sync"

	"hafvf/hafvf/keyed"
)

// A stateCache stores decoded states of recent answers of all models. A state is used again if the caller sends the
// bytes that it was encoded to. The cache saves time and changes no result. Its two generations hold maxCacheBytes each:
// when recent is full, it replaces old.
type stateCache struct {
	sync.Mutex
	recent, old map[cacheKey]*cachedState
	bytes       int // estimated size of recent
}

type cacheKey struct {
	*model
	key string
}

type cachedState struct {
	encoded []byte
	e       keyed.KeyState
}

const maxCacheBytes = 16 << 20

// take removes and returns the state of the key if it was encoded to these bytes; nil if there is none.
func (c *stateCache) take(m *model, key string, encoded []byte) *keyed.KeyState {
	c.Lock()
	defer c.Unlock()
	for _, states := range []map[cacheKey]*cachedState{c.recent, c.old} {
		if s := states[cacheKey{m, key}]; s != nil && bytes.Equal(s.encoded, encoded) {
			delete(states, cacheKey{m, key})
			return &s.e
		}
	}
	return nil
}

func (c *stateCache) put(m *model, key string, encoded []byte, e keyed.KeyState) {
	if len(encoded) == 0 {
		return
	}
	c.Lock()
	defer c.Unlock()
	size := m.stateBytes + 6*len(encoded) // with its warm-up a decoded state is larger than later
	if c.bytes += size; c.recent == nil || c.bytes > maxCacheBytes {
		c.recent, c.old, c.bytes = map[cacheKey]*cachedState{}, c.recent, size
	}
	c.recent[cacheKey{m, key}] = &cachedState{bytes.Clone(encoded), e}
}

// drop removes the states of a model.
func (c *stateCache) drop(m *model) {
	c.Lock()
	defer c.Unlock()
	of := func(k cacheKey, _ *cachedState) bool { return k.model == m }
	maps.DeleteFunc(c.recent, of)
	maps.DeleteFunc(c.old, of)
}
