package outfile

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hafvf/connectors"
)

// TableOf returns the format of a table by the extension of its file. ok is false for other files.
func TableOf(path string) (format connectors.Format, ok bool) {
	ext := filepath.Ext(connectors.Unpacked(path))
	for _, f := range connectors.Formats {
		if f.Columns && slices.Contains(f.Extensions, ext) {
			return f, true
		}
	}
	return format, false
}

// open opens a file of records. object converts a row to a JSON line; it is nil for JSON Lines.
func open(path string) (reader *connectors.Reader, object func(*connectors.Record), err error) {
	src := connectors.Source{Format: connectors.JSONLines, Path: path}
	if format, isTable := TableOf(path); isTable {
		src.Format = format.Name
		if src.Values, _, err = connectors.Peek(src, 0); err != nil {
			return nil, nil, err
		}
		tree := &tableCell{guarded: format.Delimited, column: -1}
		for i, path := range src.Values {
			tree.add(path, path, i+1) // fields begin with the time, which is empty here
		}
		object = func(r *connectors.Record) {
			if r.Reason == "" {
				r.Raw, _ = tree.append(nil, r.Fields)
			}
		}
	}
	reader, err = connectors.Open(src)
	return reader, object, err
}

// A tableCell is a column of a table, or an object or list made of columns.
type tableCell struct {
	name, path string
	column     int // −1 for an object or list
	parts      []*tableCell
	guarded    bool // texts may begin with an apostrophe, against formulas
	text, flag bool // kinds that the form of a value does not show
}

// add adds a column. rest is the part of its path below c.
func (c *tableCell) add(path, rest string, column int) {
	name, below, nested := strings.Cut(rest, ".")
	i := slices.IndexFunc(c.parts, func(p *tableCell) bool { return p.name == name })
	if i < 0 {
		i = len(c.parts)
		cellPath := strings.TrimSuffix(path, "."+below)
		c.parts = append(c.parts, &tableCell{name: name, path: cellPath, column: -1, guarded: c.guarded, text: slices.Contains(texts, cellPath), flag: slices.Contains(flags, cellPath)})
	}
	if !nested {
		c.parts[i].column = column
		return
	}
	c.parts[i].add(path, below, column)
}

// list reports whether the parts are numbered.
func (c *tableCell) list() bool { return len(c.parts) > 0 && c.parts[0].name == "0" }

// append appends the JSON of the cell. some is false if the cell is empty. An empty object is null, except the record
// itself, estimate and predicted.
func (c *tableCell) append(b []byte, fields []string) (_ []byte, some bool) {
	if len(c.parts) == 0 {
		return c.appendValue(b, fields[c.column])
	}
	start, list := len(b), c.list()
	b = append(b, '{')
	if list {
		b[start] = '['
	}
	for i, p := range c.parts {
		end := len(b)
		if i > 0 {
			b = append(b, ',')
		}
		if !list {
			b = append(strconv.AppendQuote(b, p.name), ':')
		}
		var nonEmpty bool
		if b, nonEmpty = p.append(b, fields); nonEmpty {
			some = true
		} else if list { // the list ends here
			b = b[:end]
			break
		}
	}
	switch {
	case !some && c.path != "" && c.path != "estimate" && c.path != "predicted":
		return append(b[:start], "null"...), false
	case list:
		return append(b, ']'), some
	}
	return append(b, '}'), some
}

// texts and flags are the columns with texts and with booleans.
var (
	texts = []string{"key", "id", "split", "detect.kind", "detect.alarm", "kind", "message", "incident", "state", "episode.id", "session.kind"}
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
			return strconv.AppendFloat(b, f, 'f', -1, 64), true // whole numbers of Parquet files are doubles
		}
		return append(b, v...), true
	}
	text, _ := json.Marshal(v)
	return append(b, text...), true
}
