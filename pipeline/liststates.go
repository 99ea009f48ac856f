package pipeline

import (
	"cmp"
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
	"hafvf/internal/message"
	"hafvf/internal/seal"
	"hafvf/transforms"
)

// ListStates writes the states that a graph's runs begin with to w, each as a JSON object
// in a line, by key: those of the changelog, or else of the file of states. If key is not
// empty, it writes that of one key. States that cannot be read are left out; the error
// names the first of them and their number. Nothing is changed, and a run may go on
// meanwhile.
func ListStates(ctx context.Context, g *Graph, key string, w io.Writer, log *slog.Logger) error {
	f, ok := g.transform.(filtering)
	if !ok {
		return errors.New("the config smooths, and keeps no states: they belong to transform: filter")
	}
	states, where, err := g.stored(ctx, log)
	if err != nil {
		return err
	}
	est, err := transforms.NewEstimator(f.cfg)
	if err != nil {
		return err
	}
	layout := f.layout
	layout.Brief = false
	var line []byte
	found, bad := 0, 0
	var why error
	for _, s := range states {
		if key != "" && s.Key != key {
			continue
		}
		found++
		var snapshot transforms.Snapshot
		err := cmp.Or(s.Err, f.under(s.Settings, s.Sealed))
		if err == nil {
			snapshot, err = est.Snapshot(s.Key, s.Bytes)
		}
		if err != nil {
			if bad++; why == nil {
				why = fmt.Errorf("the state of the key %s in %s cannot be read: %w", message.Quote(s.Key), where, err)
			}
			continue
		}
		place := ""
		if s.Topic != "" {
			place = s.Position.String()
		}
		line = layout.AppendState(line[:0], s.Key, place, s.Settings, &snapshot)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	switch {
	case key != "" && found == 0:
		return fmt.Errorf("%s has no state of the key %s; it has those of %s", where, message.Quote(key), message.Count(len(states), "other key", "other keys"))
	case bad > 1:
		return fmt.Errorf("%w; nor can %s", why, message.Count(bad-1, "other", "others"))
	}
	return why
}

// stored returns the stored states by key, and names their place.
func (g *Graph) stored(ctx context.Context, log *slog.Logger) (states []kafkaio.Restored, where string, err error) {
	t, ok := g.source.(topicSource)
	switch {
	case ok && t.Changelog != "":
		var to clients
		defer to.close()
		where = "the changelog " + t.Changelog
		states, err = kafkaio.ReadStates(ctx, to.of(t.Cluster), t.Changelog, log)
	case g.states != "":
		where = g.states
		states, err = g.inFile()
	default:
		err = errors.New("the config keeps no states: neither source.kafka.changelog nor state is set")
	}
	slices.SortFunc(states, func(a, b kafkaio.Restored) int { return strings.Compare(a.Key, b.Key) })
	return states, where, err
}

// inFile returns the states of the graph's file.
func (g *Graph) inFile() (states []kafkaio.Restored, err error) {
	if _, err := os.Stat(g.states); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("state: %s does not exist: no run has ended well yet", g.states)
	}
	f, err := loadStates(g)
	if err != nil {
		return nil, err
	}
	for key := range f.all {
		s := kafkaio.Restored{Key: key}
		s.Bytes, s.Settings, s.Sealed, s.Err = seal.Open(key, f.all[key])
		states = append(states, s)
	}
	return states, nil
}
