package config

import (
	"bytes"
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAMLText writes a text as a scalar that stands anywhere in YAML.
func YAMLText(s string) string {
	b, err := yaml.Marshal(&yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}}})
	if err != nil {
		panic("config: " + err.Error())
	}
	b = bytes.TrimSpace(b)
	return string(b[1 : len(b)-1])
}

// YAMLNames writes a name, or a list of several; "" of none.
func YAMLNames(names []string) string {
	if len(names) < 2 {
		return cmp.Or(YAMLText(strings.Join(names, "")), `""`)
	}
	return YAMLList(names)
}

// YAMLList writes texts as a list in one line.
func YAMLList(texts []string) string {
	var all []string
	for _, s := range texts {
		all = append(all, YAMLText(s))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
