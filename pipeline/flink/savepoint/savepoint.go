// Package savepoint reads keyed states from a savepoint of Flink, as a job of Beam's Go SDK
// has written them.
//
// It reads savepoints in canonical format, which are the same for all state backends, from
// a local path, and of them value and bag states of steps that are keyed by a string, in the
// global window. It does not know what the states mean.
package savepoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
)

// A State is what a step of a pipeline keeps under one name for one key.
type State struct {
	Key, Name string
	// Elements are those of a bag. A value is the only one.
	Elements [][]byte
}

// local returns the local path of a place, which is a path or a URL, as Flink names it.
func local(place string) (string, error) {
	u, err := url.Parse(place)
	if err != nil || len(u.Scheme) < 2 {
		return place, nil // a path, also one that begins with a drive
	}
	if u.Scheme != "file" {
		return "", fmt.Errorf("%s is not on this machine: copy the savepoint's folder here, and name the copy", place)
	}
	return cmp.Or(u.Path, u.Opaque), nil
}

// Is reports whether there is a savepoint that Read could read.
func Is(place string) bool {
	path, err := local(place)
	if err != nil {
		return false
	}
	f, err := os.Open(metadataAt(path))
	if err != nil {
		return false
	}
	defer f.Close()
	var head [4]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && binary.BigEndian.Uint32(head[:]) == magic
}

func metadataAt(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, metadataFile)
	}
	return path
}

// Read returns the states of these names in the savepoint at a place: its folder or the file
// _metadata in it, as a local path or a URL of the scheme file. It changes nothing. The
// error says what is wrong with the savepoint, and where.
func Read(place string, names ...string) ([]State, error) {
	path, err := local(place)
	if err != nil {
		return nil, err
	}
	file := metadataAt(path)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no savepoint: there is no %s", path, metadataFile)
	}
	if err != nil {
		return nil, err
	}
	all, err := readMetadata(b)
	if err != nil {
		return nil, fmt.Errorf("the savepoint %s cannot be read: %w", path, err)
	}
	var states []State
	for _, k := range all {
		of, err := k.read(filepath.Dir(file), names)
		if err != nil {
			return nil, fmt.Errorf("the savepoint %s cannot be read: %w", path, err)
		}
		states = append(states, of...)
	}
	return states, nil
}

// A stream is what a handle leads to.
type stream struct {
	io.ReaderAt
	size int64
	name string
	io.Closer
}

// open opens the stream of a handle in the savepoint's folder.
func (h handle) open(folder string) (s stream, err error) {
	path := h.path
	switch h.kind {
	case inlineHandle:
		return stream{bytes.NewReader(h.data), int64(len(h.data)), metadataFile, io.NopCloser(nil)}, nil
	case relativeHandle:
		if !filepath.IsLocal(path) {
			return s, fmt.Errorf("%s is not within its folder: _metadata is damaged", path)
		}
		path = filepath.Join(folder, path)
	case fileHandle:
		if path, err = local(path); err != nil {
			return s, err
		}
	default:
		return s, errShort
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("its file %s is missing: copy the whole folder", path)
	}
	if err != nil {
		return s, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return s, err
	}
	return stream{f, info.Size(), path, f}, nil
}

// read returns the states of these names.
func (k keyed) read(folder string, names []string) ([]State, error) {
	in, err := k.at.open(folder)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	states, err := k.readFrom(in, names)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.name, err)
	}
	return states, nil
}

// readFrom reads a stream: a header with the names of the states, and one region per key
// group, at its offset. A group without states has the offset 0.
func (k keyed) readFrom(in stream, names []string) (all []State, err error) {
	type region struct {
		group    int
		from, to int64
	}
	var regions []region
	for i, from := range k.offsets {
		if from == 0 {
			continue
		}
		if n := len(regions); n > 0 {
			regions[n-1].to = from
		}
		regions = append(regions, region{k.start + i, from, in.size})
	}
	if len(regions) == 0 {
		return nil, nil
	}
	head, err := in.bytes(0, regions[0].from)
	if err != nil {
		return nil, err
	}
	kinds, err := readHeader(head)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(kinds, func(m kind) bool { return slices.Contains(names, m.name) }) {
		return nil, nil
	}
	for _, r := range regions {
		b, err := in.bytes(r.from, r.to)
		if err != nil {
			return nil, err
		}
		states, err := group{r.group, k.groups, kinds}.read(b, names)
		if err != nil {
			return nil, fmt.Errorf("key group %d, at byte %d: %w", r.group, r.from, err)
		}
		all = append(all, states...)
	}
	return all, nil
}

// bytes reads the bytes from one offset to another.
func (s stream) bytes(from, to int64) ([]byte, error) {
	if from < 0 || from >= to || to > s.size {
		return nil, errShort
	}
	b := make([]byte, to-from)
	if _, err := s.ReadAt(b, from); err != nil {
		return nil, err
	}
	return b, nil
}

// A kind is what the header says of a state.
type kind struct {
	name string
	list bool // its values are lists
}

// header is the version of the header. After it come a flag, which says that regions are
// compressed, what is known of the keys' serializer, and the number of kinds of states with
// each. What is known of a serializer has no length, and some of it is Java's own form of
// objects. So the kinds are looked for.
const header = 6

func readHeader(b []byte) (kinds []kind, err error) {
	r := &reader{b: b}
	if v := r.int32(); v != header {
		return nil, fmt.Errorf("its header has the version %d in place of %d: it is damaged, or of another version of Flink", v, header)
	}
	if r.byte() != 0 {
		return nil, errors.New("it is compressed (execution.checkpointing.snapshot-compression), which cannot be read: set that to false in Flink's configuration, and make another savepoint")
	}
	declared := -1
	for at := 2; at < len(b); at++ {
		if k, n := kindAt(b[at:]); n > 0 {
			if declared < 0 {
				declared = int(int16(binary.BigEndian.Uint16(b[at-2:])))
			}
			kinds = append(kinds, k)
			at += n - 1
		}
	}
	if declared != len(kinds) {
		return nil, fmt.Errorf("its header names %d states in place of %d: it is damaged, or of another version of Flink", len(kinds), max(declared, 0))
	}
	return kinds, nil
}

// kindAt returns the kind of states that b begins with, and the number of its bytes up to
// its serializers, which is 0 if b does not begin with one: a name, a type, options and
// named serializers.
func kindAt(b []byte) (k kind, n int) {
	r := &reader{b: b}
	// What begins before a name and ends with it has a zero within it.
	name := r.text()
	if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
		return k, 0
	}
	if t := r.int32(); t < 0 || t > 3 || r.err != nil {
		return k, 0
	}
	k.name = string(name)
	options := r.int32()
	if options < 0 || options > 8 {
		return k, 0
	}
	for range options {
		name, value := r.text(), r.text()
		if string(name) == "KEYED_STATE_TYPE" {
			k.list = string(value) == "LIST"
		}
	}
	serializers := r.int32()
	if first := r.text(); r.err != nil || serializers < 1 || !bytes.HasSuffix(first, []byte("_SERIALIZER")) {
		return k, 0
	}
	return k, len(b) - len(r.b)
}

// A group is a key group. Its region has, for each kind of state, the kind's number and the
// entries, each a key and a value. The highest bit of the key of the last entry is set.
type group struct {
	number, of int
	kinds      []kind
}

const (
	endOfGroup = -1
	lastEntry  = 0x80
)

func (g group) read(region []byte, names []string) (all []State, err error) {
	r := &reader{b: region}
	for {
		id := int(r.int16())
		switch {
		case r.err != nil:
			return nil, r.err
		case id == endOfGroup && len(r.b) == 0:
			return all, nil
		case id < 0 || id >= len(g.kinds):
			return nil, errShort
		}
		of := g.kinds[id]
		wanted := slices.Contains(names, of.name)
		for last := false; !last; {
			key, value := r.blob(), r.blob()
			if r.err != nil || len(key) == 0 {
				return nil, errShort
			}
			last = key[0]&lastEntry != 0
			key[0] &^= lastEntry
			if !wanted {
				continue
			}
			s := State{Name: of.name}
			if s.Key, err = g.key(key); err == nil {
				s.Elements, err = elements(of, value)
			}
			if err != nil {
				return nil, fmt.Errorf("the state %s: %w", of.name, err)
			}
			all = append(all, s)
		}
	}
}

var (
	errKey    = errors.New("its key is not that of a text in the global window: it is damaged, or no state of a filter")
	errValues = errors.New("its values are not those of Beam's Go SDK: it is damaged, or no state of a filter")
)

// globalWindow is Flink's form of the text "//", Beam's name of that window, and its length.
var globalWindow = []byte{3, '/', '/', 3}

// key decodes the key of an entry: the number of its group, in one byte if that is enough
// for all groups, the key, the length of that, in as many bytes as it needs, the lowest
// first, and the window.
func (g group) key(b []byte) (string, error) {
	r := &reader{b: b}
	number := int(r.byte())
	if g.of > 128 {
		number = number<<8 | int(r.byte())
	}
	was := len(r.b)
	encoded := &reader{b: r.varBlob()}
	size := was - len(r.b)
	for {
		if r.byte() != byte(size) {
			return "", errKey
		}
		if size >>= 8; size == 0 {
			break
		}
	}
	key := encoded.varBlob()
	if r.err != nil || encoded.err != nil || len(encoded.b) > 0 || number != g.number || !bytes.Equal(r.b, globalWindow) {
		return "", errKey
	}
	return string(key), nil
}

// elements decodes a list of chunks, with commas between them. The SDK writes an element
// with its length as a stream, which the chunks are cut from.
func elements(of kind, b []byte) (all [][]byte, err error) {
	if !of.list {
		return nil, errValues
	}
	r := &reader{b: b}
	joined := &reader{}
	for first := true; len(r.b) > 0; first = false {
		if !first && r.byte() != ',' {
			return nil, errValues
		}
		joined.b = append(joined.b, r.varBlob()...)
	}
	for r.err == nil && joined.err == nil && len(joined.b) > 0 {
		all = append(all, joined.varBlob())
	}
	if r.err != nil || joined.err != nil {
		return nil, errValues
	}
	return all, nil
}
