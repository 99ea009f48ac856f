// Package atomicfile writes files whole or not at all.
package atomicfile

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hafvf/internal/message"
)

// Write writes a file under a temporary name and then gives it its own: whoever looks
// finds the old content or the new one, also after a loss of power. A file that is there keeps
// its permissions, and a link leads to the new content. The error names path.
func Write(path string, content []byte) error {
	if err := write(path, content); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, message.Cause(err)) // without the temporary name
	}
	return nil
}

func write(path string, content []byte) error {
	perm, kept := fs.FileMode(0o666), false
	if info, err := os.Stat(path); err == nil {
		perm, kept = info.Mode().Perm(), true
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]+".tmp")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if kept {
		err = f.Chmod(perm) // whatever the umask
	}
	if err == nil {
		_, err = f.Write(content)
	}
	err = cmp.Or(err, f.Sync())
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}
