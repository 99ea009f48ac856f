package decode

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/config"
)

// Number reads a number in the notation that the fields describe: decimal, with a unit or groups of digits, or one of
// two words. A missing number is NaN.
func (p *Parser) Number(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if p.missing(s) {
		return math.NaN(), nil
	}
	if p.ValuesAs != nil {
		return p.choice(s)
	}
	v, err := p.decimal(s)
	if err == errNotDecimal {
		return p.written(s)
	}
	return v, err
}

// errNotDecimal means that a text is not a plain decimal number.
var errNotDecimal = errors.New("not a decimal number")

// decimal reads a decimal number.
func (p *Parser) decimal(s string) (float64, error) {
	point := byte('.')
	if p.comma {
		point = ','
	}
	for i := range len(s) {
		// ParseFloat alone would accept hexadecimal numbers and "inf" too.
		if c := s[i]; (c < '0' || c > '9') && c != point && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, errNotDecimal
		}
	}
	if p.comma {
		s = strings.Replace(s, ",", ".", 1)
	}
	return p.parse(s)
}

// parse calls parseNumber, and then OnRounded if a whole number was rounded.
func (p *Parser) parse(s string) (float64, error) {
	v, err := parseNumber(s)
	if err == nil && math.Abs(v) >= maxWhole && p.OnRounded != nil && isRounded(s, v) {
		p.OnRounded(strings.Clone(s), v)
	}
	return v, err
}

// maxWhole is the limit up to which a float64 represents every whole number.
const maxWhole = 1 << 53

// isRounded reports whether s consists of digits and v is a different whole number.
func isRounded(s string, v float64) bool {
	digits := strings.TrimLeft(strings.TrimLeft(s, "+-"), "0")
	return strings.Trim(digits, "0123456789") == "" && strconv.FormatFloat(math.Abs(v), 'f', 0, 64) != digits
}

func parseNumber(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, strconv.ErrRange):
		// The clone prevents s from escaping to the heap.
		return 0, fmt.Errorf("the number %s is out of range", strings.Clone(message.Shorten(s)))
	}
	return 0, errNotDecimal
}

// written reads a number with a unit or with separators between groups of digits.
func (p *Parser) written(s string) (float64, error) {
	number, ok := withoutUnit(s, p.Unit)
	if !ok && p.Unit == config.AnyUnit {
		number, _, ok = Unit(s)
	}
	if !ok {
		number = s
	}
	number, grouped := p.ungrouped(number)
	v, err := p.decimal(number)
	if err == errNotDecimal {
		return 0, p.whyNot(s, grouped)
	}
	return v, err
}

// whyNot returns why a text is not a number. grouped is false if the groups between separators of thousands are
// invalid.
func (p *Parser) whyNot(s string, grouped bool) error {
	_, unit, hasUnit := Unit(s)
	switch hasUnit = hasUnit && unit != p.Unit; {
	case hasUnit && p.Unit == "":
		return fmt.Errorf("%w: set unit: %s in the source", notNumber(s), message.Quote(unit))
	case hasUnit && p.Unit != config.AnyUnit:
		return fmt.Errorf("the unit %s where %s is due, in %s", message.Quote(unit), message.Quote(p.Unit), message.Quote(s))
	case !grouped:
		return fmt.Errorf("%w: thousands: %s must separate groups of three digits", notNumber(s), message.Quote(string(p.Thousands)))
	case IsSwitch(s):
		return fmt.Errorf("%w: values_as of the source sets which texts are 0 and 1", notNumber(s))
	}
	return notNumber(s)
}

// withoutUnit removes the unit after or before a number.
func withoutUnit(s, unit string) (number string, ok bool) {
	if unit == "" {
		return s, false
	}
	if number, ok = strings.CutSuffix(s, unit); ok {
		return strings.TrimSpace(number), true
	}
	sign := s[:len(s)-len(strings.TrimLeft(s, "+-"))]
	number, ok = strings.CutPrefix(strings.TrimSpace(s[len(sign):]), unit)
	return sign + strings.TrimSpace(number), ok
}

// ungrouped removes the separators between groups of digits. ok is false if a group after the first does not have
// three digits.
func (p *Parser) ungrouped(s string) (number string, ok bool) {
	if p.Thousands == 0 {
		return s, true
	}
	end := strings.IndexRune(s, p.Decimal)
	if end < 0 {
		end = len(s)
	}
	groups := strings.Split(marks.Replace(s[:end]), string(p.Thousands))
	for i, g := range groups[1:] {
		first := len(strings.TrimLeft(groups[0], "+-"))
		if len(g) != 3 || i == 0 && (first < 1 || first > 3) {
			return s, false
		}
	}
	return strings.Join(groups, "") + s[end:], true
}

// marks maps similar separators to one character.
var marks = strings.NewReplacer("\u00a0", " ", "\u2009", " ", "\u202f", " ", "’", "'")

// choice returns 0 for the first and 1 for the second word of ValuesAs. Words that are numbers are compared by value.
func (p *Parser) choice(s string) (float64, error) {
	v, err := parseNumber(s)
	for i, word := range p.ValuesAs {
		value, wordErr := parseNumber(word)
		if s == word || err == nil && wordErr == nil && v == value {
			return float64(i), nil
		}
	}
	return 0, fmt.Errorf("the value %s where %s or %s is due, by values_as", message.Quote(s), message.Quote(p.ValuesAs[0]), message.Quote(p.ValuesAs[1]))
}

// missing reports whether a text means a missing value.
func (p *Parser) missing(s string) bool {
	return domain.Missing(s) || p.Missing != nil && slices.Contains(p.Missing, s)
}

func notNumber(s string) error {
	if t := strings.ToLower(strings.TrimLeft(s, "+-")); t == "inf" || t == "infinity" {
		return errInfinite
	}
	return fmt.Errorf("the text %s where a number is due", message.Quote(s))
}

var errInfinite = errors.New("the number is infinite")

// Unit splits a text such as 13.7 °C, $3.20, 45 % or 1.7 MB/s into the number, as written, and its unit. ok is false
// for plain numbers, and for times, dates, versions, ordinals and names with digits. A letter after a number is a
// unit.
func Unit(text string) (number, unit string, ok bool) {
	if strings.Trim(text, "0123456789.,+- ") == "" {
		return "", "", false // most texts; cheaper than matching
	}
	m := measured.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return "", "", false
	}
	sign, prefix, number, exponent, blank, suffix := m[1], m[2], m[3], m[4], m[5], m[6]
	switch {
	case (prefix == "") == (suffix == ""):
		return "", "", false
	case sign != "" && strings.ContainsAny(number[:1], "+-"):
		return "", "", false
	case prefix != "":
		return sign + number + exponent, prefix, true
	case utf8.RuneCountInString(suffix) > 12 || noUnit.MatchString(suffix) || strings.HasSuffix(suffix, "/"):
		return "", "", false
	case blank == "" && (exponent != "" || hexadecimal.MatchString(number+suffix)):
		return "", "", false
	}
	return sign + number + exponent, strings.Join(strings.Fields(suffix), " "), true
}

var (
	// measured matches a number with a currency before it, or a unit of one or two words after it. Units have no
	// digits, except m2 and m3.
	measured = regexp.MustCompile(`^([-+]?)([\pL]{0,3}\p{Sc})?[\s\x{a0}\x{202f}]*` +
		`([-+]?(?:\d{1,3}(?:[.,'’ \x{a0}\x{2009}\x{202f}]\d{3})+|\d+)(?:[.,]\d+)?)([eE][-+]?\d+)?` +
		`([\s\x{a0}\x{202f}]*)((?:(?:m[23]|[\pL\p{Sc}%‰°/²³·])+ ?){1,2})?$`)
	// noUnit matches words after numbers in ordinals, times of day, dates and versions.
	noUnit = regexp.MustCompile(`(?i)^(st|nd|rd|th|[ap]m|utc|gmt|z|rc|alpha|beta|jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)( |$)`)
	// hexadecimal matches names with digits that are not numbers: 0xff, 007a.
	hexadecimal = regexp.MustCompile(`^[-+]?0([0-9]|[xX])`)
)
