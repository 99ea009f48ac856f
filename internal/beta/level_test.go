package beta

import (
	"hafvf/internal/testing/expect"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// randomLevels returns levels with children of positive curvature, and their system. above is as in NewSystem.
func randomLevels(rng *rand.Rand, above []int) ([]Level, System) {
	n := len(above)
	levels, sys := make([]Level, n), NewSystem(above...)
	for i := range levels {
		l := &levels[i]
		l.Naive, l.Elapsed = Dist{logUniform(rng, .5, 20), logUniform(rng, .5, 20)}, 1
		l.DA, l.DB = logUniform(rng, .1, 10), logUniform(rng, .1, 10)
		l.Place(rng.NormFloat64(), 2+rng.NormFloat64())
	}
	for i := range levels {
		if up := above[i]; up < n {
			levels[i].SetPrior(levels[up].M, true)
		} else {
			levels[i].SetPrior(.9, false)
		}
	}
	for i := range levels {
		l := &levels[i]
		hasChild := false
		for k, up := range above[:i] {
			if up == i {
				l.Child = l.Child.Add(levels[k].AsChild())
				hasChild = true
			}
		}
		if !hasChild {
			l.Child = Child{A1: rng.NormFloat64(), A2: -5 * rng.Float64(), S0: 5 * rng.Float64(), S1: rng.NormFloat64(), S2: rng.NormFloat64()}
		}
		l.Derive(&sys, i)
		if up := above[i]; up < n {
			l.Couple(&sys, i, &levels[up])
		}
	}
	return levels, sys
}

// Solve returns the solution of the whole system, written as one dense matrix.
func TestSolveIsTheDenseSolution(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, above := range [][]int{{1}, {1, 2, 3}, {2, 2, 3}, {3, 2, 3, 4, 5}} {
		solved := 0
		for range 200 {
			_, sys := randomLevels(rng, above)
			n := len(above)
			a, g := mat.NewSymDense(2*n, nil), mat.NewVecDense(2*n, nil)
			for i := range n {
				a.SetSym(2*i, 2*i, sys.diag[i][0])
				a.SetSym(2*i, 2*i+1, sys.diag[i][1])
				a.SetSym(2*i+1, 2*i+1, sys.diag[i][2])
				g.SetVec(2*i, sys.G[i][0])
				g.SetVec(2*i+1, sys.G[i][1])
				if up := above[i]; up < n {
					for c, v := range sys.coupling[i] {
						a.SetSym(2*i+c, 2*up, v)
						a.SetSym(2*i+c, 2*up+1, -v)
					}
				}
			}
			var chol mat.Cholesky
			if !chol.Factorize(a) || chol.Cond() > 1e8 {
				continue // Solve takes a different step on purpose
			}
			solved++
			var want mat.VecDense
			expect.OK(t, chol.SolveVecTo(&want, g))
			got := make([][2]float64, n)
			sys.Solve(got)
			for i := range 2 * n {
				if w := want.AtVec(i); math.Abs(got[i/2][i%2]-w) > 1e-6*(1+math.Abs(w)) {
					t.Errorf("%v: entry %d is %g, want %g", above, i, got[i/2][i%2], w)
				}
			}
		}
		if solved < 50 {
			t.Errorf("%v: %d of 200 systems were positive definite", above, solved)
		}
	}
}

// Two children under one level equal one child that is their sum.
func TestAddOfChildren(t *testing.T) {
	c, d := Child{1, 2, 3, 4, 5}, Child{10, 20, 30, 40, 50}
	if got, want := c.Add(d), (Child{11, 22, 33, 44, 55}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
