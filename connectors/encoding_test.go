package connectors

import (
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// A text file is read in its encoding.
func TestEncodings(t *testing.T) {
	const text = "key,time,x\nÜ €,t,1\n"
	little := ""
	for _, r := range text {
		little += string([]byte{byte(r), byte(r >> 8)})
	}
	for encoding, c := range map[string][2]string{
		"":             {text, "Ü €,t,1"},
		"utf-8":        {text, "Ü €,t,1"},
		"utf-16":       {little, "Ü €,t,1"},
		"windows-1252": {strings.NewReplacer("Ü", "\xdc", "€", "\x80").Replace(text), "Ü €,t,1"},
		"latin-1":      {strings.NewReplacer("Ü", "\xdc", "€", "\xb5").Replace(text), "Ü µ,t,1"},
	} {
		for _, format := range []string{CSV, JSONLines} {
			src := in(t, "f.csv", map[string]string{"f.csv": c[0]})
			src.Format, src.Encoding = format, encoding
			texts := expect.Get(readAll(t, src))(t)
			if got := texts[len(texts)-1]; got != "f.csv: "+c[1] {
				t.Errorf("%s %s: %q", format, encoding, got)
			}
		}
	}
}
