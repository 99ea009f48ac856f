package transforms

import (
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"hafvf/hafvf/keyed"
)

// CellStates are the names of the states that Filter keeps for a key of the runner, as
// ReadCell takes them.
var CellStates = []string{"entity", "log", "settings"}

// ReadCell decodes what a runner keeps for one key of Filter's: by the names of CellStates,
// the elements of each state, a value being one. It returns the states of the keys of
// observations in it, as keyed.Estimator.Snapshot takes them, and the function that gives the
// settings that the state of a key was written with, as keyed.Migrator.Migrate takes them. The
// error says that they are damaged.
func ReadCell(key string, states map[string][][]byte) (entities map[string][]byte, written func(key string) string, err error) {
	if len(states[CellStates[0]]) == 0 {
		return nil, nil, errCell
	}
	head, log, settings := state.MakeValueState[[]byte](CellStates[0]), state.MakeBagState[[]byte](CellStates[1]), state.MakeValueState[[]byte](CellStates[2])
	of, stored := cellState{head: &head, log: &log, settings: &settings}, storedStates{of: states}
	c, err := of.read(stored, key)
	if err != nil {
		return nil, nil, err
	}
	written = func(string) string { return "" }
	if c.settings != (keyed.Fingerprint{}) {
		text, err := of.readSettings(stored, c)
		if err != nil {
			return nil, nil, err
		}
		from, err := keyed.ParseSettings[keyed.AllSettings](text)
		if err != nil {
			return nil, nil, err
		}
		settings := from.In(keyed.Config{}).Settings()
		written = func(key string) string {
			_, text := settings(key)
			return text
		}
	}
	entities = make(map[string][]byte, len(c.at))
	for key := range c.at {
		entities[key] = c.entity(key)
	}
	return entities, written, nil
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
