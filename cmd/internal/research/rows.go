// Package research computes the tables of hafvf trials, fit, sessions and backtest from rows in memory.
package research

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hafvf/hafvf/keyed"
	"hafvf/internal/clock"
	"hafvf/internal/domain"
	"hafvf/internal/jsontext"
	"hafvf/internal/message"
	"hafvf/internal/parallel"
)

// Rows are observations of keys, in the order of their source.
type Rows struct {
	Keys    [][]string          // parts of each key
	Columns map[string][]string // further columns, of sessions and choices; empty: missing

	Codes  []int32     `json:"-"` // key of each row
	Times  []time.Time `json:"-"` // of each row; zero without a time
	Values []float64   `json:"-"` // of all rows
	Length int         // values of a row

	rejected map[int]string        // reasons, by row
	progress func(done, total int) // called by several goroutines with the number of finished keys
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
			if reject.Row >= 0 { // an interval is no row
				r.rejected[reject.Row] = reject.Reason
			}
		}
	}
}

// groups returns the observations by key, in the order of the rows. Observations repeat the carried columns, and the
// columns in by name their sessions. untimed leaves out the times.
func (r *Rows) groups(carried, by []string, untimed bool) ([]*group, error) {
	for _, name := range slices.Concat(carried, by) {
		if r.Columns[name] == nil {
			return nil, fmt.Errorf("there is no column %s", message.Quote(name))
		}
	}
	groups := map[string]*group{}
	for i, code := range r.Codes {
		key := r.key(int(code))
		g := groups[key]
		if g == nil {
			g = &group{key: key}
			groups[key] = g
		}
		o := keyed.Observation{ID: fmt.Sprintf(rowID, i), Seq: int64(i + 1)}
		if !untimed {
			o.Time = r.Times[i]
		}
		if r.Length > 0 {
			o.X = [][]float64{r.Values[i*r.Length : (i+1)*r.Length]}
		}
		if r.Length > 1 {
			o.Shape = keyed.Vector
		}
		if len(carried) > 0 {
			cells := map[string]string{}
			for _, name := range carried {
				cells[name] = r.Columns[name][i]
			}
			o.ExtraFields = jsontext.Of(cells)
		}
		var parts []string
		for _, name := range by {
			if parts = append(parts, strings.TrimSpace(r.Columns[name][i])); parts[len(parts)-1] == "" {
				g.reject(&o, fmt.Errorf("%s is empty, which session.by names", message.Quote(name)))
			}
		}
		if o.Session = domain.JoinKey(parts); !slices.Contains(parts, "") {
			g.observations = append(g.observations, o)
		}
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *group) int { return cmp.Compare(a.key, b.key) }), nil
}

// rowID is the form of the ID of a row's observation. rowOf returns the row.
const rowID = "row %d"

func rowOf(id string) (row int) {
	fmt.Sscanf(id, rowID, &row)
	return row
}

// key returns the key with a code.
func (r *Rows) key(code int) string {
	if len(r.Keys[code]) == 1 {
		return r.Keys[code][0]
	}
	return domain.JoinKey(r.Keys[code])
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

// each calls do for each group, several at a time. create makes the T of a goroutine.
func each[T any](r *Rows, groups []*group, create func() (T, error), do func(worker T, g *group, i int)) (err error) {
	workers := make([]T, runtime.GOMAXPROCS(0))
	for i := range workers {
		if workers[i], err = create(); err != nil {
			return err
		}
	}
	var done atomic.Int64
	parallel.Do(len(groups), len(workers), func(worker, i int) {
		do(workers[worker], groups[i], i)
		r.progress(int(done.Add(1)), len(groups))
	})
	r.merge(groups)
	return nil
}

// filter filters the observations of each key, and calls listen for each estimate and its alerts, from several
// goroutines. Alerts without a record have no estimate. Observations are learned in the order of their times.
func (r *Rows) filter(groups []*group, cfg keyed.Config, listen func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent)) error {
	var last time.Time
	for _, g := range groups {
		for i := range g.observations {
			last = clock.Later(last, g.observations[i].Time)
		}
	}
	failed := make([]error, len(groups))
	type worker struct {
		est    *keyed.Estimator
		memory keyed.Memory
	}
	create := func() (*worker, error) {
		est, err := keyed.NewEstimator(cfg)
		return &worker{est: est}, err
	}
	err := each(r, groups, create, func(w *worker, g *group, i int) {
		failed[i] = (&listener{g, listen}).filter(w.est, &w.memory, cfg.Order, last)
	})
	return cmp.Or(err, cmp.Or(failed...))
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
	processDue := func() {
		for state.ProcessDue(memory, l) {
		}
	}
	for i := range l.observations {
		o := &l.observations[i]
		if err := accepts(o); err == nil {
			state.Process(memory, l, o)
		} else if l.reject(o, err); est.OutOfDomain(l.key, o) {
			if e := state.OutOfDomain(o); e != nil && !e.Detection.Muted {
				l.listen(l.key, nil, e.Alerts(l.key))
			}
		}
		processDue()
	}
	state.End(last)
	processDue()
	if s, silent := state.ReportSilence(last); silent && !last.IsZero() {
		l.listen(l.key, nil, s.Alerts(l.key))
	}
	processDue()
	return nil
}

// smooth smooths the sessions of each key, and calls emit for each record, from several goroutines.
func (r *Rows) smooth(groups []*group, cfg keyed.SmoothConfig, emit func(group int, key string, s *keyed.Smoothed)) error {
	create := func() (*keyed.Smoother, error) { return keyed.NewSmoother(cfg) }
	return each(r, groups, create, func(sm *keyed.Smoother, g *group, i int) {
		for _, session := range g.sessions(sm, cfg) {
			_, rejected := sm.Smooth(g.key, session, 0, func(s keyed.Smoothed) { emit(i, g.key, &s) })
			for _, reject := range rejected {
				g.rejected = append(g.rejected, Reject{int(reject.Seq) - 1, reject.Reason})
			}
		}
	})
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
