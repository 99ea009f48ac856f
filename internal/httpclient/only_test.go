package httpclient

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// of net/http, what makes requests without a Client.
var others = []string{"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"}

// No other file of the module makes requests but by a Client, apart from what tests start. A
// pointer to a client is one that was given.
func TestOnlyClient(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch name = filepath.ToSlash(name); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name == "internal/httpclient" || name == "internal/testing" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		files++
		for _, found := range uses(t, path) {
			t.Errorf("%s makes requests by itself: take internal/httpclient", found)
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files, %v", files, err)
	}
}

// uses are the places of a file that use others.
func uses(t *testing.T, path string) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	f := expect.Get(parser.ParseFile(set, path, nil, parser.SkipObjectResolution))(t)
	name := ""
	for _, i := range f.Imports {
		if i.Path.Value == `"net/http"` {
			if name = "http"; i.Name != nil {
				name = i.Name.Name
			}
		}
	}
	if name == "" {
		return nil
	}
	if name == "." {
		return []string{path + ": the dot import of net/http"}
	}
	given := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr:
			of, ok := n.X.(*ast.SelectorExpr)
			given[n.X] = ok && (of.Sel.Name == "Client" || of.Sel.Name == "Transport")
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Name == name && slices.Contains(others, n.Sel.Name) && !given[n] {
				found = append(found, set.Position(n.Pos()).String()+": http."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}
