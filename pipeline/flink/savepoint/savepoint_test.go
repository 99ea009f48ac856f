package savepoint

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/flink"
)

// names are those of the states of filters.
var names = []string{"entity", "log"}

// files returns the files of a savepoint in testdata: _metadata, and its only file beside it.
func files(t testing.TB, folder string) (metadata, data []byte) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join("testdata", folder, "*-*"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	data = expect.Get(os.ReadFile(all[0]))(t)
	metadata = expect.Get(os.ReadFile(filepath.Join("testdata", folder, metadataFile)))(t)
	return metadata, data
}

// readFiles is Read for a savepoint in memory.
func readFiles(metadata, data []byte) (states []State, err error) {
	all, err := readMetadata(metadata)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		in := stream{ReaderAt: bytes.NewReader(data), size: int64(len(data))}
		if k.at.kind == inlineHandle {
			if in, err = k.at.open(""); err != nil {
				return nil, err
			}
		}
		of, err := k.readFrom(in, names)
		if err != nil {
			return nil, err
		}
		states = append(states, of...)
	}
	return states, nil
}

// count returns the number of states by name and key.
func count(states []State) map[string]int {
	all := map[string]int{}
	for _, s := range states {
		all[s.Name+" "+s.Key]++
	}
	return all
}

func TestRead(t *testing.T) {
	cells := map[string]int{}
	for _, name := range flink.Names(4, 200, 200) {
		cells["entity "+name] = 1
	}
	for _, name := range flink.Names(4, 200, 200)[:3] {
		cells["log "+name] = 1
	}
	for _, folder := range []string{"hashmap", "rocksdb"} {
		for _, place := range []string{"testdata/" + folder, "file:testdata/" + folder, "testdata/" + folder + "/_metadata"} {
			states, err := Read(place, names...)
			if err != nil || !Is(place) {
				t.Fatal(place, err)
			}
			expect.Same(t, cells, count(states), place)
			pieces := 0
			for _, s := range states {
				if s.Name == "log" {
					pieces = max(pieces, len(s.Elements))
				} else if len(s.Elements) != 1 {
					t.Errorf("%s: %d values of %s", place, len(s.Elements), s.Key)
				}
			}
			expect.Same(t, 3, pieces, place, ": pieces of a log")
		}
	}
	states, err := Read("testdata/hashmap", "rest")
	if err != nil || len(states) != 1 || len(states[0].Elements) != 1 || !bytes.Contains(states[0].Elements[0], []byte("kept-in")) {
		t.Errorf("the state of the source: %q, %v", states, err)
	}
	expect.Same(t, 0, len(expect.Get(Read("testdata/hashmap", "none"))(t)))
}

// A file that is cut short is an error wherever it is cut. After the states, _metadata has
// properties of the savepoint, which are not read.
func TestCut(t *testing.T) {
	metadata, data := files(t, "hashmap")
	end := bytes.Index(metadata, []byte("\xac\xed\x00\x05sr\x008org.apache.flink.runtime.checkpoint.CheckpointProperties")) // an object of Java
	if end < 0 {
		t.Fatal("no properties")
	}
	for n := 0; n < end; n += 1 + n/50 {
		if states, err := readFiles(metadata[:n], data); err == nil {
			t.Fatalf("the first %d bytes of _metadata have %d states", n, len(states))
		}
	}
	for n := 0; n < len(data); n += 1 + n/50 {
		if states, err := readFiles(metadata, data[:n]); err == nil {
			t.Fatalf("the first %d bytes have %d states", n, len(states))
		}
	}
}

// Damage never crashes. What is read in spite of it are as many states, or all but those
// of a name that was damaged.
func TestDamage(t *testing.T) {
	metadata, data := files(t, "hashmap")
	ofName := func(states []State, name string) (n int) {
		for _, s := range states {
			if s.Name == name {
				n++
			}
		}
		return n
	}
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for _, file := range [][]byte{metadata, data} {
		for range 500 {
			at, bit := rng.IntN(len(file)), byte(1)<<rng.IntN(8)
			file[at] ^= bit
			states, err := readFiles(metadata, data)
			file[at] ^= bit
			if err != nil {
				refused++
				continue
			}
			for name, want := range map[string]int{"entity": 4, "log": 3} {
				if n := ofName(states, name); n != want && n > 0 {
					t.Fatalf("bit %d of byte %d is another, and there are %d states of %s in place of %d", bit, at, n, name, want)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no damage is seen")
	}
}

func TestReadRefuses(t *testing.T) {
	metadata, data := files(t, "hashmap")
	replaced := func(b []byte, from, to string) []byte {
		t.Helper()
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("no %q", from)
		}
		return bytes.ReplaceAll(b, []byte(from), []byte(to))
	}
	const ofGroups = "\x00\x00\x00\x00\x00\x00\x00\xc8" // from 0, 200 of them
	compressed := bytes.Clone(data)
	compressed[4] = 1
	data16 := bytes.Clone(data)
	data16[3] = 7
	for _, test := range []struct {
		metadata, data []byte
		why            string
	}{
		{[]byte("model: {family: normal}"), data, "it is no savepoint of Flink"},
		{replaced(metadata, "\x49\x60\x67\x2d\x00\x00\x00\x04", "\x49\x60\x67\x2d\x00\x00\x00\x05"), data, "its _metadata has the version 5, and versions 3 and 4 can be read"},
		{replaced(metadata, "\x07"+ofGroups, "\x0c"+ofGroups), data, "only savepoints in canonical format can be read"},
		{replaced(metadata, "\x07"+ofGroups, "\x0b"+ofGroups), data, "only savepoints in canonical format can be read"},
		{metadata, compressed, "it is compressed (execution.checkpointing.snapshot-compression)"},
		{metadata, data16, "its header has the version 7 in place of 6"},
		{metadata, replaced(data, "entity", "enti\x00y"), "its header names 8 states in place of 9"},
		{metadata, replaced(data, "\x03//\x03", "\x03/0\x03"), "its key is not that of a text in the global window"},
	} {
		if states, err := readFiles(test.metadata, test.data); err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%d states, %v\nwant %s", len(states), err, test.why)
		}
	}
	folder := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(folder, metadataFile), metadata, 0o600))
	for place, why := range map[string]string{
		folder:            "is missing: copy the whole folder",
		folder + "/none":  "there is no _metadata",
		"s3://states/one": "s3://states/one is not on this machine: copy the savepoint's folder here",
	} {
		_, err := Read(place, names...)
		expect.Error(t, err, why)
	}
}

func FuzzRead(f *testing.F) {
	metadata, data := files(f, "hashmap")
	f.Add(metadata, data)
	f.Fuzz(func(t *testing.T, metadata, data []byte) {
		states, err := readFiles(metadata, data)
		if err != nil && len(states) > 0 {
			t.Errorf("%d states, and %v", len(states), err)
		}
	})
}
