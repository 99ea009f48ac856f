package sniff

import (
	"math"
	"strings"
	"time"

	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A column is one of a table, or a field of JSON objects. It holds a text of every record, "" of
// those that do not have it: the texts of columns stand beside each other.
type column struct {
	name   string
	parts  []string // the names of a date and a time of day that stand apart; else nil
	texts  []string
	nested int    // lists and so on
	list   string // the beginning of the first of these

	read *forms // what the texts are, found once
}

// forms is what the texts of a column are.
type forms struct {
	different []string
	codes     []int32 // which of the different texts a record has; none if it is missing
	distinct  int     // how many there are
	present   int     // texts that are not missing
	longest   int     // bytes
	stamps    []timeForm
	clock     bool // a time of day
	numbers   decode.Numbers
	values    []float64 // see column.values; nil until it is asked for
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
	for i, s := range c.texts {
		if f.codes[i] = none; decode.Absent(s) {
			continue
		}
		code, known := seen[s]
		if !known {
			code = int32(len(seen))
			seen[s] = code
			f.different = append(f.different, s)
		}
		f.codes[i] = code
		f.longest = max(f.longest, len(s))
		f.present++
	}
	f.distinct = len(seen)
	if c.nested > 0 || f.present == 0 {
		return f
	}
	f.numbers = decode.NumbersOf(f.different)
	f.clock = decode.ShareOf(f.different, times.IsClock) >= minShareOfForm
	f.stamps = stampsOf(c.texts, f.different)
	return f
}

// Shares of a column's texts that have the form it is taken for, at least.
const (
	minShare       = .5  // of a form that is read without a setting
	minShareOfForm = .95 // of one that takes a setting
)

// numeric reports whether the texts are numbers, however they are written.
func (c *column) numeric() bool { return c.nested == 0 && c.forms().numbers.Share >= minShare }

// whole reports whether the texts are whole numbers without a unit.
func (c *column) whole() bool {
	n := c.forms().numbers
	return c.numeric() && !n.Fractions && len(n.Units) == 0 && n.Share == 1
}

// timed reports whether the texts are times.
func (c *column) timed() bool { return len(c.forms().stamps) > 0 }

// A timeForm is a form of times that the texts of a column have.
type timeForm struct {
	format string  // time_format; empty of those that need none
	nanos  []int64 // nanoseconds since 1970 by record; never where there is none
	dates  bool    // each is the beginning of a day
}

const never = math.MinInt64

// stampsOf returns the forms that texts of times have, of which there are different ones.
func stampsOf(texts, different []string) (found []timeForm) {
	add := func(format string, read func(string) (time.Time, bool)) {
		s := timeForm{format: format, nanos: make([]int64, len(texts)), dates: true}
		for i, text := range texts {
			s.nanos[i] = never
			if t, ok := read(text); ok {
				s.nanos[i] = t.UnixNano()
				s.dates = s.dates && t.Truncate(24*time.Hour).Equal(t)
			}
		}
		found = append(found, s)
	}
	if decode.ShareOf(different, isTime) >= minShare {
		add("", func(s string) (time.Time, bool) {
			t, err := times.Parse(s)
			return t, err == nil && isTime(s)
		})
		return found
	}
	for _, f := range times.Forms {
		// Most forms fail at the first text.
		if fits := f.Fits; fits(different[0]) && decode.ShareOf(different, fits) >= minShareOfForm || !fits(different[0]) && len(different) > 20 && decode.ShareOf(different[:20], fits) > minShare && decode.ShareOf(different, fits) >= minShareOfForm {
			add(f.Format, func(s string) (time.Time, bool) {
				t, err := f.Parse(s)
				return t, err == nil && !decode.Absent(s) && f.Fits(s)
			})
		}
	}
	return found
}

// isTime reports whether a text is a time without a setting. Numbers are those of the years 1990 to
// 2100 only.
func isTime(s string) bool {
	t, err := times.Parse(s)
	return err == nil && (t.Year() >= 1990 && t.Year() <= 2100 || strings.ContainsAny(s, "-:"))
}

// values returns the numbers of a column's records, NaN where there is none.
func (c *column) values() []float64 {
	f := c.forms()
	if f.values != nil {
		return f.values
	}
	p := f.numbers.Parser()
	for _, s := range c.texts {
		absent := decode.Absent(s)
		if number, _, ok := decode.Unit(s); ok {
			s = number
		}
		x, err := p.Number(s)
		if err != nil || absent {
			x = math.NaN()
		}
		f.values = append(f.values, x)
	}
	return f.values
}

// numberKeys says what a config must say of the numbers.
func numberKeys(n decode.Numbers, add func(key, value string)) {
	if n.Decimal != 0 {
		add("decimal", config.YAMLText(string(n.Decimal)))
	}
	if n.Thousands != 0 {
		add("thousands", config.YAMLText(string(n.Thousands)))
	}
	if len(n.Units) == 1 {
		add("unit", config.YAMLText(n.Units[0]))
	}
	if n.Words != nil {
		add("values_as", config.YAMLList(n.Words))
	}
}
