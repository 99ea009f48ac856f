package compare

import (
	"cmp"
	"math"
	"slices"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/internal/median"
)

// A Report is what each method made of each case.
type Report struct {
	WarmUp  int           `json:"warm_up"` // observations that are not scored
	Methods []Description `json:"methods"`
	Groups  []GroupReport `json:"groups"`
}

// A Description is a method's.
type Description struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	Setting   string `json:"setting"`
	Source    string `json:"source"`
	Hindsight bool   `json:"hindsight"` // it knew the whole stream
}

// A GroupReport has the figures of a group.
type GroupReport struct {
	Name   string   `json:"name"`
	Cases  []string `json:"cases"`
	Draws  int      `json:"draws"` // of each case
	Tables []Table  `json:"tables"`

	columns []string // short names of the cases
}

// A Table has a figure of each method, from the best.
type Table struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Better string `json:"better"` // higher or lower
	// Over is the number of cases that means are over: those in which all methods of the
	// table have the figure.
	Over int   `json:"over"`
	Rows []Row `json:"rows"`

	metric int
}

// A Row is a method's.
type Row struct {
	Method string `json:"method"`
	Figure
	// Rank is the mean over the cases, 1 the best.
	Rank  backtest.Number `json:"rank"`
	Cases []CaseFigure    `json:"cases"`
}

// A CaseFigure is a method's for one case.
type CaseFigure struct {
	Figure
	Draws []backtest.Number `json:"draws"` // the same streams for all methods
}

// A Figure is a mean with its standard error, null where there is none.
type Figure struct {
	Mean backtest.Number `json:"mean"`
	SE   backtest.Number `json:"se"`
	// Best says that this is the best figure of a method without hindsight, or one that
	// follows it, before the first that is worse by more than two standard errors of the
	// difference.
	Best bool `json:"best"`
}

func (c Comparison) report(results [][][][]outcome) *Report {
	r := &Report{WarmUp: WarmUp}
	for _, m := range c.Methods {
		r.Methods = append(r.Methods, Description{m.Name, m.About, m.Setting, m.Source, m.Hindsight})
	}
	for g, group := range c.Groups {
		report := GroupReport{Name: group.Name}
		for _, one := range group.Cases {
			report.Cases = append(report.Cases, one.Name)
			report.columns = append(report.columns, cmp.Or(one.Short, one.Name))
			report.Draws = len(one.Draws)
		}
		for i, m := range metrics {
			if t := c.table(i, results[g]); len(t.Rows) > 0 {
				t.Key, t.Name, t.Better = m.Key, m.Name, "lower"
				if m.Higher {
					t.Better = "higher"
				}
				if i == rmse && group.Truth != Complete {
					t.Name = "RMSE of the prediction, in standard deviations of the series"
				}
				report.Tables = append(report.Tables, t)
			}
		}
		r.Groups = append(r.Groups, report)
	}
	return r
}

// table sums up one figure; results are by case, method and draw.
func (c Comparison) table(figure int, results [][][]outcome) Table {
	t := Table{metric: figure}
	values := make([][][]float64, len(c.Methods)) // by method, case and draw
	var shown []int                               // methods with the figure
	for m := range c.Methods {
		has := false
		for at := range results {
			v := make([]float64, len(results[at][m]))
			for i, o := range results[at][m] {
				v[i] = o[figure]
				has = has || !math.IsNaN(o[figure])
			}
			values[m] = append(values[m], v)
		}
		if has {
			shown = append(shown, m)
		}
	}
	// The mean is over cases in which all have the figure. A delay is of what was found.
	var common []int
	for at := range results {
		if figure == delay || !slices.ContainsFunc(shown, func(m int) bool { return math.IsNaN(mean(values[m][at])) }) {
			common = append(common, at)
		}
	}
	t.Over = len(common)
	sign := -1.0
	if metrics[figure].Higher {
		sign = 1
	}
	pick := func(m int, cases []int) [][]float64 {
		var some [][]float64
		for _, at := range cases {
			some = append(some, values[m][at])
		}
		return some
	}
	ranks := make([]float64, len(c.Methods))
	for _, m := range shown {
		row := Row{Method: c.Methods[m].Name, Figure: summary(pick(m, common), figure)}
		for at := range results {
			one := CaseFigure{Figure: summary(pick(m, []int{at}), figure)}
			for _, v := range values[m][at] {
				one.Draws = append(one.Draws, backtest.Number(v))
			}
			row.Cases = append(row.Cases, one)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, at := range common {
		for _, m := range shown {
			rank := 1.0
			for _, other := range shown {
				switch a, b := sign*mean(values[m][at]), sign*mean(values[other][at]); {
				case b > a:
					rank++
				case b == a && other != m:
					rank += .5
				}
			}
			ranks[m] += rank / float64(len(common))
		}
	}
	for i, m := range shown {
		t.Rows[i].Rank = backtest.Number(ranks[m])
		if len(common) == 0 || figure == delay {
			t.Rows[i].Rank = backtest.Number(math.NaN())
		}
	}
	if figure != micros && figure != size && figure != delay {
		mark := func(cases []int, of func(row int) *Figure) {
			var figures []*Figure
			var some [][][]float64
			for i, m := range shown {
				if !c.Methods[m].Hindsight {
					figures = append(figures, of(i))
					some = append(some, pick(m, cases))
				}
			}
			markBest(figures, some, sign)
		}
		mark(common, func(row int) *Figure { return &t.Rows[row].Figure })
		for at := range results {
			mark([]int{at}, func(row int) *Figure { return &t.Rows[row].Cases[at].Figure })
		}
	}
	if figure == nats || figure == rmse || figure == f1 || figure == near {
		slices.SortStableFunc(t.Rows, func(a, b Row) int { return cmp.Compare(sign*float64(b.Mean), sign*float64(a.Mean)) })
	}
	return t
}

// summary is the mean over cases of the mean over draws, and its standard error: over the
// draws, and where each case is a single one over the cases. Of a time it is the median.
func summary(values [][]float64, figure int) Figure {
	var all []float64
	for _, v := range values {
		if m := mean(v); !math.IsNaN(m) {
			all = append(all, m)
		}
	}
	f := Figure{Mean: backtest.Number(mean(all)), SE: backtest.Number(standardError(values))}
	if figure == micros {
		f.Mean, f.SE = backtest.Number(median.Of(slices.Concat(values...))), backtest.Number(math.NaN())
	}
	return f
}

// mean is over the finite ones, NaN where there is none.
func mean(v []float64) float64 {
	sum, n := 0.0, 0.0
	for _, x := range v {
		if !math.IsNaN(x) {
			sum += x
			n++
		}
	}
	return sum / n
}

// standardError is that of the mean over cases of the mean over draws. Cases are fixed,
// and draws are not; single draws make the cases the sample.
func standardError(values [][]float64) float64 {
	if len(values) > 1 && !slices.ContainsFunc(values, func(v []float64) bool { return len(v) > 1 }) {
		return standardError([][]float64{slices.Concat(values...)})
	}
	variance, k := 0.0, 0.0
	for _, v := range values {
		m, square, n := mean(v), 0.0, 0.0
		for _, x := range v {
			if !math.IsNaN(x) {
				square += (x - m) * (x - m)
				n++
			}
		}
		if n == 0 {
			continue
		}
		variance += square / (n - 1) / n
		k++
	}
	return math.Sqrt(variance) / k
}

// markBest marks the figures from the best down to the last before the first that is beaten,
// if one is. Differences are paired: all methods have followed the same streams.
func markBest(figures []*Figure, values [][][]float64, sign float64) {
	order := make([]int, len(figures))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sign*float64(figures[b].Mean), sign*float64(figures[a].Mean)) })
	for k, i := range order {
		best := order[0]
		difference := make([][]float64, len(values[i]))
		off := 0.0
		for at := range difference {
			difference[at] = make([]float64, len(values[i][at]))
			for j := range difference[at] {
				difference[at][j] = sign * (values[best][at][j] - values[i][at][j])
			}
			off += mean(difference[at]) / float64(len(difference))
		}
		if off > 2*standardError(difference) {
			for _, level := range order[:k] {
				figures[level].Best = true
			}
			return
		}
	}
}
