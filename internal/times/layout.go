package times

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// NewParser returns a parser for times. zone is the IANA name of the zone of times without an offset; "" means UTC.
// format is a layout of package time, a format of strftime, or Unix or Spreadsheet for numbers; "" means none.
// Texts in other forms are parsed as without a format.
func NewParser(zone, format string) (_ *Parser, err error) {
	var p Parser
	if zone != "" && zone != "UTC" {
		if p.zone, err = domain.Zone(zone); err != nil {
			return nil, err
		}
	}
	if format == "" {
		return &p, nil
	}
	if format == Unix || format == Spreadsheet {
		p.numberFormat = format
		return &p, nil
	}
	layout := format
	if strings.Contains(format, "%") {
		if layout, p.periods, err = fromStrftime(format); err != nil {
			return nil, err
		}
	}
	if strings.Contains(layout, "MST") {
		return nil, errors.New("the abbreviation of a zone does not identify the zone: write UTC literally, or use the offset (-0700, %z)")
	}
	p.layouts = []string{layout}
	if strings.Contains(layout, strftimeOffset) {
		// Python's %z reads both offsets.
		p.layouts = append(p.layouts, strings.ReplaceAll(layout, strftimeOffset, "Z0700"))
	}
	if strings.Contains(layout, "PM") {
		for _, upper := range slices.Clone(p.layouts) {
			p.layouts = append(p.layouts, strings.ReplaceAll(upper, "PM", "pm"))
		}
	}
	if p.periods == noPeriods && !complete(layout) {
		return nil, fmt.Errorf("%s has no year and month, or parts of a day without the day: write a Go layout of the time 2006-01-02 15:04:05, or a strftime format such as %%d/%%m/%%Y %%H:%%M", message.Quote(format))
	}
	return &p, nil
}

// complete reports whether parsing with layout returns the date that was formatted with it, or the first day of its
// month, or of its year if the layout has only a year.
func complete(layout string) bool {
	t, err := time.Parse(layout, probe.Format(layout))
	switch {
	case err != nil || t.Year() != probe.Year():
		return false
	case t.YearDay() == probe.YearDay():
		return true
	}
	midnight := t.Equal(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC))
	return midnight && (t.Month() == probe.Month() || t.Month() == time.January)
}

// probe differs in every part from the reference time of Go's layouts.
var probe = time.Date(2031, 12, 23, 21, 43, 54, 0, time.UTC)

// strftimeOffset is the layout for %z.
const strftimeOffset = "Z07:00"

// strftime maps directives to parts of a layout. Months and days may have one digit.
var strftime = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "1", 'd': "2", 'e': "_2", 'j': "002",
	'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
	'H': "15", 'I': "3", 'M': "04", 'S': "05", 'p': "PM", 'z': strftimeOffset,
	'q': "1", 'G': "2006", 'V': "4", 'u': "2", // see begin
	'F': "2006-1-2", 'T': "15:04:05", 'R': "15:04", 'D': "1/2/06", '%': "%",
}

// periods is the kind of period that a format names instead of a day.
type periods byte

const (
	noPeriods periods = iota
	quarters
	weeks // of ISO 8601
)

// begin returns the first instant of the period that the layouts of strftime read as t: a quarter is read as the
// month, a week as the minute, and the day of a week as the day. It reports false for an invalid period.
func (p periods) begin(t time.Time) (begin time.Time, ok bool) {
	day := func(month time.Month, day int) time.Time {
		return time.Date(t.Year(), month, day, 0, 0, 0, 0, t.Location())
	}
	switch p {
	case quarters:
		return day(3*t.Month()-2, 1), t.Month() <= 4
	case weeks:
		fourth := day(time.January, 4) // is in the first week
		first := 4 - (int(fourth.Weekday())+6)%7
		begin = day(time.January, first+7*(t.Minute()-1))
		_, week := begin.ISOWeek()
		return begin.AddDate(0, 0, t.Day()-1), week == t.Minute() && t.Day() <= 7
	}
	return t, true
}

// periodsOf returns the kind of period that the directives of a format name.
func periodsOf(directives string) (periods, error) {
	switch {
	case strings.Contains(directives, "q"):
		if strings.Trim(directives, "Yyq%") != "" || !strings.ContainsAny(directives, "Yy") {
			return 0, errors.New("%q is the quarter of a year: use it only with %Y, as in %Y-Q%q")
		}
		return quarters, nil
	case strings.ContainsAny(directives, "GVu"):
		if strings.Trim(directives, "GVu%") != "" || !strings.Contains(directives, "G") || !strings.Contains(directives, "V") {
			return 0, errors.New("%G, %V and %u are the year, week and day of ISO 8601: use them only with each other, as in %G-W%V")
		}
		return weeks, nil
	}
	return noPeriods, nil
}

// fromStrftime returns the layout for a format of strftime, and its kind of period.
func fromStrftime(format string) (string, periods, error) {
	var layout, directives strings.Builder
	for rest := format; rest != ""; {
		literal, directive, found := strings.Cut(rest, "%")
		if probe.Format(literal) != literal {
			return "", 0, fmt.Errorf("the text %s between directives would be read as a part of the time", message.Quote(literal))
		}
		rest = ""
		if found {
			if directive == "" {
				return "", 0, errors.New("it ends with %: write %% for the sign itself")
			}
			d := directive[0]
			directives.WriteByte(d)
			rest = directive[1:]
			if d == 'f' {
				// The separator before the fraction of a second belongs to it.
				if !strings.HasSuffix(literal, ".") && !strings.HasSuffix(literal, ",") {
					return "", 0, errors.New("%f must follow a point or a comma, as in %S.%f")
				}
				layout.WriteString(literal + "999999999")
				continue
			}
			part, ok := strftime[d]
			if !ok {
				return "", 0, fmt.Errorf("unknown directive %%%c: use one of %%Y %%y %%m %%d %%e %%j %%b %%B %%a %%A %%H %%I %%M %%S %%f %%p %%z %%F %%T %%R %%D %%q %%G %%V %%u", d)
			}
			literal += part
		}
		layout.WriteString(literal)
	}
	named, err := periodsOf(directives.String())
	return layout.String(), named, err
}

// Fits reports whether s has the parser's own format.
func (p *Parser) Fits(s string) bool {
	if first, last, interval := strings.Cut(s, betweenTimes); interval {
		return p.Fits(first) && (IsClock(last) || p.Fits(last))
	}
	_, ok := p.parseIn(p.layouts, s)
	return ok
}

// betweenTimes separates the two times of an interval.
const betweenTimes = " - "

// parseIn reads a text that has one of the layouts.
func (p *Parser) parseIn(layouts []string, s string) (t time.Time, ok bool) {
	zone := cmp.Or(p.zone, time.UTC)
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			if shown, _ := time.Parse(layout, s); shown.Location() == time.UTC && t.Location() == zone && !clock.Shows(t, shown) {
				t = atZone(shown, zone)
			}
			if t, ok = p.periods.begin(t); !ok {
				return t, false
			}
			unix := t.Unix()
			if strings.Contains(layout, "Z07") || strings.Contains(layout, "-07") { // the text has an offset
				t = t.UTC()
			}
			return t, unix >= minSecond && unix <= maxSecond
		}
	}
	if len(layouts) == 0 || !strings.Contains(s, "24") { // cheaper than matching
		return t, false
	}
	if m := endOfDay.FindStringSubmatch(s); m != nil {
		t, ok = p.parseIn(layouts, m[1]+"00"+m[2])
		return t.AddDate(0, 0, 1), ok
	}
	return t, false
}

// endOfDay matches a time whose time of day is 24:00, or the hour 24.
var endOfDay = regexp.MustCompile(`^(.*[T ])24((?::00){0,2}(?:[.,]0+)?(?: ?(?:UTC|GMT|Z|[+-]\d\d:?\d\d))?)$`)
