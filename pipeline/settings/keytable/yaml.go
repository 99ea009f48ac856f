package keytable

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
	line   int // 0 if unknown
	reason string
	syntax bool // the text is not YAML; false for YAML that is not a config
}

var (
	yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)
	// yaml counts the lines of parser errors from 0, scanner errors from 1, and leaves out line 0.
	fromLine0     = regexp.MustCompile(`^did not find expected (<document start>|node content|'-' indicator|key|',')`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(?s:.*)' referenced$`)
)

// parseYAML returns the value of the only document in text, or nil if there is no value.
func parseYAML(text []byte) (*yaml.Node, *syntaxError) {
	if len(text) > maxConfig {
		return nil, &syntaxError{reason: fmt.Sprintf("the config has %d bytes; at most %d are allowed", len(text), maxConfig)}
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
		// The end of the text may count as another line.
		line = min(line, 1+bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n")))
		return &syntaxError{line: line, reason: "not YAML: " + unknownAnchor.ReplaceAllString(m[2], noAliases), syntax: true}
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
		return nil, &syntaxError{line: next.Line, reason: "a second YAML document; a config has only one"}
	case err != io.EOF:
		return nil, fromYAML(err)
	}
	root := doc.Content[0]
	if isNull(root) {
		return nil, nil
	}
	if err := refuseAliases(root); err != nil {
		return nil, err
	}
	return root, nil
}

// jsonEscapes matches the escapes of JSON that package yaml does not support.
var jsonEscapes = regexp.MustCompile(`\\(?:/|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|[^/])`)

// jsonToYAML replaces these escapes by their characters.
func jsonToYAML(text []byte) []byte {
	return jsonEscapes.ReplaceAllFunc(text, func(escape []byte) []byte {
		var s string
		if len(escape) == 2 && escape[1] != '/' || json.Unmarshal(slices.Concat([]byte{'"'}, escape, []byte{'"'}), &s) != nil {
			return escape
		}
		return []byte(s)
	})
}

// invalidUTF8 returns the index of the first invalid byte, or -1.
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

// refuseAliases returns an error for the first alias or anchor. An override of an anchored value would also change
// the values of its aliases.
func refuseAliases(n *yaml.Node) *syntaxError {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return &syntaxError{line: n.Line, reason: noAliases}
	}
	for _, child := range n.Content {
		if err := refuseAliases(child); err != nil {
			return err
		}
	}
	return nil
}

// noAliases does not contain the name, which may be a secret written without quotes.
const noAliases = "anchors (&name) and aliases (*name) are not supported: write the value in each place; if it is text, put it in quotes"
