package fit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

// A path identifies a number of a filter, in the syntax of --set.
type path struct {
	name string // name in --over
	likelihood.Parameter
	set func(f *hafvf.Config, v float64) // sets the number in a filter that shares no memory with another
	// level is the index of the level of an alpha or beta; negative for other numbers.
	level int
	beta  bool
}

// pathsOf parses a list of paths such as "levels[0].alpha, top" for a filter without a bank.
func pathsOf(over string, f hafvf.Config) (paths []path, err error) {
	for name := range strings.SplitSeq(over, ",") {
		p, err := pathOf(strings.TrimSpace(name), f)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(paths, func(q path) bool { return slices.Equal(keytable.PathNames(p.name), keytable.PathNames(q.name)) }) {
			return nil, fmt.Errorf("--over: %s is listed twice", p.name)
		}
		paths = append(paths, p)
	}
	return paths, nil
}

func pathOf(name string, f hafvf.Config) (path, error) {
	p := path{name: name, level: -1}
	names := keytable.PathNames(name)
	switch {
	case len(names) == 1 && names[0] == "top":
		p.Parameter = likelihood.NewParameter(f.Member.Top, likelihood.Share)
		p.set = func(f *hafvf.Config, v float64) { f.Member.Top = v }
		return p, nil
	case len(names) == 3 && names[0] == "levels" && (names[2] == "alpha" || names[2] == "beta"):
		i, err := strconv.Atoi(names[1])
		if n := len(f.Member.Levels); err != nil || i < 0 || i >= n {
			return p, fmt.Errorf("--over: there is no %s: the config has %s, and indexes start at 0", message.Printable(name), message.Count(n, "level", "levels"))
		}
		p.level, p.beta = i, names[2] == "beta"
		p.Parameter = likelihood.NewShape(*shape(&f.Member.Levels[i], p.beta))
		p.set = func(f *hafvf.Config, v float64) { *shape(&f.Member.Levels[i], p.beta) = v }
		return p, nil
	case len(names) > 2 && names[0] == "model" && names[1] == "prior":
		return p.priorPath(names[2], names[3:], f)
	}
	return p, fmt.Errorf("--over: %s cannot be fitted: name alpha or beta of a level, as levels[0].alpha, top, or numbers of the prior, as model.prior.%s", message.Quote(name), priorOf(f)[0].Name)
}

func shape(l *hafvf.Beta, beta bool) *float64 {
	if beta {
		return &l.Beta
	}
	return &l.Alpha
}

// A parameter is a parameter of a prior, with its values by rows.
type parameter struct {
	expfam.Param
	values []float64
}

// priorOf returns the parameters of the filter's prior, with defaults filled in.
func priorOf(f hafvf.Config) (parameters []parameter) {
	m, err := expfam.New(f.Family, f.Prior, f.Dim)
	if err != nil {
		panic("fit: " + err.Error()) // impossible: the config was checked
	}
	params := m.Params()
	size := 0
	for _, p := range params {
		size += p.Size()
	}
	values := make([]float64, size)
	m.Posterior(values, make([]float64, m.Len()))
	for _, p := range params {
		parameters = append(parameters, parameter{p, values[:p.Size()]})
		values = values[p.Size():]
	}
	return parameters
}

// priorPath returns the path of a parameter of the prior, or of an entry of it.
func (p path) priorPath(name string, indexes []string, f hafvf.Config) (path, error) {
	parameters := priorOf(f)
	k := slices.IndexFunc(parameters, func(q parameter) bool { return q.Name == name })
	if k < 0 {
		var known []string
		for _, q := range parameters {
			known = append(known, q.Name)
		}
		return p, fmt.Errorf("--over: %s cannot be fitted; %s", message.Quote(p.name), message.Suggest(name, known))
	}
	found := parameters[k]
	size := []int{found.Rows, found.Cols}
	size = size[:slices.Index(append(size, 0), 0)]
	index := make([]int, len(indexes))
	for i, text := range indexes {
		n, err := strconv.Atoi(text)
		if err != nil || i >= len(size) || n < 0 || n >= size[i] {
			return p, fmt.Errorf("--over: %s has no entry %s", name, message.Printable(p.name))
		}
		index[i] = n
	}
	_, vector := f.Prior[name].([]float64)
	_, matrix := f.Prior[name].([][]float64)
	var start float64
	switch {
	case len(index) == 0 && !vector && !matrix: // a single number may set all entries
		start = found.values[0]
		p.set = func(f *hafvf.Config, v float64) { f.Prior[name] = v }
	case len(index) < len(size):
		return p, fmt.Errorf("--over: %s is a list: name an entry, as %s%s", message.Printable(p.name), message.Printable(p.name), strings.Repeat("[0]", len(size)-len(index)))
	case len(index) == 1:
		start = found.values[index[0]]
		p.set = func(f *hafvf.Config, v float64) {
			entries, ok := f.Prior[name].([]float64)
			if !ok {
				entries = found.values
			}
			entries = slices.Clone(entries)
			entries[index[0]] = v
			f.Prior[name] = entries
		}
	default:
		start = found.values[index[0]*found.Cols+index[1]]
		p.set = func(f *hafvf.Config, v float64) {
			entries, ok := f.Prior[name].([][]float64)
			if !ok {
				entries = slices.Collect(slices.Chunk(found.values, found.Cols))
			}
			rows := make([][]float64, len(entries))
			for i := range rows {
				rows[i] = slices.Clone(entries[i])
			}
			rows[index[0]][index[1]], rows[index[1]][index[0]] = v, v
			f.Prior[name] = rows
		}
	}
	// A number that cannot be negative is searched above 0. A covariance can be negative.
	scale := likelihood.Real
	_, err := withValues(f, []path{p}, []float64{-1}).NewBank()
	if diagonal := len(index) < 2 || index[0] == index[1]; err != nil && diagonal && start > 0 {
		scale = likelihood.Positive
	}
	p.Parameter = likelihood.NewParameter(start, scale)
	return p, nil
}

// withValues returns a copy of a filter with other values of the parameters.
func withValues(f hafvf.Config, paths []path, values []float64) hafvf.Config {
	member := *f.Member
	member.Levels = slices.Clone(member.Levels)
	f.Member = &member
	if f.Prior = maps.Clone(f.Prior); f.Prior == nil {
		f.Prior = hafvf.Params{}
	}
	for i, p := range paths {
		p.set(&f, values[i])
	}
	return f
}
