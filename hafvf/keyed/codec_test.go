package keyed

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf"
	"hafvf/internal/compact"
	"hafvf/internal/testing/expect"
)

var nan = math.NaN()

// Decoding restores every field.
func TestCodecKeepsEverything(t *testing.T) {
	o := Observation{Time: time.Date(1677, 1, 2, 3, 4, 5, 678, time.UTC), ID: "a:1", Trial: -3, Session: "2", Seq: -7, X: [][]float64{{1, nan}, {math.Inf(1), -0.5}}, Shape: List, Raw: "raw", ExtraFields: `{"c":1}`}
	expect.Form(t, observationForm, o)
	s := Smoothed{Time: o.Time, ID: "k/t/0", Origin: "o", ExtraFields: o.ExtraFields, N: 3, X: [][]float64{{1}}, Shape: Vector, Estimate: Moments{[]float64{1}, []float64{nan}}, Memory: 5,
		Posterior: []float64{3, 4}, Forward: Pass{.5, 6, []float64{1, 2}}, Backward: Pass{.25, 7, []float64{3, 4}},
		Session: Session{o.Point(), Point{o.Time.Add(1), 4}, 9, &Drift{1, -1, 2, 3, 4, true}, true, "walk", 3.5}, Revision: 2, Split: "long", ChangeEvidence: -1, Change: true, Missing: true, Changed: true,
		ChangeInterval: ChangeInterval{o.Time, o.Time.Add(1), 2, 3, .75}, Outlier: .5, Segment: &Segment{o.Point(), 7, Moments{[]float64{1}, []float64{nan}}, []float64{5}, Moments{[]float64{2}, []float64{6}}}}
	expect.Form(t, smoothedForm, s)
	e := Estimate{ID: "b", ExtraFields: o.ExtraFields, LearningRate: .3, N: 1 << 40, X: [][]float64{{1}}, Predicted: Moments{[]float64{1}, []float64{nan}}, Estimate: Moments{[]float64{3}, []float64{4}},
		LogPredictive: -1, ELBO: -2, Weight: .5, Memory: 7, Levels: []float64{1, 2}, Posterior: []float64{3, 4, 5}, Iterations: 3, Converged: true, Missing: true,
		Silence: &Silence{time.Unix(5, 0).UTC(), time.Minute, time.Second, "Europe/Berlin", true, true, true}, Lower: []float64{-1}, Upper: []float64{nan},
		WarmUp: true, Bank: []MemberStep{{1, 2, 3, nan}, {4, 5, 6, 7}}, Regime: Moments{[]float64{8}, []float64{9}},
		Detection: &Detection{Kind: hafvf.Revision, Stay: .1, Outlier: .2, Change: .7, Start: o.Time, StartN: 3, Delay: 4, Age: 5, Score: 6, Threshold: 7, Usual: Moments{[]float64{8}, []float64{9}}},
		Alarm:     &Alert{Kind: "novelty", LogOdds: 1, Size: 2, Score: 3, Threshold: nan, Message: "k: x"},
		Belief:    &Alert{Kind: "revision", Corrects: "c", Start: o.Time, Delay: 4, LogOdds: -1, Size: 6, Output: 7, Before: Moments{[]float64{1}, []float64{2}}, After: Moments{[]float64{3}, []float64{4}}, Usual: Moments{[]float64{5}, []float64{6}}}}
	expect.Form(t, estimateForm, e)
}

// filledKeyState returns an estimator and a KeyState with a track, times and a waiting observation.
func filledKeyState(t testing.TB, cfg Config) (*Estimator, KeyState) {
	t.Helper()
	est := newEstimator(t, cfg)
	e := KeyState{Track: est.NewTrack("k"), clock: time.Unix(7, 0).UTC(), released: time.Unix(6, 0).UTC(), waiting: []Observation{Value(time.Unix(7, 0).UTC(), "w", 2)}}
	for i := range 11 {
		x := float64(i % 3)
		if i > 8 {
			x += 50
		}
		est.Estimate(e.Track, Value(time.Unix(int64(i), 0).UTC(), "", x))
	}
	return est, e
}

var detecting = Config{
	Order: EventTime, TimeUnit: time.Second,
	Filter: hafvf.Config{Family: "normal", Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{}, WarmUp: 8},
}

// A state of an earlier format is rejected with errFormat. It starts with its clock or with another tag.
func TestKeyStateRefusesEarlierFormats(t *testing.T) {
	est, e := filledKeyState(t, detecting)
	b := e.append(nil)
	for _, first := range []byte{0, 1, 6, 7, 9} {
		b[0] = first
		if _, err := est.Open("k", b); !errors.Is(err, errFormat) {
			t.Errorf("first byte %d: %v", first, err)
		}
		if _, err := est.RestoreTrack("k", b); !errors.Is(err, errFormat) {
			t.Errorf("track, first byte %d: %v", first, err)
		}
	}
}

// Decoding arbitrary bytes does not panic, and a decoded observation encodes to bytes that decode to it.
func FuzzDecode(f *testing.F) {
	o := Value(time.Unix(1, 2), "id", 3)
	f.Add(appendObservation(nil, &o))
	f.Add(compact.Encode(nil, Estimate{N: 1, X: [][]float64{{1}}}, estimateForm))
	f.Fuzz(func(t *testing.T, b []byte) {
		var o, decoded Observation
		if o.UnmarshalBinary(b) == nil {
			err := decoded.UnmarshalBinary(appendObservation(nil, &o))
			if diff := cmp.Diff(o, decoded, cmpopts.EquateNaNs()); diff != "" || err != nil {
				t.Fatalf("%v %s", err, diff)
			}
		}
		new(Estimate).UnmarshalBinary(b)
		new(Smoothed).UnmarshalBinary(b)
	})
}

// Decoding an arbitrary state does not panic. A decoded KeyState survives another encoding, and can estimate.
func FuzzDecodeKeyState(f *testing.F) {
	est, e := filledKeyState(f, detecting)
	f.Add(e.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := est.decodeKeyState("k", b)
		if err != nil {
			return
		}
		decoded, err := est.decodeKeyState("k", e.append(nil))
		if err != nil || !bytes.Equal(e.append(nil), decoded.append(nil)) {
			t.Fatalf("%v: %+v became %+v", err, e, decoded)
		}
		est.Estimate(e.Track, Value(time.Unix(100, 0), "", 1))
	})
}
