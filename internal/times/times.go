// Package times parses times in the forms that files and topics use.
package times

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"hafvf/internal/clock"
	"hafvf/internal/message"
)

// Unix times of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, in seconds.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// A Parser reads times. The zero Parser takes times without a zone as UTC.
type Parser struct {
	zone         *time.Location // nil means UTC
	layouts      []string       // of package time, tried first
	periods      periods        // kind of period that the layouts name
	numberFormat string         // Unix or Spreadsheet; "" chooses by the magnitude
}

// Formats of numbers.
const (
	// Unix reads each number as the time since 1970, even if it is small or could be a date.
	Unix = "unix"
	// Spreadsheet reads a number as days since 1899-12-30 in the local time of the parser's zone. The time is
	// rounded to milliseconds, the precision of such numbers.
	Spreadsheet = "spreadsheet"
)

// DoubtOf returns why the numbers at the beginning of an input are probably no Unix times, and the first of them: they
// are days of a spreadsheet, years, or, as Small, seconds of the first hours of 1970. Empty texts do not count.
// It returns "" if the texts differ in this respect.
func DoubtOf(texts []string) (doubt, first string) {
	for _, s := range texts {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		d := ""
		switch v, err := strconv.ParseFloat(s, 64); {
		case err != nil:
		case MaybeDays(s):
			d = Days
		case v >= 1900 && v <= 2100 && v == math.Trunc(v):
			d = Years
		case v >= 0 && v < 20_000:
			d = Small
		}
		if first == "" {
			doubt, first = d, s
		}
		if d == "" {
			return "", ""
		}
		if d != doubt {
			doubt = Small // years among small numbers, or small numbers that grow
		}
	}
	return doubt, first
}

// Doubts of DoubtOf.
const (
	Days  = "days"
	Years = "years"
	Small = "small"
)

// MaybeDays reports whether a number is more likely a date of a spreadsheet than a Unix time: as days it is in the
// years 1954 to 2118, as seconds on the first day of 1970.
func MaybeDays(s string) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil && v >= 20_000 && v < 80_000
}

// Parse calls Parse of the zero Parser.
func Parse(s string) (time.Time, error) { return new(Parser).Parse(s) }

// Parse reads a time in the parser's own format, or else one of
//   - RFC 3339 and ISO 8601: 2026-01-02T15:04:05Z, with a space instead of the T, without seconds, with an offset
//     +01:00, +0100 or +01, with "UTC", without a zone, compact as in 20260102T150405Z
//   - an interval, 2026-01-02 15:00 - 16:00, which means its beginning
//   - 24:00 instead of 00:00 of the next day
//   - a date, which means its midnight; 20260102 is a date, and 20260102150405 a date with a time
//   - Unix time, see ParseUnix, or a number in the parser's format of numbers
//   - RFC 1123 and RFC 5322, as in HTTP and mail: Tue, 15 Nov 1994 08:12:31 GMT
//   - Microsoft's JSON: /Date(1740787200000)/, also with an offset
//
// A text that ends with UTC or GMT is in UTC. Several blanks count as one. Fractions of a second are exact to
// nanoseconds.
func (p *Parser) Parse(s string) (time.Time, error) {
	t, err := p.ParseLocal(s)
	return t.UTC(), err
}

// ParseLocal is Parse, but a time without an offset is in the parser's zone. If the local time occurs twice because
// the clock is set back, ParseLocal returns either of the two instants; see Folds.
func (p *Parser) ParseLocal(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	if t, ok := p.parseIn(p.layouts, s); ok {
		return t, nil
	}
	dated := len(s) >= 10 && s[4] == '-' && s[7] == '-'
	if !dated && isNumber(s) {
		return p.parseNumber(s)
	}
	if t, ok := p.parseISO(s); ok {
		return t, nil
	}
	if t, ok := p.parseOther(s); ok {
		return t, nil
	}
	return time.Time{}, Invalid(s)
}

// wordLayouts are the layouts of HTTP, mail and C, which write the month as a word. Times without an offset are in
// UTC or the parser's zone.
var wordLayouts = []string{
	"Mon, 2 Jan 2006 15:04:05", "Mon, 2 Jan 2006 15:04:05 -0700", "Mon Jan 2 15:04:05 2006",
	"2 Jan 2006 15:04:05", "2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04 -0700", "2 Jan 2006 15:04 -0700",
	"Monday, 2-Jan-06 15:04:05",
}

// utcName is the zone of texts that end with UTC or GMT.
var utcName = time.FixedZone("UTC", 0)

// parseOther reads the forms that ParseLocal tries last.
func (p *Parser) parseOther(s string) (t time.Time, ok bool) {
	if t, ok = parseMilliseconds(s); ok {
		return t, true
	}
	if t, ok = (&Parser{zone: p.zone}).parseIn(wordLayouts, s); ok {
		return t, true
	}
	if single := strings.Join(strings.Fields(s), " "); single != s {
		t, err := p.ParseLocal(single)
		return t, err == nil
	}
	if first, last, interval := strings.Cut(s, betweenTimes); interval {
		t, err := p.ParseLocal(first)
		_, errOfLast := p.ParseLocal(last)
		return t, err == nil && !isNumber(last) && (IsClock(last) || errOfLast == nil)
	}
	n := len(s) - len(" UTC")
	if n <= 0 || !strings.EqualFold(s[n:], " UTC") && !strings.EqualFold(s[n:], " GMT") {
		return t, false
	}
	utcParser := *p
	utcParser.zone = utcName
	t, err := utcParser.ParseLocal(strings.TrimSuffix(s[:n], " +0000"))
	if err != nil || t.Location() != utcName { // it has another offset
		return t, false
	}
	return t.UTC(), true
}

// parseMilliseconds reads /Date(…)/. Its milliseconds count from 1970 in UTC, whatever offset follows them.
func parseMilliseconds(s string) (t time.Time, ok bool) {
	s, ok = strings.CutPrefix(s, "/Date(")
	s, closed := strings.CutSuffix(s, ")/")
	if !ok || !closed {
		return t, false
	}
	if i := strings.LastIndexAny(s, "+-"); i > 0 {
		if _, ok := digits(s[i+1:]); !ok || len(s)-i != len("+0100") {
			return t, false
		}
		s = s[:i]
	}
	t, err := Milliseconds(s)
	return t, err == nil
}

// Milliseconds reads an integer number of milliseconds since 1970.
func Milliseconds(s string) (time.Time, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < minSecond*1000 || ms >= (maxSecond+1)*1000 {
		return time.Time{}, fmt.Errorf("the time %s is not an integer number of milliseconds within the years 1 to 9999", message.Quote(s))
	}
	return time.UnixMilli(ms).UTC(), nil
}

// isNumber reports whether s has only characters of a decimal number.
func isNumber(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return false
		}
	}
	return true
}

// ParseLocalNumber is ParseLocal for a number: in the parser's own format, or else as a number of the parser's
// format, a day in eight digits, a minute in twelve, a second in fourteen, or Unix time.
func (p *Parser) ParseLocalNumber(s string) (time.Time, error) {
	if t, ok := p.parseIn(p.layouts, s); ok {
		return t, nil
	}
	return p.parseNumber(s)
}

// parseNumber reads a number in the parser's format of numbers. Without one, it reads a day in eight digits, a
// minute in twelve, a second in fourteen, or Unix time.
func (p *Parser) parseNumber(s string) (time.Time, error) {
	switch p.numberFormat {
	case Unix:
		return ParseUnix(s)
	case Spreadsheet:
		return p.parseDays(s)
	}
	if len(s) != 8 && len(s) != 12 && len(s) != 14 {
		return ParseUnix(s)
	}
	day, ok := digits(s[:8])
	clock, numeric := digits(s[8:] + "000000"[:14-len(s)])
	if !ok || !numeric || day < 1900_01_01 || day > 2100_12_31 {
		return ParseUnix(s)
	}
	// As Unix time it would be in 1970, in 1976, or in 2572 to 2635.
	c := civil{
		year: day / 1_00_00, month: day / 1_00 % 100, day: day % 100,
		hour: clock / 1_00_00, minute: clock / 1_00 % 100, second: clock % 100,
	}
	if t, ok := c.time(p.zone); ok {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("the time %s is not a date: if it is a Unix time, set time_format: %s", message.Quote(s), Unix)
}

// IsUnix reports whether a text is a number that is no date such as 20260102.
func IsUnix(s string) bool {
	unix, err := ParseUnix(s)
	t, errOfDate := Parse(s)
	return err == nil && (errOfDate != nil || t.Equal(unix))
}

// parseDays reads days since 1899-12-30.
func (p *Parser) parseDays(s string) (time.Time, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Time{}, Invalid(s)
	}
	if v < 0 || v >= 2_958_466 { // the year 10000
		return time.Time{}, fmt.Errorf("the time %s is outside the days 0 to 2958465 of a spreadsheet", message.Quote(s))
	}
	day, part := math.Modf(v)
	timeOfDay := time.Duration(math.Round(part*86_400_000)) * time.Millisecond
	return atZone(time.Date(1899, 12, 30+int(day), 0, 0, 0, int(timeOfDay), time.UTC), cmp.Or(p.zone, time.UTC)), nil
}

// Understood lists the forms that Parse reads, for messages.
const Understood = "dates (2026-01-02, 20260102), ISO 8601 (2026-01-02T15:04:05Z, 2026-01-02 15:04+01:00, 20260102T150405Z, 20260102150405), HTTP dates (Tue, 15 Nov 1994 08:12:31 GMT), /Date(…)/, and Unix seconds, milliseconds, microseconds, nanoseconds"

// Invalid returns the error for a text that Parse does not read.
func Invalid(s string) error {
	return fmt.Errorf("the time %s is in no known format: use %s, or set time_format", message.Quote(s), Understood)
}

// A civil is a date and time of day as written in a text.
type civil struct {
	year, month, day, hour, minute, second int

	nano   int64
	offset int  // in seconds east of UTC
	zoned  bool // whether the text has an offset
}

// time returns the instant in zone, or in UTC if the text has an offset or zone is nil. It reports false for an
// invalid time.
func (c civil) time(zone *time.Location) (t time.Time, ok bool) {
	endOfDay := c.hour == 24 && c.minute == 0 && c.second == 0 && c.nano == 0
	if c.month < 1 || c.month > 12 || c.day < 1 || c.hour > 23 && !endOfDay || c.minute > 59 || c.second > 60 {
		return t, false
	}
	date := time.Date(c.year, time.Month(c.month), c.day, 0, 0, 0, 0, time.UTC)
	if date.Day() != c.day {
		return t, false
	}
	unix := date.Unix() + int64(c.hour*3600+c.minute*60+c.second-c.offset)
	if !c.zoned && zone != nil {
		unix = atZone(time.Unix(unix, 0).UTC(), zone).Unix()
	}
	if c.second == 60 && unix%86400 != 0 {
		// A leap second occurs only at the end of a UTC day. It becomes the first second of the next day.
		return t, false
	}
	if unix < minSecond || unix > maxSecond {
		return t, false
	}
	t = time.Unix(unix, c.nano)
	if !c.zoned && zone != nil {
		return t.In(zone), true
	}
	return t.UTC(), true
}

// atZone returns an instant at which a clock in zone shows the wall time of shown. For a repeated time it returns
// either instant; for a skipped time it uses the offset before the change.
func atZone(shown time.Time, zone *time.Location) time.Time {
	year, month, day := shown.Date()
	hour, minute, second := shown.Clock()
	t := time.Date(year, month, day, hour, minute, second, shown.Nanosecond(), zone)
	if !clock.Shows(t, shown) {
		return clock.At(shown, zone).In(zone)
	}
	return t
}

// IsSkippedTime reports whether s is a time without an offset that the clock of the parser's zone skips.
func (p *Parser) IsSkippedTime(s string) bool {
	if p.zone == nil {
		return false
	}
	utcParser := *p
	utcParser.zone = nil
	shown, err := utcParser.ParseLocal(s)
	t, _ := p.ParseLocal(s)
	return err == nil && t.Location() == p.zone && !clock.Shows(t, shown)
}

// readZone reads the text after a time of day: nothing, a name of UTC, or an offset.
func (c *civil) readZone(s string) bool {
	switch s = strings.TrimPrefix(s, " "); {
	case s == "":
		return true
	case strings.EqualFold(s, "Z") || strings.EqualFold(s, "UTC") || strings.EqualFold(s, "GMT"):
		c.zoned = true
		return true
	case s[0] != '+' && s[0] != '-':
		return false
	}
	hours, minutes := s[1:], "00"
	if len(hours) > 2 {
		hours, minutes = hours[:2], strings.TrimPrefix(hours[2:], ":")
	}
	h, ok1 := digits(hours)
	m, ok2 := digits(minutes)
	c.offset, c.zoned = h*3600+m*60, true
	if s[0] == '-' {
		c.offset = -c.offset
	}
	return ok1 && ok2 && len(hours) == 2 && len(minutes) == 2 && h <= 23 && m <= 59
}

// parseFraction reads the fraction after a second, in nanoseconds; 0 without one. rest is the text after it.
func parseFraction(s string) (nano int64, rest string, ok bool) {
	if len(s) == 0 || s[0] != '.' && s[0] != ',' {
		return 0, s, true
	}
	nano, n := parseDigits(s[1:], 1e9)
	return nano, s[1+n:], n > 0
}

// parseDigits reads the digits at the start of s as decimals of a unit in nanoseconds. n is the number of digits.
func parseDigits(s string, unit int64) (nano int64, n int) {
	for ; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		unit /= 10
		nano += int64(s[n]-'0') * unit
	}
	return nano, n
}

// parseISO reads the forms of ISO 8601: a date, with or without a time of day, each compact or not.
func (p *Parser) parseISO(s string) (t time.Time, ok bool) {
	var c civil
	date, n, rest := numbers(s, 4, '-')
	if n < 3 {
		return t, false
	}
	c.year, c.month, c.day = date[0], date[1], date[2]
	if rest == "" {
		return c.time(p.zone)
	}
	if rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ' {
		return t, false
	}
	clock, n, rest := numbers(rest[1:], 2, ':')
	if n < 2 {
		return t, false
	}
	c.hour, c.minute, c.second = clock[0], clock[1], clock[2]
	if n == 3 {
		if c.nano, rest, ok = parseFraction(rest); !ok {
			return t, false
		}
	}
	if !c.readZone(rest) {
		return t, false
	}
	return c.time(p.zone)
}

// numbers reads at most three numbers: the first has n digits, the others two. Between them is mark everywhere or
// nowhere. read is the number of numbers, rest the text after them.
func numbers(s string, n int, mark byte) (v [3]int, read int, rest string) {
	gap := 0
	if len(s) > n && s[n] == mark {
		gap = 1
	}
	for from := 0; read < len(v) && from+n <= len(s); read++ {
		x, ok := digits(s[from : from+n])
		if !ok || gap == 1 && from > 0 && s[from-1] != mark {
			break
		}
		v[read], rest = x, s[from+n:]
		from, n = from+n+gap, 2
	}
	return v, read, rest
}

// digits returns the value of a text of decimal digits. It reports false if s has another character.
func digits(s string) (v int, ok bool) {
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		v = v*10 + int(c)
	}
	return v, true
}

// From these magnitudes on, a Unix time is in milliseconds, microseconds or nanoseconds. Each is in the year 1973
// in its own unit and in the year 5138 in the unit before.
const (
	unixMilli = 1e11
	unixMicro = 1e14
	unixNano  = 1e17
)

// ParseUnix reads the time since 1970 in seconds, milliseconds, microseconds or nanoseconds; the magnitude decides
// which. A fraction is exact to the nanosecond, unless the number has an exponent or is beyond the nanoseconds of
// 2262.
func ParseUnix(s string) (time.Time, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return time.Time{}, Invalid(s)
	}
	perSecond := int64(1)
	switch magnitude := math.Abs(v); {
	case magnitude >= unixNano:
		perSecond = 1e9
	case magnitude >= unixMicro:
		perSecond = 1e6
	case magnitude >= unixMilli:
		perSecond = 1e3
	}
	if v/float64(perSecond) < minSecond || v/float64(perSecond) >= maxSecond+1 {
		return time.Time{}, fmt.Errorf("the time %s is outside the years 1 to 9999", strings.Clone(message.Shorten(s)))
	}

	unit := 1e9 / perSecond // nanoseconds
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	nano, read := parseDigits(fraction, unit)
	if err != nil || read < len(fraction) {
		// An exponent, no digit before the point, or nanoseconds after 2262.
		f := math.Floor(v / float64(perSecond))
		return time.Unix(int64(f), int64(math.Round((v-f*float64(perSecond))*float64(unit)))).UTC(), nil
	} else if s[0] == '-' {
		nano = -nano
	}
	return time.Unix(n/perSecond, n%perSecond*unit+nano).UTC(), nil
}
