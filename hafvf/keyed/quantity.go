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
	"celsius": {{0, 1, degrees}},
}

const (
	degrees = " °C"
	atZero  = "is zero"
)

var unitInName = regexp.MustCompile(`(?:^|[_/])(bytes|seconds|ms|ratio|percent|celsius)(?:[_:]|$)`)

// A unit says how to write the values of a metric.
type unit struct {
	multiples []multiple
	per       string // a rate's denominator, such as /s
}

// unitNamed returns the unit of a metric from its name. configured is Config.Unit, or empty.
func unitNamed(name, configured string) unit {
	if _, suffix, found := strings.Cut(name, " ("); found && configured == "" && strings.Count(name, "(") == 1 && strings.HasSuffix(suffix, ")") {
		configured = strings.TrimSuffix(suffix, ")") // a name as in spreadsheets: pressure (bar)
	}
	if text, per, rate := strings.Cut(configured, "/"); text != "" {
		return unit{multiples: []multiple{{0, 1, " " + configured}}}
	} else if rate {
		configured = "/" + per
	}
	if matches := unitInName.FindAllStringSubmatch(name, -1); matches != nil {
		return unit{multiplesByUnit[matches[len(matches)-1][1]], configured}
	}
	return unit{multiplesByUnit[""], configured}
}

// A figure says how to write the values of one sentence.
type figure struct {
	divisor  float64
	symbol   string
	decimals int
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
	return figure{s.divisor, s.symbol + u.per, max(0, min(decimals, 12))}
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

// difference describes how v differs from base, with the words more and less. It gives the factor if base is
// clearly above zero, at least two of its standard deviations sd, and v at least 1.5 times base. Else it gives the
// percentage or the distance.
func (f figure) difference(v, base, sd float64, more, less string) string {
	word, scale := more, !strings.HasPrefix(f.symbol, degrees[:3]) // degrees have no natural zero
	if v < base {
		word = less
	}
	switch r := v / base; {
	case v == 0 && base > 0 && scale:
		return atZero
	case scale && base > 0 && base >= 2*sd && r >= 1.5:
		return "×" + figure{divisor: 1, decimals: 1}.forDistance(10*r).value(r)
	case !(scale && base > 0 && base >= 3*sd && v > 0) || strings.HasPrefix(f.symbol, " %"):
		return "is " + strings.Replace(f.forDistance(v-base).value(math.Abs(v-base)), " %", " points", 1) + " " + word
	case r < .005:
		return "is more than 99 % " + word
	default:
		share := 100 * math.Abs(r-1)
		return "is " + strconv.FormatFloat(share, 'f', max(0, digits(share, 1)), 64) + " % " + word
	}
}
