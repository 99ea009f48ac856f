package transforms

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"hafvf/hafvf"
)

var nan = math.NaN()

func TestCodecKeepsEverything(t *testing.T) {
	o := Observation{Time: time.Date(1677, 1, 2, 3, 4, 5, 678, time.UTC), ID: "a:1", Seq: -7, X: [][]float64{{1, nan}, {math.Inf(1), -0.5}}, Shape: List, Raw: "raw"}
	gotO, err := decodeAll(appendObservation(nil, o), (*reader).observation)
	if diff := cmp.Diff(o, gotO, cmpopts.EquateNaNs()); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	s := Smoothed{Time: o.Time, ID: "k/t/0", N: 3, X: [][]float64{{1}}, Shape: Vector, Estimate: Moments{[]float64{1}, []float64{nan}}, Memory: 5,
		Posterior: []float64{3, 4}, Forward: Pass{.5, 6, []float64{1, 2}}, Backward: Pass{.25, 7, []float64{3, 4}},
		Session: Session{o.Time, o.Time.Add(1), 9}, Revision: 2, Split: "long", ChangeEvidence: -1, Change: true, Missing: true}
	gotS, err := decodeAll(appendSmoothed(nil, s), (*reader).smoothed)
	if diff := cmp.Diff(s, gotS, cmpopts.EquateNaNs()); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	e := Estimate{ID: "b", N: 1 << 40, X: [][]float64{{1}}, Predicted: Moments{[]float64{1}, []float64{nan}}, Estimate: Moments{[]float64{3}, []float64{4}},
		LogPredictive: -1, ELBO: -2, Weight: .5, Memory: 7, Levels: []float64{1, 2}, Posterior: []float64{3, 4, 5}, Iterations: 3, Converged: true, Missing: true}
	gotE, err := decodeAll(appendEstimate(nil, e), (*reader).estimate)
	if diff := cmp.Diff(e, gotE, cmpopts.EquateNaNs()); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestEntityOfOtherConfigIsRefused(t *testing.T) {
	cfg := hafvf.Config{Family: "normal", Levels: []hafvf.Beta{{Alpha: 1, Beta: 1}}, Top: 1}
	f, err := cfg.Filter()
	if err != nil {
		t.Fatal(err)
	}
	e := entity{state: f.NewState(), n: 3, waiting: []Observation{Value(time.Unix(5, 0).UTC(), "w", 2)}}
	b := e.append(nil, cfg.Fingerprint())
	got, err := decodeEntity(b, f, cfg.Fingerprint())
	if err != nil || got.n != 3 || len(got.waiting) != 1 {
		t.Fatalf("%v %+v", err, got)
	}
	other := cfg
	other.Top = 0.5
	if _, err := decodeEntity(b, f, other.Fingerprint()); !errors.Is(err, hafvf.ErrOtherConfig) {
		t.Errorf("error %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(appendObservation(nil, Value(time.Unix(1, 2), "id", 3)))
	f.Add(appendEstimate(nil, Estimate{N: 1, X: [][]float64{{1}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := decodeAll(b, (*reader).observation); err == nil {
			again, err := decodeAll(appendObservation(nil, o), (*reader).observation)
			if diff := cmp.Diff(o, again, cmpopts.EquateNaNs()); diff != "" || err != nil {
				t.Fatalf("%v %s", err, diff)
			}
		}
		decodeAll(b, (*reader).estimate)
		decodeAll(b, (*reader).smoothed)
		decodeSession(b)
	})
}

func FuzzDecodeEntity(f *testing.F) {
	cfg := hafvf.Config{Family: "normal", Levels: []hafvf.Beta{{Alpha: 1, Beta: 1}}, Top: 1}
	filter, err := cfg.Filter()
	if err != nil {
		f.Fatal(err)
	}
	e := entity{state: filter.NewState(), n: 3, waiting: []Observation{Value(time.Unix(5, 0), "w", 2)}}
	f.Add(e.append(nil, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntity(b, filter, 7)
		if err != nil {
			return
		}
		again, err := decodeEntity(e.append(nil, 7), filter, 7)
		if err != nil || !bytes.Equal(e.append(nil, 7), again.append(nil, 7)) {
			t.Fatalf("%v: %+v became %+v", err, e, again)
		}
	})
}
