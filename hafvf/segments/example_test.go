package segments_test

import (
	"fmt"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/segments"
)

// A session with an outlier and a jump, which the smoother distinguishes.
func ExampleSegmenter() {
	m, err := expfam.New("normal", expfam.Params{"kappa": .01, "beta": .1}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	var steps [][][]float64
	for t := range 60 {
		x := float64(t%3) / 2
		switch {
		case t == 15:
			x = 40
		case t >= 30:
			x += 5
		}
		steps = append(steps, [][]float64{{x}})
	}
	g := segments.NewSegmenter(m, 10).Smooth(steps)
	for k, s := range g.Segments {
		var mean, sd [1]float64
		g.SegmentEstimate(mean[:], sd[:], k, s.Start)
		fmt.Printf("%d steps from %d: %.2f ± %.2f\n", s.N, s.Start, mean[0], sd[0])
	}
	fmt.Printf("outlier at 15: %.2f, at 29: %.2f; estimate at 29: %.2f\n", g.Outlier(15), g.Outlier(29), g.Mean(29)[0])
	// Output:
	// 30 steps from 0: 0.52 ± 0.08
	// 30 steps from 30: 5.50 ± 0.08
	// outlier at 15: 1.00, at 29: 0.01; estimate at 29: 0.52
}
