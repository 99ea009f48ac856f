package compare

import (
	"cmp"
	"math"
	"slices"

	"hafvf/cmd/hafvf/backtest"
	"hafvf/internal/median"
)

// A Report holds the results of each method for each case.
type Report struct {
	WarmUp  int           `json:"warm_up"` // observations at the start that are not scored
	Methods []Description `json:"methods"`
	Groups  []GroupReport `json:"groups"`
}

// A Description describes a method.
type Description struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	Setting   string `json:"setting"`
	Source    string `json:"source"`
	Hindsight bool   `json:"hindsight"` // the method has seen the whole stream
}

// A GroupReport holds the tables of a group.
type GroupReport struct {
	Name   string   `json:"name"`
	Cases  []string `json:"cases"`
	Draws  int      `json:"draws"` // draws of each case
	Tables []Table  `json:"tables"`

	columns []string // short names of the cases
}

// A Table holds one figure of each method. Tables of log predictive, RMSE and F1 are sorted, best first; other tables
// have the order of the methods.
type Table struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Better string `json:"better"` // "higher" or "lower"
	// Over is the number of cases in the means: the cases for which all methods of the table have the figure, or all
	// cases for the delay.
	Over int   `json:"over"`
	Rows []Row `json:"rows"`

	metric int
}

// A Row holds the figure of one method.
type Row struct {
	Method string `json:"method"`
	Figure
	// Rank is the mean rank over the cases, 1 for the best. It is null for delays and if Over is 0.
	Rank  backtest.Number `json:"rank"`
	Cases []CaseFigure    `json:"cases"`
}

// A CaseFigure holds the figure of a method for one case.
type CaseFigure struct {
	Figure
	Draws []backtest.Number `json:"draws"` // one per draw; all methods have the same streams
}

// A Figure is a mean with its standard error. Each is null if it is not defined.
type Figure struct {
	Mean backtest.Number `json:"mean"`
	SE   backtest.Number `json:"se"`
	// Best marks the best method without hindsight and the methods after it, up to the first that is worse by more
	// than two standard errors of the difference. If no method is that much worse, none is marked.
	Best bool `json:"best"`
}

func (c Comparison) report(results [][][][]outcome) *Report {
	r := &Report{WarmUp: WarmUp}
	for _, m := range c.Methods {
		r.Methods = append(r.Methods, Description{m.Name, m.About, m.Setting, m.Source, m.Hindsight})
	}
	for g, group := range c.Groups {
		report := GroupReport{Name: group.Name}
		for _, item := range group.Cases {
			report.Cases = append(report.Cases, item.Name)
			report.columns = append(report.columns, cmp.Or(item.Short, item.Name))
			report.Draws = len(item.Draws)
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

// table summarizes one figure. results are indexed by case, method and draw.
func (c Comparison) table(figure int, results [][][]outcome) Table {
	t := Table{metric: figure}
	values := make([][][]float64, len(c.Methods)) // indexed by method, case and draw
	var shown []int                               // methods with the figure
	for m := range c.Methods {
		found := false
		for caseIndex := range results {
			v := make([]float64, len(results[caseIndex][m]))
			for i, o := range results[caseIndex][m] {
				v[i] = o[figure]
				found = found || !math.IsNaN(o[figure])
			}
			values[m] = append(values[m], v)
		}
		if found {
			shown = append(shown, m)
		}
	}
	// The mean is over the cases for which all methods have the figure. A delay exists only for found changes: its
	// mean is over all cases.
	var common []int
	for caseIndex := range results {
		if figure == delay || !slices.ContainsFunc(shown, func(m int) bool { return math.IsNaN(mean(values[m][caseIndex])) }) {
			common = append(common, caseIndex)
		}
	}
	t.Over = len(common)
	sign := -1.0
	if metrics[figure].Higher {
		sign = 1
	}
	pick := func(m int, cases []int) [][]float64 {
		var picked [][]float64
		for _, caseIndex := range cases {
			picked = append(picked, values[m][caseIndex])
		}
		return picked
	}
	ranks := make([]float64, len(c.Methods))
	for _, m := range shown {
		row := Row{Method: c.Methods[m].Name, Figure: summary(pick(m, common), figure)}
		for caseIndex := range results {
			item := CaseFigure{Figure: summary(pick(m, []int{caseIndex}), figure)}
			for _, v := range values[m][caseIndex] {
				item.Draws = append(item.Draws, backtest.Number(v))
			}
			row.Cases = append(row.Cases, item)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, caseIndex := range common {
		for _, m := range shown {
			rank := 1.0
			for _, other := range shown {
				switch a, b := sign*mean(values[m][caseIndex]), sign*mean(values[other][caseIndex]); {
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
		mark := func(cases []int, figureOf func(row int) *Figure) {
			var figures []*Figure
			var picked [][][]float64
			for i, m := range shown {
				if !c.Methods[m].Hindsight {
					figures = append(figures, figureOf(i))
					picked = append(picked, pick(m, cases))
				}
			}
			markBest(figures, picked, sign)
		}
		mark(common, func(row int) *Figure { return &t.Rows[row].Figure })
		for caseIndex := range results {
			mark([]int{caseIndex}, func(row int) *Figure { return &t.Rows[row].Cases[caseIndex].Figure })
		}
	}
	if figure == nats || figure == rmse || figure == f1 || figure == near {
		slices.SortStableFunc(t.Rows, func(a, b Row) int { return cmp.Compare(sign*float64(b.Mean), sign*float64(a.Mean)) })
	}
	return t
}

// summary returns the mean over cases of the mean over draws, with its standard error. For a processor time it
// returns the median over all draws, without a standard error.
func summary(values [][]float64, figure int) Figure {
	var caseMeans []float64
	for _, v := range values {
		if m := mean(v); !math.IsNaN(m) {
			caseMeans = append(caseMeans, m)
		}
	}
	f := Figure{Mean: backtest.Number(mean(caseMeans)), SE: backtest.Number(standardError(values))}
	if figure == micros {
		f.Mean, f.SE = backtest.Number(median.Of(slices.Concat(values...))), backtest.Number(math.NaN())
	}
	return f
}

// mean returns the mean of the values that are not NaN, or NaN if there are none.
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

// standardError returns the standard error of the mean over cases of the mean over draws. The cases are fixed, and
// the draws are the sample. If every case has a single draw, the cases are the sample.
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

// markBest marks the figures from the best to the last one before the first that is worse by more than two standard
// errors of the difference. If there is no such figure, it marks nothing. Differences are paired: all methods follow
// the same streams.
func markBest(figures []*Figure, values [][][]float64, sign float64) {
	order := make([]int, len(figures))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sign*float64(figures[b].Mean), sign*float64(figures[a].Mean)) })
	for k, i := range order {
		best := order[0]
		difference := make([][]float64, len(values[i]))
		meanDifference := 0.0
		for caseIndex := range difference {
			difference[caseIndex] = make([]float64, len(values[i][caseIndex]))
			for j := range difference[caseIndex] {
				difference[caseIndex][j] = sign * (values[best][caseIndex][j] - values[i][caseIndex][j])
			}
			meanDifference += mean(difference[caseIndex]) / float64(len(difference))
		}
		if meanDifference > 2*standardError(difference) {
			for _, leader := range order[:k] {
				figures[leader].Best = true
			}
			return
		}
	}
}
