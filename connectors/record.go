// Package connectors reads records from files and writes results to files: CSV, JSON Lines and Parquet, plain or
// compressed, as plain Go and as Beam transforms. It does not interpret the records.
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
	// MaxRecord is the maximum length in bytes of a record of a text file, line end included. A longer line is
	// rejected and not kept in memory.
	MaxRecord = 16 << 20
	// MaxRaw is the maximum number of bytes that Record.Raw keeps of a rejected record.
	MaxRaw = 64 << 10
	// MaxField is the maximum length in bytes of a key, time or value of a CSV or Parquet file. A record with a
	// longer one is rejected.
	MaxField = 64 << 10
	// MaxColumns is the maximum number of columns of a CSV or Parquet file. It bounds the memory for a row: in a
	// wide table each column makes a record.
	MaxColumns = 1 << 18
)

// stdio is the path for standard input and standard output.
const stdio = "-"

// Stderr is the path of a Sink for standard error.
const Stderr = "/dev/stderr"

// A Record is one raw record of a source with its position and, if it is unusable, the reason.
type Record struct {
	// Source is the name of the file, see Source.name, or "stdin".
	Source string
	// Path is the file as it was opened.
	Path string
	// Position counts from 1. It is the line at which the record begins (a header is line 1), or the row of a
	// Parquet file.
	Position int64
	// After is the byte offset in a text file from which Position counts; 0 is the beginning.
	After int64
	// Index is the position in the whole source, from 0.
	Index int64
	// Raw is the record as it is in the file, without its line end and cut at MaxRaw bytes. A usable record of JSON
	// Lines is not cut. For a Parquet row or a record of a wide table, Raw is the CSV of Fields.
	Raw []byte
	// Fields contains key, time and values in the order of the Source's columns. It is nil for JSON Lines and if
	// Reason is not empty. A Parquet null is "".
	Fields []string
	// Reason is why Raw is unusable; "" if it is usable.
	Reason string
	// Series is the number of records that an unusable row of a wide table stands for; 0 means one.
	Series int
}

// AppendPlace appends the position of the record, as file:position.
func (r *Record) AppendPlace(b []byte) []byte {
	b = append(b, r.Source...)
	if r.After > 0 {
		b = strconv.AppendInt(append(b, ", after byte "...), r.After, 10)
	}
	return strconv.AppendInt(append(b, ':'), r.Position, 10)
}

// size returns the approximate size of the record in bytes.
func (r *Record) size() int {
	n := len(r.Raw)
	for _, f := range r.Fields {
		n += len(f)
	}
	return n
}

// fieldTooLong returns the reason to reject a field that is longer than MaxField.
func fieldTooLong(column string, bytes int) string {
	return fmt.Sprintf("the field of the column %s has %d bytes; at most %d are allowed", message.Quote(column), bytes, MaxField)
}

// checkWidth returns an error if a file has too many columns.
func checkWidth(path string, columns int) error {
	if columns <= MaxColumns {
		return nil
	}
	return fmt.Errorf("%s has %d columns; at most %d are read: split it into several files, or write it as a long table, with a row for each value", fileName(path), columns, MaxColumns)
}

// A Source describes which files and columns to read.
type Source struct {
	// Format is a name in Formats.
	Format string
	// Path is a file, a glob of path/filepath, or "-" for standard input (not for Parquet). The files of a glob are
	// read one after the other, sorted by name. Text files with the extension .gz or .zst are decompressed.
	Path string
	// Key, Time and Values are columns of CSV and Parquet files. Key may be empty, or contain several columns, such
	// as the columns of a session before those of the key. If Time is empty, the source has no times.
	Key    []string
	Time   string
	Values []string
	// Wide means that each column of Values is a series, whose name is part of the key. A row makes a record for
	// each series, with the Fields key, column name, time and value. Values may then contain patterns, in which *
	// matches any text and ? matches one character.
	Wide bool
	// Carry and CarryFound are more columns, whose Fields come last, in this order. A file may lack columns of
	// CarryFound.
	Carry, CarryFound []string
	// BundleRecords is the maximum number of records that Read emits in one bundle. Default: the constant
	// BundleRecords.
	BundleRecords int
	// BundleBytes is the size at which Read ends a bundle. Default: the constant BundleBytes.
	BundleBytes int
	// TimeOptional allows files without the column Time. Its field is then "".
	TimeOptional bool
	// Delimiter separates the fields of a CSV, one rune. Default ",".
	Delimiter string
	// Skip is the number of lines before the header of each CSV.
	Skip int
	// Comment is the prefix of CSV lines that are skipped. Default: no line is skipped.
	Comment string
	// Encoding is the encoding of text files, one of Encodings. Default: UTF-8.
	Encoding string

	allColumns bool // see withAllColumns
	// shared has the base names of the files, and true for those that several files have or can have, see files.
	shared map[string]bool
}

// skippedLines counts lines that are skipped while a source is read. Its methods do nothing on nil.
type skippedLines struct {
	n      atomic.Int64
	reread bool // an earlier run or call has counted the current lines
}

func (s *skippedLines) add(n int64) {
	if s != nil && !s.reread {
		s.n.Add(n)
	}
}

// setReread sets whether the next lines were read before.
func (s *skippedLines) setReread(reread bool) {
	if s != nil {
		s.reread = reread
	}
}

// columns returns the names of the columns of a record's Fields, in their order.
func (src Source) columns() []string {
	return slices.Concat(src.Key, []string{src.Time}, src.Values, src.Carry, src.CarryFound)
}

// delimiter returns the delimiter in d. The default is a comma.
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
	// columns returns the names of the file's columns, or nil if it has none.
	columns() []string
	close() error

	// Positions are bytes of a text file, or rows of a Parquet file. extent returns their number, or 0 if the
	// reader cannot be moved. position returns the position of the next record.
	extent() int64
	position() int64
	// moveTo moves forward to pos, or to the beginning of a record near pos. It returns false if the reader cannot
	// be moved there.
	moveTo(pos int64) bool
}

// files returns the paths of the files of src, sorted. It also sets what name needs.
func (src *Source) files() ([]string, error) {
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
	// The name of a file may look like a pattern. If another file is missing, opening it returns the reason.
	if _, err := os.Stat(src.Path); err == nil || !hasWildcard(src.Path) {
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
	src.shared = map[string]bool{}
	for _, path := range paths {
		_, seen := src.shared[filepath.Base(path)]
		src.shared[filepath.Base(path)] = seen || !hasWildcard(filepath.Base(src.Path))
	}
	return paths, nil
}

func hasWildcard(path string) bool { return strings.ContainsAny(path, "*?[") }

// noMatch is the error for a pattern that matches no file. It is an fs.ErrNotExist.
type noMatch string

func (pattern noMatch) Error() string {
	text := "no file matches " + string(pattern)
	if strings.Contains(text, "**") {
		text += ": ** is read as *, which matches one folder; write */ for each folder"
	}
	return text
}

func (noMatch) Is(target error) bool { return target == fs.ErrNotExist }

// open opens one file and reads its header. skipped may be nil.
func (src Source) open(path string, skipped *skippedLines) (recordReader, error) {
	rr, err := FormatOf(src.Format).open(path, src, skipped)
	if err != nil || !src.Wide {
		return rr, err
	}
	w, err := newWideReader(rr, src, path)
	if err != nil {
		rr.close()
		return nil, err
	}
	return w, nil
}

// readsOnce reports whether a path can be read only once: standard input, a pipe or a device.
func readsOnce(path string) bool {
	if path == stdio {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// Check opens every file of src and reads its header, so that a run can fail before it starts. Errors are a pattern
// without a match, an unreadable file, a missing or ambiguous column, and files with different columns. Check skips
// paths that can be read only once, such as standard input and pipes.
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
				paths[0], path, quoteNames(first), quoteNames(columns))
		}
	}
	return nil
}

// A Reader reads the records of all files of a source, in order.
type Reader struct {
	src     Source
	marks   *FileMarks    // records to skip; nil for none
	skipped *skippedLines // nil if lines are not counted
	paths   []string      // not opened yet
	cur     recordReader
}

// Open checks src like Check, and opens it. From standard input it reads up to the header of a CSV.
func Open(src Source) (*Reader, error) { return open(src, nil, nil) }

// open is Open with marks of records to skip and a counter of skipped lines. Each may be nil.
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

// Next returns the next record, or io.EOF after the last one. Any other error means that the rest of the source is
// unreadable. It names file and position, and all records before it have been returned. A record with a Reason is
// not an error.
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

// Close closes the current file.
func (rd *Reader) Close() error {
	if rd.cur == nil {
		return nil
	}
	err := rd.cur.close()
	rd.cur = nil
	return err
}

// withAllColumns returns a source whose records have all readable columns as Fields, in the order of the file.
func (src Source) withAllColumns() Source {
	src.allColumns, src.Wide = true, false
	src.Key, src.Time, src.Values, src.Carry, src.CarryFound = nil, "", nil, nil, nil
	return src
}

// Peek returns the names of the columns of the source's first file, and its first n records. Their Fields are all
// columns in the order of the file. Parquet columns with unsupported types are left out. JSON Lines have no columns
// and no Fields.
func Peek(src Source, n int) (columns []string, records []Record, err error) {
	src = src.withAllColumns()
	paths, err := src.files()
	if err != nil {
		return nil, nil, err
	}
	return src.head(paths[0], n)
}

// Heads calls visit with the first n records of each file of the source. It skips paths that can be read only once.
func Heads(src Source, n int, visit func(path string, records []Record) error) error {
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
			err = visit(path, records)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Headers calls visit with the names of the columns of each file of the source. Columns without a name are left
// out.
func Headers(src Source, visit func(columns []string)) error {
	src = src.withAllColumns()
	paths, err := src.files()
	if err != nil {
		return err
	}
	for _, path := range paths {
		columns, _, err := src.head(path, 0)
		if err != nil {
			return err
		}
		visit(slices.DeleteFunc(columns, func(name string) bool { return name == "" }))
	}
	return nil
}

// ReadsOnce reports whether the source can be read only once, such as standard input.
func (src Source) ReadsOnce() bool {
	paths, err := src.files()
	return err == nil && readsOnce(paths[0])
}

// head returns the columns and the first n records of a file.
func (src Source) head(path string, n int) (columns []string, records []Record, err error) {
	rr, err := src.open(path, nil)
	if err != nil {
		return nil, nil, err
	}
	defer rr.close()
	if records, err = readRecords(rr, n, 1, math.MaxInt64); err != nil && err != io.EOF {
		return nil, nil, err
	}
	return rr.columns(), records, nil
}

// name returns the name of a file in records: its base name or, if other files of src have or can have the same, the
// path from the first wildcard of the pattern on. More files therefore do not change such a name.
func (src Source) name(path string) string {
	if path == stdio {
		return "stdin"
	}
	name := filepath.Base(path)
	if src.shared[name] {
		dir := filepath.Dir(path)
		for pattern := filepath.Dir(src.Path); hasWildcard(pattern); pattern = filepath.Dir(pattern) {
			name, dir = filepath.Base(dir)+"/"+name, filepath.Dir(dir)
		}
	}
	return name
}

// fileName returns the name of a file in errors.
func fileName(path string) string {
	if path == stdio {
		return "standard input"
	}
	return path
}

// locate returns the position in names of each of src.columns, and −1 for an optional column that is missing.
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
		if src.Values, err = src.valueColumns(path, names); err != nil {
			return nil, err
		}
	}
	first, duplicate := make(map[string]int, len(names)), map[string]bool{}
	for i, name := range names {
		if _, seen := first[name]; seen {
			duplicate[name] = true
		} else {
			first[name] = i
		}
	}
	columns := src.columns()
	for i, want := range columns {
		isTime := i == len(src.Key)
		if isTime && want == "" {
			index = append(index, -1)
			continue
		}
		pos, found := first[want]
		if !found {
			pos = -1
		}
		switch {
		case !found && !(isTime && src.TimeOptional) && i < len(columns)-len(src.CarryFound):
			hint := ""
			if d := src.otherDelimiter(names); d != "" {
				hint = fmt.Sprintf(" It seems that its delimiter is %q.", d)
			} else if near := message.Nearest(want, names); near != "" {
				hint = fmt.Sprintf(" Did you mean %q?", near)
			} else if i == 0 && len(src.Key) == 1 {
				hint = " If the file has only one series, set key: none."
			}
			return nil, fmt.Errorf("%s has no column %q; its columns are %s.%s", fileName(path), want, quoteNames(names), hint)
		case duplicate[want]:
			return nil, fmt.Errorf("%s has two columns %q: rename one of them", fileName(path), want)
		}
		index = append(index, pos)
	}
	return index, nil
}

// Delimiters are the usual delimiters.
var Delimiters = []string{",", ";", "\t", "|"}

// otherDelimiter returns the probable delimiter of a header that was not split, or "".
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

// quoteNames quotes names for a message, at most 40 of them.
func quoteNames(names []string) string {
	const maxNames = 40
	var quoted []string
	for _, n := range names[:min(len(names), maxNames)] {
		quoted = append(quoted, strconv.Quote(n))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
