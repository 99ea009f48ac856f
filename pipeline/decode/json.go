package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hafvf/connectors/kafkaio"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

// json reads an observation from one JSON object. If a field occurs twice, the last one wins. A bare NaN, Infinity or
// -Infinity is accepted wherever JSON allows a value. A numeric key is read as its text. The error is the reason for
// the rejection. X is read into the memory of obs.X if possible.
func (p *Parser) json(line []byte, from origin, obs *keyed.Observation) (key string, err error) {
	var small [8][]byte
	fields := small[:]
	if len(p.names) > len(small) {
		fields = make([][]byte, len(p.names))
	}
	fields = fields[:len(p.names)]
	if err := p.scan(line, fields); err != nil {
		return "", err
	}
	return p.observation(fields, from, obs)
}

// observation reads an observation from the raw values of the parser's names. A record that is rejected for its values has
// its key and time all the same.
func (p *Parser) observation(fields [][]byte, from origin, obs *keyed.Observation) (key string, err error) {
	var o keyed.Observation
	session, parts := fields[p.dates:p.keyIndex()], fields[p.keyIndex():p.TimeAt()]
	if err := p.keyOfRecord(parts, from); err != nil {
		return "", err
	}
	if key, err = p.jsonKey(parts, from); err != nil {
		return "", err
	}
	if len(session) > 0 {
		if o.Session, err = p.jsonSession(session); err != nil {
			return "", err
		}
	}
	allFields, fields := fields, fields[p.TimeAt():]
	switch {
	case p.Untimed:
	case p.TimeFormat == config.Trial:
		o.Trial, err = p.jsonTrial(fields[0])
	case len(p.Time) > 0:
		o.Time, err = p.jsonTimes(allFields)
	}
	if err != nil {
		return "", err
	}
	obs.Time = o.Time // also of a record that is rejected for its values
	fields = fields[1:]
	if n := len(fields) - len(p.Carry); len(p.Carry) > 0 {
		o.ExtraFields = p.carriedFields(fields[n:])
		fields = fields[:n]
	}
	for i, name := range p.Values {
		if fields[i] == nil {
			return key, fmt.Errorf("no field %s", message.Quote(name))
		}
	}
	switch len(fields) {
	case 0:
	case 1:
		o.X, o.Shape, err = p.jsonValue(fields[0], obs.X)
	default:
		o.X, o.Shape = row(obs.X, len(fields)), keyed.Vector
		for i, f := range fields {
			if o.X[0][i], err = p.jsonComponent(f); err != nil {
				err = fmt.Errorf("field %s: %w", message.Quote(p.Values[i]), err)
				break
			}
		}
	}
	if err != nil {
		return key, err
	}
	*obs = o
	return key, nil
}

// Clock reads the time of a topic's record. ok is false if there is no time, or if it is too far ahead of the clock.
func (p *Parser) Clock(r *kafkaio.Record) (time.Time, bool) {
	t, err := recordTime(r)
	if !p.UsesRecordTime() {
		fields := make([][]byte, len(p.names))
		if err := p.scan(r.Value, fields); err != nil {
			return time.Time{}, false
		}
		t, err = p.jsonTimes(fields)
	}
	return t, err == nil && !t.IsZero() && p.checkAhead(t, time.Now()) == nil
}

// recordTime returns the timestamp of a topic's record.
func recordTime(r *kafkaio.Record) (time.Time, error) {
	if r.Time.UnixMilli() <= 0 {
		return time.Time{}, errors.New("the Kafka record has no timestamp, which time: {record: true} needs")
	}
	return r.Time, nil
}

// scan checks that line is one JSON object, and sets fields to the raw values of the parser's names. Absent fields
// are nil.
func (p *Parser) scan(line []byte, fields [][]byte) error {
	return scanObject(line, func(name, value []byte) { p.assign(fields, name, value) })
}

// assign sets the field with a quoted name, and the fields whose paths lead into the value.
func (p *Parser) assign(fields [][]byte, name, value []byte) {
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

// keyOfRecord sets the parts of the key that the value lacks, from the fields of the record's key. The record's key
// has fields if it has a schema or is a JSON object.
func (p *Parser) keyOfRecord(parts [][]byte, from origin) error {
	if len(from.key) == 0 || !slices.ContainsFunc(parts, func(part []byte) bool { return part == nil }) {
		return nil
	}
	object := from.key
	switch found := from.found; {
	case found == nil:
		if object = bytes.TrimLeft(object, " \t\r\n"); len(object) == 0 || object[0] != '{' {
			return nil
		}
	case found.KeyReason != "":
		return fmt.Errorf("%w: the value lacks it, and the record's key cannot be read: %s", errNoKey, found.KeyReason)
	case found.KeyFields == nil:
		return nil
	default:
		object = found.KeyFields
	}
	fields := slices.Clone(parts)
	for i := range parts {
		if parts[i] != nil {
			continue
		}
		for _, path := range keyPaths(p.Key[i]) {
			var err error
			if fields[i], err = fieldOf(object, path); err != nil && from.found == nil {
				return nil // a text that only starts like an object
			} else if err != nil {
				return fmt.Errorf("the record's key: %w", err)
			}
			if fields[i] != nil {
				break
			}
		}
	}
	copy(parts, fields)
	return nil
}

// keyPaths returns the paths in a record's key for a path in the value. A change event wraps the fields of its value
// in before and after, but not those of its key.
func keyPaths(path string) []string {
	paths := []string{path}
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		if k := strings.LastIndexByte(path[:i], '.'); k >= 0 {
			paths = append(paths, path[:k]+path[i:])
		}
		paths = append(paths, path[i+1:])
	}
	return paths
}

// fieldOf returns the field of a JSON object at a path, or nil. It returns an error if object is not a JSON object.
func fieldOf(object []byte, path string) (found []byte, err error) {
	err = scanObject(object, func(name, value []byte) {
		if v := follow(path, plainName(name), value); v != nil {
			found = v
		}
	})
	return found, err
}

func (p *Parser) jsonKey(parts [][]byte, from origin) (string, error) {
	switch {
	case from.err != nil:
		return "", from.err
	case len(parts) == 0:
		return from.series, nil
	case len(parts) == 1 && parts[0] == nil && len(from.key) > 0 && (from.found == nil || from.found.KeyFields == nil):
		if !utf8.Valid(from.key) {
			return "", errKeyUTF8
		}
		return string(from.key), nil
	case len(parts) == 1 && p.path == nil:
		return p.jsonKeyPart(0, parts[0])
	}
	var key []string
	for i, raw := range parts {
		part, err := p.jsonKeyPart(i, raw)
		if err != nil {
			return "", p.inPart(i, err)
		}
		key = append(key, part)
	}
	return p.joinKey(key, from), nil
}

func (p *Parser) jsonKeyPart(i int, raw []byte) (string, error) {
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
		key, err := unquote(raw)
		if strings.ContainsRune(key, utf8.RuneError) && hasHalf(raw) {
			return "", errKeyHalf // for the same reason
		}
		return key, err
	case jsonNumber:
		return string(raw), nil
	case jsonObject:
		return labels(raw)
	}
	return "", fmt.Errorf("the key is %s, not text", kindOf(raw))
}

// escapes matches the escapes of a JSON text: a surrogate pair, half of one (in group 1), or another escape.
var escapes = regexp.MustCompile(`(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)`)

// hasHalf reports whether a JSON text has half of a surrogate pair.
func hasHalf(raw []byte) bool {
	return slices.ContainsFunc(escapes.FindAllSubmatch(raw, -1), func(m [][]byte) bool { return m[1] != nil })
}

// jsonSession joins the values of the session fields.
func (p *Parser) jsonSession(fields [][]byte) (string, error) {
	values := make([]string, len(fields))
	for i, raw := range fields {
		if raw == nil {
			return "", fmt.Errorf("no field %s, which session.by names", message.Quote(p.By[i]))
		}
		var scalar bool
		if values[i], scalar = scalarText(raw); !scalar {
			return "", fmt.Errorf("%s, which session.by names, is %s", message.Quote(p.By[i]), kindOf(raw))
		}
	}
	return p.session(values)
}

// jsonTrial reads a trial number.
func (p *Parser) jsonTrial(raw []byte) (int64, error) {
	if raw == nil {
		return 0, fmt.Errorf("no trial number: no field %s", message.Quote(p.Time[0]))
	}
	text, ok := scalarText(raw)
	if !ok {
		return 0, fmt.Errorf("the trial is %s, not a whole number", kindOf(raw))
	}
	return p.trial(text)
}

// jsonTimes reads the time of a record.
func (p *Parser) jsonTimes(fields [][]byte) (time.Time, error) {
	text, several, err := p.joinedTime(fields)
	switch {
	case err != nil:
		return time.Time{}, err
	case several:
		return p.ParseTime(text)
	}
	return p.jsonTime(fields[p.TimeAt()])
}

// joinedTime returns the text of a time in several fields, and whether the time has several fields.
func (p *Parser) joinedTime(fields [][]byte) (text string, several bool, err error) {
	if p.dates == 0 {
		return "", false, nil
	}
	parts := make([]string, len(p.Time))
	for i := range parts {
		raw := fields[p.TimeAt()]
		if i < p.dates {
			raw = fields[i]
		}
		if raw == nil {
			return "", true, nil
		}
		ok := false
		if parts[i], ok = scalarText(raw); !ok {
			return "", true, fmt.Errorf("%s of the time is %s, not text or a number", message.Quote(p.Time[i]), kindOf(raw))
		}
	}
	return joined(parts), true, nil
}

func (p *Parser) jsonTime(raw []byte) (time.Time, error) {
	if raw == nil {
		return time.Time{}, nil
	}
	switch kindOf(raw) {
	case jsonNull, jsonNaN:
		return time.Time{}, nil
	case jsonText:
		if bytes.IndexByte(raw, '\\') < 0 {
			return p.ParseTime(string(raw[1 : len(raw)-1]))
		}
		s, err := unquote(raw)
		if err != nil {
			return time.Time{}, times.Invalid(string(raw))
		}
		return p.ParseTime(s)
	case jsonNumber:
		t, err := p.times.ParseLocalNumber(string(raw))
		return p.checkDays(string(raw), t, err)
	case jsonObject:
		date, isDate := extended(raw, "$date")
		inner := extendedNumber(date)
		if isDate && kindOf(inner) == jsonNumber {
			return times.Milliseconds(string(inner))
		}
		if kindOf(inner) != jsonObject {
			return p.jsonTime(inner)
		}
	}
	return time.Time{}, fmt.Errorf("the time is %s, not text or a number", kindOf(raw))
}

// jsonValue reads x: a number, a vector, or a list of vectors. In a list of vectors, null is a missing vector. A
// number is read into the memory of x if possible.
func (p *Parser) jsonValue(raw []byte, x [][]float64) ([][]float64, keyed.Shape, error) {
	if kindOf(raw) != jsonList {
		x := row(x, 1)
		var err error
		x[0][0], err = p.jsonComponent(raw)
		return x, keyed.Scalar, err
	}

	// The number of commas limits the number of components. The rows share one array.
	components := make([]float64, 0, bytes.Count(raw, []byte(","))+1)
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
			components = append(components, v)
			if nested {
				rows = append(rows, components[len(components)-1:len(components):len(components)])
			}
			continue
		}
		vectors = true
		from := len(components)
		for t := (scanner{b: element, i: 1}); t.next(); {
			component := t.element()
			if kindOf(component) == jsonList {
				return nil, keyed.List, errors.New("x is nested too deep: at most a list of vectors")
			}
			v, err := p.jsonComponent(component)
			if err != nil {
				return nil, keyed.List, err
			}
			components = append(components, v)
		}
		if len(components) == from {
			components = append(components, math.NaN())
		}
		rows = append(rows, components[from:len(components):len(components)])
	}
	switch {
	case len(components) == 0:
		return [][]float64{}, keyed.List, nil
	case vectors && numbers:
		return nil, keyed.List, errors.New("x mixes numbers and vectors")
	case vectors:
		return rows, keyed.List, nil
	}
	return [][]float64{components}, keyed.Vector, nil
}

// extended returns the value of an object with one of the names as its only field, as in MongoDB's extended JSON. For
// other values it returns raw and false.
func extended(raw []byte, names ...string) (value []byte, ok bool) {
	if kindOf(raw) != jsonObject {
		return raw, false
	}
	others := false
	eachField(raw, func(name, inner []byte) {
		value, ok = inner, true
		others = others || !slices.Contains(names, string(name))
	})
	if !ok || others {
		return raw, false
	}
	return value, true
}

// extendedNumber returns the number in an object such as {"$numberDouble": "22.0"}. For other values it returns raw.
func extendedNumber(raw []byte) []byte {
	value, ok := extended(raw, "$numberDouble", "$numberInt", "$numberLong", "$numberDecimal")
	if !ok || kindOf(value) != jsonText {
		return raw
	}
	text, _ := unquote(value)
	inner := []byte(text)
	s := scanner{b: inner}
	if s.value(0) == nil && s.i == len(inner) {
		switch kindOf(inner) {
		case jsonNumber, jsonNaN, jsonInfinity:
			return inner
		}
	}
	return raw
}

// jsonComponent reads a number. null is NaN.
func (p *Parser) jsonComponent(raw []byte) (float64, error) {
	switch kindOf(raw) {
	case jsonNull, jsonNaN:
		return math.NaN(), nil
	case jsonNumber:
		if p.Missing != nil && slices.Contains(p.Missing, string(raw)) {
			return math.NaN(), nil
		}
		if p.ValuesAs != nil {
			return p.choice(string(raw))
		}
		return p.parse(string(raw))
	case jsonInfinity:
		return 0, errInfinite
	case jsonBool:
		switch {
		case p.ValuesAs != nil:
			return p.choice(string(raw))
		case raw[0] == 't':
			return 1, nil
		}
		return 0, nil
	case jsonText:
		s, err := unquote(raw)
		if err != nil {
			return 0, notNumber(s)
		}
		return p.Number(s)
	case jsonObject:
		if inner := extendedNumber(raw); kindOf(inner) != jsonObject {
			return p.jsonComponent(inner)
		}
	}
	return 0, fmt.Errorf("%s where a number is due", kindOf(raw))
}
