package output

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hafvf/connectors"
)

// TableOf is the format of a table by the name of the file. It reports false of another file.
func TableOf(path string) (format connectors.Format, is bool) {
	ext := filepath.Ext(connectors.Unpacked(path))
	for _, f := range connectors.Formats {
		if f.Columns && slices.Contains(f.Extensions, ext) {
			return f, true
		}
	}
	return format, false
}

// open opens a file of records. Its rows become what the records are in JSON Lines by object, which is
// nil for lines.
func open(path string) (in *connectors.Reader, object func(*connectors.Record), err error) {
	src := connectors.Source{Format: connectors.JSONLines, Path: path}
	if format, is := TableOf(path); is {
		src.Format = format.Name
		if src.Values, _, err = connectors.Peek(src, 0); err != nil {
			return nil, nil, err
		}
		tree := &tableCell{guarded: format.Delimited, column: -1}
		for i, path := range src.Values {
			tree.add(path, path, i+1) // behind the time, of which there is no column
		}
		object = func(r *connectors.Record) {
			if r.Reason == "" {
				r.Raw, _ = tree.append(nil, r.Fields)
			}
		}
	}
	in, err = connectors.Open(src)
	return in, object, err
}

// A tableCell is a column of a table, or an object or list whose parts are columns.
type tableCell struct {
	name, path string
	column     int // −1 of an object or list
	parts      []*tableCell
	guarded    bool // texts may have an apostrophe against formulas
	text, flag bool // what the form of a value does not tell from a number
}

// add adds a column by the rest of its path.
func (c *tableCell) add(path, rest string, column int) {
	name, below, nested := strings.Cut(rest, ".")
	i := slices.IndexFunc(c.parts, func(p *tableCell) bool { return p.name == name })
	if i < 0 {
		i = len(c.parts)
		at := strings.TrimSuffix(path, "."+below)
		c.parts = append(c.parts, &tableCell{name: name, path: at, column: -1, guarded: c.guarded, text: slices.Contains(texts, at), flag: slices.Contains(flags, at)})
	}
	if !nested {
		c.parts[i].column = column
		return
	}
	c.parts[i].add(path, below, column)
}

// list reports whether the parts are numbered.
func (c *tableCell) list() bool { return len(c.parts) > 0 && c.parts[0].name == "0" }

// append appends the JSON of the cell. It reports whether there is something in it. An object without
// anything is null, but for those that every record has.
func (c *tableCell) append(b []byte, fields []string) (_ []byte, some bool) {
	if len(c.parts) == 0 {
		return c.appendValue(b, fields[c.column])
	}
	from, list := len(b), c.list()
	b = append(b, '{')
	if list {
		b[from] = '['
	}
	for i, p := range c.parts {
		end := len(b)
		if i > 0 {
			b = append(b, ',')
		}
		if !list {
			b = append(strconv.AppendQuote(b, p.name), ':')
		}
		var there bool
		if b, there = p.append(b, fields); there {
			some = true
		} else if list { // it has no more entries
			b = b[:end]
			break
		}
	}
	switch {
	case !some && c.path != "" && c.path != "estimate" && c.path != "predicted":
		return append(b[:from], "null"...), false
	case list:
		return append(b, ']'), some
	}
	return append(b, '}'), some
}

// texts and flags are the columns of these.
var (
	texts = []string{"key", "id", "split", "detect.kind", "detect.alarm", "kind", "message", "incident", "state"}
	flags = []string{"change", "warm_up", "quiet", "page", "session.wanders"}
)

func (c *tableCell) appendValue(b []byte, v string) (_ []byte, some bool) {
	switch {
	case v == "":
		return append(b, "null"...), false
	case c.flag:
		return strconv.AppendBool(b, v == "true" || v == "1"), true
	case c.text:
		if c.guarded {
			v = connectors.Unguarded(v)
		}
	case json.Valid([]byte(v)):
		if f, err := strconv.ParseFloat(v, 64); err == nil && strings.ContainsAny(v, "eE") {
			return strconv.AppendFloat(b, f, 'f', -1, 64), true // a whole number of Parquet is a double
		}
		return append(b, v...), true
	}
	text, _ := json.Marshal(v)
	return append(b, text...), true
}
