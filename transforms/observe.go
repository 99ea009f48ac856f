package transforms

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"

	"hafvf/hafvf/keyed"
)

func init() {
	Register(observed, func(_ context.Context, name string) Decoder { return observerOf(name) })
}

// observed is the name of the decoder of elements that a user's function observes. Its setting is the
// name of that function.
const observed = "hafvf.observed"

// An observer makes an observation of an element.
type observer func(element any) (string, keyed.Observation)

// observers are those of this process, by name. A worker in another process has those alone that are
// registered with Beam.
var (
	observers sync.Map
	closures  atomic.Int64
)

// observing registers a function of the user for the elements of a collection. It panics if the function
// takes elements of another type.
func observing[T any](transform string, observe func(T) (string, keyed.Observation), col beam.PCollection) Registered {
	takes, is := reflect.TypeFor[T](), col.Type()
	if is.Type() != takes && (takes.Kind() != reflect.Interface || !is.Type().Implements(takes)) {
		panic(fmt.Sprintf("transforms.%s: observe takes %v, and the elements of the input are %v", transform, takes, is))
	}
	name := reflectx.FunctionName(observe)
	if isClosure(name) { // others of that name differ in what they have captured
		name = fmt.Sprintf("%s#%d", name, closures.Add(1))
	}
	observers.Store(name, observer(func(element any) (string, keyed.Observation) { return observe(element.(T)) }))
	return Registered{observed, name}
}

// isClosure reports whether that is the name of a function literal or a method value, of which no other
// process can know what it has captured, or of a generic function, of which all instances have one name.
func isClosure(name string) bool {
	last := name[strings.LastIndexByte(name, '/')+1:]
	return strings.Contains(last, ".func") || strings.HasSuffix(last, "-fm") || strings.HasSuffix(last, "[...]")
}

// observerOf returns the observer of that name, or the function of that name that is registered with Beam.
func observerOf(name string) observer {
	if of, ok := observers.Load(name); ok {
		return of.(observer)
	}
	if !isClosure(name) {
		f, err := runtime.ResolveFunction(name, reflect.TypeFor[func()]())
		if v := reflect.ValueOf(f); err == nil && v.Type().NumIn() == 1 && v.Type().NumOut() == 2 {
			return func(element any) (string, keyed.Observation) {
				out := v.Call([]reflect.Value{reflect.ValueOf(element)})
				return out[0].String(), out[1].Interface().(keyed.Observation)
			}
		}
	}
	panic("transforms: a worker in another process does not know " + name + ": observe has to be a function with a name, registered in an init function by register.Function1x2")
}

// Decode implements Decoder.
func (of observer) Decode(element any, take func(string, *keyed.Observation) error, reject func([]byte, int)) {
	key, o := of(element)
	if err := take(key, &o); err != nil {
		reject(appendObject(nil, "", &keyed.Rejected{Key: key, Observation: o, Reason: err.Error()}), 1)
	}
}
