package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSize: a file of the product has at most 700 lines, and a function 80.
func TestSize(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "internal/testing", "cmd/hafvf-lab"}, name):
			return fs.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		case name == "connectors/kafkaio/ledger.go": // until it is split
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		line := func(at token.Pos) int { return set.Position(at).Line }
		if n := line(file.FileEnd); n > 700 {
			t.Errorf("%s has %d lines", name, n)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && line(f.End())-line(f.Pos()) >= 80 {
				t.Errorf("%s: %s has %d lines", name, f.Name, line(f.End())-line(f.Pos())+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
