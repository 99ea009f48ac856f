package hafvf

// These messages are for panics: the program passed a wrong length. Check returns errors for wrong data.
const (
	badDim     = "hafvf: vector of the wrong length in a step"
	badCount   = "hafvf: several vectors in a step of a sequential model"
	badElapsed = "hafvf: elapsed time is negative or not a number"
	badState   = "hafvf: state of the wrong length"
	badDst     = "hafvf: destination of the wrong length"
	badModel   = "hafvf: model of another shape"
)

// checkStep panics if s does not have n floats or xs are not vectors of a step. A lone NaN is a missing vector
// of any dimension.
func (f *Filter) checkStep(s State, n int, elapsed float64, xs [][]float64) {
	if len(s) != n {
		panic(badState)
	}
	if !(elapsed >= 0) {
		panic(badElapsed)
	}
	f.checkVectors(xs)
}

func (f *Filter) checkVectors(xs [][]float64) {
	if f.seq != nil && len(xs) > 1 {
		panic(badCount)
	}
	for _, x := range xs {
		if len(x) != len(f.unknown) && !(len(x) == 1 && x[0] != x[0]) {
			panic(badDim)
		}
	}
}

// checkMoments panics if mean and sd do not have one entry per output, or s is not a state of the bank.
func (b *Bank) checkMoments(mean, sd []float64, s State) {
	b.checkState(s)
	if n := len(b.mixture.mean); len(mean) != n || len(sd) != n {
		panic(badDst)
	}
}

func (b *Bank) checkState(s State) {
	if len(s) != b.StateLen() {
		panic(badState)
	}
}
