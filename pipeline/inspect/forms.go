package inspect

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/observe"
)

// A column is one of a table, or a field of JSON objects. It holds a text of every record, "" of
// those that do not have it: the texts of columns stand beside each other.
type column struct {
	name    string
	parts   []string // the names of a date and a time of day that stand apart; else nil
	texts   []string
	nested  int // lists and so on
	records int // all there are

	read *forms // what the texts are, found once
}

// forms is what the texts of a column are.
type forms struct {
	codes    []int32 // which of the different texts a record has; none if it is missing
	distinct int
	present  int // texts that are not missing
	longest  int // bytes
	empty    int // texts that are empty
	stamps   []stamp
	clock    bool // a time of day
	numbers  numbers
}

const none = -1

// forms reads the texts, once.
func (c *column) forms() *forms {
	if c.read != nil {
		return c.read
	}
	f := &forms{codes: make([]int32, len(c.texts))}
	c.read = f
	seen := map[string]int32{}
	var present, different []string
	for i, s := range c.texts {
		if s == "" {
			f.empty++
		}
		if f.codes[i] = none; absent(s) {
			continue
		}
		code, known := seen[s]
		if !known {
			code = int32(len(seen))
			seen[s] = code
			different = append(different, s)
		}
		f.codes[i] = code
		f.longest = max(f.longest, len(s))
		present = append(present, s)
	}
	f.distinct, f.present = len(seen), len(present)
	if c.nested > 0 || f.present == 0 {
		return f
	}
	f.numbers = numbersOf(different)
	f.clock = share(different, clockTime.MatchString) >= fitting
	f.stamps = stampsOf(c.texts, different)
	return f
}

// share is that of the texts for which a function holds.
func share(texts []string, f func(string) bool) float64 {
	n := 0
	for _, s := range texts {
		if f(s) {
			n++
		}
	}
	return float64(n) / float64(max(len(texts), 1))
}

// Shares of a column's texts that have the form it is taken for, at least.
const (
	most    = .5  // of a form that is read without a setting
	fitting = .95 // of one that takes a setting
)

func absent(s string) bool {
	return observe.Missing(s) || slices.Contains(missingWords, strings.ToLower(s))
}

// missingWords are texts that stand for a missing value in most places.
var missingWords = []string{"na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "?", ".", "missing", "unavailable", "unknown"}

// numeric reports whether the texts are numbers, however they are written.
func (c *column) numeric() bool { return c.nested == 0 && c.forms().numbers.share >= most }

// whole reports whether the texts are whole numbers without a unit.
func (c *column) whole() bool {
	n := c.forms().numbers
	return c.numeric() && !n.fractions && len(n.units) == 0 && n.share == 1
}

// timed reports whether the texts are times.
func (c *column) timed() bool { return len(c.forms().stamps) > 0 }

// A stamp is a form of times that the texts of a column have.
type stamp struct {
	format string  // time_format; empty of those that need none
	at     []int64 // nanoseconds since 1970 by record; never where there is none
	dates  bool    // each is the beginning of a day
}

const never = math.MinInt64

// timeForms are forms of times that need a time_format, by their usual frequency.
var timeForms = func() (all []timeForm) {
	add := func(format string) {
		p, err := times.NewParser("", format)
		if err != nil {
			panic("inspect: " + format + ": " + err.Error())
		}
		all = append(all, timeForm{format, p})
	}
	for _, date := range []string{"%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%Y-%m-%d"} {
		for _, clock := range clockForms {
			if date != "%Y-%m-%d" || strings.ContainsAny(clock, "I.") {
				add(date + clock)
			}
		}
	}
	for _, format := range []string{"%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y-%m", "%b-%y", "%b %Y", "%B %Y", "%Y-Q%q", "%YQ%q", "%Y Q%q", "%G-W%V", "%GW%V"} {
		add(format)
	}
	return all
}()

// clockForms are those of a time of day behind a date.
var clockForms = []string{"", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H.%M.%S"}

type timeForm struct {
	format string
	parser *times.Parser
}

// clockTime matches a time of day.
var clockTime = regexp.MustCompile(`^(?i:[012]?[0-9]:[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?( ?[ap]\.?m\.?)?|[012][0-9]\.[0-5][0-9]\.[0-5][0-9])$`)

// stampsOf returns the forms that texts of times have, of which there are different ones.
func stampsOf(texts, different []string) (all []stamp) {
	add := func(format string, read func(string) (time.Time, bool)) {
		s := stamp{format: format, at: make([]int64, len(texts)), dates: true}
		for i, text := range texts {
			s.at[i] = never
			if t, ok := read(text); ok {
				s.at[i] = t.UnixNano()
				s.dates = s.dates && t.Truncate(24*time.Hour).Equal(t)
			}
		}
		all = append(all, s)
	}
	if share(different, isTime) >= most {
		add("", func(s string) (time.Time, bool) {
			t, err := times.Parse(s)
			return t, err == nil && isTime(s)
		})
		return all
	}
	for _, f := range timeForms {
		// Most forms fail at the first text.
		if fits := f.parser.Fits; fits(different[0]) && share(different, fits) >= fitting || !fits(different[0]) && len(different) > 20 && share(different[:20], fits) > most && share(different, fits) >= fitting {
			add(f.format, func(s string) (time.Time, bool) {
				t, err := f.parser.Parse(s)
				return t, err == nil && !absent(s) && f.parser.Fits(s)
			})
		}
	}
	return all
}

// isTime reports whether a text is a time without a setting. Numbers are those of the years 1990 to
// 2100 only.
func isTime(s string) bool {
	t, err := times.Parse(s)
	return err == nil && (t.Year() >= 1990 && t.Year() <= 2100 || strings.ContainsAny(s, "-:"))
}

// formatsOf returns the forms of times that all texts have and that need a time_format.
func formatsOf(texts []string) (fits []string) {
	for _, f := range timeForms {
		if len(texts) > 0 && !slices.ContainsFunc(texts, func(s string) bool { return !f.parser.Fits(s) }) {
			fits = append(fits, f.format)
		}
	}
	return fits
}

// numbers are how texts write numbers, and what a config must say of it.
type numbers struct {
	share     float64  // of the texts that are numbers
	decimal   rune     // ',' of a decimal comma, else 0
	thousands rune     // what stands between groups of three digits
	units     []string // that stand beside numbers, the commonest first
	fractions bool     // some are not whole
	either    string   // a number that can be read in two ways, of which neither is sure
	words     []string // the two words of a column in place of 0 and 1
}

// switches are pairs of words that stand for 0 and 1.
var switches = [][2]string{{"off", "on"}, {"false", "true"}, {"no", "yes"}, {"closed", "open"}, {"down", "up"}, {"fail", "pass"}}

// isSwitch reports whether a text is of such a pair.
func isSwitch(s string) bool {
	return slices.ContainsFunc(switches, func(pair [2]string) bool { return strings.EqualFold(s, pair[0]) || strings.EqualFold(s, pair[1]) })
}

// groups match a number whose digits stand in groups of three, with what may stand between them.
var groups = map[rune]*regexp.Regexp{}

func init() {
	for _, by := range ",.'’ \u00a0\u202f" {
		groups[by] = regexp.MustCompile(`^[-+]?[1-9][0-9]{0,2}(` + regexp.QuoteMeta(string(by)) + `[0-9]{3})+([.,][0-9]+)?$`)
	}
}

// decimalComma matches a number that has one.
var decimalComma = regexp.MustCompile(`^[-+]?[0-9]*,[0-9]+$`)

// numbersOf recognises how texts write numbers.
func numbersOf(texts []string) (n numbers) {
	units := map[string]int{}
	bare := make([]string, 0, len(texts))
	for _, s := range texts {
		if number, unit, ok := observe.Unit(s); ok {
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
				n.either = cmp.Or(n.either, s)
			}
		case comma > point && point >= 0:
			commas++
			twice = -1
		}
	}
	if commas > 0 && points == 0 {
		n.decimal = ','
	}
	if n.decimal == 0 || twice < commas {
		n.either = ""
	}
	for by, match := range groups {
		if by == '.' && n.decimal == 0 || by == ',' && n.decimal == ',' {
			continue
		}
		if slices.ContainsFunc(bare, func(s string) bool { return strings.ContainsRune(s, by) && match.MatchString(s) }) {
			n.thousands = by
		}
	}
	p := n.parser()
	n.share = share(bare, func(s string) bool {
		x, err := p.Number(s)
		n.fractions = n.fractions || err == nil && x != math.Trunc(x)
		return err == nil
	})
	if len(texts) == 2 && slices.Contains(texts, "1") && slices.Contains(texts, "2") { // choices
		n.words = []string{"1", "2"}
	}
	if n.share >= most {
		n.units = slices.SortedFunc(maps.Keys(units), func(a, b string) int { return cmp.Or(cmp.Compare(units[b], units[a]), cmp.Compare(a, b)) })
		return n
	}
	n = numbers{}
	for _, pair := range switches {
		is := func(s string) bool { return strings.EqualFold(s, pair[0]) || strings.EqualFold(s, pair[1]) }
		if len(texts) == 2 && is(texts[0]) && is(texts[1]) {
			if n.words = slices.Clone(texts); strings.EqualFold(texts[0], pair[1]) {
				slices.Reverse(n.words)
			}
		}
	}
	return n
}

// parser reads the numbers without their units.
func (n *numbers) parser() *observe.Parser {
	p, err := observe.NewParser(config.Fields{Decimal: n.decimal, Thousands: n.thousands})
	if err != nil {
		panic("inspect: " + err.Error())
	}
	return p
}

// values returns the numbers of a column's records, NaN where there is none.
func (c *column) values() []float64 {
	n := c.forms().numbers
	p := n.parser()
	all := make([]float64, len(c.texts))
	for i, s := range c.texts {
		all[i] = math.NaN()
		if absent(s) {
			continue
		}
		if number, _, ok := observe.Unit(s); ok {
			s = number
		}
		if x, err := p.Number(s); err == nil {
			all[i] = x
		}
	}
	return all
}

// settings says what a config must say of the numbers.
func (n *numbers) settings(add func(key, value string)) {
	if n.decimal != 0 {
		add("decimal", yamlText(string(n.decimal)))
	}
	if n.thousands != 0 {
		add("thousands", yamlText(string(n.thousands)))
	}
	if len(n.units) == 1 {
		add("unit", yamlText(n.units[0]))
	}
	if n.words != nil {
		add("values_as", yamlList(n.words))
	}
}
