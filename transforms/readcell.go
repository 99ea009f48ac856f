package transforms

import (
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"hafvf/hafvf/keyed"
	"hafvf/internal/states"
)

// CellStates are the names of the states that Filter keeps for a key of the runner, as
// ReadCell takes them.
var CellStates = []string{"entity", "log", "settings"}

// ReadCell decodes what a runner keeps for one key of Filter's: by the names of CellStates,
// the elements of each state, a value being one. It returns the states of the keys of
// observations in it, by key. The error says that they are damaged.
func ReadCell(key string, stored map[string][][]byte) ([]states.State, error) {
	if len(stored[CellStates[0]]) == 0 {
		return nil, errCell
	}
	head, log, text := state.MakeValueState[[]byte](CellStates[0]), state.MakeBagState[[]byte](CellStates[1]), state.MakeValueState[[]byte](CellStates[2])
	of, provider := cellState{head: &head, log: &log, settings: &text}, storedStates{of: stored}
	c, err := of.read(provider, key)
	if err != nil {
		return nil, err
	}
	if c.settings == (keyed.Fingerprint{}) {
		return c.states(func(string) (s keyed.Settings, text string) { return s, "" }), nil
	}
	written, err := of.readSettings(provider, c)
	if err != nil {
		return nil, err
	}
	return c.states(written.In(keyed.Config{}).Settings()), nil
}

// storedStates gives the states of a key as a runner does.
type storedStates struct {
	state.Provider // what else a runner can do, which reading a cell does not need
	of             map[string][][]byte
}

func (s storedStates) ReadValueState(name string) (any, []state.Transaction, error) {
	switch all := s.of[name]; len(all) {
	case 0:
		return nil, nil, nil
	case 1:
		return all[0], nil, nil
	default:
		return nil, nil, fmt.Errorf("state is corrupt: there are %d values of %s", len(all), name)
	}
}

func (s storedStates) ReadBagState(name string) ([]any, []state.Transaction, error) {
	all := make([]any, len(s.of[name]))
	for i, b := range s.of[name] {
		all[i] = b
	}
	return all, nil, nil
}
