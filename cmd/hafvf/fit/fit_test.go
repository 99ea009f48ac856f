package fit

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"hafvf/hafvf"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

func TestMain(m *testing.M) {
	beam.Init()
	os.Exit(m.Run())
}

// parsed returns a config.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	return expect.Get(config.Parse("fit.yaml", []byte(text), nil))(t)
}

// read returns a fit that has read the records of a file.
func read(t *testing.T, model, over string, r Response, records string) *Fit {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.csv")
	expect.OK(t, os.WriteFile(path, []byte(records), 0o600))
	c := parsed(t, fmt.Sprintf("model: %s\nlevels: [{alpha: 9, beta: 1}]\nsource: {csv: {path: %s, key: [subject, option]}}\n", model, path))
	files := c.Source.Files()
	f := expect.Get(New(&c.Settings, Source{Key: files.Key}, over, r))(t)
	if r.Choice != "" {
		files.Key, _ = f.Key()
		files.Carry = f.Carried()
	}
	observer := &pipeline.Observer{Estimate: func(key string, e *keyed.Estimate, _ []keyed.AlertEvent) { f.Add(key, e) }}
	_, err := pipeline.Run{Graph: expect.Get(pipeline.Compose(c))(t).Trial(), Observer: observer}.Execute(t.Context(), nil)
	expect.OK(t, err)
	expect.OK(t, f.Read())
	return f
}

// The likelihood of choices is a softmax of the predictions and of the last choice.
func TestLikelihoodOfChoices(t *testing.T) {
	f := read(t, "{family: bernoulli}", "top", Response{Choice: "option", Stay: true},
		"subject,option,time,x\ns,a,2026-01-01T00:00:00Z,1\ns,a,2026-01-01T00:01:00Z,0\ns,b,2026-01-01T00:02:00Z,1\ns,a,2026-01-01T00:03:00Z,1\n")
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	const stay = .7
	want := math.Log(.5) + math.Log(sigmoid(stay)) + 2*math.Log(sigmoid(-stay))
	if _, got := f.nats(f.subjects[0], []float64{f.start()[0], 0, stay}); math.Abs(got-want) > 1e-12 {
		t.Errorf("with β = 0 %v, not %v", got, want)
	}
	// The prediction of a rewarded option rises, so the second a is more probable and the b less.
	values := []float64{f.start()[0], 2, 0}
	if _, got := f.nats(f.subjects[0], values); got == 4*math.Log(.5) {
		t.Error("predictions do not matter")
	}
}

// Only the options on offer are in the softmax, also one that is never chosen. A missed choice needs no offer.
func TestLikelihoodOfOffers(t *testing.T) {
	f := read(t, "{family: bernoulli}", "top", Response{Choice: "option", Offered: "on"},
		"subject,option,on,time,x\ns,a,a b,2026-01-01T00:00:00Z,1\ns,a,a  b c a,2026-01-01T00:01:00Z,0\ns,,,2026-01-01T00:02:00Z,\ns,c,d c,2026-01-01T00:03:00Z,1\ns,b,b,2026-01-01T00:04:00Z,\n")
	if _, got := f.nats(f.subjects[0], []float64{f.start()[0], 0}); math.Abs(got+math.Log(2*3*2)) > 1e-12 {
		t.Errorf("with β = 0 %v, not %v", got, -math.Log(2*3*2))
	}
	expect.Same(t, [2]int{3, 4}, [2]int{f.subjects[0].trials, f.subjects[0].choices})
}

// A fit is compared with an earlier fit, here with itself, by sums and by keys.
func TestAgainst(t *testing.T) {
	var records strings.Builder
	records.WriteString("subject,option,time,x\n")
	for i := range 20 {
		fmt.Fprintf(&records, "s,a,2026-01-01T00:%02d:00Z,%d\ns,b,2026-01-01T00:%02d:00Z,%d\n", i, i%2, i, i*i%3%2)
	}
	f := read(t, "{family: bernoulli}", "levels[0].alpha", Response{}, records.String())
	for _, pooled := range []bool{false, true} {
		const path = "fit.csv"
		table := f.Table(pooled, func(_, _ int) {})
		earlier, add := NewEarlier(path, false)
		for _, r := range table.rows {
			add(r.key, []float64{float64(r.trials), r.evidence, r.aic, r.bic})
		}
		earlier.Total()
		expect.OK(t, f.Compare(earlier))
		equal := "      +0.00   this for 0 of 2 keys, " + path + " for 0\n"
		none := "      +0.00\n" // keys of a pooled fit have no criteria of their own
		if !pooled {
			none = equal
		}
		expect.Same(t, "this fit minus "+path+", in total, and the number of keys for which each is better\n  log evidence"+equal+"  AIC         "+none+"  BIC         "+none, table.Against(earlier), "pooled: ", pooled)
		if pooled {
			a, b, sum := table.rows[1], table.rows[2], table.rows[0]
			if sum.trials != 40 || sum.evidence != a.evidence+b.evidence || sum.defaultEvidence != a.defaultEvidence+b.defaultEvidence || sum.evidence < sum.defaultEvidence {
				t.Errorf("%+v, %+v and in sum %+v", a, b, sum)
			}
		}
	}
	expect.Same(t, "{{11 22} 33 44 55 66}", fmt.Sprint(figures{counts{1, 2}, 3, 4, 5, 6}.plus(figures{counts{10, 20}, 30, 40, 50, 60})))
	better, worse := row{key: "a", figures: figures{evidence: -3, likelihood: -3, aic: 8, bic: 9}}, row{key: "b", figures: figures{evidence: -5, likelihood: -5, aic: 12, bic: 13}}
	table, earlier := &Table{rows: []row{better, worse}}, &Earlier{path: "old", keys: map[string]figures{"a": worse.figures, "b": better.figures}, total: better.figures}
	expect.Same(t, "this fit minus old, in total, and the number of keys for which each is better\n  log evidence      -5.00   this for 1 of 2 keys, old for 1\n  AIC              +12.00   this for 1 of 2 keys, old for 1\n  BIC              +13.00   this for 1 of 2 keys, old for 1\n", table.Against(earlier))
	expect.Error(t, f.Compare(&Earlier{path: "old", keys: map[string]figures{"s/a": {counts: counts{trials: 20}}}}), "no key s/b")
	expect.Error(t, f.Compare(&Earlier{path: "old", keys: map[string]figures{"s/a": {counts: counts{trials: 21}}}}), "21 trials of the key s/a, and the data 20")
}

// A path identifies one number. Errors name the mistake.
func TestPaths(t *testing.T) {
	filterOf := func(model string) hafvf.Config {
		values := "[x]"
		if strings.Contains(model, "dim: 2") {
			values = "[x, y]"
		}
		return parsed(t, "model: "+model+"\nlevels: [{alpha: 9, beta: 1}]\nsource: {csv: {path: in.csv, values: "+values+"}}\n").Filter().Filter
	}
	const list, one = "{family: mvnormal, dim: 2, prior: {mu: [1, 2], scale: [[3, 0.5], [0.5, 4]]}}", "{family: normal, prior: {mu: 7}}"
	for _, c := range []struct {
		model, over string
		start       []float64
		wrong       string
	}{
		{one, "levels[0].alpha, levels.0.beta", []float64{9, 1}, ""},
		{one, "model.prior.mu", []float64{7}, ""},
		{one, "levels[1].alpha", nil, "there is no levels[1].alpha: the config has 1 level"},
		{one, "levels[0].gamma", nil, "cannot be fitted"},
		{one, "top, top", nil, "top is listed twice"},
		{one, "model.prior.mus", nil, "cannot be fitted"},
		{one, "model.prior.mu[1]", nil, "mu has no entry"},
		{list, "model.prior.mu", nil, "is a list: name an entry, as model.prior.mu[0]"},
		{list, "model.prior.mu[1]", []float64{2}, ""},
		{list, "model.prior.mu[2]", nil, "mu has no entry"},
		{list, "model.prior.scale[0]", nil, "is a list: name an entry, as model.prior.scale[0][0]"},
		{list, "model.prior.scale[0][1], model.prior.scale[1][1]", []float64{.5, 4}, ""},
	} {
		filter := filterOf(c.model)
		paths, err := pathsOf(c.over, filter)
		if c.wrong != "" {
			expect.Error(t, err, c.wrong, c.over)
			continue
		}
		expect.OK(t, err)
		var start, moved []float64
		for _, p := range paths {
			start, moved = append(start, p.Start), append(moved, p.Start+1)
		}
		expect.Same(t, c.start, start, c.over)
		// A path finds the value that it set, and does not change the original config.
		found := expect.Get(pathsOf(c.over, withValues(filter, paths, moved)))(t)
		for i, p := range found {
			if math.Abs(p.Start-moved[i]) > 1e-12 {
				t.Errorf("%s is %v, not %v", p.name, p.Start, moved[i])
			}
		}
		expect.Same(t, start[0], expect.Get(pathsOf(c.over, filter))(t)[0].Start, c.over)
		if isReal := paths[0].Scale == likelihood.Real; isReal != strings.Contains(c.over, "mu") && !strings.Contains(c.over, "[0][1]") {
			t.Errorf("%s is searched on the scale %v", c.over, paths[0].Scale)
		}
	}
}

// Turned warns if the choices of more than half of the subjects are more probable with the words swapped.
func TestTurned(t *testing.T) {
	for _, c := range []struct {
		swapped []bool
		warned  bool
	}{{[]bool{true, false}, false}, {[]bool{true, true, false}, true}, {[]bool{true, false, false}, false}} {
		table := &Table{}
		for _, swapped := range c.swapped {
			table.rows = append(table.rows, row{key: "s", swapped: swapped})
		}
		if text := table.Turned(); (text != "") != c.warned {
			t.Errorf("%v: %q", c.swapped, text)
		}
	}
}

// Key leaves out the choice, wherever it is in the key.
func TestKeyLacksChoice(t *testing.T) {
	for key, lacks := range map[string]bool{"[option, subject]": true, "[subject, option]": true, "subject": false} {
		c := parsed(t, "model: {family: bernoulli}\nlevels: [{alpha: 9, beta: 1}]\nsource: {csv: {path: in.csv, key: "+key+"}}\n")
		f := expect.Get(New(&c.Settings, Source{Key: c.Source.Files().Key}, "top", Response{Choice: "option"}))(t)
		names, got := f.Key()
		expect.Same(t, []string{"subject"}, names, key)
		expect.Same(t, lacks, got, key)
	}
}

// If a subject prefers the option with the better outcomes, beta is inside its bounds, not at the lower one.
func TestMaximiseBeta(t *testing.T) {
	var records strings.Builder
	records.WriteString("subject,option,time,x\n")
	for i := range 40 {
		option, x := "a", 1
		if i%5 == 2 {
			option, x = "b", 0
		}
		fmt.Fprintf(&records, "s,%s,2026-01-01T00:%02d:00Z,%d\n", option, i, x)
	}
	f := read(t, "{family: bernoulli}", "top", Response{Choice: "option"}, records.String())
	maximum := f.Table(false, func(_, _ int) {}).rows[0].maximum
	if beta, p := maximum.Values[f.searched], f.paths[f.searched]; !(beta > p.Lower && beta < p.Upper) {
		t.Errorf("beta is %g, of %g to %g", beta, p.Lower, p.Upper)
	}
}
