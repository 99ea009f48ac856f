package message

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellWord quotes s as one word of a shell command. It writes characters that are not printable, such as escapes, as
// \x codes, which bash, ksh and zsh understand.
func ShellWord(s string) string {
	if s != "" && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r))
	}) {
		return s
	}
	if IsPrintable(s) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	b := []byte("$'")
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\'' || r == '\\':
			b = append(b, '\\', s[i])
		case unicode.IsPrint(r) && !(r == utf8.RuneError && n == 1):
			b = append(b, s[i:i+n]...)
		default:
			for _, c := range []byte(s[i : i+n]) {
				b = fmt.Appendf(b, `\x%02x`, c)
			}
		}
		i += n
	}
	return string(append(b, '\''))
}
