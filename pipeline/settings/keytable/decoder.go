// Package keytable reads YAML by a table of keys. The table checks every value, and is also the reference.
package keytable

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
)

// A KeyError is one mistake in a config.
type KeyError struct {
	File     string
	Line     int    // 1-based; 0 if the mistake has no line
	Override string // the override that contains the mistake; then Line is 0
	Key      string // path of the key; empty for the config as a whole
	Reason   string

	pos int // position as in Decoder.positions
}

func (e *KeyError) Error() string {
	var b strings.Builder
	switch {
	case e.Override != "":
		b.WriteString("--set " + e.Override)
	case e.Line > 0:
		fmt.Fprintf(&b, "%s:%d", e.File, e.Line)
	default:
		b.WriteString(e.File)
	}
	if e.Key != "" {
		b.WriteString(": " + message.Printable(e.Key))
	}
	b.WriteString(": " + e.Reason)
	return b.String()
}

// A Key declares one key of a mapping. Its value is read by Read, or is a mapping with Keys.
type Key struct {
	Name     string
	Doc      string // a sentence or two for the reference
	Unit     string // unit of a number; empty for none
	Initial  string // default as YAML, if Read does not know it
	Required bool
	Read     ValueParser
	Keys     []Key
	Single   bool   // the mapping has exactly one key that is not a Setting
	Setting  bool   // the key may be next to the one key of a Single mapping
	Seen     func() // called if the key is present, before its value is read
	None     func() // called for the value none in place of a connector; nil: none is not allowed
}

// A Decoder reads one config and collects its mistakes.
type Decoder struct {
	Name      string   // name of the text, for errors
	Overrides []string // "a.b=c": a path of keys and list indexes, and a value in YAML
	// Secrets are words of paths at which a secret may be by mistake. Secretive are words of overrides whose value is
	// not shown either.
	Secrets, Secretive []string

	Errs []*KeyError
	// positions holds the position of each key and list entry by its path: its line, or -1-i if Overrides[i] set it.
	positions map[string]int
	// outer are the keys of the mapping that contains the current one.
	outer []Key
}

// Fail records a mistake at path. Its position is the one of path, or of the nearest enclosing key in the config.
func (d *Decoder) Fail(path, format string, args ...any) {
	p := path
	pos, ok := d.positions[p]
	for !ok && p != "" {
		p = p[:max(strings.LastIndexByte(p, '.'), 0)]
		pos, ok = d.positions[p]
	}
	d.failAt(pos, path, format, args...)
}

func (d *Decoder) failAt(pos int, path, format string, args ...any) {
	e := &KeyError{File: d.Name, Key: message.Bound(path), Reason: message.Bound(fmt.Sprintf(format, args...)), pos: pos}
	if pos < 0 {
		e.Override = message.Printable(d.withoutSecret(d.Overrides[-1-pos]))
	} else {
		e.Line = pos
	}
	d.Errs = append(d.Errs, e)
}

// Has reports whether the config has the key.
func (d *Decoder) Has(path string) bool {
	_, ok := d.positions[path]
	return ok
}

// Refuse records a mistake at path if the config has the key.
func (d *Decoder) Refuse(path, format string, args ...any) {
	if d.Has(path) {
		d.Fail(path, format, args...)
	}
}

// Failed reports whether there is a mistake at exactly this path.
func (d *Decoder) Failed(path string) bool {
	return slices.ContainsFunc(d.Errs, func(e *KeyError) bool { return e.Key == path })
}

// maxErrors is the maximum number of reported mistakes. A text that is not a config at all may have many more.
const maxErrors = 50

// Err joins the mistakes by line, then the mistakes of overrides. It is nil if there are none.
func (d *Decoder) Err() error {
	slices.SortStableFunc(d.Errs, func(a, b *KeyError) int {
		order := func(pos int) uint {
			if pos < 0 {
				return math.MaxInt + uint(-pos)
			}
			return uint(pos)
		}
		return cmp.Compare(order(a.pos), order(b.pos))
	})
	var errs []error
	for i, e := range d.Errs {
		if i == maxErrors {
			errs = append(errs, fmt.Errorf("%s: and %d more mistakes", d.Name, len(d.Errs)-i))
			break
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// Read applies the overrides to text, and reads it by the declared keys. It returns false if the values could not be
// read, for example for a syntax error.
func (d *Decoder) Read(text []byte, keys []Key) bool {
	root := d.tree(text)
	if root == nil {
		return false
	}
	d.positions = map[string]int{"": root.Line}
	d.Mapping("", root, keys)
	return true
}

// tree parses text and applies the overrides. It returns nil after an error.
func (d *Decoder) tree(text []byte) *yaml.Node {
	root, err := parseYAML(text)
	if err != nil {
		d.failAt(err.line, "", "%s", err.reason)
		return nil
	}
	if root == nil {
		if len(d.Overrides) == 0 {
			d.failAt(0, "", "the config is empty")
			return nil
		}
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	for i := range d.Overrides {
		d.override(root, i)
	}
	if len(d.Errs) > 0 {
		// An override failed, so further mistakes in the tree may not be real.
		return nil
	}
	return root
}

// Mapping reads n by the declared keys.
func (d *Decoder) Mapping(path string, n *yaml.Node, keys []Key) {
	ok := d.Entries(path, n, func(p string, k, v *yaml.Node) {
		j := slices.IndexFunc(keys, func(x Key) bool { return x.Name == k.Value })
		if j < 0 {
			if slices.ContainsFunc(d.outer, func(x Key) bool { return x.Name == k.Value }) {
				d.Fail(p, "unknown key; %s belongs next to %s, not inside it", k.Value, path[strings.LastIndexByte(path, '.')+1:])
				return
			}
			d.Fail(p, "unknown key; %s", message.Suggest(k.Value, keyNames(keys)))
			return
		}
		decl := keys[j]
		if decl.Seen != nil {
			decl.Seen()
		}
		switch {
		case decl.Read.Read != nil:
			decl.Read.Read(d, p, v)
		case decl.None != nil && v.Kind == yaml.ScalarNode && v.Value == "none":
			decl.None()
		default:
			outer := d.outer
			d.outer = keys
			d.Mapping(p, v, decl.Keys)
			d.outer = outer
			if decl.Single && v.Kind == yaml.MappingNode {
				d.Single(p, v, decl.Keys)
			}
		}
	})
	if !ok {
		return
	}
	for _, k := range keys {
		if p := Join(path, k.Name); k.Required && !d.Has(p) {
			d.Fail(p, "missing; %s", k.need())
		}
	}
}

// Entries calls read for each key of the mapping n, with its path and value. It reports whether n is a mapping.
func (d *Decoder) Entries(path string, n *yaml.Node, read func(p string, k, v *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		d.WrongType(path, "a mapping", n)
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		pos := k.Line
		if v.Line < 0 {
			pos = v.Line
		}
		if k.Kind != yaml.ScalarNode {
			d.failAt(pos, path, "a key must be text, not %s", describe(k))
			continue
		}
		p := Join(path, KeyName(k.Value))
		if first, ok := d.positions[p]; ok {
			already := ""
			if first > 0 {
				already = fmt.Sprintf("; first used in line %d", first)
			}
			d.failAt(pos, p, "duplicate key%s", already)
			continue
		}
		d.positions[p] = pos
		read(p, k, v)
	}
	return true
}

// need describes what a missing key k requires.
func (k Key) need() string {
	if k.Single {
		return "one of " + strings.Join(Alternatives(k.Keys), ", ") + " is required"
	}
	return "it is required"
}

// Single checks that the mapping at path names one connector.
func (d *Decoder) Single(path string, n *yaml.Node, keys []Key) {
	var names []string
	last := d.positions[path]
	for i := 0; i < len(n.Content); i += 2 {
		if slices.ContainsFunc(keys, func(k Key) bool { return k.Setting && k.Name == n.Content[i].Value }) {
			continue
		}
		names = append(names, KeyName(n.Content[i].Value))
		last = n.Content[i].Line
	}
	switch len(names) {
	case 1:
	case 0:
		d.Fail(path, "names no connector; %s", Key{Single: true, Keys: keys}.need())
	default:
		hint := ""
		if last < 0 {
			hint = fmt.Sprintf("; to replace it as a whole: --set '%s={%s: {…}}'", path, names[len(names)-1])
		}
		d.failAt(last, path, "names %s; exactly one connector is allowed%s", strings.Join(names, " and "), hint)
	}
}

func keyNames(keys []Key) []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return names
}

// Alternatives returns the names of the keys that exclude each other: a mapping has exactly one.
func Alternatives(keys []Key) []string {
	return keyNames(slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.Setting }))
}

// Entry records the position of entry i of the list at path, and returns the path of the entry.
func (d *Decoder) Entry(path string, i int, n *yaml.Node) string {
	p := path + "." + strconv.Itoa(i)
	d.positions[p] = n.Line
	return p
}

// Join returns the path of the key name in the mapping at path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// WrongType records that the value of n is not of the wanted type.
func (d *Decoder) WrongType(path, want string, n *yaml.Node) {
	d.Fail(path, "must be %s, not %s", want, d.describeAt(path, n))
}

// describeAt describes the value of n as describe does. At paths of a login it does not show the value, which may be
// the secret itself.
func (d *Decoder) describeAt(path string, n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && !isNull(n) && hasWord(path, d.Secrets) {
		return "this value"
	}
	return describe(n)
}

// hasWord reports whether s, a path or an override, contains one of the words.
func hasWord(s string, words []string) bool {
	s = strings.ToLower(s)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
}

// withoutSecret returns an override for an error. It hides a value that may be a secret.
func (d *Decoder) withoutSecret(override string) string {
	if path, _, ok := strings.Cut(override, "="); ok && (hasWord(override, d.Secrets) || hasWord(override, d.Secretive)) {
		return path + "=…"
	}
	return override
}

// describe describes a value in an error.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return message.Printable(n.Value)
	case "!!int", "!!float":
		return "the number " + message.Printable(n.Value)
	}
	return "the text " + message.Quote(n.Value)
}

// KeyName returns a key as a part of a path.
func KeyName(s string) string {
	if s == "" || strings.Contains(s, ".") {
		return message.Quote(s)
	}
	return message.Printable(s)
}

// maxConfig is the maximum size of a config in bytes.
const maxConfig = 1 << 20

// A Description is the reference entry of one key. Path is from the root, with dots; [] is the entries of a list.
type Description struct {
	Path    string
	Takes   string // type and range of the value
	Default string // as YAML; empty if an absent key has no default
	Unit    string // empty if there is none
	Doc     string // meaning

	Required bool
}

// Describe returns the keys of a table and of the mappings in it, in the order of their declaration.
func Describe(keys []Key) []Description {
	var descriptions []Description
	var walk func(path string, keys []Key)
	walk = func(path string, keys []Key) {
		for _, k := range keys {
			p := Join(path, k.Name)
			takes := k.Read.Takes
			if k.Read.Read == nil {
				takes = "mapping"
				if k.Single {
					takes = "one of " + strings.Join(Alternatives(k.Keys), ", ")
					if k.None != nil {
						takes += ", or none"
					}
				}
			}
			descriptions = append(descriptions, Description{Path: p, Takes: takes, Default: cmp.Or(k.Initial, k.Read.Initial), Unit: k.Unit, Doc: k.Doc, Required: k.Required || k.Initial == Required})
			walk(p, k.Keys)
			walk(p+k.Read.within, k.Read.Keys)
		}
	}
	walk("", keys)
	return descriptions
}

// Required is the Initial of a required key whose absence a check reports in its own words.
const Required = "required"

// index matches the index of a list entry in a path, as in levels[0].alpha.
var index = regexp.MustCompile(`\[([0-9]+)\]`)

// PathNames splits the path of an override into keys and indexes. levels[0].alpha and levels.0.alpha are the same.
func PathNames(path string) []string { return strings.Split(index.ReplaceAllString(path, ".$1"), ".") }

// override applies Overrides[i], "a.b=c", to the tree. It adds an absent key with the mappings above it. An index
// must exist.
func (d *Decoder) override(root *yaml.Node, i int) {
	pos := -1 - i
	path, value, ok := strings.Cut(d.Overrides[i], "=")
	if !ok || path == "" {
		d.failAt(pos, "", `an override is key=value, for example top=0.9`)
		return
	}
	newValue, err := overrideValue(value)
	if err != nil {
		d.failAt(pos, path, "%s", err.reason)
		return
	}
	mark(newValue, pos)

	node, names := root, PathNames(path)
	for depth, name := range names {
		prefix := message.Printable(strings.Join(names[:depth], "."))
		last := depth == len(names)-1
		if name == "" {
			d.failAt(pos, path, "a name in the path is empty")
			return
		}
		if isNull(node) || depth > 0 && node.Tag == "!!bool" && node.Value == "true" {
			// The key has no value, as in "model:", or all defaults, as in "detect: true".
			*node = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: pos}
		}
		var child **yaml.Node
		switch node.Kind {
		case yaml.MappingNode:
			child = d.child(node, name, pos)
		case yaml.SequenceNode:
			k, err := strconv.Atoi(name)
			if err != nil {
				d.failAt(pos, path, "%s is a list, which takes an index, not %s", prefix, message.Quote(name))
				return
			}
			if k < 0 || k >= len(node.Content) {
				d.failAt(pos, path, "%s has %d entries, and indexes begin at 0", prefix, len(node.Content))
				return
			}
			child = &node.Content[k]
		default:
			if prefix == "" {
				prefix = "the config"
			}
			d.failAt(pos, path, "%s is %s, and has no keys", prefix, d.describeAt(strings.Join(names[:depth], "."), node))
			return
		}
		if last {
			*child = newValue
			break
		}
		if *child == nil {
			if _, err := strconv.Atoi(names[depth+1]); err == nil {
				d.failAt(pos, path, "the config has no list %s; set it as a whole", message.Printable(strings.Join(names[:depth+1], ".")))
				return
			}
			*child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: pos}
		}
		node = *child
	}
}

// child returns a pointer to the value of a key, which it adds if it is absent.
func (d *Decoder) child(n *yaml.Node, name string, pos int) **yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return &n.Content[i+1]
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: pos}, nil)
	return &n.Content[len(n.Content)-1]
}

// overrideValue parses the right side of an override. A value that is not YAML, and does not look like a list, a
// mapping or a quoted text, is plain text. So "-", "*.csv" and "," need no quotes.
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

// mark sets the position of an override's value.
func mark(n *yaml.Node, pos int) {
	n.Line = pos
	for _, c := range n.Content {
		mark(c, pos)
	}
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}
