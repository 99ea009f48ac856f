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
	"hafvf/internal/message"
	"hafvf/pipeline/records"
	"hafvf/transforms"
)

// errSmoothing is for a config that has no states.
var errSmoothing = errors.New("the config smooths, and keeps no states: they belong to transform: filter")

// ListStates writes the states that a graph's runs begin with to w, each as a JSON object
// in a line, by key: those of the changelog, or else of the file of states. If key is not
// empty, it writes that of one key. States that cannot be read are left out; the error
// names the first of them and their number. Nothing is changed, and a run may go on
// meanwhile.
func ListStates(ctx context.Context, g *Graph, key string, w io.Writer, log *slog.Logger) error {
	f, ok := g.transform.(filtering)
	if !ok {
		return errSmoothing
	}
	states, where, err := g.statesAt(ctx, "", log)
	if err != nil {
		return err
	}
	return listStates(states, where, &f.cfg, key, w)
}

// ListStatesIn is ListStates for a file of states, whose states say what they were written
// with.
func ListStatesIn(path, key string, w io.Writer) error {
	f, err := loadStates(path)
	if err != nil {
		return err
	}
	return listStates(f.sealed(), path, nil, key, w)
}

// IsStateFile reports whether a file looks like a file of states.
func IsStateFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(stateMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == stateMagic
}

// listStates reads each state under the settings that it was written with. One that does
// not say is read under cfg, where that is not nil.
func listStates(states []kafkaio.Restored, where string, cfg *transforms.Config, key string, w io.Writer) error {
	readers := map[string]*stateReader{}
	var line []byte
	found, bad := 0, 0
	var why error
	for _, s := range states {
		if key != "" && s.Key != key {
			continue
		}
		found++
		var snapshot transforms.Snapshot
		var r *stateReader
		err := s.Err
		if err == nil {
			r, err = readerOf(readers, s, cfg)
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
		place := ""
		if s.Topic != "" {
			place = s.Position.String()
		}
		line = r.layout.AppendState(line[:0], s.Key, place, s.Settings, &snapshot)
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

// A stateReader reads the states of one configuration.
type stateReader struct {
	est    *transforms.Estimator
	layout records.Layout
}

// readerOf returns the reader of a state, which it makes once for the settings.
func readerOf(all map[string]*stateReader, s kafkaio.Restored, cfg *transforms.Config) (*stateReader, error) {
	if r := all[s.Settings]; r != nil {
		return r, nil
	}
	var under transforms.Config
	if cfg != nil {
		under = *cfg
	}
	switch {
	case s.Settings != "":
		written, err := transforms.ParseSettings(s.Settings)
		if err != nil {
			return nil, err
		}
		under = written.In(under)
	case cfg == nil:
		return nil, errors.New("it is of a version that did not store its config with it: name the config in place of the file")
	}
	r := &stateReader{}
	var err error
	if r.est, err = transforms.NewEstimator(under); err != nil {
		return nil, err
	}
	if r.layout, err = records.NewLayout(under.Filter); err != nil {
		return nil, err
	}
	all[s.Settings] = r
	return r, nil
}

// statesAt returns the stored states by key, and names their place: a file of states, or a
// changelog at the brokers of the graph's source. If place is empty, it is that of the
// graph's runs.
func (g *Graph) statesAt(ctx context.Context, place string, log *slog.Logger) (states []kafkaio.Restored, where string, err error) {
	t, topics := g.source.(topicSource)
	changelog, file := t.Changelog, g.states
	switch {
	case place == "":
	case IsStateFile(place):
		changelog, file = "", place
	case topics:
		changelog = place
	default:
		return nil, "", fmt.Errorf("%s is not a file of states, and the config's source has no brokers where it could be a changelog", place)
	}
	switch {
	case topics && changelog != "":
		var to clients
		defer to.close()
		where = "the changelog " + changelog
		states, err = kafkaio.ReadStates(ctx, to.of(t.Cluster), changelog, log)
	case file != "":
		where = file
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("state: %s does not exist: no run has ended well yet", file)
		}
		f, err := loadStates(file)
		if err != nil {
			return nil, "", err
		}
		states = f.sealed()
	default:
		err = errors.New("the config keeps no states: neither source.kafka.changelog nor state is set")
	}
	slices.SortFunc(states, func(a, b kafkaio.Restored) int { return strings.Compare(a.Key, b.Key) })
	return states, where, err
}
