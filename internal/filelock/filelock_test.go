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

// One has a lock at a time; the next one learns who.
func TestAcquire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	expect.OK(t, os.WriteFile(path, []byte("process 1 on a host that was killed, with a long text, and which no longer matters at all\n"), 0o600))
	for range 2 {
		l, err := Acquire(path)
		expect.OK(t, err)
		_, err = Acquire(path)
		held, ok := errors.AsType[*LockedError](err)
		if !ok || !strings.HasPrefix(held.Holder, fmt.Sprintf("process %d on ", os.Getpid())) || strings.Contains(held.Holder, "killed") {
			t.Errorf("the second: %v", err)
		}
		l.Release()
		if _, err := os.Stat(path); err == nil {
			t.Error("the lock's file was left")
		}
	}
	if _, err := Acquire(filepath.Join(path, "none")); err == nil {
		t.Error("a folder that is not there passed")
	}
}

// What is no lock is left as it is, and nothing of it is told.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "lock")
	expect.OK(t, os.WriteFile(secret, []byte("password\n"), 0o600))
	nowhere := filepath.Join(dir, "nowhere")
	for name, place := range map[string]func() error{
		"a link":            func() error { return os.Symlink(secret, path) },
		"a link to nowhere": func() error { return os.Symlink(nowhere, path) },
		"a hard link":       func() error { return os.Link(secret, path) },
		"a text":            func() error { return os.WriteFile(path, []byte("password\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := place(); err != nil {
				t.Skip(err)
			}
			defer os.Remove(path)
			l, err := Acquire(path)
			if err == nil {
				l.Release()
				t.Fatal("it was taken for a lock")
			}
			if !strings.Contains(err.Error(), "no lock of this program") || strings.Contains(err.Error(), "password") {
				t.Errorf("error %v", err)
			}
			expect.Same(t, "password\n", string(expect.Get(os.ReadFile(secret))(t)), "the other file")
			if _, err := os.Lstat(nowhere); err == nil {
				t.Error("the file was made that a link names")
			}
			if _, err := os.Lstat(path); err != nil {
				t.Error("it was removed")
			}
		})
	}
}

// Nothing of a file is told that somebody else has locked.
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
		if held, ok := errors.AsType[*LockedError](err); !ok || held.Holder != want {
			t.Errorf("%q: error %v, want the holder %q", text, err, want)
		}
		f.Close()
	}
}

// A lock that is released leaves a file alone that has taken its name.
func TestReleaseLeavesOthers(t *testing.T) {
	if !RemovesOpen {
		t.Skip("nobody can take its name")
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

// A lock file that was removed while somebody opened it locks nothing.
func TestAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := expect.Get(os.Create(path))(t)
	defer f.Close()
	if !At(f, path) {
		t.Error("it is not there")
	}
	if !RemovesOpen {
		t.Skip("nobody can remove it")
	}
	os.Remove(path)
	if At(f, path) {
		t.Error("it is still there")
	}
	expect.OK(t, os.WriteFile(path, nil, 0o600))
	if At(f, path) {
		t.Error("it is another's")
	}
}
