package registry

import (
	"encoding/hex"
	"math"
	"strconv"
)

// appendAll appends n elements or members, with commas between them, in brackets.
func appendAll(b []byte, brackets string, n int, element func(b []byte, i int) ([]byte, error)) (_ []byte, err error) {
	b = append(b, brackets[0])
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = element(b, i); err != nil {
			return b, err
		}
	}
	return append(b, brackets[1]), nil
}

// appendName appends the name of a member and a colon.
func appendName(b []byte, name string) []byte { return append(appendText(b, name), ':') }

// appendFloat appends the shortest text that parses as f, or a bare NaN, Infinity or -Infinity.
func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, bits)
}

// appendText appends a JSON string. It keeps bytes that are not UTF-8, so that a reader can reject them.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			b = append(append(b, s[start:i]...), `\u00`...)
			b = hex.AppendEncode(b, []byte{c})
			start = i + 1
		}
	}
	return append(append(b, s[start:]...), '"')
}
