package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

var (
	errNoKey    = errors.New("no key")
	errEmptyKey = errors.New("the key is empty")
	errKeyUTF8  = errors.New("the key is not UTF-8")
)

// A parser reads observations of records as config.Fields describes them, of files and
// topics alike.
type parser struct {
	config.Fields
	times *times.Parser
	// names are those of the fields of a JSON object: of the key, the time and the values.
	names  []string
	nested bool // some are paths into objects
	comma  bool // decimal
}

func newParser(f config.Fields) (*parser, error) {
	t, err := times.NewParser(f.Zone, f.TimeFormat)
	if err != nil {
		return nil, err
	}
	p := &parser{Fields: f, times: t, names: slices.Concat(f.Key, []string{f.Time}, f.Values), comma: f.Decimal == ','}
	p.nested = slices.ContainsFunc(p.names, func(name string) bool { return strings.Contains(name, ".") })
	return p, nil
}

// An origin stands in for a key that a record does not have.
type origin struct {
	series string // where records have no keys: the name of the file or topic
	key    []byte // of a topic's record
}

// json reads an observation from one JSON object. If a field occurs twice, the last one
// counts. A bare NaN, Infinity or -Infinity is accepted wherever JSON allows a value. A
// numeric key is read as its text. The error is the reason for the rejection. X is read
// into the memory that obs has for it.
func (p *parser) json(line []byte, from origin, obs *keyed.Observation) (key string, err error) {
	var few [8][]byte
	fields := few[:]
	if len(p.names) > len(few) {
		fields = make([][]byte, len(p.names))
	}
	fields = fields[:len(p.names)]
	var o keyed.Observation
	if err := p.scanObject(line, fields); err != nil {
		return "", err
	}
	if key, err = p.jsonKey(fields[:len(p.Key)], from); err != nil {
		return "", err
	}
	fields = fields[len(p.Key):]
	if p.Time != "" {
		if o.Time, err = p.jsonTime(fields[0]); err != nil {
			return "", err
		}
	}
	fields = fields[1:]
	for i, name := range p.Values {
		if fields[i] == nil {
			return "", fmt.Errorf("no field %s", message.Quote(name))
		}
	}
	if len(fields) == 1 {
		o.X, o.Shape, err = p.jsonValue(fields[0], obs.X)
	} else {
		o.X, o.Shape = row(obs.X, len(fields)), keyed.Vector
		for i, f := range fields {
			if o.X[0][i], err = p.jsonComponent(f); err != nil {
				err = fmt.Errorf("field %s: %w", message.Quote(p.Values[i]), err)
				break
			}
		}
	}
	if err != nil {
		return "", err
	}
	*obs = o
	return key, nil
}

// jsonClock reads the time of a JSON object. It reports false where there is none.
func (p *parser) jsonClock(line []byte) (time.Time, bool) {
	fields := make([][]byte, len(p.names))
	if err := p.scanObject(line, fields); err != nil {
		return time.Time{}, false
	}
	t, err := p.jsonTime(fields[len(p.Key)])
	return t, err == nil && !t.IsZero()
}

// row reads an observation from the columns of a table: the key's, the time's (may be
// empty) and the values'. Several values make one vector. The error is the reason for the
// rejection. X is read into the memory that obs has for it.
func (p *parser) row(fields []string, from origin, obs *keyed.Observation) (key string, err error) {
	values := len(p.Key) + 1 // where they begin
	if len(fields) <= values {
		return "", fmt.Errorf("%d fields; at least %d are needed", len(fields), values+1)
	}
	if key, err = p.rowKey(fields[:len(p.Key)], from); err != nil {
		return "", err
	}
	var o keyed.Observation
	if o.Time, err = p.time(fields[len(p.Key)]); err != nil {
		return "", err
	}
	fields = fields[values:]
	o.X = row(obs.X, len(fields))
	if len(fields) > 1 {
		o.Shape = keyed.Vector
	}
	for i, f := range fields {
		if o.X[0][i], err = p.number(f); err != nil {
			if len(fields) > 1 {
				err = fmt.Errorf("value %d: %w", i+1, err)
			}
			return "", err
		}
	}
	*obs = o
	return key, nil
}

// keySeparator joins the parts of a key.
const keySeparator = "/"

func (p *parser) rowKey(parts []string, from origin) (string, error) {
	for i, part := range parts {
		var err error
		switch {
		case part == "":
			err = errEmptyKey
		case !utf8.ValidString(part):
			err = errKeyUTF8
		default:
			continue
		}
		return "", p.ofPart(i, err)
	}
	switch len(parts) {
	case 0:
		return from.series, nil
	case 1:
		return parts[0], nil
	}
	return strings.Join(parts, keySeparator), nil
}

// ofPart says to which of several parts of the key a reason belongs.
func (p *parser) ofPart(i int, err error) error {
	if len(p.Key) == 1 {
		return err
	}
	return fmt.Errorf("%w, in its part %s", err, message.Quote(p.Key[i]))
}

// row returns one vector of n numbers, in the memory of x where that has room, and else in
// one allocation for a scalar.
func row(x [][]float64, n int) [][]float64 {
	if len(x) == 1 && cap(x[0]) >= n {
		x[0] = x[0][:n]
		return x
	}
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

// number reads a decimal number. A missing one is NaN.
func (p *parser) number(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if p.missing(s) {
		return math.NaN(), nil
	}
	point := byte('.')
	if p.comma {
		point = ','
	}
	for i := range len(s) {
		// ParseFloat alone would accept hexadecimal numbers and "inf" too.
		if c := s[i]; (c < '0' || c > '9') && c != point && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, notNumber(s)
		}
	}
	if p.comma {
		v, err := parseNumber(strings.Replace(s, ",", ".", 1))
		if err != nil && strings.Contains(s, ",") {
			err = notNumber(s)
		}
		return v, err
	}
	return parseNumber(s)
}

// missing reports whether a text stands for a missing value.
func (p *parser) missing(s string) bool {
	return missingText(s) || p.Missing != nil && slices.Contains(p.Missing, s)
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

// time reads a time as times.Parser does. Empty text and "NaN" mean no time.
func (p *parser) time(s string) (time.Time, error) {
	if missingText(strings.TrimSpace(s)) {
		return time.Time{}, nil
	}
	return p.times.Parse(s)
}

// scanObject checks that line is one JSON object, and sets fields to the raw values of
// the parser's names; nil for those that are absent.
func (p *parser) scanObject(line []byte, fields [][]byte) error {
	s := scanner{b: line}
	s.space()
	if s.at() != '{' {
		if err := s.value(0); err != nil {
			return err
		}
		return errors.New("not a JSON object")
	}
	s.i++
	s.space()
	if s.at() == '}' {
		s.i++
		return s.end()
	}
	for {
		s.space()
		from := s.i
		if err := s.text(); err != nil {
			return err
		}
		name := s.b[from:s.i]
		s.space()
		if s.at() != ':' {
			return s.fail("':' expected")
		}
		s.i++
		s.space()
		from = s.i
		if err := s.value(1); err != nil {
			return err
		}
		p.assign(fields, name, s.b[from:s.i])
		s.space()
		switch s.at() {
		case ',':
			s.i++
		case '}':
			s.i++
			return s.end()
		default:
			return s.fail("',' or '}' expected")
		}
	}
}

// assign sets the fields of a quoted name, and those whose paths lead into the value.
func (p *parser) assign(fields [][]byte, name, value []byte) {
	name = plainName(name)
	for i, want := range p.names {
		if string(name) == want {
			fields[i] = value
		} else if p.nested {
			if v := follow(want, name, value); v != nil {
				fields[i] = v
			}
		}
	}
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

// follow returns the value at the path, which is the name of the value, or begins with
// it and goes on inside; nil where there is none. The value has been scanned.
func follow(path string, name, value []byte) (found []byte) {
	if path == string(name) {
		return value
	}
	if len(path) <= len(name) || path[len(name)] != '.' || path[:len(name)] != string(name) || value[0] != '{' {
		return nil
	}
	path = path[len(name)+1:]
	eachField(value, func(name, value []byte) {
		if v := follow(path, name, value); v != nil {
			found = v
		}
	})
	return found
}

// eachField calls f with the fields of an object that has been scanned.
func eachField(object []byte, f func(name, value []byte)) {
	for s := (scanner{b: object, i: 1}); s.next(); {
		name := plainName(s.element())
		s.space()
		s.i++ // the colon
		s.space()
		f(name, s.element())
	}
}

func (p *parser) jsonKey(parts [][]byte, from origin) (string, error) {
	switch {
	case len(parts) == 0:
		return from.series, nil
	case len(parts) == 1 && parts[0] == nil && len(from.key) > 0:
		if !utf8.Valid(from.key) {
			return "", errKeyUTF8
		}
		return string(from.key), nil
	case len(parts) == 1:
		return p.jsonKeyPart(0, parts[0])
	}
	var key []string
	for i, raw := range parts {
		part, err := p.jsonKeyPart(i, raw)
		if err != nil {
			return "", p.ofPart(i, err)
		}
		key = append(key, part)
	}
	return strings.Join(key, keySeparator), nil
}

func (p *parser) jsonKeyPart(i int, raw []byte) (string, error) {
	if raw == nil {
		if p.Key[i] == "key" {
			return "", errNoKey
		}
		return "", fmt.Errorf("%w: no field %s", errNoKey, message.Quote(p.Key[i]))
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

func (p *parser) jsonTime(raw []byte) (time.Time, error) {
	if raw == nil {
		return time.Time{}, nil
	}
	switch kindOf(raw) {
	case jsonNull, jsonNaN:
		return time.Time{}, nil
	case jsonText:
		if bytes.IndexByte(raw, '\\') < 0 {
			return p.time(string(raw[1 : len(raw)-1]))
		}
		s, err := unquote(raw)
		if err != nil {
			return time.Time{}, times.Invalid(string(raw))
		}
		return p.time(s)
	case jsonNumber:
		return p.times.ParseNumber(string(raw))
	}
	return time.Time{}, fmt.Errorf("the time is %s, not text or a number", kindOf(raw))
}

// jsonValue reads x: a number, a vector, or a list of vectors. In a list of vectors, null
// is a missing vector. A number is read into the memory of x.
func (p *parser) jsonValue(raw []byte, x [][]float64) ([][]float64, keyed.Shape, error) {
	if kindOf(raw) != jsonList {
		x := row(x, 1)
		var err error
		x[0][0], err = p.jsonComponent(raw)
		return x, keyed.Scalar, err
	}

	// The number of commas bounds the number of components: the rows share one array.
	all := make([]float64, 0, bytes.Count(raw, []byte(","))+1)
	var rows [][]float64
	nested := bytes.IndexByte(raw[1:], '[') >= 0 // or a text with a bracket, which is rejected
	vectors, numbers := false, false
	for s := (scanner{b: raw, i: 1}); s.next(); {
		element := s.element()
		if kindOf(element) != jsonList {
			v, err := p.jsonComponent(element)
			if err != nil {
				return nil, keyed.List, err
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
				return nil, keyed.List, errors.New("x is nested too deep: at most a list of vectors")
			}
			v, err := p.jsonComponent(component)
			if err != nil {
				return nil, keyed.List, err
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
		return [][]float64{}, keyed.List, nil
	case vectors && numbers:
		return nil, keyed.List, errors.New("x mixes numbers and vectors")
	case vectors:
		return rows, keyed.List, nil
	}
	return [][]float64{all}, keyed.Vector, nil
}

// jsonComponent reads a number. null is NaN.
func (p *parser) jsonComponent(raw []byte) (float64, error) {
	switch kindOf(raw) {
	case jsonNull, jsonNaN:
		return math.NaN(), nil
	case jsonNumber:
		if p.Missing != nil && slices.Contains(p.Missing, string(raw)) {
			return math.NaN(), nil
		}
		return parseNumber(string(raw))
	case jsonInfinity:
		return 0, errInfinite
	case jsonText:
		s, err := unquote(raw)
		if err != nil || !p.missing(strings.TrimSpace(s)) {
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

// next moves to the next element of a list or object that has been scanned, and
// reports whether there is one.
func (s *scanner) next() bool {
	s.space()
	if s.at() == ',' {
		s.i++
		s.space()
	}
	return s.at() != ']' && s.at() != '}'
}

// element moves past an element and returns it.
func (s *scanner) element() []byte {
	from := s.i
	if err := s.value(0); err != nil {
		panic("pipeline: list was not scanned")
	}
	return s.b[from:s.i]
}
