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

// A JSON object of the layout wide or series holds several observations. Each is read from
// the fields that an object of its own would have.

// An objectPart is one observation of an object: the raw values of key, time and value, in the order
// of a parser's names.
type objectPart struct {
	record int // of those that are decoded together
	fields [][]byte
	number int    // in a series, from 0; −1 otherwise
	raw    []byte // what of the object is this observation's; nil with an error
	err    error
	lost   int // with err, see Decoded
}

// splits reports whether a JSON object holds several observations.
func (p *Parser) splits() bool { return p.Layout == config.Wide || p.Layout == config.Series }

// split appends the observations of a JSON object to parts, or the reason why there are none.
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

// lost stands for a record of which nothing can be read. A wide one would have had an observation in each
// column, or as many as the record before if the columns are patterns.
func (p *Parser) lost(record int, err error) objectPart {
	return objectPart{record: record, number: -1, err: err, lost: max(len(p.columns), p.width)}
}

// splitWide makes an observation of each field of values, whose name is the last part of the
// key. A pattern takes fields of numbers; null is a missing one.
func (p *Parser) splitWide(parts []objectPart, record int, line []byte) ([]objectPart, error) {
	keys := p.TimeAt() - 1          // with the session's, before the name of the field
	given := make([][]byte, keys+1) // key and time
	n := len(parts)
	seen := map[string]int{} // index in parts, by the quoted name
	err := scanObject(line, func(quoted, value []byte) {
		p.shared.assign(given, quoted, value)
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
		same, again := seen[string(quoted)]
		if !again && len(seen) > connectors.MaxColumns {
			return // the record is rejected
		}
		raw := slices.Concat(quoted, []byte(":"), value)
		if again { // the last one counts
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
		copy(o.fields, given[:keys])
		o.fields[keys+1] = given[keys]
	}
	if len(parts) == n {
		return parts, fmt.Errorf("no field of a number is among %s", strings.Join(p.Columns, ", "))
	}
	return parts, nil
}

// answered returns the series of an answer of Prometheus' query_range, which is one object, or the
// line itself.
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

// splitSeries makes an observation of each element of the lists of times and values, of
// each pair of a time and a value, or without times of each value. A value may be a number in quotes. The first observation
// is number first of its line.
func (p *Parser) splitSeries(parts []objectPart, record, first int, line []byte) ([]objectPart, error) {
	fields := make([][]byte, len(p.names))
	if err := p.scan(line, fields); err != nil {
		return parts, err
	}
	keys := p.TimeAt()
	named := p.names[keys]
	values, err := listOf(fields[keys+1], p.Values[0])
	if err != nil {
		return parts, err
	}
	var times [][]byte
	switch {
	case named == "" && len(values) > 0 && kindOf(values[0]) != jsonList: // trials in the order of arrival
		times = make([][]byte, len(values))
	case named == "" || fields[keys] == nil:
		for i, pair := range values {
			two, err := listOf(pair, p.Values[0])
			if err != nil || len(two) != 2 {
				return parts, fmt.Errorf("no list of times %q, and the elements of %q are no pairs of a time and a value", named, p.Values[0])
			}
			times = append(times, two[0])
			values[i] = two[1]
		}
	default:
		if times, err = listOf(fields[keys], named); err != nil {
			return parts, err
		}
	}
	if len(times) != len(values) {
		return parts, fmt.Errorf("%d times in %q and %d values in %q", len(times), named, len(values), p.Values[0])
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

// listOf returns the elements of a list.
func listOf(raw []byte, name string) (all [][]byte, err error) {
	switch {
	case raw == nil:
		return nil, fmt.Errorf("no field %q", name)
	case kindOf(raw) != jsonList:
		return nil, fmt.Errorf("the field %q is %s, where the layout series has a list", name, kindOf(raw))
	}
	for s := (scanner{b: raw, i: 1}); s.next(); {
		all = append(all, s.element())
	}
	return all, nil
}

// labels are an object of labels as Prometheus writes a series: name{a="b",…}.
func labels(object []byte) (string, error) {
	all := map[string]string{}
	var err error
	eachField(object, func(label, value []byte) {
		text, ok := scalarText(value)
		if !ok {
			err = fmt.Errorf("the label %q of the key is %s, not text", label, kindOf(value))
		}
		all[string(label)] = text
	})
	if err != nil {
		return "", err
	}
	name := series.Key(all)
	if name == "" {
		return "", errEmptyKey
	}
	return name, nil
}
