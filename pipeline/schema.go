package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"hafvf/connectors"
)

// A KeyError is one mistake in a config.
type KeyError struct {
	File     string
	Line     int    // 1-based; 0 where the mistake has no line
	Override string // the override that brought the mistake in, in place of a line
	Key      string // path of the key; empty for the config as a whole
	Reason   string

	pos int // as in decoder.at
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
		b.WriteString(": " + e.Key)
	}
	b.WriteString(": " + e.Reason)
	return b.String()
}

// A Key describes one key of the config.
type Key struct {
	Path string // from the root, with dots
	Doc  string
}

// Keys returns the keys that a config may use, in the order of their
// declaration.
func Keys() []Key {
	var all []Key
	var walk func(path string, keys []key)
	walk = func(path string, keys []key) {
		for _, k := range keys {
			p := join(path, k.name)
			all = append(all, Key{Path: p, Doc: k.doc})
			walk(p, k.keys)
		}
	}
	walk("", new(Config).keys(&priorNodes{}))
	return all
}

// A key declares one key of a mapping: either a value with its reader, or a
// mapping with its keys.
type key struct {
	name, doc string
	required  bool
	read      reader
	keys      []key
	single    bool   // the mapping holds exactly one key
	seen      func() // called when the key is there, before its keys are read
}

// A reader checks the value at path and stores it.
type reader func(d *decoder, path string, n *yaml.Node)

// A decoder reads one config and collects its mistakes.
type decoder struct {
	name string
	set  []string
	// at holds the position of every key and list entry by its path: a line, or
	// -1-i for what set[i] brought in.
	at   map[string]int
	errs []*KeyError
}

// fail records a mistake at path, or at the nearest enclosing key that the
// config holds.
func (d *decoder) fail(path, format string, args ...any) {
	p := path
	pos, ok := d.at[p]
	for !ok && p != "" {
		p = p[:max(strings.LastIndexByte(p, '.'), 0)]
		pos, ok = d.at[p]
	}
	d.failAt(pos, path, format, args...)
}

func (d *decoder) failAt(pos int, path, format string, args ...any) {
	e := &KeyError{File: d.name, Key: path, Reason: fmt.Sprintf(format, args...), pos: pos}
	if pos < 0 {
		e.Override = printable(withoutSecret(d.set[-1-pos]))
	} else {
		e.Line = pos
	}
	d.errs = append(d.errs, e)
}

// has reports whether the config holds the key.
func (d *decoder) has(path string) bool {
	_, ok := d.at[path]
	return ok
}

// failed reports whether there is a mistake at exactly this path.
func (d *decoder) failed(path string) bool {
	return slices.ContainsFunc(d.errs, func(e *KeyError) bool { return e.Key == path })
}

// maxErrors bounds what is reported of a config that is something else
// altogether.
const maxErrors = 50

// join returns the mistakes by line, those of overrides last.
func (d *decoder) join() error {
	slices.SortStableFunc(d.errs, func(a, b *KeyError) int {
		order := func(pos int) uint {
			if pos < 0 {
				return math.MaxInt + uint(-pos)
			}
			return uint(pos)
		}
		return cmp.Compare(order(a.pos), order(b.pos))
	})
	var all []error
	for i, e := range d.errs {
		if i == maxErrors {
			all = append(all, fmt.Errorf("%s: and %d more mistakes", d.name, len(d.errs)-i))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// tree parses text and applies the overrides. It returns nil where there is
// nothing to check.
func (d *decoder) tree(text []byte) *yaml.Node {
	root, err := parseYAML(text)
	if err != nil {
		d.failAt(err.line, "", "%s", err.reason)
		return nil
	}
	if root == nil {
		if len(d.set) == 0 {
			d.failAt(0, "", "the config is empty")
			return nil
		}
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	ok := true
	for i := range d.set {
		ok = d.override(root, i) && ok
	}
	if !ok {
		// The tree is not what the overrides were to make of it: its other
		// mistakes may be none.
		return nil
	}
	return root
}

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

// mapping reads n by the declaration of its keys.
func (d *decoder) mapping(path string, n *yaml.Node, keys []key) {
	ok := d.entries(path, n, func(p string, k, v *yaml.Node) {
		j := slices.IndexFunc(keys, func(x key) bool { return x.name == k.Value })
		switch {
		case j < 0:
			d.fail(p, "unknown key; %s", suggest(k.Value, keyNames(keys)))
		default:
			if keys[j].seen != nil {
				keys[j].seen()
			}
			if keys[j].read != nil {
				keys[j].read(d, p, v)
				return
			}
			d.mapping(p, v, keys[j].keys)
			if keys[j].single && v.Kind == yaml.MappingNode {
				d.single(p, v, keys[j].keys)
			}
		}
	})
	if !ok {
		return
	}
	for _, k := range keys {
		if p := join(path, k.name); k.required && !d.has(p) {
			d.fail(p, "missing; %s", k.need())
		}
	}
}

// entries calls read for each key of the mapping n, with its path and value. It
// reports whether n is one.
func (d *decoder) entries(path string, n *yaml.Node, read func(p string, k, v *yaml.Node)) bool {
	if n.Kind != yaml.MappingNode {
		d.wrongType(path, "a mapping", n)
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
		p := join(path, keyName(k.Value))
		if first, ok := d.at[p]; ok {
			already := ""
			if first > 0 {
				already = fmt.Sprintf("; it stands in line %d already", first)
			}
			d.failAt(pos, p, "duplicate key%s", already)
			continue
		}
		d.at[p] = pos
		if k.ShortTag() == "!!merge" {
			d.fail(p, "merge keys are not supported")
			continue
		}
		read(p, k, v)
	}
	return true
}

// need says what a config must hold where the key k is missing.
func (k key) need() string {
	if k.single {
		return "one of " + strings.Join(keyNames(k.keys), ", ") + " is required"
	}
	return "it is required"
}

// single checks that the mapping at path names one connector.
func (d *decoder) single(path string, n *yaml.Node, keys []key) {
	switch len(n.Content) / 2 {
	case 1:
	case 0:
		d.fail(path, "names no connector; %s", key{single: true, keys: keys}.need())
	default:
		var names []string
		last := d.at[path]
		for i := 0; i < len(n.Content); i += 2 {
			names = append(names, keyName(n.Content[i].Value))
			last = n.Content[i].Line
		}
		hint := ""
		if last < 0 {
			hint = fmt.Sprintf("; to replace it as a whole: --set '%s={%s: {…}}'", path, names[len(names)-1])
		}
		d.failAt(last, path, "names %s; exactly one connector is allowed%s", strings.Join(names, " and "), hint)
	}
}

func keyNames(keys []key) []string {
	var names []string
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

// entry notes the position of entry i of the list at path, and returns its path.
func (d *decoder) entry(path string, i int, n *yaml.Node) string {
	p := path + "." + strconv.Itoa(i)
	d.at[p] = n.Line
	return p
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func later(dst **yaml.Node) reader {
	return func(_ *decoder, _ string, n *yaml.Node) { *dst = n }
}

func choice(dst *string, names ...string) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		var s string
		switch {
		case !d.text(path, n, &s):
		case !slices.Contains(names, s):
			d.fail(path, "unknown value %s; %s", quote(s), suggest(s, names))
		default:
			*dst = s
		}
	}
}

func (d *decoder) text(path string, n *yaml.Node, dst *string) bool {
	// What YAML 1.1 takes for a date is text here: a file may be named so.
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			hint = "; put it in quotes"
		}
		d.fail(path, "must be text, not %s%s", describeAt(path, n), hint)
		return false
	}
	*dst = n.Value
	return true
}

const (
	notEmpty   = false
	mayBeEmpty = true
)

func text(dst *string, empty bool) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		if d.text(path, n, dst) && *dst == "" && !empty {
			d.fail(path, "must not be empty")
		}
	}
}

// A bound returns what is wrong with a number, or "".
type bound func(v float64) string

func unitInterval(v float64) string {
	if v < 0 || v > 1 {
		return "must be in [0, 1]"
	}
	return ""
}

func positive(v float64) string {
	if v <= 0 {
		return "must be greater than 0"
	}
	return ""
}

func aboveZeroToOne(v float64) string {
	if v <= 0 || v > 1 {
		return "must be in (0, 1]"
	}
	return ""
}

func between0And1(v float64) string {
	if v <= 0 || v >= 1 {
		return "must be in (0, 1)"
	}
	return ""
}

func notNegative(v float64) string {
	if v < 0 {
		return "must not be negative"
	}
	return ""
}

func anyNumber(float64) string { return "" }

func number(dst *float64, within bound) reader {
	return func(d *decoder, path string, n *yaml.Node) { d.number(path, n, within, dst) }
}

func (d *decoder) number(path string, n *yaml.Node, within bound, dst *float64) bool {
	v, ok := numberOf(n)
	if !ok {
		d.wrongType(path, "a number", n)
		return false
	}
	reason := within(v)
	if math.IsInf(v, 0) || math.IsNaN(v) {
		reason = "must be finite"
	}
	if reason != "" {
		d.fail(path, "%s, not %s", reason, n.Value)
		return false
	}
	*dst = v
	return true
}

func numberOf(n *yaml.Node) (v float64, ok bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		return 0, false
	}
	return v, n.Decode(&v) == nil
}

func whole(dst *int, least int) reader {
	return func(d *decoder, path string, n *yaml.Node) { d.whole(path, n, least, dst) }
}

func (d *decoder) whole(path string, n *yaml.Node, least int, dst *int) bool {
	var v int
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		d.wrongType(path, "a whole number", n)
		return false
	}
	if v < least {
		d.fail(path, "must be at least %d, not %d", least, v)
		return false
	}
	*dst = v
	return true
}

func duration(dst *time.Duration) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		var v time.Duration
		err := errors.New("no duration")
		if tag := n.ShortTag(); n.Kind == yaml.ScalarNode && (tag == "!!str" || tag == "!!int") {
			v, err = time.ParseDuration(n.Value)
		}
		switch {
		case err != nil:
			d.wrongType(path, "a duration such as 30m or 0s", n)
		case v < 0:
			d.fail(path, "must not be negative, not %s", n.Value)
		default:
			*dst = v
		}
	}
}

func (d *decoder) wrongType(path, want string, n *yaml.Node) {
	d.fail(path, "must be %s, not %s", want, describeAt(path, n))
}

// describeAt is describe, without what stands where a login does: that may be the
// secret itself.
func describeAt(path string, n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && !isNull(n) && secretive(path) {
		return "what stands there"
	}
	return describe(n)
}

// secretive reports whether a secret may stand in s by mistake: a path of the
// config, or an override.
func secretive(s string) bool {
	s = strings.ToLower(s)
	return strings.Contains(s, "sasl") || strings.Contains(s, "passw")
}

// withoutSecret is an override as errors repeat it. Of Kafka's keys the value is never
// shown: a key that is misspelt is not known to be that of a login.
func withoutSecret(override string) string {
	if path, _, ok := strings.Cut(override, "="); ok && (secretive(override) || strings.Contains(strings.ToLower(override), "kafka")) {
		return path + "=…"
	}
	return override
}

// describe names a value in an error.
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
		return printable(n.Value)
	case "!!int", "!!float":
		return "the number " + printable(n.Value)
	}
	return "the text " + quote(n.Value)
}

// longest is how much of a user's text an error repeats, in runes.
const longest = 80

func shorten(s string) string {
	for i := range s {
		if i >= longest {
			return s[:i] + "…"
		}
	}
	return s
}

func quote(s string) string { return strconv.Quote(shorten(s)) }

// printable returns s as it stands, shortened, where that can be read in one
// line, and quoted elsewhere.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return quote(s)
	}
	return shorten(s)
}

// keyName returns a key as a part of a path.
func keyName(s string) string {
	if s == "" || strings.Contains(s, ".") {
		return quote(s)
	}
	return printable(s)
}

// suggest names the known name that is nearest to name, for its length, or all
// of them where none is near.
func suggest(name string, known []string) string {
	best, least := "", 0.5
	for _, k := range known {
		if d := float64(connectors.Edits(name, k)) / float64(max(len(name), len(k))); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	if best == "" {
		return "known here: " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("did you mean %q?", best)
}
