package report

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// nameRoom is the number of characters of a key that a row of the map has room for.
const nameRoom = 30

// cutNames returns keys as the rows of a group show them: of those that are too long, the parts that all
// have in common are left out. A series that is too long yet has the values of its labels alone.
func cutNames(names []string) []string {
	if len(names) < 2 {
		return names
	}
	all := make([][]string, len(names))
	least := -1
	for i, name := range names {
		all[i] = strings.FieldsFunc(partsOf.Replace(name), func(r rune) bool { return r == 0 })
		if n := len(all[i]); least < 0 || n < least {
			least = n
		}
	}
	agree := func(part func(of []string) string) bool {
		return !slices.ContainsFunc(all, func(of []string) bool { return part(of) != part(all[0]) })
	}
	head, tail := 0, 0
	for head < least && agree(func(of []string) string { return of[head] }) {
		head++
	}
	for tail < least-head && agree(func(of []string) string { return of[len(of)-1-tail] }) {
		tail++
	}
	within := make([]bool, least) // all have the same number of parts, and this one in common
	if !slices.ContainsFunc(all, func(of []string) bool { return len(of) != least }) {
		for k := range within {
			within[k] = agree(func(of []string) string { return of[k] })
		}
	}
	short := slices.Clone(names)
	for i, parts := range all {
		if utf8.RuneCountInString(names[i]) <= nameRoom {
			continue
		}
		var b strings.Builder
		for k, part := range parts {
			common := k < head || k >= len(parts)-tail || k < least && within[k]
			if !common {
				b.WriteString(part)
			} else if !strings.HasSuffix(b.String(), "…") {
				b.WriteString("…")
			}
		}
		if short[i] = b.String(); utf8.RuneCountInString(short[i]) > nameRoom {
			short[i] = strings.Join(strings.FieldsFunc(labelNames.ReplaceAllString(short[i], " "), func(r rune) bool { return strings.ContainsRune(" …{},\"", r) }), " ")
		}
	}
	return short
}

// labelNames are the names of labels in a series.
var labelNames = regexp.MustCompile(`\b[A-Za-z_]\w*="`)

// partsOf ends the parts of a key with a zero.
var partsOf = strings.NewReplacer("\x00", "", "{", "{\x00", ",", ",\x00", "/", "/\x00", "}", "\x00}")
