package connectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A flattener finds the values at given paths in JSON objects without decoding
// the rest. It trusts its input to be JSON: what it can tell is not, is an
// error, but it does not look for everything.
type flattener struct {
	root   *branch
	values [][]byte // of the current line, by column; nil where there is none
}

// A branch is a place in an object that some paths lead to or through.
type branch struct {
	column int // that ends here, or −1
	below  map[string]*branch
}

var (
	null    = []byte("null")
	errJSON = errors.New("the line is not a JSON object")
)

func newFlattener(columns []Column) (*flattener, error) {
	if len(columns) == 0 {
		return nil, errors.New("there are no columns")
	}
	f := &flattener{root: &branch{column: -1}, values: make([][]byte, len(columns))}
	for i, c := range columns {
		at := f.root
		for name := range strings.SplitSeq(c.Path, ".") {
			if name == "" || strings.Contains(name, ",") {
				return nil, fmt.Errorf("column %q is not a path: names and indices with points between them, without commas", c.Path)
			}
			next := at.below[name]
			if next == nil {
				next = &branch{column: -1}
				if at.below == nil {
					at.below = map[string]*branch{}
				}
				at.below[name] = next
			}
			at = next
		}
		if at.column >= 0 {
			return nil, fmt.Errorf("column %q is there twice", c.Path)
		}
		at.column = i
	}
	return f, nil
}

// each calls row with the values of each line, as JSON text, valid during the
// call.
func (f *flattener) each(lines []byte, row func(values [][]byte) error) error {
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		clear(f.values)
		at := space(line, 0)
		if line[at] != '{' {
			return errJSON
		}
		end, err := f.walk(line, at, f.root)
		if err == nil && space(line, end) != len(line) {
			err = errJSON
		}
		if err != nil {
			return err
		}
		if err := row(f.values); err != nil {
			return err
		}
	}
	return nil
}

// walk visits the value that begins at b[i] and returns where it ends.
func (f *flattener) walk(b []byte, i int, at *branch) (end int, err error) {
	switch {
	case i == len(b):
		return 0, errJSON
	case at.below != nil && b[i] == '{':
		end, err = f.object(b, i, at)
	case at.below != nil && b[i] == '[':
		end, err = f.array(b, i, at)
	default:
		end, err = skip(b, i)
	}
	if err == nil && at.column >= 0 {
		f.values[at.column] = b[i:end]
	}
	return end, err
}

func (f *flattener) object(b []byte, i int, at *branch) (int, error) {
	for i = space(b, i+1); i < len(b) && b[i] == '"'; i = space(b, i+1) {
		end, err := skip(b, i)
		if err != nil {
			return 0, err
		}
		name := b[i+1 : end-1]
		below := at.below[string(name)]
		if bytes.IndexByte(name, '\\') >= 0 {
			s, err := text(b[i:end])
			if err != nil {
				return 0, err
			}
			below = at.below[s]
		}
		if i = space(b, end); i == len(b) || b[i] != ':' {
			return 0, errJSON
		}
		if i, err = f.visit(b, space(b, i+1), below); err != nil {
			return 0, err
		}
		if i = space(b, i); i == len(b) || b[i] != ',' {
			break
		}
	}
	if i == len(b) || b[i] != '}' {
		return 0, errJSON
	}
	return i + 1, nil
}

func (f *flattener) array(b []byte, i int, at *branch) (int, error) {
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for n := int64(0); ; n++ {
		var digits [20]byte
		below := at.below[string(strconv.AppendInt(digits[:0], n, 10))]
		var err error
		if i, err = f.visit(b, i, below); err != nil {
			return 0, err
		}
		i = space(b, i)
		if i < len(b) && b[i] == ',' {
			i = space(b, i+1)
			continue
		}
		if i == len(b) || b[i] != ']' {
			return 0, errJSON
		}
		return i + 1, nil
	}
}

// visit is walk where no path may lead.
func (f *flattener) visit(b []byte, i int, at *branch) (int, error) {
	if at == nil {
		return skip(b, i)
	}
	return f.walk(b, i, at)
}

// space returns the index of the first byte from i on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns where the value that begins at b[i] ends.
func skip(b []byte, i int) (int, error) {
	start, depth := i, 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if i >= len(b) {
				return 0, errJSON
			}
			i++
			if depth == 0 {
				return i, nil
			}
		case '{', '[':
			depth++
			i++
		case '}', ']', ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				if i == start {
					return 0, errJSON
				}
				return i, nil
			}
			i++
			if c == '}' || c == ']' {
				if depth--; depth == 0 {
					return i, nil
				}
			}
		default:
			i++
		}
	}
	if depth > 0 || i == start {
		return 0, errJSON
	}
	return i, nil
}

// text returns the text of a field: a string without its quotes, nothing for
// null, anything else as its JSON.
func text(v []byte) (string, error) {
	switch {
	case len(v) == 0 || bytes.Equal(v, null):
		return "", nil
	case v[0] != '"':
		return string(v), nil
	case bytes.IndexByte(v, '\\') < 0:
		return string(v[1 : len(v)-1]), nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", errJSON
	}
	return s, nil
}
