package pipeline

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/connectors"
	"hafvf/internal/account"
	"hafvf/internal/message"
	"hafvf/internal/tabular"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
	"hafvf/transforms"
)

var decodesFiles = registerDecoder("files", func(d *decode.Decoder, b connectors.Batch, pass func([]decode.Decoded)) {
	for part := range slices.Chunk(b.Records, decode.MaxBatch) {
		d.File(part, pass)
	}
})

// fileSource is a source of files.
type fileSource struct {
	connectors.Source
	fields config.Fields
	column tabular.Kind
	carry  []string // names and patterns, as configured
	// piped is set if the watermark follows the times of the records on standard input.
	piped    bool
	disorder time.Duration
}

func newFileSource(c *config.Config) fileSource {
	source, fields := decode.Files(c)
	files := c.Source.Files()
	f := fileSource{Source: source, fields: fields, column: tabular.String, carry: files.Carry, piped: isPiped(c), disorder: files.Disorder} // in JSON, x can have any shape
	if connectors.FormatOf(source.Format).Columns && len(fields.Values) == 1 || c.Aggregate != nil && len(fields.Values) == 0 {
		f.column = tabular.Number
	}
	return f
}

func (f fileSource) check(context.Context, *clients) error {
	return connectors.Check(f.Source) // withFoundFields has checked the first records
}

// withFoundFields returns the graph with what the files of the source show: the columns or fields that the patterns of
// carry match, and the format of the times if it needs one.
func (g *Graph) withFoundFields(log *slog.Logger) (*Graph, error) {
	f, ok := g.source.(fileSource)
	if !ok {
		return g, nil
	}
	format, remark, err := decode.CheckFiles(f.Source, parserOfFields(f.fields))
	if err != nil {
		return nil, err
	}
	if remark != "" {
		log.Warn(remark)
	}
	clone := *g
	f.fields.TimeFormat = format
	clone.source = f
	if len(f.carry) == 0 {
		return &clone, nil
	}
	found, err := decode.CarriedColumns(f.Source, f.fields, f.carry)
	if err != nil {
		return nil, err
	}
	f.fields.Carry = slices.Concat(f.fields.Carry, found)
	if connectors.FormatOf(f.Format).Columns {
		f.CarryFound = found
	}
	clone.source = f
	switch t := g.transform.(type) {
	case filtering:
		t.layout.Carry = f.fields.Carry
		clone.transform = t
	case smoothing:
		t.layout.Carry = f.fields.Carry
		clone.transform = t
	}
	if g.sink.file != nil {
		file := *g.sink.file
		file.Columns, _ = clone.transform.table(f.column)
		clone.sink.file = &file
	}
	return &clone, nil
}

func (f fileSource) describe() string   { return f.Format + " " + f.Path }
func (f fileSource) state() any         { return f.Path }
func (f fileSource) kind() tabular.Kind { return f.column }

// leavesOutputs reports whether a run that ended early leaves its outputs unchanged. A stopped run on standard input
// does not: nobody can read the rest.
func (f fileSource) leavesOutputs(stopped, _ bool) bool { return !stopped || f.Path != "-" }

func (f fileSource) values() []string {
	if f.fields.Layout == config.Series { // one field holds a list of values
		return []string{"value"}
	}
	return f.fields.Values
}

// isPiped reports whether alarms wait for a watermark that the records on standard input advance. It is false if
// standard input is a regular file, because a file ends.
func isPiped(c *config.Config) bool {
	if !c.Source.StandardInput() || c.Incidents == nil {
		return false
	}
	info, err := os.Stdin.Stat()
	return err != nil || !info.Mode().IsRegular()
}

// addPipeClock adds the clock of a pipe to the run.
func (f fileSource) addPipeClock(r *run) {
	d := decode.NewDecoder(f.Format, parserOfFields(f.fields))
	account.WithValue(r.account, "", &connectors.PipeClock{
		Disorder: f.disorder,
		Observe: func(batch []connectors.Record, observe func(key string, t time.Time)) {
			for part := range slices.Chunk(batch, decode.MaxBatch) {
				d.File(part, func(found []decode.Decoded) {
					for i := range found {
						if found[i].Err == nil {
							observe(found[i].Key, found[i].Time)
						}
					}
				})
			}
		},
		Disordered: func(lag time.Duration) {
			r.log.Warn("records on standard input go back in time: incidents, digests and pages wait for its end",
				"by", message.Duration(lag.Round(time.Millisecond)), "disorder", message.Duration(f.disorder), "setting", "source."+f.Format+".disorder")
		},
	})
}

func (f fileSource) read(s beam.Scope) (batches beam.PCollection, decoder transforms.Registered) {
	read := connectors.Read
	if f.piped {
		read = connectors.ReadPipe
	}
	return read(s, f.Source), decodesFiles(decoding{f.Format, f.fields, f.ReadsOnce()})
}
