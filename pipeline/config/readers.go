package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/times"
)

// A valueParser checks a value and stores it, and says for the reference what it takes.
type valueParser struct {
	takes   string // the type, as a user would say it
	initial string // the value of an absent key as YAML; empty: none
	// keys are those of the mappings that the value may be or hold, at the value's
	// path and within: "", or "[]" for the entries of a list.
	keys   []key
	within string
	read   func(d *decoder, path string, n *yaml.Node)
}

// later keeps the node of a value that cannot be read before the others.
func later(takes string, dst **yaml.Node) valueParser {
	return valueParser{takes: takes, read: func(_ *decoder, _ string, n *yaml.Node) { *dst = n }}
}

func choice(dst *string, names ...string) valueParser {
	return valueParser{takes: strings.Join(names, ", "), initial: *dst, read: func(d *decoder, path string, n *yaml.Node) {
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
	return valueParser{takes: "text", initial: initial, read: func(d *decoder, path string, n *yaml.Node) {
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
	return valueParser{takes: "number " + within.Name, initial: initial, read: func(d *decoder, path string, n *yaml.Node) {
		d.number(path, n, within, dst)
	}}
}

func (d *decoder) number(path string, n *yaml.Node, within domain.Domain, dst *float64) bool {
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
	return valueParser{takes: fmt.Sprintf("whole number, at least %d", least), initial: initial, read: func(d *decoder, path string, n *yaml.Node) {
		d.whole(path, n, least, dst)
	}}
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

func boolean(dst *bool) valueParser {
	return valueParser{takes: "true or false", initial: strconv.FormatBool(*dst), read: func(d *decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(dst) != nil {
			d.wrongType(path, "true or false", n)
		}
	}}
}

func duration(dst *time.Duration) valueParser {
	return valueParser{takes: "duration, such as 30m", initial: message.Duration(*dst), read: func(d *decoder, path string, n *yaml.Node) {
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
	r.read = func(d *decoder, path string, n *yaml.Node) {
		before := len(d.errs)
		read(d, path, n)
		if len(d.errs) > before {
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
	return valueParser{takes: "list of " + what, read: func(d *decoder, path string, n *yaml.Node) {
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

func delimiter(dst *rune) valueParser {
	return valueParser{takes: "one character", initial: strconv.Quote(string(*dst)), read: func(d *decoder, path string, n *yaml.Node) {
		var s string
		if !d.text(path, n, &s) {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsRune("\r\n\"\x00\uFFFD", r[0]) {
			d.fail(path, "must be one character, and neither a quote nor a line break, not %s", message.Quote(s))
			return
		}
		*dst = r[0]
	}}
}

func decimal(dst *rune) valueParser {
	const takes = `"." or ","`
	return valueParser{takes: takes, initial: strconv.Quote(string(*dst)), read: func(d *decoder, path string, n *yaml.Node) {
		var s string
		switch {
		case !d.text(path, n, &s):
		case s != "." && s != ",":
			d.fail(path, "must be %s, not %s", takes, message.Quote(s))
		default:
			*dst = rune(s[0])
		}
	}}
}

// unit reads what stands beside a number.
func unit(dst *string) valueParser {
	return checked(dst, `text, such as "°C", or any`, func(s string) error {
		if s != strings.TrimSpace(s) || strings.ContainsAny(s[:1], "0123456789.,+-") {
			return fmt.Errorf("must not begin as a number, nor begin or end with a blank, as %s does", message.Quote(s))
		}
		return nil
	})
}

// thousands reads what stands between groups of digits. One blank stands for each, and ' for ’.
func thousands(dst *rune) valueParser {
	const takes = `",", ".", "'" or " "`
	return valueParser{takes: takes, read: func(d *decoder, path string, n *yaml.Node) {
		var s string
		switch {
		case !d.text(path, n, &s):
		case s == "\u00a0" || s == "\u202f":
			*dst = ' '
		case len(s) != 1 || !strings.Contains(",.' ", s):
			d.fail(path, "must be %s, not %s", takes, message.Quote(s))
		default:
			*dst = rune(s[0])
		}
	}}
}

// valuesAs reads two different values.
func valuesAs(dst *[]string) valueParser {
	r := missing(dst).then(func() error {
		if all := *dst; len(all) != 2 || all[0] == all[1] {
			return errors.New("must be two different values, the first of which is 0 and the second 1")
		}
		return nil
	})
	r.takes = "two values, such as [off, on]"
	return r
}

// keyFields reads the name of a field, a list of names, or none.
func keyFields(dst *[]string) valueParser {
	several := texts("names", dst)
	return valueParser{takes: "name, list of names, or none", initial: strconv.Quote(strings.Join(*dst, "")), read: func(d *decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			several.read(d, path, n)
			return
		}
		var name string
		switch {
		case n.Kind == yaml.MappingNode:
			d.wrongType(path, "a name, a list of names, or none", n)
		case !d.text(path, n, &name):
		case name == "":
			d.fail(path, "must not be empty; a source without keys has key: none")
		case name == "none":
			*dst = nil
		default:
			*dst = []string{name}
		}
	}}
}

// oneOrMore reads a name or a list of names.
func oneOrMore(what string, dst *[]string) valueParser {
	r := texts(what, dst)
	several := r.read
	r.takes = "name or list of names"
	r.read = func(d *decoder, path string, n *yaml.Node) {
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

// timeFields reads a name or a list of names, or an empty name for none.
func timeFields(dst *[]string) valueParser {
	r := oneOrMore("names", dst)
	some := r.read
	r.initial = strconv.Quote(strings.Join(*dst, ""))
	r.read = func(d *decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" {
			*dst = nil
			return
		}
		some(d, path, n)
	}
	return r
}

// missing reads texts, of which YAML takes some for numbers or null.
func missing(dst *[]string) valueParser {
	return listOf("texts, such as [NA, -, -999]", dst, func(s *string) valueParser {
		return valueParser{read: func(d *decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.ScalarNode {
				d.wrongType(path, "text", n)
				return
			}
			*s = strings.TrimSpace(n.Value)
		}}
	})
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

// timeFormat reads the form of a time.
func timeFormat(dst *string) valueParser {
	return checked(dst, "strftime, such as %d.%m.%Y %H:%M, or a Go layout", func(s string) error {
		if s == Trial {
			return nil
		}
		_, err := times.NewParser("", s)
		return err
	})
}

// list reads a list of mappings into dst, each entry by its keys.
func list[T any](of string, dst *[]T, keys func(*T) []key) valueParser {
	r := listOf(of, dst, func(v *T) valueParser {
		return valueParser{read: func(d *decoder, path string, n *yaml.Node) { d.mapping(path, n, keys(v)) }}
	})
	r.keys, r.within = keys(new(T)), "[]"
	return r
}

// labels reads names with texts.
func labels(dst *map[string]string) valueParser {
	const takes = "mapping of names to texts"
	return valueParser{takes: takes, initial: "{}", read: func(d *decoder, path string, n *yaml.Node) {
		all := map[string]string{}
		d.entries(path, n, func(p string, k, v *yaml.Node) {
			var s string
			switch {
			case !labelName.MatchString(k.Value):
				d.fail(p, "is no name of a label: letters, digits and _, and no digit first")
			case slices.Contains(ownLabels, k.Value):
				d.fail(p, "is a label that every alert has; name another")
			case d.text(p, v, &s):
				all[k.Value] = s
			}
		})
		*dst = all
	}}
}

// labelName is what Prometheus takes for the name of a label.
var labelName = regexp.MustCompile("^[a-zA-Z_][a-zA-Z0-9_]*$")

// ownLabels are those of every alert.
var ownLabels = []string{"alertname", "key", "kind"}

// durationOr reads a duration above 0, or the word, which is 0.
func durationOr(word string, dst *time.Duration) valueParser {
	r := milliseconds(dst)
	read := r.read
	if *dst <= 0 {
		r.initial = ""
	}
	r.takes += ", or " + word
	r.read = func(d *decoder, path string, n *yaml.Node) {
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
	return valueParser{takes: fmt.Sprintf("whole number from 0 to %d", most), initial: strconv.Itoa(*dst), read: func(d *decoder, path string, n *yaml.Node) {
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

// budget reads a duration, or a number of observations.
func budget(dst *keyed.AlarmConfig) valueParser {
	r := timeOrNumber("168h", func(d *decoder, path string, n *yaml.Node) { d.number(path, n, domain.Budget, &dst.Budget) },
		func(d *decoder, path string, n *yaml.Node, v time.Duration) {
			if v <= 0 {
				d.fail(path, "must be above 0, not %s", n.Value)
				return
			}
			dst.BudgetTime = v
		})
	r.initial = message.Duration(dst.BudgetTime)
	return r
}

// remainder reads a duration, or a number of observations.
func remainder(dst *keyed.AlarmConfig) valueParser {
	r := timeOrNumber("7h", func(d *decoder, path string, n *yaml.Node) { d.whole(path, n, 0, &dst.Rest) },
		func(d *decoder, path string, n *yaml.Node, v time.Duration) {
			switch {
			case v < 0:
				d.fail(path, "must be at least 0, not %s", n.Value)
			case v == 0:
				dst.Rest = 0
			default:
				dst.RestTime = v
			}
		})
	r.initial = "7h within 6 to 60 observations"
	return r
}

// timeOrNumber reads a duration, or a number of observations.
func timeOrNumber(example string, number func(*decoder, string, *yaml.Node), duration func(*decoder, string, *yaml.Node, time.Duration)) valueParser {
	takes := "a duration such as " + example + ", or a number of observations"
	return valueParser{takes: takes, read: func(d *decoder, path string, n *yaml.Node) {
		if _, ok := numberOf(n); ok {
			number(d, path, n)
			return
		}
		v, err := durationOf(n)
		if err != nil {
			d.wrongType(path, takes, n)
			return
		}
		duration(d, path, n, v)
	}}
}

// Bounds of what an observation may cost: the work of one grows as the cube of the number of harmonics, and a
// run that is asked to stop has to come to its end.
const (
	maxHarmonics = 48 // of one season
	allHarmonics = 4 * maxHarmonics
	maxSeasons   = 16
	maxLevels    = 64
	maxMembers   = 64
)

// atMost bounds the entries of a list or a mapping.
func atMost(most int, what string, r valueParser) valueParser {
	read := r.read
	r.read = func(d *decoder, path string, n *yaml.Node) {
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

// seasons reads a list of periods, or a mapping of periods to harmonics.
func seasons(dst *[]usual.Season) valueParser {
	const takes = "a list of durations, or a mapping of durations to harmonics"
	var initial []string
	for _, s := range *dst {
		initial = append(initial, fmt.Sprintf("%s: %d", message.Duration(s.Period), s.Harmonics))
	}
	text := "[]"
	if len(initial) > 0 {
		text = "{" + strings.Join(initial, ", ") + "}"
	}
	return atMost(maxSeasons, "cycles", valueParser{takes: takes, initial: text, read: func(d *decoder, path string, n *yaml.Node) {
		all := []usual.Season{}
		add := func(p string, period, harmonics *yaml.Node) {
			s := usual.Season{Harmonics: 3}
			var err error
			s.Period, err = durationOf(period)
			switch {
			case err != nil:
				d.wrongType(p, "a duration such as 24h", period)
				return
			case s.Period <= 0:
				d.fail(p, "must be above 0, not %s", period.Value)
				return
			case slices.ContainsFunc(all, func(other usual.Season) bool { return other.Period == s.Period }):
				d.fail(p, "the period stands there already")
				return
			}
			for _, standard := range usual.DefaultSeasons() {
				if standard.Period == s.Period {
					s.Harmonics = standard.Harmonics
				}
			}
			if harmonics != nil {
				if !d.whole(p, harmonics, 1, &s.Harmonics) {
					return
				}
				if s.Harmonics > maxHarmonics {
					d.fail(p, "must be at most %d harmonics, not %d", maxHarmonics, s.Harmonics)
					return
				}
			}
			all = append(all, s)
		}
		switch n.Kind {
		case yaml.SequenceNode:
			for i, e := range n.Content {
				add(d.entry(path, i, e), e, nil)
			}
		case yaml.MappingNode:
			d.entries(path, n, func(p string, k, v *yaml.Node) { add(p, k, v) })
		default:
			d.wrongType(path, takes, n)
			return
		}
		sum := 0
		for _, s := range all {
			sum += s.Harmonics
		}
		if sum > allHarmonics {
			d.fail(path, "has %d harmonics in all; at most %d are allowed", sum, allHarmonics)
		}
		*dst = all
	}})
}

// zone reads the name of a time zone.
func zone(dst *string) valueParser {
	return checked(dst, "IANA name of a time zone, such as Europe/Berlin", func(s string) error {
		_, err := domain.Zone(s)
		return err
	})
}

// dates reads a list of dates.
func dates(dst *[]string) valueParser {
	r := listOf("dates, such as 2026-12-25", dst, func(s *string) valueParser {
		return text(s, mayBeEmpty).then(func() error {
			_, err := domain.Date(*s)
			return err
		})
	})
	r.initial = "[]"
	return r
}

// orSwitch reads true, false, or a mapping with the keys of a T, which is fresh before.
func orSwitch[T any](dst **T, mapping string, fresh func() *T, keys func(*T) []key) valueParser {
	takes := "true, false, or " + mapping
	return valueParser{takes: takes, keys: keys(fresh()), read: func(d *decoder, path string, n *yaml.Node) {
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
