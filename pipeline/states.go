package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/keyed/statestore"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

// errSmoothing is the error for a config that stores no states because it smooths.
var errSmoothing = errors.New("the config smooths and keeps no states: only transform: filter keeps them")

// errNoStates is the error for a config of the filter that stores no states.
var errNoStates = errors.New("the config keeps no states: neither source.kafka.changelog nor state is set")

func errNoStateFile(path string) error {
	return fmt.Errorf("state: %s does not exist: no run has succeeded yet", path)
}

// ListStates writes the states that runs of the graph start with to w, one JSON object a line, sorted by key. They come
// from the changelog or, without a changelog, from the file of states. If key is not empty, ListStates writes only its
// state. It skips unreadable states; the error names the first one and their number. ListStates changes nothing, and a
// run may be using the states.
func ListStates(ctx context.Context, g *Graph, key string, w io.Writer, log *slog.Logger) error {
	if _, filters := g.transform.(filtering); !filters {
		return errSmoothing
	}
	states, _, where, err := g.statesAt(ctx, "", log)
	if err != nil {
		return err
	}
	return listStates(states, where, key, w)
}

// ListStatesIn is ListStates for a file of states, without a config.
func ListStatesIn(path, key string, w io.Writer) error {
	states, _, err := readStateFile(path)
	if err != nil {
		return err
	}
	return listStates(states, path, key, w)
}

// readStateFile reads a file of states. source is how far the source of its run was read.
func readStateFile(path string) (states []statestore.State, source []byte, err error) {
	source, err = statestore.ReadFile(path, func(s statestore.State) bool {
		states = append(states, s)
		return true
	})
	if err != nil {
		return nil, nil, fmt.Errorf("state: %w", err)
	}
	return states, source, nil
}

// listStates writes each state under the settings that it was stored with.
func listStates(states []statestore.State, where, key string, w io.Writer) error {
	readers := map[string]*stateReader{}
	var line []byte
	found, bad := 0, 0
	var why error
	for _, s := range states {
		if key != "" && s.Key != key || statestore.Reserved(s.Key) {
			continue
		}
		found++
		var snapshot keyed.Snapshot
		var r *stateReader
		err := s.Err
		if err == nil {
			r, err = readerOf(readers, s.Settings)
		}
		if err == nil {
			snapshot, err = r.est.Snapshot(s.Key, s.Bytes)
		}
		if err != nil {
			if bad++; why == nil {
				why = fmt.Errorf("the state of the key %s in %s cannot be read: %w", message.Quote(s.Key), where, err)
			}
			continue
		}
		line = r.layout.AppendState(line[:0], s.Key, s.Place, s.Settings, &snapshot)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	switch {
	case key != "" && found == 0:
		return fmt.Errorf("%s has no state of the key %s; it has states of %s", where, message.Quote(key), message.Count(len(states), "other key", "other keys"))
	case bad > 1:
		return fmt.Errorf("%w; %s cannot be read either", why, message.Count(bad-1, "other", "others"))
	}
	return why
}

// A stateReader reads the states of one configuration.
type stateReader struct {
	est    *keyed.Estimator
	layout records.Layout
}

// readerOf returns the reader for the settings of a state. It adds a new reader to readers.
func readerOf(readers map[string]*stateReader, settings string) (*stateReader, error) {
	if r := readers[settings]; r != nil {
		return r, nil
	}
	written, err := keyed.ParseSettings[keyed.Settings](settings)
	if err != nil {
		return nil, err
	}
	r, under := &stateReader{}, written.ApplyTo(keyed.Config{})
	if r.est, err = keyed.NewEstimator(under); err != nil {
		return nil, err
	}
	if r.layout, err = records.NewLayout(under.Filter); err != nil {
		return nil, err
	}
	readers[settings] = r
	return r, nil
}

// statesAt returns the stored states by key, and names their place: a file of states, or a changelog on the brokers of
// the graph's source. If place is empty, it is the place that the graph's runs use.
func (g *Graph) statesAt(ctx context.Context, place string, log *slog.Logger) (states []statestore.State, source []byte, where string, err error) {
	t, topics := g.source.(topicSource)
	changelog, file := t.Changelog, g.states
	switch {
	case place == "":
	case statestore.IsFile(place):
		changelog, file = "", place
	case topics && !strings.ContainsAny(place, "/:"): // characters that no topic has
		changelog = place
	case topics:
		return nil, nil, "", fmt.Errorf("%s is not a file of states", place)
	default:
		return nil, nil, "", fmt.Errorf("%s is not a file of states, and the config has no brokers on which it could be a changelog", place)
	}
	switch {
	case topics && changelog != "":
		var pool clients
		defer pool.close()
		where = changelogPlace(changelog)
		var stored []kafkaio.StoredState
		stored, err = pool.client(t.Cluster).ReadStates(ctx, changelog, log)
		states = openStored(stored)
		err = withAdvice(err)
	case file != "":
		where = file
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, "", errNoStateFile(file)
		}
		states, source, err = readStateFile(file)
	case g.Runner.Name == config.Flink:
		err = errors.New("the job on Flink keeps the states: hafvf cannot read them")
	default:
		err = errNoStates
	}
	slices.SortFunc(states, func(a, b statestore.State) int { return strings.Compare(a.Key, b.Key) })
	return states, source, where, err
}

func changelogPlace(topic string) string { return "the changelog " + topic }

// KeepsStates reports whether runs of the graph start with stored states: from a changelog, a file, or a job on Flink.
func (g *Graph) KeepsStates() bool {
	if _, filters := g.transform.(filtering); !filters {
		return false
	}
	t, ok := g.source.(topicSource)
	return ok && t.Changelog != "" || g.states != "" || g.Runner.Name == config.Flink
}

// CheckStates reports what a run of the graph with Migrate would keep, learn again from the past, and reset. The states
// are in a file, or in a changelog on the brokers of the graph's source. CheckStates changes nothing. It returns an
// error if the place has no states, or if no part of a state could be kept or learned again.
func CheckStates(ctx context.Context, g *Graph, place string, log *slog.Logger) (string, error) {
	f, ok := g.transform.(filtering)
	if !ok {
		return "", errSmoothing
	}
	states, source, where, err := g.statesAt(ctx, place, log)
	if err != nil {
		return "", err
	}
	for _, s := range states {
		if s.Err != nil {
			return "", fmt.Errorf("the state of the key %s in %s: %w", message.Quote(s.Key), where, s.Err)
		}
	}
	migrate := statestore.Convert
	past, err := g.historyOf(ctx, where, source, log)
	if err != nil {
		return "", err
	}
	if past != "" {
		migrate = statestore.DropIncompatible
	}
	est, err := keyed.NewEstimator(f.cfg)
	if err != nil {
		return "", err
	}
	relearned := 0
	a, err := statestore.Migrate(f.cfg, slices.Values(states), migrate, where, func(s statestore.State, _ bool) {
		if s.Err == nil && est.ResetsProfile(s.Key, s.Bytes) {
			relearned++
		}
	})
	if err != nil {
		return "", err
	}
	hint := ""
	if relearned > 0 {
		hint = fmt.Sprintf("; %s usual values again, by the season, zone and ar of detect", message.Count(relearned, "key learns its", "keys learn their"))
	}
	switch {
	case a.Reset > 0 && past != "":
		hint += "; hafvf run --migrate learns these keys again from the past, " + past + ", without writing records or alerts, and keeps the other keys as listed here; without --migrate it refuses the states"
	case a.Reset > 0:
		hint += "; states that start over are lost, because no past can be read again; hafvf run does this with --migrate, and refuses the states without it"
	case a.Changed > 0:
		hint += "; hafvf run does this with --migrate, and refuses the states without it"
	}
	return fmt.Sprintf("%s: %s%s", where, a, hint), nil
}
