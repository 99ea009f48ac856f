package transforms

import (
	"fmt"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/stored"
)

// CellStates are the names of the states that Filter keeps for a key of the runner, as
// ReadCell takes them.
var CellStates = []string{headState, logState, settingsState}

const headState, logState, settingsState = "entity", "log", "settings"

// ReadCell decodes what a runner keeps for one key of Filter's: by the names of CellStates,
// the elements of each state, a value being one. It returns the states of the keys of
// observations in it, by key. The error says that they are damaged.
func ReadCell(key string, found map[string][][]byte) ([]stored.State, error) {
	s := storedCell{of: found}
	if len(found[headState]) == 0 {
		return nil, stored.ErrCell
	}
	c, err := stored.ReadCell(s, key, func(stored.Version) *stored.Cell { return nil })
	if err != nil {
		return nil, err
	}
	if c.Settings == (keyed.Fingerprint{}) {
		return c.States(func(string) (s keyed.Settings, text string) { return s, "" }), nil
	}
	written, err := c.ReadSettings(s)
	if err != nil {
		return nil, err
	}
	return c.States(written.In(keyed.Config{}).Settings()), nil
}

// storedCell is a stored.Store to read from.
type storedCell struct {
	stored.Store // which writes
	of           map[string][][]byte
}

// value is the value of that name, nil if there is none.
func (s storedCell) value(name string) ([]byte, error) {
	switch all := s.of[name]; len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	default:
		return nil, fmt.Errorf("state is corrupt: there are %d values of %s", len(all), name)
	}
}

func (s storedCell) ReadHead() ([]byte, bool, error) {
	head, err := s.value(headState)
	return head, head != nil, err
}

func (s storedCell) ReadLog() ([][]byte, error) { return s.of[logState], nil }

func (s storedCell) ReadSettings() (string, error) {
	text, err := s.value(settingsState)
	return string(text), err
}
