package keytable

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
func Describe(keys []Key) []Description {
	var all []Description
	var walk func(path string, keys []Key)
	walk = func(path string, keys []Key) {
		for _, k := range keys {
			p := Join(path, k.Name)
			takes := k.Read.Takes
			if k.Read.Read == nil {
				takes = "mapping"
				if k.Single {
					takes = "one of " + strings.Join(Alternatives(k.Keys), ", ")
					if k.None != nil {
						takes += ", or none"
					}
				}
			}
			all = append(all, Description{Path: p, Takes: takes, Default: cmp.Or(k.Initial, k.Read.Initial), Unit: k.Unit, Doc: k.Doc, Required: k.Required || k.Initial == Required})
			walk(p, k.Keys)
			walk(p+k.Read.within, k.Read.Keys)
		}
	}
	walk("", keys)
	return all
}

// Required is the default of a key whose absence check reports in its own words.
const Required = "required"
