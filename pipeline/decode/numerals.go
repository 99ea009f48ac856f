package decode

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

// Numbers are how texts write numbers, and what a config must say of it.
type Numbers struct {
	Share     float64  // of the texts that are numbers
	Decimal   rune     // ',' of a decimal comma, else 0
	Thousands rune     // what stands between groups of three digits
	Units     []string // that stand beside numbers, the commonest first
	Fractions bool     // some are not whole
	Either    string   // a number that can be read in two ways, of which neither is sure
	Words     []string // the two words of a column in place of 0 and 1
}

// Switches are pairs of words that stand for 0 and 1.
var Switches = [][2]string{{"off", "on"}, {"false", "true"}, {"no", "yes"}, {"closed", "open"}, {"down", "up"}, {"fail", "pass"}}

// IsSwitch reports whether a text is of such a pair.
func IsSwitch(s string) bool {
	return slices.ContainsFunc(Switches, func(pair [2]string) bool { return strings.EqualFold(s, pair[0]) || strings.EqualFold(s, pair[1]) })
}

// between are the marks that may stand between groups of three digits.
const between = ",.'’ \u00a0\u202f"

// groups match a number with such marks.
var groups = map[rune]*regexp.Regexp{}

func init() {
	for _, by := range between {
		groups[by] = regexp.MustCompile(`^[-+]?[1-9][0-9]{0,2}(` + regexp.QuoteMeta(string(by)) + `[0-9]{3})+([.,][0-9]+)?$`)
	}
}

// NumbersOf recognises how texts write numbers. None of the texts is missing.
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
	var points, commas, twice int // fractions behind a point or a comma; numbers that may have groups only
	for _, s := range bare {
		switch point, comma := strings.LastIndexByte(s, '.'), strings.LastIndexByte(s, ','); {
		case comma < 0 && point < 0:
		case comma < 0:
			if strings.Count(s, ".") == 1 {
				points++
			}
		case point < 0 && strings.Count(s, ",") == 1:
			if commas++; groups[','].MatchString(s) {
				twice++
				n.Either = cmp.Or(n.Either, s)
			}
		case comma > point && point >= 0:
			commas++
			twice = -1
		}
	}
	if commas > 0 && points == 0 {
		n.Decimal = ','
	}
	if n.Decimal == 0 || twice < commas {
		n.Either = ""
	}
	for _, by := range between {
		if by == '.' && n.Decimal == 0 || by == ',' && n.Decimal == ',' {
			continue
		}
		if slices.ContainsFunc(bare, func(s string) bool { return strings.ContainsRune(s, by) && groups[by].MatchString(s) }) {
			n.Thousands = by
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
		is := func(s string) bool { return strings.EqualFold(s, pair[0]) || strings.EqualFold(s, pair[1]) }
		if len(texts) == 2 && is(texts[0]) && is(texts[1]) {
			if n.Words = slices.Clone(texts); strings.EqualFold(texts[0], pair[1]) {
				slices.Reverse(n.Words)
			}
		}
	}
	return n
}

// Parser reads the numbers without their units.
func (n *Numbers) Parser() *Parser {
	p, err := NewParser(config.Fields{Decimal: cmp.Or(n.Decimal, '.'), Thousands: n.Thousands})
	if err != nil {
		panic("observe: " + err.Error())
	}
	return p
}

// ShareOf is that of the texts for which a function holds.
func ShareOf(texts []string, f func(string) bool) float64 {
	n := 0
	for _, s := range texts {
		if f(s) {
			n++
		}
	}
	return float64(n) / float64(max(len(texts), 1))
}

// Absent reports whether a text stands for a missing value in most places.
func Absent(s string) bool {
	return Missing(s) || slices.Contains(absentWords, strings.ToLower(s))
}

// absentWords are texts that stand for a missing value in most places.
var absentWords = []string{"na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "?", ".", "missing", "unavailable", "unknown"}

// IsData reports whether a text is as those below a header: a number or a time.
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
