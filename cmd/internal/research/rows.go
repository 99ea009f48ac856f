// Package research computes the tables of hafvf trials, fit, sessions and backtest from rows in memory.
package research

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/parallel"
)

// Rows are observations of keys, in the order of their source.
type Rows struct {
	Names   []string                     // names of the parts of the key
	Keys    [][]string                   // parts of each key
	Columns map[string][]json.RawMessage // further columns: sessions, carried columns, choices

	Codes  []int32     `json:"-"` // key of each row
	Times  []time.Time `json:"-"` // of each row; zero without a time
	Values []float64   `json:"-"` // of all rows
	Length int         // values of a row

	rejected map[int]string // reasons, by row
}

// A Reject is a row that was not learned.
type Reject struct {
	Row    int    `json:"row"`
	Reason string `json:"reason"`
}

// Rejected returns the rows that were not learned.
func (r *Rows) Rejected() []Reject {
	rejects := []Reject{}
	for _, row := range slices.Sorted(maps.Keys(r.rejected)) {
		rejects = append(rejects, Reject{row, r.rejected[row]})
	}
	return rejects
}

// A group is the observations of a key.
type group struct {
	key          string
	observations []keyed.Observation
	rejected     []Reject
}

func (g *group) reject(o *keyed.Observation, err error) {
	g.rejected = append(g.rejected, Reject{int(o.Seq) - 1, err.Error()})
}

// merge adds the rejected rows of groups.
func (r *Rows) merge(groups []*group) {
	if r.rejected == nil {
		r.rejected = map[int]string{}
	}
	for _, g := range groups {
		for _, reject := range g.rejected {
			r.rejected[reject.Row] = reject.Reason
		}
	}
}

// groups returns the observations by key, in the order of the rows. names are the parts of the key, carried the columns
// that observations repeat, and by the columns that name their sessions. untimed leaves out the times.
func (r *Rows) groups(names, carried, by []string, untimed bool) ([]*group, error) {
	for _, name := range slices.Concat(carried, by) {
		if r.Columns[name] == nil && !slices.Contains(r.Names, name) {
			return nil, fmt.Errorf("there is no column %s", message.Quote(name))
		}
	}
	groups := map[string]*group{}
	for i := range r.Codes {
		key := r.key(i, names)
		g := groups[key]
		if g == nil {
			g = &group{key: key}
			groups[key] = g
		}
		o := keyed.Observation{ID: idOf(i), Seq: int64(i + 1), ExtraFields: r.carried(i, carried)}
		if !untimed {
			o.Time = r.Times[i]
		}
		if r.Length > 0 {
			o.X = [][]float64{r.Values[i*r.Length : (i+1)*r.Length]}
		}
		if r.Length > 1 {
			o.Shape = keyed.Vector
		}
		var err error
		if o.Session, err = r.session(i, by); err != nil {
			g.reject(&o, err)
			continue
		}
		g.observations = append(g.observations, o)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *group) int { return cmp.Compare(a.key, b.key) }), nil
}

// idOf returns the ID of a row's observation; rowOf returns the row.
func idOf(row int) string { return fmt.Sprintf("row %d", row) }

func rowOf(id string) (row int) {
	fmt.Sscanf(id, "row %d", &row)
	return row
}

// key returns the key of a row, with the named parts.
func (r *Rows) key(i int, names []string) string {
	parts := r.Keys[r.Codes[i]]
	if len(names) < len(r.Names) {
		some := []string{}
		for k, part := range parts {
			if slices.Contains(names, r.Names[k]) {
				some = append(some, part)
			}
		}
		parts = some
	}
	switch len(parts) {
	case 0:
		return "all"
	case 1:
		return parts[0]
	}
	return domain.JoinKey(parts)
}

// cell returns the JSON of a cell of a column, or of a part of the key.
func (r *Rows) cell(i int, name string) json.RawMessage {
	if column := r.Columns[name]; column != nil {
		return column[i]
	}
	text, _ := json.Marshal(r.Keys[r.Codes[i]][slices.Index(r.Names, name)]) // a text
	return text
}

// carried returns the cells of columns as a JSON object; "" without columns.
func (r *Rows) carried(i int, names []string) string {
	if len(names) == 0 {
		return ""
	}
	b := []byte{'{'}
	for k, name := range names {
		if k > 0 {
			b = append(b, ',')
		}
		text, _ := json.Marshal(name) // a text
		b = append(append(append(b, text...), ':'), r.cell(i, name)...)
	}
	return string(append(b, '}'))
}

// session returns the name of a row's session.
func (r *Rows) session(i int, by []string) (string, error) {
	if len(by) == 0 {
		return "", nil
	}
	parts := make([]string, len(by))
	for k, name := range by {
		var value any
		if raw := r.cell(i, name); json.Unmarshal(raw, &value) == nil && value != nil {
			if parts[k] = strings.TrimSpace(string(raw)); raw[0] == '"' {
				parts[k] = strings.TrimSpace(value.(string))
			}
		}
		if parts[k] == "" {
			return "", fmt.Errorf("%s is empty, which session.by names", message.Quote(name))
		}
	}
	return domain.JoinKey(parts), nil
}

// A listener passes on the results of a key.
type listener struct {
	*group
	listen func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent)
}

func (l *listener) Estimated(o *keyed.Observation, e *keyed.Estimate) {
	if e.SkipReason != "" {
		l.rejected = append(l.rejected, Reject{int(o.Seq) - 1, e.SkipReason})
		return
	}
	l.listen(l.key, e, e.Alerts(l.key))
}
func (l *listener) Rejected(o *keyed.Observation, err error) { l.reject(o, err) }
func (l *listener) SilenceEnded(s keyed.SilenceEvent)        { l.listen(l.key, nil, s.Alerts(l.key)) }
func (*listener) Expired()                                   {}
func (*listener) Rewound(time.Time, *keyed.Observation)      {}

// filter filters the observations of each key, and calls listen for each estimate and its alerts, from several
// goroutines. Alerts without a record have no estimate. Observations are learned in the order of their times.
func (r *Rows) filter(groups []*group, cfg keyed.Config, listen func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent)) error {
	estimators := make([]*keyed.Estimator, runtime.GOMAXPROCS(0))
	for i := range estimators {
		var err error
		if estimators[i], err = keyed.NewEstimator(cfg); err != nil {
			return err
		}
	}
	var last time.Time
	for _, g := range groups {
		for i := range g.observations {
			if t := g.observations[i].Time; t.After(last) {
				last = t
			}
		}
	}
	memories := make([]keyed.Memory, len(estimators))
	failed := make([]error, len(groups))
	parallel.Do(len(groups), len(estimators), func(worker, i int) {
		l := &listener{groups[i], listen}
		failed[i] = l.filter(estimators[worker], &memories[worker], cfg.Order, last)
	})
	r.merge(groups)
	return cmp.Or(failed...)
}

// filter filters the observations of a key. last is the latest time of all keys.
func (l *listener) filter(est *keyed.Estimator, memory *keyed.Memory, order keyed.Order, last time.Time) error {
	state, err := est.Open(l.key, nil)
	if err != nil {
		return err
	}
	if order == keyed.EventTime {
		slices.SortStableFunc(l.observations, keyed.Observation.Compare)
	}
	accepts := est.Checker(l.key)
	for i := range l.observations {
		o := &l.observations[i]
		if err := accepts(o); err == nil {
			state.Process(memory, l, o)
		} else {
			l.reject(o, err)
			if est.OutOfDomain(l.key, o) {
				if e := state.OutOfDomain(o); e != nil && !e.Detection.Muted {
					l.listen(l.key, nil, e.Alerts(l.key))
				}
			}
		}
		for state.ProcessDue(memory, l) {
		}
	}
	state.End(last)
	for state.ProcessDue(memory, l) {
	}
	if s, silent := state.ReportSilence(last); silent && !last.IsZero() {
		l.listen(l.key, nil, s.Alerts(l.key))
	}
	for state.ProcessDue(memory, l) {
	}
	return nil
}

// smooth smooths the sessions of each key, and calls emit for each record, from several goroutines.
func (r *Rows) smooth(groups []*group, cfg keyed.SmoothConfig, emit func(group int, key string, s *keyed.Smoothed)) error {
	smoothers := make([]*keyed.Smoother, runtime.GOMAXPROCS(0))
	for i := range smoothers {
		var err error
		if smoothers[i], err = keyed.NewSmoother(cfg); err != nil {
			return err
		}
	}
	parallel.Do(len(groups), len(smoothers), func(worker, i int) {
		g, sm := groups[i], smoothers[worker]
		for _, session := range g.sessions(sm, cfg) {
			_, rejected := sm.Smooth(g.key, session, 0, func(s keyed.Smoothed) { emit(i, g.key, &s) })
			for _, reject := range rejected {
				g.rejected = append(g.rejected, Reject{int(reject.Seq) - 1, reject.Reason})
			}
		}
	})
	r.merge(groups)
	return nil
}

// sessions returns the accepted observations of the group by session.
func (g *group) sessions(sm *keyed.Smoother, cfg keyed.SmoothConfig) (sessions [][]keyed.Observation) {
	index := map[string]int{}
	accepted := []keyed.Observation{}
	for i := range g.observations {
		o := &g.observations[i]
		if err := sm.Check(g.key, *o); err != nil {
			g.reject(o, err)
			continue
		}
		if cmp.Or(cfg.Order, keyed.EventTime) == keyed.EventTime {
			accepted = append(accepted, *o)
			continue
		}
		k, known := index[o.Session]
		if !known {
			k, index[o.Session] = len(sessions), len(sessions)
			sessions = append(sessions, nil)
		}
		sessions[k] = append(sessions[k], *o)
	}
	if len(accepted) == 0 {
		return sessions
	}
	gap := cfg.Gap
	if gap == 0 {
		slices.SortStableFunc(accepted, keyed.Observation.Compare)
		gap = cfg.DefaultGap(accepted)
	}
	return keyed.SplitSessions(accepted, gap)
}
