package config

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
	"hafvf/internal/message"
)

// A valueParser checks a value and stores it, and says for the reference what it takes.
type valueParser struct {
	takes   string // the type, as a user would say it
	initial string // the value of an absent key as YAML; empty: none
	// keys are those of the mappings that the value may be or hold, at the value's
	// path and within: "", or "[]" for the entries of a list.
	keys   []key
	within string
	read   func(d *Decoder, path string, n *yaml.Node)
}

// later keeps the node of a value that cannot be read before the others.
func later(takes string, dst **yaml.Node) valueParser {
	return valueParser{takes: takes, read: func(_ *Decoder, _ string, n *yaml.Node) { *dst = n }}
}

func choice(dst *string, names ...string) valueParser {
	return valueParser{takes: strings.Join(names, ", "), initial: *dst, read: func(d *Decoder, path string, n *yaml.Node) {
		var s string
		switch {
		case !d.text(path, n, &s):
		case !slices.Contains(names, s):
			d.fail(path, "unknown value %s; %s", message.Quote(s), message.Suggest(s, names))
		default:
			*dst = s
		}
	}}
}

func (d *Decoder) text(path string, n *yaml.Node, dst *string) bool {
	// What YAML 1.1 takes for a date is text here: a file may be named so.
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
		hint := ""
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			hint = "; put it in quotes"
		}
		d.fail(path, "must be text, not %s%s", d.describeAt(path, n), hint)
		return false
	}
	if strings.ContainsRune(n.Value, 0) {
		d.fail(path, "holds a NUL, which no name and no file has")
		return false
	}
	*dst = n.Value
	return true
}

const (
	notEmpty   = false
	mayBeEmpty = true
)

func text(dst *string, empty bool) valueParser {
	initial := ""
	if *dst != "" {
		initial = strconv.Quote(*dst)
	}
	return valueParser{takes: "text", initial: initial, read: func(d *Decoder, path string, n *yaml.Node) {
		if d.text(path, n, dst) && *dst == "" && !empty {
			d.fail(path, "must not be empty")
		}
	}}
}

func number(dst *float64, within domain.Domain) valueParser {
	initial := ""
	if within.Contains(*dst) {
		initial = strconv.FormatFloat(*dst, 'g', -1, 64)
	}
	return valueParser{takes: "number " + within.Name, initial: initial, read: func(d *Decoder, path string, n *yaml.Node) {
		d.number(path, n, within, dst)
	}}
}

func (d *Decoder) number(path string, n *yaml.Node, within domain.Domain, dst *float64) bool {
	v, ok := numberOf(n)
	switch {
	case !ok:
		d.wrongType(path, "a number", n)
		return false
	case math.IsInf(v, 0) || math.IsNaN(v):
		d.fail(path, "must be finite, not %s", n.Value)
		return false
	case !within.Contains(v):
		d.fail(path, "must be %s, not %s", within.Name, n.Value)
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

func whole(dst *int, least int) valueParser {
	initial := ""
	if *dst >= least {
		initial = strconv.Itoa(*dst)
	}
	return valueParser{takes: fmt.Sprintf("whole number, at least %d", least), initial: initial, read: func(d *Decoder, path string, n *yaml.Node) {
		d.whole(path, n, least, dst)
	}}
}

func (d *Decoder) whole(path string, n *yaml.Node, least int, dst *int) bool {
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

func boolean(dst *bool) valueParser {
	return valueParser{takes: "true or false", initial: strconv.FormatBool(*dst), read: func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(dst) != nil {
			d.wrongType(path, "true or false", n)
		}
	}}
}

func duration(dst *time.Duration) valueParser {
	return valueParser{takes: "duration, such as 30m", initial: message.Duration(*dst), read: func(d *Decoder, path string, n *yaml.Node) {
		v, err := durationOf(n)
		switch {
		case err == errFraction:
			d.fail(path, "must be of whole milliseconds, not %s", n.Value)
		case err != nil:
			d.wrongType(path, "a duration such as 30m or 0s", n)
		case v < 0:
			d.fail(path, "must not be negative, not %s", n.Value)
		default:
			*dst = v
		}
	}}
}

// durationOf reads a duration of whole milliseconds, the resolution of windows and timers.
func durationOf(n *yaml.Node) (time.Duration, error) {
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

// then has a value checked that was read without a mistake.
func (r valueParser) then(check func() error) valueParser {
	read := r.read
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		before := len(d.Errs)
		read(d, path, n)
		if len(d.Errs) > before {
			return
		}
		if err := check(); err != nil {
			d.fail(path, "%v", err)
		}
	}
	return r
}

// milliseconds reads a duration in the resolution of Beam's windows, above zero.
func milliseconds(dst *time.Duration) valueParser {
	r := duration(dst).then(func() error { return domain.CheckGap(*dst) })
	r.takes = "duration above 0, in milliseconds"
	if *dst == 0 {
		r.initial = ""
	}
	return r
}

// listOf reads a list into dst, each entry by a reader of its own.
func listOf[T any](what string, dst *[]T, one func(*T) valueParser) valueParser {
	return valueParser{takes: "list of " + what, read: func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.wrongType(path, "a list of "+what, n)
			return
		}
		*dst = make([]T, len(n.Content))
		for i, e := range n.Content {
			one(&(*dst)[i]).read(d, d.entry(path, i, e), e)
		}
	}}
}

// texts reads a list of names; at least one.
func texts(what string, dst *[]string) valueParser {
	return someTexts(what, dst).then(func() error {
		if len(*dst) == 0 {
			return fmt.Errorf("must name at least one of the %s", what)
		}
		return nil
	})
}

// someTexts reads a list of names, which may be empty.
func someTexts(what string, dst *[]string) valueParser {
	r := listOf(what, dst, func(s *string) valueParser { return text(s, notEmpty) })
	if len(*dst) > 0 {
		r.initial = "[" + strings.Join(*dst, ", ") + "]"
	}
	return r
}

// oneOrMore reads a name or a list of names.
func oneOrMore(what string, dst *[]string) valueParser {
	r := texts(what, dst)
	several := r.read
	r.takes = "name or list of names"
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		var name string
		switch {
		case n.Kind != yaml.ScalarNode:
			several(d, path, n)
		case !d.text(path, n, &name):
		case name == "":
			d.fail(path, "must name at least one of the %s", what)
		default:
			*dst = []string{name}
		}
	}
	return r
}

// checked reads a text of which why says why it is none of those that it takes.
func checked(dst *string, takes string, why func(string) error) valueParser {
	was := *dst
	r := text(dst, notEmpty).then(func() error {
		err := why(*dst)
		if err != nil {
			*dst = was
		}
		return err
	})
	r.takes = takes
	return r
}

// list reads a list of mappings into dst, each entry by its keys.
func list[T any](of string, dst *[]T, keys func(*T) []key) valueParser {
	r := listOf(of, dst, func(v *T) valueParser {
		return valueParser{read: func(d *Decoder, path string, n *yaml.Node) { d.mapping(path, n, keys(v)) }}
	})
	r.keys, r.within = keys(new(T)), "[]"
	return r
}

// durationOr reads a duration above 0, or the word, which is 0.
func durationOr(word string, dst *time.Duration) valueParser {
	r := milliseconds(dst)
	read := r.read
	if *dst <= 0 {
		r.initial = ""
	}
	r.takes += ", or " + word
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Value == word {
			*dst = 0
			return
		}
		read(d, path, n)
	}
	return r
}

// upTo reads a whole number from 0 to most.
func upTo(dst *int, most int) valueParser {
	return valueParser{takes: fmt.Sprintf("whole number from 0 to %d", most), initial: strconv.Itoa(*dst), read: func(d *Decoder, path string, n *yaml.Node) {
		v := *dst
		switch {
		case !d.whole(path, n, 0, &v):
		case v > most:
			d.fail(path, "must be at most %d, not %d", most, v)
		default:
			*dst = v
		}
	}}
}

// choices reads a list of some of the names, which may be empty.
func choices(dst *[]string, names ...string) valueParser {
	r := listOf(strings.Join(names, ", "), dst, func(s *string) valueParser { return choice(s, names...) })
	r.initial = "[" + strings.Join(*dst, ", ") + "]"
	return r
}

// atMost bounds the entries of a list or a mapping.
func atMost(most int, what string, r valueParser) valueParser {
	read := r.read
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		entries := len(n.Content)
		if n.Kind == yaml.MappingNode {
			entries /= 2
		}
		if entries > most {
			d.fail(path, "has %d %s; at most %d are allowed", entries, what, most)
			return
		}
		read(d, path, n)
	}
	return r
}

// zone reads the name of a time zone.
func zone(dst *string) valueParser {
	return checked(dst, "IANA name of a time zone, such as Europe/Berlin", func(s string) error {
		_, err := domain.Zone(s)
		return err
	})
}

// orSwitch reads true, false, or a mapping with the keys of a T, which is fresh before.
func orSwitch[T any](dst **T, mapping string, fresh func() *T, keys func(*T) []key) valueParser {
	takes := "true, false, or " + mapping
	return valueParser{takes: takes, keys: keys(fresh()), read: func(d *Decoder, path string, n *yaml.Node) {
		v := fresh()
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
			var on bool
			if n.Decode(&on) == nil && on {
				*dst = v
			}
			return
		}
		if n.Kind != yaml.MappingNode {
			d.wrongType(path, takes, n)
			return
		}
		*dst = v
		d.mapping(path, n, keys(v))
	}}
}
