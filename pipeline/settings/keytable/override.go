package keytable

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
)

// index is that of an entry of a list in a path, as in levels[0].alpha.
var index = regexp.MustCompile(`\[([0-9]+)\]`)

// PathNames are the keys and indexes that a path of an override leads through: levels[0].alpha and
// levels.0.alpha are the same.
func PathNames(path string) []string { return strings.Split(index.ReplaceAllString(path, ".$1"), ".") }

// override applies Overrides[i], "a.b=c", to the tree. A key that is absent is added,
// with the mappings above it; an index must exist.
func (d *Decoder) override(root *yaml.Node, i int) {
	pos := -1 - i
	path, value, ok := strings.Cut(d.Overrides[i], "=")
	if !ok || path == "" {
		d.failAt(pos, "", `an override is key=value, for example top=0.9`)
		return
	}
	to, err := overrideValue(value)
	if err != nil {
		d.failAt(pos, path, "%s", err.reason)
		return
	}
	mark(to, pos)

	at, names := root, PathNames(path)
	for depth, name := range names {
		here := message.Printable(strings.Join(names[:depth], "."))
		last := depth == len(names)-1
		if name == "" {
			d.failAt(pos, path, "a name in the path is empty")
			return
		}
		if isNull(at) || depth > 0 && at.Tag == "!!bool" && at.Value == "true" {
			// The key is there without a value, as in "model:", or with all its defaults, as in
			// "detect: true".
			*at = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: pos}
		}
		var child **yaml.Node
		switch at.Kind {
		case yaml.MappingNode:
			child = d.child(at, name, pos)
		case yaml.SequenceNode:
			k, err := strconv.Atoi(name)
			if err != nil {
				d.failAt(pos, path, "%s is a list, which takes an index, not %s", here, message.Quote(name))
				return
			}
			if k < 0 || k >= len(at.Content) {
				d.failAt(pos, path, "%s has %d entries, and indexes begin at 0", here, len(at.Content))
				return
			}
			child = &at.Content[k]
		default:
			if here == "" {
				here = "the config"
			}
			d.failAt(pos, path, "%s is %s, and has no keys", here, d.describeAt(strings.Join(names[:depth], "."), at))
			return
		}
		if last {
			*child = to
			break
		}
		if *child == nil {
			if _, err := strconv.Atoi(names[depth+1]); err == nil {
				d.failAt(pos, path, "the config has no list %s; set it as a whole", message.Printable(strings.Join(names[:depth+1], ".")))
				return
			}
			*child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: pos}
		}
		at = *child
	}
}

// child returns the place of the value of a key, which it adds if it is absent.
func (d *Decoder) child(n *yaml.Node, name string, pos int) **yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return &n.Content[i+1]
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: pos}, nil)
	return &n.Content[len(n.Content)-1]
}

// overrideValue parses the right side of an override. What is not YAML and does
// not look like a list, a mapping or a quoted text is the text itself, so that
// "-", "*.csv" and "," need no quotes.
func overrideValue(value string) (*yaml.Node, *syntaxError) {
	asText := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if value == "-" {
		return asText, nil
	}
	n, err := parseYAML([]byte(value))
	switch {
	case err != nil && err.syntax && !strings.ContainsAny(value[:1], "[{\"'"):
		return asText, nil
	case err != nil:
		return nil, err
	case n == nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return n, nil
}

// mark gives a value of an override its position.
func mark(n *yaml.Node, pos int) {
	n.Line = pos
	for _, c := range n.Content {
		mark(c, pos)
	}
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
