package fit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/message"
	"hafvf/internal/tabular"
)

// A Table has a row for each key or subject. A pooled fit has a first row for all of them.
type Table struct {
	paths   []string
	choices bool // true for a fit of choices
	rows    []row
	earlier *Earlier // nil without an earlier fit
}

type row struct {
	key string // empty for the row of a pooled fit
	figures
	maximum         *likelihood.Maximum // nil for a subject of a pooled fit
	defaultEvidence float64             // log evidence at the values of the config
	swapped         bool                // the choices are more probable with the words swapped
}

// figures are the criteria for comparing fits; NaN if a row has none.
type figures struct {
	counts
	evidence   float64
	likelihood float64 // likelihood of the choices; without a response, the evidence
	aic, bic   float64
}

func (f figures) plus(g figures) figures {
	return figures{f.counts.plus(g.counts), f.evidence + g.evidence, f.likelihood + g.likelihood, f.aic + g.aic, f.bic + g.bic}
}

// Output returns the table of the fits.
func (t *Table) Output() output.Table {
	type column = output.Column[row]
	number := output.Number[row]
	columns := []column{
		{Name: "key", Kind: tabular.String, Cell: func(r row) any { return r.key }},
		number("trials", func(r row) float64 { return float64(r.trials) }),
	}
	for i, path := range t.paths {
		addColumn := func(name string, values func(m *likelihood.Maximum) []float64) {
			columns = append(columns, number(name, func(r row) float64 {
				if r.maximum == nil {
					return math.NaN()
				}
				return values(r.maximum)[i]
			}))
		}
		addColumn(path, func(m *likelihood.Maximum) []float64 { return m.Values })
		addColumn(path+"_lower", func(m *likelihood.Maximum) []float64 { return m.Lower })
		addColumn(path+"_upper", func(m *likelihood.Maximum) []float64 { return m.Upper })
	}
	if t.choices {
		columns = append(columns,
			number("choices", func(r row) float64 { return float64(r.choices) }),
			number("log_likelihood", func(r row) float64 { return r.likelihood }))
	}
	columns = append(columns,
		number("log_evidence", func(r row) float64 { return r.evidence }),
		number("aic", func(r row) float64 { return r.aic }),
		number("bic", func(r row) float64 { return r.bic }),
		number("default_log_evidence", func(r row) float64 { return r.defaultEvidence }),
		column{Name: "converged", Kind: tabular.String, Cell: func(r row) any {
			if r.maximum == nil {
				return nil
			}
			return r.maximum.Outcome
		}})
	if e := t.earlier; e != nil {
		columns = append(columns,
			number("against_log_evidence", func(r row) float64 { return e.figuresOf(r.key).evidence }),
			number("delta_aic", func(r row) float64 { return r.aic - e.figuresOf(r.key).aic }),
			number("delta_bic", func(r row) float64 { return r.bic - e.figuresOf(r.key).bic }))
	}
	return output.NewTable(columns, nil, slices.Values(t.rows))
}

// Turned returns a warning if the choices of most subjects are more probable with the words swapped; else "".
func (t *Table) Turned() string {
	n, swapped := len(t.subjects()), 0
	for _, r := range t.subjects() {
		if r.swapped {
			swapped++
		}
	}
	if 2*swapped <= n {
		return ""
	}
	return fmt.Sprintf("warning: the choices of %d of %s are more probable if the other word stands for outcome 1\n", swapped, message.Count(n, "subject", "subjects"))
}

// subjects returns the rows without the first row of a pooled fit.
func (t *Table) subjects() []row {
	if t.rows[0].key == "" {
		return t.rows[1:]
	}
	return t.rows
}

// Tally describes the numbers, and counts the outcomes of the searches.
func (t *Table) Tally() string {
	description := "parameters of a learner of the outcomes, without choices: "
	if t.choices {
		description = "parameters of subjects, by their choices: "
	}
	n := map[likelihood.Outcome]int{}
	for _, r := range t.rows {
		if r.maximum != nil {
			n[r.maximum.Outcome]++
		}
	}
	return description + fmt.Sprintf("%s; maxima: %d inside, %d at a bound or on a ridge (that side of an interval is empty), %d not found",
		message.Count(len(t.rows), "row", "rows"), n[likelihood.Converged], n[likelihood.AtBound], n[likelihood.Failed])
}

// An Earlier is the table of an earlier fit.
type Earlier struct {
	path   string
	keys   map[string]figures
	total  figures // pooled row, or the sums
	pooled bool    // the table has a pooled row
}

// figuresOf returns the figures of a key; for "", the total.
func (e *Earlier) figuresOf(key string) figures {
	if key == "" {
		return e.total
	}
	return e.keys[key]
}

// NewEarlier returns the table of an earlier fit without rows, which add adds. values are trials, log_evidence, aic and
// bic, and for choices also choices and log_likelihood; NaN is none. Total finishes the table.
func NewEarlier(path string, choices bool) (e *Earlier, add func(key string, values []float64)) {
	e = &Earlier{path: path, keys: map[string]figures{}}
	return e, func(key string, values []float64) {
		v := [6]float64{}
		copy(v[:], values)
		if !choices {
			v[5] = v[1]
		}
		parsed := figures{counts{int(v[0]), int(v[4])}, v[1], v[5], v[2], v[3]}
		if key == "" {
			e.total, e.pooled = parsed, true
			return
		}
		e.keys[key] = parsed
	}
}

// Total adds up the keys of a table without a pooled row.
func (e *Earlier) Total() {
	if e.pooled {
		return
	}
	e.total = figures{}
	for _, name := range slices.Sorted(maps.Keys(e.keys)) {
		e.total = e.total.plus(e.keys[name])
	}
}

// Compare returns an error unless the fit has the same keys and trials as the earlier fit.
func (f *Fit) Compare(e *Earlier) error {
	for _, k := range f.subjects {
		earlier, ok := e.keys[k.name]
		if !ok {
			return fmt.Errorf("--against: %s has no key %s: two fits are compared on the same keys and trials", e.path, message.Printable(k.name))
		}
		if earlier.trials != k.trials {
			return fmt.Errorf("--against: %s has %d trials of the key %s, and the data %d: two fits are compared on the same keys and trials", e.path, earlier.trials, message.Printable(k.name), k.trials)
		}
		if earlier.choices != k.choices {
			return fmt.Errorf("--against: %s has %d choices of %s, and the data %d: two fits are compared on the same choices", e.path, earlier.choices, message.Printable(k.name), k.choices)
		}
	}
	if n := len(e.keys); n != len(f.subjects) {
		return fmt.Errorf("--against: %s has %s, and the data %d: two fits are compared on the same keys and trials", e.path, message.Count(n, "key", "keys"), len(f.subjects))
	}
	return nil
}

// Against adds the columns of a comparison with an earlier fit, and returns a summary of the comparison.
func (t *Table) Against(e *Earlier) string {
	t.earlier = e
	keys, total := t.subjects(), t.rows[0].figures
	if len(keys) == len(t.rows) {
		for _, r := range keys[1:] {
			total = total.plus(r.figures)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "this fit minus %s, in total, and the number of keys for which each is better\n", e.path)
	line := func(name string, sign float64, figure func(figures) float64) {
		better, worse, none := 0, 0, false
		for _, r := range keys {
			d := sign * (figure(r.figures) - figure(e.figuresOf(r.key)))
			none = none || math.IsNaN(d)
			if d > 0 {
				better++
			}
			if d < 0 {
				worse++
			}
		}
		fmt.Fprintf(&b, "  %-12s %+10.2f", name, figure(total)-figure(e.total))
		if !none {
			fmt.Fprintf(&b, "   this for %d of %s, %s for %d", better, message.Count(len(keys), "key", "keys"), e.path, worse)
		}
		b.WriteByte('\n')
	}
	line(map[bool]string{true: "likelihood", false: "log evidence"}[t.choices], 1, func(f figures) float64 { return f.likelihood })
	line("AIC", -1, func(f figures) float64 { return f.aic })
	line("BIC", -1, func(f figures) float64 { return f.bic })
	return b.String()
}
