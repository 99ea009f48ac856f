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

// makers are the names of net/http that make requests without a Client.
var makers = []string{"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"}

// All files of the module make requests with a Client, except test servers. A pointer to an http.Client is allowed:
// it was received as an argument.
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
			t.Errorf("%s makes requests without a Client: use internal/httpclient", found)
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files, %v", files, err)
	}
}

// uses returns the positions in a file that use makers.
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
	pointers := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr:
			selector, ok := n.X.(*ast.SelectorExpr)
			pointers[n.X] = ok && (selector.Sel.Name == "Client" || selector.Sel.Name == "Transport")
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == name && slices.Contains(makers, n.Sel.Name) && !pointers[n] {
				found = append(found, set.Position(n.Pos()).String()+": http."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}
