package adafvf_test

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"hafvf/hafvf/adafvf"
)

// Logistic regression on gonum matrices. One batch in twenty is corrupt: its features are a thousand times too
// large. Pooling 1 makes the weights react to that; Adam remembers such a gradient for a thousand steps.
func Example_corruptBatches() {
	const d, batch = 5, 32
	truth := mat.NewVecDense(d, []float64{1, -2, 0.5, 0, 1.5})
	train := func(robust bool) *mat.Dense {
		rng := rand.New(rand.NewPCG(1, 2))
		w, dw := mat.NewDense(1, d, nil), mat.NewDense(1, d, nil)
		group := adafvf.Group{Name: "w", Params: w.RawMatrix().Data, Grads: dw.RawMatrix().Data}
		var step func()
		if robust {
			o, err := adafvf.New(adafvf.Config{Rate: 0.01, Pooling: 1}, group)
			if err != nil {
				log.Fatal(err)
			}
			step = o.Step
		} else {
			o, err := adafvf.NewAdam(adafvf.AdamConfig{Rate: 0.01}, group)
			if err != nil {
				log.Fatal(err)
			}
			step = o.Step
		}

		x := mat.NewDense(batch, d, nil)
		miss := mat.NewVecDense(batch, nil)
		for range 1500 {
			x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
			miss.MulVec(x, truth)
			for i := range batch {
				y := 0.0
				if rng.Float64() < logit(miss.AtVec(i)) {
					y = 1
				}
				miss.SetVec(i, -y)
			}
			if rng.IntN(20) == 0 {
				x.Scale(1000, x)
			}
			// The gradient is Σ (logit(xw) − y)x / batch.
			for i := range batch {
				miss.SetVec(i, (miss.AtVec(i)+logit(mat.Dot(x.RowView(i), w.RowView(0))))/batch)
			}
			dw.Mul(miss.T(), x)
			step()
		}
		return w
	}
	fmt.Printf("truth   %.1f\n", truth.RawVector().Data)
	fmt.Printf("AdaFVF  %.1f\n", train(true).RawMatrix().Data)
	far := mat.Norm(sub(train(false).RowView(0), truth), 2) > 3*mat.Norm(sub(train(true).RowView(0), truth), 2)
	fmt.Println("Adam is more than three times as far:", far)
	// Output:
	// truth   [1.0 -2.0 0.5 0.0 1.5]
	// AdaFVF  [1.0 -2.0 0.5 0.0 1.5]
	// Adam is more than three times as far: true
}

func logit(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func sub(a, b mat.Vector) *mat.VecDense {
	var d mat.VecDense
	d.SubVec(a, b)
	return &d
}

// A problem in the form of gonum/optimize, Rosenbrock's function, minimised with a schedule until the gradient
// is small.
func Example_problem() {
	problem := struct {
		Func func(x []float64) float64
		Grad func(grad, x []float64)
	}{
		func(x []float64) float64 { return 100*math.Pow(x[1]-x[0]*x[0], 2) + math.Pow(1-x[0], 2) },
		func(grad, x []float64) {
			grad[0] = -400*x[0]*(x[1]-x[0]*x[0]) - 2*(1-x[0])
			grad[1] = 200 * (x[1] - x[0]*x[0])
		},
	}
	x := []float64{-1.2, 1}
	grad := make([]float64, len(x))
	o, err := adafvf.New(adafvf.Config{
		Rate:     0.02,
		Schedule: func(step int) float64 { return 1 / (1 + float64(step)/2000) },
	}, adafvf.Group{Params: x, Grads: grad})
	if err != nil {
		log.Fatal(err)
	}
	for o.Steps() < 20000 {
		problem.Grad(grad, x)
		if math.Hypot(grad[0], grad[1]) < 1e-4 {
			break
		}
		o.Step()
	}
	fmt.Printf("x %.3f  f %.1e\n", x, problem.Func(x))
	s := o.Stats(0)
	fmt.Printf("E[w₁] %.2f  E[w₂] %.2f\n", s.W1, s.W2)
	// Output:
	// x [1.000 1.000]  f 5.8e-10
	// E[w₁] 0.90  E[w₂] 0.95
}

// Training resumes where it stopped: the optimizer's state and the parameters are saved together.
func ExampleOptimizer_MarshalBinary() {
	start := func() (*adafvf.Optimizer, []float64, []float64) {
		p, g := []float64{3, -2}, make([]float64, 2)
		o, err := adafvf.New(adafvf.Config{Rate: 0.1}, adafvf.Group{Name: "p", Params: p, Grads: g})
		if err != nil {
			log.Fatal(err)
		}
		return o, p, g
	}
	o, p, g := start()
	for range 10 {
		copy(g, p) // the gradient of ½|p|²
		o.Step()
	}
	state, err := o.MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}

	again, q, h := start()
	copy(q, p)
	if err := again.UnmarshalBinary(state); err != nil {
		log.Fatal(err)
	}
	for range 5 {
		copy(g, p)
		o.Step()
		copy(h, q)
		again.Step()
	}
	fmt.Println(again.Steps(), p[0] == q[0], p[1] == q[1])
	// Output: 15 true true
}
