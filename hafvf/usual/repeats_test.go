package usual

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

// A profile reproduces the scores of the reference for repeated values, one of them far away; see
// testdata/stuck/README.md for the traces. A state without repeats can be decoded.
func TestStuckTraces(t *testing.T) {
	files := expect.Get(filepath.Glob("testdata/stuck/*.json"))(t)
	expect.Same(t, 5, len(files), "traces")
	for _, file := range files {
		var trace struct {
			Budget, Seconds, Start float64
			X, Fast, Score         []float64
		}
		familytest.ReadJSON(t, file, &trace)
		location, scale := expfam.LocationScale(trace.X[:50])
		step := time.Duration(trace.Seconds) * time.Second
		p, pace := profileOf(DefaultProfile()), paceOf(trace.Budget, step, AutoRest)
		p.plain = true
		s := p.NewState()
		stuck := 0
		for i, x := range trace.X {
			d := p.Update(s, pace, time.Unix(int64(trace.Start), 0).Add(time.Duration(i)*step), []float64{(x - location) / scale})
			for what, v := range map[string][2]float64{"fast": {d.Fast, trace.Fast[i]}, "score": {d.Score, trace.Score[i]}} {
				if math.Abs(v[0]-v[1]) > 1e-9*max(1, v[1]) {
					t.Fatalf("%s: observation %d: %s %v, want %v", file, i, what, v[0], v[1])
				}
			}
			if d.Repeated {
				stuck++
			}
			if i%100 == 0 {
				s = expect.Get(p.Decode(p.Append(nil, s), p.Repeats(s)))(t)
			}
		}
		if stuck == 0 {
			t.Errorf("%s: no value is stuck", file)
		}
		repeated := p.Append(nil, s)
		_, _, repeats := p.alone(s)
		clear(repeats)
		b := p.Append(nil, s)
		if got := expect.Get(p.Decode(b, false))(t); !slices.Equal(got, s) || len(repeated)-len(b) > 40 {
			t.Errorf("%s: a state without repeats is another one, or they take %d bytes", file, len(repeated)-len(b))
		}
		for _, damaged := range [][]byte{b, repeated[:len(repeated)-1], append(repeated, 0)} {
			if _, err := p.Decode(damaged, true); err == nil {
				t.Errorf("%s: a damaged state is decoded", file)
			}
		}
	}
}
