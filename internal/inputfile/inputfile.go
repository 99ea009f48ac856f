// Package inputfile reads the files that a config names, within bounds of size and time.
package inputfile

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// MB is the unit of file size limits.
const MB = 1 << 20

// waitTime is the maximum time for which a reader waits for the content of a file.
var waitTime = 10 * time.Second

// A content is the result of reading a file.
type content struct {
	text []byte
	info fs.FileInfo
	err  error
}

func (c content) values() ([]byte, fs.FileInfo, error) { return c.text, c.info, c.err }

// pipes has the content of each pipe that was read, as func() content by path.
var pipes sync.Map

// Read returns the content of a regular file or a pipe, and its FileInfo from before the read. It refuses other
// kinds of files, more than limit bytes, and a file that yields nothing within 10 s. A pipe is read once: later
// calls return the same content.
func Read(path string, limit int) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = refusal(info, limit)
	}
	if err != nil {
		return nil, nil, err
	}
	if !isPipe(info) {
		return readInTime(path, info, limit).values()
	}
	once, _ := pipes.LoadOrStore(path, sync.OnceValue(func() content { return readInTime(path, info, limit) }))
	return once.(func() content)().values()
}

// ReadText is Read without the byte order mark at the start.
func ReadText(path string, limit int) ([]byte, fs.FileInfo, error) {
	text, info, err := Read(path, limit)
	return WithoutMark(text), info, err
}

// WithoutMark returns text without the byte order mark at its start.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// Open opens a regular file of any size. It refuses anything else without opening it.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = refusal(info, AnySize)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// AnySize is the limit argument that means no limit.
const AnySize = 0

// Check returns the error with which Read, or with AnySize Open, refuses the file at path. It returns nil if the
// file is missing or cannot be opened. Check reads a pipe, so that later reads do not wait.
func Check(path string, limit int) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if err = refusal(info, limit); err == nil && isPipe(info) {
		_, _, err = Read(path, limit)
	}
	return err
}

func isPipe(info fs.FileInfo) bool { return info.Mode()&fs.ModeNamedPipe != 0 }

// refusal returns an error if the kind or the size of a file is not allowed.
func refusal(info fs.FileInfo, limit int) error {
	want, kind := "a regular file or a pipe", "a device"
	if limit == AnySize {
		want = "a regular file"
	}
	switch {
	case info.Mode().IsRegular() && limit != AnySize && info.Size() > int64(limit):
		return tooLarge(limit)
	case info.Mode().IsRegular() || isPipe(info) && limit != AnySize:
		return nil
	case isPipe(info):
		kind = "a pipe"
	case info.IsDir():
		kind = "a folder"
	case info.Mode()&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Errorf("%s is %s: give %s", info.Name(), kind, want)
}

func tooLarge(limit int) error {
	if limit >= MB {
		return fmt.Errorf("it has more than %d MB", limit/MB)
	}
	return fmt.Errorf("it has more than %d kB", limit>>10)
}

// readInTime reads a file. After waitTime it fails, since a pipe may have no writer; the read then continues in the
// background.
func readInTime(path string, info fs.FileInfo, limit int) content {
	done := make(chan content, 1)
	go func() {
		text, err := readAll(path, limit)
		done <- content{text, info, err}
	}()
	select {
	case c := <-done:
		return c
	case <-time.After(waitTime):
		return content{err: fmt.Errorf("nothing was written to it within %s", waitTime)}
	}
}

func readAll(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = tooLarge(limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
