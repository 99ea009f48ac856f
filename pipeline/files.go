package pipeline

import (
	"context"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
	"hafvf/transforms"
)

var decodesFiles = registerDecoder("files", func(d *decode.Decoder, b connectors.Batch, pass func([]decode.Decoded)) {
	for part := range slices.Chunk(b.Records, decode.Together) {
		d.File(part, pass)
	}
})

// fileSource is a source of files.
type fileSource struct {
	connectors.Source
	fields config.Fields
	column tabular.Kind
	carry  []string // as configured
}

func newFileSource(c *config.Config) fileSource {
	source, fields := decode.Files(c)
	f := fileSource{source, fields, tabular.String, c.Source.Files().Carry} // the x of JSON has any shape
	if connectors.FormatOf(source.Format).Columns && len(fields.Values) == 1 || c.Aggregate != nil && len(fields.Values) == 0 {
		f.column = tabular.Number
	}
	return f
}

func (f fileSource) check(context.Context, *clients) error {
	if err := connectors.Check(f.Source); err != nil {
		return err
	}
	return decode.CheckTimes(f.Source, parserOfFields(f.fields))
}

// carrying returns the graph that carries what its source has, once that is known.
func (g *Graph) carrying() (*Graph, error) {
	f, ok := g.source.(fileSource)
	if !ok || len(f.carry) == 0 {
		return g, nil
	}
	found, err := decode.Carried(f.Source, f.fields, f.carry)
	if err != nil {
		return nil, err
	}
	here := *g
	f.fields.Carry = slices.Concat(f.fields.Carry, found)
	if connectors.FormatOf(f.Format).Columns {
		f.CarryFound = found
	}
	here.source = f
	switch t := g.transform.(type) {
	case filtering:
		t.layout.Carry = f.fields.Carry
		here.transform = t
	case smoothing:
		t.layout.Carry = f.fields.Carry
		here.transform = t
	}
	if g.sink.file != nil {
		file := *g.sink.file
		file.Columns, _ = here.transform.table(f.column)
		here.sink.file = &file
	}
	return &here, nil
}

func (f fileSource) describe() string   { return f.Format + " " + f.Path }
func (f fileSource) state() any         { return f.Path }
func (f fileSource) kind() tabular.Kind { return f.column }

// part: nobody can read the rest of standard input.
func (f fileSource) part(stopped, _ bool) bool { return !stopped || f.Path != "-" }

func (f fileSource) values() []string {
	if f.fields.Layout == config.Series { // the field is a list of them
		return []string{"value"}
	}
	return f.fields.Values
}

func (f fileSource) read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered) {
	return connectors.Read(s, f.Source), decodesFiles(decoding{f.Format, f.fields, f.Once()})
}
