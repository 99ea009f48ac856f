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

// Migrated is the result of Migrate.
type Migrated struct {
	// Changed is the number of keys whose state differs from the stored one.
	Changed int
	// Included is the position of the last observation that the states include, by log.
	Included map[string]int64
	// Reset is the number of keys whose state was reset in part or in full. Dropped lists the keys whose state was
	// dropped under DropIncompatible.
	Reset   int
	Dropped []string
	// Damaged lists the states that cannot be read, with the reason in Err. Their keys start without a state.
	Damaged []State

	outcomes map[string]int // number of keys by what was carried over
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

// A Policy defines what Migrate does with states that were written with other settings.
type Policy int

// The policies: Refuse rejects such a state. Convert and DropIncompatible carry over the parts that keep their meaning.
// If there are none, Convert rejects the state, and DropIncompatible drops it.
const (
	Refuse Policy = iota
	Convert
	DropIncompatible
)

// unchanged is the outcome of a state that fits the configuration.
const unchanged = "unchanged"

// Migrate converts stored states for runs of cfg, one by one, and calls keep for each: for converted states, which
// keyed.Estimator.Open accepts, and for unreadable states, with Err set. policy applies to states that were written
// with other settings. For such a state, the error is a *MismatchError under Refuse; under Convert it gives the
// reason if no part can be kept. where names the location of the states in errors.
//
// Of the states with the settings of cfg, Migrate decodes only the first. Another state that cannot be decoded,
// although its seal is intact, fails when its key reports.
func Migrate(cfg keyed.Config, states iter.Seq[State], policy Policy, where string, keep func(s State, changed bool)) (Migrated, error) {
	a := Migrated{Included: map[string]int64{}, outcomes: map[string]int{}}
	migrator, err := keyed.NewMigrator(cfg)
	if err != nil {
		return a, err
	}
	n, first := 0, ""
	decoded := map[string]bool{} // by settings: a state with them was decoded
	for s := range states {
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
		if fits := decoded[s.Settings] && migrator.Unchanged(s.Key, s.Settings); fits {
			a.outcomes[unchanged]++
			included, err = keyed.StateBytes(s.Bytes).IncludedOffsets()
		} else {
			decoded[s.Settings] = true
			if changed, err = a.carry(migrator, &s, policy, where); err != nil {
				return a, err
			}
			if s.Bytes == nil {
				continue
			}
			included, err = migrator.Check(s.Key, s.Bytes, s.Settings)
		}
		for _, p := range included {
			if seq, ok := a.Included[p.Log]; !ok || p.Seq > seq {
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
		return a, fmt.Errorf("no state in %s can be read; the first one, of the key %s: %w; restore the states, or start without: remove the file, or use --begin-anew", where, message.Quote(first), a.Damaged[0].Err)
	}
	return a, nil
}

func newerState(key, where string, err error) error {
	return fmt.Errorf("the state of the key %s in %s cannot be read: %w", message.Quote(key), where, err)
}

// carry converts a state, unless policy is Refuse, and reports whether this changes it. A state that is dropped has
// nil Bytes afterwards.
func (a *Migrated) carry(m *keyed.Migrator, s *State, policy Policy, where string) (changed bool, err error) {
	if policy == Refuse {
		return false, nil
	}
	b, parts, err := m.Migrate(s.Key, s.Bytes, s.Settings)
	if policy == DropIncompatible && errors.Is(err, keyed.ErrOtherConfig) {
		a.Changed++
		a.Reset++
		a.Dropped = append(a.Dropped, s.Key)
		reason, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), keyed.ErrOtherConfig.Error()+": "), ", and")
		a.outcomes["nothing kept, "+reason]++
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
		s.Settings = "" // the settings of cfg
	}
	a.outcomes[cmp.Or(carried, unchanged)]++
	return carried != "", nil
}

// ResetDamaged returns the reasons why the damaged states cannot be read, by key, and logs them. where names the
// location of the states.
func (a Migrated) ResetDamaged(where string, log *slog.Logger) map[string]error {
	const maxLogged = 10
	reasons := map[string]error{}
	for i, s := range a.Damaged {
		reasons[s.Key] = s.Err
		if i < maxLogged {
			log.Warn("cannot read a state: its key starts without it", "in", cmp.Or(s.Place, where), "key", s.Key, "reason", s.Err)
		}
	}
	if n := len(a.Damaged) - maxLogged; n > 0 {
		log.Warn("cannot read more states", "in", where, "states", n)
	}
	return reasons
}

// String lists the outcomes with their numbers of keys, the most frequent first.
func (a Migrated) String() string {
	var text []string
	for _, outcome := range slices.SortedFunc(maps.Keys(a.outcomes), func(x, y string) int {
		return cmp.Or(cmp.Compare(a.outcomes[y], a.outcomes[x]), strings.Compare(x, y))
	}) {
		text = append(text, message.Count(a.outcomes[outcome], "key", "keys")+": "+outcome)
	}
	return cmp.Or(strings.Join(text, " | "), "there are none")
}
