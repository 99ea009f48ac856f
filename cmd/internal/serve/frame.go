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
	protocol      = 1
	headBytes     = 5       // type and checksum
	maxFrameBytes = 1 << 30 // without its length
	chunkBytes    = 1 << 16 // first allocation for a frame
	maxModels     = 64      // _client.py has the same number
)

// A codedError is the error that an e frame reports to the caller.
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
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)+headBytes))
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, checksum(kind, payload))
	return append(b, payload...)
}

func checksum(kind byte, payload []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, payload)
}

// readFrame reads a frame. After a codedError the next frame can be read; any other error is the reader's.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n < headBytes || n > maxFrameBytes {
		if _, err := io.CopyN(io.Discard, r, int64(n)); err != nil {
			return 0, nil, err
		}
		return 0, nil, failed("frame", "a frame of %d bytes; a frame has %d to %d bytes", n, headBytes, maxFrameBytes)
	}
	var b []byte
	for missing := int(n); missing > 0; { // the length may be wrong: memory grows with the bytes that arrive
		some := min(missing, max(chunkBytes, len(b)))
		b = slices.Grow(b, some)[:len(b)+some]
		if _, err := io.ReadFull(r, b[len(b)-some:]); err != nil {
			return 0, nil, err
		}
		missing -= some
	}
	kind, payload = b[0], b[headBytes:]
	if binary.LittleEndian.Uint32(b[1:]) != checksum(kind, payload) {
		return 0, nil, failed("frame", "the checksum of a frame does not match its bytes")
	}
	return kind, payload, nil
}

// A Server answers frames.
type Server struct {
	Version string           // version of the program; an empty version accepts any caller
	Parent  func(parent int) // called with the caller's pid, if it sends one
	Waits   func(bool)       // called with true before waiting for a frame, and with false when it has arrived; may be nil

	greeted      bool
	models       []*model       // by number; nil if it is not among the last maxModels used
	modelIndex   map[string]int // by the payload of the settings
	used         []int          // numbers of the models, the last used at the end
	states       stateCache
	observations int64     // number of observations of all batches
	out          io.Writer // for frames of progress; nil discards them
}

// Serve answers the frames of r until r ends. It returns an error of r or w. An r that ends within a frame is no error:
// the caller is gone.
func (s *Server) Serve(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, chunkBytes)
	s.out = w
	waits := func(wait bool) {
		if s.Waits != nil {
			s.Waits(wait)
		}
	}
	for {
		waits(true)
		kind, payload, err := readFrame(in)
		waits(false)
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

// frame returns the answer to a frame, or to err, the error of reading it.
func (s *Server) frame(kind byte, payload []byte, err error) []byte {
	var answer []byte
	if err == nil {
		answer, err = s.answer(kind, payload)
	}
	if err == nil && len(answer) > maxFrameBytes-headBytes {
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

// A greeting is the payload of an h frame.
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
		return nil, failed("version", "the first frame has to be h, with protocol and version")
	case kind == 's':
		return s.settings(payload)
	case kind == 'b':
		return s.batch(payload)
	case kind == 't':
		return readTimes(payload)
	case kind == 'y':
		return readYAML(payload)
	case kind == 'r':
		return s.tables(payload)
	}
	return nil, failed("frame", "unknown frame type %q: use h, s, b, t, y or r", kind)
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
	index, known := s.modelIndex[string(payload)]
	if !known {
		m, err := newModel(payload)
		if err != nil {
			return nil, failed("settings", "%v", err)
		}
		if index = len(s.models); s.modelIndex == nil {
			s.modelIndex = map[string]int{}
		}
		m.settings, m.states = string(payload), &s.states
		s.models, s.modelIndex[m.settings] = append(s.models, m), index
	}
	d := s.use(index).description
	d.Model = index
	return jsonOf(d), nil
}

// use returns a model as the last used one, and drops the model beyond maxModels whose last use is the longest ago.
func (s *Server) use(index int) *model {
	if n := len(s.used); n == 0 || s.used[n-1] != index {
		s.used = append(slices.DeleteFunc(s.used, func(i int) bool { return i == index }), index)
	}
	if len(s.used) > maxModels {
		oldest := s.used[0]
		delete(s.modelIndex, s.models[oldest].settings)
		s.states.drop(s.models[oldest])
		s.models[oldest], s.used = nil, slices.Delete(s.used, 0, 1)
	}
	return s.models[index]
}
