package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

var (
	pathName    = regexp.MustCompile(`^\.?[\w.<>-]*(/[\w.<>-]*)+$|^[\w.<>-]+\.(go|md|html|css|js|yml)$`)
	goName      = regexp.MustCompile(`^[A-Za-z]\w+$`)
	placeholder = regexp.MustCompile(`<\w+>`)
	span        = regexp.MustCompile("`([^`\n]+)`|(?m)^    (\\S.*)$")
	testedName  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
)

// TestContributing checks that the files that CONTRIBUTING names exist, that each name in a section occurs in one
// of the section's files, and that the packages of its commands have the tests and flags that the commands name.
func TestContributing(t *testing.T) {
	for section := range strings.SplitSeq(read(t, "CONTRIBUTING.md"), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		if title != "Glossary" {
			checkSection(t, title, section)
		}
	}
}

// TestFigureCommands checks that the tests and benchmarks exist that commands of the documents and of the tables of
// figures name. The figures of earlier versions have commands of these versions.
func TestFigureCommands(t *testing.T) {
	tests := ""
	listed := exec.Command("git", "ls-files", "*_test.go")
	listed.Dir = root
	for name := range strings.FieldsSeq(string(expect.Get(listed.Output())(t))) {
		for _, m := range testedName.FindAllStringSubmatch(read(t, name), -1) {
			tests += m[1] + "\n"
		}
	}
	command := regexp.MustCompile(`-(?:bench|run) (?:'([^']+)'|(\w+))`)
	for _, pattern := range []string{"*.md", "*/*.md", "testdata/benchmarks/*.csv"} {
		for _, path := range expect.Get(filepath.Glob(filepath.Join(root, pattern)))(t) {
			text := strings.ReplaceAll(read(t, path[len(root)+1:]), `\|`, "|")
			for _, m := range command.FindAllStringSubmatch(text, -1) {
				name, _, _ := strings.Cut(m[1]+m[2], "/")
				earlier := strings.HasSuffix(path, "earlier-versions.csv") || name == "xxx"
				if !earlier && !regexp.MustCompile("(?m)"+name).MatchString(tests) {
					t.Errorf("%s: no test or benchmark is called %s", path, name)
				}
			}
		}
	}
}

// TestFolders checks that the table of folders in CONTRIBUTING has the first sentence of each package comment: go
// test ./internal/documents -run Folders -update writes it.
func TestFolders(t *testing.T) {
	var table strings.Builder
	table.WriteString("| folder | what it is |\n|---|---|\n")
	list := exec.Command("go", "list", "-f", "{{if .Doc}}| `{{.ImportPath}}/` | {{.Doc}} |{{end}}", "./...")
	list.Dir = root
	for row := range strings.Lines(string(expect.Get(list.Output())(t))) {
		row = regexp.MustCompile(`\| (?:Package [a-z0-9]+|Hafvf|Hafvf-lab) `).ReplaceAllString(strings.Replace(row, "`hafvf/", "`", 1), "| ")
		if !strings.Contains(row, "`internal/testing/") {
			table.WriteString(row)
		}
	}
	expectTable(t, "CONTRIBUTING.md", "folders", table.String())
}

// retired are private words of this module that must not be identifiers: the glossary has terms for their meanings.
var retired = []string{
	"told", "tell", "tells", "untold", "held", "calm", "look", "looks", "lapse", "lapsed", "lapses", "pulse", "odd", "settle", "settles", "settled", "unsettled",
	"anew", "met", "passed", "speak", "speaks", "hear", "hears", "heard", "deaf", "misfit", "misfits", "adopted", "stretch", "stretches",
}

// TestGlossary checks that no type, function, method, field or constant of the module contains a retired word.
func TestGlossary(t *testing.T) {
	words := regexp.MustCompile(`[A-Z]+(?:[^a-z]|$)|[A-Z]?[a-z0-9]+`)
	check := func(name *ast.Ident) {
		for _, word := range words.FindAllString(name.Name, -1) {
			if slices.Contains(retired, strings.ToLower(word)) && name.Name != "beginAnew" { // the flag's
				t.Errorf("%s has the word %q, which is retired: see CONTRIBUTING, Glossary", name.Name, word)
			}
		}
	}
	eachFile(t, func(_ string, f *ast.File, _ func(token.Pos) int) {
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				check(f.Name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return false // locals are not checked
			case *ast.TypeSpec:
				check(n.Name)
			case *ast.ValueSpec:
				for _, name := range n.Names {
					check(name)
				}
			case *ast.Field:
				for _, name := range n.Names {
					check(name)
				}
			}
			return true
		})
	})
}

// TestSize checks that product files have at most 700 lines, and functions at most 80.
func TestSize(t *testing.T) {
	eachFile(t, func(path string, file *ast.File, line func(token.Pos) int) {
		if n := line(file.FileEnd); n > 700 {
			t.Errorf("%s has %d lines", path, n)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && line(f.End())-line(f.Pos()) >= 80 {
				t.Errorf("%s: %s has %d lines", path, f.Name, line(f.End())-line(f.Pos())+1)
			}
		}
	})
}

// eachFile calls f with each Go file of the product. line returns the line of a position.
func eachFile(t *testing.T, f func(path string, file *ast.File, line func(token.Pos) int)) {
	t.Helper()
	expect.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"testdata", "testing", "hafvf-lab", ".git"}, d.Name()):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			set := token.NewFileSet()
			f(path, expect.Get(parser.ParseFile(set, path, nil, parser.SkipObjectResolution))(t), func(pos token.Pos) int { return set.Position(pos).Line })
		}
		return nil
	}))
}

func checkSection(t *testing.T, title, section string) {
	folders, names, text := []string{"."}, []string{}, ""
	add := func(folder string) {
		if !slices.Contains(folders, folder) {
			folders, text = append(folders, folder), text+sources(t, folder)
		}
	}
	for _, m := range span.FindAllStringSubmatch(section, -1) {
		words := strings.Fields(m[1] + m[2])
		switch {
		case len(words) > 1 && (words[0] == "go" || words[0] == "bash"):
			checkCommand(t, title, words)
		case len(words) == 1 && pathName.MatchString(words[0]):
			found := false
			for _, folder := range folders {
				matches := expect.Get(filepath.Glob(filepath.Join(root, folder, placeholder.ReplaceAllString(words[0], "*"))))(t)
				for _, path := range matches {
					if found = true; strings.HasSuffix(words[0], "/") {
						add(strings.TrimPrefix(path, root+"/"))
					} else {
						add(strings.TrimPrefix(filepath.Dir(path), root+"/"))
					}
				}
			}
			if !found {
				t.Errorf("%s: there is no %s", title, words[0])
			}
		case len(words) == 1 && goName.MatchString(words[0]):
			names = append(names, words[0])
		}
	}
	for _, name := range names {
		if text != "" && !regexp.MustCompile(`\b`+name+`\b`).MatchString(text) {
			t.Errorf("%s: no file of %v has the name %s", title, folders, name)
		}
	}
}

// sources returns the text of the Go files of a folder.
func sources(t *testing.T, folder string) (text string) {
	for _, name := range expect.Get(filepath.Glob(filepath.Join(root, folder, "*.go")))(t) {
		text += string(expect.Get(os.ReadFile(name))(t))
	}
	return text
}

// checkCommand checks a command of go test, or of a script.
func checkCommand(t *testing.T, title string, words []string) {
	if words[0] == "bash" {
		if _, err := os.Stat(filepath.Join(root, words[1])); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		return
	}
	text, tests := "", 0
	for _, word := range words[2:] {
		if !strings.HasPrefix(word, "./") {
			continue
		}
		folder := strings.TrimSuffix(word, "/...")
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		text += sources(t, folder)
	}
	for i, word := range words {
		flag := strings.TrimPrefix(word, "-")
		switch {
		case flag == word || words[1] != "test" || slices.Contains([]string{"short", "v", "count", "timeout", "bench", "benchtime"}, flag):
		case flag == "run":
			pattern := regexp.MustCompile(strings.Trim(words[i+1], "'"))
			for _, m := range testedName.FindAllStringSubmatch(text, -1) {
				if pattern.MatchString(m[1]) {
					tests++
				}
			}
			if tests == 0 {
				t.Errorf("%s: no test of %v is called %s", title, words, pattern)
			}
		case !regexp.MustCompile(`\.\w+\("` + flag + `"`).MatchString(text):
			t.Errorf("%s: %v: there is no flag -%s", title, words, flag)
		}
	}
}
