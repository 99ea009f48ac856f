package transforms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// A job is the node on a runner, one bundle at a time.
type job struct {
	cells map[string]*runner
	rng   *rand.Rand
}

// newJob returns a job without cells, in a process without copies of cells.
func newJob(t testing.TB) *job {
	former := cellCache
	t.Cleanup(func() { cellCache = former })
	clearCache()
	return &job{map[string]*runner{}, rand.New(rand.NewPCG(1, 2))}
}

// bundle passes a bundle of observations, by key, to the node with cfg. Without calls, it reads only the cells of
// these keys. It returns the encoded estimates by key. A bundle that fails does not change the cells.
func (j *job) bundle(t *testing.T, cfg stepConfig, calls bool, in map[string][]keyed.Observation) (map[string][][]byte, error) {
	t.Helper()
	pack, filter := stepsOf(t, cfg)
	type element struct {
		cell  string
		block []byte
	}
	var blocks []element
	send := func(_ beam.EventTime, cell string, block []byte) { blocks = append(blocks, element{cell, block}) }
	refuse := func(b []byte) { t.Errorf("rejected: %q", b) }
	pack.StartBundle(send, refuse)
	for key, observations := range in {
		for _, o := range observations {
			pack.ProcessElement(t.Context(), Given{key, o}, send, refuse)
		}
	}
	pack.flush(send)
	if calls {
		pack.FinishBundle(t.Context(), send, refuse)
	}

	before := map[string]runner{}
	for _, b := range blocks {
		if j.cells[b.cell] == nil {
			j.cells[b.cell] = &runner{rng: rand.New(rand.NewPCG(j.rng.Uint64(), 1))} // cells are read concurrently
		}
		before[b.cell] = *j.cells[b.cell]
	}
	out := map[string][][]byte{}
	emit := func(b []byte) {
		err := unpack(b, func(key string, e keyed.Estimate) { out[key] = append(out[key], bytesOf(e)) })
		if err != nil {
			t.Error(err)
		}
	}
	reject := func(r keyed.Rejected) { t.Errorf("rejected: %+v", r) }
	filter.StartBundle(emit, nil, reject)
	var err error
	for _, b := range blocks {
		if err = filter.ProcessElement(t.Context(), j.cells[b.cell], nil, b.cell, b.block, emit, nil, reject); err != nil {
			break
		}
	}
	if err == nil {
		err = filter.FinishBundle(t.Context(), emit, nil, reject)
	}
	if err != nil {
		for cell, r := range before {
			*j.cells[cell] = r
		}
	}
	return out, err
}

// stepsOf returns the steps of a filter that emits objects, after Setup.
func stepsOf(t testing.TB, cfg stepConfig) (*packFn, *encodeFn) {
	text, err := json.Marshal(cfg)
	encoder, cells := Registered{Name: objects}, statesOfCells()
	pack := &packFn{Config: string(text), Decoder: Registered{observed, "given"}}
	filter := &encodeFn{Config: string(text), Encoder: encoder, State: *cells.head, Log: *cells.log, Settings: *cells.settings}
	expect.OK(t, errors.Join(err, pack.Setup(t.Context()), filter.Setup(t.Context())))
	return pack, filter
}

func bytesOf(e keyed.Estimate) []byte {
	b, _ := e.AppendBinary(nil)
	return b
}

// jumping returns 200 observations with a change at 100.
func jumping() (observations []keyed.Observation) {
	rng := rand.New(rand.NewPCG(1, 3))
	for i := range 200 {
		observations = append(observations, keyed.Value(time.Unix(int64(i), 0).UTC(), "id", rng.NormFloat64()+8*float64(i/100)))
	}
	return observations
}

// clearCache drops this process's copies of cells.
func clearCache() { cellCache = newCache(1 << 30) }

// cellsWithOtherSettings returns the names of the cells whose settings are not those of cfg.
func (j *job) cellsWithOtherSettings(cfg stepConfig) (names []string) {
	fingerprint := compact.FingerprintOf(cfg.Config.AllSettings().String())
	for name, r := range j.cells {
		if head := r.value.([]byte); compact.Fingerprint(head[1:9]) != fingerprint {
			names = append(names, name)
		}
	}
	return names
}

// A loop is the plain loop over the observations of one key.
type loop struct{ state []byte }

func (l *loop) learn(t *testing.T, cfg stepConfig, key string, in []keyed.Observation) (out [][]byte) {
	t.Helper()
	est, err := keyed.NewEstimator(cfg.Config)
	expect.OK(t, err)
	track := est.NewTrack(key)
	if l.state != nil {
		if track, err = est.RestoreTrack(key, l.state); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range in {
		out = append(out, bytesOf(est.Estimate(track, o)))
	}
	l.state, _ = track.AppendBinary(nil)
	return out
}

func (l *loop) migrate(t *testing.T, prev, next stepConfig, key string) {
	t.Helper()
	m, err := keyed.NewMigrator(next.Config)
	expect.OK(t, err)
	_, written := prev.Settings()(key)
	if l.state, _, err = m.Migrate(key, l.state, written); err != nil {
		t.Fatal(err)
	}
}

var threeCells = []string{"0", "1", "2"}

// changed has three configs. Each has a rule for some keys.
var changed = func() (configs [3]stepConfig) {
	for i, levels := range [][]hafvf.Beta{{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, {{Alpha: 2, Beta: 1}, {Alpha: 1, Beta: 1}}, {}} {
		rule := hafvf.Config{Family: "normal", Prior: expfam.Params{"kappa": float64(1 + i)}, Member: &hafvf.Member{Top: .9}}
		configs[i] = stepConfig{Config: keyed.Config{
			Filter: hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: levels, Top: .8}, Bank: nil},
			Keys:   []keyed.Rule{{Match: fmt.Sprintf("k*%d", i), Filter: rule}},
		}, Host: Host{Cells: threeCells}}
	}
	return configs
}()

// Cells that were written with one config, and some of them later with a second one, continue with a third config
// like a plain loop over each key whose states a Migrator has migrated. A change of the config that does not concern
// the stored states, such as a rule for other keys, does not need Migrate.
func TestMigrateCells(t *testing.T) {
	for _, n := range []int{12, 300} { // cells that are rewritten as a whole, and cells with logs
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d keys, restarts %t", n, restarts), func(t *testing.T) {
				j, in, loops := newJob(t), jumping(), map[string]*loop{}
				nextWorker := func() {
					if restarts {
						clearCache()
					}
				}
				// bundle passes part of the observations of some keys, and compares the estimates with the loops.
				bundle := func(cfg stepConfig, calls bool, start, end int, keys ...string) {
					t.Helper()
					nextWorker()
					part := map[string][]keyed.Observation{}
					for _, key := range keys {
						part[key] = in[start:end]
					}
					got := expect.Get(j.bundle(t, cfg, calls, part))(t)
					for _, key := range keys {
						if !slices.EqualFunc(got[key], loops[key].learn(t, cfg, key, part[key]), bytes.Equal) {
							t.Errorf("from %d, key %s: estimates differ from the loop", start, key)
						}
					}
				}
				for i := range n {
					loops[fmt.Sprint("k", i)] = &loop{}
				}
				keys := slices.Sorted(maps.Keys(loops))
				bundle(changed[0], true, 0, 60, keys...)
				if logged := j.cells["0"].bag != nil; logged != (n > 12) {
					t.Fatalf("a log: %t", logged)
				}
				nextWorker()
				_, err := j.bundle(t, changed[1], true, map[string][]keyed.Observation{"k5": in[60:70]})
				if !errors.Is(err, keyed.ErrOtherConfig) || !strings.Contains(err.Error(), "Member.Levels") {
					t.Fatalf("without Migrate: %v", err)
				}
				expect.Same(t, 0, len(j.cellsWithOtherSettings(changed[0])), "cells that have changed")

				written := map[string]stepConfig{"0": changed[0], "1": changed[0], "2": changed[0]} // by cell
				migrated := []string{statestore.CellName("k5", threeCells)}
				for i, cells := range [][]string{migrated, threeCells} {
					cfg := changed[i+1]
					cfg.Migrate, cfg.Resumed = true, true
					for _, key := range keys {
						if cell := statestore.CellName(key, threeCells); slices.Contains(cells, cell) {
							loops[key].migrate(t, written[cell], cfg, key)
						}
					}
					for _, cell := range cells {
						written[cell] = changed[i+1]
					}
					bundle(cfg, i == 1, 60+10*i, 70+10*i, "k5")
					expect.Same(t, 3-len(cells), len(j.cellsWithOtherSettings(cfg)), "cells that are not migrated")
				}
				ruled := changed[2]
				ruled.Keys = append(slices.Clone(ruled.Keys), keyed.Rule{Match: "other-*", Filter: hafvf.Config{Family: "normal"}})
				bundle(ruled, true, 80, 120, keys...)
				expect.Same(t, 0, len(j.cellsWithOtherSettings(ruled)), "cells without the rule for other keys")
			})
		}
	}
}

// A resumed job reads all cells before the first observation, and counts their keys once.
func TestResumedKeysAreCounted(t *testing.T) {
	j, first := newJob(t), map[string][]keyed.Observation{}
	for i := range 12 {
		first[fmt.Sprint("k", i)] = jumping()[:20]
	}
	expect.Get(j.bundle(t, changed[0], true, first))(t)
	next := changed[2]
	next.Keys = []keyed.Rule{{Match: "k1*", Filter: hafvf.Config{Family: "normal", WarmUp: 8}}} // the states of k1, k10 and k11 are dropped
	next.Migrate, next.Resumed = true, true
	pack, filter := stepsOf(t, next)
	for _, want := range []map[string]int64{{ResumedCells: 3, KeptKeys: 9, LostKeys: 3, migratedKeys: 12}, {}} {
		pack.StartBundle(nil, nil)
		filter.StartBundle(nil, nil, nil)
		pack.FinishBundle(t.Context(), func(_ beam.EventTime, cell string, block []byte) {
			expect.OK(t, filter.ProcessElement(t.Context(), j.cells[cell], nil, cell, block, nil, nil, nil))
		}, nil)
		expect.OK(t, filter.read())
		expect.Same(t, want, filter.resumed.bundle)
		expect.OK(t, filter.FinishBundle(t.Context(), nil, nil, nil))
		pack.cellsCalled = false // like another instance of the step
	}
}

// A savepoint of a newer version of this program is refused, and no key of it is reset: its cells, or the states of
// their keys, have a format number one higher.
func TestCellsOfANewerVersion(t *testing.T) {
	in := map[string][]keyed.Observation{"k5": jumping()[:10]}
	for name, raise := range map[string]func(t *testing.T, r *runner){
		"cell": func(t *testing.T, r *runner) { r.value.([]byte)[0]++ },
		"state": func(t *testing.T, r *runner) {
			states := statesOfCells()
			c := expect.Get(states.read(r, ""))(t)
			var entries []*openKey
			for key, b := range c.All() {
				b = slices.Clone(b)
				b[0]++
				entries = append(entries, &openKey{key: key, state: b})
			}
			expect.OK(t, states.write(r, c, "", entries))
		},
	} {
		j := newJob(t)
		expect.Get(j.bundle(t, changed[0], true, in))(t)
		for _, r := range j.cells {
			raise(t, r)
		}
		clearCache()
		if _, err := j.bundle(t, changed[0], true, in); !errors.Is(err, keyed.ErrNewer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If the stored settings are not those of the head, the job fails, and does not use other settings instead.
func TestCellLacksSettings(t *testing.T) {
	j, in := newJob(t), map[string][]keyed.Observation{"k5": jumping()[:10]}
	expect.Get(j.bundle(t, changed[0], true, in))(t)
	other := changed[1]
	other.Migrate = true
	for _, text := range []any{nil, []byte(changed[2].Config.AllSettings().String())} {
		for _, r := range j.cells {
			r.settings = text
		}
		if _, err := j.bundle(t, other, true, in); !errors.Is(err, statestore.ErrSettings) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
