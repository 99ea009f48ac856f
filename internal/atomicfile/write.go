// Package atomicfile writes files whole or not at all.
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

// Write writes a file under a temporary name and then gives it its own: whoever looks
// finds the old content or the new one, also after a loss of power. A file that is there keeps
// its permissions, and a link leads to the new content. The error names path.
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

// Prepare does of Write what can fail for lack of space or rights: File.Commit does the rest.
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

// A File is being written under a temporary name, beside the file that it replaces.
type File struct {
	*os.File
	path  string // of the file that it replaces, behind links
	there bool   // that exists
}

// Replaces reports whether there was a file at the path when this one was created.
func (f *File) Replaces() bool { return f.there }

// partial is the end of the name of a file that is not whole.
const partial = ".partial"

// Create creates a file that gets the name path when it is committed. The file that is there
// must be writable, keeps its permissions, and is found through its link. Create removes what
// processes that were killed have left of earlier attempts.
func Create(path string) (*File, error) {
	perm, there := fs.FileMode(0o666), false
	info, err := os.Stat(path)
	switch {
	case err == nil:
		perm, there = info.Mode().Perm(), true
		// Renaming would replace a link, and a file that may not be written.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil, errors.New("it is no regular file") // a pipe would wait, and a device be replaced
		}
		old, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		old.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	removeLeft(path)
	for {
		temp := tempPrefix(path) + rand.Text()[:tempRandom] + tempEnd
		f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return nil, err
		}
		// The lock says that somebody writes it still. Without locks it is never removed.
		if ok, err := filelock.Try(f); err == nil && !(ok && filelock.At(f, temp)) {
			f.Close() // it was taken for one that was left
			continue
		}
		if there {
			if err := f.Chmod(perm); err != nil { // whatever the umask
				f.Close()
				os.Remove(temp)
				return nil, err
			}
		}
		return &File{f, path, there}, nil
	}
}

// A temporary name is hidden, and has random letters before its end.
const (
	tempRandom = 8
	tempEnd    = ".tmp"
)

func tempPrefix(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".")
}

// removeLeft removes temporary files for path that nobody writes any more.
func removeLeft(path string) {
	prefix := tempPrefix(path)
	entries, _ := os.ReadDir(filepath.Dir(path)) // what cannot be listed is left alone
	for _, e := range entries {
		name, ours := strings.CutPrefix(e.Name(), filepath.Base(prefix))
		random, ends := strings.CutSuffix(name, tempEnd)
		if !ours || !ends || len(random) != tempRandom || strings.Trim(random, randomLetters) != "" || !e.Type().IsRegular() {
			continue
		}
		left := filepath.Join(filepath.Dir(path), e.Name())
		f, err := os.OpenFile(left, os.O_WRONLY, 0)
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

// randomLetters are those of rand.Text.
const randomLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// Commit gives the file its name, in place of the file that is there, and removes the partial
// one that an earlier Keep has left. The content must have been written out with Sync.
func (f *File) Commit() error {
	if err := f.rename(f.path); err != nil {
		return err
	}
	if info, err := os.Lstat(f.path + partial); err == nil && info.Mode().IsRegular() {
		os.Remove(f.path + partial)
	}
	return nil
}

// Keep gives the file the name of the one that it does not replace, with .partial behind it. It
// returns that name.
func (f *File) Keep() (string, error) {
	if err := f.rename(f.path + partial); err != nil {
		return "", err
	}
	return f.path + partial, nil
}

// rename gives the file a name and closes it. After an error there is no file.
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
		f.Close() // after Sync it has nothing to say
	}
	return nil
}

// Discard removes the temporary file.
func (f *File) Discard() { filelock.Remove(f.File) }
