package usual

import (
	"math"
	"math/big"
)

// moments describes the sums that determine the matrix A = Σuuᵀ of a constant and the seasons' regressors. The product
// of two harmonics is half a sum of two harmonics, with the sum and the difference of their frequencies:
//
//	cos a·cos b = ½(cos(a − b) + cos(a + b))
//
// Hence the sums of 35 cosines and sines determine the 120 entries of A under DefaultSeasons. The moments are n = Σ1,
// the sums of the regressors, and the sums of the other frequencies, a cosine and then a sine for each.
//
// A moment is a whole multiple of 2^−46 of the power of two above n, so a state is stored without rounding.
type moments struct {
	columns int       // number of regressors with the constant
	others  []angle   // the other frequencies
	entries []product // lower triangle of A by rows
}

// An angle is the sum of the angles of two harmonics or, if sign is −1, their difference. The fields are the indices
// of the cosines and sines of the harmonics.
type angle struct {
	cosA, sinA, cosB, sinB int
	sign                   float64
}

// A product is an entry of A, ½(m[i] + sign·m[j]) of the moments m.
type product struct {
	i, j int
	sign float64
}

// newMoments returns the moments of the seasons.
func newMoments(seasons []Season) moments {
	m := moments{columns: 1 + harmonics(seasons)}
	type harmonic struct {
		frequency *big.Rat
		cos, sin  int
	}
	columns := make([]harmonic, m.columns) // of cosines and sines
	known := map[string][2]int{}           // indices of cosine and sine, by frequency
	column := 1
	for _, s := range seasons {
		for k := range s.Harmonics {
			h := harmonic{big.NewRat(int64(k+1), int64(s.Period)), column + k, column + s.Harmonics + k}
			columns[h.cos], columns[h.sin] = h, h
			if name := h.frequency.String(); known[name] == [2]int{} {
				known[name] = [2]int{h.cos, h.sin}
			}
		}
		column += 2 * s.Harmonics
	}
	// combine returns the indices of the moments of the sum or difference of two harmonics, and the sign of the sine of
	// the difference, which is 0 if the frequencies are equal.
	combine := func(a, b harmonic, sign float64) (cos, sin int, sine float64) {
		f := new(big.Rat)
		sine = 1
		if sign > 0 {
			f.Add(a.frequency, b.frequency)
		} else {
			if a.frequency.Cmp(b.frequency) < 0 {
				a, b, sine = b, a, -1
			}
			f.Sub(a.frequency, b.frequency)
		}
		if f.Sign() == 0 {
			return 0, 0, 0
		}
		name := f.String()
		if known[name] == [2]int{} {
			known[name] = [2]int{m.len(), m.len() + 1}
			m.others = append(m.others, angle{a.cos, a.sin, b.cos, b.sin, sign})
		}
		return known[name][0], known[name][1], sine
	}
	m.entries = append(m.entries, product{0, 0, 1})
	for row := 1; row < m.columns; row++ {
		m.entries = append(m.entries, product{row, row, 1})
		a, sineA := columns[row], columns[row].sin == row
		for column := 1; column <= row; column++ {
			b, sineB := columns[column], columns[column].sin == column
			sumCos, sumSin, _ := combine(a, b, 1)
			cos, sin, sign := combine(a, b, -1)
			switch {
			case sineA && sineB:
				m.entries = append(m.entries, product{cos, sumCos, -1})
			case sineA: // sin a·cos b = ½(sin(a + b) + sin(a − b))
				m.entries = append(m.entries, product{sumSin, sin, sign})
			case sineB: // cos a·sin b = ½(sin(a + b) − sin(a − b))
				m.entries = append(m.entries, product{sumSin, sin, -sign})
			default:
				m.entries = append(m.entries, product{cos, sumCos, 1})
			}
		}
	}
	return m
}

func (m *moments) len() int { return m.columns + 2*len(m.others) }

// expand computes A from sums and writes it to a.
func (m *moments) expand(a, sums []float64) {
	a = a[:len(m.entries)]
	for k := range a {
		e := &m.entries[k]
		a[k] = .5 * (sums[e.i] + e.sign*sums[e.j])
	}
}

// add adds an observation with the regressors u to sums.
func (m *moments) add(sums, u []float64) {
	sums[0]++
	// Adding and subtracting large rounds to a quantum, if the moment is less than 2⁵¹ quanta.
	large := 3 << 51 * quantumOf(sums[0])
	own, rest := sums[:m.columns], sums[m.columns:]
	for i := 1; i < len(own); i++ {
		own[i] = (own[i] + u[i] + large) - large
	}
	for i := range m.others {
		a := &m.others[i]
		cosA, sinA, cosB, sinB := u[a.cosA], u[a.sinA], u[a.cosB], a.sign*u[a.sinB]
		rest[0] = (rest[0] + (float64(cosA*cosB) - float64(sinA*sinB)) + large) - large
		rest[1] = (rest[1] + (float64(sinA*cosB) + float64(cosA*sinB)) + large) - large
		rest = rest[2:]
	}
}

const momentBits = 48 // bits of a stored moment

// quantumOf returns the quantum of the moments of observations with the weight n.
func quantumOf(n float64) float64 {
	_, e := math.Frexp(n)
	return math.Ldexp(1, e-momentBits+2)
}
