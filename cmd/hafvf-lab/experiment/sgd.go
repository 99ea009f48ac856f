package experiment

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"hafvf/hafvf/adafvf"
	"hafvf/internal/atomicfile"
	"hafvf/internal/median"
)

// An SGD is the paper's experiment "Stochastic Gradient Descent". It trains a variational recurrent auto-encoder on a
// simulated two-alternative forced-choice task by Adam, by AdaFVF, and by other optimizers that might explain the
// difference.
type SGD struct {
	Quick bool   // 100 trials per subject instead of 500, and 3000 iterations instead of 10000
	Seed  uint64 // seed of the first of three simulations, which the figure shows
	Dir   string // folder of the files
	// Checkpoint is the folder for the state of unfinished training. If it is empty, the folder is sgd.checkpoint in
	// Dir.
	Checkpoint string
}

const (
	sgdSeeds = 3
	sgdBatch = 5   // subjects per step
	sgdEvery = 125 // iterations between two scores
	// sgdVersion is stored in every checkpoint. It changes if the training changes.
	sgdVersion = 1
)

// SGDShort and SGDLong describe the experiment.
const (
	SGDShort = "Stochastic gradient descent: AdaFVF next to Adam, with corrupt batches"
	SGDLong  = `The paper's experiment "Stochastic Gradient Descent": 64 simulated subjects make 500
choices each between left and right; a variational recurrent auto-encoder, two GRUs
of 16 units, predicts choice and reaction time through the first-passage density
of a Wiener process. Every step takes 5 subjects. One visit in a hundred is
corrupt: in a tenth of its trials, in a row, reaction times are below 0.1 s.

Six optimizers train it at a rate of 0.001, from equal starts on equal batches, on
three simulations each: Adam (0.9, 0.999), AdaFVF with weights learned from the
mean and from the sum over a group's coordinates, the former also from all
coordinates instead of at most 256, Adam with β₂ = 0.95, and Adam on gradients
clipped to a norm of 1. The score is the negative ELBO per trial, in nats, of all
subjects' trials without the corrupt ones.

The paper does not say how data and networks were made: these are this program's,
and only the order of the optimizers can be compared, not the level. The boundary
separation is at least 0.4 and the decision time 1 ms, without which the likelihood
has no bound. Biases start at zero, so the first gradients are huge. Most of the
difference is that Adam remembers them: from biases near the truth there is none.

Ctrl-C stops it; the same command then resumes from there. The full protocol takes
most of an hour on two cores, --quick two minutes.`
)

// sgdMarks lists the iterations of the table.
var sgdMarks = []int{750, 1500, 3000, 10000}

// An optimizer is one of the optimizers of package adafvf.
type optimizer interface {
	Step()
	MarshalBinary() ([]byte, error)
	UnmarshalBinary([]byte) error
}

// sgdOptimizers lists the compared optimizers, in the order of the constants below.
var sgdOptimizers = []struct {
	key, name string
	make      func(groups []adafvf.Group) (optimizer, error)
}{
	{"adam", "Adam", adam(adafvf.AdamConfig{})},
	{"adafvf_mean", "AdaFVF, mean", ada(adafvf.Config{})},
	{"adafvf_sum", "AdaFVF, sum", ada(adafvf.Config{Pooling: 1})},
	{"adafvf_mean_all", "AdaFVF, mean, all coordinates", ada(adafvf.Config{Coordinates: math.MaxInt})},
	{"adam_95", "Adam, β₂ = 0.95", adam(adafvf.AdamConfig{Beta2: 0.95})},
	{"adam_clipped", "Adam, clipped", adam(adafvf.AdamConfig{Clip: 1})},
}

const (
	byAdam = iota
	byMean
	bySum
	byMeanOfAll
	byAdam95
	byClipped
)

func adam(c adafvf.AdamConfig) func([]adafvf.Group) (optimizer, error) {
	return func(g []adafvf.Group) (optimizer, error) { return adafvf.NewAdam(c, g...) }
}

func ada(c adafvf.Config) func([]adafvf.Group) (optimizer, error) {
	return func(g []adafvf.Group) (optimizer, error) { return adafvf.New(c, g...) }
}

// A protocol is the size of the simulation and of the training.
type protocol struct {
	trials, iterations int
	seed               uint64
}

// A training is one optimizer on one simulation, with its progress.
type training struct {
	protocol  protocol
	seed      uint64
	optimizer int

	data [][]trial
	m    *autoencoder
	o    optimizer
	// noise is the draw of z per subject for the score.
	noise [][latent]float64
	trail
}

// A trail holds the results of a training. It is part of a checkpoint, which is encoded by gob.
type trail struct {
	Train   []float64   // negative ELBO per trial of every batch, before its step
	Corrupt []bool      // whether the batch was corrupt
	Clean   []float64   // the score after every sgdEvery-th step
	Memory  [][]float32 // 1/(1−E[w₂]) after every step, by group; nil without AdaFVF
}

// A checkpoint is the stored state of a training.
type checkpoint struct {
	Version   int
	Trials    int
	Seed      uint64
	Key       string
	Params    [][]float64
	Optimizer []byte
	Trail     trail
}

func newTraining(p protocol, seed uint64, k int) (*training, error) {
	random := newRandom(seed)
	t := &training{protocol: p, seed: seed, optimizer: k, data: simulateTask(random, p.trials), m: newAutoencoder(random, p.trials)}
	t.noise = make([][latent]float64, len(t.data))
	for i := range t.noise {
		for j := range latent {
			t.noise[i][j] = random.NormFloat64()
		}
	}
	var err error
	t.o, err = sgdOptimizers[k].make(t.m.groups)
	return t, err
}

// step trains on one batch. The batch depends only on the seed and the step.
func (t *training) step() {
	n := len(t.Train)
	random := rand.New(rand.NewPCG(t.seed, uint64(n)+1<<32))
	t.m.clear()
	scale := 1 / float64(sgdBatch*t.protocol.trials)
	loss, bad := 0.0, false
	for _, i := range random.Perm(len(t.data))[:sgdBatch] {
		trials := t.data[i]
		if random.Float64() < burstShare {
			bad = true
			trials = slices.Clone(trials)
			corrupt(random, trials)
		}
		var noise [latent]float64
		for j := range noise {
			noise[j] = random.NormFloat64()
		}
		loss += t.m.elbo(trials, &noise, scale)
	}
	t.o.Step()
	t.Train, t.Corrupt = append(t.Train, loss*scale), append(t.Corrupt, bad)
	if o, ok := t.o.(*adafvf.Optimizer); ok {
		row := make([]float32, o.Groups())
		for i := range row {
			row[i] = float32(1 / (1 - o.Stats(i).W2))
		}
		t.Memory = append(t.Memory, row)
	}
	if len(t.Train)%sgdEvery == 0 {
		t.Clean = append(t.Clean, t.score())
	}
}

// score returns the negative ELBO per trial of the clean data.
func (t *training) score() float64 {
	sum := 0.0
	for i, trials := range t.data {
		sum += t.m.elbo(trials, &t.noise[i], 0)
	}
	return sum / float64(len(t.data)*t.protocol.trials)
}

func (t *training) file(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d-%d.gob", sgdOptimizers[t.optimizer].key, t.protocol.trials, t.seed))
}

func (t *training) save(dir string) error {
	c := checkpoint{Version: sgdVersion, Trials: t.protocol.trials, Seed: t.seed, Key: sgdOptimizers[t.optimizer].key, Trail: t.trail}
	for _, g := range t.m.groups {
		c.Params = append(c.Params, g.Params)
	}
	var err error
	if c.Optimizer, err = t.o.MarshalBinary(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&c); err != nil {
		return err
	}
	return atomicfile.Write(t.file(dir), b.Bytes())
}

// load resumes from the checkpoint in dir. It does nothing if there is none.
func (t *training) load(dir string) error {
	path := t.file(dir)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var c checkpoint
	err = gob.NewDecoder(bytes.NewReader(text)).Decode(&c)
	if err == nil && (c.Version != sgdVersion || c.Trials != t.protocol.trials || c.Seed != t.seed || c.Key != sgdOptimizers[t.optimizer].key || len(c.Params) != len(t.m.groups)) {
		err = errors.New("it belongs to another experiment or version")
	}
	if err == nil {
		err = t.o.UnmarshalBinary(c.Optimizer)
	}
	if err != nil {
		return fmt.Errorf("cannot resume from checkpoint %s: %w: delete it to start again", path, err)
	}
	for i, g := range t.m.groups {
		copy(g.Params, c.Params[i])
	}
	t.trail = c.Trail
	return nil
}

// train runs every optimizer on every seed, one per core at a time, and returns the trails by optimizer and seed. dir
// is the folder of the checkpoints. progress may be nil.
func (p protocol) train(ctx context.Context, dir string, progress func(done, total int)) (trails [][]trail, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	const checkpointInterval = 500 // iterations from one checkpoint to the next
	total := len(sgdOptimizers) * sgdSeeds * p.iterations
	var done atomic.Int64
	var report sync.Mutex
	trails = make([][]trail, len(sgdOptimizers))
	trainings := make([][sgdSeeds]*training, len(sgdOptimizers))
	for k := range trails {
		trails[k] = make([]trail, sgdSeeds)
	}
	// each calls do for every optimizer and seed, and returns the first error.
	each := func(do func(ctx context.Context, k, s int) error) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for s := range sgdSeeds {
			for k := range sgdOptimizers {
				group.Go(func() error {
					if err := ctx.Err(); err != nil {
						return err
					}
					return do(ctx, k, s)
				})
			}
		}
		return group.Wait()
	}
	// Read all checkpoints before the first step, so that progress starts at the number of all finished iterations.
	err = each(func(_ context.Context, k, s int) error {
		t, err := newTraining(p, p.seed+uint64(s), k)
		if err == nil {
			err = t.load(dir)
		}
		if err != nil {
			return err
		}
		done.Add(int64(len(t.Train)))
		trainings[k][s] = t
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = each(func(ctx context.Context, k, s int) error {
		t := trainings[k][s]
		for len(t.Train) < p.iterations {
			if ctx.Err() != nil {
				if err := t.save(dir); err != nil {
					return err
				}
				return ctx.Err()
			}
			t.step()
			n := len(t.Train)
			if n%checkpointInterval == 0 || n == p.iterations {
				if err := t.save(dir); err != nil {
					return err
				}
			}
			if d := done.Add(1); progress != nil && d%25 == 0 {
				report.Lock()
				progress(int(d), total)
				report.Unlock()
			}
		}
		trails[k][s] = t.trail.until(p.iterations)
		return nil
	})
	return trails, err
}

// until returns the trail of the first n iterations.
func (t trail) until(n int) trail {
	t.Train, t.Corrupt, t.Clean = t.Train[:n], t.Corrupt[:n], t.Clean[:n/sgdEvery]
	if t.Memory != nil {
		t.Memory = t.Memory[:n]
	}
	return t
}

// Run trains. It writes the series and the figure of the first seed and the table of all seeds to sgd.csv, .svg, .png
// and .txt in Dir, and returns the table and the paths of the files. progress, unless nil, is called with the
// finished iterations of all trainings. If ctx ends, Run saves checkpoints and returns the error of ctx. After
// success it removes the checkpoints.
func (e SGD) Run(ctx context.Context, progress func(done, total int)) (table string, files []string, err error) {
	p := protocol{trials: taskTrials, iterations: 10000, seed: e.Seed}
	if e.Quick {
		p.trials, p.iterations = 100, 3000
	}
	if err := os.MkdirAll(e.Dir, 0o777); err != nil {
		return "", nil, err
	}
	dir := e.Checkpoint
	if dir == "" {
		dir = filepath.Join(e.Dir, "sgd.checkpoint")
	}
	trails, err := p.train(ctx, dir, progress)
	if err != nil {
		return "", nil, err
	}
	o := &sgdOutcome{p, trails, newAutoencoder(newRandom(e.Seed), 1).names()}
	path := func(ext string) string { return filepath.Join(e.Dir, "sgd"+ext) }
	if err := show(o, path); err != nil {
		return "", nil, err
	}
	table = o.table()
	if err := atomicfile.Write(path(".txt"), []byte(table)); err != nil {
		return "", nil, err
	}
	for s := range sgdSeeds {
		for k := range sgdOptimizers {
			t := training{protocol: p, seed: p.seed + uint64(s), optimizer: k}
			os.Remove(t.file(dir))
		}
	}
	os.Remove(dir) // fails if the folder contains other files
	return table, []string{path(".csv"), path(".svg"), path(".png"), path(".txt")}, nil
}

func (m *autoencoder) names() (names []string) {
	for _, g := range m.groups {
		names = append(names, g.Name)
	}
	return names
}

// An sgdOutcome holds the results of all trainings.
type sgdOutcome struct {
	protocol protocol
	trails   [][]trail // by optimizer and seed
	groups   []string
}

// scores returns the scores of optimizer k after n iterations, one per seed.
func (o *sgdOutcome) scores(k, n int) (scores []float64) {
	for _, t := range o.trails[k] {
		scores = append(scores, t.Clean[n/sgdEvery-1])
	}
	return scores
}

// marks returns the iterations of the table that were reached.
func (o *sgdOutcome) marks() (marks []int) {
	for _, n := range sgdMarks {
		if n <= o.protocol.iterations {
			marks = append(marks, n)
		}
	}
	return marks
}

// scored returns the iterations with a score.
func (o *sgdOutcome) scored() []float64 {
	x := make([]float64, o.protocol.iterations/sgdEvery)
	for i := range x {
		x[i] = float64((i + 1) * sgdEvery)
	}
	return x
}

// clean returns the mean score of optimizer k over the seeds, with the smallest and the largest.
func (o *sgdOutcome) clean(k int) (middle, low, high []float64) {
	for i := range o.scored() {
		v := o.scores(k, (i+1)*sgdEvery)
		middle, low, high = append(middle, mean(v)), append(low, slices.Min(v)), append(high, slices.Max(v))
	}
	return middle, low, high
}

// memory returns 1/(1−E[w₂]) of a group under the first seed, rounded to four digits.
func (o *sgdOutcome) memory(k, group int) []float64 {
	v := make([]float64, o.protocol.iterations)
	for i, row := range o.trails[k][0].Memory {
		x := float64(row[group])
		unit := math.Pow(10, math.Floor(math.Log10(x))-3)
		v[i] = math.Round(x/unit) * unit
	}
	return v
}

// corrupted returns the iterations with a corrupt batch under the first seed.
func (o *sgdOutcome) corrupted() (iterations []float64) {
	for i, bad := range o.trails[0][0].Corrupt {
		if bad {
			iterations = append(iterations, float64(i+1))
		}
	}
	return iterations
}

func (o *sgdOutcome) columns() []column {
	n := o.protocol.iterations
	bad := make([]float64, n)
	for _, x := range o.corrupted() {
		bad[int(x)-1] = 1
	}
	columns := []column{{"iteration", steps(n)}, {"corrupt", bad}}
	for k, t := range o.trails {
		columns = append(columns, column{sgdOptimizers[k].key + "_train", t[0].Train})
	}
	for k := range o.trails {
		for s, t := range o.trails[k] {
			v := slices.Repeat([]float64{math.NaN()}, n)
			for i, x := range t.Clean {
				v[(i+1)*sgdEvery-1] = x
			}
			columns = append(columns, column{fmt.Sprintf("%s_clean_seed%d", sgdOptimizers[k].key, o.protocol.seed+uint64(s)), v})
		}
	}
	for _, k := range []int{byMean, bySum} {
		for i, g := range o.groups {
			columns = append(columns, column{sgdOptimizers[k].key + "_memory_" + strings.ReplaceAll(g, " ", "_"), o.memory(k, i)})
		}
	}
	return columns
}

// table returns the table of scores and statements.
func (o *sgdOutcome) table() string {
	var b strings.Builder
	first, last := o.protocol.seed, o.protocol.seed+sgdSeeds-1
	fmt.Fprintf(&b, "%s\n64 subjects × %d trials, seeds %d to %d\n\n", SGDShort, o.protocol.trials, first, last)
	fmt.Fprintf(&b, "Negative ELBO per trial (nats) on clean data: mean (range) over the seeds\n\n%-30s", "iteration")
	for _, n := range o.marks() {
		fmt.Fprintf(&b, "  %-20d", n)
	}
	b.WriteString("\n")
	for k, c := range sgdOptimizers {
		fmt.Fprintf(&b, "%-30s", c.name)
		for _, n := range o.marks() {
			v := o.scores(k, n)
			fmt.Fprintf(&b, "  %-20s", fmt.Sprintf("%.3f (%.3f–%.3f)", mean(v), slices.Min(v), slices.Max(v)))
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThe paper, on its own data, at iteration 10000: Adam 1.08, AdaFVF 0.85.\n\n")
	bySeed := make([][]finding, sgdSeeds)
	for s := range bySeed {
		bySeed[s] = o.findings(s)
	}
	b.WriteString(tabulate(bySeed))
	// Lines of the table may end in blanks: remove them.
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

func (o *sgdOutcome) findings(s int) []finding {
	var findings []finding
	add := func(claim, measure string, value float64, holds bool) {
		findings = append(findings, finding{claim, measure, value, holds})
	}
	score := func(k, n int) float64 { return o.trails[k][s].Clean[n/sgdEvery-1] }
	end := o.protocol.iterations
	for _, n := range o.marks() {
		v := score(byMean, n) - score(byAdam, n)
		add(fmt.Sprintf("AdaFVF is “less affected by degenerate samples than Adam”: lower after %d iterations.", n),
			"nats per trial of AdaFVF, mean, less those of Adam; below 0 supports it", v, v < 0)
	}
	for _, n := range o.marks() {
		v := score(bySum, n) - score(byAdam, n)
		add(fmt.Sprintf("The same of AdaFVF, sum, after %d iterations.", n),
			"nats per trial, less those of Adam; below 0 supports it", v, v < 0)
	}
	best := math.Min(score(byMean, end), score(bySum, end))
	v := score(byAdam, end) - best
	add("“1.08 for Adam and 0.85 for AdaFVF at the iteration 10000”.",
		fmt.Sprintf("nats per trial of Adam less those of the better AdaFVF after %d; 0.15 or more supports it", end), v, v >= 0.15)
	for _, k := range []int{byMean, bySum} {
		v := 100 * o.remainingMemory(k, s)
		add(fmt.Sprintf("“After an outlier was sampled, the AdaFVF simply forgot the gradient history” (%s).", sgdOptimizers[k].name),
			"median over groups and corrupt batches: % of 1/(1−E[w₂]) that is left of that before the batch; below 50 supports it", v, v < 50)
	}
	v = score(byMean, end) - score(byAdam95, end)
	add("Not the paper's: that the decay of the variance is learned makes the difference.",
		fmt.Sprintf("nats per trial of AdaFVF, mean, less those of Adam with β₂ = 0.95 after %d; below −0.01 supports it", end), v, v < -0.01)
	v = score(byMean, end) - score(byMeanOfAll, end)
	add("Not the paper's: 256 coordinates of a group are enough to learn its weights from.",
		fmt.Sprintf("nats per trial of AdaFVF, mean, less those of the same from all coordinates after %d; below 0.01 supports it", end), v, v < 0.01)
	return findings
}

// remainingMemory returns the share of the expected memory that remains after a corrupt batch: the median over groups
// and corrupt batches, without the first 100 iterations and without batches after a corrupt batch. It returns NaN if
// there are none.
func (o *sgdOutcome) remainingMemory(k, s int) float64 {
	t := o.trails[k][s]
	var left []float64
	for i := 100; i < len(t.Corrupt); i++ {
		if t.Corrupt[i] && !t.Corrupt[i-1] {
			for g := range o.groups {
				left = append(left, float64(t.Memory[i][g]/t.Memory[i-1][g]))
			}
		}
	}
	if len(left) == 0 {
		return math.NaN()
	}
	return median.Of(left)
}
