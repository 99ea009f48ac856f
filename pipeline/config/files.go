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
	Format string // name in connectors.Formats
	Path   string
	Fields
	Delimiter rune
	Skip      int           // lines before the header
	Comment   string        // prefix of lines to skip; empty: none
	Encoding  string        // of text, one of connectors.Encodings
	Disorder  time.Duration // for the path "-": maximum time of a record behind the latest one
}

func (f *Files) fields() (*Fields, string) { return &f.Fields, "source." + f.Format }
func (f *Files) shaped() bool              { return !connectors.FormatOf(f.Format).Columns }
func (f *Files) unbounded() bool           { return false }

// check checks disorder, carry, and names that are not in records; checkFiles compares the files of a config.
func (f *Files) check(d *decoder, c *Config) {
	if f.Disorder != 0 && f.Path != stdio {
		d.Fail("source."+f.Format+".disorder", "is for the path \"-\": a file needs none")
	}
	if f.UsesPath() && f.Path == stdio {
		d.Fail("source."+f.Format+".key", "{path: …} is a part of a file's path, and standard input has none: name a column or field")
	}
	if f.UsesRecordTime() {
		d.Fail("source."+f.Format+".time", "{record: true} is the timestamp of a Kafka record, and records of a file have none: name a column or field")
	}
	path := "source." + f.Format + ".carry"
	if !d.Has(path) {
		return
	}
	switch {
	case c.Aggregate != nil:
		d.Fail(path, "is for single records, but aggregate combines records to intervals: leave out one of them")
	case f.Layout != Long:
		d.Fail(path, "is for layout: long")
	case c.Sink.Format == registry.Avro:
		d.Fail(path, "has no Avro schema: use JSON for the sink")
	}
	if slices.Contains(f.Carry, "") {
		d.Fail(path, "a name is empty")
	}
}

func (f *Files) checkFlink(d *decoder) { d.Fail("source", localFileReason) }

// Files returns the source of files, nil if the source is another.
func (s *Source) Files() *Files { return originOf[*Files](s) }

// StandardInput reports whether the source is standard input.
func (s *Source) StandardInput() bool { return s.Files() != nil && s.Files().Path == "-" }

// filesKeys declares the sources of files, one for each format.
func (s *Source) filesKeys() []keytable.Key {
	var keys []keytable.Key
	for _, format := range connectors.Formats {
		f := &Files{Format: format.Name, Fields: defaultFields(), Delimiter: ',', Encoding: connectors.Encodings[0]}
		noun, row := "Column", "row"
		if !format.Columns {
			noun, row = "Field", "record"
		}
		k := keytable.Key{Name: format.Name, Doc: format.Of, Seen: s.set(f), Keys: slices.Concat(
			[]keytable.Key{{Name: "path", Doc: `A file, a pattern such as data/*.csv, or "-" for standard input.`, Required: true, Read: keytable.Text(&f.Path, keytable.NotEmpty)}},
			f.Fields.keys(noun), []keytable.Key{f.Fields.layout(strings.ToLower(noun), row), {
				Name: "carry", Doc: "Columns, fields or patterns that records copy into carry.", Read: keytable.OneOrMore(strings.ToLower(noun)+"s", &f.Carry),
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
func (f *Fields) layout(noun string, rows string) keytable.Key {
	doc := "long: a " + rows + " is an observation. wide: each " + noun + " of values is a key, with its name after the parts of key; values are names or patterns, by default [\"*\"], and key is none by default."
	names := []string{Long, Wide}
	if noun == "field" {
		doc = "As for csv. series: values is a list of numbers, and time a list of times. Without time, values has pairs of time and value; with time: \"\" and order: arrival, only values."
		names = append(names, Series)
	}
	return keytable.Key{Name: "layout", Doc: doc, Read: keytable.Choice(&f.Layout, names...)}
}

// A namedFile is a file that a config names.
type namedFile struct {
	key  string      // config key
	path string      // clean path; stdio, or one of the streams below
	info fs.FileInfo // nil if there is no regular file
}

// stdio is the path of standard input and standard output.
const stdio = "-"

// Names of the streams of the process in checkFiles.
const (
	standardInput  = "standard input"
	standardOutput = "standard output"
	standardError  = "standard error"
)

// placeOf returns the namedFile at path. Two of them are equal if their files are, even with different paths.
func placeOf(key, path string) namedFile {
	path = filepath.Clean(path)
	return namedFile{key, path, regular(os.Stat(path))}
}

// streamOf returns the namedFile of a stream of the process, which may be a regular file.
func streamOf(key, name string, f *os.File) namedFile { return namedFile{key, name, regular(f.Stat())} }

// regular returns the info of a regular file, nil for everything else.
func regular(info fs.FileInfo, err error) fs.FileInfo {
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return info
}

func (p namedFile) stream() bool {
	return p.path == standardInput || p.path == standardOutput || p.path == standardError
}

// String returns the name in errors.
func (p namedFile) String() string {
	if p.stream() {
		return p.path
	}
	return message.Quote(p.path)
}

// sameFile reports whether both are one file.
func (p namedFile) sameFile(o namedFile) bool {
	switch {
	case p.info != nil && o.info != nil:
		return os.SameFile(p.info, o.info)
	case p.stream() || o.stream():
		return false
	}
	return p.path == o.path || filepath.Base(p.path) == filepath.Base(o.path) && sameFolder(filepath.Dir(p.path), filepath.Dir(o.path))
}

// sameFolder reports whether both paths are one folder.
func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// A sourceInput is the input of a source.
type sourceInput struct {
	namedFile
	matches []namedFile // files that match, if the path is a pattern
}

func inputOf(key, path string) sourceInput {
	if path == stdio {
		return sourceInput{namedFile: streamOf(key, standardInput, os.Stdin)}
	}
	in := sourceInput{namedFile: placeOf(key, path)}
	// A malformed pattern matches nothing; the source reports it.
	matches, _ := filepath.Glob(path)
	for _, m := range matches {
		in.matches = append(in.matches, placeOf(key, m))
	}
	return in
}

// reads reports whether the input includes the file, or would include it once it exists.
func (in sourceInput) reads(out namedFile) bool {
	if in.sameFile(out) || slices.ContainsFunc(in.matches, out.sameFile) {
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

// checkFiles refuses a file that is overwritten while another part reads or writes it. It compares the files
// themselves: a link or another path to a file is the same file.
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
	add := func(path string, f *File) {
		if f == nil {
			return
		}
		switch key := keytable.Join(path, f.Format+".path"); {
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
		add(r.Path, r.File)
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
			// A shell's 2>&1 sends both streams to one file, in whole lines.
			if o.sameFile(p) && !(o.stream() && p.stream()) {
				d.Fail(o.key, "%s is also written, by %s", o, p.key)
			}
		}
	}
}
