package serve

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
)

// The cache of 2,000 keys with 30 values each is limited in bytes, and answers do not depend on it.
func TestStateCacheIsBounded(t *testing.T) {
	expect.Long(t, "2,000 keys")
	settings := Settings{Text: "{model: {family: mvnormal}, detect: true}"}
	for i := range 30 {
		settings.Values = append(settings.Values, fmt.Sprint("v", i))
	}
	c := newClient(t)
	d := c.model(settings)
	rng := rand.New(rand.NewPCG(1, 2))
	ask := func(c client, r request) reply { return c.batch(d, r) }
	batchOf := func(start int, states [][]byte) (r request) {
		r = request{flags: withRecords | withStates, length: 30, horizon: none, now: none}
		for i := range 100 {
			k := keyRequest{key: fmt.Sprint("k", start+i), state: states[start+i], times: []int64{minute(len(states[start+i]))}}
			for range 30 {
				k.values = append(k.values, rng.NormFloat64())
			}
			r.keys = append(r.keys, k)
		}
		return r
	}
	before := heap()
	states := make([][]byte, 2000)
	for start := 0; start < len(states); start += 100 {
		copy(states[start:], ask(c, batchOf(start, states)).states)
	}
	cacheBytes := heap() - before - int64(len(states)*len(states[0]))
	t.Logf("%d bytes per state, %d cached, %d MB", len(states[0]), len(c.models[0].states.recent)+len(c.models[0].states.old), cacheBytes>>20)
	if cacheBytes > 2*maxCacheBytes+16<<20 {
		t.Errorf("the cache has %d MB", cacheBytes>>20)
	}
	cached := c.models[0].states.recent
	if len(cached) < 2 {
		t.Fatalf("%d cached states", len(cached))
	}
	r := batchOf(len(states)-100, states) // the last keys, whose states are cached
	fresh := newClient(t)
	fresh.model(settings)
	expect.Same(t, recordsAndStates(ask(fresh, r)), recordsAndStates(ask(c, r)))
	expect.Same(t, recordsAndStates(ask(fresh, r)), recordsAndStates(ask(c, r)), "the same states again")
}

func recordsAndStates(a reply) []any { return []any{a.records, a.states} }

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Stored states continue as in a plain loop.
func TestGoldenStates(t *testing.T) {
	const dir = "../../../hafvf/keyed/testdata"
	for file, text := range map[string]string{
		"normal_recommended.txt":   "detect: true",
		"binomial_recommended.txt": "{model: {family: binomial, prior: auto}, detect: true}",
		"mvnormal_recommended.txt": "{model: {family: mvnormal, prior: auto}, detect: true}",
	} {
		c := newClient(t)
		values := []string{"x", "y"}
		if strings.HasPrefix(file, "normal") {
			values = values[:1]
		}
		d := c.model(Settings{Text: text, Values: values})
		written := strings.SplitN(string(expect.Get(os.ReadFile(filepath.Join(dir, file)))(t)), "\n", 4)
		state := expect.Get(hex.DecodeString(strings.ReplaceAll(written[3], "\n", "")))(t)
		m := c.models[d.Model]
		if m.cfg.Filter.Family != "mvnormal" { // no config has the settings of testdata: a config sets dim
			m.cfg.Filter.Dim = 0
			for i := range m.estimators {
				m.estimators[i] = expect.Get(keyed.NewEstimator(m.cfg))(t)
			}
		}
		e, err := m.estimators[0].Open("pump/1", state)
		if err != nil {
			t.Errorf("%s: %v\n%s\n%s", file, err, d.Settings, written[0])
			continue
		}
		var want []byte
		k := keyRequest{key: "pump/1", state: sealed(state)}
		for i := range 60 {
			t0 := time.Date(2026, 3, 3, 5, 10*i, 0, 0, time.UTC)
			x := []float64{float64(i % 4), 4}[:len(values)]
			k.times, k.values = append(k.times, t0.UnixNano()), append(k.values, x...)
			o := observation(t0, x)
			for out, err := range e.Estimates(o) {
				expect.OK(t, err)
				want = m.layout.AppendEstimate(want, 0, "pump/1", &out)
			}
		}
		a := c.batch(d, request{flags: withRecords | withStates, length: len(values), horizon: none, now: none, keys: []keyRequest{k}})
		expect.Same(t, string(want), a.records, file)
		after, _ := e.AppendBinary(nil)
		if !slices.Equal(sealed(after), a.states[0]) {
			t.Errorf("%s: the state differs from the state of the loop", file)
		}
	}
}

// sealed returns a state in the form that the caller stores.
func sealed(state []byte) []byte {
	b := append(make([]byte, checksumBytes), state...)
	binary.LittleEndian.PutUint32(b, checksumOf(b))
	return b
}

func observation(ts time.Time, x []float64) keyed.Observation {
	o := keyed.Observation{Time: ts, X: [][]float64{x}}
	if len(x) > 1 {
		o.Shape = keyed.Vector
	}
	return o
}
