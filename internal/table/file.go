package table

import (
	"cmp"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// A File has the entries of spilled tables, of which different goroutines may use different ones.
// It is as large as these once were together: what a table gives back is for others.
type File struct {
	on   ReaderWriterAt
	lost atomic.Pointer[error] // an error of reading: no table in the file can be trusted

	mu    sync.Mutex
	end   uint32 // chunks that there are
	freed []uint32
}

// ReaderWriterAt is what a File needs of an *os.File.
type ReaderWriterAt interface {
	io.ReaderAt
	io.WriterAt
}

// NewFile returns a File on an empty file, which has to be for it alone.
func NewFile(on ReaderWriterAt) *File { return &File{on: on} }

const (
	// chunkBytes is the size of the parts in which a table has room in a file.
	chunkBytes = 1 << 16
	// pieceBytes are read and written at once where many entries are.
	pieceBytes = 1 << 18
)

// Spill moves the entries to a file. After an error the table is in memory as before.
func (t *Table) Spill(to *File) error {
	r := to.region()
	if _, err := r.Write(t.data); err != nil {
		r.release()
		return err
	}
	t.file, t.data = r, nil
	return nil
}

// Spilled reports whether the entries are in a file.
func (t *Table) Spilled() bool { return t.file != nil }

// Err is the first error of the file: since then the table has no values, and takes none. Ask for it
// before a value counts as absent.
func (t *Table) Err() error {
	if t.file == nil {
		return nil
	}
	return t.file.err()
}

// Err is the error of a file that cannot be read. No table in it can be used.
func (f *File) Err() error {
	if err := f.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// A region is the part of a file that a table has: chunks, wherever they are. When nobody refers to
// it any more, other regions get its chunks.
type region struct {
	file *File
	*chunks
	end    int   // of the bytes
	failed error // of writing
}

type chunks struct{ at []uint32 }

func (f *File) region() *region {
	r := &region{file: f, chunks: &chunks{}}
	runtime.AddCleanup(r, f.take, r.chunks)
	return r
}

// take takes chunks back.
func (f *File) take(c *chunks) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.freed = append(f.freed, c.at...)
	c.at = nil
}

func (r *region) release() { r.file.take(r.chunks) }

// size is about what the region takes in memory.
func (r *region) size() int {
	if r == nil {
		return 0
	}
	return 4 * cap(r.at)
}

func (r *region) err() error { return cmp.Or(r.failed, r.file.Err()) }

// grow takes chunks for so many bytes.
func (r *region) grow(bytes int) {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(r.at)*chunkBytes < bytes {
		at := f.end
		if n := len(f.freed); n > 0 {
			at, f.freed = f.freed[n-1], f.freed[:n-1]
		} else {
			f.end++
		}
		r.at = append(r.at, at)
	}
}

// Write appends b.
func (r *region) Write(b []byte) (int, error) {
	r.write(b, r.end)
	return len(b), r.err()
}

// write writes b at a place.
func (r *region) write(b []byte, at int) {
	if r.err() != nil {
		return
	}
	r.grow(at + len(b))
	if r.failed = r.each(b, at, r.file.on.WriteAt); r.failed == nil {
		r.end = max(r.end, at+len(b))
	}
}

// read returns so many bytes from a place on, or those up to the end; none after an error.
func (r *region) read(at, bytes int) []byte {
	if r.err() != nil {
		return nil
	}
	b := make([]byte, min(bytes, r.end-at))
	if err := r.each(b, at, r.file.on.ReadAt); err != nil {
		r.file.lost.CompareAndSwap(nil, &err)
		return nil
	}
	return b
}

// each calls do, which is ReadAt or WriteAt of the file, for the parts of b that chunks have.
func (r *region) each(b []byte, at int, do func([]byte, int64) (int, error)) error {
	defer runtime.KeepAlive(r) // the chunks are nobody else's meanwhile
	for len(b) > 0 {
		in := at % chunkBytes
		part := b[:min(len(b), chunkBytes-in)]
		if n, err := do(part, int64(r.at[at/chunkBytes])*chunkBytes+int64(in)); n < len(part) {
			return err
		}
		b, at = b[len(part):], at+len(part)
	}
	return nil
}

// entry is that at a place; none after an error. So many bytes are read at first, and again if the
// entry is larger.
func (r *region) entry(at, bytes int) entry { return first(r.from(at, max(bytes, unit))) }

// from reads so many bytes from an entry on, and at least the entry.
func (r *region) from(at, bytes int) []byte {
	b := r.read(at, bytes)
	if b != nil && !whole(b) {
		b = r.read(at, entry(b).size())
	}
	return b
}

// whole reports whether b begins with an entry that does not end behind it.
func whole(b []byte) bool { return len(b) >= headSize && entry(b).size() <= len(b) }

// first is the entry that b begins with.
func first(b []byte) entry {
	if b == nil {
		return nil
	}
	size := entry(b).size()
	return b[:size:size]
}

// inTurn returns a function that reads one entry after the other, many at once.
func (r *region) inTurn() func(at int) entry {
	var piece []byte
	from := 0
	return func(at int) entry {
		if !whole(piece[at-from:]) {
			piece, from = r.from(at, pieceBytes), at
		}
		return first(piece[at-from:])
	}
}
