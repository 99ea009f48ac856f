package records

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"hafvf/internal/jsontext"
	"hafvf/internal/message"
)

// A Mark is a user's feedback on an alarm.
type Mark struct {
	ID    string    `json:"id"`             // id of the alarm
	Mark  string    `json:"mark"`           // one of Marks
	Key   *string   `json:"key,omitempty"`  // key of the alarm; nil in lines of earlier versions
	Time  time.Time `json:"time"`           // end of the alarm, or its last report: the mark acts on later records
	Start time.Time `json:"start,omitzero"` // start of the alarm; zero in lines of earlier versions
	Side  string    `json:"side,omitempty"` // Above or Below; empty without a size
	Size  float64   `json:"size,omitempty"` // largest size of the alarm, in sd, negative below usual; 0 for none
	Note  string    `json:"note,omitempty"`
}

// Values of Mark.Mark.
const (
	MarkedFalse    = "false"
	MarkedTrue     = "true"
	MarkedExpected = "expected"
)

// Values of Mark.Side.
const (
	Above = "above"
	Below = "below"
)

// Marks returns the valid values of Mark.Mark.
func Marks() []string { return []string{MarkedFalse, MarkedTrue, MarkedExpected} }

// Check returns an error if the mark is invalid.
func (m *Mark) Check() error {
	switch {
	case m.ID == "":
		return errors.New("id: missing; it is required")
	case !slices.Contains(Marks(), m.Mark):
		return fmt.Errorf("mark: unknown value %s: use one of %s", message.Quote(m.Mark), strings.Join(Marks(), ", "))
	case m.Time.IsZero():
		return errors.New("time: missing; it is required")
	}
	return nil
}

// ParseMark parses the line of a mark. The side determines the sign of the size.
func ParseMark(line []byte) (m Mark, err error) {
	if m, err = jsontext.Strict[Mark](line); err == nil {
		err = m.Check()
	}
	switch {
	case err != nil:
		return m, fmt.Errorf("is not a mark: %w", err)
	case m.Side == Above:
		m.Size = math.Abs(m.Size)
	case m.Side == Below:
		m.Size = -math.Abs(m.Size)
	}
	return m, nil
}

// Lines returns the lines of marks, as ParseMark reads them.
func Lines(marks []Mark) (lines []byte) {
	for _, m := range marks {
		lines = append(append(lines, jsontext.Of(m)...), '\n')
	}
	return lines
}

// Matches reports whether the mark is for the alarm with this key and id. incident is the id of the alarm's incident,
// or empty.
func (m *Mark) Matches(key, id, incident string) bool {
	return (m.ID == id || incident != "" && m.ID == incident) && (m.Key == nil || *m.Key == key)
}

// ReadMarks reads a file of marks. If several marks have the same id and key, the last wins. An error names the line.
func ReadMarks(path string) (marks []Mark, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		m, err := ParseMark(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		marks = slices.DeleteFunc(marks, func(o Mark) bool {
			return o.ID == m.ID && (o.Key == nil) == (m.Key == nil) && (m.Key == nil || *o.Key == *m.Key)
		})
		marks = append(marks, m)
	}
	return marks, nil
}
