package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"hafvf/internal/message"
)

// String returns the report as text for a terminal.
func (r *Report) String() string { return r.write(plain) }

// Markdown returns the report as Markdown.
func (r *Report) Markdown() string { return r.write(markdown) }

// A style is a format of the report.
type style struct {
	heading, code string // text before a heading, and around a name
	best          func(string) string
	table         func(b *strings.Builder, words bool, rows [][]string) // words is true for words and false for figures
	errors        bool                                                  // write the standard errors of single cases
}

var plain = style{best: func(s string) string { return s + "*" }, table: writePlain}

var markdown = style{heading: "#### ", code: "`", best: func(s string) string { return "**" + s + "**" }, table: writeMarkdown, errors: true}

func (r *Report) write(s style) string {
	var b strings.Builder
	best := s.best("best")
	fmt.Fprintf(&b, "The first %d observations of each stream are not scored. ± is a standard error. %s marks the best method without\n"+
		"hindsight, and the methods after it up to the first that is worse by more than two standard errors of the difference.\n"+
		"A dash: the method has no such figure.\n\n", r.WarmUp, best)
	rows := [][]string{{"method", "what it is", "setting", "source"}}
	for _, m := range r.Methods {
		about := m.About
		if m.Hindsight {
			about += " (hindsight)"
		}
		rows = append(rows, []string{s.code + m.Name + s.code, about, m.Setting, m.Source})
	}
	s.table(&b, true, rows)
	for _, g := range r.Groups {
		g.write(&b, s)
	}
	return b.String()
}

func (g *GroupReport) write(b *strings.Builder, s style) {
	draws := ""
	if g.Draws > 1 {
		draws = fmt.Sprintf(", %d of each", g.Draws)
	}
	fmt.Fprintf(b, "\n%s%s%s: means\n\n", s.heading, message.Printable(g.Name), draws)
	header := []string{"method"}
	var names []string
	for _, t := range g.Tables {
		m := metrics[t.metric]
		header = append(header, m.Short)
		if t.metric == nats {
			header = append(header, "rank")
		}
		for _, row := range t.Rows {
			if !slices.Contains(names, row.Method) {
				names = append(names, row.Method)
			}
		}
	}
	rows := [][]string{header}
	for _, name := range names {
		cells := []string{s.code + name + s.code}
		for _, t := range g.Tables {
			i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Method == name })
			if i < 0 {
				cells = append(cells, "–")
				if t.metric == nats {
					cells = append(cells, "–")
				}
				continue
			}
			cells = append(cells, t.Rows[i].Figure.text(metrics[t.metric].digits, s, true))
			if t.metric == nats {
				cells = append(cells, decimal(float64(t.Rows[i].Rank), 1))
			}
		}
		rows = append(rows, cells)
	}
	s.table(b, false, rows)
	for _, t := range g.Tables {
		if t.Over < len(g.Cases) {
			fmt.Fprintf(b, "\n%s: the mean is over the %d of %d cases that have this figure for all methods in the table.\n", metrics[t.metric].Short, t.Over, len(g.Cases))
		}
	}
	if len(g.Cases) < 2 {
		return
	}
	for _, t := range g.Tables {
		if t.metric == micros || t.metric == size {
			continue
		}
		fmt.Fprintf(b, "\n%s%s: %s, %s is better\n\n", s.heading, message.Printable(g.Name), t.Name, t.Better)
		header := []string{"method"}
		for _, name := range g.columns {
			header = append(header, message.Printable(name))
		}
		rows := [][]string{header}
		for _, row := range t.Rows {
			cells := []string{s.code + row.Method + s.code}
			for _, f := range row.Cases {
				cells = append(cells, f.text(max(0, metrics[t.metric].digits-1), s, s.errors))
			}
			rows = append(rows, cells)
		}
		s.table(b, false, rows)
	}
}

// text formats the figure with the given number of digits after the decimal point, marks it if it is the best, and
// with errors adds the standard error if it is positive and finite.
func (f Figure) text(digits int, s style, errors bool) string {
	text := decimal(float64(f.Mean), digits)
	if math.IsNaN(float64(f.Mean)) {
		return text
	}
	if f.Best {
		text = s.best(text)
	}
	if se := float64(f.SE); errors && se > 0 && !math.IsInf(se, 0) {
		text += " ±" + decimal(se, digits)
	}
	return text
}

// decimal formats v with at most the given number of digits after the decimal point: none from 1000 on, one from 100
// on, two from 10 on. It omits a zero before the point. NaN is a dash.
func decimal(v float64, digits int) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) >= 1000:
		digits = 0
	case math.Abs(v) >= 100:
		digits = min(digits, 1)
	case math.Abs(v) >= 10:
		digits = min(digits, 2)
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if rest, ok := strings.CutPrefix(text, "0."); ok {
		return "." + rest
	}
	if rest, ok := strings.CutPrefix(text, "-0."); ok {
		return "-." + rest
	}
	return text
}

// writePlain aligns words and the first column to the left, and figures to the right.
func writePlain(b *strings.Builder, words bool, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || words {
				line.WriteString(cell + pad + "  ")
			} else {
				line.WriteString(pad + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

func writeMarkdown(b *strings.Builder, words bool, rows [][]string) {
	column := "|---:"
	if words {
		column = "|---"
	}
	for i, row := range rows {
		for j, cell := range row {
			row[j] = strings.ReplaceAll(cell, "|", "\\|")
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---" + strings.Repeat(column, len(row)-1) + "|\n")
		}
	}
}
