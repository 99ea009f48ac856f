package documents

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/domain"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

var update = flag.Bool("update", false, "write CONFIG.md, and the tables that are made from code")

// CONFIG.md is the reference: go test ./internal/documents -run ConfigMD -update writes it. Its cells
// have to stay short.
func TestConfigMD(t *testing.T) {
	const path = root + "/CONFIG.md"
	if *update {
		expect.OK(t, os.WriteFile(path, []byte(configMD()+recordsMD()), 0o644))
	}
	text := expect.Get(os.ReadFile(path))(t)
	for _, row := range strings.Split(string(text), "\n") {
		for _, cell := range strings.Split(row, " | ") {
			if strings.HasPrefix(row, "|") && len(cell) > 300 {
				t.Errorf("a cell of %d characters: %s", len(cell), cell)
			}
		}
	}
	expect.Same(t, configMD()+recordsMD(), string(text), path, ": go test ./internal/documents -run ConfigMD -update")
}

// The table of metrics in deploy/reference.md is the program's: go test ./internal/documents -run
// MetricsMD -update writes it.
func TestMetricsMD(t *testing.T) {
	var table strings.Builder
	table.WriteString("| metric | labels | meaning |\n|---|---|---|\n")
	for _, m := range pipeline.MetricTable {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.Name, labels, m.Doc)
	}
	expectTable(t, "deploy/reference.md", "metrics", table.String())
}

// expectTable checks the table between two marks of a document, or writes it.
func expectTable(t *testing.T, name, mark, table string) {
	t.Helper()
	begin, end := "<!--"+mark+"-->\n", "<!--/"+mark+"-->"
	before, rest, _ := strings.Cut(read(t, name), begin)
	was, after, ok := strings.Cut(rest, end)
	switch {
	case !ok:
		t.Fatalf("%s has no place for the table", name)
	case *update:
		expect.OK(t, os.WriteFile(filepath.Join(root, name), []byte(before+begin+table+end+after), 0o644))
	case was != table:
		t.Errorf("%s has another table: go test ./internal/documents -run %s -update", name, t.Name())
	}
}

const secretTakes = "{env: VARIABLE} or {file: PATH}"

// configMD lists the keys as a part of CONFIG.md. Shared rows appear once: the keys of a mapping, and keys that several
// connectors have.
func configMD() string {
	var b strings.Builder
	b.WriteString(`# Config

Every key of a config, as ` + "`hafvf check --keys`" + ` lists them. A config is YAML; JSON is accepted as YAML.

- **Paths.** A dot leads into a mapping, and ` + "`[]`" + ` into the entries of a list. ` + "`{a, b}`" + ` stands for each of its names.
- **Defaults.** An absent key has its default. An empty list and 0 are values.
- **Durations** are written as 90s, 30m or 24h, in whole milliseconds. They must be above 0, unless the default is 0s.
- **Zones** are IANA names such as Europe/Berlin.
- **Secrets** are written as ` + secretTakes + `. They have at most 64 kB. The file may be a pipe,
  which is read once.
- **Patterns.** ` + domain.Wildcards + `. In patterns of columns,
  brackets match themselves.

This file is generated from the table that reads configs; a test compares the two.
`)
	secrets := map[string]bool{}
	all := slices.DeleteFunc(config.Keys(), func(k config.Key) bool {
		secrets[k.Path] = k.Takes == secretTakes
		return secrets[k.Path[:max(0, strings.LastIndexByte(k.Path, '.'))]]
	})
	mappings := sharedMappings(all)
	topKey := func(path string) string {
		return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })[0]
	}
	size := map[string]int{} // by the key at the top
	for _, k := range all {
		size[topKey(k.Path)]++
	}
	sections := map[string][]config.Key{}
	var names, last []string
	for _, k := range all {
		section := topKey(k.Path)
		if section == k.Path || size[section] <= 5 {
			section = "The top level"
		}
		if m := mappings[k.Path]; m != nil {
			k.Doc += fmt.Sprintf(" See [%s](#%[1]s).", m.title)
		}
		m, name := sharedIn(mappings, k.Path)
		switch {
		case m == nil:
		case k.Path != m.first+"."+name:
			continue // it is there already
		default:
			section, k.Path = m.title, m.first[strings.LastIndexByte(m.first, '.')+1:]+"."+name
		}
		if sections[section] == nil && m == nil {
			names = append(names, section)
		} else if sections[section] == nil {
			last = append(last, section)
		}
		sections[section] = append(sections[section], k)
	}
	for _, name := range append(names, last...) {
		fmt.Fprintf(&b, "\n## %s\n\n| key | takes | default | meaning |\n|---|---|---|---|\n", name)
		for _, k := range merged(sections[name]) {
			takes, initial := shorter.Replace(k.Takes), ""
			if k.Unit != "" {
				takes += "; in " + k.Unit
			}
			switch {
			case k.Required:
				initial = "required"
			case k.Default != "":
				initial = "`" + k.Default + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Path, takes, initial, k.Doc)
		}
	}
	return b.String()
}

// shorter writes types as the head of the document explains them.
var shorter = strings.NewReplacer("duration above 0, in milliseconds", "duration", "duration, such as 30m", "duration", "IANA name of a time zone, such as Europe/Berlin", "zone",
	secretTakes, "a secret", "a list of durations, or a mapping of durations to harmonics", "durations, or {24h: harmonics}", "pattern: "+domain.Wildcards, "pattern")

// A shared mapping has the same keys wherever it stands.
type shared struct {
	title string // of its section
	first string // path where it stands first
}

// sharedMappings are those with two keys or more, by all paths where they stand.
func sharedMappings(all []config.Key) map[string]*shared {
	inside := map[string][]config.Key{} // by the path of a mapping, with paths from there
	var paths []string
	for _, k := range all {
		for i := range k.Path {
			if k.Path[i] != '.' {
				continue
			}
			within := k
			within.Path = k.Path[i+1:]
			if at := k.Path[:i]; inside[at] == nil {
				paths = append(paths, at)
			}
			inside[k.Path[:i]] = append(inside[k.Path[:i]], within)
		}
	}
	alike := map[string][]string{}
	for _, at := range paths {
		text := fmt.Sprintf("%+v", inside[at])
		alike[text] = append(alike[text], at)
	}
	mappings, titles := map[string]*shared{}, map[string]bool{}
	for _, at := range paths {
		places := alike[fmt.Sprintf("%+v", inside[at])]
		if len(places) < 2 || len(inside[at]) < 2 || at != places[0] {
			continue
		}
		title := at[strings.LastIndexByte(at, '.')+1:]
		for i := strings.LastIndexByte(at, '.'); titles[title]; i = strings.LastIndexByte(at[:i], '.') {
			title = strings.ReplaceAll(at[i+1:], ".", "-")
		}
		title = strings.TrimSuffix(title, "[]")
		titles[title] = true
		for _, p := range places {
			mappings[p] = &shared{title, at}
		}
	}
	return mappings
}

// sharedIn returns the innermost shared mapping that a key stands in, and its name there.
func sharedIn(mappings map[string]*shared, path string) (*shared, string) {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' && mappings[path[:i]] != nil {
			return mappings[path[:i]], path[i+1:]
		}
	}
	return nil, ""
}

// merged has one row for a key that several mappings of a section have alike.
func merged(keys []config.Key) (rows []config.Key) {
	at := map[config.Key]int{} // by what they have alike
	members := map[int][]string{}
	for _, k := range keys {
		parts := strings.SplitN(k.Path, ".", 3)
		if len(parts) < 3 {
			rows = append(rows, k)
			continue
		}
		alike := k
		alike.Path, alike.Default = parts[0]+".*."+parts[2], ""
		i, known := at[alike]
		if !known {
			i = len(rows)
			at[alike], rows = i, append(rows, k)
		}
		if members[i] = append(members[i], parts[1]); known {
			rows[i].Path = fmt.Sprintf("%s.{%s}.%s", parts[0], strings.Join(members[i], ", "), parts[2])
			if row := &rows[i]; row.Default != k.Default {
				row.Default += fmt.Sprintf("; %s: %s", parts[1], k.Default)
			}
		}
	}
	return rows
}

// recordsMD lists the records as a part of CONFIG.md.
func recordsMD() string {
	var b strings.Builder
	b.WriteString(`
# Records

A run writes one JSON object per record. In CSV and Parquet, the name of a column is the path of its field, with the index
instead of ` + "`[]`" + `. Times are RFC 3339 in UTC. Numbers that are infinite or undefined are null. "mean and sd" is an object with both;
for vectors, each is a list. A mean that does not exist is null, and so is an infinite sd. Fields marked "full" are only in
` + "`records: full`" + `.
`)
	for _, k := range records.Kinds() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", k.Name, k.Doc)
		for _, f := range rows(k.Fields) {
			name, takes := "`"+f.Path+"`", f.Takes
			if f.Full {
				name += " (full)"
			}
			if f.Unit != "" {
				takes += ", " + f.Unit
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, takes, strings.ReplaceAll(f.Doc, "|", `\|`))
		}
	}
	return b.String()
}

const docMean, docSD = "Mean; null if it does not exist.", "Standard deviation; null if it is infinite."

// rows has one field for a mean and an sd, and one for what several objects have alike.
func rows(fields []records.Field) (all []records.Field) {
	at := map[records.Field]int{} // by what they have alike
	sds := map[string]bool{}
	for _, f := range fields {
		if f.Doc == docSD {
			sds[strings.TrimSuffix(f.Path, ".sd")] = true
		}
	}
	for _, f := range fields {
		of, name, below := strings.Cut(f.Path, ".")
		alike := f
		alike.Path = name
		i, known := at[alike]
		switch {
		case f.Doc == docMean || f.Doc == docSD:
		case below && known:
			first, _, _ := strings.Cut(all[i].Path, ".")
			all[i].Path = fmt.Sprintf("{%s, %s}.%s", first, of, name)
		default:
			if sds[f.Path] {
				f.Takes = "mean and sd"
			}
			if all = append(all, f); below {
				at[alike] = len(all) - 1
			}
		}
	}
	return all
}
