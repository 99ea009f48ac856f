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

// A Window is a stretch of time in which something happened, both ends included.
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Labels are the windows of keys.
type Labels map[string][]Window

// ReadLabels reads the labels in a file: CSV with the columns key, start and end, or, if
// the text begins with {, the JSON of the Numenta Anomaly Benchmark, an object of lists of
// [start, end] by the path of the series' file. A path stands for the key that is its base
// name without extension. Times without a zone are in UTC.
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

// ParseLabels reads the labels in a text, as ReadLabels does in a file.
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
		return nil, fmt.Errorf("the file is empty; give CSV with the columns key, start, end, or NAB's JSON")
	}
	var at [3]int
	for i, name := range []string{"key", "start", "end"} {
		if at[i] = slices.IndexFunc(rows[0], func(s string) bool { return strings.TrimSpace(s) == name }); at[i] < 0 {
			return nil, fmt.Errorf("the header %s has no column %q; give key, start, end", strings.Join(rows[0], ","), name)
		}
	}
	labels := Labels{}
	for i, row := range rows[1:] {
		w, err := newWindow(row[at[1]], row[at[2]])
		if err != nil {
			return nil, fmt.Errorf("row %d after the header: %w", i+1, err)
		}
		labels[row[at[0]]] = append(labels[row[at[0]]], w)
	}
	return labels, nil
}

func readNAB(text []byte) (Labels, error) {
	var files map[string][][]string
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("an object of lists of [start, end] is due: %w", err)
	}
	labels, of := Labels{}, map[string]string{}
	for file, windows := range files {
		key := path.Base(file)
		key = strings.TrimSuffix(key, path.Ext(key))
		if other, taken := of[key]; taken {
			return nil, fmt.Errorf("%s and %s have the same base name, which names the key", min(file, other), max(file, other))
		}
		of[key] = file
		labels[key] = []Window{}
		for i, ends := range windows {
			if len(ends) != 2 {
				return nil, fmt.Errorf("%s, window %d has %d entries, where [start, end] is due", file, i+1, len(ends))
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

// Score is how the alerts fit the labels.
type Score struct {
	Windows int `json:"windows"` // with records of their key in them
	Hit     int `json:"hit"`     // windows with an alert in them
	// FalseAlarms are the alerts outside all windows of their key.
	FalseAlarms int `json:"false_alarms"`
	// Delays are from the start of a window to its first alert, in seconds. They are null
	// where no window was hit.
	MedianDelay  Number `json:"median_delay"`
	LargestDelay Number `json:"largest_delay"`
	// Missed are the windows without an alert.
	Missed []Missed `json:"missed"`
	// Outside is the number of windows that begin after the last record of their key or end
	// before its first.
	Outside int `json:"outside"`
	// Unknown are the labelled keys that the data do not have.
	Unknown []string `json:"unknown"`
}

// Missed is a window without an alert.
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

// outside reports whether the window has nothing of the time from first to last.
func (w Window) outside(first, last time.Time) bool {
	return w.End.Before(first) || w.Start.After(last)
}

func (w Window) holds(e Event) bool { return !e.Time.Before(w.Start) && !e.Time.After(w.End) }

// A MarkScore is how the alerts fit marks. What was expected counts neither way.
type MarkScore struct {
	True     Marked `json:"true"`
	False    Marked `json:"false"`
	Expected Marked `json:"expected"`
}

// Marked counts marks, and those of which an alert was raised.
type Marked struct {
	Marks  int `json:"marks"`
	Raised int `json:"raised"`
}

// scoreMarks compares the alerts with marks: by key, id and incident.
func (c *Collector) scoreMarks(marks []records.Mark) *MarkScore {
	s := &MarkScore{}
	for _, m := range marks {
		of := map[string]*Marked{records.MarkedTrue: &s.True, records.MarkedFalse: &s.False, records.MarkedExpected: &s.Expected}[m.Mark]
		of.Marks++
		for _, k := range c.keys {
			if slices.ContainsFunc(k.events, func(e Event) bool { return m.Of(e.Key, e.ID, c.incidentOf(e.Key, e.ID, e.Kind)) }) {
				of.Raised++
				break
			}
		}
	}
	return s
}

// String is the score in one line.
func (s *MarkScore) String() string {
	return fmt.Sprintf("%d of %s raised, %d of %s, %d of %d expected", s.True.Raised, count(s.True.Marks, "true alarm"), s.False.Raised, count(s.False.Marks, "false alarm"), s.Expected.Raised, s.Expected.Marks)
}
