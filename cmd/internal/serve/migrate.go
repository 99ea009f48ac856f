package serve

import "hafvf/hafvf/keyed"

// writtenSettings are those with which the states of a batch were written.
type writtenSettings struct {
	all     keyed.AllSettings
	cfg     keyed.Config // of the model
	migrate bool
	workers []migrator
}

// A migrator is that of one goroutine, which has none before a state is of other settings.
type migrator struct {
	*keyed.Migrator
	written func(key string) (keyed.Settings, string)
}

// before returns the settings of the states of a batch; nil if it has none.
func (m *model) before(b *batch) (*writtenSettings, error) {
	if b.flags&withWritten == 0 {
		return nil, nil
	}
	all, err := keyed.ParseSettings[keyed.AllSettings](b.written)
	if err != nil {
		return nil, failed("batch", "the settings of the states: %v", err)
	}
	return &writtenSettings{all, m.cfg, b.flags&migrates != 0, make([]migrator, len(m.estimators))}, nil
}

// carry carries over a state of a key that is one of other settings, or says which.
func (s *writtenSettings) carry(worker int, key string, state []byte) (migrated []byte, err error) {
	w := &s.workers[worker]
	if w.Migrator == nil {
		if w.Migrator, err = keyed.NewMigrator(s.cfg); err != nil {
			return nil, err
		}
		w.written = s.all.In(s.cfg).Settings()
	}
	_, text := w.written(key)
	if s.migrate {
		migrated, _, err = w.Migrate(key, state, text)
	} else {
		_, err = w.Check(key, state, text)
	}
	return migrated, err
}
