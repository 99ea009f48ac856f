package decode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"hafvf/connectors"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
)

// What is carried of a record is a JSON object, see keyed.Observation.

// carriedCells is what is carried of a row. A cell is a number if JSON has it so, null if it is empty, and
// else a text.
func (p *Parser) carriedCells(cells []string) string {
	var b []byte
	for i, cell := range cells {
		b = p.carryName(b, i)
		s := scanner{b: []byte(cell)}
		switch {
		case cell == "":
			b = append(b, "null"...)
		case s.number() == nil && s.i == len(cell):
			b = append(b, cell...)
		default:
			b = append(b, quotedText(cell)...)
		}
	}
	return string(append(b, '}'))
}

// carriedFields is what is carried of an object, which may lack some of it.
func (p *Parser) carriedFields(fields [][]byte) string {
	var b []byte
	for i, value := range fields {
		if value == nil {
			continue
		}
		b = p.carryName(b, i)
		var line bytes.Buffer
		if json.Compact(&line, value) != nil { // a bare NaN
			line.Reset()
			line.WriteString("null")
		}
		b = append(b, line.Bytes()...)
	}
	if b == nil {
		return "{}"
	}
	return string(append(b, '}'))
}

// carryName appends the name of what is carried, in an object that may have others before.
func (p *Parser) carryName(b []byte, i int) []byte {
	between := byte(',')
	if len(b) == 0 {
		between = '{'
	}
	return append(append(append(b, between), p.carry[i]...), ':')
}

func quotedText(s string) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	to.Encode(s) // what is no UTF-8 becomes U+FFFD
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Carried looks at all files of a source for what the names and patterns of carry match. It returns what
// patterns have found. A field that is named has to be in some record; of columns the reader sees to that.
func Carried(src connectors.Source, f config.Fields, carry []string) (found []string, err error) {
	var patterns []func(string) bool
	for _, want := range carry {
		if connectors.IsPattern(want) {
			patterns = append(patterns, connectors.Matcher(want))
		}
	}
	tables := connectors.FormatOf(src.Format).Columns
	switch {
	case src.Once() && len(patterns) > 0:
		return nil, fmt.Errorf("what the patterns of carry match has to be looked for, and %s comes once: name its %s", src.Path, map[bool]string{true: "columns", false: "fields"}[tables])
	case src.Once() || tables && len(patterns) == 0:
		return nil, nil
	}
	known := slices.Concat(f.By, f.Key, f.Time, f.Values, f.Carry)
	see := func(name string) {
		if !slices.Contains(known, name) && slices.ContainsFunc(patterns, func(matches func(string) bool) bool { return matches(name) }) {
			known, found = append(known, name), append(found, name)
		}
	}
	if tables {
		return found, connectors.Headers(src, func(columns []string) {
			for _, name := range columns {
				see(name)
			}
		})
	}
	lacking := slices.Clone(f.Carry)
	in, err := connectors.Open(src)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	for {
		r, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		scanObject(r.Raw, func(quoted, value []byte) { // what is no object is rejected
			name := plainName(quoted)
			lacking = slices.DeleteFunc(lacking, func(want string) bool { return follow(want, name, value) != nil })
			if len(patterns) > 0 {
				see(string(name))
			}
		})
		if len(lacking) == 0 && len(patterns) == 0 {
			break
		}
	}
	if len(lacking) > 0 {
		return nil, fmt.Errorf("no record of %s has the field %s, which carry names", message.Quote(src.Path), strings.Join(lacking, ", "))
	}
	return found, nil
}
