package documents

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// TestPythonParameters checks that the keyword arguments of the Python package equal the settings: go test
// ./internal/documents -run PythonParameters -update writes them.
func TestPythonParameters(t *testing.T) {
	const path = root + "/connectors/python/src/hafvf/_parameters.py"
	if *update {
		expect.OK(t, os.WriteFile(path, []byte(pythonParameters()), 0o644))
	}
	text := expect.Get(os.ReadFile(path))(t)
	expect.Same(t, pythonParameters(), string(text), path, ": go test ./internal/documents -run PythonParameters -update")
}

// modelKeywords are the keys of model that the package takes as keywords.
var modelKeywords = []string{"family", "prior", "warm_up", "dim", "scale", "season"}

func pythonParameters() string {
	var b, names strings.Builder
	b.WriteString(`"""Settings as keyword arguments. This file is generated from the table that reads configs; a test compares the two."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

Duration: TypeAlias = "str | timedelta"
`)
	below := map[string][]keytable.Description{} // by mapping; "" for the top level
	for _, k := range settings.Keys() {
		if strings.Contains(k.Path, "[]") {
			continue
		}
		object, name, nested := strings.Cut(k.Path, ".")
		switch {
		case !nested:
			object, name = "", object
		case object == "model" && slices.Contains(modelKeywords, name):
			object = ""
		case strings.Contains(name, "."):
			continue
		}
		if k.Path = name; name != "model" || object != "" {
			below[object] = append(below[object], k)
		}
	}
	class := func(name, bases, doc string, keys []keytable.Description) {
		fmt.Fprintf(&b, "\n\nclass %s(%s, total=False):\n    \"\"\"%s\"\"\"\n", name, bases, doc)
		for _, k := range keys {
			doc := strings.ReplaceAll(strings.ReplaceAll(k.Doc, `\`, `\\`), `"`, `'`)
			if k.Default != "" {
				doc += " Default: " + strings.ReplaceAll(k.Default, `"`, "'") + "."
			}
			fmt.Fprintf(&b, "\n    %s: %s\n    \"\"\"%s\"\"\"\n", k.Path, pythonType(k, below[k.Path] != nil), doc)
			if slices.Contains(below[""], k) {
				fmt.Fprintf(&names, "    %q: %s,\n", k.Path, strconv.Quote(doc))
			}
		}
	}
	var interval, others []keytable.Description
	for _, k := range below[""] {
		if below[k.Path] != nil {
			class(className(k.Path), "TypedDict", "Keys of "+k.Path+".", below[k.Path])
		}
		if k.Path == "interval" {
			interval = append(interval, k)
		} else {
			others = append(others, k)
		}
	}
	class("SmoothParameters", "TypedDict", "Settings that all functions take.", others)
	class("Parameters", "SmoothParameters", "Settings of the filter.", interval)
	b.WriteString("\n\nDOCS = {\n" + names.String() + "}\n")
	return b.String()
}

// className returns the name of the class of a mapping.
func className(path string) string { return strings.ToUpper(path[:1]) + path[1:] }

var choiceOfWords = regexp.MustCompile(`^[a-z_0-9]+(, [a-z_0-9]+)+$`)

// pythonType returns the type of a key in Python. mapping says that the mapping has a class.
func pythonType(k keytable.Description, mapping bool) string {
	object := "Mapping[str, Any]"
	if mapping {
		object = className(k.Path) + " | " + object
	}
	switch takes := k.Takes; {
	case choiceOfWords.MatchString(takes):
		return `Literal["` + strings.ReplaceAll(takes, ", ", `", "`) + `"]`
	case strings.HasPrefix(takes, "true, false"):
		return "bool | " + object
	case takes == "true or false":
		return "bool"
	case takes == "mapping":
		return object
	case takes == "mapping of parameters, or auto":
		return "Mapping[str, Any] | str"
	case strings.HasPrefix(takes, "a list of durations"):
		return "Sequence[Duration] | Mapping[str, int]"
	case strings.HasPrefix(takes, "list of dates"):
		return "Sequence[Any] | Mapping[str, Any]"
	case strings.HasPrefix(takes, "list of "):
		return "Sequence[Any]"
	case strings.HasPrefix(takes, "name or list"):
		return "Hashable | Sequence[Hashable]"
	case strings.HasPrefix(takes, "whole number"):
		return "int"
	case strings.HasPrefix(takes, "number"):
		return "float"
	case strings.HasPrefix(takes, "a duration such as"):
		return "Duration | int"
	case strings.HasPrefix(takes, "duration"):
		return "Duration"
	case takes == "0 or missing":
		return `Literal[0, "missing"]`
	}
	return "str"
}
