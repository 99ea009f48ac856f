package usual

import (
	"math"

	"hafvf/internal/special"
)

const logTwoPi = 1.8378770664093454836

// normalEquivalent is about the z ≥ 0 for which P(|Z| > z), Z standard normal, is
// P(|t| > |e|), t Student's with ν degrees of freedom (Wallace 1959, Annals of
// Mathematical Statistics 30, 1121). For ν ≥ 10 and z < 4 it is off by less than
// .02, and for ν = 2 by about 5 percent.
func normalEquivalent(e, nu float64) float64 {
	return (8*nu + 1) / (8*nu + 3) * math.Sqrt(nu*special.Log1p(e*e/nu))
}

// minusLog10Tail is −log₁₀ P(Z > z), Z standard normal. Where the tail nears the
// smallest float, it is the tail's asymptotic expansion.
func minusLog10Tail(z float64) float64 {
	if z < 25 {
		return 0 - special.Log(math.Erfc(z/math.Sqrt2)/2)/math.Ln10 // 0, not −0, where the tail is 1
	}
	return (z*z/2 + math.Log(z) + logTwoPi/2 + math.Log1p(1/(z*z))) / math.Ln10
}
