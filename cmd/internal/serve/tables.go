package serve

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"hafvf/cmd/internal/research"
	"hafvf/pipeline/settings"
)

// A tableRequest is the head of a request for tables.
type tableRequest struct {
	Settings Settings         `json:"settings"`
	Request  research.Request `json:"request"`
	Rows     int              `json:"rows"`
}

// tables answers a request for tables.
func (s *Server) tables(payload []byte) ([]byte, error) {
	c := &cursor{b: payload}
	var head tableRequest
	if err := json.Unmarshal(c.text(), &head); err != nil {
		return nil, failed("batch", "the head of the request: %v", err)
	}
	r, n := &head.Request, head.Rows
	if n < 0 || r.Length < 0 || n > len(c.b) || r.Length > len(c.b) || len(c.b) != n*(4+8+8*r.Length) {
		return nil, errCut
	}
	codes, times, values := c.take(uint64(4*n)), c.take(uint64(8*n)), c.b
	for i := range n {
		code := int32(binary.LittleEndian.Uint32(codes[4*i:]))
		if code < 0 || int(code) >= len(r.Keys) {
			return nil, failed("batch", "row %d has the key %d of %d", i, code, len(r.Keys))
		}
		r.Codes = append(r.Codes, code)
		r.Times = append(r.Times, timeOf(int64(binary.LittleEndian.Uint64(times[8*i:]))))
	}
	for name, column := range r.Columns {
		if len(column) != n {
			return nil, failed("batch", "the column %s has %d rows of %d", name, len(column), n)
		}
	}
	r.Values = make([]float64, len(values)/8)
	for i := range r.Values {
		r.Values[i] = math.Float64frombits(binary.LittleEndian.Uint64(values[8*i:]))
	}
	if head.Settings.sessions = true; r.Do == "smooth" {
		head.Settings.overrides = []string{"transform=" + settings.Smooth}
	}
	cfg, _, err := head.Settings.read()
	if err != nil {
		return nil, failed("settings", "%v", err)
	}
	answer, err := r.Answer(cfg, head.Settings.Values, head.Settings.Untimed, s.progress())
	if err != nil {
		return nil, failed("batch", "%v", err)
	}
	b := appendText(nil, jsonOf(answer))
	for _, t := range answer.Tables {
		b = appendText(b, t.Lines)
	}
	return b, nil
}

// progress returns a function that writes frames of progress, at most ten a second.
func (s *Server) progress() func(done, total int) {
	var mu sync.Mutex
	last := time.Now()
	return func(done, total int) {
		mu.Lock()
		defer mu.Unlock()
		if s.out != nil && time.Since(last) > time.Second/10 {
			last = time.Now()
			s.out.Write(appendFrame(nil, 'p', jsonOf(map[string]int{"done": done, "total": total}))) // the answer reports errors
		}
	}
}

func appendText(b, text []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(slices.Grow(b, 4+len(text)), uint32(len(text))), text...)
}
