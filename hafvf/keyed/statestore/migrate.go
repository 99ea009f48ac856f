package statestore

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
)

// Migrated is what becomes of stored states under a configuration.
type Migrated struct {
	// Changed is the number of keys whose states are others than those stored.
	Changed int
	// Included are the last observations that the states include, by log.
	Included map[string]int64
	// Reset is the number of keys of whose states a part, or all, begins anew, and Lost are those of
	// whose states nothing is kept, with Leave.
	Reset int
	Lost  []string
	// Damaged are the states that cannot be read. Err says why. Their keys begin anew.
	Damaged []State

	outcomes map[string]int // the number of keys, by what is carried over
}

// MismatchError is the error for a state of another configuration.
type MismatchError struct {
	Key string
	Err error
}

func (m *MismatchError) Error() string {
	return fmt.Sprintf("at the key %s: %v", message.Quote(m.Key), m.Err)
}

func (m *MismatchError) Unwrap() error { return m.Err }

// A Policy says what becomes of states that were written under other settings.
type Policy int

// The migrations: such a state is refused; or it is carried over as far as it means the same, and if
// nothing does it is refused, or left out.
const (
	Refuse Policy = iota
	Carry
	Leave
)

// unchanged is the outcome of a state that fits the configuration.
const unchanged = "unchanged"

// Migrate looks at stored states for runs of cfg, one after the other, and gives each to keep: those
// that go on as keyed.Estimator.Open takes them, and those that cannot be read with Err. States that were
// written under other settings are dealt with as migrate says. The error for such a state is a
// *MismatchError with Refuse, and says why nothing of it is kept with Carry. where names the place of the
// states in errors.
//
// Of the states with the settings of cfg, Migrate decodes the first alone. Another one that cannot
// be decoded, although its seal is whole, shows when its key speaks.
func Migrate(cfg keyed.Config, all iter.Seq[State], migrate Policy, where string, keep func(s State, changed bool)) (Migrated, error) {
	a := Migrated{Included: map[string]int64{}, outcomes: map[string]int{}}
	migrator, err := keyed.NewMigrator(cfg)
	if err != nil {
		return a, err
	}
	n, first := 0, ""
	decoded := map[string]bool{} // the first state with these settings
	for s := range all {
		if n++; n == 1 {
			first = s.Key
		}
		if errors.Is(s.Err, keyed.ErrNewer) {
			return a, newerState(s.Key, where, s.Err)
		}
		if s.Err != nil {
			a.Damaged = append(a.Damaged, s)
		}
		if s.Err != nil || Reserved(s.Key) {
			keep(s, false)
			continue
		}
		changed := false
		var included []keyed.Offset
		if fits := decoded[s.Settings] && migrator.Fits(s.Key, s.Settings); fits {
			a.outcomes[unchanged]++
			included, err = keyed.StateBytes(s.Bytes).IncludedOffsets()
		} else {
			decoded[s.Settings] = true
			if changed, err = a.carry(migrator, &s, migrate, where); err != nil {
				return a, err
			}
			if s.Bytes == nil {
				continue
			}
			included, err = migrator.Check(s.Key, s.Bytes, s.Settings)
		}
		for _, p := range included {
			if at, ok := a.Included[p.Log]; !ok || p.Seq > at {
				a.Included[p.Log] = p.Seq
			}
		}
		switch {
		case errors.Is(err, keyed.ErrOtherConfig):
			return a, &MismatchError{s.Key, err}
		case errors.Is(err, keyed.ErrNewer):
			return a, newerState(s.Key, where, err)
		case err != nil:
			s.Err = err
			a.Damaged = append(a.Damaged, s)
			keep(s, false)
		default:
			keep(s, changed)
		}
	}
	if len(a.Damaged) > 0 && len(a.Damaged) == n && errors.Is(a.Damaged[0].Err, errOtherKey) {
		return a, fmt.Errorf("no state in %s can be read; the first one, of the key %s: %w; restore the states, or start without: remove the file, or begin anew with --begin-anew", where, message.Quote(first), a.Damaged[0].Err)
	}
	return a, nil
}

func newerState(key, where string, err error) error {
	return fmt.Errorf("the state of the key %s in %s cannot be read: %w", message.Quote(key), where, err)
}

// carry carries a state over, unless it is to be refused, and reports whether that changes it. One that
// is left out has no Bytes then.
func (a *Migrated) carry(m *keyed.Migrator, s *State, migrate Policy, where string) (changed bool, err error) {
	if migrate == Refuse {
		return false, nil
	}
	b, parts, err := m.Migrate(s.Key, s.Bytes, s.Settings)
	if migrate == Leave && errors.Is(err, keyed.ErrOtherConfig) {
		a.Changed++
		a.Reset++
		a.Lost = append(a.Lost, s.Key)
		why, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), keyed.ErrOtherConfig.Error()+": "), ", and")
		a.outcomes["nothing kept, "+why]++
		s.Bytes = nil
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("the state of the key %s in %s cannot be carried over: %w", message.Quote(s.Key), where, err)
	}
	if len(parts.Reset) > 0 {
		a.Reset++
	}
	s.Bytes = b
	carried := parts.String()
	if carried != "" {
		a.Changed++
		s.Settings = "" // are those of cfg now
	}
	a.outcomes[cmp.Or(carried, unchanged)]++
	return carried != "", nil
}

// ResetDamaged returns, by key, why the damaged states cannot be read, and says so in the log. where
// names the place of the states.
func (a Migrated) ResetDamaged(where string, log *slog.Logger) map[string]error {
	const named = 10
	why := map[string]error{}
	for i, s := range a.Damaged {
		why[s.Key] = s.Err
		if i < named {
			log.Warn("a state cannot be read: its key begins anew when it speaks", "in", cmp.Or(s.Place, where), "key", s.Key, "reason", s.Err)
		}
	}
	if n := len(a.Damaged) - named; n > 0 {
		log.Warn("and other states cannot be read", "in", where, "states", n)
	}
	return why
}

// String says how many keys have which outcome of a migration, the most frequent one first.
func (a Migrated) String() string {
	var text []string
	for _, outcome := range slices.SortedFunc(maps.Keys(a.outcomes), func(x, y string) int {
		return cmp.Or(cmp.Compare(a.outcomes[y], a.outcomes[x]), strings.Compare(x, y))
	}) {
		text = append(text, message.Count(a.outcomes[outcome], "key", "keys")+": "+outcome)
	}
	return cmp.Or(strings.Join(text, " | "), "there are none")
}
