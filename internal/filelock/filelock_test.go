package filelock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One has a lock at a time; the next one learns who.
func TestAcquire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("of a process that was killed, with a long text, and which no longer matters at all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l, err := Acquire(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Acquire(path)
		held, ok := errors.AsType[*Held](err)
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

// A lock file that was removed while somebody opened it locks nothing.
func TestAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if At(f, path) {
		t.Error("it is another's")
	}
}
