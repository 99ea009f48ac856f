package settings

import (
	"go.yaml.in/yaml/v3"

	"hafvf/internal/domain"
	"hafvf/pipeline/settings/keytable"
)

// Pattern reads a pattern of keys, or a mapping of labels to patterns.
func Pattern(dst *string) keytable.ValueParser {
	r := keytable.Checked(dst, "pattern: "+domain.Wildcards+"; or labels with patterns, such as {job: auth-*}", domain.CheckPattern)
	read := r.Read
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			read(d, path, n)
			return
		}
		labels := map[string]string{}
		d.Entries(path, n, func(p string, k, v *yaml.Node) {
			var of string
			keytable.Checked(&of, "pattern: "+domain.Wildcards, domain.CheckPattern).Read(d, p, v)
			labels[k.Value] = of
		})
		if len(labels) == 0 && !d.Failed(path) {
			d.Fail(path, "has no label")
		}
		*dst = domain.LabelPattern(labels)
	}
	return r
}
