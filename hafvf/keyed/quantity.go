package keyed

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// A multiple of a unit is how values from a size on are written: in multiples of by, with a symbol.
type multiple struct {
	minSize, divisor float64
	symbol           string
}

// multiplesOf are those of the units that the names of metrics end with. "" is no unit.
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
	atZero  = "at zero"
)

var unitInName = regexp.MustCompile(`(?:^|[_/])(bytes|seconds|ms|ratio|percent|celsius)(?:[_:]|$)`)

// A unit is how the values of a metric are written.
type unit struct {
	multiples []multiple
	per       string // such as /s
}

// unitNamed is the unit of the values of a name. Given is that of Config.Unit.
func unitNamed(name, configured string) unit {
	if _, suffix, found := strings.Cut(name, " ("); found && configured == "" && strings.Count(name, "(") == 1 && strings.HasSuffix(suffix, ")") {
		configured = strings.TrimSuffix(suffix, ")") // as a spreadsheet has it: pressure (bar)
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

// A figure is how the values of one sentence are written.
type figure struct {
	divisor  float64
	symbol   string
	decimals int
}

// figure is that of the usual value, which scatters by sd, and of another one. They are in the multiple of the usual
// value, or if that is far below the other one, in that of the other. They have as many decimals as sd, which has
// two digits if the first is 1. Without sd the value of the multiple has four digits.
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

// digits is the number of decimals with which v has n digits, negative if they end before the point.
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
	return strconv.FormatFloat(math.Round(v*shift)/shift+0, 'f', f.decimals, 64) // 0 is not negative
}

// value writes a value with its unit, without zeros at its end.
func (f figure) value(v float64) string {
	text := f.number(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + f.symbol
}

// of is the figure of values that far apart, of which three digits are enough.
func (f figure) forDistance(distance float64) figure {
	if distance /= f.divisor; distance != 0 && !notFinite(distance) {
		f.decimals = min(f.decimals, max(0, digits(math.Abs(distance), 3)))
	}
	return f
}

// band writes mean ± sd. A scatter that has no digit is left out.
func (f figure) band(mean, sd float64) string {
	if strings.Trim(f.number(sd), "0.") == "" {
		return f.value(mean)
	}
	return f.number(mean) + " ± " + f.number(sd) + f.symbol
}

// much says by how much a value differs from another one, with the words for more and less: by the
// factor if the other one, which scatters by sd, is clearly above zero, else by the share or the distance.
func (f figure) difference(v, base, sd float64, more, less string) string {
	word, scale := more, !strings.HasPrefix(f.symbol, degrees[:3]) // degrees have no zero to count from
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
