package decode

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"hafvf/connectors"
	"hafvf/internal/series"
	"hafvf/pipeline/config"
)

// A JSON object of the layout wide or series contains several observations. Each is read from the fields that a
// separate object for it would have.
//
// An objectPart is one observation of an object. fields are the raw values of key, time and value, in the order of
// Parser.names.

// An objectPart is one observation of an object: the raw values of key, time and value, in the order of a parser's
// names.
type objectPart struct {
	record int // index among the records that are decoded together
	fields [][]byte
	number int    // index in a series, from 0; −1 otherwise
	raw    []byte // the observation's part of the object; nil if err is set
	err    error
	lost   int // if err is set: see Decoded.LostObservations
}

// splits reports whether a JSON object contains several observations.
func (p *Parser) splits() bool { return p.Layout == config.Wide || p.Layout == config.Series }

// split appends the observations of a JSON object to parts, or a part with an error.
func (p *Parser) split(parts []objectPart, record int, line []byte) []objectPart {
	n := len(parts)
	if p.Layout == config.Series {
		for _, series := range answered(line) {
			var err error
			own := len(parts)
			if parts, err = p.splitSeries(parts, record, own-n, series); err != nil {
				parts = append(parts[:own], objectPart{record: record, number: -1, err: err})
			}
		}
		return parts
	}
	parts, err := p.splitWide(parts, record, line)
	if err != nil {
		return append(parts[:n], p.lost(record, err))
	}
	p.width = len(parts) - n
	return parts
}

// lost returns the part of a record that cannot be read. lost is the number of columns of a wide record or, if they
// are patterns, the number of observations of the previous record.
func (p *Parser) lost(record int, err error) objectPart {
	return objectPart{record: record, number: -1, err: err, lost: max(len(p.columns), p.width)}
}

// splitWide appends an observation for each field of values. The name of the field is the last part of the key. A
// pattern matches fields of numbers; null is a missing number.
func (p *Parser) splitWide(parts []objectPart, record int, line []byte) ([]objectPart, error) {
	keys := p.TimeAt() - 1           // key and session fields; the name of the value field follows
	common := make([][]byte, keys+1) // key and time
	n := len(parts)
	seen := map[string]int{} // index in parts by quoted name
	err := scanObject(line, func(quoted, value []byte) {
		p.shared.assign(common, quoted, value)
		name := string(plainName(quoted))
		if slices.Contains(p.Time, name) || slices.Contains(p.names[:keys], name) {
			return
		}
		named := p.columns[name]
		if !named && !slices.ContainsFunc(p.patterns, func(matches func(string) bool) bool { return matches(name) }) {
			return
		}
		if kind := kindOf(extendedNumber(value)); !named && kind != jsonNumber && kind != jsonNaN && kind != jsonNull {
			return
		}
		same, repeated := seen[string(quoted)]
		if !repeated && len(seen) > connectors.MaxColumns {
			return // the record is rejected
		}
		raw := slices.Concat(quoted, []byte(":"), value)
		if repeated { // the last occurrence wins
			parts[same].fields[keys+2], parts[same].raw = value, raw
			return
		}
		seen[string(quoted)] = len(parts)
		fields := make([][]byte, keys+3)
		fields[keys], fields[keys+2] = quoted, value
		parts = append(parts, objectPart{record: record, fields: fields, number: -1, raw: raw})
	})
	if err == nil && len(seen) > connectors.MaxColumns {
		err = fmt.Errorf("more than %d fields of values; split the record, or write one for each value", connectors.MaxColumns)
	}
	if err != nil {
		return parts, err
	}
	for _, o := range parts[n:] {
		copy(o.fields, common[:keys])
		o.fields[keys+1] = common[keys]
	}
	if len(parts) == n {
		return parts, fmt.Errorf("no field with a number matches %s", strings.Join(p.Columns, ", "))
	}
	return parts, nil
}

// answered returns the series of a Prometheus response to query_range, which is one object. For other lines it
// returns the line itself.
func answered(line []byte) (series [][]byte) {
	if !bytes.Contains(line, []byte(`"resultType"`)) {
		return [][]byte{line}
	}
	result, err := fieldOf(line, "data.result")
	if err == nil && result != nil && kindOf(result) == jsonList {
		series, _ = listOf(result, "result")
	}
	if len(series) == 0 {
		return [][]byte{line}
	}
	return series
}

// splitSeries appends an observation per value. The line has a list of times and a list of values, a list of pairs of
// time and value or, if no time field is configured, a list of values. A value may be a number in quotes. first is the
// number of the first observation within its line. splitSeries returns an error for lists of different lengths.
func (p *Parser) splitSeries(parts []objectPart, record, first int, line []byte) ([]objectPart, error) {
	fields := make([][]byte, len(p.names))
	if err := p.scan(line, fields); err != nil {
		return parts, err
	}
	keys := p.TimeAt()
	timeName := p.names[keys]
	values, err := listOf(fields[keys+1], p.Values[0])
	if err != nil {
		return parts, err
	}
	var times [][]byte
	switch {
	case timeName == "" && len(values) > 0 && kindOf(values[0]) != jsonList: // trials in the order of the source
		times = make([][]byte, len(values))
	case timeName == "" || fields[keys] == nil:
		for i, pair := range values {
			elements, err := listOf(pair, p.Values[0])
			if err != nil || len(elements) != 2 {
				return parts, fmt.Errorf("no list of times %q, and the elements of %q are not pairs of a time and a value", timeName, p.Values[0])
			}
			times = append(times, elements[0])
			values[i] = elements[1]
		}
	default:
		if times, err = listOf(fields[keys], timeName); err != nil {
			return parts, err
		}
	}
	if len(times) != len(values) {
		return parts, fmt.Errorf("%d times in %q and %d values in %q", len(times), timeName, len(values), p.Values[0])
	}
	for i := range values {
		own := append(slices.Clone(fields[:keys]), times[i], values[i])
		raw := values[i]
		if times[i] != nil {
			raw = slices.Concat([]byte("["), times[i], []byte(","), values[i], []byte("]"))
		}
		parts = append(parts, objectPart{record: record, fields: own, number: first + i, raw: raw})
	}
	return parts, nil
}

// listOf returns the elements of a list. name is for errors.
func listOf(raw []byte, name string) (elements [][]byte, err error) {
	switch {
	case raw == nil:
		return nil, fmt.Errorf("no field %q", name)
	case kindOf(raw) != jsonList:
		return nil, fmt.Errorf("the field %q is %s; the layout series needs a list", name, kindOf(raw))
	}
	for s := (scanner{b: raw, i: 1}); s.next(); {
		elements = append(elements, s.element())
	}
	return elements, nil
}

// labels formats an object of labels like a series in Prometheus: name{a="b",…}.
func labels(object []byte) (string, error) {
	values := map[string]string{}
	var err error
	eachField(object, func(label, value []byte) {
		text, ok := scalarText(value)
		if !ok {
			err = fmt.Errorf("the label %q of the key is %s, not text", label, kindOf(value))
		}
		values[string(label)] = text
	})
	if err != nil {
		return "", err
	}
	name := series.Key(values)
	if name == "" {
		return "", errEmptyKey
	}
	return name, nil
}
