package experiment

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// The header of the file describes how it was computed.
func TestFirstPassage(t *testing.T) {
	text := must(os.ReadFile("testdata/wiener.csv"))
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment = '#'
	rows := must(r.ReadAll())
	for _, row := range rows[1:] {
		var v [10]float64
		for i, field := range row {
			v[i] = must(strconv.ParseFloat(field, 64))
		}
		p := firstPassage(v[0], v[1], v[2], v[3], v[4] == 1)
		for i, got := range []float64{p.log, p.t, p.v, p.a, p.w} {
			if want := v[5+i]; math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
				t.Errorf("%v: %s = %.15g", row, rows[0][5+i], got)
			}
		}
	}
	if len(rows) < 100 {
		t.Errorf("%d rows", len(rows))
	}
}

// The simulated process leaves where and when the density predicts: shares and mean times are within 4 standard
// errors, with moments from the density.
func TestDrawPassageDistribution(t *testing.T) {
	const v, a, w, n = 1.2, 1.1, 0.45, 4000
	random := newRandom(7)
	up, sum := 0, 0.0
	for range n {
		upper, exitTime := drawPassage(random, v, a, w)
		if upper {
			up++
		}
		sum += exitTime
	}
	var share, first, second float64
	const h = 0.02
	for x := -12.0; x < 3; x += h {
		time := math.Exp(x)
		u, l := math.Exp(firstPassage(time, v, a, w, true).log), math.Exp(firstPassage(time, v, a, w, false).log)
		share += h * time * u
		first += h * time * time * (u + l)
		second += h * time * time * time * (u + l)
	}
	if got := float64(up) / n; math.Abs(got-share) > 4*math.Sqrt(share*(1-share)/n) {
		t.Errorf("%g leave at the upper end, the density has %g", got, share)
	}
	if got := sum / n; math.Abs(got-first) > 4*math.Sqrt((second-first*first)/n) {
		t.Errorf("mean time %g, the density has %g", got, first)
	}
}

// The gradients derived by hand equal differences of the ELBO, also with a corrupt run in the data.
func TestGradients(t *testing.T) {
	random := newRandom(5)
	m := newAutoencoder(random, 30)
	trials := simulateTask(random, 30)[0]
	corrupt(random, trials)
	noise := [latent]float64{0.3, -1, 0.7, 2}
	m.clear()
	m.elbo(trials, &noise, 0.5)
	for _, g := range m.groups {
		for range 12 {
			i := random.IntN(len(g.Params))
			old := g.Params[i]
			lossAt := func(h float64) float64 {
				g.Params[i] = old + h
				defer func() { g.Params[i] = old }()
				return 0.5 * m.elbo(trials, &noise, 0)
			}
			const h = 1e-3
			d := func(h float64) float64 { return (lossAt(h) - lossAt(-h)) / (2 * h) }
			want := (4*d(h/2) - d(h)) / 3
			if math.Abs(g.Grads[i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s, %d: %.10g, differences give %.10g", g.Name, i, g.Grads[i], want)
			}
		}
	}
}

// short is a protocol that takes seconds.
var short = protocol{trials: 20, iterations: 250, seed: 11}

// Training that is stopped and resumed equals uninterrupted training to the last bit, for every optimizer.
func TestTrainingResumes(t *testing.T) {
	expect.Long(t, "a training")
	dir := t.TempDir()
	for k, c := range sgdOptimizers {
		run := func(start, end int) *training {
			tr := must(newTraining(short, short.seed, k))
			if start > 0 {
				expect.OK(t, tr.load(dir))
			}
			if len(tr.Train) != start {
				t.Fatalf("%s: %d iterations done, want %d", c.key, len(tr.Train), start)
			}
			for len(tr.Train) < end {
				tr.step()
			}
			expect.OK(t, tr.save(dir))
			return tr
		}
		want := run(0, 200)
		run(0, 90)
		got := run(90, 200)
		expect.Same(t, want.trail, got.trail, c.key, ": trails differ")
		for i, g := range want.m.groups {
			expect.Same(t, g.Params, got.m.groups[i].Params, c.key, ", ", g.Name, ": parameters differ")
		}
	}
}

func TestTrainingLoadInvalid(t *testing.T) {
	dir := t.TempDir()
	tr := must(newTraining(short, 1, 0))
	expect.OK(t, os.WriteFile(tr.file(dir), []byte("nonsense"), 0o666))
	expect.Error(t, tr.load(dir), "delete it to start again")
}

// A small experiment, with table and figure. It tests the paper's statement: AdaFVF is below Adam on every seed.
func TestSGD(t *testing.T) {
	expect.Long(t, "a training")
	p := protocol{trials: 20, iterations: 750, seed: 3}
	trails := must(p.train(t.Context(), t.TempDir(), nil))
	o := &sgdOutcome{p, trails, newAutoencoder(newRandom(p.seed), 1).names()}
	table := o.table()
	for s := range sgdSeeds {
		ada, adam := o.scores(byMean, 750)[s], o.scores(byAdam, 750)[s]
		if !(ada < adam) {
			t.Errorf("seed %d: AdaFVF %.3f, Adam %.3f", s, ada, adam)
		}
	}
	for _, want := range []string{"64 subjects × 20 trials, seeds 3 to 5", "AdaFVF, sum ", "Adam 1.08, AdaFVF 0.85", " 3 of 3"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table has no %q:\n%s", want, table)
		}
	}
	byName := map[string][]float64{}
	for _, c := range o.columns() {
		byName[c.name] = c.values
		expect.Same(t, p.iterations, len(c.values), "values of the column ", c.name)
	}
	expect.Same(t, trails[bySum][1].Clean[5], byName["adafvf_sum_clean_seed4"][749], "the score in the file")
	picture, err := o.figure().Render(".svg")
	if err != nil || !bytes.Contains(picture, []byte("decoder state")) {
		t.Errorf("error %v; the figure names no group, or is not drawn", err)
	}
}
