// Package must ends a test whose set-up fails.
package must

// A T is a test, a benchmark or a property.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if there is an error.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a value, and ends the test if there is an error instead: must.Get(os.ReadFile(path))(t).
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
