package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// A secret has a maximum size, and loses the line ends at its end. An error names the key.
func TestValue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s")
	for _, c := range []struct{ text, want, err string }{
		{"a b\n", "a b", ""},
		{"a\r\n\n\r\n", "a", ""},
		{" a\nb \n\n", " a\nb ", ""},
		{strings.Repeat("x", MaxBytes), strings.Repeat("x", MaxBytes), ""},
		{strings.Repeat("x", MaxBytes+1), "", "k.file: the file that it names cannot be read: it has more than 64 kB"},
		{"\n\n", "", "k.file: the file " + file + " is empty"},
	} {
		expect.OK(t, os.WriteFile(file, []byte(c.text), 0o600))
		got, err := Secret{File: file}.Value("k")
		if got != c.want || (err == nil) != (c.err == "") {
			t.Errorf("%.20q: %.20q, %v", c.text, got, err)
		}
		if c.err != "" {
			expect.Error(t, err, c.err)
		}
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		_, err := Secret{File: "/dev/zero"}.Value("k")
		expect.Error(t, err, "k.file: the file that it names cannot be read: zero is a device: give a regular file or a pipe")
	}
	t.Setenv("HAFVF_TEST_SECRET", strings.Repeat("x", MaxBytes+1))
	_, err := Secret{Env: "HAFVF_TEST_SECRET"}.Value("k")
	expect.Error(t, err, "k.env: the environment variable HAFVF_TEST_SECRET has more than 64 kB")
}
