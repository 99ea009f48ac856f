package connectors

import (
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// The header is the first line whose next lines have data in its columns. It may have a column less than they have.
func TestPreambleOf(t *testing.T) {
	data := func(s string) bool { return s != "" && strings.Trim(s, "0123456789.") == "" }
	missing := func(s string) bool { return s == "" }
	for text, want := range map[string]Preamble{
		"time,x\n1,2\n3,4\n":                                {Delimiter: ","},
		"time;x\n1;2,5\n3;4,5\n":                            {Delimiter: ";"},
		"Report of a pump\nby shift\ntime\tx\n1\t2\n3\t4\n": {Delimiter: "\t", Skip: 2},
		"# made by hand\ntime,x\n1,2\n3,\n":                 {Delimiter: ",", Comment: "#"},
		"of shift 2\na,b\nr1,1,2\nr2,3,4\n":                 {Delimiter: ",", Skip: 1},
		"of shift 3\na,b\n1,2,\n3,4,\n":                     {Delimiter: ",", Skip: 1},
		"sep=;\na;b\n1;2\n3;4\n":                            {Delimiter: ";", Skip: 1},
		"one word\nanother\n":                               {Delimiter: ","},
	} {
		expect.Same(t, want, PreambleOf([]byte(text), data, missing), text)
	}
}
