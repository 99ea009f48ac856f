package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"hafvf/internal/testing/expect"
)

// TestDeployCommands checks that the program accepts the command lines in compose files, manifests and documents of
// deploy.
func TestDeployCommands(t *testing.T) {
	t.Parallel()
	const deploy = "../../deploy"
	lines := map[string][]string{}
	var files []string
	for _, pattern := range []string{"compose*.yaml", "kubernetes/*.yaml", "kubernetes/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(deploy, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		text := expect.Get(os.ReadFile(name))(t)
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var doc yaml.Node
			if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, words := range commands(t, &doc) {
				lines[name+": "+strings.Join(words, " ")] = words
			}
		}
	}
	for _, page := range []string{"README.md", "flink.md", "reference.md"} {
		text := expect.Get(os.ReadFile(filepath.Join(deploy, page)))(t)
		for _, m := range regexp.MustCompile(`(?m)^    (?:.* )?(?:hafvf|/hafvf|run --rm hafvf) ((?:run|check|status|stop|worker)\b[^#\n]*)`).FindAllStringSubmatch(string(text), -1) {
			lines[page+": "+m[1]] = strings.Fields(m[1])
		}
	}
	if len(lines) < 10 {
		t.Fatalf("found only %d command lines", len(lines))
	}
	for name, words := range lines {
		t.Run(name, func(t *testing.T) {
			if code, _, stderr := program.Run(t, "", "", append(slices.Clone(words), "--help")...); code != 0 {
				t.Error(stderr)
			}
		})
	}
}

// commands returns the arguments of every container with the image hafvf. A compose service that overrides another
// may omit the image.
func commands(t *testing.T, n *yaml.Node) (lines [][]string) {
	if n.Kind == yaml.MappingNode {
		var c struct {
			Image         string
			Command, Args yaml.Node
		}
		if err := n.Decode(&c); err == nil && (c.Image == "hafvf" || c.Image == "" && len(c.Command.Content) > 0) {
			words := &c.Command
			if len(c.Args.Content) > 0 {
				words = &c.Args
			}
			var line []string
			if err := words.Decode(&line); len(words.Content) > 0 && err != nil {
				t.Errorf("line %d: %v", words.Line, err)
			} else if len(line) > 0 {
				lines = append(lines, line)
			}
		}
	}
	if n.Kind == yaml.AliasNode {
		return lines
	}
	for _, child := range n.Content {
		lines = append(lines, commands(t, child)...)
	}
	return lines
}
