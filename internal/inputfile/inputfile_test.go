package inputfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// TestRefusals passes each kind of file to Read, Open and Check.
func TestRefusals(t *testing.T) {
	old := waitTime
	waitTime = 50 * time.Millisecond
	t.Cleanup(func() { waitTime = old })
	dir := t.TempDir()
	write := func(name string, bytes int) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(strings.Repeat("x", bytes)), 0o600))
		return path
	}
	pipe := func(name string) string {
		path := filepath.Join(dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skip("no pipes here: ", err)
		}
		return path
	}
	const limit = 1 << 10
	for _, c := range []struct{ path, read, open string }{
		{write("whole", limit), "", ""},
		{write("long", limit+1), "it has more than 1 kB", ""},
		{dir, " is a folder: give a regular file or a pipe", " is a folder: give a regular file"},
		{"/dev/zero", "zero is a device: give a regular file or a pipe", "zero is a device: give a regular file"},
		{pipe("silent"), "nothing was written to it within 50ms", "silent is a pipe: give a regular file"},
	} {
		for range 2 {
			_, _, err := Read(c.path, limit)
			same(t, c.path, err, c.read)
			same(t, c.path, Check(c.path, limit), c.read)
		}
		f, err := Open(c.path)
		same(t, c.path, err, c.open)
		if err == nil {
			expect.OK(t, f.Close())
		}
		same(t, c.path, Check(c.path, AnySize), c.open)
	}
	missing := filepath.Join(dir, "none")
	if _, _, err := Read(missing, limit); !os.IsNotExist(err) || Check(missing, limit) != nil || Check(missing, AnySize) != nil {
		t.Errorf("no file: %v", err)
	}
}

func same(t *testing.T, path string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", path, err, want)
	}
}

// A pipe is read once, and later reads return the same content. The byte order mark is removed.
func TestReadPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	go os.WriteFile(path, []byte("\ufefftoken"), 0o600) // waits for the reader
	for range 2 {
		if text, info, err := ReadText(path, MB); string(text) != "token" || err != nil || !isPipe(info) {
			t.Errorf("%q, %v, %v", text, info, err)
		}
	}
}
