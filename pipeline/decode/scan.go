package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// scanObject checks that line is one JSON object. It calls f with the quoted name and the raw value of each field.
func scanObject(line []byte, f func(name, value []byte)) error {
	s := scanner{b: line}
	s.space()
	if s.current() != '{' {
		if err := s.value(0); err != nil {
			return err
		}
		return errors.New("not a JSON object")
	}
	if err := s.composite('{', 0, f); err != nil {
		return err
	}
	return s.end()
}

// plainName returns a name without its quotes and escapes.
func plainName(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		if s, err := unquote(quoted); err == nil {
			return []byte(s)
		}
	}
	return quoted[1 : len(quoted)-1]
}

// follow returns the value at a path, or nil. The path is the name of the value, or the name followed by a path
// inside the value. The value has been scanned.
func follow(path string, name, value []byte) (found []byte) {
	if path == string(name) {
		return value
	}
	if len(path) <= len(name) || path[len(name)] != '.' || path[:len(name)] != string(name) || value[0] != '{' {
		return nil
	}
	found, _ = fieldOf(value, path[len(name)+1:])
	return found
}

// Leaves calls f with every field of the JSON object in line, and of objects within it. path has dots. scalar is true
// for texts, numbers, booleans, null and NaN; text is empty for null and NaN. For other values, text is their
// beginning. Leaves returns an error if line is not a JSON object.
func Leaves(line []byte, f func(path, text string, scalar bool)) error {
	if err := scanObject(line, func(_, _ []byte) {}); err != nil {
		return err
	}
	leaves(line, "", f)
	return nil
}

func leaves(object []byte, prefix string, f func(path, text string, scalar bool)) {
	eachField(object, func(name, value []byte) {
		path := prefix + string(name)
		if value[0] == '{' {
			leaves(value, path+".", f)
			return
		}
		text, scalar := scalarText(value)
		f(path, text, scalar)
	})
}

// eachField calls f with the fields of an object that has been scanned.
func eachField(object []byte, f func(name, value []byte)) {
	if err := scanObject(object, func(name, value []byte) { f(plainName(name), value) }); err != nil {
		panic("decode: object was not scanned: " + err.Error())
	}
}

// maxBeginning is the maximum number of bytes of a list in scalarText.
const maxBeginning = 64

// scalarText returns the text of a JSON text, number or boolean, and an empty text for null and NaN. For other values
// ok is false, and text is the beginning of the value.
func scalarText(raw []byte) (text string, ok bool) {
	switch kindOf(raw) {
	case jsonText:
		text, _ = unquote(raw)
	case jsonNumber, jsonBool, jsonInfinity:
		text = string(raw)
	case jsonNull, jsonNaN:
	default:
		return string(raw[:min(len(raw), maxBeginning)]), false
	}
	return strings.TrimSpace(text), true
}

// unquote returns the text of a JSON string that has been scanned.
func unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

type jsonKind byte

const (
	jsonNull     jsonKind = 'n'
	jsonBool     jsonKind = 't'
	jsonNumber   jsonKind = '0'
	jsonNaN      jsonKind = 'N'
	jsonInfinity jsonKind = 'I'
	jsonText     jsonKind = '"'
	jsonList     jsonKind = '['
	jsonObject   jsonKind = '{'
)

var kindNames = map[jsonKind]string{
	jsonNull: "null", jsonBool: "a boolean", jsonNumber: "a number", jsonNaN: "NaN",
	jsonInfinity: "infinity", jsonText: "a text", jsonList: "a list", jsonObject: "an object",
}

func (k jsonKind) String() string { return kindNames[k] }

// kindOf returns the kind of a value that has been scanned.
func kindOf(raw []byte) jsonKind {
	switch c := raw[0]; c {
	case 'f':
		return jsonBool
	case '-':
		if raw[1] == 'I' {
			return jsonInfinity
		}
		return jsonNumber
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return jsonNumber
	default:
		return jsonKind(c)
	}
}

// A scanner moves through JSON text and checks its grammar.
type scanner struct {
	b []byte
	i int
}

// maxDepth is the maximum nesting of a record, as in encoding/json.
const maxDepth = 10_000

func (s *scanner) fail(reason string) error {
	if s.i >= len(s.b) {
		return errors.New("not JSON: it ends too early")
	}
	return fmt.Errorf("not JSON: %s at byte %d", reason, s.i+1)
}

// current returns the current byte, or 0 at the end. JSON has no 0 outside strings.
func (s *scanner) current() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

// end checks that only spaces follow.
func (s *scanner) end() error {
	if s.space(); s.i < len(s.b) {
		return s.fail("something follows the object")
	}
	return nil
}

// words are the literal values by their first letters.
var words = map[byte]string{'n': "null", 't': "true", 'f': "false", 'N': "NaN", 'I': "Infinity"}

// value moves past one value.
func (s *scanner) value(depth int) error {
	switch c := s.current(); c {
	case '"':
		return s.text()
	case '{', '[':
		if depth >= maxDepth {
			return errors.New("nested too deep")
		}
		return s.composite(c, depth, nil)
	case 'n', 't', 'f', 'N', 'I':
		return s.word(words[c])
	default:
		if c != '-' && (c < '0' || c > '9') {
			return s.fail("a value expected")
		}
		return s.number()
	}
}

// composite moves past a list or an object. If field is not nil, it is called with the quoted name and the raw value
// of each field.
func (s *scanner) composite(open byte, depth int, field func(name, value []byte)) error {
	closing := open + 2 // in ASCII, for both '{' and '['
	s.i++
	s.space()
	if s.current() == closing {
		s.i++
		return nil
	}
	for {
		s.space()
		var name []byte
		if open == '{' {
			from := s.i
			if err := s.text(); err != nil {
				return err
			}
			name = s.b[from:s.i]
			s.space()
			if s.current() != ':' {
				return s.fail("':' expected")
			}
			s.i++
			s.space()
		}
		from := s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if field != nil {
			field(name, s.b[from:s.i])
		}
		s.space()
		switch s.current() {
		case ',':
			s.i++
		case closing:
			s.i++
			return nil
		default:
			return s.fail("',' or '" + string(rune(closing)) + "' expected")
		}
	}
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return s.fail("a value expected")
	}
	s.i += len(w)
	return nil
}

func (s *scanner) number() error {
	if s.current() == '-' {
		s.i++
		if s.current() == 'I' {
			return s.word("Infinity")
		}
	}
	if s.current() == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("a digit expected")
	}
	if s.current() == '.' {
		s.i++
		if !s.digits() {
			return s.fail("a digit expected")
		}
	}
	if c := s.current(); c == 'e' || c == 'E' {
		s.i++
		if c := s.current(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.fail("a digit expected")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}

// text moves past a string.
func (s *scanner) text() error {
	if s.current() != '"' {
		return s.fail("a string expected")
	}
	for s.i++; ; s.i++ {
		// This loop is the hot path.
		for s.i < len(s.b) && s.b[s.i] >= ' ' && s.b[s.i] != '"' && s.b[s.i] != '\\' {
			s.i++
		}
		switch c := s.current(); {
		case c == '"':
			s.i++
			return nil
		case c < ' ':
			return s.fail("a control character in a string")
		case c == '\\':
			s.i++
			switch s.current() {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					s.i++
					if c := s.current(); (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
						return s.fail("a hexadecimal digit expected")
					}
				}
			default:
				return s.fail("an unknown escape in a string")
			}
		}
	}
}

// next moves to the next element of a list that has been scanned. It reports whether there is one.
func (s *scanner) next() bool {
	s.space()
	if s.current() == ',' {
		s.i++
		s.space()
	}
	return s.current() != ']'
}

// element moves past an element and returns it.
func (s *scanner) element() []byte {
	from := s.i
	if err := s.value(0); err != nil {
		panic("decode: list was not scanned")
	}
	return s.b[from:s.i]
}
