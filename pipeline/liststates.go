package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/flink/savepoint"
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
	return listStates(states, where, &f.cfg.Config, key, w)
}

// ListStatesIn is ListStates for the states in a file or savepoint, without a config: states
// of a job with cells: 0, which do not say what they were written with, cannot be read.
func ListStatesIn(path, key string, w io.Writer) error {
	states, err := statesIn(path)
	if err != nil {
		return err
	}
	return listStates(states, path, nil, key, w)
}

// ListSavepoint is ListStates for the states in a savepoint that a job of the graph's config
// wrote, at a local path.
func ListSavepoint(g *Graph, path, key string, w io.Writer) error {
	f, ok := g.transform.(filtering)
	if !ok {
		return errSmoothing
	}
	states, err := savepointStates(path)
	if err != nil {
		return err
	}
	return listStates(states, "the savepoint "+path, &f.cfg.Config, key, w)
}

// HasStates reports whether a path looks like a file of states, or a savepoint.
func HasStates(path string) bool { return isStateFile(path) || savepoint.Is(path) }

// statesIn returns the states in a file or a savepoint, by key.
func statesIn(path string) ([]kafkaio.Restored, error) {
	if savepoint.Is(path) {
		return savepointStates(path)
	}
	f, err := loadStates(path)
	if err != nil {
		return nil, err
	}
	return f.sealed(), nil
}

// savepointStates returns the states of filters in a savepoint, by key.
func savepointStates(path string) (states []kafkaio.Restored, err error) {
	stored, err := savepoint.Read(path, transforms.CellStates...)
	if err != nil {
		return nil, err
	}
	cells := map[string]map[string][][]byte{}
	for _, s := range stored {
		if cells[s.Key] == nil {
			cells[s.Key] = map[string][][]byte{}
		}
		cells[s.Key][s.Name] = append(cells[s.Key][s.Name], s.Elements...)
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("the savepoint %s has no states of filters: it is of another job, or of one that had read nothing, or damaged", path)
	}
	for _, name := range slices.Sorted(maps.Keys(cells)) {
		entities, written, err := transforms.ReadCell(name, cells[name])
		if err != nil {
			return nil, fmt.Errorf("the savepoint %s: the states that share the key %s cannot be read: %w", path, message.Quote(name), err)
		}
		for key, b := range entities {
			states = append(states, kafkaio.Restored{Key: key, Bytes: b, Settings: written(key)})
		}
	}
	sortByKey(states)
	return states, nil
}

func sortByKey(states []kafkaio.Restored) {
	slices.SortFunc(states, func(a, b kafkaio.Restored) int { return strings.Compare(a.Key, b.Key) })
}

// isStateFile reports whether a file looks like a file of states.
func isStateFile(path string) bool {
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
func listStates(states []kafkaio.Restored, where string, cfg *keyed.Config, key string, w io.Writer) error {
	readers := map[string]*stateReader{}
	var line []byte
	found, bad := 0, 0
	var why error
	for _, s := range states {
		if key != "" && s.Key != key {
			continue
		}
		found++
		var snapshot keyed.Snapshot
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
	est    *keyed.Estimator
	layout records.Layout
}

// readerOf returns the reader of a state, which it makes once for the settings.
func readerOf(all map[string]*stateReader, s kafkaio.Restored, cfg *keyed.Config) (*stateReader, error) {
	if r := all[s.Settings]; r != nil {
		return r, nil
	}
	var under keyed.Config
	if cfg != nil {
		under = *cfg
	}
	switch {
	case s.Settings != "":
		written, err := keyed.ParseSettings[keyed.Settings](s.Settings)
		if err != nil {
			return nil, err
		}
		under = written.In(under)
	case cfg == nil:
		return nil, errors.New("it does not say which config it was written with: give that config, as hafvf states --help says")
	}
	r := &stateReader{}
	var err error
	if r.est, err = keyed.NewEstimator(under); err != nil {
		return nil, err
	}
	if r.layout, err = records.NewLayout(under.Filter); err != nil {
		return nil, err
	}
	all[s.Settings] = r
	return r, nil
}

// statesAt returns the stored states by key, and names their place: a file of states, a
// savepoint, or a changelog at the brokers of the graph's source. If place is empty, it is
// that of the graph's runs.
func (g *Graph) statesAt(ctx context.Context, place string, log *slog.Logger) (states []kafkaio.Restored, where string, err error) {
	t, topics := g.source.(topicSource)
	changelog, file := t.Changelog, g.states
	switch {
	case place == "":
	case savepoint.Is(place):
		states, err = savepointStates(place)
		return states, "the savepoint " + place, err
	case isStateFile(place):
		changelog, file = "", place
	case topics && !strings.ContainsAny(place, "/:"): // which no topic has
		changelog = place
	case topics:
		return nil, "", fmt.Errorf("%s is not a file of states, nor a savepoint on this machine", place)
	default:
		return nil, "", fmt.Errorf("%s is not a file of states, nor a savepoint on this machine, and the config's source has no brokers where it could be a changelog", place)
	}
	switch {
	case topics && changelog != "":
		var to clients
		defer to.close()
		where = "the changelog " + changelog
		states, err = kafkaio.ReadStates(ctx, to.of(t.Cluster), changelog, log)
		err = advised(err)
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
	case g.Runner.Name == config.Flink:
		err = errors.New("on Flink the job keeps the states: name a savepoint of it, as hafvf stop --savepoint writes one")
	default:
		err = errors.New("the config keeps no states: neither source.kafka.changelog nor state is set")
	}
	sortByKey(states)
	return states, where, err
}
