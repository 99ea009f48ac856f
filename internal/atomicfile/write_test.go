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

// A file is replaced, keeps its permissions, and is found through its link.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	expect.OK(t, Write(path, []byte("one")))
	if runtime.GOOS == "windows" {
		t.Skip("links and permissions are others")
	}
	const perm = fs.FileMode(0o640)
	expect.OK(t, os.Chmod(path, perm))
	expect.OK(t, os.Symlink("file", link))
	expect.OK(t, Write(link, []byte("two")))
	text, err := os.ReadFile(path)
	expect.OK(t, err)
	expect.Same(t, "two", string(text))
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != perm {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect.Same(t, 2, len(expect.Get(os.ReadDir(dir))(t)))
	expect.Error(t, Write(filepath.Join(dir, "none", "file"), nil), "", "a folder that is not there")
}

// What a killed process has left is removed by the next one that writes the file, and nothing
// else is: no file that is still being written, and no other's.
func TestLeftFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	names := func() (all []string) {
		entries := expect.Get(os.ReadDir(dir))(t)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
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

// A part is kept beside the whole file, until a whole one replaces that.
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
		t.Error("the part is still there")
	}
}
