// Package expect has assertions for tests.
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

// T is a *testing.T, *testing.B, *testing.F or *rapid.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Long skips a test with -short. what names the skipped part, for the log.
func Long(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves out " + what)
	}
}

// Waits marks a test that mostly waits, for what it names. The test runs in parallel with others, and is skipped
// with -short.
func Waits(t *testing.T, what string) {
	t.Helper()
	Long(t, "what waits for "+what)
	t.Parallel()
}

// Together sets the number of parallel tests of a package to n, unless -parallel is set: they wait, and not for a
// processor. TestMain calls it after flag.Parse.
func Together(n int) {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		flag.Set(f.Name, fmt.Sprint(n)) // cannot fail for a number
	}
}

// Soon waits until cond returns true. It fails after a minute, far longer than any condition needs.
func Soon(t T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what, ": not within a minute")
		}
	}
}

// OK ends the test if err is not nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same fails the test if got differs from want. It prints where, as fmt.Sprint does, and the difference.
func Same(t T, want, got any, where ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%.4000s", fmt.Sprint(where...), diff)
	}
}

// Error fails the test if err is nil or does not contain text.
func Error(t T, err error, text string, where ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s error %v\nwithout %s", fmt.Sprint(where...), err, text)
	}
}

// Get returns v, or ends the test if err is not nil: expect.Get(os.ReadFile(path))(t).
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Form fails the test if v does not survive encoding and decoding with form, or if a prefix of the encoding can be
// decoded.
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
