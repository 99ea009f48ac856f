package statestore

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A Memory finds restored and put states, and distinguishes them.
func TestMemory(t *testing.T) {
	m := NewMemory()
	want := map[string]string{}
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		m.Restore(key, fmt.Append(nil, "state ", i))
		want[key] = fmt.Sprint("state ", i)
	}
	m.Restore(FleetKey, []byte("fleet"))
	m.Restore(QuietKey, []byte("quiet"))
	m.Put(QuietKey, nil)
	for i := range 100 {
		key := fmt.Sprint("key", i*7)
		c := m.Cell(CellName(key, m.names))
		if !c.Marked(key) {
			t.Errorf("%s counts as put in this run", key)
		}
		c.Put(key, []byte("again"))
		want[key] = "again"
		if c.Marked(key) {
			t.Errorf("%s does not count as put in this run", key)
		}
	}
	got := map[string]string{}
	for key, b := range m.All() {
		got[key] = string(b)
	}
	if d := cmp.Diff(want, got); d != "" || m.Len() != len(want) || string(m.Reserved[FleetKey]) != "fleet" || len(m.Reserved) != 1 {
		t.Error(d)
	}
}
