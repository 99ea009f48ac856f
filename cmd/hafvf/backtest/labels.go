package backtest

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"hafvf/internal/median"
	"hafvf/internal/times"
	"hafvf/pipeline/records"
)

// A Window is a time range in which something happened, including both ends.
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Labels are the windows of each key.
type Labels map[string][]Window

// ReadLabels reads labels from a file. A text that begins with { is read as the JSON of the Numenta Anomaly
// Benchmark: an object with the path of a series' file as name and a list of [start, end] as value; the key is the
// base name of the path without its extension. Other texts are read as CSV with the columns key, start and end. Times
// without a zone are in UTC. The windows of each key are sorted by start.
func ReadLabels(file string) (Labels, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	labels, err := ParseLabels(text)
	if err != nil {
		return nil, fmt.Errorf("the labels %s: %w", file, err)
	}
	return labels, nil
}

// ParseLabels parses labels in the formats of ReadLabels.
func ParseLabels(text []byte) (Labels, error) {
	read := readCSV
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		read = readNAB
	}
	labels, err := read(text)
	if err != nil {
		return nil, err
	}
	for _, windows := range labels {
		slices.SortFunc(windows, func(a, b Window) int { return a.Start.Compare(b.Start) })
	}
	return labels, nil
}

func readCSV(text []byte) (Labels, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("the file is empty: give CSV with the columns key, start, end, or the JSON of NAB")
	}
	var columns [3]int
	for i, name := range []string{"key", "start", "end"} {
		if columns[i] = slices.IndexFunc(rows[0], func(s string) bool { return strings.TrimSpace(s) == name }); columns[i] < 0 {
			return nil, fmt.Errorf("the header %s has no column %q: give key, start, end", strings.Join(rows[0], ","), name)
		}
	}
	labels := Labels{}
	for i, row := range rows[1:] {
		w, err := newWindow(row[columns[1]], row[columns[2]])
		if err != nil {
			return nil, fmt.Errorf("row %d after the header: %w", i+1, err)
		}
		labels[row[columns[0]]] = append(labels[row[columns[0]]], w)
	}
	return labels, nil
}

func readNAB(text []byte) (Labels, error) {
	var files map[string][][]string
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("not an object of lists of [start, end]: %w", err)
	}
	labels, fileOf := Labels{}, map[string]string{}
	for file, windows := range files {
		key := path.Base(file)
		key = strings.TrimSuffix(key, path.Ext(key))
		if other, duplicate := fileOf[key]; duplicate {
			return nil, fmt.Errorf("%s and %s have the same base name: each base name is a key, use different names", min(file, other), max(file, other))
		}
		fileOf[key] = file
		labels[key] = []Window{}
		for i, ends := range windows {
			if len(ends) != 2 {
				return nil, fmt.Errorf("%s, window %d has %d entries: give [start, end]", file, i+1, len(ends))
			}
			w, err := newWindow(ends[0], ends[1])
			if err != nil {
				return nil, fmt.Errorf("%s, window %d: %w", file, i+1, err)
			}
			labels[key] = append(labels[key], w)
		}
	}
	return labels, nil
}

func newWindow(start, end string) (w Window, err error) {
	if w.Start, err = times.Parse(strings.TrimSpace(start)); err != nil {
		return w, fmt.Errorf("start: %w", err)
	}
	if w.End, err = times.Parse(strings.TrimSpace(end)); err != nil {
		return w, fmt.Errorf("end: %w", err)
	}
	if w.End.Before(w.Start) {
		return w, fmt.Errorf("the end %s is before the start %s", end, start)
	}
	return w, nil
}

// A Score compares the alerts with the labels.
type Score struct {
	Windows int `json:"windows"` // windows that overlap the records of their key
	Hit     int `json:"hit"`     // windows with an alert
	// FalseAlarms is the number of alerts outside all windows of their key.
	FalseAlarms int `json:"false_alarms"`
	// Delays are in seconds from the start of a window to its first alert. They are null if no window was hit.
	MedianDelay  Number `json:"median_delay"`
	LargestDelay Number `json:"largest_delay"`
	// Missed lists the windows without an alert.
	Missed []Missed `json:"missed"`
	// Outside is the number of windows that end before the first record of their key or begin after its last. They
	// count neither as hit nor as missed.
	Outside int `json:"outside"`
	// Unknown lists the labelled keys that are not in the data.
	Unknown []string `json:"unknown"`
}

// A Missed is a window without an alert.
type Missed struct {
	Key string `json:"key"`
	Window
}

// score compares the alerts with the labels.
func (l Labels) score(keys map[string]*Key) Score {
	s := Score{Missed: []Missed{}, Unknown: []string{}}
	var delays []float64
	for key, windows := range l {
		k := keys[key]
		if k == nil {
			s.Unknown = append(s.Unknown, key)
			continue
		}
		for _, w := range windows {
			if w.outside(k.first, k.last) {
				s.Outside++
				continue
			}
			s.Windows++
			i := slices.IndexFunc(k.events, w.holds)
			if i < 0 {
				s.Missed = append(s.Missed, Missed{key, w})
				continue
			}
			s.Hit++
			delays = append(delays, k.events[i].Time.Sub(w.Start).Seconds())
		}
	}
	for key, k := range keys {
		for _, e := range k.events {
			if !slices.ContainsFunc(l[key], func(w Window) bool { return w.holds(e) }) {
				s.FalseAlarms++
			}
		}
	}
	slices.Sort(s.Unknown)
	slices.SortFunc(s.Missed, func(a, b Missed) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Key, b.Key)) })
	s.MedianDelay, s.LargestDelay = Number(median.Of(delays)), Number(math.NaN())
	if len(delays) > 0 {
		s.LargestDelay = Number(slices.Max(delays))
	}
	return s
}

// outside reports whether the window does not overlap the time from first to last.
func (w Window) outside(first, last time.Time) bool {
	return w.End.Before(first) || w.Start.After(last)
}

func (w Window) holds(e Event) bool { return !e.Time.Before(w.Start) && !e.Time.After(w.End) }

// A MarkScore counts the marks whose alarm was raised, by mark.
type MarkScore struct {
	True     MarkCount `json:"true"`
	False    MarkCount `json:"false"`
	Expected MarkCount `json:"expected"`
}

// MarkCount counts marks, and the marks whose alarm was raised.
type MarkCount struct {
	Marks  int `json:"marks"`
	Raised int `json:"raised"`
}

// scoreMarks compares the alerts with marks, by key, ID and incident.
func (c *Collector) scoreMarks(marks []records.Mark) *MarkScore {
	s := &MarkScore{}
	for _, m := range marks {
		counted := map[string]*MarkCount{records.MarkedTrue: &s.True, records.MarkedFalse: &s.False, records.MarkedExpected: &s.Expected}[m.Mark]
		counted.Marks++
		for _, k := range c.keys {
			if slices.ContainsFunc(k.events, func(e Event) bool { return m.Matches(e.Key, e.ID, c.incidentOf(e.Key, e.ID, e.Kind)) }) {
				counted.Raised++
				break
			}
		}
	}
	return s
}

// String returns the score as part of a line.
func (s *MarkScore) String() string {
	return fmt.Sprintf("%d of %s raised, %d of %s, %d of %d expected", s.True.Raised, count(s.True.Marks, "true alarm"), s.False.Raised, count(s.False.Marks, "false alarm"), s.Expected.Raised, s.Expected.Marks)
}
