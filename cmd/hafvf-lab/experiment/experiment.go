// Package experiment repeats the simulations of the paper (Moens 2018) with this
// filter: the figures with the series behind them, and for each of the paper's
// statements about them what is measured here, over several seeds.
package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hafvf/cmd/hafvf/chart"
	"hafvf/hafvf"
	"hafvf/internal/atomicfile"
	"hafvf/internal/median"
)

// An Experiment is one of the paper's.
type Experiment struct {
	Name  string // and that of its files
	Short string
	Long  string

	simulate func(seed uint64) outcome
}

// All are the experiments, in the paper's order.
var All = []*Experiment{&binary, &rl, &ar}

// An outcome is one simulated data set with what the filter makes of it.
type outcome interface {
	shown
	findings() []finding
}

// What is shown of an experiment beside its table.
type shown interface {
	columns() []column
	figure() *chart.Figure
}

// A column is a series of the figure under the name it has in the CSV file. NaN is
// an empty field.
type column struct {
	name   string
	values []float64
}

// A finding is a statement of the paper, measured on one outcome.
type finding struct {
	claim   string // what the paper says
	measure string // what value is, and of which size it supports the claim
	value   float64
	holds   bool
}

// Seeds is how many simulations a table sums up.
const Seeds = 20

// Run simulates the experiment with seed … seed+19, writes the series and the
// figure of the first one and the table of all to NAME.csv, .svg, .png and .txt in
// dir, and returns the table and the paths of the files. Progress, unless nil, is
// called after each simulation.
func (e *Experiment) Run(ctx context.Context, seed uint64, dir string, progress func(done int)) (table string, files []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", nil, err
	}
	path := func(ext string) string { return filepath.Join(dir, e.Name+ext) }

	first := e.simulate(seed)
	if err := show(first, path); err != nil {
		return "", nil, err
	}

	all := [][]finding{first.findings()}
	for i := range uint64(Seeds - 1) {
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
		if progress != nil {
			progress(len(all))
		}
		all = append(all, e.simulate(seed+1+i).findings())
	}
	table = fmt.Sprintf("%s\nStatements of the paper, seeds %d to %d\n\n", e.Short, seed, seed+Seeds-1) + tabulate(all)
	if err := atomicfile.Write(path(".txt"), []byte(table)); err != nil {
		return "", nil, err
	}
	return table, []string{path(".csv"), path(".svg"), path(".png"), path(".txt")}, nil
}

// show writes the series and its figure to the paths of .csv, .svg and .png.
func show(s shown, path func(ext string) string) error {
	text, err := encode(s.columns())
	if err != nil {
		return err
	}
	if err := atomicfile.Write(path(".csv"), text); err != nil {
		return err
	}
	figure := s.figure()
	for _, ext := range []string{".svg", ".png"} {
		if err := figure.Write(path(ext)); err != nil {
			return err
		}
	}
	return nil
}

// encode writes columns of one length as CSV, numbers with all their digits.
func encode(columns []column) ([]byte, error) {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.name
	}
	w.Write(row)
	for t := range columns[0].values {
		for i, c := range columns {
			row[i] = ""
			if v := c.values[t]; !math.IsNaN(v) {
				row[i] = strconv.FormatFloat(v, 'g', -1, 64)
			}
		}
		w.Write(row)
	}
	w.Flush()
	return buf.Bytes(), w.Error()
}

// tabulate sums up the findings of several outcomes, all on the same statements.
func tabulate(all [][]finding) string {
	var b strings.Builder
	row := func(n, verdict, text string) {
		for i, line := range wrap(text, 64) {
			if i > 0 {
				n, verdict = "", ""
			}
			fmt.Fprintf(&b, "%2s  %-14s  %s\n", n, verdict, line)
		}
	}
	row("", "verdict", "statement of the paper")
	row("", "", "what is measured here")
	row("", "", "= median (range), seeds in support")
	for i, f := range all[0] {
		var values []float64
		holds := 0
		for _, findings := range all {
			values = append(values, findings[i].value)
			if findings[i].holds {
				holds++
			}
		}
		b.WriteByte('\n')
		row(strconv.Itoa(i+1), verdict(holds, len(values)), f.claim)
		row("", "", f.measure)
		row("", "", fmt.Sprintf("= %s (%s to %s), %d of %d",
			number(median.Of(values)), number(slices.Min(values)), number(slices.Max(values)), holds, len(values)))
	}
	return b.String()
}

// verdict allows one seed in ten to differ.
func verdict(holds, of int) string {
	switch {
	case 10*holds >= 9*of:
		return "holds"
	case 10*holds <= of:
		return "does not hold"
	}
	return "partly"
}

// number writes three digits, and more only where they are before the point.
func number(v float64) string {
	if a := math.Abs(v); a >= 100 && a < 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// wrap cuts text at spaces into lines of at most width characters.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// newRandom is the source of all that is random under a seed.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2018)) }

// newFilter makes a filter from a configuration that this package wrote.
func newFilter(c hafvf.Config) *hafvf.Filter {
	f, err := c.Filter()
	if err != nil {
		panic("experiment: " + err.Error())
	}
	return f
}

// steps counts from 1 to n, as the paper's time does.
func steps(n int) []float64 {
	t := make([]float64, n)
	for i := range t {
		t[i] = float64(i + 1)
	}
	return t
}

// expectedMemory is 1/(1−E[w]), the memory to which a weight held at its mean
// leads.
func expectedMemory(weight []float64) []float64 {
	m := make([]float64, len(weight))
	for i, w := range weight {
		m[i] = 1 / (1 - w)
	}
	return m
}

func mean(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

// share is for how many i below n ok holds, in percent.
func share(n int, ok func(i int) bool) float64 {
	k := 0
	for i := range n {
		if ok(i) {
			k++
		}
	}
	return 100 * float64(k) / float64(n)
}

// kept is how much of the memory before index change is left at the lowest point
// within the next steps.
func kept(memory []float64, change, within int) float64 {
	return slices.Min(memory[change:change+within]) / memory[change-1]
}

// spread is the standard deviation of v.
func spread(v []float64) float64 {
	m, s := mean(v), 0.0
	for _, x := range v {
		s += (x - m) * (x - m)
	}
	return math.Sqrt(s / float64(len(v)))
}
