package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

type syntaxError struct {
	line   int // 0 where it is unknown
	reason string
	syntax bool // the text is not YAML, as opposed to YAML that is no config
}

var (
	yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)
	// Of errors of its parser, as opposed to its scanner, yaml counts the lines
	// from 0, and does not say 0.
	fromLine0     = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',')`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(?s:.*)' referenced$`)
)

// parseYAML returns the value of the only document in text, with its aliases
// replaced by what they stand for, or nil where there is no value.
func parseYAML(text []byte) (*yaml.Node, *syntaxError) {
	if len(text) > maxConfig {
		return nil, &syntaxError{reason: fmt.Sprintf("the config has %d bytes, more than the %d that are allowed", len(text), maxConfig)}
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, &syntaxError{line: 1 + bytes.Count(text[:i], []byte("\n")), reason: "not UTF-8"}
	}
	fromYAML := func(err error) *syntaxError {
		m := yamlError.FindStringSubmatch(err.Error())
		if m == nil {
			return &syntaxError{reason: "not YAML: " + err.Error(), syntax: true}
		}
		line, _ := strconv.Atoi(m[1])
		if fromLine0.MatchString(m[2]) {
			line++
		}
		// The end of the text may count as a line of its own.
		line = min(line, 1+bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n")))
		// The name of an anchor may be a secret that stands there without quotes.
		what := unknownAnchor.ReplaceAllString(m[2], "an alias (*name) of no anchor (&name); if it is text, put it in quotes")
		return &syntaxError{line: line, reason: "not YAML: " + what, syntax: true}
	}
	if json.Valid(text) {
		text = jsonToYAML(text)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, fromYAML(err)
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		return nil, &syntaxError{line: next.Line, reason: "a second YAML document; a config is one"}
	case err != io.EOF:
		return nil, fromYAML(err)
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil, nil
	}
	return (&expansion{open: map[*yaml.Node]bool{}}).of(root)
}

// jsonEscapes are the escapes that JSON has and package yaml lacks.
var jsonEscapes = regexp.MustCompile(`\\(?:/|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|[^/])`)

// jsonToYAML replaces those escapes by the characters that they stand for.
func jsonToYAML(text []byte) []byte {
	return jsonEscapes.ReplaceAllFunc(text, func(escape []byte) []byte {
		var s string
		if len(escape) == 2 && escape[1] != '/' || json.Unmarshal(slices.Concat([]byte{'"'}, escape, []byte{'"'}), &s) != nil {
			return escape
		}
		return []byte(s)
	})
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// maxExpansion bounds the values that aliases stand for, in all.
const maxExpansion = 100_000

// An expansion replaces aliases by copies, so that an override in one place
// leaves the others alone.
type expansion struct {
	open   map[*yaml.Node]bool // the anchors that enclose the value at hand
	copied int
}

func (e *expansion) of(n *yaml.Node) (*yaml.Node, *syntaxError) {
	if n.Kind == yaml.AliasNode {
		if e.open[n.Alias] {
			return nil, &syntaxError{line: n.Line, reason: fmt.Sprintf("the alias *%s stands within its own anchor", n.Value)}
		}
		return e.of(n.Alias)
	}
	if n.Anchor != "" {
		e.open[n] = true
		defer delete(e.open, n)
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		if len(e.open) > 0 {
			if e.copied++; e.copied > maxExpansion {
				return nil, &syntaxError{line: child.Line, reason: fmt.Sprintf("aliases stand for more than %d values", maxExpansion)}
			}
		}
		var err *syntaxError
		if c.Content[i], err = e.of(child); err != nil {
			return nil, err
		}
	}
	return &c, nil
}
