package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

var (
	pathName   = regexp.MustCompile(`^\.?[\w.<>-]*(/[\w.<>-]*)+$|^[\w.<>-]+\.(go|md|html|css|js|yml)$`)
	goName     = regexp.MustCompile(`^[A-Za-z]\w+$`)
	hole       = regexp.MustCompile(`<\w+>`)
	span       = regexp.MustCompile("`([^`\n]+)`|(?m)^    (\\S.*)$")
	testedName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
)

// TestContributing: the files that CONTRIBUTING names exist, one of a section's has each name that stands
// in the section, and the packages of its commands have the tests and flags that these name.
func TestContributing(t *testing.T) {
	for section := range strings.SplitSeq(read(t, "CONTRIBUTING.md"), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		blocks := []string{section}
		if strings.Contains(section, "\n| folder |") { // a row is of the folder in its first cell
			blocks = strings.Split(section, "\n| ")
		}
		for _, block := range blocks {
			checkSection(t, title, block)
		}
	}
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
				matches := expect.Get(filepath.Glob(filepath.Join(root, folder, hole.ReplaceAllString(words[0], "*"))))(t)
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

// sources are the Go files of a folder.
func sources(t *testing.T, folder string) (text string) {
	for _, name := range expect.Get(filepath.Glob(filepath.Join(root, folder, "*.go")))(t) {
		text += string(expect.Get(os.ReadFile(name))(t))
	}
	return text
}

// checkCommand is of go test and of scripts.
func checkCommand(t *testing.T, title string, words []string) {
	if words[0] == "bash" {
		if _, err := os.Stat(filepath.Join(root, words[1])); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		return
	}
	all, tests := "", 0
	for _, word := range words[2:] {
		if !strings.HasPrefix(word, "./") {
			continue
		}
		folder := strings.TrimSuffix(word, "/...")
		if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		all += sources(t, folder)
	}
	for i, word := range words {
		flag := strings.TrimPrefix(word, "-")
		switch {
		case flag == word || words[1] != "test" || slices.Contains([]string{"short", "v", "count", "timeout", "bench", "benchtime"}, flag):
		case flag == "run":
			pattern := regexp.MustCompile(strings.Trim(words[i+1], "'"))
			for _, m := range testedName.FindAllStringSubmatch(all, -1) {
				if pattern.MatchString(m[1]) {
					tests++
				}
			}
			if tests == 0 {
				t.Errorf("%s: no test of %v is called %s", title, words, pattern)
			}
		case !regexp.MustCompile(`\.\w+\("` + flag + `"`).MatchString(all):
			t.Errorf("%s: %v: there is no flag -%s", title, words, flag)
		}
	}
}
