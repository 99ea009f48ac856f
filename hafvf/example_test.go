package hafvf_test

import (
	"fmt"
	"math"

	"hafvf/hafvf"
	"hafvf/hafvf/expfam"
)

// The filter of a family: everything else has a default.
func ExampleConfig_Filter() {
	f, err := hafvf.Config{Family: "poisson"}.Filter()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := f.NewState()
	for _, x := range []float64{3, 2, 4, 3, 12} {
		step := f.Update(s, []float64{x})
		fmt.Printf("x %2.0f  log p(x|past) %.2f  weight %.2f  memory %.1f\n", x, step.LogPredictive, step.Weight, step.Memory)
	}
	// Output:
	// x  3  log p(x|past) -2.77  weight 0.90  memory 1.0
	// x  2  log p(x|past) -1.54  weight 0.91  memory 1.9
	// x  4  log p(x|past) -2.50  weight 0.92  memory 2.8
	// x  3  log p(x|past) -1.70  weight 0.93  memory 3.6
	// x 12  log p(x|past) -8.94  weight 0.91  memory 4.2
}

// At a jump the filter forgets most of its memory, and follows.
func ExampleFilter_Update() {
	f, err := hafvf.Config{Family: "normal"}.Filter()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := f.NewState()
	var mean, sd [1]float64
	for _, x := range []float64{0.1, -0.2, 0.3, 0, -0.1, 0.2, 9, 9.1, 8.9, 9.2} {
		step := f.Update(s, []float64{x})
		f.Model().Estimate(mean[:], sd[:], f.Sample(s), nil)
		fmt.Printf("x %4.1f  mean %5.2f  memory %.1f\n", x, mean[0], step.Memory)
	}
	// Output:
	// x  0.1  mean  0.05  memory 1.0
	// x -0.2  mean -0.04  memory 1.9
	// x  0.3  mean  0.05  memory 2.8
	// x  0.0  mean  0.04  memory 3.6
	// x -0.1  mean  0.01  memory 4.4
	// x  0.2  mean  0.04  memory 5.1
	// x  9.0  mean  3.26  memory 1.8
	// x  9.1  mean  4.69  memory 1.7
	// x  8.9  mean  5.53  memory 2.1
	// x  9.2  mean  6.26  memory 2.8
}

// The filter of one stream, with detection. The prior has the scale of the data: mean 20, and variance 1.5². A single large value is an
// outlier. A new level is an outlier until there is enough evidence for a change.
func ExampleOutcome_Estimate() {
	b, err := hafvf.Config{
		Family: "normal", Prior: expfam.Params{"mu": 20.0, "beta": 2.25}, Bank: hafvf.DefaultBank(), Detect: new(hafvf.DefaultDetect()),
	}.NewBank()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := b.NewState()
	for i := range 75 {
		x := 20 + 1.5*math.Sin(float64(17*i)) // looks like noise
		switch {
		case i == 50:
			x += 20
		case i >= 60:
			x += 12
		}
		out := b.Update(s, []float64{x})
		if mean, sd := out.Estimate(); out.Detection.Kind != hafvf.None {
			fmt.Printf("%d: %.1f, mean %.1f ± %.1f, %s\n", i, x, mean[0], sd[0], out.Detection.Kind)
		}
	}
	// Output:
	// 50: 41.5, mean 30.4 ± 10.8, outlier
	// 60: 33.3, mean 26.6 ± 6.8, outlier
	// 61: 32.4, mean 28.5 ± 4.4, outlier
	// 62: 30.5, mean 29.0 ± 3.1, outlier
	// 63: 32.4, mean 29.7 ± 2.5, outlier
	// 64: 33.3, mean 30.3 ± 2.1, outlier
	// 65: 30.9, mean 30.4 ± 1.8, outlier
	// 70: 32.9, mean 31.1 ± 1.1, change
}

// The interval that contains the next observation with a probability of 90 %.
func ExampleBank_Interval() {
	b, err := hafvf.Config{Family: "exponential", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}}, Top: .9}}.NewBank()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := b.NewState()
	for _, x := range []float64{1, 2, .5, 3, 1.5} {
		b.Update(s, []float64{x})
	}
	var lower, upper [1]float64
	b.Interval(lower[:], upper[:], .9, s, 1, nil)
	fmt.Printf("%.3f to %.3f\n", lower[0], upper[0])
	// Output: 0.078 to 6.302
}

// hours is a waiting time that is exponential in days, observed in hours.
type hours struct{ expfam.Model }

func (h hours) LogBase([]float64) float64 { return -math.Log(24) }

func (h hours) Observe(d, x []float64, weight float64) {
	h.Model.Observe(d, []float64{x[0] / 24}, weight)
}

func ExampleRegister() {
	expfam.Register("hours", func(p expfam.Prior, dim int) (expfam.Model, error) {
		m, err := expfam.New("exponential", expfam.Params{"shape": p.Positive("shape", 2)}, 0)
		if err != nil {
			return nil, err
		}
		return hours{m}, p.Done()
	})
	f, err := hafvf.Config{Family: "hours", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}}, Top: 1}}.Filter()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := f.NewState()
	f.Update(s, []float64{12})
	f.Update(s, []float64{36})
	var post [2]float64
	f.Model().Posterior(post[:], f.Sample(s))
	fmt.Printf("shape %.3f, rate %.3f\n", post[0], post[1])
	// Output:
	// shape 3.900, rate 2.950
}

// A finished session, smoothed: the mean at each step given the whole session, and the changepoint. A smoother
// also uses later observations, so that its prior of w is stronger than a filter's.
func ExampleFilter_Smooth() {
	f, err := hafvf.Config{Family: "normal", Member: &hafvf.Member{Levels: []hafvf.Beta{{Alpha: 9, Beta: 1}, {Alpha: 1, Beta: 1}}, Top: 1}}.Filter()
	if err != nil {
		fmt.Println(err)
		return
	}
	var session [][][]float64
	for t := range 80 {
		x := math.Sin(float64(17 * t)) // looks like noise
		if t >= 50 {
			x += 5
		}
		session = append(session, [][]float64{{x}})
	}
	s := f.Smooth(session)
	var mean, sd [1]float64
	for _, t := range []int{10, 40, 49, 50, 60, 70} {
		s.Estimate(mean[:], sd[:], t)
		fmt.Printf("%d  mean %4.1f ± %.1f  evidence of a change %5.1f\n", t, mean[0], sd[0], s.Evidence[t])
	}
	fmt.Println("changes at", hafvf.Changes(s.Evidence, 10))
	// Output:
	// 10  mean  0.0 ± 0.2  evidence of a change  -1.2
	// 40  mean  0.9 ± 0.5  evidence of a change   6.7
	// 49  mean  2.3 ± 0.6  evidence of a change  13.9
	// 50  mean  2.6 ± 0.6  evidence of a change  17.9
	// 60  mean  4.0 ± 0.5  evidence of a change  -1.5
	// 70  mean  4.4 ± 0.5  evidence of a change  -4.3
	// changes at [50]
}

// An outlier does not move the regime's mean. A change is reported with the step at which it started.
func ExampleBank_Update() {
	b, err := hafvf.Config{
		Family: "normal", Prior: expfam.Params{"kappa": .01},
		Bank: hafvf.DefaultBank(), Detect: &hafvf.Detect{},
	}.NewBank()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := b.NewState()
	var mean, sd [1]float64
	for n := 1; n <= 70; n++ {
		x := math.Sin(float64(n))
		switch {
		case n == 40:
			x += 20
		case n > 60:
			x += 5
		}
		d := b.Update(s, []float64{x}).Detection
		b.EstimateRegime(mean[:], sd[:], s, nil)
		switch {
		case d.Starts():
			fmt.Printf("n %d  %s since %d, log-odds %.1f  mean %.1f\n", n, d.Kind, d.Start, d.LogOdds(), mean[0])
		case d.Kind != hafvf.None:
			fmt.Printf("n %d  %s  mean %.1f\n", n, d.Kind, mean[0])
		}
	}
	// Output:
	// n 40  outlier  mean 0.0
	// n 61  outlier  mean 0.0
	// n 62  outlier  mean 0.0
	// n 63  outlier  mean 0.0
	// n 67  change since 61, log-odds 3.3  mean 4.9
}
