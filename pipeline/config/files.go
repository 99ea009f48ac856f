package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hafvf/connectors"
	"hafvf/connectors/registry"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

// Files is a source of files. The path may be a pattern; "-" is standard input.
type Files struct {
	Format string // a name in connectors.Formats
	Path   string
	Fields
	Delimiter rune
	Skip      int           // lines before the header
	Comment   string        // begins lines that are passed over; empty for none
	Encoding  string        // of text, one of connectors.Encodings
	Disorder  time.Duration // of the path "-": how far a time may be behind the latest one
}

func (f *Files) fields() (*Fields, string) { return &f.Fields, "source." + f.Format }
func (f *Files) shaped() bool              { return !connectors.FormatOf(f.Format).Columns }
func (f *Files) unending() bool            { return false }

// check is of what is carried; checkFiles looks at all files.
func (f *Files) check(d *decoder, c *Config) {
	if f.Disorder != 0 && f.Path != stdio {
		d.Fail("source."+f.Format+".disorder", "is for the path \"-\": a file needs none")
	}
	at := "source." + f.Format + ".carry"
	if !d.Has(at) {
		return
	}
	switch {
	case c.Aggregate != nil:
		d.Fail(at, "belongs to single records, of which aggregate makes intervals: leave out one of them")
	case f.Layout != Long:
		d.Fail(at, "is for layout: long")
	case c.Sink.Format == registry.Avro:
		d.Fail(at, "has no form in Avro: let the sink write JSON")
	}
	if slices.Contains(f.Carry, "") {
		d.Fail(at, "a name is empty")
	}
}

func (f *Files) checkFlink(d *decoder) { d.Fail("source", ofOneMachine) }

// Files are those that the source reads, nil if it reads none.
func (s *Source) Files() *Files { return originOf[*Files](s) }

// StandardInput reports whether the source is standard input.
func (s *Source) StandardInput() bool { return s.Files() != nil && s.Files().Path == "-" }

// filesKeys declare a source of files, one of each format.
func (s *Source) filesKeys() []keytable.Key {
	var keys []keytable.Key
	for _, format := range connectors.Formats {
		f := &Files{Format: format.Name, Fields: defaultFields(), Delimiter: ',', Encoding: connectors.Encodings[0]}
		what, row := "Column", "row"
		if !format.Columns {
			what, row = "Field", "record"
		}
		k := keytable.Key{Name: format.Name, Doc: format.Of, Seen: s.set(f), Keys: slices.Concat(
			[]keytable.Key{{Name: "path", Doc: `A file, a pattern such as data/*.csv, or "-" for standard input.`, Required: true, Read: keytable.Text(&f.Path, keytable.NotEmpty)}},
			f.Fields.keys(what), []keytable.Key{f.Fields.layout(strings.ToLower(what), row), {
				Name: "carry", Doc: "Columns, fields or patterns that records copy into carry.", Read: keytable.OneOrMore(strings.ToLower(what)+"s", &f.Carry),
			}})}
		if !format.Whole {
			k.Keys = append(k.Keys, keytable.Key{Name: "disorder", Doc: "For the path \"-\": how far a record's time may be behind the latest time. Incidents, digests and pages of single series are delivered as the times pass. If a record is further behind, they wait for the end of the input.", Read: keytable.Duration(&f.Disorder)})
			k.Keys = append(k.Keys, keytable.Key{Name: "encoding", Doc: "Encoding of the text. UTF-16 with a byte order mark needs no setting.", Read: keytable.Choice(&f.Encoding, connectors.Encodings...)})
		}
		if format.Delimited {
			k.Keys = append(k.Keys,
				keytable.Key{Name: "delimiter", Doc: "Separates fields.", Read: delimiter(&f.Delimiter)},
				keytable.Key{Name: "skip", Doc: "Lines before the header.", Read: keytable.Whole(&f.Skip, 0)},
				keytable.Key{Name: "comment", Doc: "Prefix of lines to skip.", Read: keytable.Text(&f.Comment, keytable.MayBeEmpty)},
				f.Fields.decimal())
		} else if !format.Columns {
			k.Keys = append(k.Keys, f.Fields.decimal())
		}
		keys = append(keys, k)
	}
	return keys
}

// layout declares the layout of columns or fields.
func (f *Fields) layout(what string, rows string) keytable.Key {
	doc := "long: a " + rows + " is an observation. wide: each " + what + " of values is a key, with its name after the parts of key; values are names or patterns, by default [\"*\"], and key is none by default."
	names := []string{Long, Wide}
	if what == "field" {
		doc = "As for csv. series: values is a list of numbers, and time a list of times. Without time, values has pairs of time and value; with time: \"\" and order: arrival, only values."
		names = append(names, Series)
	}
	return keytable.Key{Name: "layout", Doc: doc, Read: keytable.Choice(&f.Layout, names...)}
}

// A namedFile is a file that a config names.
type namedFile struct {
	key  string      // of the config
	path string      // clean; stdio, or one of the streams below
	info fs.FileInfo // nil if there is no regular file yet
}

// stdio is the path that stands for standard input and standard output.
const stdio = "-"

// What checkFiles calls the streams of the process.
const (
	standardInput  = "standard input"
	standardOutput = "standard output"
	standardError  = "standard error"
)

// placeOf returns the place of a file. Two places are one if their files are, whatever their
// paths.
func placeOf(key, path string) namedFile {
	path = filepath.Clean(path)
	return namedFile{key, path, regular(os.Stat(path))}
}

// streamOf returns the place of a stream of the process, which may be a file.
func streamOf(key, name string, f *os.File) namedFile { return namedFile{key, name, regular(f.Stat())} }

// regular is the info of a regular file, nil of what is none.
func regular(info fs.FileInfo, err error) fs.FileInfo {
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

func (p namedFile) stream() bool {
	return p.path == standardInput || p.path == standardOutput || p.path == standardError
}

// String names the place in errors.
func (p namedFile) String() string {
	if p.stream() {
		return p.path
	}
	return message.Quote(p.path)
}

// is reports whether both places are one file.
func (p namedFile) is(o namedFile) bool {
	switch {
	case p.info != nil && o.info != nil:
		return os.SameFile(p.info, o.info)
	case p.stream() || o.stream():
		return false
	}
	return p.path == o.path || filepath.Base(p.path) == filepath.Base(o.path) && sameFolder(filepath.Dir(p.path), filepath.Dir(o.path))
}

// sameFolder reports whether both paths lead to one folder.
func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// A sourceInput is what a source reads.
type sourceInput struct {
	namedFile
	matches []namedFile // if the path is a pattern, its files
}

func inputOf(key, path string) sourceInput {
	if path == stdio {
		return sourceInput{namedFile: streamOf(key, standardInput, os.Stdin)}
	}
	in := sourceInput{namedFile: placeOf(key, path)}
	// A malformed pattern matches nothing; the source will say so.
	matches, _ := filepath.Glob(path)
	for _, m := range matches {
		in.matches = append(in.matches, placeOf(key, m))
	}
	return in
}

// reads reports whether the input has the file of a place, or will have it once there is one.
func (in sourceInput) reads(out namedFile) bool {
	if in.is(out) || slices.ContainsFunc(in.matches, out.is) {
		return true
	}
	if in.stream() || out.stream() || !strings.ContainsAny(in.path, "*?[") {
		return false
	}
	if match, _ := filepath.Match(in.path, out.path); match {
		return true
	}
	if match, _ := filepath.Match(filepath.Base(in.path), filepath.Base(out.path)); !match {
		return false
	}
	folders, _ := filepath.Glob(filepath.Dir(in.path))
	return slices.ContainsFunc(folders, func(folder string) bool { return sameFolder(folder, filepath.Dir(out.path)) })
}

// checkFiles refuses a file that would be overwritten while it is read or written by another
// part. Files are compared as such: a link or another path to one is the same.
func (d *decoder) checkFiles(c *Config) {
	var in []sourceInput
	if s := c.Source.Files(); s != nil {
		in = append(in, inputOf("source."+s.Format+".path", s.Path))
	}
	if m := c.Marks; m != nil && m.File != nil && m.File.Path != "" {
		in = append(in, sourceInput{namedFile: placeOf("marks.jsonl.path", m.File.Path)})
	}
	var out []namedFile
	standardOut := ""
	add := func(at string, f *File) {
		if f == nil {
			return
		}
		switch key := keytable.Join(at, f.Format+".path"); {
		case f.Path != stdio:
			out = append(out, placeOf(key, f.Path))
		case standardOut == "":
			standardOut = key
			out = append(out, streamOf(key, standardOutput, os.Stdout))
		default:
			d.Fail(key, "standard output is also written, by %s: give one of them a file, or sink: none", standardOut)
		}
	}
	add("sink", c.Sink.File)
	if c.DeadLetter == nil {
		out = append(out, streamOf("dead_letter", standardError, os.Stderr))
	} else {
		add("dead_letter", c.DeadLetter.File)
	}
	for _, r := range c.Alerts {
		add(r.At, r.File)
	}
	if c.State != "" {
		out = append(out, placeOf("state", c.State))
	}
	for i, o := range out {
		for _, s := range in {
			if s.reads(o) {
				d.Fail(o.key, "%s is also read, by %s", o, s.key)
			}
		}
		for _, p := range out[:i] {
			// A shell's 2>&1 sends both streams to one file, of whole lines.
			if o.is(p) && !(o.stream() && p.stream()) {
				d.Fail(o.key, "%s is also written, by %s", o, p.key)
			}
		}
	}
}
