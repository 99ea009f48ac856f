package connectors

import (
	"errors"
	"fmt"
	"hafvf/internal/message"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// A readStream is a reader with a function that closes everything below it.
type readStream struct {
	io.Reader
	close func() error
}

func (r readStream) Close() error { return r.close() }

// openRegular opens a file for reading. It fails for a folder.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read: %w", path, message.Cause(err))
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: give its files, as in %s", path, filesIn(path))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// filesIn returns a pattern of the files in a folder. It has a * for each folder above the first file that can be read.
func filesIn(folder string) (pattern string) {
	pattern = filepath.Join(folder, "*")
	// An error leaves the pattern of the folder itself.
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		ext := filepath.Ext(Unpacked(path))
		if err != nil || d.IsDir() || !slices.ContainsFunc(Formats, func(f Format) bool { return slices.Contains(f.Extensions, ext) }) {
			return err
		}
		below, _ := filepath.Rel(folder, path)
		depth := strings.Count(below, string(filepath.Separator))
		pattern = filepath.Join(folder, strings.Repeat("*/", depth)+"*"+ext+strings.TrimPrefix(path, Unpacked(path)))
		return fs.SkipAll
	})
	return pattern
}

// Encodings are the names of the encodings of text files. UTF-16 with a byte order mark is also read as "utf-8".
var Encodings = []string{"utf-8", "utf-16", "latin-1", "windows-1252"}

// decoders contains the Encodings except UTF-8.
var decoders = map[string]encoding.Encoding{
	"utf-16": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), "latin-1": charmap.ISO8859_1, "windows-1252": charmap.Windows1252,
}

// openText opens path, or standard input, and decompresses it according to its extension. It converts encoding, one
// of Encodings or empty, to UTF-8.
func openText(path, encoding string) (io.ReadCloser, error) {
	r, err := openBytes(path)
	if decoder := decoders[encoding]; err == nil && decoder != nil {
		return readStream{transform.NewReader(r, decoder.NewDecoder()), r.Close}, nil
	}
	return r, err
}

func openBytes(path string) (io.ReadCloser, error) {
	if path == stdio {
		return io.NopCloser(os.Stdin), nil
	}
	f, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".gz":
		z, err := gzip.NewReader(f)
		if err != nil {
			f.Close()
			if err == io.EOF {
				err = errors.New("the file is empty")
			}
			return nil, fmt.Errorf("%s is not a gzip file: %w", path, err)
		}
		return readStream{z, f.Close}, nil
	case ".zst":
		z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s is not a zstd file: %w", path, err)
		}
		return readStream{z, func() error { z.Close(); return f.Close() }}, nil
	}
	return f, nil
}

// compressor returns a writer that compresses into w if the extension of path is .gz or .zst. Closing it does not
// close w.
func compressor(w io.Writer, path string) (io.WriteCloser, error) {
	switch filepath.Ext(path) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return uncompressed{w}, nil
}

type uncompressed struct{ io.Writer }

func (uncompressed) Close() error { return nil }

// Unpacked returns path without the extension of a compression.
func Unpacked(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
}
