package decode

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"hafvf/internal/domain"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

// Numbers describes the notation of numbers in texts, and the settings that a config needs for it.
type Numbers struct {
	Share     float64  // share of the texts that are numbers
	Decimal   rune     // ',' for a decimal comma, else 0
	Thousands rune     // separator of groups of three digits, else 0
	Units     []string // units of the numbers, the most frequent first
	Fractions bool     // some are not whole
	Either    string   // a number that can be read in two ways, if no other number decides
	Words     []string // the two words of a column that mean 0 and 1, in this order
}

// Switches are pairs of words that mean 0 and 1.
var Switches = [][2]string{{"off", "on"}, {"false", "true"}, {"no", "yes"}, {"closed", "open"}, {"down", "up"}, {"fail", "pass"}}

// IsSwitch reports whether a text is in one of the Switches.
func IsSwitch(s string) bool {
	return slices.ContainsFunc(Switches, func(pair [2]string) bool { return strings.EqualFold(s, pair[0]) || strings.EqualFold(s, pair[1]) })
}

// groupMarks are the possible separators of groups of three digits.
const groupMarks = ",.'’ \u00a0\u202f"

// groups match a number with each separator.
var groups = map[rune]*regexp.Regexp{}

func init() {
	for _, mark := range groupMarks {
		groups[mark] = regexp.MustCompile(`^[-+]?[1-9][0-9]{0,2}(` + regexp.QuoteMeta(string(mark)) + `[0-9]{3})+([.,][0-9]+)?$`)
	}
}

// NumbersOf recognises the notation of numbers in texts. None of the texts may be missing.
func NumbersOf(texts []string) (n Numbers) {
	units := map[string]int{}
	bare := make([]string, 0, len(texts))
	for _, s := range texts {
		if number, unit, ok := Unit(s); ok {
			units[unit]++
			s = number
		}
		bare = append(bare, s)
	}
	// Numbers with a decimal point, with a decimal comma, and with a comma that may separate groups.
	var points, commas, ambiguous int
	for _, s := range bare {
		switch point, comma := strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ','); {
		case comma < 0 && point < 0:
		case comma < 0:
			if strings.Count(s, ".") == 1 {
				points++
			}
		case point < 0 && strings.Count(s, ",") == 1:
			if commas++; groups[','].MatchString(s) {
				ambiguous++
				n.Either = cmp.Or(n.Either, s)
			}
		case comma > point && point >= 0:
			commas++
			ambiguous = -1
		}
	}
	if commas > 0 && points == 0 {
		n.Decimal = ','
	}
	if n.Decimal == 0 || ambiguous < commas {
		n.Either = ""
	}
	for _, mark := range groupMarks {
		if mark == '.' && n.Decimal == 0 || mark == ',' && n.Decimal == ',' {
			continue
		}
		if slices.ContainsFunc(bare, func(s string) bool { return strings.ContainsRune(s, mark) && groups[mark].MatchString(s) }) {
			n.Thousands = mark
		}
	}
	p := n.Parser()
	n.Share = ShareOf(bare, func(s string) bool {
		x, err := p.Number(s)
		n.Fractions = n.Fractions || err == nil && x != math.Trunc(x)
		return err == nil
	})
	if len(texts) == 2 && slices.Contains(texts, "1") && slices.Contains(texts, "2") { // choices
		n.Words = []string{"1", "2"}
	}
	if n.Share >= .5 {
		n.Units = slices.SortedFunc(maps.Keys(units), func(a, b string) int { return cmp.Or(cmp.Compare(units[b], units[a]), cmp.Compare(a, b)) })
		return n
	}
	n = Numbers{}
	for _, pair := range Switches {
		inPair := func(s string) bool { return strings.EqualFold(s, pair[0]) || strings.EqualFold(s, pair[1]) }
		if len(texts) == 2 && inPair(texts[0]) && inPair(texts[1]) {
			if n.Words = slices.Clone(texts); strings.EqualFold(texts[0], pair[1]) {
				slices.Reverse(n.Words)
			}
		}
	}
	return n
}

// Parser returns a parser of the numbers without their units.
func (n *Numbers) Parser() *Parser {
	p, err := NewParser(config.Fields{Decimal: cmp.Or(n.Decimal, '.'), Thousands: n.Thousands})
	if err != nil {
		panic("decode: " + err.Error())
	}
	return p
}

// ShareOf returns the share of the texts for which f is true.
func ShareOf(texts []string, f func(string) bool) float64 {
	n := 0
	for _, s := range texts {
		if f(s) {
			n++
		}
	}
	return float64(n) / float64(max(len(texts), 1))
}

// Absent reports whether a text means a missing value in most sources.
func Absent(s string) bool {
	return domain.Missing(s) || slices.Contains(absentWords, strings.ToLower(s))
}

// absentWords are further texts that mean a missing value in most sources.
var absentWords = []string{"na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "?", ".", "missing", "unavailable", "unknown"}

// IsData reports whether a text looks like a cell below a header: a number or a time.
func IsData(s string) bool {
	if !strings.ContainsAny(s, "0123456789") {
		return false
	}
	if NumbersOf([]string{s}).Share == 1 || times.IsClock(s) {
		return true
	}
	if _, err := times.Parse(s); err == nil {
		return true
	}
	return slices.ContainsFunc(times.Forms, func(f times.Form) bool { return f.Fits(s) })
}
