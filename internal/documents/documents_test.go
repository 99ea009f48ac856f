// Package documents checks the documents of this repository against each other.
package documents

import (
	"encoding/csv"
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text := expect.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}

// figure matches a figure that documents share. Each document ends with a list of them, hidden from readers, with
// the name of the figure and the words before it: "nab: `detect: true` scores [75.1]". A line may have several.
var figure = regexp.MustCompile(`([a-z0-9-]+): ([^\[\]\n]*)\[([^\]\n]+)\]`)

// figures returns the figures of a document by name.
func figures(t *testing.T, name string) map[string]string {
	t.Helper()
	text, list, _ := strings.Cut(read(t, name), "\n<!-- Figures ")
	text = strings.Join(strings.Fields(text), " ")
	values := map[string]string{}
	for _, m := range figure.FindAllStringSubmatch(list, -1) {
		if _, twice := values[m[1]]; twice || strings.Count(text, m[2]+m[3]) != 1 {
			t.Errorf("%s: %q has its figure not once in the text", name, m[0])
		}
		values[m[1]] = m[3]
	}
	return values
}

// code matches the parts of Markdown that are not prose: fenced blocks, indented blocks, and text between
// backticks.
var code = regexp.MustCompile("(?ms)^ *```.*?^ *```|^ {4,}.*?$|`[^`]*`")

// TestFigures checks that each figure of README and GUIDE equals its row in BENCHMARKS.
func TestFigures(t *testing.T) {
	rows := figures(t, "BENCHMARKS.md")
	quoted := map[string]bool{}
	for _, name := range []string{"README.md", "GUIDE.md"} {
		values := figures(t, name)
		for id, n := range values {
			if quoted[id] = true; n != rows[id] {
				t.Errorf("%s: %s is %q, and %q in BENCHMARKS.md", name, id, n, rows[id])
			}
		}
		// A number with a decimal point is a measurement, except the version of Go.
		prose, _, _ := strings.Cut(code.ReplaceAllString(read(t, name), ""), "\n<!-- Figures ")
		for _, n := range regexp.MustCompile(`\d*\.\d+`).FindAllString(prose, -1) {
			if !slices.ContainsFunc(slices.Collect(maps.Values(values)), func(f string) bool { return strings.Contains(f, n) }) && n != "1.26" {
				t.Errorf("%s: the figure %s is not in the list at its end", name, n)
			}
		}
	}
	for id := range rows {
		if !quoted[id] {
			t.Errorf("BENCHMARKS.md lists %s, which neither README.md nor GUIDE.md quotes", id)
		}
	}
}

// TestTables checks that BENCHMARKS names each file of figures, and that each file has a header.
func TestTables(t *testing.T) {
	text := read(t, "BENCHMARKS.md")
	files, err := filepath.Glob(filepath.Join(root, "testdata/benchmarks/*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if !strings.Contains(text, "](testdata/benchmarks/"+filepath.Base(name)+")") {
			t.Errorf("BENCHMARKS.md does not name %s", name)
		}
		f := expect.Get(os.Open(name))(t)
		if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) < 2 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
		f.Close()
	}
}

// TestLinks checks that the files and headings that links refer to exist.
func TestLinks(t *testing.T) {
	for _, pattern := range []string{"*.md", "*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(read(t, name[len(root)+1:]), -1) {
				path, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(path, "://") {
					continue
				}
				target := name
				if path != "" {
					target = filepath.Join(filepath.Dir(name), path)
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: %s: %v", name, m[1], err)
				} else if anchor != "" && !headings(t, target)[anchor] {
					t.Errorf("%s: %s: there is no such heading", name, m[1])
				}
			}
		}
	}
}

// headings returns the anchors of a document's headings.
func headings(t *testing.T, name string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(read(t, name[len(root)+1:]), -1) {
		letters := regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(letters, " ", "-")] = true
	}
	return anchors
}

// TestExamples checks that the programs in README and GUIDE are formatted and pass go vet.
func TestExamples(t *testing.T) {
	for _, name := range []string{"README.md", "GUIDE.md"} {
		t.Run(name, func(t *testing.T) {
			blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(read(t, name), -1)
			if len(blocks) == 0 {
				t.Fatal("no program")
			}
			for _, m := range blocks {
				expect.Same(t, m[1], string(expect.Get(format.Source([]byte(m[1])))(t)), "not formatted")
				file := filepath.Join(t.TempDir(), "main.go")
				expect.OK(t, os.WriteFile(file, []byte(m[1]), 0o600))
				cmd := exec.Command("go", "vet", file)
				cmd.Dir = root
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			}
		})
	}
}
