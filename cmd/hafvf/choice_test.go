package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

// A counted learner of tosses forgets with a fixed weight, from a flat prior.
type counted struct{ right, total float64 }

func (l counted) mean(top float64) float64 { return (1 + top*l.right) / (2 + top*l.total) }

func (l *counted) learn(top, x float64) { *l = counted{top*l.right + x, top*l.total + 1} }

const choicesYAML = "order: arrival\nmodel: {family: bernoulli}\nlevels: []\ntop: .9\nsource: {csv: {path: in.csv, time: '', missing: [None]}}\n"

// A chosen is a trial of a subject in a block, with the outcome of the right option and of the chosen option.
type chosen struct{ subject, block, choice, right, reward string }

// choosers simulates subjects with some missed choices and some missing outcomes.
func choosers() (trials []chosen, file string) {
	rng := rand.New(rand.NewPCG(2, 71))
	var b strings.Builder
	b.WriteString("subject,block,choice,right,reward\n")
	for i := range 3 * 150 {
		arms, last := [2]counted{}, 0
		s := chosen{subject: fmt.Sprint("s/", i/150), block: fmt.Sprint(i % 150 / 50)}
		if i%50 == 0 {
			arms, last = [2]counted{}, rng.IntN(2)
		}
		c, good := 0, i/25%2
		if rng.Float64() < 1/(1+math.Exp(-4*(arms[1].mean(.7)-arms[0].mean(.7))-float64(2*last-1))) == (rng.Float64() < .9) {
			c = 1
		}
		won := rng.Float64() < .8 == (c == good)
		x := map[bool]string{true: "1", false: "0"}
		s.choice, s.reward, s.right = [2]string{"left", "right"}[c], x[won], x[won == (c == 1)]
		arms[c].learn(.7, map[bool]float64{true: 1}[won])
		switch last = c; i % 23 {
		case 5:
			s.choice = ""
		case 9:
			s.choice = "None"
		case 14:
			s.reward, s.right = "None", ""
		}
		trials = append(trials, s)
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s\n", s.subject, s.block, s.choice, s.right, s.reward)
	}
	return trials, b.String()
}

// likelihoodOf returns the log likelihood of the choices of a subject. arms means a learner for each option instead
// of one for the right option. blocks means that learners are reset in each block.
func likelihoodOf(rows []chosen, arms, blocks bool, top, beta, stay float64) (nats float64, choices, trials int) {
	var l [2]counted
	block, last := rows[0].block, -1
	for _, t := range rows {
		if blocks && t.block != block {
			block, last, l = t.block, -1, [2]counted{}
		}
		v := [2]float64{beta * l[0].mean(top), beta * l[1].mean(top)}
		if !arms {
			m := l[0].mean(top)
			v = [2]float64{beta * (1 - m), beta * m}
		}
		if last >= 0 {
			v[last] += stay
		}
		c, outcome := map[string]int{"left": 0, "right": 1, "": -1, "None": -1}[t.choice], t.right
		if c >= 0 {
			nats += v[c] - math.Log(math.Exp(v[0])+math.Exp(v[1]))
			choices++
			last = c
		}
		learner := 0
		if arms {
			learner, outcome = c, t.reward
		}
		if x, err := strconv.ParseFloat(outcome, 64); err == nil && learner >= 0 {
			l[learner].learn(top, x)
			trials++
		}
	}
	return nats, choices, trials
}

// The likelihood equals the result of a separate computation, and is largest at the fitted values.
func TestChoices(t *testing.T) {
	t.Parallel()
	trials, file := choosers()
	dir := e2e.Folder(t, map[string]string{"in.csv": file, "s.yaml": choicesYAML})
	for i, test := range []struct {
		key, values        string
		arms, blocks, stay bool
		more               []string
	}{
		{"subject", "right", false, false, false, nil},
		{"[subject, block]", "right", false, true, true, []string{"--subject", "subject", "--stay"}},
		{"[subject, choice]", "reward", true, false, true, []string{"--stay"}},
		{"[choice, subject, block]", "reward", true, true, true, []string{"--subject", "subject", "--stay"}},
	} {
		if i > 0 && testing.Short() {
			break
		}
		program.Well(t, dir, append([]string{"fit", "s.yaml", "--set", "source.csv.key=" + test.key, "--set", "source.csv.values=[" + test.values + "]",
			"--over", "top", "--response", "choice", "--choice", "choice", "-o", "fit.csv"}, test.more...)...)
		header, rows := fitted(t, filepath.Join(dir, "fit.csv"))
		stay, paths := "", 2.
		if test.stay {
			stay, paths = "stay,stay_lower,stay_upper,", 3
		}
		expect.Same(t, "key,trials,top,top_lower,top_upper,beta,beta_lower,beta_upper,"+stay+"choices,log_likelihood,log_evidence,aic,bic,default_log_evidence,converged", header, test.key)
		expect.Same(t, 3, len(rows), test.key)
		for name, r := range rows {
			var subjectTrials []chosen
			for _, c := range trials {
				if c.subject == name {
					subjectTrials = append(subjectTrials, c)
				}
			}
			values := [3]float64{r["top"], r["beta"], r["stay"]}
			if !test.stay {
				values[2] = 0
			}
			nats, choices, trials := likelihoodOf(subjectTrials, test.arms, test.blocks, values[0], values[1], values[2])
			expect.Same(t, []float64{float64(choices), float64(trials)}, []float64{r["choices"], r["trials"]}, test.key)
			if difference := math.Abs(nats - r["log_likelihood"]); !(difference < 1e-9) {
				t.Errorf("%s, %s: log likelihood %g, want %g", test.key, name, r["log_likelihood"], nats)
			}
			if difference := math.Abs(r["aic"]-2*paths+2*nats) + math.Abs(r["bic"]-paths*math.Log(r["choices"])+2*nats); !(difference < 1e-9) {
				t.Errorf("%s, %s: aic %g and bic %g of %g nats", test.key, name, r["aic"], r["bic"], nats)
			}
			for i := range values {
				for _, factor := range []float64{.97, 1.03} {
					near := values
					if near[i] *= factor; near[0] < 1 {
						if n, _, _ := likelihoodOf(subjectTrials, test.arms, test.blocks, near[0], near[1], near[2]); n > nats+1e-3 {
							t.Errorf("%s, %s: %g nats at %v, %g at %v", test.key, name, nats, values, n, near)
						}
					}
				}
			}
		}
	}
}

// An offer is a trial of two options out of four.
type offer struct {
	options [2]int
	chosen  int
	reward  float64
}

// offers simulates subjects who learn by Rescorla–Wagner from .5, slow ones first, and choose between two options out
// of four. Every 30 trials the good options change.
func offers() (subjects [][]offer, file string) {
	rng := rand.New(rand.NewPCG(24, 71))
	var b strings.Builder
	b.WriteString("subject,choice,reward,offered\n")
	for s := range 4 {
		rate := []float64{.15, .6}[s/2]
		values := [4]float64{.5, .5, .5, .5}
		var trials []offer
		for i := range 240 {
			first := 2 * rng.IntN(2)
			o := offer{options: [2]int{first, first + 1}, chosen: first}
			if rng.Float64() < 1/(1+math.Exp(-6*(values[first+1]-values[first]))) {
				o.chosen++
			}
			if rng.Float64() < []float64{.25, .75}[(o.chosen+i/30)%2] {
				o.reward = 1
			}
			values[o.chosen] += rate * (o.reward - values[o.chosen])
			trials = append(trials, o)
			fmt.Fprintf(&b, "s%d,o%d,%g,o%d o%d\n", s, o.chosen, o.reward, o.options[1], o.options[0])
		}
		subjects = append(subjects, trials)
	}
	return subjects, b.String()
}

// offeredLikelihood returns the log likelihood of choices between the options on offer.
func offeredLikelihood(trials []offer, beta float64, mean func(option int) float64, learn func(option int, x float64)) (nats float64) {
	for _, o := range trials {
		nats -= math.Log(math.Exp(beta*(mean(o.options[0])-mean(o.chosen))) + math.Exp(beta*(mean(o.options[1])-mean(o.chosen))))
		learn(o.chosen, o.reward)
	}
	return nats
}

// Only the options on offer compete for a choice. With counts of 100, the learner is the one of Rescorla–Wagner that
// begins at .5.
func TestChoicesOffered(t *testing.T) {
	expect.Long(t, "fits of offered choices")
	t.Parallel()
	subjects, file := offers()
	dir := e2e.Folder(t, map[string]string{"in.csv": file, "s.yaml": choicesYAML})
	fit := func(count float64, more ...string) map[string]map[string]float64 {
		t.Helper()
		program.Well(t, dir, append([]string{"fit", "s.yaml", "--set", "source.csv.key=[subject, choice]", "--set", "source.csv.values=[reward]", "--set", fmt.Sprintf("model.prior={alpha: %g, beta: %g}", count, count),
			"--over", "top", "--response", "choice", "--choice", "choice", "-o", "fit.csv"}, more...)...)
		_, rows := fitted(t, filepath.Join(dir, "fit.csv"))
		expect.Same(t, len(subjects), len(rows))
		return rows
	}
	all := fit(.01)
	for _, count := range []float64{.01, 100} {
		rows := fit(count, "--offered", "offered")
		for i, trials := range subjects {
			r := rows[fmt.Sprint("s", i)]
			var l [4]counted
			mean := func(k int) float64 { return (count + r["top"]*l[k].right) / (2*count + r["top"]*l[k].total) }
			nats := offeredLikelihood(trials, r["beta"], mean, func(k int, x float64) { l[k].learn(r["top"], x) })
			if difference := math.Abs(nats - r["log_likelihood"]); !(difference < 1e-9) {
				t.Errorf("counts of %g, s%d: log likelihood %g, want %g", count, i, r["log_likelihood"], nats)
			}
			rate, beta := 1-r["top"], r["beta"]
			if count == 100 {
				beta *= r["top"] / (2 * count * rate)
				values := [4]float64{.5, .5, .5, .5}
				nats := offeredLikelihood(trials, beta, func(k int) float64 { return values[k] }, func(k int, x float64) { values[k] += rate * (x - values[k]) })
				if difference := math.Abs(nats - r["log_likelihood"]); !(difference < .5) {
					t.Errorf("s%d: log likelihood %g, Rescorla–Wagner's is %g", i, r["log_likelihood"], nats)
				}
			}
			t.Logf("counts of %g, s%d: learning rate %.2f, inverse temperature %.2f, %.2f with all options", count, i, rate, beta, all[fmt.Sprint("s", i)]["beta"])
		}
	}
}

// A comparison needs choices on both sides, the output explains the mapping of words, and a pooled fit has one more
// row.
func TestChoicesCompare(t *testing.T) {
	expect.Long(t, "comparisons of fits")
	t.Parallel()
	_, file := choosers()
	dir := e2e.Folder(t, map[string]string{
		"in.csv": file, "s.yaml": strings.Replace(choicesYAML, "missing", "key: subject, values: [right], missing", 1),
		"toss.jsonl": "{\"k\": \"a\", \"x\": 0, \"c\": 2}\n{\"k\": \"a\", \"x\": 2, \"c\": 0}\n{\"k\": \"a\", \"x\": 1}\n{\"k\": \"a\", \"x\": 1, \"c\": 1}\n",
		"three.yaml": "order: arrival\nmodel: {family: categorical, dim: 3}\nlevels: []\ntop: .9\nsource: {jsonl: {path: toss.jsonl, key: k, values: [x]}}\n",
	})
	expectOutput := func(want, args string) {
		t.Helper()
		stdout, stderr := program.Well(t, dir, strings.Fields("fit "+args)...)
		if !strings.Contains(stdout+stderr, want) {
			t.Errorf("%s: no %q in %s%s", args, want, stdout, stderr)
		}
	}
	fit := "s.yaml --over top --response choice --choice choice"
	const prior = "beta depends on the prior: model.prior {alpha: .01, beta: .01}"
	expectOutput(prior, fit+" -o own.csv")
	if _, stderr := program.Well(t, dir, strings.Fields("fit "+fit+" -o own.csv --set model.prior.alpha=.01 --set model.prior.beta=.01")...); strings.Contains(stderr, "beta depends") {
		t.Errorf("a prior near 0: %s", stderr)
	}
	expectOutput(`"right" stands for outcome 1, "left" for outcome 0`, fit+" -o own.csv")
	expectOutput("warning: the choices of 3 of 3 subjects are more probable if the other word stands for outcome 1", fit+"=left -o left.csv")
	expectOutput("this for 0 of 3 keys, own.csv for 3", fit+" --pooled --against own.csv -o all.csv")
	expectOutput("without choices", "s.yaml --over top -o outcomes.csv")
	expectOutput("1 row", "three.yaml --over top --response choice --choice c -o three.csv")
	_, own := fitted(t, filepath.Join(dir, "own.csv"))
	header, pooled := fitted(t, filepath.Join(dir, "all.csv"))
	if want := "against_log_evidence,delta_aic,delta_bic"; !strings.HasSuffix(header, want) {
		t.Errorf("%s does not end with %s", header, want)
	}
	sum := 0.
	for name, r := range own {
		sum += pooled[name]["log_likelihood"]
		expect.Same(t, r["log_evidence"], pooled[name]["against_log_evidence"])
	}
	expect.Same(t, 4, len(pooled))
	if total := pooled[""]; !(math.Abs(total["log_likelihood"]-sum) < 1e-9) || total["choices"] != own["s/0"]["choices"]+own["s/1"]["choices"]+own["s/2"]["choices"] {
		t.Errorf("pooled: %v", total)
	}
	// Only trials with a choice count as choices.
	_, three := fitted(t, filepath.Join(dir, "three.csv"))
	expect.Same(t, []float64{4, 3}, []float64{three["a"]["trials"], three["a"]["choices"]})
}

func TestChoiceExits(t *testing.T) {
	t.Parallel()
	_, file := choosers()
	dir := e2e.Folder(t, map[string]string{
		"in.csv":    file,
		"third.csv": strings.Replace(file, "s/1,2,right", "s/1,2,up", 1),
		"one.csv":   strings.ReplaceAll(file, "left", "right"),
		"missed.csv": strings.NewReplacer("s/1,0,left", "s/1,0,", "s/1,0,right", "s/1,0,", "s/1,1,left", "s/1,1,", "s/1,1,right", "s/1,1,",
			"s/1,2,left", "s/1,2,", "s/1,2,right", "s/1,2,").Replace(file),
		"plain.csv": "key,trials,log_evidence,aic,bic\ns/0,1,1,1,1\n",
		"s.yaml":    strings.Replace(choicesYAML, "missing", "key: subject, values: [right], missing", 1),
		"arms.yaml": strings.Replace(choicesYAML, "missing", "key: [subject, choice], values: [reward], missing", 1),
	})
	fit := "fit s.yaml -o out.csv --over top --response choice --choice choice"
	arms := strings.Replace(fit, "s.yaml", "arms.yaml", 1)
	exits(t, dir, "", "", []exit{
		{"no response", "fit s.yaml -o out.csv --over top --choice choice", 2, "needs --choice COLUMN"},
		{"another response", "fit s.yaml -o out.csv --over top --response speed", 2, "the only response"},
		{"options on offer without choices", "fit s.yaml -o out.csv --over top --offered choice", 2, "--offered and --stay need both"},
		{"an absent column of options", fit + " --offered shown", 1, `no column "shown"`},
		{"a choice that was not on offer", arms + " --offered block", 2, `--offered: in.csv:2: the chosen option "left" is not among the options on offer, "0": list it in the column "block"`},
		{"no choice", "fit s.yaml -o out.csv --over top --stay", 2, "--stay need both"},
		{"no column", "fit s.yaml -o out.csv --over top --response choice", 2, "needs --choice COLUMN"},
		{"an absent column", strings.Replace(fit, "choice choice", "choice chose", 1), 1, `no column "chose"`},
		{"a third word", fit + " --set source.csv.path=third.csv", 2, `third.csv:252: "up" is a third word, but only two`},
		{"a third word next to a named one", fit + "=up", 2, "is a third word"},
		{"one word", fit + " --set source.csv.path=one.csv", 2, `only the word "right"`},
		{"one option", arms + " --set source.csv.path=one.csv", 2, "a choice needs two"},
		{"a word of options", arms + "=left", 2, "leave it out for options"},
		{"a subject without choices", fit + " --set source.csv.path=missed.csv", 2, "all choices of s/1 are missed"},
		{"another part of the key", fit + " --subject block", 2, `"block" is not a part of the key`},
		{"the choice as a subject", arms + " --subject choice", 2, "next to the choice"},
		{"no probability", fit + " --set model.family=normal", 2, "normal does not predict an option"},
		{"no one number", arms + " --set model.family=categorical --set model.dim=2", 2, "categorical does not predict an option"},
		{"a prior without a mean", arms + " --set model.family=exponential", 2, "predicts no mean"},
		{"an exception without a key", arms + ` --set keys=[{"match":"s","top":0.9}]`, 2, "no key of the data matches"},
		{"against a table without choices", fit + " --against plain.csv", 2, "plain.csv is a table without choices"},
	})
}

// recovered simulates subjects that choose by a learner of the right option, whose chances reverse, and fits them. It
// returns true and fitted values, and whether each interval contains the true value.
func recovered(t *testing.T, seed uint64, subjects, trials int) (top, beta [2][]float64, contained []bool) {
	rng := rand.New(rand.NewPCG(seed, 71))
	var b strings.Builder
	b.WriteString("key,choice,x\n")
	truth := map[string][2]float64{}
	for s := range subjects {
		name := fmt.Sprintf("s%02d", s)
		w, inverse := .4+.55*rng.Float64(), 3+9*rng.Float64()
		truth[name] = [2]float64{w, inverse}
		var l counted
		good, next := rng.IntN(2), 28+rng.IntN(22)
		for i := range trials {
			if i == next {
				good, next = 1-good, i+28+rng.IntN(22)
			}
			choice, x := "left", 0.
			if rng.Float64() < 1/(1+math.Exp(-inverse*(2*l.mean(w)-1))) {
				choice = "right"
			}
			if (rng.Float64() < .8) == (good == 1) {
				x = 1
			}
			l.learn(w, x)
			fmt.Fprintf(&b, "%s,%s,%g\n", name, choice, x)
		}
	}
	dir := e2e.Folder(t, map[string]string{"in.csv": b.String(), "s.yaml": "order: arrival\nmodel: {family: bernoulli}\nlevels: []\ntop: .9\nsource: {csv: {path: in.csv, time: ''}}\n"})
	program.Well(t, dir, "fit", "s.yaml", "--over", "top", "--response", "choice", "--choice", "choice", "-o", "fit.csv")
	_, rows := fitted(t, filepath.Join(dir, "fit.csv"))
	expect.Same(t, subjects, len(rows))
	for name, r := range rows {
		want := truth[name]
		top[0], top[1] = append(top[0], want[0]), append(top[1], r["top"])
		beta[0], beta[1] = append(beta[0], want[1]), append(beta[1], r["beta"])
		contained = append(contained, !(r["top_lower"] > want[0]) && !(r["top_upper"] < want[0]), !(r["beta_lower"] > want[1]) && !(r["beta_upper"] < want[1]))
	}
	return top, beta, contained
}

// Fits recover the parameters of simulated choices, and their intervals contain them.
func TestChoicesAreRecovered(t *testing.T) {
	expect.Long(t, "fits of many subjects")
	t.Parallel()
	seeds, subjects, minShare, maxShare := uint64(1), 15, .8, 1.
	if *e2e.Long {
		seeds, subjects, minShare, maxShare = 5, 40, .9, .98
	}
	var errors []float64
	var contained []bool
	for seed := range seeds {
		top, beta, intervals := recovered(t, seed, subjects, 240)
		if r := stat.Correlation(top[0], top[1], nil); !(r >= .75) {
			t.Errorf("seed %d: r of top is %.2f", seed, r)
		}
		for i, trueBeta := range beta[0] {
			errors = append(errors, math.Abs(beta[1][i]/trueBeta-1))
		}
		contained = append(contained, intervals...)
	}
	slices.Sort(errors)
	if m := errors[len(errors)/2]; !(m <= .15) {
		t.Errorf("the median error of beta is %.3f", m)
	}
	n := 0
	for _, h := range contained {
		if h {
			n++
		}
	}
	if share := float64(n) / float64(len(contained)); !(share >= minShare && share <= maxShare) {
		t.Errorf("%.3f of the intervals contain the true value", share)
	}
	t.Logf("median of |beta/true - 1| %.3f, %d of %d intervals contain the true value", errors[len(errors)/2], n, len(contained))
}
