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

// A Format is a file format. Sources, sinks, the config, its reference and hafvf init find formats in Formats.
type Format struct {
	Name       string   // in a config
	Title      string   // in a sentence
	Of         string   // text of the reference about a source
	Written    string   // text of the reference about a sink
	Extensions []string // in lower case, before the extension of a compression
	Columns    bool     // a record is a row of named columns instead of a JSON object
	Delimited  bool     // rows of text below a header, with a delimiter between fields
	// Whole means that a file is usable only when it is complete, and is compressed inside. It cannot be piped.
	Whole bool

	open   func(path string, src Source, skipped *skippedLines) (recordReader, error)
	encode func(out io.Writer, sink Sink, fresh bool) (encoder, error)
}

// Formats are all formats. A new format needs an entry here and a file that reads and writes it.
var Formats []Format

func init() { Formats = []Format{csvFormat, jsonlFormat, parquetFormat} } // in init, because the functions refer to Formats

// textOpener returns a Format.open for text files, which may be compressed. reader makes a reader of their records.
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

// FormatOf returns the Format with a name. The result has no functions if there is none.
func FormatOf(name string) Format {
	for _, f := range Formats {
		if f.Name == name {
			return f
		}
	}
	return Format{}
}

// FormatOfFile returns the Format of a file according to its extension, or CSV for an unknown extension.
func FormatOfFile(path string) Format {
	ext := strings.ToLower(filepath.Ext(Unpacked(path)))
	for _, f := range Formats {
		if slices.Contains(f.Extensions, ext) {
			return f
		}
	}
	return FormatOf(CSV)
}

// errNoFormat returns the error for an unknown format. owner is appended to the name, for example " of a source".
func errNoFormat(name, owner string) error {
	var known []string
	for _, f := range Formats {
		known = append(known, f.Name)
	}
	return fmt.Errorf("format %q%s is unknown: use one of %s", name, owner, strings.Join(known, ", "))
}
