package states

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/klauspost/compress/zstd"

	"hafvf/internal/atomicfile"
)

// fileMagic begins a file of states. After it come, compressed and with a checksum, for
// every key its length, itself, the length of its sealed state, and that.
const fileMagic = "hafvf states 1\n"

// maxPart bounds a length in the file, so that a damaged one does not ask for all memory.
const maxPart = 1 << 30

// IsFile reports whether a file looks like a file of states.
func IsFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(fileMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == fileMagic
}

// ReadFile reads a file of states. There are none if it does not exist.
func ReadFile(path string) ([]State, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := read(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s is no file of states, or it is damaged: %w; restore it, or remove it to start without states", path, err)
	}
	return all, nil
}

func read(r *bufio.Reader) (all []State, err error) {
	magic := make([]byte, len(fileMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != fileMagic {
		return nil, fmt.Errorf("it does not begin with %q", fileMagic)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	for {
		key, err := readPart(in)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		state, err := readPart(in)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Open(string(key), state))
	}
}

// readPart reads a length and as many bytes. The error is io.EOF if nothing is left.
func readPart(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
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
func PrepareFile(path string, all iter.Seq[State]) (*atomicfile.File, error) {
	var out bytes.Buffer
	out.WriteString(fileMagic)
	z, err := zstd.NewWriter(&out)
	if err != nil {
		return nil, err
	}
	var b []byte
	for s := range all {
		b = b[:0]
		for _, part := range [][]byte{[]byte(s.Key), s.Seal()} {
			b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
		}
		if _, err := z.Write(b); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return atomicfile.Prepare(path, out.Bytes())
}
