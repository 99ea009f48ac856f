package message

import (
	"os/exec"
	"strings"
	"testing"
)

// A shell reads a word as the original text, and the word contains no control characters for a terminal.
func TestShellWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	var words []string
	texts := []string{"", "plain", "-o", "a pump's", `C:\temp`, "\x1b[201~rm -rf /", "a\nb\tc", "\u202egnp.exe", "\xff\xfe", "Grüße '\x07' \\", "$(id) `id` !!", "\x1bA1", "x\u00a0y"}
	for _, text := range texts {
		word := ShellWord(text)
		if !IsPrintable(word) {
			t.Errorf("%q: %q", text, word)
		}
		words = append(words, word)
	}
	out, err := exec.Command(bash, "-c", `printf '%s\0' `+strings.Join(words, " ")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, got := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if got != texts[i] {
			t.Errorf("%s: %q, want %q", words[i], got, texts[i])
		}
	}
}
