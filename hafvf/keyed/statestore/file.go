package statestore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"

	"github.com/klauspost/compress/zstd"

	"hafvf/hafvf/keyed"
	"hafvf/internal/atomicfile"
	"hafvf/internal/compact"
	"hafvf/internal/inputfile"
)

// fileMagic begins a file of states. After it come, compressed and with a checksum, parts, each
// behind its length: how far the source was read, and for every key itself and its sealed state.
// Version 1 of the file does not say how far.
const (
	fileMagic  = "hafvf states 2\n"
	fileMagic1 = "hafvf states 1\n"
)

// maxPart bounds a length in the file, so that a damaged one does not ask for all memory.
const maxPart = 1 << 30

// IsFile reports whether a file looks like a file of states.
func IsFile(path string) bool {
	f, err := inputfile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(fileMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && (string(head) == fileMagic || string(head) == fileMagic1)
}

// ReadFile reads a file of states one by one, as long as each returns true, and returns how far the
// source of its run was read, as PrepareFile got it; nil if the file does not say it. There are no
// states if it does not exist.
func ReadFile(path string, each func(State) bool) (source []byte, err error) {
	f, err := inputfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	source, err = read(bufio.NewReaderSize(f, 1<<20), each)
	if errors.Is(err, keyed.ErrNewer) {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no file of states, or it is damaged: %w; restore it, or remove it to start without states", path, err)
	}
	return source, nil
}

func read(r *bufio.Reader, each func(State) bool) (source []byte, err error) {
	magic := make([]byte, len(fileMagic))
	_, err = io.ReadFull(r, magic)
	if newer, found := bytes.CutPrefix(magic, []byte(fileMagic[:len(fileMagic)-len("2\n")])); err == nil && found && newer[0] > '2' {
		return nil, fmt.Errorf("it begins with %q: %w", magic, keyed.ErrNewer)
	}
	if err != nil || string(magic) != fileMagic && string(magic) != fileMagic1 {
		return nil, fmt.Errorf("it does not begin with %q", fileMagic)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	if string(magic) == fileMagic {
		if source, err = readPart(in); err != nil {
			return nil, err
		}
	}
	for {
		if _, err := in.Peek(1); err == io.EOF {
			return source, nil
		}
		key, err := readPart(in)
		if err != nil {
			return nil, err
		}
		state, err := readPart(in)
		if err != nil {
			return nil, err
		}
		if !each(Open(string(key), state)) {
			return source, nil
		}
	}
}

// readPart reads a length and as many bytes.
func readPart(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if n > maxPart {
		return nil, fmt.Errorf("a part of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}

// PrepareFile writes a file of states, which replaces the one at path when it is committed.
// source says how far the source was read.
func PrepareFile(path string, source []byte, all iter.Seq[State]) (*atomicfile.File, error) {
	return atomicfile.Prepare(path, func(out io.Writer) error {
		if _, err := io.WriteString(out, fileMagic); err != nil {
			return err
		}
		z, err := zstd.NewWriter(out)
		if err != nil {
			return err
		}
		if _, err := z.Write(compact.AppendString(nil, source)); err != nil {
			return err
		}
		var b []byte
		for s := range all {
			b = compact.AppendString(compact.AppendString(b[:0], s.Key), s.Seal())
			if _, err := z.Write(b); err != nil {
				return err
			}
		}
		return z.Close()
	})
}
