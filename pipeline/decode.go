package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/transforms"
)

var (
	errNoKey    = errors.New("no key")
	errEmptyKey = errors.New("the key is empty")
	errKeyUTF8  = errors.New("the key is not UTF-8")
)

// decodeJSON reads an observation from one JSON object with the fields key, time and x. If
// a field occurs twice, the last one counts. A bare NaN, Infinity or -Infinity is accepted
// wherever JSON allows a value. A numeric key is read as its text. The error is the reason
// for the rejection.
func decodeJSON(line []byte) (key string, obs transforms.Observation, err error) {
	fields, err := scanObject(line)
	if err != nil {
		return "", transforms.Observation{}, err
	}
	if key, err = jsonKey(fields.key); err != nil {
		return "", transforms.Observation{}, err
	}
	obs, err = fields.observation()
	return key, obs, err
}

// observation reads time and x.
func (f *jsonFields) observation() (obs transforms.Observation, err error) {
	if obs.Time, err = jsonTime(f.time); err != nil {
		return transforms.Observation{}, err
	}
	if obs.X, obs.Shape, err = jsonValue(f.x); err != nil {
		return transforms.Observation{}, err
	}
	return obs, nil
}

// decodeFields reads an observation from the columns of a table: key, time (may be empty)
// and values. Several values make one vector. The error is the reason for the rejection.
func decodeFields(fields []string) (key string, obs transforms.Observation, err error) {
	const values = 2 // where they begin
	if len(fields) <= values {
		return "", transforms.Observation{}, fmt.Errorf("%d fields; at least %d are needed", len(fields), values+1)
	}
	key = fields[0]
	switch {
	case key == "":
		return "", transforms.Observation{}, errEmptyKey
	case !utf8.ValidString(key):
		return "", transforms.Observation{}, errKeyUTF8
	}
	if obs.Time, err = parseTime(fields[1]); err != nil {
		return "", transforms.Observation{}, err
	}
	fields = fields[values:]
	obs.X = row(len(fields))
	if len(fields) > 1 {
		obs.Shape = transforms.Vector
	}
	for i, f := range fields {
		if obs.X[0][i], err = parseField(f); err != nil {
			if len(fields) > 1 {
				err = fmt.Errorf("value %d: %w", i+1, err)
			}
			return "", transforms.Observation{}, err
		}
	}
	return key, obs, nil
}

// row returns one vector of n zeros, in one allocation for a scalar.
func row(n int) [][]float64 {
	if n > 1 {
		return [][]float64{make([]float64, n)}
	}
	one := new(struct {
		rows   [1][]float64
		values [1]float64
	})
	one.rows[0] = one.values[:]
	return one.rows[:]
}

// parseField reads a decimal number. An empty field and "NaN" are NaN.
func parseField(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if missingText(s) {
		return math.NaN(), nil
	}
	for i := range len(s) {
		// ParseFloat alone would accept hexadecimal numbers and "inf" too.
		if c := s[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, notNumber(s)
		}
	}
	return parseNumber(s)
}

func missingText(s string) bool {
	return s == "" || len(s) == 3 && strings.EqualFold(s, "nan")
}

func parseNumber(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, strconv.ErrRange):
		// The clone keeps the caller's s off the heap.
		return 0, fmt.Errorf("the number %s is out of range", strings.Clone(message.Shorten(s)))
	}
	return 0, notNumber(s)
}

func notNumber(s string) error {
	if t := strings.ToLower(strings.TrimLeft(s, "+-")); t == "inf" || t == "infinity" {
		return errInfinite
	}
	return fmt.Errorf("the text %s where a number is due", message.Quote(s))
}

var errInfinite = errors.New("the number is infinite")

// parseTime reads a time as times.Parse does. Empty text and "NaN" mean no time.
func parseTime(s string) (time.Time, error) {
	if missingText(strings.TrimSpace(s)) {
		return time.Time{}, nil
	}
	return times.Parse(s)
}

// jsonFields are the raw values of an object's fields, nil if absent.
type jsonFields struct{ key, time, x []byte }

// scanObject checks that line is one JSON object and returns its fields.
func scanObject(line []byte) (f jsonFields, err error) {
	s := scanner{b: line}
	s.space()
	if s.at() != '{' {
		if err := s.value(0); err != nil {
			return f, err
		}
		return f, errors.New("not a JSON object")
	}
	s.i++
	s.space()
	if s.at() == '}' {
		s.i++
		return f, s.end()
	}
	for {
		s.space()
		name := s.i
		if err := s.text(); err != nil {
			return f, err
		}
		to := f.named(s.b[name:s.i])
		s.space()
		if s.at() != ':' {
			return f, s.fail("':' expected")
		}
		s.i++
		s.space()
		from := s.i
		if err := s.value(1); err != nil {
			return f, err
		}
		if to != nil {
			*to = s.b[from:s.i]
		}
		s.space()
		switch s.at() {
		case ',':
			s.i++
		case '}':
			s.i++
			return f, s.end()
		default:
			return f, s.fail("',' or '}' expected")
		}
	}
}

// named returns the field of that quoted name, nil for other names.
func (f *jsonFields) named(name []byte) *[]byte {
	if bytes.IndexByte(name, '\\') >= 0 {
		s, err := unquote(name)
		if err != nil {
			return nil
		}
		name = []byte(`"` + s + `"`)
	}
	switch string(name) {
	case `"key"`:
		return &f.key
	case `"time"`:
		return &f.time
	case `"x"`:
		return &f.x
	}
	return nil
}

func jsonKey(raw []byte) (string, error) {
	if raw == nil {
		return "", errNoKey
	}
	switch kindOf(raw) {
	case jsonNull:
		return "", errors.New("the key is null")
	case jsonText:
		if len(raw) == len(`""`) {
			return "", errEmptyKey
		}
		if !utf8.Valid(raw) {
			// Replacement characters would merge different keys.
			return "", errKeyUTF8
		}
		return unquote(raw)
	case jsonNumber:
		return string(raw), nil
	}
	return "", fmt.Errorf("the key is %s, not text", kindOf(raw))
}

func jsonTime(raw []byte) (time.Time, error) {
	if raw == nil {
		return time.Time{}, nil
	}
	switch kindOf(raw) {
	case jsonNull, jsonNaN:
		return time.Time{}, nil
	case jsonText:
		if bytes.IndexByte(raw, '\\') < 0 {
			return parseTime(string(raw[1 : len(raw)-1]))
		}
		s, err := unquote(raw)
		if err != nil {
			return time.Time{}, times.Invalid(string(raw))
		}
		return parseTime(s)
	case jsonNumber:
		return times.ParseUnix(string(raw))
	}
	return time.Time{}, fmt.Errorf("the time is %s, not text or a number", kindOf(raw))
}

// jsonValue reads x: a number, a vector, or a list of vectors. In a list of vectors, null
// is a missing vector.
func jsonValue(raw []byte) ([][]float64, transforms.Shape, error) {
	if raw == nil || kindOf(raw) != jsonList {
		x := row(1)
		var err error
		x[0][0], err = jsonComponent(raw)
		return x, transforms.Scalar, err
	}

	// The number of commas bounds the number of components: the rows share one array.
	all := make([]float64, 0, bytes.Count(raw, []byte(","))+1)
	var rows [][]float64
	nested := bytes.IndexByte(raw[1:], '[') >= 0 // or a text with a bracket, which is rejected
	vectors, numbers := false, false
	for s := (scanner{b: raw, i: 1}); s.next(); {
		element := s.element()
		if kindOf(element) != jsonList {
			v, err := jsonComponent(element)
			if err != nil {
				return nil, transforms.List, err
			}
			numbers = numbers || !math.IsNaN(v)
			all = append(all, v)
			if nested {
				rows = append(rows, all[len(all)-1:len(all):len(all)])
			}
			continue
		}
		vectors = true
		from := len(all)
		for t := (scanner{b: element, i: 1}); t.next(); {
			component := t.element()
			if kindOf(component) == jsonList {
				return nil, transforms.List, errors.New("x is nested too deep: at most a list of vectors")
			}
			v, err := jsonComponent(component)
			if err != nil {
				return nil, transforms.List, err
			}
			all = append(all, v)
		}
		if len(all) == from {
			all = append(all, math.NaN())
		}
		rows = append(rows, all[from:len(all):len(all)])
	}
	switch {
	case len(all) == 0:
		return [][]float64{}, transforms.List, nil
	case vectors && numbers:
		return nil, transforms.List, errors.New("x mixes numbers and vectors")
	case vectors:
		return rows, transforms.List, nil
	}
	return [][]float64{all}, transforms.Vector, nil
}

// jsonComponent reads a number. null is NaN.
func jsonComponent(raw []byte) (float64, error) {
	if raw == nil {
		return math.NaN(), nil
	}
	switch kindOf(raw) {
	case jsonNull, jsonNaN:
		return math.NaN(), nil
	case jsonNumber:
		return parseNumber(string(raw))
	case jsonInfinity:
		return 0, errInfinite
	case jsonText:
		s, err := unquote(raw)
		if err != nil || !missingText(strings.TrimSpace(s)) {
			return 0, notNumber(s)
		}
		return math.NaN(), nil
	}
	return 0, fmt.Errorf("%s where a number is due", kindOf(raw))
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

func (k jsonKind) String() string {
	switch k {
	case jsonNull:
		return "null"
	case jsonBool:
		return "a boolean"
	case jsonNumber:
		return "a number"
	case jsonNaN:
		return "NaN"
	case jsonInfinity:
		return "infinity"
	case jsonText:
		return "a text"
	case jsonList:
		return "a list"
	}
	return "an object"
}

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

// maxDepth bounds the nesting of a record, as encoding/json does.
const maxDepth = 10_000

func (s *scanner) fail(reason string) error {
	if s.i >= len(s.b) {
		return errors.New("not JSON: it ends too early")
	}
	return fmt.Errorf("not JSON: %s at byte %d", reason, s.i+1)
}

// at returns the current byte, and 0 at the end. JSON has no 0 outside of strings.
func (s *scanner) at() byte {
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

// end checks that nothing follows.
func (s *scanner) end() error {
	if s.space(); s.i < len(s.b) {
		return s.fail("something follows the object")
	}
	return nil
}

// value moves past one value.
func (s *scanner) value(depth int) error {
	switch c := s.at(); c {
	case '"':
		return s.text()
	case '{', '[':
		if depth >= maxDepth {
			return errors.New("nested too deep")
		}
		return s.composite(c, depth)
	case 'n':
		return s.word("null")
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'N':
		return s.word("NaN")
	case 'I':
		return s.word("Infinity")
	default:
		if c != '-' && (c < '0' || c > '9') {
			return s.fail("a value expected")
		}
		return s.number()
	}
}

func (s *scanner) composite(open byte, depth int) error {
	closing := open + 2 // in ASCII, of both '{' and '['
	s.i++
	s.space()
	if s.at() == closing {
		s.i++
		return nil
	}
	for {
		s.space()
		if open == '{' {
			if err := s.text(); err != nil {
				return err
			}
			s.space()
			if s.at() != ':' {
				return s.fail("':' expected")
			}
			s.i++
			s.space()
		}
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		switch s.at() {
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
	if s.at() == '-' {
		s.i++
		if s.at() == 'I' {
			return s.word("Infinity")
		}
	}
	if s.at() == '0' {
		s.i++
	} else if !s.digits() {
		return s.fail("a digit expected")
	}
	if s.at() == '.' {
		s.i++
		if !s.digits() {
			return s.fail("a digit expected")
		}
	}
	if c := s.at(); c == 'e' || c == 'E' {
		s.i++
		if c := s.at(); c == '+' || c == '-' {
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
	if s.at() != '"' {
		return s.fail("a string expected")
	}
	for s.i++; ; s.i++ {
		// The hot path.
		for s.i < len(s.b) && s.b[s.i] >= ' ' && s.b[s.i] != '"' && s.b[s.i] != '\\' {
			s.i++
		}
		switch c := s.at(); {
		case c == '"':
			s.i++
			return nil
		case c < ' ':
			return s.fail("a control character in a string")
		case c == '\\':
			s.i++
			switch s.at() {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					s.i++
					if c := s.at(); (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
						return s.fail("a hexadecimal digit expected")
					}
				}
			default:
				return s.fail("an unknown escape in a string")
			}
		}
	}
}

// next moves to the next element of a list that has been scanned, and reports
// whether there is one.
func (s *scanner) next() bool {
	s.space()
	if s.at() == ',' {
		s.i++
		s.space()
	}
	return s.at() != ']'
}

// element moves past an element and returns it.
func (s *scanner) element() []byte {
	from := s.i
	if err := s.value(0); err != nil {
		panic("pipeline: list was not scanned")
	}
	return s.b[from:s.i]
}
