package config

import (
	"fmt"
	"strings"

	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// A Key describes one key of the config.
type Key = keytable.Description

// Keys returns the keys that a config may use, in the order of their declaration.
func Keys() []Key {
	c := defaults()
	return keytable.Describe(c.keys(settings.NewReading(&keytable.Decoder{}, &c.Settings).Keys()))
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
