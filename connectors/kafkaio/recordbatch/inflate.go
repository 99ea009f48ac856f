package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// inflate decompresses the records of a batch, at most limit bytes.
//
// kafka-go's codecs for snappy and zstd allocate the length or window that the data claims, however large. unsnap and
// unzstd check it against limit first.
func inflate(codec uint16, data []byte, limit int) ([]byte, error) {
	var out []byte
	var err error
	switch c := compress.Compression(codec); c {
	case 0:
		return data, nil
	case compress.Snappy:
		out, err = unsnap(data, limit)
	case compress.Zstd:
		out, err = unzstd(data, limit)
	case compress.Gzip, compress.Lz4:
		out, err = drain(c.Codec().NewReader(bytes.NewReader(data)), 4*len(data), limit)
	default:
		return nil, &Unsupported{fmt.Sprintf("their compression has the unknown number %d", codec)}
	}
	if errors.Is(err, errTooLarge) {
		return nil, &Unsupported{fmt.Sprintf("decompressed they have more than %d bytes", limit)}
	}
	return out, err
}

var errTooLarge = errors.New("too large")

// drain reads r to its end and closes it. guess is the expected size in bytes. The error is errTooLarge if there are
// more than limit bytes.
func drain(r io.ReadCloser, guess, limit int) ([]byte, error) {
	defer r.Close()
	var out bytes.Buffer
	out.Grow(min(guess, limit))
	_, err := out.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if err == nil && out.Len() > limit {
		err = errTooLarge
	}
	return out.Bytes(), err
}

// xerial is the header of snappy data in the framing of Java's library. After it come two version numbers of four
// bytes, and then the blocks, each after its length in four bytes.
var xerial = []byte("\x82SNAPPY\x00")

// unsnap decompresses snappy data with or without that framing.
func unsnap(data []byte, limit int) (out []byte, err error) {
	if len(data) < 16 || !bytes.HasPrefix(data, xerial) {
		return unsnapBlock(nil, data, limit)
	}
	for data = data[16:]; len(data) > 0; {
		if len(data) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(data))
		if n > int64(len(data)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		if out, err = unsnapBlock(out, data[4:4+n], limit); err != nil {
			return nil, err
		}
		data = data[4+n:]
	}
	return out, nil
}

// unsnapBlock appends the decompressed block to out.
func unsnapBlock(out, block []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > limit-len(out) {
		return nil, errTooLarge
	}
	plain, err := snappy.Decode(nil, block)
	if out == nil {
		return plain, err
	}
	return append(out, plain...), err
}

var zstdDecoders sync.Map // *zstd.Decoder by limit; DecodeAll is safe for concurrent use

func unzstd(data []byte, limit int) ([]byte, error) {
	d, ok := zstdDecoders.Load(limit)
	if !ok {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(limit)))
		if err != nil {
			return nil, err
		}
		var exists bool
		if d, exists = zstdDecoders.LoadOrStore(limit, decoder); exists {
			decoder.Close()
		}
	}
	out, err := d.(*zstd.Decoder).DecodeAll(data, make([]byte, 0, min(4*len(data), limit)))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		err = errTooLarge
	}
	return out, err
}
