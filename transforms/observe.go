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
	Register(observed, func(_ context.Context, name string) Decoder { return &observing{observe: observerOf(name)} })
}

// observed is the name of the decoder that calls a user's function. Its setting is the name of this function.
const observed = "hafvf.observed"

// An observer makes an observation of an element.
type observer func(element any) (string, keyed.Observation, error)

// observers has the functions of this process, by name. A worker in another process has only the functions that are
// registered with Beam.
var (
	observers sync.Map
	closures  atomic.Int64
)

// registerObserve registers a user's function f for the elements of col. It panics if f does not take them.
func registerObserve[T any](transform string, f any, observe func(T) (string, keyed.Observation, error), col beam.PCollection) Registered {
	paramType, elemType := reflect.TypeFor[T](), col.Type()
	if elemType.Type() != paramType && (paramType.Kind() != reflect.Interface || !elemType.Type().Implements(paramType)) {
		panic(fmt.Sprintf("transforms.%s: observe takes %v, and the elements of the input are %v", transform, paramType, elemType))
	}
	name := reflectx.FunctionName(f)
	if isClosure(name) { // closures with one name may have captured different values
		name = fmt.Sprintf("%s#%d", name, closures.Add(1))
	}
	observers.Store(name, observer(func(element any) (string, keyed.Observation, error) { return observe(element.(T)) }))
	return Registered{observed, name}
}

// withoutError returns observe as a function that accepts all elements.
func withoutError[T any](observe func(T) (string, keyed.Observation)) func(T) (string, keyed.Observation, error) {
	return func(element T) (string, keyed.Observation, error) {
		key, o := observe(element)
		return key, o, nil
	}
}

// isClosure reports whether name is the name of a function literal or a method value, whose captured values another
// process does not have, or of a generic function, all of whose instances have one name.
func isClosure(name string) bool {
	last := name[strings.LastIndexByte(name, '/')+1:]
	return strings.Contains(last, ".func") || strings.HasSuffix(last, "-fm") || strings.HasSuffix(last, "[...]")
}

// observerOf returns the observer with a name, or the function that is registered with Beam under this name.
func observerOf(name string) observer {
	if f, ok := observers.Load(name); ok {
		return f.(observer)
	}
	if !isClosure(name) {
		f, err := runtime.ResolveFunction(name, reflect.TypeFor[func()]())
		if v := reflect.ValueOf(f); err == nil && v.Type().NumIn() == 1 && v.Type().NumOut() >= 2 {
			return func(element any) (key string, o keyed.Observation, err error) {
				out := v.Call([]reflect.Value{reflect.ValueOf(element)})
				if len(out) > 2 {
					err, _ = out[2].Interface().(error)
				}
				return out[0].String(), out[1].Interface().(keyed.Observation), err
			}
		}
	}
	panic("transforms: a worker in another process does not know " + name + ": observe has to be a function with a name, registered in an init function by register.Function1x2, or by register.Function1x3 if it returns an error")
}

// A logged element is a record of a log, such as a kafkaio.Record.
type logged interface {
	// LogPosition returns the log and the position of the record in the log, as in keyed.Observation.
	LogPosition() (log string, seq int64)
}

// observing is the Decoder of an observer.
type observing struct {
	observe observer
	err     error // of the last observe, for decoding
}

// Decode implements Decoder. Observations of a log's records get their position, unless observe has set it.
func (d *observing) Decode(element any, take func(string, *keyed.Observation) error, reject func([]byte, int)) {
	var key string
	var o keyed.Observation
	key, o, d.err = d.observe(element)
	if r, ok := element.(logged); ok && o.Log == "" {
		o.Log, o.Seq = r.LogPosition()
	}
	if err := take(key, &o); err != nil {
		reject(appendObject(nil, "", &keyed.Rejected{Key: key, Observation: o, Reason: err.Error()}), 1)
	}
}
