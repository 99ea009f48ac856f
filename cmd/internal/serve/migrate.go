package serve

import "hafvf/hafvf/keyed"

// writtenSettings are the settings with which the states of a batch were written.
type writtenSettings struct {
	settings keyed.AllSettings
	cfg      keyed.Config // the model's
	migrate  bool
	workers  []migrator
}

// A migrator belongs to one goroutine. Its Migrator is nil until a state with other settings comes.
type migrator struct {
	*keyed.Migrator
	writtenFor func(key string) (keyed.Settings, string)
}

// settingsOfStates returns the settings of the states of a batch; nil if the batch has none.
func (m *model) settingsOfStates(b *batch) (*writtenSettings, error) {
	if b.flags&withWritten == 0 {
		return nil, nil
	}
	written, err := keyed.ParseSettings[keyed.AllSettings](b.written)
	if err != nil {
		return nil, failed("batch", "the settings of the states: %v", err)
	}
	return &writtenSettings{written, m.cfg, b.flags&migrates != 0, make([]migrator, len(m.estimators))}, nil
}

// migrated returns the state of a key, migrated to the settings of the model. Without the flag migrates it returns an
// error that names the settings that differ.
func (s *writtenSettings) migrated(worker int, key string, state []byte) (migrated []byte, err error) {
	w := &s.workers[worker]
	if w.Migrator == nil {
		if w.Migrator, err = keyed.NewMigrator(s.cfg); err != nil {
			return nil, err
		}
		w.writtenFor = s.settings.ApplyTo(s.cfg).Settings()
	}
	_, text := w.writtenFor(key)
	if s.migrate {
		migrated, _, err = w.Migrate(key, state, text)
	} else {
		_, err = w.Check(key, state, text)
	}
	return migrated, err
}
