// Package expect has the expectations that most tests have.
package expect

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"hafvf/internal/compact"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// T is a *testing.T, B or F, or a *rapid.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Long skips a test with -short, and says what is left out.
func Long(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out " + what)
	}
}

// Waits is for a test that waits most of the time, for what it names. It runs beside others, and
// not with -short.
func Waits(t *testing.T, what string) {
	t.Helper()
	Long(t, "what waits for "+what)
	t.Parallel()
}

// Together lets n parallel tests of a package run at once, where -parallel does not say how many:
// they wait, and not for a processor. TestMain calls it, after flag.Parse.
func Together(n int) {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set(f.Name, fmt.Sprint(n)) // which is a number
	}
}

// Soon waits until a condition holds, a minute at most. That is far longer than any takes.
func Soon(t T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what, ": not within a minute")
		}
	}
}

// OK ends the test if there is an error.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same fails the test if got is not what is wanted. It says how they differ, after where, which
// are printed as by fmt.Sprint.
func Same(t T, want, got any, where ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%.4000s", fmt.Sprint(where...), diff)
	}
}

// Error fails the test if err does not contain the text.
func Error(t T, err error, text string, where ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s error %v\nwithout %s", fmt.Sprint(where...), err, text)
	}
}

// Get returns a value, and ends the test if there is an error instead: expect.Get(os.ReadFile(path))(t).
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Form expects that v comes back from its form, and that no beginning of the bytes is one.
func Form[V any](t T, form func(*compact.Codec, *V), v V) {
	t.Helper()
	var got V
	b := compact.Encode(nil, v, form)
	OK(t, compact.Decode(b, &got, form))
	Same(t, "", cmp.Diff(v, got, cmpopts.EquateNaNs()))
	for n := range b {
		if compact.Decode(b[:n], &got, form) == nil {
			t.Errorf("%d of %d bytes can be read", n, len(b))
		}
	}
}
