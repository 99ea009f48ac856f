package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// One holder has a lock at a time; a second Acquire returns the holder.
func TestAcquire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	expect.OK(t, os.WriteFile(path, []byte("process 1 on a host that was killed, with a long text, and which no longer matters at all\n"), 0o600))
	for range 2 {
		l, err := Acquire(path)
		expect.OK(t, err)
		_, err = Acquire(path)
		locked, ok := errors.AsType[*LockedError](err)
		if !ok || !strings.HasPrefix(locked.Holder, fmt.Sprintf("process %d on ", os.Getpid())) || strings.Contains(locked.Holder, "killed") {
			t.Errorf("the second: %v", err)
		}
		l.Release()
		if _, err := os.Stat(path); err == nil {
			t.Error("the lock file was left")
		}
	}
	if _, err := Acquire(filepath.Join(path, "none")); err == nil {
		t.Error("a missing folder was accepted")
	}
}

// Acquire does not change a file that is not a lock file, and shows nothing of its content.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "lock")
	expect.OK(t, os.WriteFile(secret, []byte("password\n"), 0o600))
	nowhere := filepath.Join(dir, "nowhere")
	for name, create := range map[string]func() error{
		"a link":            func() error { return os.Symlink(secret, path) },
		"a link to nowhere": func() error { return os.Symlink(nowhere, path) },
		"a hard link":       func() error { return os.Link(secret, path) },
		"a text":            func() error { return os.WriteFile(path, []byte("password\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := create(); err != nil {
				t.Skip(err)
			}
			defer os.Remove(path)
			l, err := Acquire(path)
			if err == nil {
				l.Release()
				t.Fatal("accepted as a lock file")
			}
			if !strings.Contains(err.Error(), "not a lock file of this program") || strings.Contains(err.Error(), "password") {
				t.Errorf("error %v", err)
			}
			expect.Same(t, "password\n", string(expect.Get(os.ReadFile(secret))(t)), "the other file")
			if _, err := os.Lstat(nowhere); err == nil {
				t.Error("the target of the link was created")
			}
			if _, err := os.Lstat(path); err != nil {
				t.Error("the file was removed")
			}
		})
	}
}

// The error for a file that another process has locked shows only a valid holder.
func TestForeignHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for text, want := range map[string]string{
		"process 12 on host since 2026-01-01T00:00:00Z\n": "process 12 on host since 2026-01-01T00:00:00Z",
		"process 12 on": "", "process list: password\n": "", "": "",
	} {
		f, err := os.Create(path)
		expect.OK(t, err)
		expect.Get(f.WriteString(text))(t)
		if ok, err := Try(f); !ok || err != nil {
			t.Skip("no locks here: ", err)
		}
		_, err = Acquire(path)
		if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Holder != want {
			t.Errorf("%q: error %v, want the holder %q", text, err, want)
		}
		f.Close()
	}
}

// Release keeps a file that has taken the name of the lock file.
func TestReleaseLeavesOthers(t *testing.T) {
	if !RemovesOpen {
		t.Skip("the name cannot be reused here")
	}
	path := filepath.Join(t.TempDir(), "lock")
	l := expect.Get(Acquire(path))(t)
	os.Remove(path)
	expect.OK(t, os.WriteFile(path, []byte("mine"), 0o600))
	l.Release()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// A lock file that was removed while a process opened it is not a lock any more.
func TestAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := expect.Get(os.Create(path))(t)
	defer f.Close()
	if !At(f, path) {
		t.Error("At is false for the open file")
	}
	if !RemovesOpen {
		t.Skip("open files cannot be removed here")
	}
	os.Remove(path)
	if At(f, path) {
		t.Error("At is true for a removed file")
	}
	expect.OK(t, os.WriteFile(path, nil, 0o600))
	if At(f, path) {
		t.Error("At is true for another file")
	}
}
