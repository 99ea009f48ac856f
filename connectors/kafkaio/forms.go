package kafkaio

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// A Reading converts the records of a fetch to JSON, in place. It sets the DecodeInfo of records that it cannot
// convert. An error ends the source. If ctx ends while a Reading waits, for example for a registry, it returns the
// cause of ctx. Goroutines of several partitions call a Reading concurrently.
type Reading func(ctx context.Context, log *slog.Logger, records []Record) error

// A Writing converts a line of JSON to the value of a message. If ctx ends while it waits, it returns the cause of
// ctx. Calls are not concurrent.
type Writing func(ctx context.Context, log *slog.Logger, line []byte) ([]byte, error)

// A Form selects a registered Reading and Writing by Name. Setting is the argument of their factories. Forms are sent
// to workers. The zero Form leaves records and lines unchanged.
type Form struct{ Name, Setting string }

// A DecodeInfo is what a Reading reports about a record, in addition to its key and value.
type DecodeInfo struct {
	Reason    string // why the value could not be converted; empty if it is JSON
	KeyReason string // why the key cannot be used; empty if it can
	KeyFields []byte // fields of the key as a JSON object; nil for a key without fields
}

// A registry holds factories by name. A factory makes an F from a setting.
type registry[F any] struct {
	kind      string
	factories sync.Map // name to func(setting string) F
}

func (r *registry[F]) register(name string, factory func(setting string) F) {
	if _, exists := r.factories.LoadOrStore(name, factory); exists {
		panic("kafkaio: " + r.kind + " " + name + " is already registered")
	}
}

// make calls the factory of name. It returns the zero F if name is empty, and panics if name is not registered.
func (r *registry[F]) make(name, setting string) (result F) {
	if name == "" {
		return result
	}
	factory, ok := r.factories.Load(name)
	if !ok {
		panic(fmt.Sprintf("kafkaio: no %s %q is registered", r.kind, name))
	}
	return factory.(func(string) F)(setting)
}

var (
	readings = registry[Reading]{kind: "form"}
	writings = registry[Writing]{kind: "form"}
	clocks   = registry[Clock]{kind: "clock"}
)

// RegisterForm registers the factories of a Form under name. They are called with Form.Setting. Call RegisterForm in
// an init function, so that workers that run the same program register the Form too. It panics if the name is already
// registered.
func RegisterForm(name string, reading func(setting string) Reading, writing func(setting string) Writing) {
	readings.register(name, reading)
	writings.register(name, writing)
}

// Reading returns the form's Reading, or nil for the zero Form.
func (f Form) Reading() Reading { return readings.make(f.Name, f.Setting) }

// writing returns the form's Writing, or nil for the zero Form.
func (f Form) writing() Writing { return writings.make(f.Name, f.Setting) }

// read applies the fetcher's Reading to the records of b, and adds their growth to the sizes of b and of the budget.
func (f *fetcher) read(ctx context.Context, b *batch) error {
	if f.reading == nil || len(b.records) == 0 {
		return nil
	}
	size := func() (n int) {
		for i := range b.records {
			n += len(b.records[i].Value)
		}
		return n
	}
	before := size()
	if err := f.reading(ctx, f.log, b.records); err != nil {
		return err
	}
	if more := size() - before; more > 0 { // the keys still hold the original memory, so a shrunk batch frees none
		b.bytes += more
		f.ahead.add(more)
	}
	return nil
}
