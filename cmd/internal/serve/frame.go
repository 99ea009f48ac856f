package serve

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"hafvf/internal/jsontext"
)

const (
	protocol  = 1
	overhead  = 5       // bytes of type and checksum
	mostBytes = 1 << 30 // of a frame
	piece     = 1 << 16 // of what is read before more memory is taken
)

// A codedError is what the caller is told is wrong.
type codedError struct {
	Code string `json:"code"`
	Text string `json:"error"`
	Key  string `json:"key,omitempty"`
}

func (e *codedError) Error() string { return e.Text }

func failed(code, format string, args ...any) error {
	return &codedError{Code: code, Text: fmt.Sprintf(format, args...)}
}

// appendFrame appends a frame.
func appendFrame(b []byte, kind byte, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)+overhead))
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, checksum(kind, payload))
	return append(b, payload...)
}

func checksum(kind byte, payload []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, payload)
}

// readFrame reads a frame. A codedError is that of a frame that is read to its end; any other
// is that of the reader.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n < overhead || n > mostBytes {
		if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
			return 0, nil, err
		}
		return 0, nil, failed("frame", "a frame of %d bytes; it has %d to %d", n, overhead, mostBytes)
	}
	var b []byte
	for left := int(n); left > 0; { // the length may be wrong: memory grows with what has come
		some := min(left, max(piece, len(b)))
		b = slices.Grow(b, some)[:len(b)+some]
		if _, err := io.ReadFull(r, b[len(b)-some:]); err != nil {
			return 0, nil, err
		}
		left -= some
	}
	kind, payload = b[0], b[overhead:]
	if binary.LittleEndian.Uint32(b[1:]) != checksum(kind, payload) {
		return 0, nil, failed("frame", "a frame with another checksum than its bytes have")
	}
	return kind, payload, nil
}

// A Server answers frames.
type Server struct {
	Version string           // of the program; empty: any caller's
	Parent  func(parent int) // is told the pid of the caller

	greeted bool
	models  []*model
	made    map[string]int // by the payload of the settings
}

// Serve answers the frames of r until it ends. The error is that of r or w; there is none if r ends within a frame,
// as whoever asked is gone.
func (s *Server) Serve(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, piece)
	for {
		kind, payload, err := readFrame(in)
		coded := (*codedError)(nil)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil && !errors.As(err, &coded):
			return err
		}
		if _, err := w.Write(s.frame(kind, payload, err)); err != nil {
			return err
		}
	}
}

// frame is the answer to a frame that was read, or could not be.
func (s *Server) frame(kind byte, payload []byte, err error) []byte {
	var answer []byte
	if err == nil {
		answer, err = s.answer(kind, payload)
	}
	if err == nil && len(answer) > mostBytes-overhead {
		err = failed("batch", "the answer has %d bytes, more than a frame: ask for fewer observations", len(answer))
	}
	if err == nil {
		return appendFrame(nil, kind, answer)
	}
	coded := &codedError{Code: "batch", Text: err.Error()}
	errors.As(err, &coded)
	return appendFrame(nil, 'e', jsonOf(coded))
}

func jsonOf(v any) []byte { return []byte(jsontext.Of(v)) }

// A greeting is the payload of hello.
type greeting struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Parent   int    `json:"parent,omitempty"`
}

func (s *Server) answer(kind byte, payload []byte) (answer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = failed("panic", "a fault of hafvf, please report it: %v", p)
		}
	}()
	switch {
	case kind == 'h':
		return s.greet(payload)
	case !s.greeted:
		return nil, failed("version", "the first frame is hello, with protocol and version")
	case kind == 's':
		return s.settings(payload)
	case kind == 'b':
		return s.batch(payload)
	case kind == 't':
		return readTimes(payload)
	case kind == 'y':
		return readYAML(payload)
	}
	return nil, failed("frame", "a frame of type %q; there are h, s, b, t and y", kind)
}

func (s *Server) greet(payload []byte) ([]byte, error) {
	var g greeting
	if err := json.Unmarshal(payload, &g); err != nil {
		return nil, failed("version", "hello: %v", err)
	}
	switch {
	case g.Protocol != protocol:
		return nil, failed("version", "this hafvf-serve has protocol %d, and its caller protocol %d: install them together", protocol, g.Protocol)
	case g.Version != "" && s.Version != "" && g.Version != s.Version:
		return nil, failed("version", "this hafvf-serve is %s, and its caller %s: install them together", s.Version, g.Version)
	}
	if s.greeted = true; g.Parent != 0 && s.Parent != nil {
		s.Parent(g.Parent)
	}
	return jsonOf(greeting{Protocol: protocol, Version: s.Version}), nil
}

func (s *Server) settings(payload []byte) ([]byte, error) {
	at, known := s.made[string(payload)]
	if !known {
		m, err := newModel(payload)
		if err != nil {
			return nil, failed("settings", "%v", err)
		}
		if at = len(s.models); s.made == nil {
			s.made = map[string]int{}
		}
		s.models, s.made[string(payload)] = append(s.models, m), at
	}
	d := s.models[at].description
	d.Model = at
	return jsonOf(d), nil
}
