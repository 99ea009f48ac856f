package documents

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// members are the names in a scope: the names of a package, or the fields and methods of all types with one name.
type members struct {
	names map[string]bool
	open  bool // a type embeds another type, whose members are not known
}

func (m *members) has(name string) bool { return m == nil || m.open || m.names[name] }

// names are the names in the module's code. The type of a name in a comment is not known.
type names struct {
	packages, types map[string]*members
	values          map[string]bool // fields, variables and constants, whose type is not known
	external        map[string]bool // packages of other modules
}

func (n *names) in(scopes map[string]*members, scope string) *members {
	if scopes[scope] == nil {
		scopes[scope] = &members{names: map[string]bool{}}
	}
	return scopes[scope]
}

func (n *names) addFile(f *ast.File) {
	scope := n.in(n.packages, f.Name.Name)
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if !strings.HasPrefix(path, "hafvf/") {
			n.external[path[strings.LastIndexByte(path, '/')+1:]] = true
		}
	}
	for name, object := range f.Scope.Objects {
		scope.names[name] = true
		if object.Kind != ast.Typ {
			n.values[name] = true
		}
	}
	ast.Inspect(f, func(node ast.Node) bool {
		switch d := node.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				t := d.Recv.List[0].Type
				if star, ok := t.(*ast.StarExpr); ok {
					t = star.X
				}
				if generic, ok := t.(*ast.IndexExpr); ok {
					t = generic.X
				}
				if name, ok := t.(*ast.Ident); ok {
					n.in(n.types, name.Name).names[d.Name.Name] = true
				}
			}
		case *ast.TypeSpec:
			own := n.in(n.types, d.Name.Name)
			var fields *ast.FieldList
			switch t := d.Type.(type) {
			case *ast.StructType:
				fields = t.Fields
			case *ast.InterfaceType:
				fields = t.Methods
			default:
				own.open = own.open || d.Assign.IsValid() || !isBasic(t)
				return true
			}
			for _, field := range fields.List {
				own.open = own.open || len(field.Names) == 0
				for _, name := range field.Names {
					own.names[name.Name], n.values[name.Name] = true, true
				}
			}
		}
		return true
	})
}

func isBasic(t ast.Expr) bool {
	switch t.(type) {
	case *ast.ArrayType, *ast.MapType, *ast.FuncType, *ast.ChanType:
		return true
	}
	name, ok := t.(*ast.Ident)
	return ok && ast.IsExported(name.Name) == false
}

var (
	qualified = regexp.MustCompile(`(?:^|[^\w./@-])([A-Za-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	aPackage  = regexp.MustCompile(`(?:^P|\b(?:see|in|of|from|by) p)ackage ([a-z]\w+)\b(?:[^/]|$)`)
	notProse  = regexp.MustCompile(`(?m)^[\t ].*$|"[^"\n]*"`) // code and quotations
)

// unresolved returns why a.b, or a.b.c, names nothing; empty if it may. A plural s is not part of a name.
func (n *names) unresolved(a, b, c string) string {
	found := func(m *members, name string) bool { return m.has(name) || m.has(strings.TrimSuffix(name, "s")) }
	pkg, typ := n.packages[a], n.types[a]
	switch {
	case n.external[a] || n.values[a] || pkg != nil && found(pkg, b) && (c == "" || n.types[b] == nil || found(n.types[b], c)) || typ != nil && found(typ, b):
		return ""
	case typ != nil:
		return "type " + a + " has no " + b
	case ast.IsExported(a):
		return "there is no type " + a
	case pkg != nil:
		return "package " + a + " has no " + strings.TrimSuffix(b+"."+c, ".")
	}
	return ""
}

// TestNamesInComments resolves Type.Member, package.Name and "package name" in comments. Comments name a type of another module with its
// package.
func TestNamesInComments(t *testing.T) {
	n := &names{map[string]*members{}, map[string]*members{}, map[string]bool{}, map[string]bool{}}
	files, parsed := token.NewFileSet(), []*ast.File{}
	expect.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			f := expect.Get(parser.ParseFile(files, path, nil, parser.ParseComments))(t)
			n.addFile(f)
			parsed = append(parsed, f)
		}
		return err
	}))
	for _, f := range parsed {
		for _, comment := range f.Comments {
			text := notProse.ReplaceAllString(comment.Text(), "")
			for _, m := range qualified.FindAllStringSubmatch(text, -1) {
				if why := n.unresolved(m[1], m[2], m[3]); why != "" {
					t.Errorf("%s: %s", files.Position(comment.Pos()), why)
				}
			}
			for _, m := range aPackage.FindAllStringSubmatch(text, -1) {
				if n.packages[m[1]] == nil && !n.external[m[1]] {
					t.Errorf("%s: there is no package %s", files.Position(comment.Pos()), m[1])
				}
			}
		}
	}
}
