package hafvf

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A count with its exposure in the row is one under an exposure that was told before.
func TestExposedRowsAreExposed(t *testing.T) {
	m, err := Config{Family: "poisson", Prior: Params{"shape": 2., "rate": .5}, Season: &RhythmConfig{Seasons: DefaultSeasons()}}.NewBank()
	if err != nil {
		t.Fatal(err)
	}
	told := m.Model().(Exposed)
	rows := told.Rows()
	rng := rand.New(rand.NewPCG(1, 40))
	d, e := make([]float64, told.Len()), make([]float64, rows.Len())
	for range 100 {
		r, x, weight := rng.ExpFloat64()+.1, float64(rng.IntN(9)), rng.Float64()
		row := []float64{r, x}
		told.Expose(r)
		if err := rows.Check(row); err != nil {
			t.Fatal(err)
		}
		told.Scale(d, .9)
		rows.Scale(e, .9)
		told.Observe(d, []float64{x}, weight)
		rows.Observe(e, row, weight)
		want, got := [5]float64{}, [5]float64{}
		told.Estimate(want[:1], want[1:2], d, nil)
		told.Predict(want[2:3], want[3:4], d, .7, nil)
		want[4] = told.LogBase([]float64{x})
		rows.Estimate(got[:1], got[1:2], e, row)
		rows.Predict(got[2:3], got[3:4], e, .7, row)
		got[4] = rows.LogBase(row)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	for _, row := range [][]float64{{0, 1}, {-1, 1}, {1, -1}, {1, .5}} {
		if rows.Check(row) == nil {
			t.Errorf("%v passes", row)
		}
	}
}
