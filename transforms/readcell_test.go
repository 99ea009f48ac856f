package transforms

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

// stored is what the runner keeps, as ReadCell takes it.
func (r *runner) stored() map[string][][]byte {
	all := map[string][][]byte{"entity": {r.value.([]byte)}, "settings": {r.settings.([]byte)}}
	for _, b := range r.bag {
		all["log"] = append(all["log"], b.([]byte))
	}
	return all
}

// ReadCell gives what the cell holds, of one that is rewritten whole and of a log.
func TestReadCell(t *testing.T) {
	defer func(all *cache) { cellCache = all }(cellCache)
	for _, keys := range []int{1, 20, 400} {
		r, of := &runner{rng: rand.New(rand.NewPCG(3, 4))}, statesOfCells()
		want := map[string][]byte{}
		for bundle := range 6 {
			c := expect.Get(of.read(r, ""))(t)
			var changed []*openKey
			for k := bundle % 2; k < keys; k += 2 {
				e := &openKey{key: fmt.Sprint(k), state: fmt.Appendf(nil, "state %d of %d", bundle, k)}
				changed = append(changed, e)
				want[e.key] = e.state
			}
			expect.OK(t, of.write(r, c, "", changed))
		}
		cellCache = newCache(0) // the log is read
		got := expect.Get(entities(statestore.ReadFound("", r.stored())))(t)
		expect.Same(t, want, got)
		if logged := len(r.bag) > 0; logged != (keys == 400) {
			t.Errorf("%d keys are a log: %v", keys, logged)
		}
	}
}

func entities(all []statestore.State, err error) (map[string][]byte, error) {
	of := map[string][]byte{}
	for _, s := range all {
		of[s.Key] = s.Bytes
	}
	return of, err
}

// A state that keys do not share is that of its key.
func TestReadCellOfOneKey(t *testing.T) {
	got := expect.Get(entities(statestore.ReadFound("pump", map[string][][]byte{"entity": {{1, 2, 3}}})))(t)
	expect.Same(t, map[string][]byte{"pump": {1, 2, 3}}, got)
}

func TestReadCellRefuses(t *testing.T) {
	settings := append([]byte{5}, make([]byte, len(compact.Fingerprint{}))...)
	whole := append(slices.Clone(settings), 2, 3, 'a')
	head := append(append(slices.Clone(settings), 3), make([]byte, len(statestore.Version{}))...)
	for _, test := range []struct {
		states map[string][][]byte
		want   string
	}{
		{map[string][][]byte{"log": {{0}}}, statestore.ErrCell.Error()},
		{map[string][][]byte{"entity": {whole}}, statestore.ErrCell.Error()},
		{map[string][][]byte{"entity": {settings}}, statestore.ErrCell.Error()},
		{map[string][][]byte{"entity": {{2, 1, 'a', 1, 'b'}}}, statestore.ErrFormat.Error()},
		{map[string][][]byte{"entity": {head, head}}, "there are 2 values of entity"},
		{map[string][][]byte{"entity": {head}}, statestore.ErrPieces.Error()},
		{map[string][][]byte{"entity": {head}, "log": {{0}, {2}}}, statestore.ErrPieces.Error()},
	} {
		if all, err := statestore.ReadFound("pump", test.states); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, %v\nwant %s", all, err, test.want)
		}
	}
}
