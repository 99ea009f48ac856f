package keyed

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
	"hafvf/internal/compact"
)

// fuse is the number of calls of the family faulty until one panics.
var fuse = math.MaxInt

func burn() {
	if fuse--; fuse == 0 {
		panic("of the family")
	}
}

// faulty is the family normal, but panics when fuse reaches zero.
type faulty struct{ expfam.Fitted }

func init() {
	expfam.Register("faulty", func(p expfam.Prior, _ int) (expfam.Model, error) {
		m, err := expfam.New("normal", expfam.Params{"mu": p.Float("mu", 0), "kappa": p.Positive("kappa", 1)}, 0)
		if err != nil {
			return nil, err
		}
		return faulty{m.(expfam.Fitted)}, p.Done()
	})
}

func (m faulty) Observe(d, x []float64, weight float64) {
	burn()
	m.Fitted.Observe(d, x, weight)
	burn()
}
func (m faulty) Scale(d []float64, w float64)           { burn(); m.Fitted.Scale(d, w); burn() }
func (m faulty) Merge(d, e []float64)                   { burn(); m.Fitted.Merge(d, e); burn() }
func (m faulty) Memory(d []float64) float64             { burn(); return m.Fitted.Memory(d) }
func (m faulty) LogBase(x []float64) float64            { burn(); return m.Fitted.LogBase(x) }
func (m faulty) Posterior(dst, d []float64)             { burn(); m.Fitted.Posterior(dst, d) }
func (m faulty) NewLine() expfam.Line                   { burn(); return faultyLine{m.Fitted.NewLine()} }
func (m faulty) LocationScale(xs [][]float64) []float64 { burn(); return m.Fitted.LocationScale(xs) }
func (m faulty) Fit(ls []float64) expfam.Model {
	burn()
	return faulty{m.Fitted.Fit(ls).(expfam.Fitted)}
}
func (m faulty) Estimate(mean, sd, d, x []float64) { burn(); m.Fitted.Estimate(mean, sd, d, x) }
func (m faulty) Predict(mean, sd, d []float64, s float64, x []float64) {
	burn()
	m.Fitted.Predict(mean, sd, d, s, x)
}
func (m faulty) Predictive(dst []expfam.Distribution, d []float64, s float64, x []float64) {
	burn()
	m.Fitted.(expfam.Predictor).Predictive(dst, d, s, x)
}

type faultyLine struct{ expfam.Line }

func (l faultyLine) Gain(s float64) float64   { burn(); return l.Line.Gain(s) }
func (l faultyLine) Jet(s float64) expfam.Jet { burn(); return l.Line.Jet(s) }

// faultyConfigs returns configurations that use all stages.
func faultyConfigs() map[string]Config {
	member := &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}
	full := Config{
		Filter: hafvf.Config{
			Family: "faulty", WarmUp: 12, Detect: &hafvf.Detect{}, Forgetting: .999,
			Bank: []hafvf.Member{*member, {Top: .985}},
		},
		Interval: .9, Silence: &SilenceConfig{},
	}
	plain := Config{Filter: hafvf.Config{Family: "faulty", Member: member}}
	return map[string]Config{"plain": plain, "all": full}
}

// A panic in the mathematics of one key, at any place, skips one observation of that key. The state of the key is
// unchanged to the byte, and later estimates of all keys are as if the observation did not exist.
func TestPanicCostsOneObservation(t *testing.T) {
	defer func() { fuse = math.MaxInt }()
	for name, cfg := range faultyConfigs() {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 77))
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			faulted, control := newEstimator(t, cfg), newEstimator(t, cfg)
			keys := []string{"a", "b"}
			tracks, controls := map[string]*Track{}, map[string]*Track{}
			for _, k := range keys {
				tracks[k], controls[k] = faulted.NewTrack(k), control.NewTrack(k)
			}
			panics := 0
			for i := range 150 {
				now = now.Add(time.Hour)
				for _, k := range keys {
					o := Value(now, fmt.Sprint(i), rng.NormFloat64()+float64(i/80)*9)
					for range 3 {
						before, _ := tracks[k].AppendBinary(nil)
						fuse = 1 + rng.IntN(150)
						bad := faulted.Estimate(tracks[k], Value(now, "bad", 1e3))
						burnt := fuse <= 0
						fuse = math.MaxInt
						switch {
						case !burnt: // it was learned: restore the previous state
							var err error
							if tracks[k], err = faulted.RestoreTrack(k, before); err != nil {
								t.Fatal(err)
							}
							continue
						case bad.Panic == nil || !strings.Contains(bad.SkipReason, "of the family") || !strings.Contains(bad.Panic.Stack, "burn"):
							t.Fatalf("step %d: a panic is not reported: %+v", i, bad)
						}
						panics++
						tracks[k].unlearned = 0
						if after, _ := tracks[k].AppendBinary(nil); !bytes.Equal(before, after) {
							t.Fatalf("step %d: a panic has changed the state", i)
						}
					}
					got, want := faulted.Estimate(tracks[k], o), control.Estimate(controls[k], o)
					if !bytes.Equal(compact.Encode(nil, got, estimateForm), compact.Encode(nil, want, estimateForm)) {
						t.Fatalf("step %d, key %s: after a panic\n%+v\nwant\n%+v", i, k, got, want)
					}
				}
			}
			if panics < 200 {
				t.Errorf("%d panics", panics)
			}
		})
	}
}

// At the third panic in a row the key is reset, and learns the observation if it can.
func TestPanicReset(t *testing.T) {
	defer func() { fuse = math.MaxInt }()
	est := newEstimator(t, faultyConfigs()["all"])
	track := est.NewTrack("a")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 30 {
		est.Estimate(track, Value(start.Add(time.Duration(i)*time.Hour), "", float64(i%7)))
	}
	bad := func() Estimate {
		fuse = 5
		defer func() { fuse = math.MaxInt }()
		return est.Estimate(track, Value(start.Add(40*time.Hour), "", 3))
	}
	for i := range 2 {
		if e := bad(); e.SkipReason == "" || e.Reset || track.n != 30 {
			t.Fatalf("panic %d: %+v", i, e)
		}
	}
	if e := bad(); !e.Reset || e.SkipReason != "" || e.N != 31 {
		t.Errorf("third panic: %+v", e)
	}
	if track.priorSet {
		t.Error("the key was not reset")
	}
}
