package atomicfile

import (
	"hafvf/internal/testing/expect"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// Write replaces a file, keeps its permissions, and follows a link to it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	expect.OK(t, Write(path, []byte("one")))
	if runtime.GOOS == "windows" {
		t.Skip("links and permissions differ")
	}
	const perm = fs.FileMode(0o640)
	expect.OK(t, os.Chmod(path, perm))
	expect.OK(t, os.Symlink("file", link))
	expect.OK(t, Write(link, []byte("two")))
	text, err := os.ReadFile(path)
	expect.OK(t, err)
	expect.Same(t, "two", string(text))
	if target, err := os.Readlink(link); err != nil || target != "file" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != perm {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect.Same(t, 2, len(expect.Get(os.ReadDir(dir))(t)))
	expect.Error(t, Write(filepath.Join(dir, "none", "file"), nil), "", "a missing folder")
}

// Create removes the leftovers of a killed process for the same path, and no other files: not a file that is being
// written, and no files of other paths.
func TestLeftFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	names := func() (found []string) {
		entries := expect.Get(os.ReadDir(dir))(t)
		for _, e := range entries {
			found = append(found, e.Name())
		}
		return found
	}
	others := []string{".file.ABCDEFG2.txt", ".file.abcdefgh.tmp", ".file.ABCDEFG.tmp", ".file.b.ABCDEFG2.tmp", "file.ABCDEFG2.tmp"}
	for _, name := range append([]string{".file.ABCDEFG2.tmp"}, others...) {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	writing := expect.Get(Create(path))(t)
	want := append(others, filepath.Base(writing.Name()))
	other := expect.Get(Create(path))(t)
	other.Discard()
	slices.Sort(want)
	expect.Same(t, want, names(), "the folder")
	if err := writing.Commit(); err != nil {
		t.Error(err)
	}
}

// Keep leaves a partial file next to the complete one, until a complete file replaces that.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	expect.OK(t, Write(path, []byte("whole")))
	f, err := Create(path)
	expect.OK(t, err)
	f.WriteString("part")
	name, err := f.Keep()
	expect.OK(t, err)
	expect.Same(t, path+".partial", name)
	for file, want := range map[string]string{path: "whole", name: "part"} {
		expect.Same(t, want, string(expect.Get(os.ReadFile(file))(t)), file)
	}
	expect.OK(t, Write(path, []byte("new")))
	if _, err := os.Stat(name); err == nil {
		t.Error("the partial file still exists")
	}
}
