package report

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxNameLength is the maximum number of characters of a key in a row of the map.
const maxNameLength = 30

// cutNames returns the names of keys in the rows of a group. In a name of more than maxNameLength characters, an
// ellipsis replaces the parts that all names share. If the rest of a series is still too long, only the values of its
// labels remain.
func cutNames(names []string) []string {
	if len(names) < 2 {
		return names
	}
	parsed := make([][]string, len(names))
	minParts := -1
	for i, name := range names {
		parsed[i] = strings.FieldsFunc(partsOf.Replace(name), func(r rune) bool { return r == 0 })
		if n := len(parsed[i]); minParts < 0 || n < minParts {
			minParts = n
		}
	}
	agree := func(part func(parts []string) string) bool {
		return !slices.ContainsFunc(parsed, func(parts []string) bool { return part(parts) != part(parsed[0]) })
	}
	head, tail := 0, 0
	for head < minParts && agree(func(parts []string) string { return parts[head] }) {
		head++
	}
	for tail < minParts-head && agree(func(parts []string) string { return parts[len(parts)-1-tail] }) {
		tail++
	}
	shared := make([]bool, minParts) // if all have the same number of parts: whether all share this part
	if !slices.ContainsFunc(parsed, func(parts []string) bool { return len(parts) != minParts }) {
		for k := range shared {
			shared[k] = agree(func(parts []string) string { return parts[k] })
		}
	}
	short := slices.Clone(names)
	for i, parts := range parsed {
		if utf8.RuneCountInString(names[i]) <= maxNameLength {
			continue
		}
		var b strings.Builder
		for k, part := range parts {
			common := k < head || k >= len(parts)-tail || k < minParts && shared[k]
			if !common {
				b.WriteString(part)
			} else if !strings.HasSuffix(b.String(), "…") {
				b.WriteString("…")
			}
		}
		if short[i] = b.String(); utf8.RuneCountInString(short[i]) > maxNameLength {
			short[i] = strings.Join(strings.FieldsFunc(labelNames.ReplaceAllString(short[i], " "), func(r rune) bool { return strings.ContainsRune(" …{},\"", r) }), " ")
		}
	}
	return short
}

// labelNames matches the names of labels in a series.
var labelNames = regexp.MustCompile(`\b[A-Za-z_]\w*="`)

// partsOf ends each part of a key with a zero byte.
var partsOf = strings.NewReplacer("\x00", "", "{", "{\x00", ",", ",\x00", "/", "/\x00", "}", "\x00}")
