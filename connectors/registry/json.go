package registry

import (
	"encoding/hex"
	"math"
	"strconv"
)

// appendFloat appends the shortest text that reads back as f, or a bare NaN or Infinity.
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

// appendText appends a JSON string. Bytes that are not UTF-8 stay, so that who reads them can
// refuse them.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			b = append(append(b, s[from:i]...), `\u00`...)
			b = hex.AppendEncode(b, []byte{c})
			from = i + 1
		}
	}
	return append(append(b, s[from:]...), '"')
}
