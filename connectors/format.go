package connectors

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Names of formats.
const (
	CSV       = "csv"
	JSONLines = "jsonl"
	Parquet   = "parquet"
)

// A Format is a kind of file. Sources and sinks, the config with its reference and hafvf init know a
// format by its row in Formats.
type Format struct {
	Name       string   // in a config
	Title      string   // in a sentence
	Of         string   // what the reference says of a source
	Written    string   // and of a sink
	Extensions []string // of its files, in lower case, before that of a compression
	Columns    bool     // a record is a row of named columns; else it is a JSON object
	Delimited  bool     // rows of text, with a delimiter between fields, below a header
	// Whole says that a file is of use when it is complete, and compressed inside. It cannot be piped.
	Whole bool

	open   func(path string, src Source, skipped *skippedLines) (recordReader, error)
	encode func(out io.Writer, sink Sink, fresh bool) (encoder, error)
}

// Formats are all of them. A new one is a row here, and a file that reads and writes it.
var Formats []Format

func init() { Formats = []Format{csvFormat, jsonlFormat, parquetFormat} } // what opens them asks for rows

// ofText opens a file of text, which may be compressed, for what reads its records.
func textOpener[R recordReader](reader func(r io.ReadCloser, path string, src Source, skipped *skippedLines) (R, error)) func(string, Source, *skippedLines) (recordReader, error) {
	return func(path string, src Source, skipped *skippedLines) (recordReader, error) {
		r, err := openText(path, src.Encoding)
		if err != nil {
			return nil, err
		}
		rr, err := reader(r, path, src, skipped)
		if err != nil {
			r.Close()
			return nil, err
		}
		return rr, nil
	}
}

// FormatOf is the row of a name: without functions, if there is none.
func FormatOf(name string) Format {
	for _, f := range Formats {
		if f.Name == name {
			return f
		}
	}
	return Format{}
}

// FormatOfFile is the row of a file by the extension of its name: CSV of another one.
func FormatOfFile(path string) Format {
	ext := strings.ToLower(filepath.Ext(Unpacked(path)))
	for _, f := range Formats {
		if slices.Contains(f.Extensions, ext) {
			return f
		}
	}
	return FormatOf(CSV)
}

// errNoFormat says that there is no format of that name; of says whose it is.
func errNoFormat(name, owner string) error {
	var known []string
	for _, f := range Formats {
		known = append(known, f.Name)
	}
	return fmt.Errorf("format %q%s is not known: it is one of %s", name, owner, strings.Join(known, ", "))
}
