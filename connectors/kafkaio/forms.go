package kafkaio

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// A Reading turns records of a fetch into JSON, in place, from the form that they have in
// the topic. It sets the Finding of those that it cannot turn. An error ends the source. It
// waits for what it needs, and returns the cause of ctx if that ends first. Goroutines of
// several partitions call it at once.
type Reading func(ctx context.Context, log *slog.Logger, records []Record) error

// A Writing returns the value of the message that a line of JSON becomes. It waits as a
// Reading does. One goroutine at a time calls it.
type Writing func(ctx context.Context, log *slog.Logger, line []byte) ([]byte, error)

// A Form names a registered Reading or Writing, and the text that it is made of. It travels
// to workers. The zero Form leaves records and lines as they are.
type Form struct{ Name, Setting string }

// A Finding is what a Reading says of a record beside its key and value.
type Finding struct {
	Reason    string // why the value is still what came, empty if it is JSON
	KeyReason string // why the key cannot be used, empty if it can
	KeyFields []byte // of a key with fields: these, as a JSON object
}

var readings, writings sync.Map // of func(setting string) Reading or Writing, by name

// RegisterReading registers under a name what makes a Reading of Form.Setting. Call it in an
// init function, so that workers that run the same program know it too. It panics if the
// name is taken.
func RegisterReading(name string, of func(setting string) Reading) { addForm(&readings, name, of) }

// RegisterWriting is RegisterReading for a Writing.
func RegisterWriting(name string, of func(setting string) Writing) { addForm(&writings, name, of) }

func addForm(all *sync.Map, name string, of any) {
	if _, taken := all.LoadOrStore(name, of); taken {
		panic("kafkaio: form " + name + " exists already")
	}
}

// Reading is nil for the zero Form.
func (f Form) Reading() Reading {
	if f.Name == "" {
		return nil
	}
	return known(&readings, "form", f.Name).(func(string) Reading)(f.Setting)
}

// writing is nil for the zero Form.
func (f Form) writing() Writing {
	if f.Name == "" {
		return nil
	}
	return known(&writings, "form", f.Name).(func(string) Writing)(f.Setting)
}

func known(all *sync.Map, what, name string) any {
	of, ok := all.Load(name)
	if !ok {
		panic(fmt.Sprintf("kafkaio: no %s %q is registered", what, name))
	}
	return of
}

// read has the fetcher's records read, and counts what they have grown by.
func (f *fetcher) read(ctx context.Context, b *batch) error {
	if f.reading == nil || len(b.records) == 0 {
		return nil
	}
	before := 0
	for i := range b.records {
		before += len(b.records[i].Value)
	}
	if err := f.reading(ctx, f.log, b.records); err != nil {
		return err
	}
	more := -before
	for i := range b.records {
		more += len(b.records[i].Value)
	}
	if more > 0 { // what came is still held by the keys
		b.bytes += more
		f.ahead.add(more)
	}
	return nil
}
