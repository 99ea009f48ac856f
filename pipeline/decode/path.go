package decode

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hafvf/connectors"
	"hafvf/internal/domain"
	"hafvf/pipeline/config"
)

// A pathPart is a part of the key that a file's path supplies.
type pathPart struct {
	index int    // in the key
	part  string // see config.PathPart
}

// splitKey separates the parts of a key that the path supplies from the columns or fields.
func splitKey(key []string) (columns []string, path []pathPart) {
	for i, name := range key {
		if part, ok := config.PathPartOf(name); ok {
			path = append(path, pathPart{i, part})
		} else {
			columns = append(columns, name)
		}
	}
	return columns, path
}

// PathParts returns the parts of a path, without a leading / or ./.
func PathParts(path string) []string {
	return strings.FieldsFunc(filepath.ToSlash(filepath.Clean(path)), func(r rune) bool { return r == '/' })
}

// PathText returns the text of a part of a path, see config.PathPart. It returns an error unless exactly one part of
// the path matches.
func PathText(part, path string) (string, error) {
	before, after, pattern := strings.Cut(part, "*")
	var texts []string
	for i, s := range PathParts(path) {
		switch {
		case part == strconv.Itoa(i+1):
			texts = append(texts, s)
		case pattern && len(s) >= len(part) && strings.HasPrefix(s, before) && strings.HasSuffix(s, after):
			texts = append(texts, s[len(before):len(s)-len(after)])
		}
	}
	switch {
	case len(texts) != 1:
		return "", fmt.Errorf("key %s: %d parts of the path %s match; exactly one has to", config.YAMLText(config.PathPart(part)), len(texts), path)
	case !utf8.ValidString(texts[0]):
		return "", errKeyUTF8
	}
	return texts[0], nil
}

// origin returns what a file supplies of the keys of its records.
func (p *Parser) origin(r *connectors.Record) (from origin) {
	for _, part := range p.path {
		text, err := PathText(part.part, r.Path)
		if err != nil {
			return origin{err: err}
		}
		from.path = append(from.path, text)
	}
	switch {
	case len(p.Key) > 0:
	case len(from.path) == 0:
		from.series = seriesName(r.Source)
	default:
		from.series = p.joinKey(nil, from)
	}
	return from
}

// joinKey returns the key of the texts of its columns and of the path.
func (p *Parser) joinKey(texts []string, from origin) string {
	for i, part := range p.path {
		texts = slices.Insert(slices.Clip(texts), part.index, from.path[i])
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return domain.JoinKey(texts)
}
