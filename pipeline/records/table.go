package records

import (
	"fmt"
	"strconv"
	"time"

	"hafvf/internal/tabular"
)

// A field is one field of a record that is made of a T: its name, its meaning, and
// how it is taken from the value. JSON, columns and the reference are made of it.
type field[T any] struct {
	name, unit, doc string
	begin           string // of the field in JSON, behind another one
	takes           string // the JSON type, as a user would say it
	json            func(b []byte, l *Layout, v T) []byte
	// absent says that this record has no such field. Nil: it always has.
	absent func(v T) bool
	full   bool // not in brief records
	// columns are those of the field, whose path is given.
	columns func(path string, l *Layout, x tabular.Kind) []tabular.Column
	// cells appends what the columns hold: for each the value's JSON, or nothing
	// where the record has none, and a tab, which JSON does not contain.
	cells func(b []byte, l *Layout, v T) []byte
	below []Field // of an object or of the entries of a list
	// avro is the field's type in Avro, which a null is beside; nil in layouts without the
	// field. Types that have a name have that.
	avro func(name string, l *Layout) any
}

// A Field describes one field of a record. Path is from the record, with dots; the
// entries of a list are [].
type Field struct {
	Path  string
	Takes string // the type of its value
	Unit  string // empty for what has none
	Doc   string // what it means
	Full  bool   // not in brief records
}

// leaf is a field with one column.
func leaf[T any](name, takes, unit, doc string, kind tabular.Kind, json func(b []byte, v T) []byte) field[T] {
	return field[T]{
		name: name, begin: begin(name), takes: takes, unit: unit, doc: doc,
		json: func(b []byte, _ *Layout, v T) []byte { return json(b, v) },
		columns: func(path string, _ *Layout, _ tabular.Kind) []tabular.Column {
			return []tabular.Column{{Path: path, Kind: kind}}
		},
		cells: func(b []byte, _ *Layout, v T) []byte { return append(json(b, v), '\t') },
		avro:  func(string, *Layout) any { return avroOf[takes] },
	}
}

func number[T any](name, unit, doc string, get func(T) float64) field[T] {
	return leaf(name, "number", unit, doc, tabular.Number, func(b []byte, v T) []byte { return appendNumber(b, get(v)) })
}

// count is a whole number, or null where get says that there is none.
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

// nullable is a text, or null where it is empty.
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

// object is a mapping with fields of its own.
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

// list is a list of objects; columns are as many as the layout's longest has.
func list[T, E any](name, doc string, longest func(*Layout) int, length func(T) int, entry func(T, int) E, fields ...field[E]) field[T] {
	return field[T]{
		name: name, begin: begin(name), takes: "list of objects", doc: doc,
		json: func(b []byte, l *Layout, v T) []byte {
			return AppendList(b, length(v), func(b []byte, i int) []byte { return appendObject(b, l, entry(v, i), fields) })
		},
		columns: func(path string, l *Layout, x tabular.Kind) (all []tabular.Column) {
			for i := range longest(l) {
				all = append(all, columnsOf(fmt.Sprintf("%s.%d.", path, i), l, x, fields)...)
			}
			return all
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

// only restricts a field to records, and its columns to layouts, that have it. All layouts have it if may is nil.
func only[T any](f field[T], has func(T) bool, may func(*Layout) bool) field[T] {
	if may == nil {
		may = func(*Layout) bool { return true }
	}
	columns, cells, avro := f.columns, f.cells, f.avro
	f.avro = func(name string, l *Layout) any {
		if !may(l) {
			return nil
		}
		return avro(name, l)
	}
	f.absent = func(v T) bool { return !has(v) }
	f.columns = func(path string, l *Layout, x tabular.Kind) []tabular.Column {
		if !may(l) {
			return nil
		}
		return columns(path, l, x)
	}
	f.cells = func(b []byte, l *Layout, v T) []byte {
		switch {
		case !may(l):
			return b
		case !has(v):
			return appendTabs(b, len(columns("", l, "")))
		}
		return cells(b, l, v)
	}
	return f
}

// orNull is a field that is null in a record without it.
func orNull[T any](f field[T], has func(T) bool) field[T] {
	json := f.json
	f = only(f, has, nil)
	f.absent = nil
	f.json = func(b []byte, l *Layout, v T) []byte {
		if !has(v) {
			return append(b, "null"...)
		}
		return json(b, l, v)
	}
	return f
}

// appendCells appends the cells of a record as a row without its end.
func appendCells[T any](b []byte, l *Layout, v T, fields []field[T]) []byte {
	for i := range fields {
		if l.has(fields[i].full) {
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

// A Form is how a record is written.
type Form int

// The forms of a record.
const (
	Object  Form = iota // a JSON object and a line end, as JSON Lines and topics have it
	Row                 // as connectors.Writer takes it for tables
	Nothing             // nobody reads it
)

// appendRecord appends a record in one of the forms.
func appendRecord[T any](b []byte, as Form, l *Layout, v T, fields []field[T]) []byte {
	if as == Object {
		return append(appendObject(b, l, v, fields), '\n')
	}
	b = appendCells(b, l, v, fields)
	b[len(b)-1] = '\n' // in place of the last tab
	return b
}

func appendObject[T any](b []byte, l *Layout, v T, fields []field[T]) []byte {
	at := len(b)
	for i := range fields {
		f := &fields[i]
		if !l.has(f.full) || f.absent != nil && f.absent(v) {
			continue
		}
		b = append(b, f.begin...)
		b = f.json(b, l, v)
	}
	if len(b) == at {
		return append(b, "{}"...)
	}
	b[at] = '{' // in place of the first comma
	return append(b, '}')
}

// begin is how a field begins in JSON.
func begin(name string) string { return `,"` + name + `":` }

func columnsOf[T any](prefix string, l *Layout, x tabular.Kind, fields []field[T]) (all []tabular.Column) {
	for _, f := range fields {
		if l.has(f.full) {
			all = append(all, f.columns(prefix+f.name, l, x)...)
		}
	}
	return all
}

func describe[T any](prefix string, fields []field[T]) (all []Field) {
	for _, f := range fields {
		path := prefix + f.name
		all = append(all, Field{path, f.takes, f.unit, f.doc, f.full})
		if f.takes == "list of objects" {
			path += "[]"
		}
		for _, below := range f.below {
			below.Path = path + "." + below.Path
			below.Full = below.Full || f.full
			all = append(all, below)
		}
	}
	return all
}
