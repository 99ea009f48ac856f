package research

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/cmd/hafvf/fit"
	"hafvf/cmd/hafvf/output"
	"hafvf/cmd/hafvf/sessions"
	"hafvf/cmd/hafvf/trials"
	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/internal/tabular"
	"hafvf/pipeline/records"
	"hafvf/pipeline/settings"
)

// A Request asks for the tables of rows.
type Request struct {
	Do string // smooth, trials, fit or backtest
	Rows
	Interval float64 // smooth: probability of the interval of a segment's mean
	// fit: as the flags of hafvf fit
	Key      []string // names of the parts of the key, among them the choice if it has a learner for each option
	Over     string
	Pooled   bool
	Response fit.Response
	Labels   string // backtest: windows of incidents, as the file of backtest.ReadLabels; empty: none
}

// An Answer has the tables of a request.
type Answer struct {
	Tables   []Table  `json:"tables"`
	Rejected []Reject `json:"rejected"`
	Notes    []string `json:"notes"`
	// Report, its text and its events are of a backtest.
	Report *backtest.Report `json:"report,omitempty"`
	Text   string           `json:"text"`
	Events []backtest.Event `json:"events"`
}

// A Table has the name of a table, its columns, and its rows as lines of JSON cells that are separated by tabs.
type Table struct {
	Name    string           `json:"name"`
	Columns []tabular.Column `json:"columns"`
	// Rows has the rows of the request that the rows of the table belong to; nil if they belong to none.
	Rows  []int  `json:"rows"`
	Lines []byte `json:"-"`
}

func (a *Answer) add(name string, t output.Table, rows []int) {
	table := Table{Name: name, Columns: t.Columns, Rows: rows}
	for line := range t.Lines {
		table.Lines = append(table.Lines, line...)
	}
	a.Tables = append(a.Tables, table)
}

// Answer computes the tables of a request, with times in UTC. values are the names of the values, and untimed says that
// rows have no times. progress is called by several goroutines with the number of finished keys; see fit.Fit.Table.
func (r *Request) Answer(c *settings.Settings, values []string, untimed bool, progress func(done, total int)) (*Answer, error) {
	a := &Answer{Tables: []Table{}, Notes: []string{}}
	r.progress = progress
	var err error
	switch r.Do {
	case "smooth":
		err = r.segments(a, c, values)
	case "trials":
		err = r.trials(a, c, untimed)
	case "fit":
		err = r.fit(a, c)
	case "backtest":
		err = r.backtest(a, c, values)
	default:
		err = fmt.Errorf("unknown request %q", r.Do)
	}
	a.Rejected = r.Rejected()
	return a, err
}

// segments adds the tables of smoothed estimates and of segments.
func (r *Request) segments(a *Answer, c *settings.Settings, values []string) error {
	if !(r.Interval > 0 && r.Interval < 1) {
		return fmt.Errorf("interval=%g: give a probability above 0 and below 1", r.Interval)
	}
	order := keyed.Order(c.Order)
	cfg := c.Smoothing(order)
	filters := []hafvf.Config{cfg.Filter}
	for _, k := range cfg.Keys {
		filters = append(filters, k.Filter)
	}
	layout, err := records.NewLayout(filters...)
	if err != nil {
		return err
	}
	layout.Brief, layout.Events = c.Records == settings.Brief, c.Aggregate != nil
	layout.Smoothes(filters, order != keyed.EventTime, false)
	groups, err := r.groups(nil, c.Session.By, order != keyed.EventTime)
	if err != nil {
		return err
	}
	type part struct {
		rows    []int
		lines   []byte
		records []*output.Record
	}
	parts := make([]part, len(groups))
	err = r.smooth(groups, cfg, func(i int, key string, s *keyed.Smoothed) {
		p := &parts[i]
		p.lines = layout.AppendSmoothed(p.lines, records.Row, key, s)
		p.rows = append(p.rows, rowOf(s.Origin))
		p.records = append(p.records, output.SmoothedRecord(key, s))
	})
	if err != nil {
		return err
	}
	x := tabular.Number
	if len(values) > 1 {
		x = tabular.String
	}
	estimates := Table{Name: "estimates", Columns: layout.SmoothedColumns(x), Rows: []int{}}
	var segments sessions.Collector
	for _, p := range parts {
		estimates.Rows, estimates.Lines = append(estimates.Rows, p.rows...), append(estimates.Lines, p.lines...)
		for _, record := range p.records {
			if err := segments.Add(record); err != nil {
				return err
			}
		}
	}
	if c.Aggregate != nil { // its records are intervals
		estimates.Rows = nil
	}
	a.Tables = append(a.Tables, estimates)
	table, _ := segments.Table(r.Interval, c.Clock())
	a.add("segments", table, nil)
	return nil
}

// trials adds the table of all observations.
func (r *Request) trials(a *Answer, c *settings.Settings, untimed bool) error {
	untimed = untimed || c.Transform == settings.Smooth && keyed.Order(c.Order) != keyed.EventTime
	filtering, _ := c.ForTransform(settings.Filter, false)
	groups, err := r.groups(nil, nil, untimed)
	if err != nil {
		return err
	}
	var table trials.Table
	cfg := filtering.Filter()
	cfg.OmitPosterior = true
	if err := r.filter(groups, cfg, func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) { table.AddEstimate(key, e) }); err != nil {
		return err
	}
	smoothing, _ := c.ForTransform(settings.Smooth, false)
	order := keyed.Order(smoothing.Order)
	if groups, err = r.groups(nil, smoothing.Session.By, order != keyed.EventTime); err != nil {
		return err
	}
	add := func(_ int, key string, s *keyed.Smoothed) { table.AddSmoothed(key, s) }
	if err := r.smooth(groups, smoothing.Smoothing(order), add); err != nil {
		return err
	}
	rows := []int{}
	for _, id := range table.IDs() {
		rows = append(rows, rowOf(id))
	}
	if c.Aggregate != nil { // its rows are intervals
		rows = nil
	}
	a.add("trials", table.Trials(c.Clock()), rows)
	return nil
}

// fit adds the table of a fit.
func (r *Request) fit(a *Answer, c *settings.Settings) error {
	f, err := fit.New(c, fit.Source{Key: r.Key}, r.Over, r.Response)
	if err != nil {
		return err
	}
	filtering := *c
	if _, lacksChoice := f.Key(); lacksChoice {
		filtering.Keys = nil // exceptions match keys that include the choice
	}
	groups, err := r.groups(f.Carried(), nil, false)
	if err != nil {
		return err
	}
	cfg := filtering.Filter()
	cfg.OmitPosterior = true
	if err := r.filter(groups, cfg, func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) { f.Add(key, e) }); err != nil {
		return err
	}
	if err := f.Read(); err != nil {
		return err
	}
	t := f.Table(r.Pooled, r.progress)
	a.add("fit", t.Output(), nil)
	for line := range strings.Lines(f.Notes() + t.Turned() + t.Tally()) {
		a.Notes = append(a.Notes, strings.TrimSpace(line))
	}
	return nil
}

// backtest adds the report on the alarms.
func (r *Request) backtest(a *Answer, c *settings.Settings, values []string) (err error) {
	if c.Transform == settings.Smooth || c.Detect == nil {
		return errors.New("there are no alarms without detect: give detect=True")
	}
	var labels backtest.Labels
	if r.Labels != "" {
		if labels, err = backtest.ParseLabels([]byte(r.Labels)); err != nil {
			return fmt.Errorf("labels: %w", err)
		}
	}
	groups, err := r.groups(nil, nil, false)
	if err != nil {
		return err
	}
	cfg := c.Filter()
	cfg.OmitPosterior = true
	cfg.Values, cfg.Unit = c.NamesOf(values), c.UnitOf("")
	sends := func(t keyed.AlertEvent) bool { return t.Source == keyed.SourceAlarm && !t.BackToUsual() }
	collector := backtest.NewCollector(backtest.Run{Clock: c.Clock(), Alarms: *cfg.Alarms, Sends: sends})
	var records, missing atomic.Int64
	start := time.Now()
	err = r.filter(groups, cfg, func(key string, e *keyed.Estimate, alerts []keyed.AlertEvent) {
		if e != nil {
			if records.Add(1); e.Missing && !e.Quiet {
				missing.Add(1)
			}
		}
		collector.Add(key, e, alerts)
	})
	if err != nil {
		return err
	}
	summary := backtest.Summary{Records: records.Load(), Missing: missing.Load(), Rejected: int64(len(r.rejected)), Elapsed: time.Since(start)}
	if a.Report, err = collector.Report("the frame", summary, labels, nil); err != nil {
		return err
	}
	a.Text, a.Events = a.Report.String(), a.Report.Events()
	return nil
}
