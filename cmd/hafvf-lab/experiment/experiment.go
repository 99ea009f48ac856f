// Package experiment repeats the simulations of the paper (Moens 2018) with this filter. It draws the paper's
// figures, writes their series, and measures the paper's statements about them over several seeds.
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

// An Experiment is an experiment of the paper.
type Experiment struct {
	Name  string // name of the experiment and of its files
	Short string
	Long  string

	simulate func(seed uint64) outcome
}

// All lists the experiments, in the paper's order.
var All = []*Experiment{&binary, &rl, &ar}

// An outcome is one simulated data set with the results of the filter.
type outcome interface {
	presentation
	findings() []finding
}

// presentation is the series and the figure of an experiment.
type presentation interface {
	columns() []column
	figure() *chart.Figure
}

// A column is a series of the figure, with its name in the CSV file. NaN is an empty field.
type column struct {
	name   string
	values []float64
}

// A finding is a statement of the paper, measured on one outcome.
type finding struct {
	claim   string // statement of the paper
	measure string // definition of value, and the range of value that supports the claim
	value   float64
	holds   bool
}

// Seeds is the number of simulations in a table.
const Seeds = 20

// Run simulates the experiment with seed … seed+19. It writes the series and the figure of the first simulation and
// the table of all simulations to NAME.csv, .svg, .png and .txt in dir, and returns the table and the paths of the
// files. progress, unless nil, is called after each simulation except the last. If ctx ends, Run returns its error.
func (e *Experiment) Run(ctx context.Context, seed uint64, dir string, progress func(done int)) (table string, files []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", nil, err
	}
	path := func(ext string) string { return filepath.Join(dir, e.Name+ext) }

	first := e.simulate(seed)
	if err := show(first, path); err != nil {
		return "", nil, err
	}

	bySeed := [][]finding{first.findings()}
	for i := range uint64(Seeds - 1) {
		if err := ctx.Err(); err != nil {
			return "", nil, err
		}
		if progress != nil {
			progress(len(bySeed))
		}
		bySeed = append(bySeed, e.simulate(seed+1+i).findings())
	}
	table = fmt.Sprintf("%s\nStatements of the paper, seeds %d to %d\n\n", e.Short, seed, seed+Seeds-1) + tabulate(bySeed)
	if err := atomicfile.Write(path(".txt"), []byte(table)); err != nil {
		return "", nil, err
	}
	return table, []string{path(".csv"), path(".svg"), path(".png"), path(".txt")}, nil
}

// show writes the series and the figure to the paths with the extensions .csv, .svg and .png.
func show(s presentation, path func(ext string) string) error {
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

// encode writes columns of equal length as CSV. Numbers have all their digits.
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

// tabulate summarizes the findings of several outcomes, which all have the same statements.
func tabulate(bySeed [][]finding) string {
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
	for i, f := range bySeed[0] {
		var values []float64
		holds := 0
		for _, findings := range bySeed {
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

// verdict returns "holds" or "does not hold" if at most one seed in ten differs, else "partly".
func verdict(holds, total int) string {
	switch {
	case 10*holds >= 9*total:
		return "holds"
	case 10*holds <= total:
		return "does not hold"
	}
	return "partly"
}

// number formats v with three significant digits, or with all digits before the point from 100 to 1e6.
func number(v float64) string {
	if a := math.Abs(v); a >= 100 && a < 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// wrap breaks text at spaces into lines of at most width characters.
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

// newRandom returns the random source for a seed.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2018)) }

// newFilter returns the filter of a config. It panics if the config is invalid.
func newFilter(c hafvf.Config) *hafvf.Filter {
	f, err := c.Filter()
	if err != nil {
		panic("experiment: " + err.Error())
	}
	return f
}

// steps returns the numbers from 1 to n, the paper's time.
func steps(n int) []float64 {
	t := make([]float64, n)
	for i := range t {
		t[i] = float64(i + 1)
	}
	return t
}

// expectedMemory returns 1/(1−E[w]), the memory that a constant weight at the mean gives.
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

// share returns the percentage of the i below n for which ok is true.
func share(n int, ok func(i int) bool) float64 {
	k := 0
	for i := range n {
		if ok(i) {
			k++
		}
	}
	return 100 * float64(k) / float64(n)
}

// remainingShare returns the lowest memory in the first steps from index change on, relative to the memory before it.
func remainingShare(memory []float64, change, nSteps int) float64 {
	return slices.Min(memory[change:change+nSteps]) / memory[change-1]
}

// spread returns the standard deviation of v.
func spread(v []float64) float64 {
	m, s := mean(v), 0.0
	for _, x := range v {
		s += (x - m) * (x - m)
	}
	return math.Sqrt(s / float64(len(v)))
}
