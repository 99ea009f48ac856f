package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/fleet"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/message"
	"hafvf/pipeline/statebackend"
)

// A Forgotten lists the keys that were forgotten.
type Forgotten struct {
	Keys  []string // sorted
	Total int      // number of keys before
	Where string   // file or changelog
}

func (f Forgotten) String() string {
	return fmt.Sprintf("forgot %s of %d in %s", message.Count(len(f.Keys), "key", "keys"), f.Total, f.Where)
}

// ForgetKeys removes all keys that match a pattern from the stored states of the graph: from the changelog or,
// without a changelog, from the file of states. A pattern is a key, or the Match of a keyed.Rule. ForgetKeys changes
// nothing and returns an error if no key matches, or if a run is using the states; the error names that run.
func ForgetKeys(ctx context.Context, g *Graph, patterns []string, log *slog.Logger) (Forgotten, error) {
	if _, ok := g.transform.(filtering); !ok {
		return Forgotten{}, errSmoothing
	}
	t, topics := g.source.(topicSource)
	switch {
	case topics && t.Changelog != "":
		return forgetInChangelog(ctx, t, patterns, log)
	case g.states != "":
		return ForgetKeysIn(g.states, patterns, log)
	}
	return Forgotten{}, errNoStates
}

// ForgetKeysIn is ForgetKeys for a file of states.
func ForgetKeysIn(path string, patterns []string, log *slog.Logger) (f Forgotten, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return f, errNoStateFile(path)
	}
	unlock, err := statebackend.Lock(path, "wait for its end, or stop it", log)
	if err != nil {
		return f, fmt.Errorf("state: %w", err)
	}
	defer unlock()
	states, source, err := readStateFile(path)
	if err != nil {
		return f, err
	}
	f, changed, err := withoutKeys(states, path, patterns)
	if err != nil {
		return f, err
	}
	file, err := statestore.PrepareFile(path, source, func(yield func(statestore.State) bool) {
		for _, s := range states {
			replacement, ok := changed[s.Key]
			switch {
			case !ok:
				replacement = &s
			case replacement == nil:
				continue
			}
			if !yield(*replacement) {
				return
			}
		}
	})
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		return f, fmt.Errorf("state: %s cannot be written: %w", path, message.Cause(err))
	}
	return f, nil
}

func forgetInChangelog(ctx context.Context, t topicSource, patterns []string, log *slog.Logger) (f Forgotten, err error) {
	var pool clients
	defer pool.close()
	err = pool.client(t.Cluster).RewriteStates(ctx, t.Changelog, log, func(suppressed []kafkaio.StoredState) (map[string][]byte, error) {
		var changed map[string]*statestore.State
		if f, changed, err = withoutKeys(openStored(suppressed), "the changelog "+t.Changelog, patterns); err != nil {
			return nil, err
		}
		sealed := map[string][]byte{}
		for key, s := range changed {
			if sealed[key] = nil; s != nil {
				sealed[key] = s.Seal()
			}
		}
		return sealed, nil
	})
	return f, withAdvice(err)
}

// withoutKeys returns the states that change when the matching keys are forgotten, by key. A nil state is removed. The
// state of the fleet also changes if it contains a matching key.
func withoutKeys(states []statestore.State, where string, patterns []string) (f Forgotten, changed map[string]*statestore.State, err error) {
	matches := func(key string) bool {
		return !statestore.Reserved(key) && slices.ContainsFunc(patterns, func(p string) bool {
			return p == key || keyed.Rule{Match: p}.Matches(key) // a key may contain brackets
		})
	}
	changed, forgotten := map[string]*statestore.State{}, map[string]bool{}
	for _, s := range states {
		if !statestore.Reserved(s.Key) {
			f.Total++
		}
		if matches(s.Key) {
			changed[s.Key], forgotten[s.Key] = nil, true
		}
	}
	for _, s := range states {
		if s.Key != statestore.FleetKey {
			continue
		}
		var names map[string]bool
		if err = s.Err; err == nil {
			s.Bytes, names, err = fleet.Forget(s.Bytes, matches)
		}
		if err != nil {
			return f, nil, fmt.Errorf("the state of the alarms of all keys in %s cannot be read, and nothing was changed: %w; a run resets this state: start one, stop it, and try again", where, err)
		}
		for name := range names { // includes keys without a stored state
			if !forgotten[name] {
				forgotten[name] = true
				f.Total++
			}
		}
		if len(names) > 0 {
			changed[s.Key] = &s
		}
	}
	if len(forgotten) == 0 {
		return f, nil, noMatch(patterns, where)
	}
	f.Keys, f.Where = slices.Sorted(maps.Keys(forgotten)), where
	return f, changed, nil
}

func noMatch(patterns []string, where string) error {
	quoted := make([]string, len(patterns))
	for i, p := range patterns {
		quoted[i] = message.Quote(p)
	}
	several := ""
	if len(quoted) > 1 {
		several = "one of "
	}
	return fmt.Errorf("no key matches %s%s in %s", several, message.List(quoted), where)
}
