package config

import (
	"go.yaml.in/yaml/v3"

	"hafvf/internal/domain"
)

// pattern reads a pattern of keys, or a mapping of labels to patterns.
func pattern(dst *string) valueParser {
	r := checked(dst, "pattern: "+domain.Wildcards+"; or labels with patterns, such as {job: auth-*}", domain.CheckPattern)
	read := r.read
	r.read = func(d *Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			read(d, path, n)
			return
		}
		labels := map[string]string{}
		d.entries(path, n, func(p string, k, v *yaml.Node) {
			var of string
			checked(&of, "pattern: "+domain.Wildcards, domain.CheckPattern).read(d, p, v)
			labels[k.Value] = of
		})
		if len(labels) == 0 && !d.failed(path) {
			d.fail(path, "has no label")
		}
		*dst = domain.LabelPattern(labels)
	}
	return r
}
