package usual

import (
	"math"

	"hafvf/internal/special"
)

const logTwoPi = 1.8378770664093454836

// normalEquivalent approximates the z ≥ 0 with P(|Z| > z) = P(|t| > |e|), for a standard normal Z and Student's t with
// nu degrees of freedom (Wallace 1959, Annals of Mathematical Statistics 30, 1121). The error is less than .02 for
// nu ≥ 10 and z < 4, and about 5 percent for nu = 2.
func normalEquivalent(e, nu float64) float64 {
	return (8*nu + 1) / (8*nu + 3) * math.Sqrt(nu*special.Log1p(e*e/nu))
}

// minusLog10Tail returns −log₁₀ P(Z > z) for a standard normal Z. For z ≥ 25, where the tail nears the smallest float,
// it uses the asymptotic expansion of the tail.
func minusLog10Tail(z float64) float64 {
	if z < 25 {
		return 0 - special.Log(math.Erfc(z/math.Sqrt2)/2)/math.Ln10 // 0, not −0, if the tail is 1
	}
	return (z*z/2 + math.Log(z) + logTwoPi/2 + math.Log1p(1/(z*z))) / math.Ln10
}
