package keyed

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// A multiple of a unit applies to values of at least minSize. They are divided by divisor and written with symbol.
type multiple struct {
	minSize, divisor float64
	symbol           string
}

// multiplesByUnit are the multiples of the units that can end the names of metrics. The empty name means no unit.
var multiplesByUnit = map[string][]multiple{
	"":        {{0, 1, ""}, {1e6, 1e6, " million"}, {1e9, 1e9, " billion"}, {1e12, 1e12, " trillion"}},
	"bytes":   {{0, 1, " B"}, {1e3, 1e3, " kB"}, {1e6, 1e6, " MB"}, {1e9, 1e9, " GB"}, {1e12, 1e12, " TB"}},
	"seconds": {{0, 1e-6, " µs"}, {1e-4, 1e-3, " ms"}, {.1, 1, " s"}, {600, 60, " min"}, {7200, 3600, " h"}},
	"ms":      {{0, 1e-3, " µs"}, {.1, 1, " ms"}, {1000, 1000, " s"}, {6e5, 6e4, " min"}, {72e5, 36e5, " h"}},
	"ratio":   {{0, .01, " %"}},
	"percent": {{0, 1, " %"}},
	"celsius": {{0, 1, " °C"}},
}

const atZero = "is zero"

var (
	// unitBehind matches names as in spreadsheets, such as pressure (bar), and names with a unit before a note, such as
	// Temp, °C (S/N: 1234567).
	unitBehind        = regexp.MustCompile(`^[^(]*(?: \(([^(:,]{1,12})\)|, ([^\s,(]{1,12}) \([^(]*[:,][^(]*\))$`)
	unitInName        = regexp.MustCompile(`(?:^|[_/])(bytes|seconds|ms|ratio|percent|celsius)(?:[_:]|$)`)
	temperatureInName = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:celsius|fahrenheit|kelvin|temp|temperatures?)(?:[^a-z]|$)`)
	temperatureUnit   = regexp.MustCompile(`^(?:°|℃|℉|[CFK](?:/|$)|(?i:celsius|fahrenheit|kelvin|deg))`)
)

// A unit says how to write the values of a metric.
type unit struct {
	multiples   []multiple
	per         string // a rate's denominator, such as /s
	temperature bool   // its zero is arbitrary
	hasRatios   bool   // messages have ratios of values, see Track.subject
}

// unitNamed returns the unit of a metric from its name. configured is Config.Unit, or empty.
func unitNamed(name, configured string) (u unit) {
	if m := unitBehind.FindStringSubmatch(name); m != nil && configured == "" {
		configured = m[1] + m[2]
	}
	if text, per, rate := strings.Cut(configured, "/"); text != "" {
		return unit{multiples: []multiple{{0, 1, " " + configured}}, temperature: temperatureUnit.MatchString(configured)}
	} else if rate {
		configured = "/" + per
	}
	u = unit{multiples: multiplesByUnit[""], per: configured, temperature: temperatureInName.MatchString(name)}
	if matches := unitInName.FindAllStringSubmatch(name, -1); matches != nil {
		u.multiples = multiplesByUnit[matches[len(matches)-1][1]]
	}
	return u
}

// A figure says how to write the values of one sentence.
type figure struct {
	divisor   float64
	symbol    string
	decimals  int
	hasRatios bool
}

// figure returns the figure for the usual value, with standard deviation sd, and another value. It chooses the
// multiple by the usual value or, if the other value is more than 1000 times as large, by the other value. The
// number of decimals shows one digit of sd, or two if the first is 1. Without sd, the value that chose the multiple
// has four digits.
func (u unit) figure(usual, sd, other float64) figure {
	largest := math.Abs(usual)
	if v := math.Abs(other); v > largest*1000 || math.IsNaN(largest) {
		largest = v
	}
	s := u.multiples[0]
	for _, larger := range u.multiples[1:] {
		if largest >= larger.minSize {
			s = larger
		}
	}
	decimals := digits(largest/s.divisor, 4)
	if sd /= s.divisor; sd > 0 && !math.IsInf(sd, 0) {
		n := 1
		if sd*math.Pow10(digits(sd, 2)) < 19.5 {
			n = 2
		}
		decimals = min(digits(sd, n), decimals+2)
	}
	return figure{s.divisor, s.symbol + u.per, max(0, min(decimals, 12)), u.hasRatios}
}

// digits returns the number of decimals that show n digits of v. It is negative if the n digits end before the
// point.
func digits(v float64, n int) int {
	if v == 0 || notFinite(v) {
		return 0
	}
	return n - 1 - int(math.Floor(math.Log10(v)))
}

// number writes a value without its unit.
func (f figure) number(v float64) string {
	v /= f.divisor
	if a := math.Abs(v); a >= 1e15 || a < 1e-6 && a > 0 && f.decimals > 6 || notFinite(v) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	shift := math.Pow10(f.decimals)
	return strconv.FormatFloat(math.Round(v*shift)/shift+0, 'f', f.decimals, 64) // + 0 turns −0 into 0
}

// value writes a value with its unit, and without trailing zeros.
func (f figure) value(v float64) string {
	text := f.number(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + f.symbol
}

// forDistance returns the figure for two values with that distance: with at most the decimals that show three
// digits of it.
func (f figure) forDistance(distance float64) figure {
	if distance /= f.divisor; distance != 0 && !notFinite(distance) {
		f.decimals = min(f.decimals, max(0, digits(math.Abs(distance), 3)))
	}
	return f
}

// band writes mean ± sd. It omits an sd that would be written as zero.
func (f figure) band(mean, sd float64) string {
	if strings.Trim(f.number(sd), "0.") == "" {
		return f.value(mean)
	}
	return f.number(mean) + " ± " + f.number(sd) + f.symbol
}

// difference describes how v differs from base, with the words more and less. If messages have ratios and base is
// clearly above zero, it gives the factor (v at least 1.5 times base, base at least two of its standard deviations sd)
// or the percentage (base at least three of them). Else it gives the distance, also in standard deviations.
func (f figure) difference(v, base, sd float64, more, less string) string {
	word := more
	if v < base {
		word = less
	}
	switch r := v / base; {
	case v == 0 && base > 0 && f.hasRatios:
		return atZero
	case f.hasRatios && base > 0 && base >= 2*sd && r >= 1.5:
		return "×" + oneDecimal(r)
	case !(f.hasRatios && base > 0 && base >= 3*sd && v > 0) || strings.HasPrefix(f.symbol, " %"):
		distance := math.Abs(v - base)
		text := "is " + strings.Replace(f.forDistance(distance).value(distance), " %", " points", 1)
		if n := distance / sd; n > 0 && !notFinite(n) {
			text += " (" + oneDecimal(n) + " sd)"
		}
		return text + " " + word
	case r < .005:
		return "is more than 99 % " + word
	default:
		share := 100 * math.Abs(r-1)
		return "is " + strconv.FormatFloat(share, 'f', max(0, digits(share, 1)), 64) + " % " + word
	}
}

// oneDecimal writes v with one decimal if it is below 10, else without decimals.
func oneDecimal(v float64) string {
	return figure{divisor: 1, decimals: 1}.forDistance(10 * v).value(v)
}
