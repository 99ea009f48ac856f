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

// carriedCells returns the carried cells of a row as a JSON object, see keyed.Observation. A cell is a number if it
// is a JSON number, null if it is empty, and otherwise a text.
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

// carriedFields returns the carried fields of a JSON object. Fields that the object lacks are left out.
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

// carryName appends the name of the i-th carried field to an object. An empty b starts the object.
func (p *Parser) carryName(b []byte, i int) []byte {
	separator := byte(',')
	if len(b) == 0 {
		separator = '{'
	}
	return append(append(append(b, separator), p.carry[i]...), ':')
}

func quotedText(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // invalid UTF-8 becomes U+FFFD
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// CarriedColumns finds the names in all files of a source that match the patterns of carry. It returns an error if a
// named field is in no record. The reader checks named columns.
func CarriedColumns(src connectors.Source, f config.Fields, carry []string) (found []string, err error) {
	var patterns []func(string) bool
	for _, want := range carry {
		if connectors.IsPattern(want) {
			patterns = append(patterns, connectors.Matcher(want))
		}
	}
	tables := connectors.FormatOf(src.Format).Columns
	switch {
	case src.ReadsOnce() && len(patterns) > 0:
		return nil, fmt.Errorf("carry has patterns, which need two passes, and %s can be read only once: name its %s", src.Path, map[bool]string{true: "columns", false: "fields"}[tables])
	case src.ReadsOnce() || tables && len(patterns) == 0:
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
		scanObject(r.Raw, func(quoted, value []byte) { // a line that is not an object is rejected later
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
