// Package atomicfile writes files whole or not at all.
package atomicfile

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"hafvf/internal/message"
	"os"
	"path/filepath"
)

// Write writes a file under a temporary name and then gives it its own: whoever looks
// finds the old content or the new one, also after a loss of power. The error names path.
func Write(path string, content []byte) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8]+".tmp")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = f.Write(content)
		err = cmp.Or(err, f.Sync())
		err = cmp.Or(err, f.Close())
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			os.Remove(temp)
		}
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, message.Cause(err)) // without the temporary name
	}
	return nil
}
