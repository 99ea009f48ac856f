package connectors

import (
	"bytes"
	"io"
)

// jsonlReader reads one Record per line that is not blank. It does not parse
// JSON: it only makes sure that the line is text.
type jsonlReader struct{ *lines }

func newJSONLReader(r io.ReadCloser, path string) *jsonlReader {
	l := newLines(r, path)
	l.skipBOM()
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
