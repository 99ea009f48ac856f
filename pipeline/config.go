// Package pipeline turns a config and raw records into a running filter: the
// YAML config, the decoding of records, and the composed graphs.
package pipeline

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"
)

// A Config says what a pipeline reads, which filter it runs, and where its
// records go. Parse makes one; defaults are filled in and every value is
// checked.
type Config struct {
	Transform string // filter or smooth
	Model     Model
	Levels    []Level // bottom up; empty means no level
	Top       float64 // γ in [0, 1]: the fixed weight of the topmost level

	Bank           []Member // in place of Levels and Top
	BankForgetting float64

	Order    string // EventTime or Arrival
	Lateness time.Duration
	TimeUnit time.Duration // weight per unit of time; 0 means per observation

	Session *Session
	Change  *Change
	Detect  *Detect
	Keys    []KeyRule // first match wins

	Source     Source
	Sink       Sink
	DeadLetter *Sink // nil: standard error, as JSON Lines
	Alerts     *Sink
	Runner     Runner
}

// Values of Config.Order.
const (
	EventTime = "event_time" // per key in the order of event times
	Arrival   = "arrival"    // as the source gives them
)

// A Model is a family and its prior.
type Model struct {
	Family string
	// Prior holds the textbook parameters under the names that the config gives
	// them, complete and expanded: numbers as float64, vectors as []float64,
	// matrices as [][]float64, ar's order as int and its intercept as bool.
	Prior  map[string]any
	Auto   bool // the prior is learned from the first WarmUp observations
	WarmUp int
	// Dim is the length of the prior's vectors: the number of categories, of
	// coordinates, or of coefficients; 1 for a scalar family.
	Dim int
}

// A Level is the Beta prior of a forgetting weight.
type Level struct{ Alpha, Beta float64 }

// A Member is one filter of a bank.
type Member struct {
	Levels []Level
	Top    float64
}

// A Session bounds the sequences that are smoothed.
type Session struct {
	Gap             time.Duration
	AllowedLateness time.Duration
	Max             int // observations
}

// Change says when a smoothed sequence counts as changed.
type Change struct{ Odds float64 }

// Detect says when a filtered stream counts as changed.
type Detect struct {
	Commit    float64 // probability
	MinLength int     // observations
	Cooldown  time.Duration
	MinChange float64
}

// A KeyRule replaces parts of the config for the keys that match a pattern.
type KeyRule struct {
	Match  string
	Model  *Model
	Levels []Level // nil: not replaced
	Top    *float64
}

// A Source is where records come from; exactly one field is set.
type Source struct {
	CSV     *CSV
	JSONL   *JSONL
	Parquet *Parquet
}

// A Sink is where records go; exactly one field is set.
type Sink struct {
	CSV     *File
	JSONL   *File
	Parquet *File
}

// Columns name the parts of an observation in a table. An empty Time means that
// the table has no time column.
type Columns struct {
	Key, Time string
	Values    []string
}

// CSV is a source of delimited text with a header line. The path may be a
// pattern; "-" is standard input.
type CSV struct {
	Path string
	Columns
	Delimiter rune
}

// JSONL is a source with one JSON object per line. The path may be a pattern;
// "-" is standard input.
type JSONL struct{ Path string }

// Parquet is a source of Parquet files. The path may be a pattern.
type Parquet struct {
	Path string
	Columns
}

// A File is written by a sink; the path "-" is standard output.
type File struct{ Path string }

// A Runner executes the pipeline.
type Runner struct{ Name string }

// unavailable lists what the config knows and this version does not do: a key
// by its path, a value as "path: value".
var unavailable = []string{
	"transform: smooth",
	"model.prior: auto",
	"model.warm_up",
	"bank",
	"bank_forgetting",
	"time_unit",
	"session",
	"change",
	"detect",
	"keys",
	"source.kafka",
	"sink.kafka",
	"dead_letter.kafka",
	"alerts",
	"runner.name: flink",
	"runner.endpoint",
	"runner.parallelism",
	"runner.checkpoint_interval",
}

// maxConfig is the largest config, in bytes, that Parse looks at.
const maxConfig = 1 << 20

// Parse reads a config from YAML (JSON is YAML too) after applying the
// overrides in set, in order, to it. An override is "a.b=c": a path of keys and
// list indexes, and a value in YAML.
//
// Every value is checked. The error joins a KeyError per mistake, in the order
// of the lines; name is the file that they name.
func Parse(name string, text []byte, set []string) (*Config, error) {
	c := &Config{
		Transform: "filter",
		Levels:    []Level{{Alpha: 0.9, Beta: 0.1}, {Alpha: 1, Beta: 1}},
		Top:       1,
		Order:     EventTime,
		Sink:      Sink{JSONL: &File{Path: "-"}},
		Runner:    Runner{Name: "prism"},
	}
	d := &decoder{name: name, set: set, at: map[string]int{}}
	root := d.tree(text)
	if root != nil {
		var prior *yaml.Node
		d.at[""] = root.Line
		d.mapping("", root, c.keys(&prior))
		d.check(c)
		d.prior(c, prior)
	}
	if len(d.errs) > 0 {
		return nil, d.join()
	}
	return c, nil
}

// keys declares the config: each key, what it means, and how a value is read
// into c. The prior is left in its node, because it is read last: its shape
// depends on the family and the columns.
func (c *Config) keys(prior **yaml.Node) []key {
	return []key{
		{name: "transform", doc: "filter (the default) or smooth", read: choice(&c.Transform, "filter", "smooth")},
		{name: "model", doc: "what is assumed of the values", keys: []key{
			{name: "family", doc: "one of " + strings.Join(familyNames(), ", ") + "; required", read: choice(&c.Model.Family, familyNames()...)},
			{name: "prior", doc: "the family's textbook parameters, or auto", read: later(prior)},
			{name: "dim", doc: "length of the prior's vectors, where neither prior nor columns fix it", read: whole(&c.Model.Dim, 1)},
		}},
		{name: "levels", doc: "Beta priors {alpha, beta} of the forgetting weights, bottom up; [{alpha: 0.9, beta: 0.1}, {alpha: 1, beta: 1}] by default", read: levels(&c.Levels)},
		{name: "top", doc: "fixed weight of the topmost level, in [0, 1]; 1 by default", read: number(&c.Top, unitInterval)},
		{name: "order", doc: "event_time (the default) or arrival", read: choice(&c.Order, EventTime, Arrival)},
		{name: "lateness", doc: "how long a record waits for earlier ones of its key; 0s by default", read: duration(&c.Lateness)},
		{name: "source", doc: "where records come from: exactly one connector; required", required: true, single: true, keys: c.Source.keys()},
		{name: "sink", doc: "where estimates go: one connector; JSON Lines on standard output by default", single: true,
			seen: func() { c.Sink = Sink{} }, keys: c.Sink.keys()},
		{name: "dead_letter", doc: "where rejected records go; JSON Lines on standard error by default", single: true, keys: c.deadLetterKeys()},
		{name: "runner", doc: "what executes the pipeline", keys: []key{
			{name: "name", doc: "prism (the default); direct is another name of it", read: choice(&c.Runner.Name, "prism", "direct", "flink")},
		}},
	}
}

func (s *Source) keys() []key {
	csv := &CSV{Columns: defaultColumns(), Delimiter: ','}
	jsonl := &JSONL{}
	parquet := &Parquet{Columns: defaultColumns()}
	return []key{
		{name: "csv", doc: "delimited text with a header line", seen: func() { s.CSV = csv },
			keys: slices.Concat([]key{sourcePath(&csv.Path)}, csv.Columns.keys(), []key{
				{name: "delimiter", doc: `one character; "," by default`, read: delimiter(&csv.Delimiter)},
			})},
		{name: "jsonl", doc: "one JSON object per line", seen: func() { s.JSONL = jsonl },
			keys: []key{sourcePath(&jsonl.Path)}},
		{name: "parquet", doc: "Parquet files", seen: func() { s.Parquet = parquet },
			keys: slices.Concat([]key{sourcePath(&parquet.Path)}, parquet.Columns.keys())},
	}
}

func sourcePath(dst *string) key {
	return key{name: "path", doc: `a file, a pattern such as data/*.csv, or "-" for standard input; required`, required: true, read: text(dst, notEmpty)}
}

func defaultColumns() Columns {
	return Columns{Key: "key", Time: "time", Values: []string{"x"}}
}

func (c *Columns) keys() []key {
	return []key{
		{name: "key", doc: "column of the entity; key by default", read: text(&c.Key, notEmpty)},
		{name: "time", doc: "column of the time; time by default, empty where there is none", read: text(&c.Time, mayBeEmpty)},
		{name: "values", doc: "columns that make the value; [x] by default", read: names(&c.Values)},
	}
}

func (s *Sink) keys() []key {
	connector := func(name, doc string, dst **File) key {
		f := &File{Path: "-"}
		return key{name: name, doc: doc, seen: func() { *dst = f }, keys: []key{
			{name: "path", doc: `a file, or "-" (the default) for standard output`, read: text(&f.Path, notEmpty)},
		}}
	}
	return []key{
		connector("csv", "delimited text with a header line", &s.CSV),
		connector("jsonl", "one JSON object per line", &s.JSONL),
		connector("parquet", "one Parquet file", &s.Parquet),
	}
}

func (c *Config) deadLetterKeys() []key {
	f := &File{}
	return []key{
		{name: "jsonl", doc: "one JSON object per line", seen: func() { c.DeadLetter = &Sink{JSONL: f} }, keys: []key{
			{name: "path", doc: `a file, or "-" for standard output; required`, required: true, read: text(&f.Path, notEmpty)},
		}},
	}
}

// columns returns the value columns of a tabular source and the key that names
// them; nil for a source whose records bring their own shape.
func (s *Source) columns() (values []string, path string) {
	switch {
	case s.CSV != nil:
		return s.CSV.Values, "source.csv.values"
	case s.Parquet != nil:
		return s.Parquet.Values, "source.parquet.values"
	}
	return nil, ""
}

// check holds what concerns more than one key.
func (d *decoder) check(c *Config) {
	if c.Runner.Name == "direct" {
		c.Runner.Name = "prism"
	}
	if c.Model.Family == "" && !d.has("model.family") && !d.failed("model") && !d.failed("") {
		d.fail("model.family", "missing; one of %s is required", strings.Join(familyNames(), ", "))
	}
	if c.Order == EventTime {
		const reason = "an empty name means that there is no time, which needs order: arrival"
		if c.Source.CSV != nil && c.Source.CSV.Time == "" {
			d.fail("source.csv.time", reason)
		}
		if c.Source.Parquet != nil && c.Source.Parquet.Time == "" {
			d.fail("source.parquet.time", reason)
		}
	}
	d.checkFiles(c)
}

// checkFiles refuses a file that would be overwritten while it is read or
// written by another part.
func (d *decoder) checkFiles(c *Config) {
	type file struct{ key, path string }
	var in []file
	if s := c.Source.CSV; s != nil {
		in = append(in, file{"source.csv.path", s.Path})
	}
	if s := c.Source.JSONL; s != nil {
		in = append(in, file{"source.jsonl.path", s.Path})
	}
	if s := c.Source.Parquet; s != nil {
		in = append(in, file{"source.parquet.path", s.Path})
	}
	var out []file
	add := func(key string, f *File) {
		if f != nil && f.Path != "" && f.Path != "-" {
			out = append(out, file{key, filepath.Clean(f.Path)})
		}
	}
	add("sink.csv.path", c.Sink.CSV)
	add("sink.jsonl.path", c.Sink.JSONL)
	add("sink.parquet.path", c.Sink.Parquet)
	if c.DeadLetter != nil {
		add("dead_letter.jsonl.path", c.DeadLetter.JSONL)
	}
	for i, o := range out {
		for _, s := range in {
			// A malformed pattern matches nothing; the source will say so.
			if match, _ := filepath.Match(filepath.Clean(s.path), o.path); match {
				d.fail(o.key, "%s is also read, by %s", quote(o.path), s.key)
			}
		}
		for _, p := range out[:i] {
			if o.path == p.path {
				d.fail(o.key, "%s is also written, by %s", quote(o.path), p.key)
			}
		}
	}
}

func levels(dst *[]Level) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.wrongType(path, "a list of {alpha, beta}", n)
			return
		}
		*dst = make([]Level, len(n.Content))
		for i, e := range n.Content {
			l := &(*dst)[i]
			d.mapping(d.entry(path, i, e), e, []key{
				{name: "alpha", required: true, read: number(&l.Alpha, positive)},
				{name: "beta", required: true, read: number(&l.Beta, positive)},
			})
		}
	}
}

// names reads the names of columns; at least one.
func names(dst *[]string) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.wrongType(path, "a list of columns", n)
			return
		}
		if len(n.Content) == 0 {
			d.fail(path, "must name at least one column")
		}
		*dst = make([]string, len(n.Content))
		for i, e := range n.Content {
			text(&(*dst)[i], notEmpty)(d, d.entry(path, i, e), e)
		}
	}
}

func delimiter(dst *rune) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		var s string
		if !d.text(path, n, &s) {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsRune("\r\n\"\x00\uFFFD", r[0]) {
			d.fail(path, "must be one character, and neither a quote nor a line break, not %s", quote(s))
			return
		}
		*dst = r[0]
	}
}

// A family declares the prior of a family and the shape of its observations.
type family struct {
	name  string
	prior []param
	// An observation has perDim·dim + beyond values. A family without perDim
	// takes one, whatever its dim.
	perDim, beyond int
	scalar         bool // dim is 1
}

// A param declares one textbook parameter.
type param struct {
	name     string
	kind     paramKind
	byDef    float64 // where the config has none, unless required
	required bool
	within   bound
}

type paramKind int

const (
	scalarParam paramKind = iota
	vectorParam
	matrixParam // symmetric and positive definite
	degrees     // a number greater than dim − 1; dim + 1 by default
	count       // a whole number, at least 1
	boolean     // true or false; false by default
)

var (
	betaPrior  = []param{{name: "alpha", byDef: 1, within: positive}, {name: "beta", byDef: 1, within: positive}}
	gammaPrior = []param{{name: "shape", byDef: 1, within: positive}, {name: "rate", byDef: 1, within: positive}}

	// linearPrior is coefficients|σ² ~ N(mean, σ²·precision⁻¹), σ² ~ InvGamma(alpha, beta).
	linearPrior = []param{
		{name: "mean", kind: vectorParam, within: anyNumber},
		{name: "precision", kind: matrixParam, byDef: 1},
		{name: "alpha", byDef: 1, within: positive},
		{name: "beta", byDef: 1, within: positive},
	}
)

// families holds what a config may name. The order is that of the
// documentation.
var families = []family{
	{name: "bernoulli", scalar: true, beyond: 1, prior: betaPrior},
	{name: "categorical", beyond: 1, prior: []param{{name: "alpha", kind: vectorParam, required: true, within: positive}}},
	{name: "poisson", scalar: true, beyond: 1, prior: gammaPrior},
	{name: "exponential", scalar: true, beyond: 1, prior: gammaPrior},
	// μ|σ² ~ N(mu, σ²/kappa), σ² ~ InvGamma(alpha, beta)
	{name: "normal", scalar: true, beyond: 1, prior: []param{
		{name: "mu", within: anyNumber},
		{name: "kappa", byDef: 1, within: positive},
		{name: "alpha", byDef: 1, within: positive},
		{name: "beta", byDef: 1, within: positive},
	}},
	// Σ ~ InvWishart(scale, nu), μ|Σ ~ N(mu, Σ/kappa)
	{name: "mvnormal", perDim: 1, prior: []param{
		{name: "mu", kind: vectorParam, within: anyNumber},
		{name: "kappa", byDef: 1, within: positive},
		{name: "nu", kind: degrees, within: anyNumber},
		{name: "scale", kind: matrixParam, byDef: 1},
	}},
	{name: "regression", perDim: 1, beyond: 1, prior: linearPrior},
	{name: "ar", beyond: 1, prior: slices.Concat([]param{
		{name: "order", kind: count, required: true},
		{name: "intercept", kind: boolean},
	}, linearPrior)},
}

func familyNames() []string {
	var names []string
	for _, f := range families {
		names = append(names, f.name)
	}
	return names
}

// Bounds of dim: the state of a family with a matrix has dim² numbers per key.
const (
	maxDim       = 1_000_000
	maxMatrixDim = 1_000
)

// prior reads c.Model.Prior from n, which is nil where the config has none, and
// fixes c.Model.Dim.
func (d *decoder) prior(c *Config, n *yaml.Node) {
	const path = "model.prior"
	i := slices.IndexFunc(families, func(f family) bool { return f.name == c.Model.Family })
	if i < 0 {
		return
	}
	f := families[i]
	if n != nil && n.Kind == yaml.ScalarNode && n.Value == "auto" && !d.available(path, "auto") {
		return
	}

	before := len(d.errs)
	given := map[string]any{}
	var keys []key
	for _, p := range f.prior {
		keys = append(keys, key{name: p.name, required: p.required, read: p.reader(given)})
	}
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode}
	}
	d.mapping(path, n, keys)
	if len(d.errs) > before {
		return
	}

	dim, ok := d.dim(c, f, given)
	if !ok {
		return
	}
	c.Model.Dim = dim
	c.Model.Prior = map[string]any{}
	for _, p := range f.prior {
		v, ok := given[p.name]
		if !ok {
			v = p.byDef
		}
		c.Model.Prior[p.name] = d.expand(join(path, p.name), p, v, ok, dim)
	}
}

// reader reads the parameter as it is written, into into: a number may stand for
// a vector or a matrix.
func (p param) reader(into map[string]any) reader {
	return func(d *decoder, path string, n *yaml.Node) {
		within := p.within
		if within == nil {
			within = anyNumber
		}
		numbers := func(path string, n *yaml.Node) ([]float64, bool) {
			row, ok := make([]float64, len(n.Content)), true
			for i, e := range n.Content {
				ok = d.number(d.entry(path, i, e), e, within, &row[i]) && ok
			}
			return row, ok
		}
		isList := n.Kind == yaml.SequenceNode
		switch {
		case p.kind == count:
			var v int
			if d.whole(path, n, 1, &v) {
				into[p.name] = v
			}
		case p.kind == boolean:
			var v bool
			if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&v) != nil {
				d.wrongType(path, "true or false", n)
				return
			}
			into[p.name] = v
		case p.kind == vectorParam && isList:
			if len(n.Content) == 0 {
				d.fail(path, "must not be empty")
			} else if v, ok := numbers(path, n); ok {
				into[p.name] = v
			}
		case p.kind == matrixParam && isList:
			if m, ok := d.square(path, n, numbers); ok {
				into[p.name] = m
			}
		case p.kind == vectorParam && !isNumber(n):
			d.wrongType(path, "a number or a list of numbers", n)
		case p.kind == matrixParam && !isNumber(n):
			d.wrongType(path, "a number or a list of rows", n)
		default:
			if p.kind == matrixParam {
				within = positive
			}
			var v float64
			if d.number(path, n, within, &v) {
				into[p.name] = v
			}
		}
	}
}

// square reads a symmetric positive definite matrix, row by row.
func (d *decoder) square(path string, n *yaml.Node, numbers func(string, *yaml.Node) ([]float64, bool)) ([][]float64, bool) {
	k := len(n.Content)
	switch {
	case k == 0:
		d.fail(path, "must not be empty")
		return nil, false
	case k > maxMatrixDim:
		d.fail(path, "has %d rows; at most %d are allowed", k, maxMatrixDim)
		return nil, false
	}
	m, ok := make([][]float64, k), true
	for i, row := range n.Content {
		p := d.entry(path, i, row)
		switch {
		case row.Kind != yaml.SequenceNode:
			d.wrongType(p, "a row of numbers", row)
			ok = false
		case len(row.Content) != k:
			d.fail(p, "has %d entries, but the matrix has %d rows; it must be square", len(row.Content), k)
			ok = false
		default:
			var rowOK bool
			m[i], rowOK = numbers(p, row)
			ok = ok && rowOK
		}
	}
	if !ok {
		return nil, false
	}
	s := mat.NewSymDense(k, nil)
	for i := range m {
		for j := range i + 1 {
			if m[i][j] != m[j][i] {
				d.fail(path, "must be symmetric, but row %d has %v where row %d has %v", i, m[i][j], j, m[j][i])
				return nil, false
			}
			s.SetSym(i, j, m[i][j])
		}
	}
	if !new(mat.Cholesky).Factorize(s) {
		d.fail(path, "must be positive definite")
		return nil, false
	}
	return m, true
}

// dim returns the length of the prior's vectors, which the family, the prior,
// model.dim and the columns must agree on.
func (d *decoder) dim(c *Config, f family, given map[string]any) (dim int, ok bool) {
	by := "" // what fixed dim
	ok = true
	limit := maxDim
	agree := func(n int, path, what string) {
		switch {
		case n > limit:
			d.fail(path, "%s %d is more than the %d that are allowed", what, n, limit)
			ok = false
		case by == "":
			dim, by = n, path
		case n != dim:
			d.fail(path, "%s %d, but %s makes it %d", what, n, by, dim)
			ok = false
		}
	}
	if slices.ContainsFunc(f.prior, func(p param) bool { return p.kind == matrixParam }) {
		limit = maxMatrixDim
	}
	if f.scalar {
		dim, by = 1, "model.family"
	}
	if order, isAR := given["order"].(int); isAR {
		if given["intercept"] == true && order < math.MaxInt {
			order++
		}
		agree(order, "model.prior.order", "dim")
	}
	for _, p := range f.prior {
		switch v := given[p.name].(type) {
		case []float64:
			agree(len(v), join("model.prior", p.name), "length")
		case [][]float64:
			agree(len(v), join("model.prior", p.name), "size")
		}
	}
	if d.failed("model.dim") {
		return 0, false
	}
	if d.has("model.dim") {
		agree(c.Model.Dim, "model.dim", "dim")
	}
	if !ok {
		return 0, false
	}

	columns, path := c.Source.columns()
	if d.failed("source") || d.failed(path) || d.failed(strings.TrimSuffix(path, ".values")) {
		return 0, false
	}
	if by == "" && f.perDim > 0 && len(columns) > f.beyond {
		agree(len(columns)-f.beyond, path, "dim")
	}
	if path != "" && (by == "" && f.perDim > 0 || by != "" && len(columns) != f.perDim*dim+f.beyond) {
		want := strconv.Itoa(f.perDim*dim + f.beyond)
		if by == "" {
			want = fmt.Sprintf("at least %d", f.beyond+1)
		} else if f.perDim > 0 {
			want += fmt.Sprintf(" (%s makes dim %d)", by, dim)
		}
		d.fail(path, "names %d columns; %s takes %s", len(columns), f.name, want)
		return 0, false
	}
	if by == "" {
		d.fail("model.dim", "missing; neither the prior nor the columns fix it")
		return 0, false
	}
	if f.name == "categorical" && dim < 2 {
		d.fail(by, "categorical takes at least 2 categories, not %d", dim)
		return 0, false
	}
	return dim, ok
}

// expand completes a parameter now that dim is known: a number for every entry
// of a vector, or for the diagonal of a matrix.
func (d *decoder) expand(path string, p param, v any, given bool, dim int) any {
	x, isNumber := v.(float64)
	switch {
	case p.kind == vectorParam && isNumber:
		return slices.Repeat([]float64{x}, dim)
	case p.kind == matrixParam && isNumber:
		m := make([][]float64, dim)
		for i := range m {
			m[i] = make([]float64, dim)
			m[i][i] = x
		}
		return m
	case p.kind == degrees && !given:
		return float64(dim + 1)
	case p.kind == degrees && x <= float64(dim-1):
		d.fail(path, "must be greater than dim − 1 = %d, not %v", dim-1, x)
	case p.kind == boolean && !given:
		return false
	}
	return v
}

func isNumber(n *yaml.Node) bool {
	_, ok := numberOf(n)
	return ok
}
