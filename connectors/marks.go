package connectors

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"hafvf/internal/compact"
)

// FileMarks store how many records of each file had been read when its end was reached, in the previous run and in
// this one. If a run carries FileMarks, see account.WithValue, Read skips the records that the previous run has
// read. Standard input and other files that can be read only once have no mark.
type FileMarks struct {
	log    *slog.Logger
	replay bool // read only the marked records, see WasRead

	mu      sync.Mutex
	files   map[string]fileMark // by absolute path
	skipped int64
}

// A fileMark identifies the beginning of a file by checksums of its records as they are in the file.
type fileMark struct {
	records int64  // number of records in the beginning
	before  uint32 // checksum of the columns and of all these records except the last
	last    uint32 // checksum of the last record
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add appends a record to the beginning.
func (m *fileMark) add(raw []byte) {
	if m.records > 0 {
		m.before = crc32.Update(m.before, castagnoli, binary.LittleEndian.AppendUint32(nil, m.last))
	}
	m.last = crc32.Checksum(raw, castagnoli)
	m.records++
}

// ParseMarks decodes the output of FileMarks.AppendBinary; nil means no marks. Read logs files that have changed to
// log.
func ParseMarks(b []byte, log *slog.Logger) (*FileMarks, error) {
	m := &FileMarks{log: log, files: map[string]fileMark{}}
	if b == nil {
		return m, nil
	}
	c := &compact.Codec{Reader: compact.Reader{B: b}}
	if m.serialize(c); c.Bad || len(c.B) > 0 {
		return nil, errors.New("the stored marks of the files are damaged")
	}
	return m, nil
}

// AppendBinary appends the encoded marks to b. It deletes the marks of files that no longer exist. The error is
// always nil.
func (m *FileMarks) AppendBinary(b []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.files, func(path string, _ fileMark) bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	})
	c := &compact.Codec{Reader: compact.Reader{B: b}, Writes: true}
	m.serialize(c)
	return c.B, nil
}

func (m *FileMarks) serialize(c *compact.Codec) {
	compact.Entries(c, m.files, 4, strings.Compare, func(path *string, f *fileMark) {
		compact.Texts(c, path)
		compact.Unsigned(c, &f.records)
		compact.Unsigned(c, &f.before, &f.last)
	})
}

// WasRead returns FileMarks with which Read reads only the marked records. It skips a file whose beginning has
// changed.
func (m *FileMarks) WasRead() *FileMarks {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &FileMarks{log: m.log, replay: true, files: maps.Clone(m.files)}
}

// Records returns the number of marked records in the existing files of src.
func (m *FileMarks) Records(src Source) (n int64) {
	paths, _ := src.files() // none if no file exists any more
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		n += m.files[absPath(path)].records
	}
	return n
}

// absPath returns the absolute path, or path if there is none.
func absPath(path string) string {
	if id, err := filepath.Abs(path); err == nil {
		return id
	}
	return path
}

// Skipped returns the number of records that Read has skipped.
func (m *FileMarks) Skipped() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skipped
}

// open opens a file of src and skips the records that the previous run has read. A file whose beginning has changed
// is read from the start.
func (m *FileMarks) open(src Source, path string, skipped *skippedLines) (recordReader, error) {
	id := absPath(path)
	m.mu.Lock()
	prev, known := m.files[id]
	m.mu.Unlock()
	if m.replay {
		return m.openMarked(src, path, prev, skipped)
	}
	for {
		skipped.setReread(known)
		cur, err := src.open(path, skipped)
		if err != nil {
			return nil, err
		}
		r := m.reader(cur, id)
		if !known {
			return r, nil
		}
		same, err := r.skipMarked(prev)
		skipped.setReread(false)
		if err != nil {
			cur.close()
			return nil, err
		}
		if same {
			return r, nil
		}
		if err := cur.close(); err != nil {
			return nil, err
		}
		m.log.Warn("file was replaced since the previous run: reading it from the start", "file", path, "records read then", prev.records)
		known = false
	}
}

func (m *FileMarks) reader(cur recordReader, id string) *markedReader {
	r := &markedReader{recordReader: cur, marks: m, id: id}
	r.mark.before = crc32.Checksum([]byte(strings.Join(cur.columns(), "\x00")), castagnoli)
	return r
}

// openMarked opens a file to read only its marked records, or none if its beginning has changed. It reads the
// beginning twice, because the checksums are known only at its end.
func (m *FileMarks) openMarked(src Source, path string, prev fileMark, skipped *skippedLines) (recordReader, error) {
	cur, err := src.open(path, skipped)
	if err != nil {
		return nil, err
	}
	r := m.reader(cur, path)
	same, err := r.skipMarked(prev)
	if err := errors.Join(err, cur.close()); err != nil {
		return nil, err
	}
	left := prev.records
	switch {
	case prev.records > 0 && !same:
		m.log.Warn("file was replaced since the previous run: its past is not learned", "file", path)
		left = 0
	case r.ahead != nil:
		left--
	}
	cur, err = src.open(path, skipped)
	return &partReader{cur, left}, err
}

// A partReader reads the first records of a file.
type partReader struct {
	recordReader
	left int64 // records that are left
}

func (r *partReader) next() (Record, error) {
	if r.left--; r.left < 0 {
		return Record{}, io.EOF
	}
	return r.recordReader.next()
}

// A markedReader stores a mark when it reaches the end of the file.
type markedReader struct {
	recordReader
	marks *FileMarks
	id    string
	mark  fileMark
	ahead *Record // next record, if it is already read
}

func (r *markedReader) next() (Record, error) {
	if rec := r.ahead; rec != nil {
		r.ahead = nil
		return *rec, nil
	}
	rec, err := r.recordReader.next()
	switch err {
	case nil:
		r.mark.add(rec.Raw)
	case io.EOF:
		r.marks.mu.Lock()
		r.marks.files[r.id] = r.mark
		r.marks.mu.Unlock()
	}
	return rec, err
}

// skipMarked reads the records of a mark. same is false if they are not the beginning of the file. If only the last
// record differs, next returns it again: a line that was read while it was being written is complete now.
func (r *markedReader) skipMarked(prev fileMark) (same bool, err error) {
	var rec Record
	for r.mark.records < prev.records {
		if rec, err = r.recordReader.next(); err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r.mark.add(rec.Raw)
	}
	if r.mark.before != prev.before {
		return false, nil
	}
	skipped := prev.records
	if r.mark.last != prev.last {
		r.ahead = &rec
		skipped--
		r.marks.log.Warn("last record has changed since the previous run: reading it again", "file", rec.Path, "line", rec.Position)
	}
	r.marks.mu.Lock()
	r.marks.skipped += skipped
	r.marks.mu.Unlock()
	return true, nil
}
