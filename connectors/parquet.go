package connectors

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"hafvf/internal/tabular"
)

var parquetFormat = Format{
	Name: Parquet, Title: "Parquet", Extensions: []string{".parquet", ".pq"}, Columns: true, Whole: true,
	Of:      "Parquet files.",
	Written: "One Parquet file.",
	open:    openParquet,
	encode:  newParquetEncoder,
}

// parquetReader reads the columns of the source in parallel, page by page.
type parquetReader struct {
	unread     []string // columns with unsupported types, if the source does not name its columns
	path, name string
	file       *os.File
	names      []string
	allGroups  []parquet.RowGroup
	groups     []parquet.RowGroup // row groups that are not read yet
	rowsLeft   int64              // rows left in the current group
	row        int64
	cols       []*parquetColumn
	width      int // fields of a record, including those without a column
	raw        rowText
	allColumns bool // see Source.withAllColumns
}

// parquetColumn is a cursor in one column.
type parquetColumn struct {
	name    string
	field   int // position in a record
	leaf    int
	text    func(parquet.Value) string
	pages   parquet.Pages
	page    parquet.Page
	values  parquet.ValueReader
	buf     []parquet.Value
	pending []parquet.Value // values that next has not returned: the end of buf
}

func openParquet(path string, src Source, _ *skippedLines) (_ recordReader, err error) {
	if Unpacked(path) != path {
		return nil, fmt.Errorf("%s: parquet is compressed inside the file and cannot be read from a compressed one: decompress it first", path)
	}
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	var pf *parquet.File
	err = catchPanic(func() (err error) {
		pf, err = parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(256<<10))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s is not a complete parquet file: %w", path, err)
	}
	p := &parquetReader{path: path, name: src.name(path), allColumns: src.allColumns, file: f, allGroups: pf.RowGroups(), groups: pf.RowGroups()}
	columns := pf.Root().Columns()
	if err := checkWidth(path, len(columns)); err != nil {
		return nil, err
	}
	if src.allColumns || src.Wide {
		columns = slices.DeleteFunc(slices.Clone(columns), func(col *parquet.Column) bool {
			unread := parquetText(col) == nil
			if unread {
				p.unread = append(p.unread, fmt.Sprintf("%q is of type %s", col.Name(), col.Type()))
			}
			return unread
		})
	}
	for _, col := range columns {
		p.names = append(p.names, col.Name())
	}
	index, err := src.locate(path, p.names)
	if err != nil {
		return nil, err
	}
	p.width = len(index)
	for i, column := range index {
		if column < 0 {
			continue
		}
		col := columns[column]
		text := parquetText(col)
		if text == nil {
			return nil, fmt.Errorf("%s: column %q is of type %s, which cannot be read: it must be a plain number, decimal, string, boolean, date or timestamp", path, col.Name(), col)
		}
		p.cols = append(p.cols, &parquetColumn{
			name: col.Name(), field: i, leaf: int(col.Index()), text: text, buf: make([]parquet.Value, 1024),
		})
	}
	return p, nil
}

// catchPanic calls f, and turns a panic into an error. The parquet library panics for some damaged files.
func catchPanic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return f()
}

// parquetText returns a function that formats the values of a column, or nil if the column's type is not supported.
func parquetText(col *parquet.Column) func(parquet.Value) string {
	if !col.Leaf() || col.Repeated() {
		return nil
	}
	typ := col.Type()
	if lt := typ.LogicalType(); lt != nil {
		switch lt := lt.Value.(type) {
		case nil:
		case *format.TimestampType:
			switch lt.Unit.Value.(type) {
			case *format.MilliSeconds:
				return func(v parquet.Value) string { return timeText(time.UnixMilli(v.Int64())) }
			case *format.MicroSeconds:
				return func(v parquet.Value) string { return timeText(time.UnixMicro(v.Int64())) }
			}
			return func(v parquet.Value) string { return timeText(time.Unix(0, v.Int64())) }
		case *format.DateType:
			return func(v parquet.Value) string { return timeText(time.Unix(int64(v.Int32())*86400, 0)) }
		case *format.IntType:
			if !lt.IsSigned {
				if typ.Kind() == parquet.Int32 {
					return func(v parquet.Value) string { return strconv.FormatUint(uint64(v.Uint32()), 10) }
				}
				return func(v parquet.Value) string { return strconv.FormatUint(v.Uint64(), 10) }
			}
		case *format.DecimalType:
			return decimalText(typ.Kind(), int(lt.Scale))
		case *format.StringType, *format.EnumType, *format.JsonType:
		default:
			return nil
		}
	}
	switch typ.Kind() {
	case parquet.Boolean:
		return func(v parquet.Value) string {
			if v.Boolean() {
				return "1"
			}
			return "0"
		}
	case parquet.Int32:
		return func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }
	case parquet.Int64:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	case parquet.Int96: // timestamps of older Spark and Hive: nanoseconds of the day, Julian day
		return func(v parquet.Value) string {
			t := v.Int96()
			const epoch = 2440588
			return timeText(time.Unix((int64(t[2])-epoch)*86400, int64(uint64(t[1])<<32|uint64(t[0]))))
		}
	case parquet.Float:
		// As float64, because readers parse the text as float64.
		return func(v parquet.Value) string { return strconv.FormatFloat(float64(v.Float()), 'g', -1, 64) }
	case parquet.Double:
		return func(v parquet.Value) string { return strconv.FormatFloat(v.Double(), 'g', -1, 64) }
	case parquet.ByteArray:
		return func(v parquet.Value) string { return string(v.ByteArray()) }
	}
	return nil
}

// decimalText returns a function that formats unscaled integers with scale digits after the point, or nil if kind
// or scale is not supported.
func decimalText(kind parquet.Kind, scale int) func(parquet.Value) string {
	var whole func(parquet.Value) *big.Int
	switch kind {
	case parquet.Int32:
		whole = func(v parquet.Value) *big.Int { return big.NewInt(int64(v.Int32())) }
	case parquet.Int64:
		whole = func(v parquet.Value) *big.Int { return big.NewInt(v.Int64()) }
	case parquet.ByteArray, parquet.FixedLenByteArray:
		whole = func(v parquet.Value) *big.Int { // two's complement, most significant byte first
			b := v.ByteArray()
			n := new(big.Int).SetBytes(b)
			if len(b) > 0 && b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
			return n
		}
	default:
		return nil
	}
	const maxScale = 1000 // a damaged file may contain a larger scale
	if scale > maxScale {
		return nil
	}
	if scale <= 0 {
		return func(v parquet.Value) string { return whole(v).String() }
	}
	return func(v parquet.Value) string {
		n := whole(v)
		sign := ""
		if n.Sign() < 0 {
			sign = "-"
		}
		digits := n.Abs(n).String()
		if missing := scale + 1 - len(digits); missing > 0 {
			digits = strings.Repeat("0", missing) + digits
		}
		return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (p *parquetReader) columns() []string { return p.names }

func (p *parquetReader) next() (Record, error) {
	rec := Record{Source: p.name, Path: p.path}
	err := catchPanic(func() error {
		for p.rowsLeft == 0 {
			if len(p.groups) == 0 {
				return io.EOF
			}
			if err := p.nextGroup(); err != nil {
				return err
			}
		}
		rec.Fields = make([]string, p.width)
		for _, col := range p.cols {
			v, err := col.next()
			if err != nil {
				return err
			}
			f, n := col.valueText(v)
			if n > MaxField && !p.allColumns && rec.Reason == "" {
				rec.Reason = fieldTooLong(col.name, n)
			}
			rec.Fields[col.field] = f
		}
		return nil
	})
	if err == io.EOF {
		return Record{}, io.EOF
	}
	if err != nil {
		return Record{}, fmt.Errorf("%s, row %d: %w", p.path, p.row+1, err)
	}
	p.rowsLeft--
	p.row++
	rec.Position = p.row
	rec.Raw = p.raw.encode(rec.Fields)
	for i := 0; i < len(rec.Fields) && rec.Reason == ""; i++ {
		rec.Reason = textFault([]byte(rec.Fields[i]))
	}
	if rec.Reason != "" {
		rec.Fields = nil
	}
	return rec, nil
}

func (p *parquetReader) nextGroup() error {
	group := p.groups[0]
	p.groups = p.groups[1:]
	chunks := group.ColumnChunks()
	for _, col := range p.cols {
		if err := col.close(); err != nil {
			return err
		}
		col.pages = chunks[col.leaf].Pages()
	}
	p.rowsLeft = group.NumRows()
	return nil
}

func (p *parquetReader) position() int64 { return p.row }

func (p *parquetReader) extent() (n int64) {
	for _, g := range p.allGroups {
		n += g.NumRows()
	}
	return n
}

// moveTo moves forward to the beginning of the row group that contains row.
func (p *parquetReader) moveTo(row int64) bool {
	start := int64(0)
	for i, g := range p.allGroups {
		if end := start + g.NumRows(); end <= row {
			start = end
			continue
		}
		if start <= p.row {
			return false
		}
		p.groups, p.rowsLeft, p.row = p.allGroups[i:], 0, start
		return true
	}
	return false
}

var errFewValues = errors.New("a column ends before the others")

// valueText returns the text of a value, and its length in bytes. If a byte array is longer than MaxField, the text
// is cut but the length is not: one dictionary value may occur in many rows.
func (c *parquetColumn) valueText(v parquet.Value) (string, int) {
	if v.IsNull() {
		return "", 0
	}
	if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
		if b := v.ByteArray(); len(b) > MaxField {
			return strings.ToValidUTF8(string(b[:MaxField]), ""), len(b)
		}
	}
	s := c.text(v)
	return s, len(s)
}

// next returns the next value of the column.
func (c *parquetColumn) next() (v parquet.Value, err error) {
	for len(c.pending) == 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err == io.EOF {
				return v, errFewValues
			}
			if err != nil {
				return v, err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buf)
		if err != nil && err != io.EOF {
			return v, err
		}
		c.pending = c.buf[:n]
		if n == 0 {
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		}
	}
	v, c.pending = c.pending[0], c.pending[1:]
	return v, nil
}

func (c *parquetColumn) close() error {
	c.pending, c.values = nil, nil
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	if c.pages == nil {
		return nil
	}
	err := c.pages.Close()
	c.pages = nil
	return err
}

func (p *parquetReader) close() error {
	err := catchPanic(func() error {
		for _, col := range p.cols {
			if err := col.close(); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, p.file.Close())
}

// parquetEncoder writes rows of typed columns. All columns are optional.
type parquetEncoder struct {
	columns []tabular.Column
	out     *parquet.GenericWriter[any]
	row     parquet.Row
}

// rowsPerGroup is the maximum number of rows that a Parquet writer keeps in memory.
const rowsPerGroup = 1 << 16

func newParquetEncoder(out io.Writer, sink Sink, _ bool) (encoder, error) {
	if err := checkColumns(sink.Columns); err != nil {
		return nil, err
	}
	nodes := map[tabular.Kind]parquet.Node{
		tabular.String: parquet.String(),
		tabular.Number: parquet.Leaf(parquet.DoubleType),
		tabular.Bool:   parquet.Leaf(parquet.BooleanType),
		tabular.Time:   parquet.Timestamp(parquet.Microsecond),
	}
	group := parquet.Group{}
	for _, c := range sink.Columns {
		node := nodes[cmp.Or(c.Kind, tabular.String)]
		if node == nil {
			return nil, fmt.Errorf("column %q has the unknown kind %q: use one of %s, %s, %s, %s", c.Path, c.Kind, tabular.String, tabular.Number, tabular.Bool, tabular.Time)
		}
		group[c.Path] = parquet.Optional(node)
	}
	schema := parquet.NewSchema("record", orderedGroup{group, sink.Columns})
	return &parquetEncoder{
		columns: sink.Columns,
		out: parquet.NewGenericWriter[any](out, schema, parquet.MaxRowsPerRowGroup(rowsPerGroup),
			parquet.Compression(&parquet.Snappy)),
		row: make(parquet.Row, len(sink.Columns)),
	}, nil
}

// orderedGroup is a Group that keeps the order of its columns. A Group sorts them.
type orderedGroup struct {
	parquet.Group
	columns []tabular.Column
}

func (o orderedGroup) Fields() []parquet.Field {
	byName := map[string]parquet.Field{}
	for _, f := range o.Group.Fields() {
		byName[f.Name()] = f
	}
	var fields []parquet.Field
	for _, c := range o.columns {
		fields = append(fields, byName[c.Path])
	}
	return fields
}

func (e *parquetEncoder) write(lines []byte) error {
	return eachRow(lines, len(e.columns), func(cells [][]byte) error {
		for i, v := range cells {
			value, err := parquetValue(v, e.columns[i].Kind)
			if err != nil {
				return fmt.Errorf("column %q: %w", e.columns[i].Path, err)
			}
			defined := 1
			if value.IsNull() {
				defined = 0
			}
			e.row[i] = value.Level(0, defined, i)
		}
		_, err := e.out.WriteRows([]parquet.Row{e.row})
		return err
	})
}

func parquetValue(v []byte, kind tabular.Kind) (parquet.Value, error) {
	if len(v) == 0 || bytes.Equal(v, null) {
		return parquet.NullValue(), nil
	}
	switch kind {
	case tabular.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return parquet.Value{}, fmt.Errorf("%s is not a number", v)
		}
		return parquet.DoubleValue(f), nil
	case tabular.Bool:
		b, err := strconv.ParseBool(string(v))
		if err != nil {
			return parquet.Value{}, fmt.Errorf("%s is not a boolean", v)
		}
		return parquet.BooleanValue(b), nil
	}
	s, err := cellText(v)
	if err != nil {
		return parquet.Value{}, err
	}
	if kind == tabular.Time {
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return parquet.Value{}, fmt.Errorf("%s is not a time in RFC 3339", v)
		}
		return parquet.Int64Value(t.UnixMicro()), nil
	}
	return parquet.ByteArrayValue([]byte(s)), nil
}

func (e *parquetEncoder) flush() error { return nil }
func (e *parquetEncoder) close() error { return e.out.Close() }
