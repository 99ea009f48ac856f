package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
	"hafvf/internal/times"
)

func delimiter(dst *rune) valueParser {
	return valueParser{takes: "one character", initial: strconv.Quote(string(*dst)), read: func(d *Decoder, path string, n *yaml.Node) {
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
	return valueParser{takes: takes, initial: strconv.Quote(string(*dst)), read: func(d *Decoder, path string, n *yaml.Node) {
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
	return valueParser{takes: takes, read: func(d *Decoder, path string, n *yaml.Node) {
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
	return valueParser{takes: "name, list of names, or none", initial: strconv.Quote(strings.Join(*dst, "")), read: func(d *Decoder, path string, n *yaml.Node) {
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

// timeFields reads a name or a list of names, or an empty name for none.
func timeFields(dst *[]string) valueParser {
	r := oneOrMore("names", dst)
	some := r.read
	r.initial = strconv.Quote(strings.Join(*dst, ""))
	r.read = func(d *Decoder, path string, n *yaml.Node) {
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
		return valueParser{read: func(d *Decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.ScalarNode {
				d.wrongType(path, "text", n)
				return
			}
			*s = strings.TrimSpace(n.Value)
		}}
	})
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

func defaultFields() Fields {
	return Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}, Layout: Long, Zone: "UTC", Decimal: '.'}
}

// keys declare what a record looks like. It has columns or fields.
func (f *Fields) keys(what string) []key {
	none := ""
	if f.MaxAhead == 0 {
		none = "none"
	}
	return []key{
		{name: "key", doc: "Column or field of the key. A list is joined with \"/\"; in its parts % is %25 and / is %2F. none makes one series of all records. In JSON, a.b leads into an object, and an object of labels is the key that Prometheus writes.", read: keyFields(&f.Key)},
		{name: "time", doc: "Column or field of the time. A list is joined with blanks. Empty: none, which needs order: arrival.", read: timeFields(&f.Time)},
		{name: "values", doc: "Columns or fields of the value. Several make one vector.", read: oneOrMore(strings.ToLower(what)+"s", &f.Values)},
		{name: "zone", doc: "Time zone of times without an offset. In an hour that comes twice, the order of a key's records decides.", read: zone(&f.Zone)},
		{name: "time_format", doc: "Form of times but dates, ISO 8601, those of HTTP, and Unix times. Without a day it is the first. %q is a quarter, %G-W%V an ISO week. " + times.Unix + " takes numbers as Unix times, " + times.Spreadsheet + " as days since 1899-12-30 (else refused), " + Trial + " (smooth) as whole trial numbers.", read: timeFormat(&f.TimeFormat)},
		{name: "max_ahead", doc: "How far a time may be ahead of this computer's clock; else it is rejected. A key that has learned such a time goes back at its fifth late record in a row.", initial: none, read: durationOr("none", &f.MaxAhead)},
		{name: "missing", doc: "Texts of a missing value, as an empty text, null and NaN are.", read: missing(&f.Missing)},
		{name: "unit", doc: "Unit beside numbers in texts; another one is rejected. any takes all, and 1 kB is 1 as 1 MB is.", read: unit(&f.Unit)},
		{name: "thousands", doc: "Separator of groups of three digits.", read: thousands(&f.Thousands)},
		{name: "values_as", doc: "Read as 0 and 1; others are rejected.", read: valuesAs(&f.ValuesAs)},
	}
}

// decimal declares how texts write a fraction.
func (f *Fields) decimal() key {
	return key{name: "decimal", doc: "Decimal separator of texts.", read: decimal(&f.Decimal)}
}
