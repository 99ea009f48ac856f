package statestore

import (
	"fmt"

	"hafvf/hafvf/keyed"
	"hafvf/internal/compact"
)

// The names of the states that a runner keeps for a cell, as ReadFound takes them.
const HeadState, LogState, SettingsState = "entity", "log", "settings"

// ReadFound decodes what a runner keeps for a cell: by the name of each state its elements, a value
// being one. key is the runner's. It returns the states of the keys of observations in the cell, by
// key. The error says that they are damaged.
func ReadFound(key string, found map[string][][]byte) ([]State, error) {
	s := readOnlyStore{of: found}
	if len(found[HeadState]) == 0 {
		return nil, ErrCell
	}
	c, err := ReadCell(s, key, func(Version) *Cell { return nil })
	if err != nil {
		return nil, err
	}
	if c.Settings == (compact.Fingerprint{}) {
		return c.States(func(string) (s keyed.Settings, text string) { return s, "" }), nil
	}
	written, err := c.ReadSettings(s)
	if err != nil {
		return nil, err
	}
	return c.States(written.In(keyed.Config{}).Settings()), nil
}

// readOnlyStore is a CellStore to read from.
type readOnlyStore struct {
	CellStore // which writes
	of        map[string][][]byte
}

// value is the value of that name, nil if there is none.
func (s readOnlyStore) value(name string) ([]byte, error) {
	switch all := s.of[name]; len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	default:
		return nil, fmt.Errorf("state is corrupt: there are %d values of %s", len(all), name)
	}
}

func (s readOnlyStore) ReadHead() ([]byte, bool, error) {
	head, err := s.value(HeadState)
	return head, head != nil, err
}

func (s readOnlyStore) ReadLog() ([][]byte, error) { return s.of[LogState], nil }

func (s readOnlyStore) ReadSettings() (string, error) {
	text, err := s.value(SettingsState)
	return string(text), err
}
