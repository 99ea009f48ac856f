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

// A path leads to a number of a filter, as that of an override does.
type path struct {
	name string // as it was given
	likelihood.Parameter
	set func(f *hafvf.Config, v float64) // of a filter whose parts are its own
	// level is that of an alpha or beta, from 0; else negative.
	level int
	beta  bool
}

// pathsOf are those of a list such as "levels[0].alpha, top", in a filter without a bank.
func pathsOf(over string, f hafvf.Config) (all []path, err error) {
	for name := range strings.SplitSeq(over, ",") {
		p, err := pathOf(strings.TrimSpace(name), f)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(q path) bool { return slices.Equal(keytable.PathNames(p.name), keytable.PathNames(q.name)) }) {
			return nil, fmt.Errorf("--over: %s stands there twice", p.name)
		}
		all = append(all, p)
	}
	return all, nil
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
			return p, fmt.Errorf("--over: there is no %s: the config has %s, and indexes begin at 0", message.Printable(name), message.Count(n, "level", "levels"))
		}
		p.level, p.beta = i, names[2] == "beta"
		p.Parameter = likelihood.NewShape(*shape(&f.Member.Levels[i], p.beta))
		p.set = func(f *hafvf.Config, v float64) { *shape(&f.Member.Levels[i], p.beta) = v }
		return p, nil
	case len(names) > 2 && names[0] == "model" && names[1] == "prior":
		return p.ofPrior(names[2], names[3:], f)
	}
	return p, fmt.Errorf("--over: %s cannot be fitted: name alpha or beta of a level, as levels[0].alpha, top, or numbers of the prior, as model.prior.%s", message.Quote(name), priorOf(f)[0].Name)
}

func shape(l *hafvf.Beta, beta bool) *float64 {
	if beta {
		return &l.Beta
	}
	return &l.Alpha
}

// A parameter of a prior, with its numbers by rows.
type parameter struct {
	expfam.Param
	values []float64
}

// priorOf are the parameters of the filter's prior, with defaults filled in.
func priorOf(f hafvf.Config) (all []parameter) {
	m, err := expfam.New(f.Family, f.Prior, f.Dim)
	if err != nil {
		panic("fit: " + err.Error()) // of a config that was checked
	}
	params := m.Params()
	size := 0
	for _, p := range params {
		size += p.Size()
	}
	values := make([]float64, size)
	m.Posterior(values, make([]float64, m.Len()))
	for _, p := range params {
		all = append(all, parameter{p, values[:p.Size()]})
		values = values[p.Size():]
	}
	return all
}

// ofPrior is the path of a parameter of the prior, or of an entry of one.
func (p path) ofPrior(name string, indexes []string, f hafvf.Config) (path, error) {
	all := priorOf(f)
	k := slices.IndexFunc(all, func(q parameter) bool { return q.Name == name })
	if k < 0 {
		var known []string
		for _, q := range all {
			known = append(known, q.Name)
		}
		return p, fmt.Errorf("--over: %s cannot be fitted; %s", message.Quote(p.name), message.Suggest(name, known))
	}
	is := all[k]
	size := []int{is.Rows, is.Cols}
	size = size[:slices.Index(append(size, 0), 0)]
	at := make([]int, len(indexes))
	for i, text := range indexes {
		n, err := strconv.Atoi(text)
		if err != nil || i >= len(size) || n < 0 || n >= size[i] {
			return p, fmt.Errorf("--over: %s has no entry %s", name, message.Printable(p.name))
		}
		at[i] = n
	}
	_, vector := f.Prior[name].([]float64)
	_, matrix := f.Prior[name].([][]float64)
	var start float64
	switch {
	case len(at) == 0 && !vector && !matrix: // a single number may stand for all
		start = is.values[0]
		p.set = func(f *hafvf.Config, v float64) { f.Prior[name] = v }
	case len(at) < len(size):
		return p, fmt.Errorf("--over: %s is a list: name an entry, as %s%s", message.Printable(p.name), message.Printable(p.name), strings.Repeat("[0]", len(size)-len(at)))
	case len(at) == 1:
		start = is.values[at[0]]
		p.set = func(f *hafvf.Config, v float64) {
			was, ok := f.Prior[name].([]float64)
			if !ok {
				was = is.values
			}
			was = slices.Clone(was)
			was[at[0]] = v
			f.Prior[name] = was
		}
	default:
		start = is.values[at[0]*is.Cols+at[1]]
		p.set = func(f *hafvf.Config, v float64) {
			was, ok := f.Prior[name].([][]float64)
			if !ok {
				was = slices.Collect(slices.Chunk(is.values, is.Cols))
			}
			rows := make([][]float64, len(was))
			for i := range rows {
				rows[i] = slices.Clone(was[i])
			}
			rows[at[0]][at[1]], rows[at[1]][at[0]] = v, v
			f.Prior[name] = rows
		}
	}
	// What cannot be below zero is above it. A covariance can.
	free := likelihood.Real
	_, err := with(f, []path{p}, []float64{-1}).NewBank()
	if diagonal := len(at) < 2 || at[0] == at[1]; err != nil && diagonal && start > 0 {
		free = likelihood.Positive
	}
	p.Parameter = likelihood.NewParameter(start, free)
	return p, nil
}

// with is a filter with other numbers.
func with(f hafvf.Config, paths []path, at []float64) hafvf.Config {
	member := *f.Member
	member.Levels = slices.Clone(member.Levels)
	f.Member = &member
	if f.Prior = maps.Clone(f.Prior); f.Prior == nil {
		f.Prior = hafvf.Params{}
	}
	for i, p := range paths {
		p.set(&f, at[i])
	}
	return f
}
