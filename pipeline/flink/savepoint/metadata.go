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
		if r.int32() != masterMagic {
			r.fail(errShort)
		}
		r.blob()
	}
	for range r.count(29) {
		all = append(all, r.operator()...)
	}
	return all, r.err
}

// operator reads the states of an operator, and returns the managed keyed ones.
func (r *reader) operator() (all []keyed) {
	r.bytes(16) // its id
	r.int32()   // its parallelism
	groups := r.int32()
	if groups <= 0 || groups > 1<<15 {
		r.fail(errShort)
	}
	r.handle() // of its coordinator
	n := r.int32()
	if n > len(r.b)/4 {
		r.fail(errShort)
	}
	for ; n > 0 && r.err == nil; n-- { // none, or -1 for an operator that has ended
		if r.int32() < 0 {
			continue // a subtask that has ended
		}
		for range 2 { // managed and raw operator state
			if r.int32() != 0 {
				r.operatorState()
			}
		}
		if managed := r.keyed(false); managed != nil {
			managed.groups = groups
			all = append(all, *managed)
		}
		r.keyed(true)
		for range 2 { // of input and output channels
			for range r.count(25) {
				r.bytes(12) // subtask and channel
				r.bytes(8 * r.count(8))
				r.int64() // size
				r.handle()
			}
		}
	}
	return all
}

// operatorState reads over the state of an operator without keys.
func (r *reader) operatorState() {
	switch r.byte() {
	case noHandle:
	case operatorHandle:
		for range r.count(7) {
			r.text() // name
			r.byte() // how it is dealt out
			r.bytes(8 * r.count(8))
		}
		r.handle()
	default:
		r.fail(errShort)
	}
}

// keyed reads the handle of a keyed state, nil where there is none. A raw one is what an
// operator has written by itself.
func (r *reader) keyed(raw bool) *keyed {
	kind := r.byte()
	switch {
	case kind == noHandle:
		return nil
	case kind == canonicalHandle, raw && (kind == keyGroupsHandle || kind == keyGroupsHandleV2):
	case kind <= 14:
		r.fail(errNative)
	default:
		r.fail(errShort)
	}
	k := &keyed{start: r.int32()}
	for range r.count(8) {
		k.offsets = append(k.offsets, r.int64())
	}
	k.at = r.handle()
	if kind == keyGroupsHandleV2 {
		r.text() // its id
	}
	if k.start < 0 {
		r.fail(errShort)
	}
	return k
}

// handle reads the place of a stream.
func (r *reader) handle() (h handle) {
	switch h.kind = r.byte(); h.kind {
	case noHandle:
	case inlineHandle:
		r.text() // the path that it would have had
		h.data = r.blob()
	case fileHandle:
		r.int64() // size
		h.path = string(r.text())
	case relativeHandle:
		h.path = string(r.text())
		r.int64() // size
	default:
		r.fail(fmt.Errorf("it has a stream of kind %d, which cannot be read: it is damaged, or of another version of Flink", h.kind))
	}
	return h
}
