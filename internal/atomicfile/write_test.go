package atomicfile

import (
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

// What a killed process has left is removed by the next one that writes the file, and nothing
// else is: no file that is still being written, and no other's.
func TestLeftFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	names := func() (all []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	others := []string{".file.ABCDEFG2.txt", ".file.abcdefgh.tmp", ".file.ABCDEFG.tmp", ".file.b.ABCDEFG2.tmp", "file.ABCDEFG2.tmp"}
	for _, name := range append([]string{".file.ABCDEFG2.tmp"}, others...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writing, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	want := append(others, filepath.Base(writing.Name()))
	other, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	other.Discard()
	slices.Sort(want)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("the folder holds %v, not %v", got, want)
	}
	if err := writing.Commit(); err != nil {
		t.Error(err)
	}
}

// A part is kept beside the whole file, until a whole one replaces that.
func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("part")
	name, err := f.Keep()
	if err != nil || name != path+".partial" {
		t.Errorf("%q, %v", name, err)
	}
	for file, want := range map[string]string{path: "whole", name: "part"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the part is still there")
	}
}
