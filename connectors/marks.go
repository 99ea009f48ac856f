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

// FileMarks are how far the files of a source were read to their ends: by the run before, whose
// records are passed over, and by this one. A run that carries FileMarks, see account.WithValue, has
// Read follow them. Standard input, and what else can be read only once, has no mark.
type FileMarks struct {
	log    *slog.Logger
	replay bool // see Again

	mu      sync.Mutex
	files   map[string]fileMark // by absolute path
	skipped int64
}

// A fileMark knows the beginning of a file again. Its sums are of the records as they stand in the
// file.
type fileMark struct {
	records int64  // in the beginning
	before  uint32 // sum of the columns and of all of these records but the last
	last    uint32 // sum of the last
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add adds a record.
func (m *fileMark) add(raw []byte) {
	if m.records > 0 {
		m.before = crc32.Update(m.before, castagnoli, binary.LittleEndian.AppendUint32(nil, m.last))
	}
	m.last = crc32.Checksum(raw, castagnoli)
	m.records++
}

// ParseMarks reads what FileMarks.AppendBinary has written; nil is no marks. log is told of files
// that are not what they were.
func ParseMarks(b []byte, log *slog.Logger) (*FileMarks, error) {
	m := &FileMarks{log: log, files: map[string]fileMark{}}
	if b == nil {
		return m, nil
	}
	c := &compact.Codec{Reader: compact.Reader{B: b}}
	if m.serialize(c); c.Bad || len(c.B) > 0 {
		return nil, errors.New("how far the files were read is damaged")
	}
	return m, nil
}

// AppendBinary appends the encoded marks to b. A file that is no longer there has none. The
// error is always nil.
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

// WasRead returns FileMarks with which Read reads again what was read up to m, and nothing else. A file that
// does not begin as it did then is left out.
func (m *FileMarks) WasRead() *FileMarks {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &FileMarks{log: m.log, replay: true, files: maps.Clone(m.files)}
}

// Records is how many records of the files of src that are still there were read.
func (m *FileMarks) Records(src Source) (n int64) {
	paths, _ := src.files() // none, if there is no such file any more
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

// idOf is the absolute path, if there is one.
func absPath(path string) string {
	if id, err := filepath.Abs(path); err == nil {
		return id
	}
	return path
}

// Skipped is how many records were passed over.
func (m *FileMarks) Skipped() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.skipped
}

// open opens a file of src behind what the run before has read of it. A file that does not begin
// as it did then is read whole.
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
		m.log.Warn("the file is another than in the run before, and is read from its beginning", "file", path, "records read then", prev.records)
		known = false
	}
}

func (m *FileMarks) reader(cur recordReader, id string) *markedReader {
	r := &markedReader{recordReader: cur, marks: m, id: id}
	r.mark.before = crc32.Checksum([]byte(strings.Join(cur.columns(), "\x00")), castagnoli)
	return r
}

// openMarked opens a file for what was read of it: nothing, if it does not begin so any more. The
// file is read twice, as nobody can tell that before the end.
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
		m.log.Warn("the file is another than in the run before: it has no past to learn from", "file", path)
		left = 0
	case r.ahead != nil:
		left--
	}
	cur, err = src.open(path, skipped)
	return &partReader{cur, left}, err
}

// A partReader reads the beginning of a file.
type partReader struct {
	recordReader
	left int64 // records
}

func (r *partReader) next() (Record, error) {
	if r.left--; r.left < 0 {
		return Record{}, io.EOF
	}
	return r.recordReader.next()
}

// A markedReader notes how far it has read when it comes to the end.
type markedReader struct {
	recordReader
	marks *FileMarks
	id    string
	mark  fileMark
	ahead *Record // read already, the next
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

// passOver passes over the records of a mark. It reports false if they are not the beginning of
// the file. Another last one is passed on: a line that was read while it was being written is
// whole now.
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
		r.marks.log.Warn("the last record is another than in the run before, and is read again", "file", rec.Path, "line", rec.Position)
	}
	r.marks.mu.Lock()
	r.marks.skipped += skipped
	r.marks.mu.Unlock()
	return true, nil
}
