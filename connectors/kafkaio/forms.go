package kafkaio

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// A Reading turns records of a fetch into JSON, in place, from the form that they have in
// the topic. It sets the DecodeInfo of those that it cannot turn. An error ends the source. It
// waits for what it needs, and returns the cause of ctx if that ends first. Goroutines of
// several partitions call it at once.
type Reading func(ctx context.Context, log *slog.Logger, records []Record) error

// A Writing returns the value of the message that a line of JSON becomes. It waits as a
// Reading does. One goroutine at a time calls it.
type Writing func(ctx context.Context, log *slog.Logger, line []byte) ([]byte, error)

// A Form names a registered Reading or Writing, and the text that it is made of. It travels
// to workers. The zero Form leaves records and lines as they are.
type Form struct{ Name, Setting string }

// A DecodeInfo is what a Reading says of a record beside its key and value.
type DecodeInfo struct {
	Reason    string // why the value is still what came, empty if it is JSON
	KeyReason string // why the key cannot be used, empty if it can
	KeyFields []byte // of a key with fields: these, as a JSON object
}

// A makers holds what makes an F of a setting, by name.
type makers[F any] struct {
	what string
	of   sync.Map // of func(setting string) F
}

func (m *makers[F]) register(name string, of func(setting string) F) {
	if _, taken := m.of.LoadOrStore(name, of); taken {
		panic("kafkaio: " + m.what + " " + name + " exists already")
	}
}

// make makes an F; the zero one without a name.
func (m *makers[F]) make(name, setting string) (made F) {
	if name == "" {
		return made
	}
	of, ok := m.of.Load(name)
	if !ok {
		panic(fmt.Sprintf("kafkaio: no %s %q is registered", m.what, name))
	}
	return of.(func(string) F)(setting)
}

var (
	readings = makers[Reading]{what: "form"}
	writings = makers[Writing]{what: "form"}
	clocks   = makers[Clock]{what: "clock"}
)

// RegisterForm registers under a name what makes a Reading of Form.Setting, and a Writing. Call it in an
// init function, so that workers that run the same program know it too. It panics if the
// name is taken.
func RegisterForm(name string, reading func(setting string) Reading, writing func(setting string) Writing) {
	readings.register(name, reading)
	writings.register(name, writing)
}

// Reading is nil for the zero Form.
func (f Form) Reading() Reading { return readings.make(f.Name, f.Setting) }

// writing is nil for the zero Form.
func (f Form) writing() Writing { return writings.make(f.Name, f.Setting) }

// read has the fetcher's records read, and counts what they have grown by.
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
	if more := size() - before; more > 0 { // what came is still held by the keys
		b.bytes += more
		f.ahead.add(more)
	}
	return nil
}
