package connectors

import (
	"bytes"
	"io"
)

var jsonlFormat = Format{
	Name: JSONLines, Title: "JSON Lines", Extensions: []string{".jsonl", ".ndjson", ".json"},
	Of:      "One JSON object per line.",
	Written: "One JSON object per line.",
	open: ofText(func(r io.ReadCloser, path string, _ Source) (*jsonlReader, error) {
		return newJSONLReader(r, path), nil
	}),
	encode: func(out io.Writer, _ Sink, _ bool) (encoder, error) { return &jsonlEncoder{out: out}, nil },
}

// jsonlReader reads one Record per line that is not blank. It does not parse
// JSON: it only makes sure that the line is text.
type jsonlReader struct{ *lines }

func newJSONLReader(r io.ReadCloser, path string) *jsonlReader {
	l := newLines(r, path)
	l.begin()
	return &jsonlReader{l}
}

func (j *jsonlReader) columns() []string { return nil }

func (j *jsonlReader) next() (Record, error) {
	for {
		n, err := j.lineEnd(0)
		if err == errTooLong {
			return j.tooLong(), nil
		}
		if err != nil {
			return Record{}, err
		}
		line := chomp(j.buf[j.start : j.start+n])
		rec := j.record()
		j.consume(n, 1)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if rec.Reason = textFault(line); rec.Reason != "" {
			rec.Raw = j.head(line)
		} else {
			rec.Raw = j.keep(line)
		}
		return rec, nil
	}
}

// jsonlEncoder writes the lines as they are.
type jsonlEncoder struct{ out io.Writer }

func (e *jsonlEncoder) write(lines []byte) error {
	_, err := e.out.Write(lines)
	return err
}

func (e *jsonlEncoder) flush() error { return nil }
func (e *jsonlEncoder) close() error { return nil }
