package table

import (
	"cmp"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// A File stores the entries of spilled tables. Different goroutines may use different tables. The file is as large
// as the tables once were together: space that a table releases is used by others.
type File struct {
	rw      ReaderWriterAt
	readErr atomic.Pointer[error] // error of a read: after it, no table in the file can be trusted

	mu   sync.Mutex
	end  uint32 // number of chunks in the file
	free []uint32
}

// ReaderWriterAt is the part of an *os.File that a File needs.
type ReaderWriterAt interface {
	io.ReaderAt
	io.WriterAt
}

// NewFile returns a File in rw, which must be empty and not used otherwise.
func NewFile(rw ReaderWriterAt) *File { return &File{rw: rw} }

const (
	// chunkBytes is the size of the chunks that a file allocates to tables.
	chunkBytes = 1 << 16
	// pieceBytes is the size of a read or write of many entries.
	pieceBytes = 1 << 18
)

// Spill moves the entries to f. If it fails, the table stays in memory.
func (t *Table) Spill(f *File) error {
	r := f.region()
	if _, err := r.Write(t.data); err != nil {
		r.release()
		return err
	}
	t.file, t.data = r, nil
	return nil
}

// Spilled reports whether the entries are in a file.
func (t *Table) Spilled() bool { return t.file != nil }

// Err returns the first error of the table's file, or nil. After an error the table has no values and accepts none,
// so call Err before treating a value as absent.
func (t *Table) Err() error {
	if t.file == nil {
		return nil
	}
	return t.file.err()
}

// Err returns the error for which the file cannot be read, or nil. After an error no table in it can be used.
func (f *File) Err() error {
	if err := f.readErr.Load(); err != nil {
		return *err
	}
	return nil
}

// A region is the part of a file that belongs to one table: a list of chunks. When nobody refers to the region any
// more, other regions get its chunks.
type region struct {
	file *File
	*chunks
	end    int   // number of bytes
	failed error // error of a write
}

type chunks struct{ indexes []uint32 }

func (f *File) region() *region {
	r := &region{file: f, chunks: &chunks{}}
	runtime.AddCleanup(r, f.reclaim, r.chunks)
	return r
}

// reclaim makes the chunks free.
func (f *File) reclaim(c *chunks) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = append(f.free, c.indexes...)
	c.indexes = nil
}

func (r *region) release() { r.file.reclaim(r.chunks) }

// size returns about the memory of the region, in bytes.
func (r *region) size() int {
	if r == nil {
		return 0
	}
	return 4 * cap(r.indexes)
}

func (r *region) err() error { return cmp.Or(r.failed, r.file.Err()) }

// grow allocates chunks until the region has room for the given number of bytes.
func (r *region) grow(bytes int) {
	f := r.file
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(r.indexes)*chunkBytes < bytes {
		index := f.end
		if n := len(f.free); n > 0 {
			index, f.free = f.free[n-1], f.free[:n-1]
		} else {
			f.end++
		}
		r.indexes = append(r.indexes, index)
	}
}

// Write appends b.
func (r *region) Write(b []byte) (int, error) {
	r.write(b, r.end)
	return len(b), r.err()
}

// write writes b at offset.
func (r *region) write(b []byte, offset int) {
	if r.err() != nil {
		return
	}
	r.grow(offset + len(b))
	if r.failed = r.each(b, offset, r.file.rw.WriteAt); r.failed == nil {
		r.end = max(r.end, offset+len(b))
	}
}

// read returns the given number of bytes from offset on, fewer at the end, and nil after an error.
func (r *region) read(offset, bytes int) []byte {
	if r.err() != nil {
		return nil
	}
	b := make([]byte, min(bytes, r.end-offset))
	if err := r.each(b, offset, r.file.rw.ReadAt); err != nil {
		r.file.readErr.CompareAndSwap(nil, &err)
		return nil
	}
	return b
}

// each calls do, the file's ReadAt or WriteAt, for the part of b in each chunk.
func (r *region) each(b []byte, offset int, do func([]byte, int64) (int, error)) error {
	defer runtime.KeepAlive(r) // otherwise the chunks could be reclaimed
	for len(b) > 0 {
		chunkOffset := offset % chunkBytes
		part := b[:min(len(b), chunkBytes-chunkOffset)]
		if n, err := do(part, int64(r.indexes[offset/chunkBytes])*chunkBytes+int64(chunkOffset)); n < len(part) {
			return err
		}
		b, offset = b[len(part):], offset+len(part)
	}
	return nil
}

// entry returns the entry at offset, nil after an error. It reads the given number of bytes first, and again if the
// entry is larger.
func (r *region) entry(offset, bytes int) entry {
	return firstEntry(r.readFrom(offset, max(bytes, unit)))
}

// readFrom reads at least the given number of bytes from the entry at offset on, and at least the entry.
func (r *region) readFrom(offset, bytes int) []byte {
	b := r.read(offset, bytes)
	if b != nil && !hasWholeEntry(b) {
		b = r.read(offset, entry(b).size())
	}
	return b
}

// hasWholeEntry reports whether b begins with a complete entry.
func hasWholeEntry(b []byte) bool { return len(b) >= headSize && entry(b).size() <= len(b) }

// firstEntry returns the entry at the start of b, nil if b is nil.
func firstEntry(b []byte) entry {
	if b == nil {
		return nil
	}
	size := entry(b).size()
	return b[:size:size]
}

// sequential returns a function that reads entries at increasing offsets, many at once.
func (r *region) sequential() func(offset int) entry {
	var piece []byte
	start := 0
	return func(offset int) entry {
		if !hasWholeEntry(piece[offset-start:]) {
			piece, start = r.readFrom(offset, pieceBytes), offset
		}
		return firstEntry(piece[offset-start:])
	}
}
