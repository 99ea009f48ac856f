package special

import (
	"fmt"
	"hafvf/internal/testing/expect"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// The CSV file says how its values were computed.
func TestBetaCDFOfAnySize(t *testing.T) {
	text := expect.Get(os.ReadFile("testdata/betacdf.csv"))(t)
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[3:]
	for _, row := range rows {
		var a, b, x, want float64
		if _, err := fmt.Sscanf(row, "%g,%g,%g,%g", &a, &b, &x, &want); err != nil {
			t.Fatalf("%s: %v", row, err)
		}
		y := 1 - x
		if x < 0 {
			x, y = 1+x, -x
		}
		// The rounding of x causes an error of this size.
		tolerance := 1e-11 + 0x1p-51*math.Sqrt(a*(b/(a+b)))
		if got := BetaCDF(a, b, x, y); !(math.Abs(got-want) < tolerance) {
			t.Errorf("Beta(%g, %g) up to %g: %.15g, want %.15g", a, b, x, got, want)
		}
		if got := BetaCDF(b, a, y, x); !(math.Abs(got-(1-want)) < tolerance) {
			t.Errorf("Beta(%g, %g) up to %g: %.15g, want %.15g", b, a, y, got, 1-want)
		}
	}
	if len(rows) < 30 {
		t.Errorf("%d rows", len(rows))
	}
}

// For parameters that are neither large nor small, BetaCDF equals gonum's function, on both sides of the bounds
// between its three methods.
func TestBetaCDFIsThatOfGonum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 50))
	for range 20_000 {
		a, b := math.Pow(10, 4*rng.Float64()-1), math.Pow(10, 4*rng.Float64()-1)
		x := rng.Float64()
		if rng.IntN(2) == 0 { // near the mean
			mean := a / (a + b)
			x = min(max(1e-9, mean+rng.NormFloat64()*math.Sqrt(mean*(1-mean)/(a+b))), 1-1e-9)
		}
		if got, want := BetaCDF(a, b, x, 1-x), mathext.RegIncBeta(a, b, x); !(math.Abs(got-want) < 1e-10) {
			t.Fatalf("Beta(%g, %g) up to %g: %.15g, want %.15g", a, b, x, got, want)
		}
	}
}

func TestBetaCDFAtTheEnds(t *testing.T) {
	for _, c := range []struct{ a, b, x, want float64 }{
		{2, 3, 0, 0}, {2, 3, 1, 1}, {2, 3, -1, 0}, {2, 3, math.Inf(1), 1}, {2, 3, math.Inf(-1), 0}, {0, 3, 0, 1}, {0, 3, -1, 0}, {2, 0, .5, 0}, {2, 0, 1, 1},
		{0, 0, .5, math.NaN()}, {-1, 2, .5, math.NaN()}, {math.NaN(), 2, .5, math.NaN()}, {2, math.Inf(1), .5, math.NaN()}, {2, 3, math.NaN(), math.NaN()},
	} {
		if got := BetaCDF(c.a, c.b, c.x, 1-c.x); got != c.want && !(got != got && c.want != c.want) {
			t.Errorf("Beta(%g, %g) up to %g: %g, want %g", c.a, c.b, c.x, got, c.want)
		}
	}
}
