package config

import (
	"cmp"
	"fmt"
	"strings"
)

// A Key describes one key of the config. Path is from the root, with dots; the
// entries of a list are [].
type Key struct {
	Path    string
	Takes   string // the type and range of its value
	Default string // as YAML; empty where an absent key means that there is none
	Unit    string // empty for what has none
	Doc     string // what it means

	Required bool
}

// Keys returns the keys that a config may use, in the order of their declaration.
func Keys() []Key {
	var all []Key
	var walk func(path string, keys []key)
	walk = func(path string, keys []key) {
		for _, k := range keys {
			p := join(path, k.name)
			takes := k.read.takes
			if k.read.read == nil {
				takes = "mapping"
				if k.single {
					takes = "one of " + strings.Join(alternatives(k.keys), ", ")
					if k.none != nil {
						takes += ", or none"
					}
				}
			}
			all = append(all, Key{Path: p, Takes: takes, Default: cmp.Or(k.initial, k.read.initial), Unit: k.unit, Doc: k.doc, Required: k.required || k.initial == required})
			walk(p, k.keys)
			walk(p+k.read.within, k.read.keys)
		}
	}
	walk("", defaults().keys(newPriorNodes()))
	return all
}

// Reference lists the keys for a terminal.
func Reference() string {
	var b strings.Builder
	for _, k := range Keys() {
		fmt.Fprintf(&b, "%s\n    %s", k.Path, k.Takes)
		if k.Unit != "" {
			b.WriteString("; in " + k.Unit)
		}
		switch {
		case k.Required:
			b.WriteString("; required")
		case k.Default != "":
			b.WriteString("; default " + k.Default)
		}
		fmt.Fprintf(&b, "\n    %s\n", k.Doc)
	}
	return b.String()
}
