package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline/settings/keytable"
)

func delimiter(dst *rune) keytable.ValueParser {
	return keytable.ValueParser{Takes: "one character", Initial: strconv.Quote(string(*dst)), Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		var s string
		if !d.Text(path, n, &s) {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsRune("\r\n\"\x00\uFFFD", r[0]) {
			d.Fail(path, "must be one character, and neither a quote nor a line break, not %s", message.Quote(s))
			return
		}
		*dst = r[0]
	}}
}

func decimal(dst *rune) keytable.ValueParser {
	const takes = `"." or ","`
	return keytable.ValueParser{Takes: takes, Initial: strconv.Quote(string(*dst)), Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		var s string
		switch {
		case !d.Text(path, n, &s):
		case s != "." && s != ",":
			d.Fail(path, "must be %s, not %s", takes, message.Quote(s))
		default:
			*dst = rune(s[0])
		}
	}}
}

// unit reads what stands beside a number.
func unit(dst *string) keytable.ValueParser {
	return keytable.Checked(dst, `text, such as "°C", or any`, func(s string) error {
		if s != strings.TrimSpace(s) || strings.ContainsAny(s[:1], "0123456789.,+-") {
			return fmt.Errorf("must not begin as a number, nor begin or end with a blank, as %s does", message.Quote(s))
		}
		return nil
	})
}

// thousands reads what stands between groups of digits. One blank stands for each, and ' for ’.
func thousands(dst *rune) keytable.ValueParser {
	const takes = `",", ".", "'" or " "`
	return keytable.ValueParser{Takes: takes, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		var s string
		switch {
		case !d.Text(path, n, &s):
		case s == "\u00a0" || s == "\u202f":
			*dst = ' '
		case len(s) != 1 || !strings.Contains(",.' ", s):
			d.Fail(path, "must be %s, not %s", takes, message.Quote(s))
		default:
			*dst = rune(s[0])
		}
	}}
}

// valuesAs reads two different values.
func valuesAs(dst *[]string) keytable.ValueParser {
	r := missing(dst).Then(func() error {
		if all := *dst; len(all) != 2 || all[0] == all[1] {
			return errors.New("must be two different values, the first of which is 0 and the second 1")
		}
		return nil
	})
	r.Takes = "two values, such as [off, on]"
	return r
}

// keyFields reads the name of a field, a list of names, or none.
func keyFields(dst *[]string) keytable.ValueParser {
	several := keytable.Texts("names", dst)
	return keytable.ValueParser{Takes: "name, list of names, or none", Initial: strconv.Quote(strings.Join(*dst, "")), Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			several.Read(d, path, n)
			return
		}
		var name string
		switch {
		case n.Kind == yaml.MappingNode:
			d.WrongType(path, "a name, a list of names, or none", n)
		case !d.Text(path, n, &name):
		case name == "":
			d.Fail(path, "must not be empty; a source without keys has key: none")
		case name == "none":
			*dst = nil
		default:
			*dst = []string{name}
		}
	}}
}

// timeFields reads a name or a list of names, or an empty name for none.
func timeFields(dst *[]string) keytable.ValueParser {
	r := keytable.OneOrMore("names", dst)
	some := r.Read
	r.Initial = strconv.Quote(strings.Join(*dst, ""))
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "" {
			*dst = nil
			return
		}
		some(d, path, n)
	}
	return r
}

// missing reads texts, of which YAML takes some for numbers or null.
func missing(dst *[]string) keytable.ValueParser {
	return keytable.ListOf("texts, such as [NA, -, -999]", dst, func(s *string) keytable.ValueParser {
		return keytable.ValueParser{Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
			if n.Kind != yaml.ScalarNode {
				d.WrongType(path, "text", n)
				return
			}
			*s = strings.TrimSpace(n.Value)
		}}
	})
}

// timeFormat reads the form of a time.
func timeFormat(dst *string) keytable.ValueParser {
	return keytable.Checked(dst, "strftime, such as %d.%m.%Y %H:%M, or a Go layout", func(s string) error {
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
func (f *Fields) keys(what string) []keytable.Key {
	none := ""
	if f.MaxAhead == 0 {
		none = "none"
	}
	return []keytable.Key{
		{Name: "key", Doc: "Column or field of the key. A list is joined with \"/\"; in its parts % is %25 and / is %2F. none makes one series of all records. In JSON, a.b leads into an object, and an object of labels is the key that Prometheus writes.", Read: keyFields(&f.Key)},
		{Name: "time", Doc: "Column or field of the time. A list is joined with blanks. Empty: none, which needs order: arrival.", Read: timeFields(&f.Time)},
		{Name: "values", Doc: "Columns or fields of the value. Several make one vector.", Read: keytable.OneOrMore(strings.ToLower(what)+"s", &f.Values)},
		{Name: "zone", Doc: "Time zone of times without an offset. In an hour that comes twice, the order of a key's records decides.", Read: keytable.Zone(&f.Zone)},
		{Name: "time_format", Doc: "Form of times but dates, ISO 8601, those of HTTP, and Unix times. Without a day it is the first. %q is a quarter, %G-W%V an ISO week. " + times.Unix + " takes numbers as Unix times, " + times.Spreadsheet + " as days since 1899-12-30 (else refused), " + Trial + " (smooth) as whole trial numbers.", Read: timeFormat(&f.TimeFormat)},
		{Name: "max_ahead", Doc: "How far a time may be ahead of this computer's clock; else it is rejected. A key that has learned such a time goes back at its fifth late record in a row.", Initial: none, Read: keytable.DurationOr("none", &f.MaxAhead)},
		{Name: "missing", Doc: "Texts of a missing value, as an empty text, null and NaN are.", Read: missing(&f.Missing)},
		{Name: "unit", Doc: "Unit beside numbers in texts; another one is rejected. any takes all, and 1 kB is 1 as 1 MB is.", Read: unit(&f.Unit)},
		{Name: "thousands", Doc: "Separator of groups of three digits.", Read: thousands(&f.Thousands)},
		{Name: "values_as", Doc: "Read as 0 and 1; others are rejected.", Read: valuesAs(&f.ValuesAs)},
	}
}

// decimal declares how texts write a fraction.
func (f *Fields) decimal() keytable.Key {
	return keytable.Key{Name: "decimal", Doc: "Decimal separator of texts.", Read: decimal(&f.Decimal)}
}
