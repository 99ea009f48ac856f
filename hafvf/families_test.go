package hafvf_test

import (
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
)

// A documented parameter is a row of the package doc's table of families.
type documented struct{ family, observation, parameter, value, domain, memory string }

// familyTable reads the table. A cell starts where its heading starts. Family, observation and memory appear
// only in a family's first row.
func familyTable(t *testing.T) (table []documented) {
	t.Helper()
	text := must(os.ReadFile("doc.go"))
	_, text2, ok := strings.Cut(string(text), "//\tfamily ")
	body, _, _ := strings.Cut("family "+text2, "\n//\n")
	lines := strings.Split(body, "\n//\t")
	if !ok || len(lines) < 2 {
		t.Fatal("no table of families in doc.go")
	}
	starts := append(regexp.MustCompile(`\S+`).FindAllStringIndex(lines[0], -1), []int{math.MaxInt})
	for _, line := range lines[1:] {
		var cells [6]string
		row := []rune(line)
		for i := range cells {
			cells[i] = strings.TrimSpace(string(row[min(starts[i][0], len(row)):min(starts[i+1][0], len(row))]))
		}
		d := documented{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]}
		if d.family == "" {
			last := table[len(table)-1]
			d.family, d.observation, d.memory = last.family, last.observation, last.memory
		}
		table = append(table, d)
	}
	return table
}

// domains lists values inside and outside the domains that the table names, for m = 2.
var domains = map[string]struct{ in, out []any }{
	"> 0":               {[]any{.5, 3.}, []any{0., -1.}},
	"> 0, K ≥ 2":        {[]any{[]float64{1, .5}}, []any{[]float64{1}, []float64{1, 0}, 1.}},
	"real":              {[]any{-2.5, 0.}, []any{math.NaN(), math.Inf(1), "x"}},
	"> m − 1":           {[]any{1.5}, []any{1.}},
	"positive definite": {[]any{2., [][]float64{{2, .5}, {.5, 1}}}, []any{0., [][]float64{{1, 2}, {2, 1}}, [][]float64{{2, .5}, {.4, 1}}}},
	"whole, ≥ 1":        {[]any{1., 3.}, []any{0., 1.5}},
	"true or false":     {[]any{true, false}, []any{1.}},
}

// The table of families in the package doc matches the code.
func TestFamilyTable(t *testing.T) {
	table := familyTable(t)
	var names []string
	for _, d := range table {
		names = append(names, d.family)
		familytest.Of(d.family)
	}
	for _, c := range familytest.All() {
		family := c.Name
		if !slices.Contains(names, family) {
			t.Errorf("doc.go's table has no row of %s", family)
			continue
		}
		m := must(expfam.New(family, c.MinParams, c.Dim))
		var rows []documented
		for _, d := range table {
			if d.family == family {
				rows = append(rows, d)
			}
		}
		// For an unknown parameter, the error lists the known ones.
		_, err := expfam.New(family, withParam(c.MinParams, "nonsense", 1.), c.Dim)
		if err == nil {
			t.Fatalf("%s knows a parameter nonsense", family)
		}
		for _, d := range rows {
			if !strings.Contains(err.Error(), d.parameter) {
				t.Errorf("%s has no parameter %s: %v", family, d.parameter, err)
			}
			checkDefault(t, m, d)
			domain, ok := domains[d.domain]
			if !ok {
				t.Errorf("%s, %s: unknown domain %q", family, d.parameter, d.domain)
			}
			for _, v := range domain.in {
				if _, err := expfam.New(family, withParam(c.MinParams, d.parameter, v), c.Dim); err != nil {
					t.Errorf("%s, %s in %q: %v", family, d.parameter, d.domain, err)
				}
			}
			for _, v := range domain.out {
				if _, err := expfam.New(family, withParam(c.MinParams, d.parameter, v), c.Dim); err == nil {
					t.Errorf("%s: %s = %v is accepted, documented %q", family, d.parameter, v, d.domain)
				}
			}
		}
		for _, p := range m.Params() {
			if !slices.ContainsFunc(rows, func(d documented) bool { return d.parameter == p.Name }) {
				t.Errorf("%s: parameter %s is not documented", family, p.Name)
			}
		}
		checkMemory(t, m, c.Row(m, rand.New(rand.NewPCG(1, 1)), 0), rows[0])
	}
}

func withParam(params expfam.Params, name string, value any) expfam.Params {
	out := expfam.Params{name: value}
	for k, v := range params {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// checkDefault compares the documented default with the prior of a model that has it.
func checkDefault(t *testing.T, m expfam.Model, d documented) {
	t.Helper()
	c := familytest.Of(d.family)
	if d.parameter == "order" { // not a parameter of the posterior
		if s, ok := m.(expfam.Sequential); !ok || strconv.Itoa(s.Window()) != d.value {
			t.Errorf("%s: order is not %s by default", d.family, d.value)
		}
		return
	}
	switch d.value {
	case "required":
		params := withParam(c.MinParams, d.parameter, nil)
		delete(params, d.parameter)
		if _, err := expfam.New(d.family, params, 3); err == nil {
			t.Errorf("%s: %s has a default, documented as required", d.family, d.parameter)
		}
		return
	case "false":
		explicit, err := expfam.New(d.family, withParam(c.MinParams, d.parameter, false), c.Dim)
		if err != nil || explicit.Len() != m.Len() {
			t.Errorf("%s: %s is not false by default (%v)", d.family, d.parameter, err)
		}
		other, err := expfam.New(d.family, withParam(c.MinParams, d.parameter, true), c.Dim)
		if err != nil || other.Len() == m.Len() {
			t.Errorf("%s: %s means nothing (%v)", d.family, d.parameter, err)
		}
		return
	}
	want, err := strconv.ParseFloat(d.value, 64)
	if d.value == "m + 1" {
		want, err = float64(m.Dim()+1), nil
	}
	if err != nil {
		t.Errorf("%s: default %q of %s", d.family, d.value, d.parameter)
	}
	shape, got := parameter(m, make([]float64, m.Len()), d.parameter)
	for i, v := range got {
		w := want
		if shape.Cols > 0 && i%shape.Cols != i/shape.Cols {
			w = 0 // off the diagonal
		}
		if math.Abs(v-w) > 1e-15 {
			t.Errorf("%s: %s is %v by default, documented %s", d.family, d.parameter, got, d.value)
			break
		}
	}
	if len(got) == 0 {
		t.Errorf("%s: no posterior parameter %s", d.family, d.parameter)
	}
}

// parameter returns a parameter of the posterior of sample d.
func parameter(m expfam.Model, d []float64, name string) (shape expfam.Param, values []float64) {
	posterior := familytest.Posterior(m, d)
	for _, p := range m.Params() {
		if p.Name == name {
			return p, posterior[:p.Size()]
		}
		posterior = posterior[p.Size():]
	}
	return shape, nil
}

// checkMemory compares the documented unit of memory with the prior and with observations.
func checkMemory(t *testing.T, m expfam.Model, x []float64, d documented) {
	t.Helper()
	count := func(sample []float64) (sum float64) {
		for term := range strings.SplitSeq(d.memory, " + ") {
			factor := 1.
			if rest, ok := strings.CutPrefix(term, "2·"); ok {
				factor, term = 2, rest
			}
			_, values := parameter(m, sample, term)
			if values == nil {
				t.Errorf("%s: memory in units of %q, which is no parameter", d.family, term)
			}
			for _, v := range values {
				sum += factor * v
			}
		}
		return sum
	}
	sample := make([]float64, m.Len())
	prior := count(sample)
	if math.Abs(m.PriorMemory()-prior) > 1e-12 {
		t.Errorf("%s: the prior's memory is %g, in the documented unit %g", d.family, m.PriorMemory(), prior)
	}
	for range 3 {
		m.Observe(sample, x, 1)
	}
	if got, want := m.Memory(sample), count(sample)-prior; math.Abs(got-want) > 1e-12 {
		t.Errorf("%s: memory %g after three observations, in the documented unit %g", d.family, got, want)
	}
}
