package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A file is replaced, keeps its permissions, and is found through its link.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("links and permissions are others")
	}
	const perm = fs.FileMode(0o640)
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, []byte("two")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "two" {
		t.Errorf("%q, %v", text, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != perm {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil); err == nil {
		t.Error("a folder that is not there passed")
	}
}
