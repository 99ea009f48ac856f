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

// TestConfigMD checks that CONFIG.md equals the reference made from code: go test ./internal/documents -run
// ConfigMD -update writes it. Its cells have at most 300 characters.
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

// TestMetricsMD checks that the table of metrics in deploy/reference.md equals the program's: go test
// ./internal/documents -run MetricsMD -update writes it.
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

// expectTable checks the table between two marks of a document, or writes it with -update.
func expectTable(t *testing.T, name, mark, table string) {
	t.Helper()
	begin, end := "<!--"+mark+"-->\n", "<!--/"+mark+"-->"
	before, rest, _ := strings.Cut(read(t, name), begin)
	current, after, ok := strings.Cut(rest, end)
	switch {
	case !ok:
		t.Fatalf("%s has no place for the table", name)
	case *update:
		expect.OK(t, os.WriteFile(filepath.Join(root, name), []byte(before+begin+table+end+after), 0o644))
	case current != table:
		t.Errorf("%s has another table: go test ./internal/documents -run %s -update", name, t.Name())
	}
}

const secretTakes = "{env: VARIABLE} or {file: PATH}"

// configMD returns the part of CONFIG.md on keys. It lists shared keys once: the keys of a mapping that several
// keys have, and a key that several connectors have.
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
	keys := slices.DeleteFunc(config.Keys(), func(k config.Key) bool {
		secrets[k.Path] = k.Takes == secretTakes
		return secrets[k.Path[:max(0, strings.LastIndexByte(k.Path, '.'))]]
	})
	mappings := sharedMappings(keys)
	topKey := func(path string) string {
		return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' })[0]
	}
	size := map[string]int{} // by top-level key
	for _, k := range keys {
		size[topKey(k.Path)]++
	}
	sections := map[string][]config.Key{}
	var names, last []string
	for _, k := range keys {
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
			continue // it is listed already
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

// shorter shortens types as the head of the document explains.
var shorter = strings.NewReplacer("duration above 0, in milliseconds", "duration", "duration, such as 30m", "duration", "IANA name of a time zone, such as Europe/Berlin", "zone",
	secretTakes, "a secret", "a list of durations, or a mapping of durations to harmonics", "durations, or {24h: harmonics}", "pattern: "+domain.Wildcards, "pattern")

// A shared is a mapping with the same keys at several paths.
type shared struct {
	title string // title of its section
	first string // first path of the mapping
}

// sharedMappings returns the mappings with at least two keys that occur at several paths, by each of these paths.
func sharedMappings(keys []config.Key) map[string]*shared {
	inside := map[string][]config.Key{} // by the path of a mapping, with paths relative to it
	var paths []string
	for _, k := range keys {
		for i := range k.Path {
			if k.Path[i] != '.' {
				continue
			}
			relative := k
			relative.Path = k.Path[i+1:]
			if path := k.Path[:i]; inside[path] == nil {
				paths = append(paths, path)
			}
			inside[k.Path[:i]] = append(inside[k.Path[:i]], relative)
		}
	}
	pathsByKeys := map[string][]string{}
	for _, path := range paths {
		text := fmt.Sprintf("%+v", inside[path])
		pathsByKeys[text] = append(pathsByKeys[text], path)
	}
	mappings, titles := map[string]*shared{}, map[string]bool{}
	for _, path := range paths {
		places := pathsByKeys[fmt.Sprintf("%+v", inside[path])]
		if len(places) < 2 || len(inside[path]) < 2 || path != places[0] {
			continue
		}
		title := path[strings.LastIndexByte(path, '.')+1:]
		for i := strings.LastIndexByte(path, '.'); titles[title]; i = strings.LastIndexByte(path[:i], '.') {
			title = strings.ReplaceAll(path[i+1:], ".", "-")
		}
		title = strings.TrimSuffix(title, "[]")
		titles[title] = true
		for _, p := range places {
			mappings[p] = &shared{title, path}
		}
	}
	return mappings
}

// sharedIn returns the innermost shared mapping that contains a key, and the key's path in it.
func sharedIn(mappings map[string]*shared, path string) (*shared, string) {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' && mappings[path[:i]] != nil {
			return mappings[path[:i]], path[i+1:]
		}
	}
	return nil, ""
}

// merged combines equal keys of several mappings of a section in one row.
func merged(keys []config.Key) (rows []config.Key) {
	rowOf := map[config.Key]int{} // index of the row, by the common part
	members := map[int][]string{}
	for _, k := range keys {
		parts := strings.SplitN(k.Path, ".", 3)
		if len(parts) < 3 {
			rows = append(rows, k)
			continue
		}
		common := k
		common.Path, common.Default = parts[0]+".*."+parts[2], ""
		i, found := rowOf[common]
		if !found {
			i = len(rows)
			rowOf[common], rows = i, append(rows, k)
		}
		if members[i] = append(members[i], parts[1]); found {
			rows[i].Path = fmt.Sprintf("%s.{%s}.%s", parts[0], strings.Join(members[i], ", "), parts[2])
			if row := &rows[i]; row.Default != k.Default {
				row.Default += fmt.Sprintf("; %s: %s", parts[1], k.Default)
			}
		}
	}
	return rows
}

// recordsMD returns the part of CONFIG.md on records.
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

// rows combines a mean and an sd in one field, and equal fields of several objects in one field.
func rows(fields []records.Field) (list []records.Field) {
	rowOf := map[records.Field]int{} // index in the list, by the common part
	sds := map[string]bool{}
	for _, f := range fields {
		if f.Doc == docSD {
			sds[strings.TrimSuffix(f.Path, ".sd")] = true
		}
	}
	for _, f := range fields {
		object, name, nested := strings.Cut(f.Path, ".")
		common := f
		common.Path = name
		i, found := rowOf[common]
		switch {
		case f.Doc == docMean || f.Doc == docSD:
		case nested && found:
			first, _, _ := strings.Cut(list[i].Path, ".")
			list[i].Path = fmt.Sprintf("{%s, %s}.%s", first, object, name)
		default:
			if sds[f.Path] {
				f.Takes = "mean and sd"
			}
			if list = append(list, f); nested {
				rowOf[common] = len(list) - 1
			}
		}
	}
	return list
}
