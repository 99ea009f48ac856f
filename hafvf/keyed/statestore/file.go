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

// fileMagic starts a state file. The parts after it are compressed, with a checksum, and each follows its length:
// the position of the source, then the key and the sealed state of every key.
const (
	filePrefix = "hafvf states "
	fileMagic  = filePrefix + "2\n"
)

// maxPart limits a length in bytes, so that a damaged length does not allocate all memory.
const maxPart = 1 << 30

// IsFile reports whether a file looks like a state file, of any version.
func IsFile(path string) bool {
	f, err := inputfile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(filePrefix))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == filePrefix
}

// ReadFile calls each with every state of a state file, until it returns false. It returns the source position that
// PrepareFile wrote, or nil if the file has none. A missing file has no states.
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
		return nil, fmt.Errorf("%s is not a state file, or it is damaged: %w; restore it, or remove it to start without states", path, err)
	}
	return source, nil
}

func read(r *bufio.Reader, each func(State) bool) (source []byte, err error) {
	magic := make([]byte, len(fileMagic))
	_, err = io.ReadFull(r, magic)
	if newer, found := bytes.CutPrefix(magic, []byte(filePrefix)); err == nil && found && newer[0] > '2' {
		return nil, fmt.Errorf("it begins with %q: %w", magic, keyed.ErrNewer)
	}
	if err != nil || string(magic) != fileMagic {
		return nil, fmt.Errorf("it does not begin with %q", fileMagic)
	}
	z, err := zstd.NewReader(r)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	if source, err = readPart(in); err != nil {
		return nil, err
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

// readPart reads a length, and that number of bytes.
func readPart(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if n > maxPart {
		return nil, fmt.Errorf("a part of %d bytes is too large", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return b, nil
}

// PrepareFile writes a state file, which replaces the file at path when it is committed. source is the position of
// the source.
func PrepareFile(path string, source []byte, states iter.Seq[State]) (*atomicfile.File, error) {
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
		for s := range states {
			b = compact.AppendString(compact.AppendString(b[:0], s.Key), s.Seal())
			if _, err := z.Write(b); err != nil {
				return err
			}
		}
		return z.Close()
	})
}
