package usual

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/familytest"
)

var update = flag.Bool("update", false, "write the scores of the traces")

// A scoreTrace is a file of testdata/traces; see the README there.
type scoreTrace struct {
	Start   float64    `json:"start"`
	Seconds float64    `json:"seconds"`
	X       []float64  `json:"x"`
	Rows    []scoreRow `json:"rows"`
}

type scoreRow struct {
	I        int       `json:"i"`
	Z        []float64 `json:"z"`
	Fast     float64   `json:"fast"`
	Score    float64   `json:"score"`
	Repeated bool      `json:"repeated,omitempty"`
}

// TestScoreTraces compares the scores of profiles with the scores in testdata/traces. With -update it writes them.
func TestScoreTraces(t *testing.T) {
	const warmUp = 50
	files := expect.Get(filepath.Glob("testdata/traces/*.json"))(t)
	expect.Same(t, 16, len(files), "traces")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var trace scoreTrace
			familytest.ReadJSON(t, file, &trace)
			location, scale := expfam.LocationScale(trace.X[:warmUp])
			step := time.Duration(trace.Seconds * float64(time.Second))
			pace := paceOf(BudgetOver(DefaultBudgetTime, step), step, AutoRest)
			c, now := DefaultProfile(), time.Time{}
			if step == 0 {
				c.Seasons = nil
			}
			p := profileOf(c)
			s := p.NewState()
			var rows []scoreRow
			for i, x := range trace.X {
				if step > 0 {
					now = time.Unix(int64(trace.Start), 0).Add(time.Duration(i) * step)
				}
				d := p.Update(s, pace, now, []float64{(x - location) / scale})
				if i%25 == 0 || d.Score >= unsurprising {
					row := scoreRow{I: i, Fast: d.Fast, Score: d.Score, Repeated: d.Repeated}
					for _, v := range d.Views {
						row.Z = append(row.Z, v.Surprise)
					}
					rows = append(rows, row)
				}
				if i%100 == 0 {
					s = expect.Get(p.Decode(p.Append(nil, s), p.Repeats(s)))(t)
				}
			}
			if *update {
				trace.Rows = rows
				expect.OK(t, os.WriteFile(file, expect.Get(json.Marshal(trace))(t), 0o644))
				return
			}
			same := func(a, b float64) bool { return math.Abs(a-b) <= 1e-8 }
			expect.Same(t, true, slices.EqualFunc(trace.Rows, rows, func(want, got scoreRow) bool {
				equal := got.I == want.I && got.Repeated == want.Repeated && slices.EqualFunc(got.Z, want.Z, same) &&
					same(got.Fast, want.Fast) && same(got.Score, want.Score)
				if !equal {
					t.Errorf("got %+v, want %+v", got, want)
				}
				return equal
			}), "rows")
			if strings.HasPrefix(t.Name(), "TestScoreTraces/stuck") {
				expect.Same(t, true, slices.ContainsFunc(rows, func(r scoreRow) bool { return r.Repeated }), "a value repeats too often")
			}
		})
	}
}

// A state without repeats can be decoded, and damaged states are refused.
func TestDecodeWithoutRepeats(t *testing.T) {
	p := profileOf(DefaultProfile())
	pace := paceOf(2016, 5*time.Minute, AutoRest)
	s := p.NewState()
	for i := range 200 {
		p.Update(s, pace, time.Unix(int64(300*i), 0), []float64{float64(min(i, 150) % 7)})
	}
	s = expect.Get(p.Decode(p.Append(nil, s), p.Repeats(s)))(t) // the numbers of a state are rounded
	repeated := p.Append(nil, s)
	_, _, repeats := p.alone(s)
	clear(repeats)
	b := p.Append(nil, s)
	if got := expect.Get(p.Decode(b, false))(t); !slices.Equal(got, s) || len(repeated)-len(b) > 40 {
		t.Errorf("a state without repeats changes, or repeats take %d bytes", len(repeated)-len(b))
	}
	for _, damaged := range [][]byte{b, repeated[:len(repeated)-1], append(repeated, 0)} {
		if _, err := p.Decode(damaged, true); err == nil {
			t.Error("a damaged state is decoded")
		}
	}
}
