package sniff

import (
	"math"
	"strings"
	"time"

	"hafvf/internal/times"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A column is a column of a table, or a field of JSON objects. texts has one entry per record, "" where the record
// lacks the column, so the entries of different columns correspond.
type column struct {
	name   string
	parts  []string // names of the date and time columns that were joined; else nil
	hours  bool     // the second of the parts has hours as whole numbers
	texts  []string
	inPath bool   // the texts are parts of the paths of files
	nested int    // number of values that are lists or objects
	list   string // beginning of the first such value

	read *forms // forms of the texts; nil until forms is called
}

// forms describes the texts of a column.
type forms struct {
	different []string
	codes     []int32 // index in different of each record's text; none if missing
	distinct  int     // number of different texts
	present   int     // number of texts that are not missing
	longest   int     // length of the longest text in bytes
	stamps    []timeForm
	clock     bool // times of day
	numbers   decode.Numbers
	values    []float64 // nil until column.values is called
}

const none = -1

// forms reads the texts on the first call.
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
	known := times.Forms
	if c.hours {
		known = times.HourForms
	}
	f.stamps = stampsOf(c.texts, f.different, known)
	return f
}

// Minimum share of a column's texts that must have a form.
const (
	minShare       = .5  // for forms that need no setting
	minShareOfForm = .95 // for forms that need a setting
)

// numeric reports whether the texts are numbers in any notation.
func (c *column) numeric() bool { return c.nested == 0 && c.forms().numbers.Share >= minShare }

// whole reports whether the texts are whole numbers without a unit.
func (c *column) whole() bool {
	n := c.forms().numbers
	return c.numeric() && !n.Fractions && len(n.Units) == 0 && n.Share == 1
}

// timed reports whether the texts are times.
func (c *column) timed() bool { return len(c.forms().stamps) > 0 }

// A timeForm is a format that fits a column's times, with the times read in it.
type timeForm struct {
	format string  // time_format; empty if none is needed
	nanos  []int64 // nanoseconds since 1970 of each record; never if it has no time
	dates  bool    // all times are the start of a day
}

const never = math.MinInt64

// stampsOf returns the time formats that fit the texts: none, or forms of known. different lists the different texts.
func stampsOf(texts, different []string, known []times.Form) (found []timeForm) {
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
	for _, f := range known {
		// The first text rules out most forms.
		if fits := f.Fits; fits(different[0]) && decode.ShareOf(different, fits) >= minShareOfForm || !fits(different[0]) && len(different) > 20 && decode.ShareOf(different[:20], fits) > minShare && decode.ShareOf(different, fits) >= minShareOfForm {
			add(f.Format, func(s string) (time.Time, bool) {
				t, err := f.Parse(s)
				return t, err == nil && !decode.Absent(s) && f.Fits(s)
			})
		}
	}
	return found
}

// isTime reports whether a text is a time that needs no setting. Numbers must lie in the years 1990 to 2100.
func isTime(s string) bool {
	t, err := times.Parse(s)
	return err == nil && (t.Year() >= 1990 && t.Year() <= 2100 || strings.ContainsAny(s, "-:"))
}

// values returns the numbers of a column's records, NaN for records without a number.
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

// numberKeys adds the config keys that the numbers need.
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
