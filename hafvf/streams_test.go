package hafvf

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/familytest"
	"hafvf/internal/testing/streams"
)

// A score is the result of a bank on streams of a kind.
type score struct {
	streams, steps int
	logPredictive  float64
	alarms, false  int
	near, causal   float64 // sums of F1 over streams: of starts within 5, of alarms within 100
	delays         []int
	outliers       [4]int // hit, labelled, true, and labelled in the first observations of a regime
}

func (s *score) add(o score) {
	s.streams += o.streams
	s.steps += o.steps
	s.logPredictive += o.logPredictive
	s.alarms += o.alarms
	s.false += o.false
	s.near += o.near
	s.causal += o.causal
	s.delays = append(s.delays, o.delays...)
	for i, v := range o.outliers {
		s.outliers[i] += v
	}
}

// precision and recall of the label outlier, and settled: the precision without observations at which it is
// still unknown whether a regime or a burst has started.
func (s *score) precision() float64 { return float64(s.outliers[0]) / float64(s.outliers[1]) }
func (s *score) recall() float64    { return float64(s.outliers[0]) / float64(s.outliers[2]) }
func (s *score) settled() float64 {
	return float64(s.outliers[0]) / float64(s.outliers[1]-s.outliers[3])
}

func (s *score) falseAlarms() float64 { return 1e4 * float64(s.false) / float64(s.steps) }

func (s *score) delay() float64 {
	if len(s.delays) == 0 {
		return math.NaN()
	}
	slices.Sort(s.delays)
	return float64(s.delays[len(s.delays)/2])
}

func (s *score) String() string {
	n := float64(s.streams)
	text := fmt.Sprintf("%8.4f %6.3f %6.3f %6.2f %6.0f", s.logPredictive/float64(s.steps), s.near/n, s.causal/n, s.falseAlarms(), s.delay())
	if s.outliers[2] > 0 {
		text += fmt.Sprintf("  %.3f %.3f %.3f", s.precision(), s.settled(), s.recall())
	}
	return text
}

// warmUp is the number of observations that set a prior.
const warmUp = 50

// scoreStream scores a bank on a stream. If scale is not 0, the stream is multiplied by scale and moved by
// offset, and the first observations set the prior. The log predictive is converted back to the original units.
func scoreStream(s streams.Stream, b *Bank, scale, offset float64) score {
	x, moved := s.X, 0.0
	if base, ok := b.Model().(expfam.Fitted); ok && scale != 0 {
		x, moved = make([]float64, len(s.X)), math.Log(scale)
		for t, v := range s.X {
			x[t] = scale*v + offset
		}
		var first [][]float64
		for t := range warmUp {
			first = append(first, x[t:t+1])
		}
		b.Use(base.Fit(base.LocationScale(first)))
	}
	out := score{streams: 1, steps: len(x)}
	state := b.NewState()
	var alarms, starts []int
	regime := 0 // number of changes so far
	for t := range x {
		for regime < len(s.Changes) && s.Changes[regime] <= t {
			regime++
		}
		o := b.Update(state, x[t:t+1])
		out.logPredictive += o.LogPredictive + moved
		if o.Detection.Kind == Change {
			alarms = append(alarms, t)
			starts = append(starts, int(o.Detection.Start)-1)
			if regime == 0 || t-s.Changes[regime-1] > 100 {
				out.false++
			}
		}
		if s.Outliers != nil {
			hit := o.Detection.Kind == Outlier
			early := regime > 0 && t-s.Changes[regime-1] < 5 && !s.Outliers[t]
			for i, v := range []bool{hit && s.Outliers[t], hit, s.Outliers[t], hit && early} {
				if v {
					out.outliers[i]++
				}
			}
		}
	}
	out.alarms = len(alarms)
	causal := match(s.Changes, alarms, 0, 100, func(delay int) { out.delays = append(out.delays, delay) })
	near := match(s.Changes, starts, -5, 5, func(int) {})
	out.causal = f1(causal+1, len(s.Changes)+1, len(alarms)+1)
	out.near = f1(near+1, len(s.Changes)+1, len(alarms)+1)
	return out
}

// f1 returns the F1 of the given number of hits.
func f1(hits, truth, found int) float64 {
	return 2 * float64(hits) / float64(truth+found)
}

// match pairs truth with found values that are from lo to hi after it, one to one, and returns the number of
// pairs.
func match(truth, found []int, lo, hi int, each func(after int)) int {
	hits, next := 0, 0
	for _, c := range truth {
		for next < len(found) && found[next] < c+lo {
			next++
		}
		if next < len(found) && found[next] <= c+hi {
			each(found[next] - c)
			next++
			hits++
		}
	}
	return hits
}

// A streamTable holds a score per kind of stream, and the score of all kinds together.
type streamTable struct {
	kinds map[string]*score
	total score
}

// A streamSetting configures the default banks, and the units of the streams.
type streamSetting struct {
	detect        *Detect
	scale, offset float64
}

// score runs all kinds of streams with n observations, with -seeds streams per kind.
func (c streamSetting) score(t *testing.T, n int) streamTable {
	table := streamTable{kinds: map[string]*score{}}
	for k, kind := range streams.Kinds {
		sum := &score{}
		for i := range uint64(*seeds) {
			s := kind.Make(rand.New(rand.NewPCG(*seed+i, uint64(k))), n)
			sum.add(scoreStream(s, NewBank(familytest.OfStreams(t, kind.Family), DefaultBankFor(kind.Family), DefaultForgetting, c.detect), c.scale, c.offset))
		}
		table.kinds[strings.Fields(kind.Name)[0]] = sum
		table.total.add(*sum)
	}
	table.total.outliers = [4]int{}
	return table
}

// log prints the table.
func (c streamTable) log(t *testing.T, title string) {
	var text strings.Builder
	line := func(name string, s *score) { fmt.Fprintf(&text, "\n%-22s %s", name, s) }
	fmt.Fprintf(&text, "\n%s\n%-22s %s", title, "", "log pred   F1≤5     F1  false  delay  outliers: precision, settled, recall")
	for _, kind := range streams.Kinds {
		line(kind.Name, c.kinds[strings.Fields(kind.Name)[0]])
	}
	line("mean", &c.total)
	t.Log(text.String())
}

var seeds = flag.Int("seeds", 1, "number of seeds, from -seed on, that streams are averaged over")

// TestStreams runs the default bank with detection, under one setting, over all kinds of streams, and prints
// the results of every kind. -seeds averages over several seeds.
//
// F1 is defined as for the Turing Change Point Dataset: the first observation counts as a change and as found,
// so that one false alarm on a stream without changes gives ⅔. It is averaged over streams, then kinds; changes
// and alarms are paired one to one. An alarm is a step of kind change. It finds a change that is at most 100
// observations old. For "within 5", the start of the alarm must be within 5 observations of the change; a
// revision is no alarm, and comes too late for the start. An alarm is false if no change is in the 100
// observations before it. Of the rules tried, only these give the figures that were measured elsewhere for
// detection on fixed weights .985 and .9998, on streams with the same descriptions: log predictive -1.4254, F1
// within 5 .961, F1 .991 and .06 false alarms in 10,000. Robust Bayesian online change point detection scores
// there -1.4645 .589 .514 21.2 for runs of 5000 expected observations, and -1.4544 .466 .415 23.0 for 250. The
// delay in the row mean is the median over all changes, most of which belong to b2 and g5.
//
// Most observations that are wrongly labelled as outliers are among the first of a regime, when a burst is more
// probable: settled is the precision without them.
//
// The same streams in other units, under the prior from their first observations, must have the same scores.
func TestStreams(t *testing.T) {
	n := 5000
	if *long {
		n = 20000
	}
	title := fmt.Sprintf("%d seeds from %d", *seeds, *seed)
	detected := streamSetting{detect: &Detect{}}.score(t, n)
	plain := streamSetting{}.score(t, n)
	detected.log(t, title)
	plain.log(t, title+", no detection")

	// Any seed reaches these bounds, which are far below typical results.
	total, count := &detected.total, float64(detected.total.streams)
	if causal, near := total.causal/count, total.near/count; !(causal > .9) || !(near > .85) || !(total.falseAlarms() < .6) || !(total.delay() <= 15) {
		t.Errorf("F1 %.3f, within 5 %.3f, %.2f false alarms in 10,000, delay %g", causal, near, total.falseAlarms(), total.delay())
	}
	for _, k := range []string{"g1", "g3"} {
		if s := detected.kinds[k]; !(s.precision() > .7) || !(s.settled() > .85) || !(s.recall() > .9) {
			t.Errorf("%s: outliers with precision %.3f, settled %.3f, and recall %.3f", k, s.precision(), s.settled(), s.recall())
		}
	}
	for _, k := range []string{"g3", "g4", "burst_0", "huge_0"} {
		if s := detected.kinds[k]; s.alarms > s.streams {
			t.Errorf("%s: %d alarms on %d streams without changes", k, s.alarms, s.streams)
		}
	}
	for _, k := range []string{"g1", "g3", "g5", "burst_0", "huge_0"} {
		if with, without := detected.kinds[k].logPredictive, plain.kinds[k].logPredictive; !(with > without) {
			t.Errorf("%s: log predictive %g with detection, %g without", k, with, without)
		}
	}
	if s, without := detected.kinds["g4"], plain.kinds["g4"].logPredictive; !(s.logPredictive > without-.005*float64(s.steps)) {
		t.Errorf("g4: log predictive %g with detection, %g without", s.logPredictive, without)
	}

	scales := []float64{1e-3, 1e6}
	if !*long {
		scales = scales[:1] // with the offset 1e4, this scale rounds more
	}
	for _, scale := range scales {
		t.Run(fmt.Sprintf("scale %g", scale), func(t *testing.T) {
			moved := streamSetting{detect: &Detect{}, scale: scale, offset: 1e4}.score(t, n)
			moved.log(t, fmt.Sprintf("%s, scale %g", title, scale))
			diff := math.Abs(moved.total.logPredictive-total.logPredictive) / float64(total.steps)
			causal, near := math.Abs(moved.total.causal-total.causal)/count, math.Abs(moved.total.near-total.near)/count
			if !(diff < .01) || !(causal < .02) || !(near < .02) {
				t.Errorf("log predictive %.4f away from that of the fixed prior, F1 %.4f, within 5 %.4f", diff, causal, near)
			}
		})
	}
}
