package records

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hafvf/internal/jsontext"
	"hafvf/internal/message"
)

// A Mark is what a user says of an alarm.
type Mark struct {
	ID   string    `json:"id"`   // of the alarm, or of an incident: then it is of each of its alarms
	Mark string    `json:"mark"` // one of Marks
	Time time.Time `json:"time"` // from when on it acts
	Key  *string   `json:"key,omitempty"`
	Note string    `json:"note,omitempty"`
}

// What a Mark may say.
const (
	MarkedFalse    = "false"
	MarkedTrue     = "true"
	MarkedExpected = "expected"
)

// Marks are those that there are.
func Marks() []string { return []string{MarkedFalse, MarkedTrue, MarkedExpected} }

// Check says why it is no mark.
func (m *Mark) Check() error {
	switch {
	case m.ID == "":
		return errors.New("id: missing; it is required")
	case !slices.Contains(Marks(), m.Mark):
		return fmt.Errorf("mark: %s is none of %s", message.Quote(m.Mark), strings.Join(Marks(), ", "))
	case m.Time.IsZero():
		return errors.New("time: missing; it is required")
	}
	return nil
}

// ParseMark reads the line of a mark.
func ParseMark(line []byte) (m Mark, err error) {
	if m, err = jsontext.Strict[Mark](line); err == nil {
		err = m.Check()
	}
	if err != nil {
		return m, fmt.Errorf("is no mark: %w", err)
	}
	return m, nil
}

// Line is the line that ParseMark reads.
func (m Mark) Line() []byte { return append([]byte(jsontext.Of(m)), '\n') }

// Of reports whether the mark is of an alarm with a key and an id, which is in an incident if that is not empty.
func (m *Mark) Of(key, id, incident string) bool {
	return (m.ID == id || incident != "" && m.ID == incident) && (m.Key == nil || *m.Key == key)
}

// ReadMarks reads a file of marks. Of several with one id and key the last holds. An error names the line.
func ReadMarks(path string) (all []Mark, err error) {
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
		all = slices.DeleteFunc(all, func(o Mark) bool {
			return o.ID == m.ID && (o.Key == nil) == (m.Key == nil) && (m.Key == nil || *o.Key == *m.Key)
		})
		all = append(all, m)
	}
	return all, nil
}
