package records

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
)

func (l *Layout) appendOutputs(b []byte, v []float64) []byte {
	if !l.Vector {
		return appendNumber(b, v[0])
	}
	return appendNumbers(b, v)
}

func appendParam(b []byte, p expfam.Param, v []float64) []byte {
	switch {
	case p.Rows == 0:
		return appendNumber(b, v[0])
	case p.Cols == 0:
		return appendNumbers(b, v)
	}
	return AppendList(b, p.Rows, func(b []byte, i int) []byte { return appendNumbers(b, v[i*p.Cols:(i+1)*p.Cols]) })
}

// appendValue appends x in the shape in which it was read.
func appendValue(b []byte, x [][]float64, shape keyed.Shape) []byte {
	switch {
	case shape == keyed.Scalar && len(x) == 1 && len(x[0]) == 1:
		return appendNumber(b, x[0][0])
	case shape == keyed.Vector && len(x) == 1:
		return appendNumbers(b, x[0])
	case shape != keyed.List:
		return append(b, "null"...)
	}
	return AppendList(b, len(x), func(b []byte, i int) []byte { return appendNumbers(b, x[i]) })
}

func appendNumbers(b []byte, v []float64) []byte {
	return AppendList(b, len(v), func(b []byte, i int) []byte { return appendNumber(b, v[i]) })
}

// AppendList appends a JSON list of n entries.
func AppendList(b []byte, n int, entry func(b []byte, i int) []byte) []byte {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = entry(b, i)
	}
	return append(b, ']')
}

// appendNumber appends the shortest text that reads back as f, or null if f is not finite.
func appendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendText appends s as a JSON string. It replaces invalid UTF-8 by U+FFFD.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
