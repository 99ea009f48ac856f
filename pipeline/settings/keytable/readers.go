package keytable

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/domain"
	"hafvf/internal/inputfile"
	"hafvf/internal/message"
)

// A ValueParser checks and stores a value. It also describes the value for the reference.
type ValueParser struct {
	Takes   string // the type, in the words of a user
	Initial string // value of an absent key as YAML; empty: none
	// Keys are the keys of the mappings that the value may be or contain. within is their place: "" for the value
	// itself, "[]" for the entries of a list.
	Keys   []Key
	within string
	Read   func(d *Decoder, path string, n *yaml.Node)
}

// Later stores the node of a value that must be read after the others.
func Later(takes string, dst **yaml.Node) ValueParser {
	return ValueParser{Takes: takes, Read: func(_ *Decoder, _ string, n *yaml.Node) { *dst = n }}
}

// Choice reads one of the names.
func Choice(dst *string, names ...string) ValueParser {
	r := Parsed(strings.Join(names, ", "), func(s string) error {
		if !slices.Contains(names, s) {
			return fmt.Errorf("unknown value %s; %s", message.Quote(s), message.Suggest(s, names))
		}
		*dst = s
		return nil
	})
	r.Initial = *dst
	return r
}

// Text stores the text of n in dst. It returns false after recording a mistake.
func (d *Decoder) Text(path string, n *yaml.Node, dst *string) bool {
	// A text that YAML 1.1 reads as a date is accepted, because it may be the name of a file.
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			hint = "; put it in quotes"
		}
		d.Fail(path, "must be text, not %s%s", d.describeAt(path, n), hint)
		return false
	}
	if strings.ContainsRune(n.Value, 0) {
		d.Fail(path, "contains a NUL character, which names and files cannot have")
		return false
	}
	*dst = n.Value
	return true
}

const (
	NotEmpty   = false
	MayBeEmpty = true
)

// Text reads a text. empty is NotEmpty or MayBeEmpty.
func Text(dst *string, empty bool) ValueParser {
	initial := ""
	if *dst != "" {
		initial = strconv.Quote(*dst)
	}
	return ValueParser{Takes: "text", Initial: initial, Read: func(d *Decoder, path string, n *yaml.Node) {
		if d.Text(path, n, dst) && *dst == "" && !empty {
			d.Fail(path, "must not be empty")
		}
	}}
}

// Parsed reads a text, which parse stores or refuses.
func Parsed(takes string, parse func(text string) error) ValueParser {
	var text string
	r := Text(&text, MayBeEmpty).WithCheck(func() error { return parse(text) })
	r.Takes = takes
	return r
}

// File reads the path of a file. limit is as for inputfile.Read, or inputfile.AnySize for inputfile.Open. A file that
// these would reject is a mistake of the config; a missing file is not.
func File(dst *string, limit int) ValueParser {
	return Text(dst, NotEmpty).WithCheck(func() error { return inputfile.Check(*dst, limit) })
}

// Number reads a number in a domain.
func Number(dst *float64, within domain.Domain) ValueParser {
	initial := ""
	if within.Contains(*dst) {
		initial = strconv.FormatFloat(*dst, 'g', -1, 64)
	}
	return ValueParser{Takes: "number " + within.Name, Initial: initial, Read: func(d *Decoder, path string, n *yaml.Node) {
		d.Number(path, n, within, dst)
	}}
}

// Number stores the number of n in dst, or records a mistake.
func (d *Decoder) Number(path string, n *yaml.Node, within domain.Domain, dst *float64) {
	switch v, ok := NumberOf(n); {
	case !ok:
		d.WrongType(path, "a number", n)
	case math.IsInf(v, 0) || math.IsNaN(v):
		d.Fail(path, "must be finite, not %s", n.Value)
	case !within.Contains(v):
		d.Fail(path, "must be %s, not %s", within.Name, n.Value)
	default:
		*dst = v
	}
}

// NumberOf returns the number of n. ok is false if n is not a number.
func NumberOf(n *yaml.Node) (v float64, ok bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" && n.ShortTag() != "!!float" {
		return 0, false
	}
	return v, n.Decode(&v) == nil
}

// Whole reads a whole number of at least minValue.
func Whole(dst *int, minValue int) ValueParser {
	initial := ""
	if *dst >= minValue {
		initial = strconv.Itoa(*dst)
	}
	return ValueParser{Takes: fmt.Sprintf("whole number, at least %d", minValue), Initial: initial, Read: func(d *Decoder, path string, n *yaml.Node) {
		d.Whole(path, n, minValue, dst)
	}}
}

// Whole stores the whole number of n in dst. It returns false after recording a mistake.
func (d *Decoder) Whole(path string, n *yaml.Node, minValue int, dst *int) bool {
	var v int
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil {
		d.WrongType(path, "a whole number", n)
		return false
	}
	if v < minValue {
		d.Fail(path, "must be at least %d, not %d", minValue, v)
		return false
	}
	*dst = v
	return true
}

// Boolean reads true or false.
func Boolean(dst *bool) ValueParser {
	return ValueParser{Takes: "true or false", Initial: strconv.FormatBool(*dst), Read: func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(dst) != nil {
			d.WrongType(path, "true or false", n)
		}
	}}
}

// Duration reads a duration of at least 0.
func Duration(dst *time.Duration) ValueParser {
	return ValueParser{Takes: "duration, such as 30m", Initial: message.Duration(*dst), Read: func(d *Decoder, path string, n *yaml.Node) {
		v, err := DurationOf(n)
		switch {
		case err == errFraction:
			d.Fail(path, "must be of whole milliseconds, not %s", n.Value)
		case err != nil:
			d.WrongType(path, "a duration such as 30m or 0s", n)
		case v < 0:
			d.Fail(path, "must not be negative, not %s", n.Value)
		default:
			*dst = v
		}
	}}
}

// DurationOf reads a duration of whole milliseconds, which is the resolution of windows and timers.
func DurationOf(n *yaml.Node) (time.Duration, error) {
	if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!int" {
		return 0, errors.New("no duration")
	}
	v, err := time.ParseDuration(n.Value)
	if err == nil && v%time.Millisecond != 0 {
		err = errFraction
	}
	return v, err
}

var errFraction = errors.New("it has a fraction of a millisecond")

// WithCheck returns a parser that also calls check after a value was read without a mistake.
func (r ValueParser) WithCheck(check func() error) ValueParser {
	read := r.Read
	r.Read = func(d *Decoder, path string, n *yaml.Node) {
		before := len(d.Errs)
		read(d, path, n)
		if len(d.Errs) > before {
			return
		}
		if err := check(); err != nil {
			d.Fail(path, "%v", err)
		}
	}
	return r
}

// Sets returns a parser that also calls set after a value was read without a mistake.
func (r ValueParser) Sets(set func()) ValueParser {
	return r.WithCheck(func() error {
		set()
		return nil
	})
}

// Milliseconds reads a duration above 0 in whole milliseconds, the resolution of Beam's windows.
func Milliseconds(dst *time.Duration) ValueParser {
	r := Duration(dst).WithCheck(func() error { return domain.CheckGap(*dst) })
	r.Takes = "duration above 0, in milliseconds"
	if *dst == 0 {
		r.Initial = ""
	}
	return r
}

// ListOf reads a list into dst. entry returns the parser of an entry.
func ListOf[T any](what string, dst *[]T, entry func(*T) ValueParser) ValueParser {
	return ValueParser{Takes: "list of " + what, Read: func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.WrongType(path, "a list of "+what, n)
			return
		}
		*dst = make([]T, len(n.Content))
		for i, e := range n.Content {
			entry(&(*dst)[i]).Read(d, d.Entry(path, i, e), e)
		}
	}}
}

// Texts reads a list of at least one name.
func Texts(what string, dst *[]string) ValueParser {
	return SomeTexts(what, dst).WithCheck(func() error {
		if len(*dst) == 0 {
			return fmt.Errorf("must name at least one of the %s", what)
		}
		return nil
	})
}

// SomeTexts reads a list of names, which may be empty.
func SomeTexts(what string, dst *[]string) ValueParser {
	r := ListOf(what, dst, func(s *string) ValueParser { return Text(s, NotEmpty) })
	if len(*dst) > 0 {
		r.Initial = "[" + strings.Join(*dst, ", ") + "]"
	}
	return r
}

// OneOrMore reads a name or a list of names.
func OneOrMore(what string, dst *[]string) ValueParser {
	r := Texts(what, dst)
	several := r.Read
	r.Takes = "name or list of names"
	r.Read = func(d *Decoder, path string, n *yaml.Node) {
		var name string
		switch {
		case n.Kind != yaml.ScalarNode:
			several(d, path, n)
		case !d.Text(path, n, &name):
		case name == "":
			d.Fail(path, "must name at least one of the %s", what)
		default:
			*dst = []string{name}
		}
	}
	return r
}

// Checked reads a text that check accepts. After an error dst is unchanged.
func Checked(dst *string, takes string, check func(string) error) ValueParser {
	previous := *dst
	r := Text(dst, NotEmpty).WithCheck(func() error {
		err := check(*dst)
		if err != nil {
			*dst = previous
		}
		return err
	})
	r.Takes = takes
	return r
}

// List reads a list of mappings into dst. keys returns the keys of an entry.
func List[T any](what string, dst *[]T, keys func(*T) []Key) ValueParser {
	r := ListOf(what, dst, func(v *T) ValueParser {
		return ValueParser{Read: func(d *Decoder, path string, n *yaml.Node) { d.Mapping(path, n, keys(v)) }}
	})
	r.Keys, r.within = keys(new(T)), "[]"
	return r
}

// DurationOr reads a duration above 0, or a word that means 0.
func DurationOr(word string, dst *time.Duration) ValueParser {
	r := Milliseconds(dst)
	read := r.Read
	r.Takes += ", or " + word
	r.Read = func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Value == word {
			*dst = 0
			return
		}
		read(d, path, n)
	}
	return r
}

// UpTo reads a whole number from 0 to maxValue.
func UpTo(dst *int, maxValue int) ValueParser {
	return ValueParser{Takes: fmt.Sprintf("whole number from 0 to %d", maxValue), Initial: strconv.Itoa(*dst), Read: func(d *Decoder, path string, n *yaml.Node) {
		v := *dst
		switch {
		case !d.Whole(path, n, 0, &v):
		case v > maxValue:
			d.Fail(path, "must be at most %d, not %d", maxValue, v)
		default:
			*dst = v
		}
	}}
}

// Choices reads a list of some of the names, which may be empty.
func Choices(dst *[]string, names ...string) ValueParser {
	r := ListOf(strings.Join(names, ", "), dst, func(s *string) ValueParser { return Choice(s, names...) })
	r.Initial = "[" + strings.Join(*dst, ", ") + "]"
	return r
}

// MaxEntries limits the number of entries of a list or a mapping.
func MaxEntries(maxEntries int, what string, r ValueParser) ValueParser {
	read := r.Read
	r.Read = func(d *Decoder, path string, n *yaml.Node) {
		entries := len(n.Content)
		if n.Kind == yaml.MappingNode {
			entries /= 2
		}
		if entries > maxEntries {
			d.Fail(path, "has %d %s; at most %d are allowed", entries, what, maxEntries)
			return
		}
		read(d, path, n)
	}
	return r
}

// Zone reads the name of a time zone.
func Zone(dst *string) ValueParser {
	return Checked(dst, "IANA name of a time zone, such as Europe/Berlin", func(s string) error {
		_, err := domain.Zone(s)
		return err
	})
}

// OrSwitch reads true, false, or a mapping with the keys of a T. fresh returns a T with its defaults.
func OrSwitch[T any](dst **T, mapping string, fresh func() *T, keys func(*T) []Key) ValueParser {
	takes := "true, false, or " + mapping
	return ValueParser{Takes: takes, Keys: keys(fresh()), Read: func(d *Decoder, path string, n *yaml.Node) {
		v, enabled := fresh(), false
		switch {
		case n.Kind == yaml.MappingNode:
			*dst = v
			d.Mapping(path, n, keys(v))
		case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&enabled) != nil:
			d.WrongType(path, takes, n)
		case enabled:
			*dst = v
		}
	}}
}
