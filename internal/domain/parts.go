package domain

import "strings"

// KeySeparator separates the parts of a key of several fields.
const KeySeparator = "/"

// escape and unescape convert the parts of a key, so that different parts make different keys.
var (
	escape   = strings.NewReplacer("%", "%25", KeySeparator, "%2F")
	unescape = strings.NewReplacer("%25", "%", "%2F", KeySeparator)
)

// JoinKey returns the key with the given parts.
func JoinKey(parts []string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escape.Replace(part)
	}
	return strings.Join(escaped, KeySeparator)
}

// SplitKey returns the parts of a key of JoinKey.
func SplitKey(key string) []string {
	parts := strings.Split(key, KeySeparator)
	for i, part := range parts {
		parts[i] = unescape.Replace(part)
	}
	return parts
}

// Missing reports whether a text means a missing value in every source.
func Missing(s string) bool {
	return s == "" || strings.EqualFold(s, "nan") || strings.EqualFold(s, "null")
}
