package config

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/pipeline/settings/keytable"
)

// outside begins a name in Fields that is not a column or field of a record. No text of a config contains NUL.
const outside = "\x00"

// recordTime is the name in Fields.Time of the timestamp of a Kafka record.
const recordTime = outside + "record"

// PathPart returns the name in Fields.Key of a part of the file's path: a pattern with one *, or a number from 1.
func PathPart(part string) string { return outside + part }

// PathPartOf returns the part of PathPart, and false for the name of a column or field.
func PathPartOf(name string) (part string, ok bool) { return strings.CutPrefix(name, outside) }

// UsesPath reports whether a part of the file's path is a part of the key.
func (f *Fields) UsesPath() bool {
	return slices.ContainsFunc(f.Key, func(name string) bool { return strings.HasPrefix(name, outside) })
}

// UsesRecordTime reports whether the time of an observation is the timestamp of its Kafka record.
func (f *Fields) UsesRecordTime() bool { return slices.Contains(f.Time, recordTime) }

// valueIn returns the value of a mapping that has only the key name, or nil.
func valueIn(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 || n.Content[0].Value != name {
		return nil
	}
	return n.Content[1]
}

// keyPart reads a name, or {path: part}.
func keyPart(dst *string) keytable.ValueParser {
	return keytable.ValueParser{Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		part, number := valueIn(n, "path"), 0
		switch {
		case part == nil:
			keytable.Text(dst, keytable.NotEmpty).Read(d, path, n)
		case part.ShortTag() == "!!str" && strings.Count(part.Value, "*") == 1 && !strings.ContainsAny(part.Value, "/\x00"):
			*dst = PathPart(part.Value)
		case part.ShortTag() == "!!int" && part.Decode(&number) == nil && number > 0:
			*dst = PathPart(strconv.Itoa(number))
		default:
			d.Fail(path, "{path: part} takes the name of a folder or file with one * and without /, such as \"site=*\", or the number of a part, from 1")
		}
	}}
}
