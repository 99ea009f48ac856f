package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/settings/keytable"
)

// An output is refused if another part reads or writes the same file, under any path.
func TestOutputIsAnotherFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	in := filepath.Join(dir, "d", "in.csv")
	for _, err := range []error{
		os.Mkdir("d", 0o700), os.WriteFile(in, []byte("key,time,x\n"), 0o600), os.WriteFile("other.csv", nil, 0o600),
		os.Link(in, "hard.csv"), os.Symlink(in, "soft.csv"), os.Symlink("d", "folder"),
	} {
		if err != nil {
			t.Skip("the file system has no links: ", err)
		}
	}
	for _, test := range []struct{ source, sink, extra, want string }{
		{"d/in.csv", in, "", `is also read, by source.csv.path`},
		{in, "d/in.csv", "", `is also read, by source.csv.path`},
		{"d/in.csv", "hard.csv", "", `sink.jsonl.path: "hard.csv" is also read, by source.csv.path`},
		{"d/in.csv", "soft.csv", "", `sink.jsonl.path: "soft.csv" is also read, by source.csv.path`},
		{"soft.csv", "folder/in.csv", "", `"folder/in.csv" is also read, by source.csv.path`},
		{"d/*.csv", "soft.csv", "", `"soft.csv" is also read, by source.csv.path`},
		{"d/*.csv", "folder/new.csv", "", `"folder/new.csv" is also read, by source.csv.path`},
		{"fold*/*.csv", filepath.Join(dir, "d", "new.csv"), "", `is also read, by source.csv.path`},
		{"d/in.csv", "-", "state: soft.csv", `state: "soft.csv" is also read, by source.csv.path`},
		{"d/in.csv", "-", "dead_letter: {jsonl: {path: folder/in.csv}}", `dead_letter.jsonl.path: "folder/in.csv" is also read, by source.csv.path`},
		{"d/in.csv", "new", "dead_letter: {jsonl: {path: " + filepath.Join(dir, "new") + "}}", `is also written, by sink.jsonl.path`},
		{"d/in.csv", "d/new", "state: folder/new", `state: "folder/new" is also written, by sink.jsonl.path`},
		{"d/in.csv", "other.csv", "", ""},
		{"d/*.csv", "folder/new.jsonl", "", ""},
		{"d/*.csv", "new.csv", "state: d/new.bin", ""},
		{"d/in.csv", "/dev/null", "", ""},
	} {
		text := fmt.Sprintf("model: {family: normal}\nsource: {csv: {path: %q}}\nsink: {jsonl: {path: %q}}\n%s\n", test.source, test.sink, test.extra)
		_, err := Parse("pump.yaml", []byte(text), nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s → %s %s: %v", test.source, test.sink, test.extra, err)
		}
	}
}

// A stream of the process may be a file that the config reads or writes too.
func TestStreamIsAnotherFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	streams := []**os.File{&os.Stdin, &os.Stdout, &os.Stderr}
	for i, name := range []string{"in", "out", "err"} {
		f := expect.Get(os.Create(name))(t)
		defer f.Close()
		prev := *streams[i]
		*streams[i] = f
		defer func() { *streams[i] = prev }()
	}
	for _, test := range []struct{ source, sink, want string }{
		{"-", "in", `sink.jsonl.path: "in" is also read, by source.jsonl.path`},
		{"out", "-", `standard output is also read, by source.jsonl.path`},
		{"err", "-", `standard error is also read, by source.jsonl.path`},
		{"-", "err", `standard error is also written, by sink.jsonl.path`},
		{"-", "-", ""},
		{"-", "new", ""},
	} {
		text := fmt.Sprintf("model: {family: normal}\nsource: {jsonl: {path: %q}}\nsink: {jsonl: {path: %q}}\n", test.source, test.sink)
		_, err := Parse("pump.yaml", []byte(text), nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s → %s: %v", test.source, test.sink, err)
		}
	}
	os.Stderr = os.Stdout // 2>&1
	if _, err := Parse("pump.yaml", []byte("model: {family: normal}\nsource: {jsonl: {path: a}}\n"), nil); err != nil {
		t.Error(err)
	}
}

// A toy is a source for tests.
type toy struct {
	Files
	path string
}

func (t *toy) unbounded() bool { return true }

// A kind of source is a row of origins: the config reads it, and the reference describes it.
func TestSourceIsARow(t *testing.T) {
	defer func(prev []func(*Source) []keytable.Key) { origins = prev }(origins)
	origins = append(slices.Clip(origins), func(s *Source) []keytable.Key {
		o := &toy{}
		return []keytable.Key{{Name: "toy", Doc: "A toy.", Seen: s.set(o), Keys: []keytable.Key{{Name: "path", Doc: "Its place.", Read: keytable.Text(&o.path, keytable.NotEmpty)}}}}
	})
	c := parse(t, "model: {family: normal}\nsource: {toy: {path: a}}\norder: arrival\n")
	if o := originOf[*toy](&c.Source); o == nil || o.path != "a" || !c.Source.Unbounded() || c.Source.Files() != nil {
		t.Errorf("%+v", c.Source)
	}
	if !strings.Contains(Reference(), "source.toy.path") {
		t.Error("the reference does not have it")
	}
}
