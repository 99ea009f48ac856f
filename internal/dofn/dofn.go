// Package dofn registers structural DoFns with Beam with a hundredth of the code that register.DoFnNxM compiles.
// register.DoFnNxM instantiates callers for every possible StartBundle and FinishBundle (tens of thousands of
// functions, 150 MB of object code for ten DoFns; Beam 2.77.0). But only ProcessElement is called for every
// element.
package dofn

import (
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
)

// Register registers the DoFn *D. process returns the method ProcessElement. Beam calls the method without
// reflection if its type is registered too:
//
//	register.Function2x0((&decodeFn{}).ProcessElement)
//	dofn.Register(func(f *decodeFn) any { return f.ProcessElement })
func Register[D any](process func(*D) any) {
	t := reflect.TypeFor[D]()
	beam.RegisterDoFn(t)
	reflectx.RegisterStructWrapper(t, func(fn any) map[string]reflectx.Func {
		return map[string]reflectx.Func{"ProcessElement": reflectx.MakeFunc(process(fn.(*D)))}
	})
}

// Bytes is the type []byte of elements.
var Bytes = typex.New(reflectx.ByteSlice)

// CheckInput panics if the elements of col do not have the type want. Without it, Beam's panic names an unexported
// DoFn.
func CheckInput(transform string, col beam.PCollection, want typex.FullType) {
	if got := col.Type(); !typex.IsEqual(got, want) {
		panic(fmt.Sprintf("%s takes a PCollection<%v>, but the elements of the input are %v", transform, want, got))
	}
}
