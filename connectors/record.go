// Package connectors reads records from files and writes results to files:
// CSV, JSON Lines and Parquet, plain or compressed, as plain Go and as Beam
// transforms. It deals in bytes and records and knows nothing of what they mean.
package connectors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"hafvf/internal/message"
)

const (
	// MaxRecord is the length in bytes, line end included, of the longest record
	// of a text file. A longer line is rejected and not held in memory.
	MaxRecord = 16 << 20
	// MaxRaw is how many bytes of a record are kept in Record.Raw for the report
	// of a rejected record.
	MaxRaw = 64 << 10
	// MaxField is the length in bytes of the longest key, time or value of a CSV or Parquet
	// file. A record with a longer one is rejected.
	MaxField = 64 << 10
	// MaxColumns is the largest number of columns of a CSV or Parquet file. It bounds what a row
	// takes in memory: of a wide table each column makes a record.
	MaxColumns = 1 << 18
)

// stdio is the path that stands for standard input and standard output.
const stdio = "-"

// Stderr is the path of a Sink that stands for standard error.
const Stderr = "/dev/stderr"

// A Record is one raw record of a source: what was read, where, and why it is
// unusable if it is.
type Record struct {
	// Source is the file's base name, or "stdin".
	Source string
	// Path is the file as it was opened.
	Path string
	// Position counts from 1: the line at which the record begins (a header is
	// line 1), or the row of a Parquet file.
	Position int64
	// After is the byte of a file of text behind which Position counts; 0 from its beginning.
	After int64
	// Index counts the records of the whole source, from 0.
	Index int64
	// Raw is the record as it stood in the file, without its line end, cut at
	// MaxRaw bytes; a usable record of JSON Lines is complete. A Parquet row is
	// given as the CSV of its Fields, and so is a record of a wide table.
	Raw []byte
	// Fields holds key, time and values in the order of the Source's columns;
	// nil for JSON Lines and where Reason is set. A null of Parquet is "".
	Fields []string
	// Reason is why no record could be made of Raw; "" when one could.
	Reason string
	// Series is how many records a row of a wide table with a Reason stands for; 0 for one.
	Series int
}

// AppendPlace appends where the record stands, as file:position.
func (r *Record) AppendPlace(b []byte) []byte {
	b = append(b, r.Source...)
	if r.After > 0 {
		b = strconv.AppendInt(append(b, ", after byte "...), r.After, 10)
	}
	return strconv.AppendInt(append(b, ':'), r.Position, 10)
}

// size is about how many bytes the record takes.
func (r *Record) size() int {
	n := len(r.Raw)
	for _, f := range r.Fields {
		n += len(f)
	}
	return n
}

// tooLong is why a column's field is longer than MaxField.
func tooLong(column string, bytes int) string {
	return fmt.Sprintf("the field of the column %s has %d bytes; at most %d are allowed", message.Quote(column), bytes, MaxField)
}

// checkWidth says that a file has too many columns.
func checkWidth(path string, columns int) error {
	if columns <= MaxColumns {
		return nil
	}
	return fmt.Errorf("%s has %d columns; at most %d are read: split it into several files, or write it as a long table, with a row for each value", fileName(path), columns, MaxColumns)
}

// A Source says which files to read and which of their columns.
type Source struct {
	// Format is a name in Formats.
	Format string
	// Path is a file, a glob of path/filepath, or "-" for standard input (not
	// for Parquet). The files of a glob are read one after the other, in the
	// order of their names. Text files whose name ends in .gz or .zst are
	// decompressed.
	Path string
	// Key, Time and Values are columns of CSV and Parquet files. Key may have none or
	// several, such as those of a session before the key's own. Time may be empty: then the source has no times.
	Key    []string
	Time   string
	Values []string
	// Wide says that each column of Values is a series, whose name is a part of the key: a
	// row makes a record for each, with the Fields key, name of the column, time and value.
	// Values may be patterns then, in which * stands for any text and ? for a character.
	Wide bool
	// Carry are more columns, whose Fields come last. A file may lack those of CarryFound, which come
	// behind them.
	Carry, CarryFound []string
	// BundleRecords is the largest number of records that Read emits in one bundle. Default: the
	// constant BundleRecords.
	BundleRecords int
	// BundleBytes is the size from which Read ends a bundle. Default: the constant BundleBytes.
	BundleBytes int
	// TimeOptional lets a file do without the column Time, whose field is "" then.
	TimeOptional bool
	// Delimiter separates the fields of a CSV, one rune. Default ",".
	Delimiter string
	// Skip is how many lines stand before the header of each CSV.
	Skip int
	// Comment begins the lines of a CSV that are passed over. Default: none are.
	Comment string
	// Encoding is that of files of text, one of Encodings. Default: UTF-8.
	Encoding string

	allColumns bool // see all
}

// skippedLines counts lines that are passed over while a source is read. Its methods do nothing on nil.
type skippedLines struct {
	n    atomic.Int64
	read bool // in a run before, or a call: those lines were counted
}

func (p *skippedLines) add(n int64) {
	if p != nil && !p.read {
		p.n.Add(n)
	}
}

// wasRead says whether what comes was read before.
func (p *skippedLines) wasRead(read bool) {
	if p != nil {
		p.read = read
	}
}

// columns returns the names that a record's Fields come from, in their order.
func (src Source) columns() []string {
	return slices.Concat(src.Key, []string{src.Time}, src.Values, src.Carry, src.CarryFound)
}

// delimiter is the one that a text names.
func delimiter(d string) (rune, error) {
	if d == "" {
		return ',', nil
	}
	r, n := utf8.DecodeRuneInString(d)
	if n != len(d) || r == utf8.RuneError || strings.ContainsAny(d, "\"\r\n\x00") {
		return 0, fmt.Errorf("delimiter %q is not usable: give one character that is neither a quote nor a line end, such as \",\", \";\" or a tab", d)
	}
	return r, nil
}

// A recordReader reads the records of one file.
type recordReader interface {
	// next returns io.EOF at the end.
	next() (Record, error)
	// columns returns the names of the columns of the file, nil without any.
	columns() []string
	close() error

	// The positions of a file of text are its bytes, those of a Parquet file its rows. extent is how many
	// there are, 0 if the reader cannot be moved, and position is that of the next record.
	extent() int64
	position() int64
	// moveTo moves forward to a position, or to one near it where a record begins. It reports false if the
	// reader cannot be moved there.
	moveTo(to int64) bool
}

// files returns the paths that src stands for, sorted.
func (src Source) files() ([]string, error) {
	format := FormatOf(src.Format)
	switch {
	case format.open == nil:
		return nil, errNoFormat(src.Format, " of a source")
	case format.Columns:
		if src.Wide && len(src.Values) == 0 {
			return nil, fmt.Errorf("a wide %s source needs at least one value column", src.Format)
		}
		if slices.Contains(src.Values, "") || slices.Contains(src.Key, "") {
			return nil, fmt.Errorf("a column of the %s source has an empty name", src.Format)
		}
		if _, err := delimiter(src.Delimiter); err != nil {
			return nil, err
		}
	}
	switch {
	case src.Path == "":
		return nil, errors.New("the source has no path: give a file, a glob, or \"-\" for standard input")
	case src.Path == stdio && format.Whole:
		return nil, fmt.Errorf("%s cannot be read from standard input, because its index is at the end: give a file", src.Format)
	case src.Path == stdio:
		return []string{stdio}, nil
	}
	// A file may have a name that looks like a pattern. Of another that is not there opening it
	// gives the reason.
	if _, err := os.Stat(src.Path); err == nil || !strings.ContainsAny(src.Path, "*?[") {
		return []string{src.Path}, nil
	}
	paths, err := filepath.Glob(src.Path)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s is malformed: %w", src.Path, err)
	}
	if len(paths) == 0 {
		return nil, noMatch(src.Path)
	}
	slices.Sort(paths)
	return paths, nil
}

// noMatch is the error of a pattern that matches no file.
type noMatch string

func (pattern noMatch) Error() string { return "no file matches " + string(pattern) }

func (noMatch) Is(target error) bool { return target == fs.ErrNotExist }

// open opens one file and reads its header. skipped may be nil.
func (src Source) open(path string, skipped *skippedLines) (recordReader, error) {
	rr, err := FormatOf(src.Format).open(path, src, skipped)
	if err != nil || !src.Wide {
		return rr, err
	}
	w, err := newWide(rr, src, path)
	if err != nil {
		rr.close()
		return nil, err
	}
	return w, nil
}

// readsOnce reports whether what is read at a path is gone then: standard input, a pipe, a
// device.
func readsOnce(path string) bool {
	if path == stdio {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// Check opens every file of src and reads its header, so that a run can fail
// before it starts: on a pattern that matches nothing, a file that cannot be
// read, a missing or ambiguous column, files that have different columns.
// Standard input is not touched, nor is what can be read only once, such as a pipe.
func Check(src Source) error {
	paths, err := src.files()
	if err != nil {
		return err
	}
	var first []string
	for _, path := range paths {
		if readsOnce(path) {
			continue
		}
		columns, _, err := src.head(path, 0)
		if err != nil {
			return err
		}
		slices.Sort(columns)
		if first == nil {
			first = columns
		}
		if !slices.Equal(first, columns) {
			return fmt.Errorf("%s and %s have different columns (%s; %s): files that are read together must have the same",
				paths[0], path, list(first), list(columns))
		}
	}
	return nil
}

// A Reader reads the records of all files of a source, in order.
type Reader struct {
	src     Source
	marks   *FileMarks    // what was read before; nil for none
	skipped *skippedLines // nil if nobody counts
	paths   []string      // that are still to be opened
	cur     recordReader
}

// Open makes the checks of Check and opens the source. From standard input it
// reads as far as the header of a CSV.
func Open(src Source) (*Reader, error) { return open(src, nil, nil) }

// open is Open behind what was read before, with lines that are passed over counted. Each may be nil.
func open(src Source, marks *FileMarks, skipped *skippedLines) (*Reader, error) {
	if err := Check(src); err != nil {
		return nil, err
	}
	paths, err := src.files()
	if err != nil {
		return nil, err
	}
	rd := &Reader{src: src, marks: marks, skipped: skipped, paths: paths}
	if err := rd.advance(); err != nil {
		return nil, err
	}
	return rd, nil
}

func (rd *Reader) advance() error {
	path := rd.paths[0]
	var cur recordReader
	var err error
	if rd.marks != nil && !readsOnce(path) {
		cur, err = rd.marks.open(rd.src, path, rd.skipped)
	} else {
		cur, err = rd.src.open(path, rd.skipped)
	}
	if err != nil {
		return err
	}
	rd.cur, rd.paths = cur, rd.paths[1:]
	return nil
}

// Next returns the next record, or io.EOF after the last one. Any other error
// means that the rest of the source is unreadable; it names file and position,
// and every record before it has been returned. A record with a Reason is not
// an error.
func (rd *Reader) Next() (Record, error) {
	for rd.cur != nil {
		rec, err := rd.cur.next()
		if err != io.EOF {
			return rec, err
		}
		if err := rd.Close(); err != nil {
			return Record{}, err
		}
		if len(rd.paths) > 0 {
			if err := rd.advance(); err != nil {
				return Record{}, err
			}
		}
	}
	return Record{}, io.EOF
}

// Close closes the file that is being read.
func (rd *Reader) Close() error {
	if rd.cur == nil {
		return nil
	}
	err := rd.cur.close()
	rd.cur = nil
	return err
}

// all is the source with records whose Fields are all columns that can be read, in the order of the file.
func (src Source) all() Source {
	src.allColumns, src.Wide = true, false
	src.Key, src.Time, src.Values, src.Carry, src.CarryFound = nil, "", nil, nil, nil
	return src
}

// Peek returns the names of the columns of the source's first file, and its first n
// records, whose Fields are all columns in the order of the file. Columns of a Parquet file
// that cannot be read are left out. JSON Lines have no columns and no Fields.
func Peek(src Source, n int) (columns []string, records []Record, err error) {
	src = src.all()
	paths, err := src.files()
	if err != nil {
		return nil, nil, err
	}
	return src.head(paths[0], n)
}

// Heads calls see with the first n records of each of the source's files. It leaves out standard
// input and what else can be read only once.
func Heads(src Source, n int, see func(path string, records []Record) error) error {
	paths, err := src.files()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if readsOnce(path) {
			continue
		}
		_, records, err := src.head(path, n)
		if err == nil {
			err = see(path, records)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Headers calls see with the columns of each of the source's files that have a name.
func Headers(src Source, see func(columns []string)) error {
	src = src.all()
	paths, err := src.files()
	if err != nil {
		return err
	}
	for _, path := range paths {
		columns, _, err := src.head(path, 0)
		if err != nil {
			return err
		}
		see(slices.DeleteFunc(columns, func(name string) bool { return name == "" }))
	}
	return nil
}

// ReadsOnce reports whether the source can be read only once, as standard input.
func (src Source) ReadsOnce() bool {
	paths, err := src.files()
	return err == nil && readsOnce(paths[0])
}

// head returns columns and first records of a file.
func (src Source) head(path string, n int) (columns []string, records []Record, err error) {
	rr, err := src.open(path, nil)
	if err != nil {
		return nil, nil, err
	}
	defer rr.close()
	if records, err = take(rr, n, 1, math.MaxInt64); err != nil && err != io.EOF {
		return nil, nil, err
	}
	return rr.columns(), records, nil
}

// sourceName is how records and messages call the file at path.
func sourceName(path string) string {
	if path == stdio {
		return "stdin"
	}
	return filepath.Base(path)
}

// fileName is how errors call the file at path.
func fileName(path string) string {
	if path == stdio {
		return "standard input"
	}
	return path
}

// locate returns for each of src.columns its index in names, −1 for a time that
// is not there.
func (src Source) locate(path string, names []string) ([]int, error) {
	var index []int
	if src.allColumns {
		for i := range names {
			index = append(index, i)
		}
		return index, nil
	}
	if src.Wide {
		var err error
		if src.Values, err = src.spread(path, names); err != nil {
			return nil, err
		}
	}
	first, twice := make(map[string]int, len(names)), map[string]bool{}
	for i, name := range names {
		if _, there := first[name]; there {
			twice[name] = true
		} else {
			first[name] = i
		}
	}
	all := src.columns()
	for i, want := range all {
		isTime := i == len(src.Key)
		if isTime && want == "" {
			index = append(index, -1)
			continue
		}
		at, there := first[want]
		if !there {
			at = -1
		}
		switch {
		case !there && !(isTime && src.TimeOptional) && i < len(all)-len(src.CarryFound):
			hint := ""
			if d := src.otherDelimiter(names); d != "" {
				hint = fmt.Sprintf(" It seems that its delimiter is %q.", d)
			} else if near := message.Nearest(want, names); near != "" {
				hint = fmt.Sprintf(" Did you mean %q?", near)
			} else if i == 0 && len(src.Key) == 1 {
				hint = " A file of one series needs none: key: none."
			}
			return nil, fmt.Errorf("%s has no column %q; its columns are %s.%s", fileName(path), want, list(names), hint)
		case twice[want]:
			return nil, fmt.Errorf("%s has two columns %q: rename one of them", fileName(path), want)
		}
		index = append(index, at)
	}
	return index, nil
}

// Delimiters are those that files usually have.
var Delimiters = []string{",", ";", "\t", "|"}

// otherDelimiter returns the delimiter that a header in one piece seems to have, or "".
func (src Source) otherDelimiter(header []string) string {
	if !FormatOf(src.Format).Delimited || len(header) != 1 {
		return ""
	}
	for _, d := range Delimiters {
		if strings.Contains(header[0], d) {
			return d
		}
	}
	return ""
}

// list quotes names for a message, at most 40 of them.
func list(names []string) string {
	const most = 40
	var quoted []string
	for _, n := range names[:min(len(names), most)] {
		quoted = append(quoted, strconv.Quote(n))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
