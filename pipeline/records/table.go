package records

import (
	"fmt"
	"strconv"
	"time"

	"hafvf/internal/tabular"
)

// A field is one field of records made from a T: its name, its meaning, and how to get its value. JSON, columns and
// the reference are derived from it.
type field[T any] struct {
	name, unit, doc string
	begin           string // text before the value in a JSON object
	takes           string // the JSON type in the words of a user
	json            func(b []byte, l *Layout, v T) []byte
	// absent reports whether a record lacks the field. nil: no record lacks it.
	absent func(v T) bool
	full   bool // not in brief records
	// columns returns the columns of the field at the given path.
	columns func(path string, l *Layout, x tabular.Kind) []tabular.Column
	// cells appends the cells of the columns. Each cell is the JSON of the value, or empty if the record has none,
	// followed by a tab, which JSON does not contain.
	cells func(b []byte, l *Layout, v T) []byte
	below []Field // fields of the object, or of the list's entries
	// avro returns the Avro type of the field without null, or nil if the layout lacks the field. name is the name
	// for a named type.
	avro func(name string, l *Layout) any
}

// A Field describes one field of a record. Path is from the record, with dots; [] is the entries of a list.
type Field struct {
	Path  string
	Takes string // type of the value
	Unit  string // empty if there is none
	Doc   string // meaning
	Full  bool   // not in brief records
}

// column is a field with one column. x is the kind of the value column.
func column[T any](name, takes, unit, doc string, kind func(l *Layout, x tabular.Kind) tabular.Kind,
	avro func(*Layout) any, json func(b []byte, l *Layout, v T) []byte) field[T] {
	return field[T]{
		name: name, begin: begin(name), takes: takes, unit: unit, doc: doc, json: json,
		columns: func(path string, l *Layout, x tabular.Kind) []tabular.Column {
			return []tabular.Column{{Path: path, Kind: kind(l, x)}}
		},
		cells: func(b []byte, l *Layout, v T) []byte { return append(json(b, l, v), '\t') },
		avro:  func(_ string, l *Layout) any { return avro(l) },
	}
}

// leaf is a column of one kind.
func leaf[T any](name, takes, unit, doc string, kind tabular.Kind, json func(b []byte, v T) []byte) field[T] {
	return column(name, takes, unit, doc,
		func(*Layout, tabular.Kind) tabular.Kind { return kind }, func(*Layout) any { return avroTypes[takes] },
		func(b []byte, _ *Layout, v T) []byte { return json(b, v) })
}

func number[T any](name, unit, doc string, get func(T) float64) field[T] {
	return leaf(name, "number", unit, doc, tabular.Number, func(b []byte, v T) []byte { return appendNumber(b, get(v)) })
}

// count is a whole number, or null if get returns ok = false.
func count[T any](name, unit, doc string, get func(T) (n int64, ok bool)) field[T] {
	return leaf(name, "whole number", unit, doc, tabular.Number, func(b []byte, v T) []byte {
		if n, ok := get(v); ok {
			return strconv.AppendInt(b, n, 10)
		}
		return append(b, "null"...)
	})
}

func text[T any](name, doc string, get func(T) string) field[T] {
	return leaf(name, "text", "", doc, tabular.String, func(b []byte, v T) []byte { return appendText(b, get(v)) })
}

// nullable is a text, or null if it is empty.
func nullable[T any](name, doc string, get func(T) string) field[T] {
	return leaf(name, "text", "", doc, tabular.String, func(b []byte, v T) []byte {
		s := get(v)
		if s == "" {
			return append(b, "null"...)
		}
		return appendText(b, s)
	})
}

func instant[T any](name, doc string, get func(T) time.Time) field[T] {
	return leaf(name, "time", "", doc, tabular.Time, func(b []byte, v T) []byte { return appendTime(b, get(v)) })
}

func flag[T any](name, doc string, get func(T) bool) field[T] {
	return leaf(name, "true or false", "", doc, tabular.Bool, func(b []byte, v T) []byte { return strconv.AppendBool(b, get(v)) })
}

// full is a field that brief records leave out.
func full[T any](f field[T]) field[T] {
	f.full = true
	return f
}

// object is a mapping with fields.
func object[T any](name, doc string, fields ...field[T]) field[T] {
	return field[T]{
		name: name, begin: begin(name), takes: "object", doc: doc,
		json: func(b []byte, l *Layout, v T) []byte { return appendObject(b, l, v, fields) },
		columns: func(path string, l *Layout, x tabular.Kind) []tabular.Column {
			return columnsOf(path+".", l, x, fields)
		},
		cells: func(b []byte, l *Layout, v T) []byte { return appendCells(b, l, v, fields) },
		below: describe("", fields),
		avro:  func(name string, l *Layout) any { return avroRecordOf(name, l, fields) },
	}
}

// list is a list of objects. Tables have columns for longest entries.
func list[T, E any](name, doc string, longest func(*Layout) int, length func(T) int, entry func(T, int) E, fields ...field[E]) field[T] {
	return field[T]{
		name: name, begin: begin(name), takes: "list of objects", doc: doc,
		json: func(b []byte, l *Layout, v T) []byte {
			return AppendList(b, length(v), func(b []byte, i int) []byte { return appendObject(b, l, entry(v, i), fields) })
		},
		columns: func(path string, l *Layout, x tabular.Kind) (cols []tabular.Column) {
			for i := range longest(l) {
				cols = append(cols, columnsOf(fmt.Sprintf("%s.%d.", path, i), l, x, fields)...)
			}
			return cols
		},
		cells: func(b []byte, l *Layout, v T) []byte {
			n := length(v)
			for i := range n {
				b = appendCells(b, l, entry(v, i), fields)
			}
			return appendTabs(b, (longest(l)-n)*len(columnsOf("", l, "", fields)))
		},
		below: describe("", fields),
		avro:  func(name string, l *Layout) any { return &avroList{"array", avroRecordOf(name, l, fields)} },
	}
}

// only restricts a field to the records for which present is true, and its columns to the layouts for which allowed
// is true. A nil allowed allows all layouts.
func only[T any](f field[T], present func(T) bool, allowed func(*Layout) bool) field[T] {
	if allowed == nil {
		allowed = func(*Layout) bool { return true }
	}
	columns, cells, avro := f.columns, f.cells, f.avro
	f.avro = func(name string, l *Layout) any {
		if !allowed(l) {
			return nil
		}
		return avro(name, l)
	}
	f.absent = func(v T) bool { return !present(v) }
	f.columns = func(path string, l *Layout, x tabular.Kind) []tabular.Column {
		if !allowed(l) {
			return nil
		}
		return columns(path, l, x)
	}
	f.cells = func(b []byte, l *Layout, v T) []byte {
		switch {
		case !allowed(l):
			return b
		case !present(v):
			return appendTabs(b, len(columns("", l, "")))
		}
		return cells(b, l, v)
	}
	return f
}

// orNull is a field that is null in records for which present is false.
func orNull[T any](f field[T], present func(T) bool) field[T] {
	json := f.json
	f = only(f, present, nil)
	f.absent = nil
	f.json = func(b []byte, l *Layout, v T) []byte {
		if !present(v) {
			return append(b, "null"...)
		}
		return json(b, l, v)
	}
	return f
}

// appendCells appends the cells of a record as a row without a line end.
func appendCells[T any](b []byte, l *Layout, v T, fields []field[T]) []byte {
	for i := range fields {
		if l.includes(fields[i].full) {
			b = fields[i].cells(b, l, v)
		}
	}
	return b
}

// appendTabs appends n empty cells.
func appendTabs(b []byte, n int) []byte {
	for range n {
		b = append(b, '\t')
	}
	return b
}

// A Form is a way to write a record.
type Form int

// The forms of a record.
const (
	Object  Form = iota // a JSON object and a line end, for JSON Lines and topics
	Row                 // a table row for connectors.Writer
	Nothing             // the record is not needed
)

// appendRecord appends a record in a form.
func appendRecord[T any](b []byte, form Form, l *Layout, v T, fields []field[T]) []byte {
	if form == Object {
		return append(appendObject(b, l, v, fields), '\n')
	}
	b = appendCells(b, l, v, fields)
	b[len(b)-1] = '\n' // replaces the last tab
	return b
}

func appendObject[T any](b []byte, l *Layout, v T, fields []field[T]) []byte {
	start := len(b)
	for i := range fields {
		f := &fields[i]
		if !l.includes(f.full) || f.absent != nil && f.absent(v) {
			continue
		}
		b = append(b, f.begin...)
		b = f.json(b, l, v)
	}
	if len(b) == start {
		return append(b, "{}"...)
	}
	b[start] = '{' // replaces the first comma
	return append(b, '}')
}

// begin returns the text before a field's value in a JSON object.
func begin(name string) string { return `,"` + name + `":` }

func columnsOf[T any](prefix string, l *Layout, x tabular.Kind, fields []field[T]) (cols []tabular.Column) {
	for _, f := range fields {
		if l.includes(f.full) {
			cols = append(cols, f.columns(prefix+f.name, l, x)...)
		}
	}
	return cols
}

func describe[T any](prefix string, fields []field[T]) (docs []Field) {
	for _, f := range fields {
		path := prefix + f.name
		docs = append(docs, Field{path, f.takes, f.unit, f.doc, f.full})
		if f.takes == "list of objects" {
			path += "[]"
		}
		for _, below := range f.below {
			below.Path = path + "." + below.Path
			below.Full = below.Full || f.full
			docs = append(docs, below)
		}
	}
	return docs
}
