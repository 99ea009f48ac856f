package hafvf_test

import (
	"encoding/json"
	"math"
	"testing"

	"hafvf/hafvf"
	"hafvf/internal/testing/expect"
)

// A configuration without a member has the default one. A given member applies unchanged, including its zeros,
// after encoding and decoding in another process.
func TestConfigDefaults(t *testing.T) {
	paper := &hafvf.Member{Levels: []hafvf.Beta{{Alpha: .9, Beta: .1}, {Alpha: 1, Beta: 1}}, Top: 1}
	for _, c := range []struct {
		member, want *hafvf.Member
	}{
		{nil, paper},
		{&hafvf.Member{}, &hafvf.Member{}},
		{&hafvf.Member{Levels: []hafvf.Beta{}, Top: 1}, &hafvf.Member{Top: 1}},
		{&hafvf.Member{Top: .5}, &hafvf.Member{Top: .5}},
		{&hafvf.Member{Levels: paper.Levels}, &hafvf.Member{Levels: paper.Levels}},
	} {
		text := must(json.Marshal(hafvf.Config{Family: "normal", Member: c.member}))
		var there hafvf.Config
		expect.OK(t, json.Unmarshal(text, &there))
		b := must(there.NewBank())
		f := hafvf.NewFilter(b.Model(), c.want.Levels, c.want.Top)
		s, u := f.NewState(), b.NewState()
		for i := range 30 {
			x := []float64{math.Sin(float64(i))}
			if step, out := f.Update(s, x), b.Update(u, x); out.Members[0].Step != step {
				t.Fatalf("%s, step %d: %+v, want %+v", text, i, out.Members[0].Step, step)
			}
		}
	}
}
