package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
)

// KeepsStates reports whether runs of the graph begin with stored states: those of a
// changelog, a file, or a job on Flink.
func (g *Graph) KeepsStates() bool {
	if _, filters := g.transform.(filtering); !filters {
		return false
	}
	t, ok := g.source.(topicSource)
	return ok && t.Changelog != "" || g.states != "" || g.Runner.Name == config.Flink
}

// A migration is what becomes of stored states under a config.
type migration struct {
	changed  map[string][]byte // the states, by key, that replace others
	outcomes map[string]int    // the number of keys, by what is carried over
}

// asItIs is the outcome of a state that fits the config.
const asItIs = "unchanged"

// migrate carries states over to the config. It leaves those that cannot be read, which
// another check reports. where is for messages.
func (f filtering) migrate(states []kafkaio.Restored, where string) (m migration, err error) {
	m = migration{map[string][]byte{}, map[string]int{}}
	migrator, err := keyed.NewMigrator(f.cfg.Config)
	if err != nil {
		return m, err
	}
	for _, s := range states {
		if s.Err != nil {
			continue
		}
		b, carried, err := migrator.Migrate(s.Key, s.Bytes, s.Settings)
		switch {
		case errors.Is(err, keyed.ErrOtherConfig) && s.Settings == "":
			return m, fmt.Errorf("the state of the key %s in %s cannot be carried over: it is of a job with cells: 0, whose states do not say what they were written with", message.Quote(s.Key), where)
		case err != nil:
			return m, fmt.Errorf("the state of the key %s in %s cannot be carried over: %w", message.Quote(s.Key), where, err)
		case carried == "":
			m.outcomes[asItIs]++
		default:
			m.changed[s.Key] = b
			m.outcomes[carried]++
		}
	}
	return m, nil
}

// String says how many keys have which outcome, the most frequent one first.
func (m migration) String() string {
	var text []string
	for _, outcome := range slices.SortedFunc(maps.Keys(m.outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.outcomes[b], m.outcomes[a]), strings.Compare(a, b))
	}) {
		text = append(text, message.Count(m.outcomes[outcome], "key", "keys")+": "+outcome)
	}
	return cmp.Or(strings.Join(text, " | "), "there are none")
}

// CheckStates says what a run of the graph with Migrate would keep of the states at a
// place: a file of states, a savepoint, or a changelog at the brokers of the graph's source.
// It changes nothing. The error says why there are no such states, or why nothing of one can
// be kept.
func CheckStates(ctx context.Context, g *Graph, place string, log *slog.Logger) (string, error) {
	f, ok := g.transform.(filtering)
	if !ok {
		return "", errSmoothing
	}
	states, where, err := g.statesAt(ctx, place, log)
	if err != nil {
		return "", err
	}
	for _, s := range states {
		if s.Err != nil {
			return "", fmt.Errorf("the state of the key %s in %s: %w", message.Quote(s.Key), where, s.Err)
		}
	}
	m, err := f.migrate(states, where)
	if err != nil {
		return "", err
	}
	hint := ""
	if len(m.changed) > 0 {
		hint = "; hafvf run does so with --migrate, and refuses them without"
	}
	return fmt.Sprintf("%s: %s%s", where, m, hint), nil
}
