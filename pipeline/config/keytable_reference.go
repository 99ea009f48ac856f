package config

import (
	"cmp"
	"strings"
)

// A Description is what the reference says of one key. Path is from the root, with dots; the
// entries of a list are [].
type Description struct {
	Path    string
	Takes   string // the type and range of its value
	Default string // as YAML; empty where an absent key means that there is none
	Unit    string // empty for what has none
	Doc     string // what it means

	Required bool
}

// Describe returns the keys of a table and of the mappings in it, in the order of their declaration.
func Describe(keys []key) []Description {
	var all []Description
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
			all = append(all, Description{Path: p, Takes: takes, Default: cmp.Or(k.initial, k.read.initial), Unit: k.unit, Doc: k.doc, Required: k.required || k.initial == required})
			walk(p, k.keys)
			walk(p+k.read.within, k.read.keys)
		}
	}
	walk("", keys)
	return all
}

// required is the default of a key whose absence check reports in its own words.
const required = "required"
