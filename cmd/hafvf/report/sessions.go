package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/segments"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/records"
)

// maxSmoothed is the maximum number of smoothed records that a Collector stores.
const maxSmoothed = 500_000

// odds are the odds in favour of a change at which the page draws the threshold of the evidence.
const odds = 10

// Sessions are the smoothed sessions on the page.
type Sessions struct {
	Count, Keys, Outliers int
	Map                   *Map // map of changes, with one group
	Changes               []ChangeRow
	Found                 int         // number of changes; Changes has those with the largest evidence
	Moving                []MovingRow // sessions without a change that drift or wander, at most maxRows
	Moved                 int         // number of sessions that drift or wander
}

// A MovingRow is a session without a change whose level drifts or wanders.
type MovingRow struct {
	Key         string
	ID          int
	Time        time.Time // start of the session
	Description string
}

// A ChangeRow is a change that was found in a session.
type ChangeRow struct {
	Key                   string
	ID                    int
	Time, From, To        time.Time // time of the change and its 95 % interval; zero if unknown
	Probability, Evidence float64   // Evidence is in nats
	Change                string    // levels before and after the change, in words
	N                     int64     // observations of the new segment; 0 if unknown
}

// describe returns the change in words.
func (r *ChangeRow) describe() string {
	words := r.Change
	if r.N > 0 {
		words += " for " + message.Count(r.N, "observation", "observations")
	}
	return fmt.Sprintf("%s; probability %s, evidence %s nats", words, cmp.Or(output.Percent(r.Probability), "–"), number(r.Evidence))
}

// Smoothed returns the observer of a run that smooths.
func (c *Collector) Smoothed() *pipeline.Observer {
	return &pipeline.Observer{Smoothed: func(key string, s *keyed.Smoothed) { c.AddSmoothed(output.SmoothedRecord(key, s)) }}
}

// Last returns the latest time of the records so far; zero without any.
func (c *Collector) Last() time.Time { return c.last }

// AddSmoothed adds a smoothed record. It only counts records without times, and those beyond maxSmoothed.
func (c *Collector) AddSmoothed(r *output.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.Untimed():
		c.untimed++
	case !c.inPeriod(*r.Time):
	case c.smoothed == maxSmoothed:
		c.smoothedLeft++
	default:
		c.smoothed++
		k := c.keyOf(*r.Key)
		k.smoothed = append(k.smoothed, *r)
	}
}

// addSessions adds the smoothed sessions to the page. It returns the JSON data of clicks on their keys, whose IDs
// start at others.
func (c *Collector) addSessions(p *Page, others int) (data []byte) {
	if c.smoothed == 0 {
		return nil
	}
	clearest := map[*key]float64{}
	var keys []*key
	for _, k := range c.order {
		if len(k.smoothed) == 0 {
			continue
		}
		k.smoothed = output.Latest(k.smoothed)
		keys = append(keys, k)
		for i := range k.smoothed {
			if r := &k.smoothed[i]; r.Change {
				clearest[k] = max(clearest[k], output.OrNaN(r.Evidence))
			}
		}
	}
	slices.SortFunc(keys, func(a, b *key) int {
		return cmp.Or(cmp.Compare(clearest[b], clearest[a]), cmp.Compare(a.name, b.name))
	})
	g, s, rows := c.grid(), &Sessions{Keys: len(keys)}, []KeyRow{}
	for i, k := range keys {
		line, changes, outliers := c.smoothedSeries(s, k)
		moving := c.moving(k.smoothed)
		cells, id := make([]uint8, g.columns), others+i
		if i >= maxFollowed {
			id = -1
		}
		for j := range changes {
			r := &changes[j]
			r.Key, r.ID = shown(k.name), id
			column := g.column(c.wall(r.Time).Unix())
			cells[column] = max(cells[column], classOf(r.Evidence, scoreClasses, 1))
		}
		for j := range moving {
			moving[j].Key, moving[j].ID = shown(k.name), id
		}
		s.Changes, s.Moving = append(s.Changes, changes...), append(s.Moving, moving...)
		if id < 0 {
			continue
		}
		rows = append(rows, KeyRow{Key: shown(k.name), Short: shown(k.name), ID: id, Alarms: len(changes), Label: message.Count(len(changes), "change", "changes"), Series: true, Strip: stripOf(cells)})
		if id > 0 {
			data = append(data, ',')
		}
		data = append(appendName(data, k), `[],"series":`...)
		data = line.append(data, min(max(pagePoints/min(len(keys), maxFollowed), 300), 3000))
		data = records.AppendList(append(data, `,"changes":`...), len(changes), func(b []byte, j int) []byte {
			r := &changes[j]
			text, _ := json.Marshal(r.describe())
			return fmt.Appendf(b, "[%d,%d,%d,%s]", r.Time.Unix(), cmp.Or(r.From, r.Time).Unix(), cmp.Or(r.To, r.Time).Unix(), text)
		})
		data = records.AppendList(append(data, `,"moving":`...), len(moving), func(b []byte, j int) []byte {
			return fmt.Appendf(b, "[%d,%q]", moving[j].Time.Unix(), moving[j].Description)
		})
		data = records.AppendList(append(data, `,"outliers":`...), min(len(outliers), maxRows), func(b []byte, j int) []byte {
			return fmt.Appendf(b, "[%s,%.6g]", appendNumber(nil, outliers[j][0], 3), outliers[j][1])
		})
		data = append(data, '}')
	}
	slices.SortStableFunc(s.Changes, func(a, b ChangeRow) int { return cmp.Compare(b.Evidence, a.Evidence) })
	s.Found = len(s.Changes)
	s.Changes = s.Changes[:min(s.Found, maxRows)]
	s.Moved = len(s.Moving)
	s.Moving = s.Moving[:min(s.Moved, maxRows)]
	s.Map = &Map{Columns: g.columns, Step: stepName(g.step), Ticks: g.ticks(), Groups: []Group{{Rows: rows}}, Left: len(keys) - len(rows)}
	p.Sessions = s
	return data
}

// moving returns the sessions of a key that drift or wander. records are the key's records in order.
func (c *Collector) moving(records []output.Record) (rows []MovingRow) {
	for start, end := 0, 0; start < len(records); start = end {
		for end < len(records) && records[end].SameSession(&records[start]) {
			end++
		}
		session := records[start:end]
		s, row := session[0].Session, MovingRow{Time: session[0].Session.Start.Time}
		switch {
		case s.Drift != nil && session[0].Segment != nil:
			row.Description = c.driftOf(session)
		case s.Wanders:
			row.Description = "wanders"
		default:
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// driftOf returns the drift of a session in words. Its line passes through the mean of the only segment at the mean
// time of the values that are not outliers. If the page has only part of the session, it uses the middle of the
// session.
func (c *Collector) driftOf(records []output.Record) string {
	s := records[0].Session
	first, last := s.Start.Time, *records[len(records)-1].Time
	if s.End != nil {
		last = s.End.Time
	}
	days := func(t time.Time) float64 { return t.Sub(first).Hours() / 24 }
	positive, sum, n := true, 0., 0.
	for i := range records {
		r := &records[i]
		if x := newEstimate("", *r.Time, r.X, r.Estimate.Moments).X; isNumber(x) {
			w := 1 - output.OrNaN(r.Outlier)
			sum, n, positive = sum+w*days(*r.Time), n+w, positive && x > 0
		}
	}
	middle := sum / n
	if int64(len(records)) < s.N {
		middle = days(last) / 2
	}
	startLevel := records[0].Level().Mean[0] - s.Drift.Rate*middle
	return message.Drift(startLevel, startLevel+s.Drift.Rate*days(last), positive, first, last, c.zone)
}

// smoothedSeries returns the series of a key, its changes and its outliers. In a point, predicted is the smoothed
// estimate, usual the level of the segment, score the evidence of a change, threshold the evidence needed for a
// change, and alarm a change.
func (c *Collector) smoothedSeries(s *Sessions, k *key) (line series, changes []ChangeRow, outliers [][2]float64) {
	for i := range k.smoothed {
		r := &k.smoothed[i]
		begins := i == 0 || !r.SameSession(&k.smoothed[i-1])
		if begins {
			s.Count++
		}
		e := newEstimate("", *r.Time, r.X, r.Estimate.Moments)
		p := point{time: float64(r.Time.UnixMilli()) / 1e3, x: e.X, predicted: e.Predicted, usual: e.Usual, alarm: r.Change}
		p.afterSilent = begins && i > 0
		p.score, p.threshold = float32(output.OrNaN(r.Evidence)), float32(math.Log(odds))
		if r.Segment != nil {
			p.usual.SD = output.First(r.Segment.SD)
			p.usual.Mean, p.threshold = r.Level().Mean[0], float32(segments.Threshold(odds, int(r.Session.N)))
		}
		line.seen++
		line.points = append(line.points, p)
		if output.OrNaN(r.Outlier) > .5 && isNumber(e.X) {
			s.Outliers++
			outliers = append(outliers, [2]float64{p.time, e.X})
		}
		if !r.Change {
			continue
		}
		before := keyed.Moments{Mean: []float64{math.NaN()}}
		if !begins {
			before = k.smoothed[i-1].Level()
		}
		row := ChangeRow{Time: *r.Time, Probability: output.OrNaN(r.Probability), Evidence: output.OrNaN(r.Evidence), Change: keyed.DescribeChange(before, r.Level(), number)}
		if r.Segment != nil {
			row.N = r.Segment.N
		}
		if interval := r.Interval; interval != nil && interval.From != nil && interval.To != nil {
			row.From, row.To = *interval.From, *interval.To
		}
		changes = append(changes, row)
	}
	return line, changes, outliers
}
