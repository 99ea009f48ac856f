package savepoint

import (
	"errors"
	"fmt"
)

// The file _metadata says what states there are. Small ones are in it, the others in
// files beside it. Its format is that of Flink's MetadataV3Serializer.
const (
	metadataFile = "_metadata"
	magic        = 0x4960672d
	masterMagic  = -0x3694e96a // 0xc96b1696

	// The first and last version that are read. Version 4 is 3 with properties at its
	// end, which are not read.
	oldest, newest = 3, 4
)

// The kinds of handles.
const (
	noHandle          = 0
	inlineHandle      = 1
	fileHandle        = 2
	keyGroupsHandle   = 3 // of a checkpoint, or of raw state
	operatorHandle    = 4
	relativeHandle    = 6
	canonicalHandle   = 7  // of a savepoint
	keyGroupsHandleV2 = 12 // as keyGroupsHandle
)

// errNative is the error of what is no savepoint in canonical format.
var errNative = errors.New("it is a checkpoint or a savepoint in native format, and only savepoints in canonical format can be read: go on from it with hafvf run CONFIG --savepoint, and end that job with hafvf stop CONFIG --savepoint, which writes one")

// A handle is the place of some bytes.
type handle struct {
	kind byte
	data []byte // of an inline handle
	path string // of the others
}

// A keyed is the state of a step in a range of key groups.
type keyed struct {
	groups  int // of the job
	start   int // the first group
	offsets []int64
	at      handle
}

// readMetadata returns the keyed states of all steps.
func readMetadata(b []byte) (all []keyed, err error) {
	r := &reader{b: b}
	if r.int32() != magic {
		return nil, errors.New("it is no savepoint of Flink: its _metadata begins otherwise")
	}
	if v := r.int32(); r.err == nil && (v < oldest || v > newest) {
		return nil, fmt.Errorf("its _metadata has the version %d, and versions %d and %d can be read, which Flink writes from 1.11 to 1.19", v, oldest, newest)
	}
	r.int64() // the checkpoint's id
	for range r.count(8) {
		if r.int32() != masterMagic && r.err == nil {
			return nil, errShort
		}
		r.blob()
	}
	for range r.count(29) {
		states, err := r.operator()
		if err != nil {
			return nil, err
		}
		all = append(all, states...)
	}
	return all, r.err
}

// operator reads the states of an operator, and returns the managed keyed ones.
func (r *reader) operator() (all []keyed, err error) {
	r.bytes(16) // its id
	r.int32()   // its parallelism
	groups := r.int32()
	if groups <= 0 || groups > 1<<15 {
		return nil, errShort
	}
	if _, err := r.handle(); err != nil { // of its coordinator
		return nil, err
	}
	n := r.int32()
	if n > len(r.b)/4 {
		return nil, errShort
	}
	for range n { // none, or -1 for an operator that has ended
		if r.int32() < 0 {
			continue // a subtask that has ended
		}
		for range 2 { // managed and raw operator state
			if r.int32() != 0 {
				if err := r.operatorState(); err != nil {
					return nil, err
				}
			}
		}
		managed, err := r.keyed(false)
		if err != nil {
			return nil, err
		}
		if managed != nil {
			managed.groups = groups
			all = append(all, *managed)
		}
		if _, err := r.keyed(true); err != nil {
			return nil, err
		}
		for range 2 { // of input and output channels
			for range r.count(25) {
				r.bytes(12) // subtask and channel
				r.bytes(8 * r.count(8))
				r.int64() // size
				if _, err := r.handle(); err != nil {
					return nil, err
				}
			}
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return all, r.err
}

// operatorState reads over the state of an operator without keys.
func (r *reader) operatorState() error {
	switch kind := r.byte(); {
	case r.err != nil:
		return r.err
	case kind == noHandle:
		return nil
	case kind != operatorHandle:
		return errShort
	}
	for range r.count(7) {
		r.text() // name
		r.byte() // how it is dealt out
		r.bytes(8 * r.count(8))
	}
	_, err := r.handle()
	return err
}

// keyed reads the handle of a keyed state, nil where there is none. A raw one is what an
// operator has written by itself.
func (r *reader) keyed(raw bool) (*keyed, error) {
	kind := r.byte()
	switch {
	case r.err != nil:
		return nil, r.err
	case kind == noHandle:
		return nil, nil
	case kind == canonicalHandle, raw && (kind == keyGroupsHandle || kind == keyGroupsHandleV2):
	case kind <= 14:
		return nil, errNative
	default:
		return nil, errShort
	}
	k := &keyed{start: r.int32()}
	for range r.count(8) {
		k.offsets = append(k.offsets, r.int64())
	}
	var err error
	if k.at, err = r.handle(); err != nil {
		return nil, err
	}
	if kind == keyGroupsHandleV2 {
		r.text() // its id
	}
	if k.start < 0 || r.err != nil {
		return nil, errShort
	}
	return k, nil
}

// handle reads the place of a stream.
func (r *reader) handle() (h handle, err error) {
	switch h.kind = r.byte(); {
	case r.err != nil:
	case h.kind == noHandle:
	case h.kind == inlineHandle:
		r.text() // the path that it would have had
		h.data = r.blob()
	case h.kind == fileHandle:
		r.int64() // size
		h.path = string(r.text())
	case h.kind == relativeHandle:
		h.path = string(r.text())
		r.int64() // size
	default:
		return h, fmt.Errorf("it has a stream of kind %d, which cannot be read: it is damaged, or of another version of Flink", h.kind)
	}
	return h, r.err
}
