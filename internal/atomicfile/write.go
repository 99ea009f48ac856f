// Package atomicfile writes files atomically: completely or not at all.
package atomicfile

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hafvf/internal/filelock"
	"hafvf/internal/message"
)

// Write writes a file under a temporary name and then renames it: readers find the old content or the new content,
// even after a loss of power. An existing file keeps its permissions, and a link then leads to the new content. The
// error names path.
func Write(path string, content []byte) error {
	f, err := Prepare(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return message.CannotWrite(path, err)
	}
	return nil
}

// Prepare does the part of Write that can fail for lack of space or permissions. File.Commit does the rest.
func Prepare(path string, write func(io.Writer) error) (*File, error) {
	f, err := Create(path)
	if err != nil {
		return nil, message.CannotWrite(path, err)
	}
	w := bufio.NewWriterSize(f, 1<<16)
	err = write(w)
	if err = cmp.Or(err, w.Flush(), f.Sync()); err != nil {
		f.Discard()
		return nil, message.CannotWrite(path, err)
	}
	return f, nil
}

// A File is written under a temporary name, next to the file that it replaces.
type File struct {
	*os.File
	path   string // path of the file that it replaces, with links resolved
	exists bool   // whether the file to replace exists
}

// Replaces reports whether a file existed at the path when f was created.
func (f *File) Replaces() bool { return f.exists }

// partial is the suffix of the name of an incomplete file.
const partial = ".partial"

// Create creates a file that Commit renames to path. An existing file must be writable, keeps its permissions, and
// is found through its link. Create removes temporary files that killed processes left.
func Create(path string) (*File, error) {
	perm, exists := fs.FileMode(0o666), false
	info, err := os.Stat(path)
	switch {
	case err == nil:
		perm, exists = info.Mode().Perm(), true
		// Renaming would replace a link, and a file that may not be written.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil, errors.New("it is not a regular file") // a pipe would block, and a device would be replaced
		}
		old, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		old.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	removeLeftovers(path)
	for {
		temp := tempPrefix(path) + rand.Text()[:tempRandom] + tempEnd
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return nil, err
		}
		// The lock means that a process is writing the file. Without locks the file is never removed.
		if ok, err := filelock.Try(f); err == nil && !(ok && filelock.At(f, temp)) {
			f.Close() // another process removed it as a leftover
			continue
		}
		if exists {
			if err := f.Chmod(perm); err != nil { // independent of the umask
				f.Close()
				os.Remove(temp)
				return nil, err
			}
		}
		return &File{f, path, exists}, nil
	}
}

// A temporary name is hidden, and has random letters before its suffix.
const (
	tempRandom = 8
	tempEnd    = ".tmp"
)

func tempPrefix(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".")
}

// removeLeftovers removes temporary files for path that no process is writing.
func removeLeftovers(path string) {
	prefix := tempPrefix(path)
	entries, _ := os.ReadDir(filepath.Dir(path)) // files that cannot be listed stay
	for _, e := range entries {
		name, hasPrefix := strings.CutPrefix(e.Name(), filepath.Base(prefix))
		random, hasSuffix := strings.CutSuffix(name, tempEnd)
		if !hasPrefix || !hasSuffix || len(random) != tempRandom || strings.Trim(random, randomLetters) != "" || !e.Type().IsRegular() {
			continue
		}
		leftover := filepath.Join(filepath.Dir(path), e.Name())
		f, err := os.OpenFile(leftover, os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		if free, err := filelock.Try(f); err == nil && free {
			filelock.Remove(f)
		} else {
			f.Close()
		}
	}
}

// randomLetters are the letters of rand.Text.
const randomLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// Commit renames the file to its path, replacing an existing file. It removes the partial file of an earlier Keep.
// The caller must have called Sync.
func (f *File) Commit() error {
	if err := f.rename(f.path); err != nil {
		return err
	}
	if info, err := os.Lstat(f.path + partial); err == nil && info.Mode().IsRegular() {
		os.Remove(f.path + partial)
	}
	return nil
}

// Keep renames the file to its path with the suffix .partial, without replacing the existing file. It returns that
// name.
func (f *File) Keep() (string, error) {
	if err := f.rename(f.path + partial); err != nil {
		return "", err
	}
	return f.path + partial, nil
}

// rename renames the file and closes it. After an error the file is removed.
func (f *File) rename(path string) error {
	var err error
	if !filelock.RemovesOpen {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		f.Discard()
		return err
	}
	if filelock.RemovesOpen {
		f.Close() // after Sync its error does not matter
	}
	return nil
}

// Discard removes the temporary file.
func (f *File) Discard() { filelock.Remove(f.File) }
