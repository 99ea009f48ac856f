package connectors

import (
	"io"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

func TestJSONArray(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []got // without Fields
	}{
		{"one line", "\ufeff [{\"a\":\"]},\\\"\"},{\"b\":[1,{}]}]\n", []got{{Line: 1, Raw: `{"a":"]},\""}`}, {Line: 2, Raw: `{"b":[1,{}]}`}}},
		{"of several lines", "[\n {\n  \"a\": 1\n },\r\n{}\n]", []got{{Line: 1, Raw: "{\n  \"a\": 1\n }"}, {Line: 2, Raw: "{}"}}},
		{"empty", "[]\n", nil},
		{"other elements", "[1, \"a,b\",{}]", []got{{Line: 1, Raw: "1"}, {Line: 2, Raw: `"a,b"`}, {Line: 3, Raw: "{}"}}},
		{"array after array, and lines", "[{}]\n[{\"a\":1}]\n{\"b\":1}\n", []got{{Line: 1, Raw: "{}"}, {Line: 2, Raw: `{"a":1}`}, {Line: 3, Raw: `{"b":1}`}}},
		{"cut off", "[{\"a\":1},\n{\"a\":", []got{{Line: 1, Raw: `{"a":1}`},
			{2, "", "the element of the array that begins at line 2 does not end before the end of the file", `{"a":`}}},
		{"cut off behind an element", "[{\"a\":1},\n", []got{{Line: 1, Raw: `{"a":1}`}, {2, "", "the array is not closed: the file ends at line 2", ""}}},
		{"a quote is missing", "[\n{\"a\":\"1},\n{\"a\":2}\n]", []got{
			{1, "", "the element of the array that begins at line 2 has a text without a closing quote", `{"a":"1},`}, {Line: 2, Raw: `{"a":2}`}}},
		{"a brace is missing", "[\n{\"a\":1,\n \"b\":[\n ],\n{\"a\":2},\n{\"a\":3}\n]", []got{
			{1, "", "the element of the array that begins at line 2 has a ']' instead of a '}'", `{"a":1,`}, {Line: 2, Raw: `{"a":2}`}, {Line: 3, Raw: `{"a":3}`}}},
		{"not UTF-8", "[{\"\xff\":1}]", []got{{1, "", "not UTF-8: byte 0xff at byte 3 of the record; set encoding, such as windows-1252", "{\"\xff\":1}"}}},
	} {
		for _, size := range []int{1, 1 << 20} {
			j := newJSONLReader(io.NopCloser(&chunks{[]byte(tt.text), size}), "f.json", "f.json")
			expect.Same(t, tt.want, expect.Get(drain(t, j.next))(t), tt.name)
		}
	}
	j := newJSONLReader(io.NopCloser(strings.NewReader("[{\"a\":\""+strings.Repeat("b", MaxRecord)+"\"},\n{}]")), "f.json", "f.json")
	records := expect.Get(drain(t, j.next))(t)
	expect.Same(t, "the element of the array that begins at line 1 does not end within 16777216 bytes", records[0].Reason)
	expect.Same(t, []got{{Line: 2, Raw: "{}"}}, records[1:])
}
