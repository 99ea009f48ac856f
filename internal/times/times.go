// Package times reads times as files and topics write them.
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

// Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// A Parser reads times. The zero Parser takes times without a zone as UTC.
type Parser struct {
	zone    *time.Location // nil: UTC
	layouts []string       // of package time, tried first
	periods periods        // what the layouts name
	numbers string         // what they are: Unix or Spreadsheet; "" tells it by their size
}

// The formats of numbers.
const (
	// Unix takes each number as the time since 1970, also small ones and what could be a date.
	Unix = "unix"
	// Spreadsheet takes a number as days since 1899-12-30, on the clock of the parser's zone. The
	// time is rounded to milliseconds: days have no more digits.
	Spreadsheet = "spreadsheet"
)

// MaybeDays reports whether a number is more likely a date of a spreadsheet than a Unix time: days
// of the years 1954 to 2118, or else a moment of the first day of 1970.
func MaybeDays(s string) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return err == nil && v >= 20_000 && v < 80_000
}

// Parse is that of the zero Parser.
func Parse(s string) (time.Time, error) { return new(Parser).Parse(s) }

// Parse reads a time in the parser's own format, or else one of
//   - RFC 3339 and ISO 8601: 2026-01-02T15:04:05Z, with a space in place of the T,
//     without seconds, with an offset +01:00, +0100 or +01, with "UTC", without a
//     zone, compact as in 20260102T150405Z
//   - a date, which stands for its midnight; 20260102 is one, and 20260102150405 a time of it
//   - Unix time, as ParseUnix does, or what the parser's format says of numbers
//   - RFC 1123 and RFC 5322, as HTTP and mail have it: Tue, 15 Nov 1994 08:12:31 GMT
//   - Microsoft's JSON: /Date(1740787200000)/, also with an offset
//
// A text that ends with UTC or GMT is of UTC. Several blanks are one.
// Fractions of a second go down to nanoseconds.
func (p *Parser) Parse(s string) (time.Time, error) {
	t, err := p.ParseLocal(s)
	return t.UTC(), err
}

// ParseLocal is Parse, but if the text has no offset, the time is in the parser's zone. Of two
// moments that a clock shows alike, as it goes back, it is one.
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

// worded are the layouts of HTTP, mail and C, in which the month is a word. Where they have no offset, UTC
// or the parser's zone holds.
var worded = []string{
	"Mon, 2 Jan 2006 15:04:05", "Mon, 2 Jan 2006 15:04:05 -0700", "Mon Jan 2 15:04:05 2006",
	"2 Jan 2006 15:04:05", "2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04 -0700", "2 Jan 2006 15:04 -0700",
	"Monday, 2-Jan-06 15:04:05",
}

// utcName is the zone of texts that end with its name.
var utcName = time.FixedZone("UTC", 0)

// parseOther reads the forms that ParseLocal tries last.
func (p *Parser) parseOther(s string) (t time.Time, ok bool) {
	if t, ok = parseMilliseconds(s); ok {
		return t, true
	}
	if t, ok = (&Parser{zone: p.zone}).parseIn(worded, s); ok {
		return t, true
	}
	if one := strings.Join(strings.Fields(s), " "); one != s {
		t, err := p.ParseLocal(one)
		return t, err == nil
	}
	n := len(s) - len(" UTC")
	if n <= 0 || !strings.EqualFold(s[n:], " UTC") && !strings.EqualFold(s[n:], " GMT") {
		return t, false
	}
	in := *p
	in.zone = utcName
	t, err := in.ParseLocal(strings.TrimSuffix(s[:n], " +0000"))
	if err != nil || t.Location() != utcName { // it has another offset
		return t, false
	}
	return t.UTC(), true
}

// parseMilliseconds reads /Date(…)/. Its milliseconds are since 1970 in UTC, whatever the offset behind them.
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

// Milliseconds reads a whole number of milliseconds since 1970.
func Milliseconds(s string) (time.Time, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < minSecond*1000 || ms >= (maxSecond+1)*1000 {
		return time.Time{}, fmt.Errorf("the time %s is no whole number of milliseconds within the years 1 to 9999", message.Quote(s))
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

// ParseLocalNumber is ParseLocal for a number: a day in eight digits, a minute in twelve, a second in
// fourteen, or Unix time, unless the parser has a format that s has.
func (p *Parser) ParseLocalNumber(s string) (time.Time, error) {
	if t, ok := p.parseIn(p.layouts, s); ok {
		return t, nil
	}
	return p.parseNumber(s)
}

// parseNumber reads a number as the parser's format of numbers says. Without one, it reads a day
// in eight digits, a minute in twelve, a second in fourteen, or Unix time.
func (p *Parser) parseNumber(s string) (time.Time, error) {
	switch p.numbers {
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
	// As Unix time it would be a moment of 1970, 1976, or 2572 to 2635.
	c := civil{
		year: day / 1_00_00, month: day / 1_00 % 100, day: day % 100,
		hour: clock / 1_00_00, minute: clock / 1_00 % 100, second: clock % 100,
	}
	if t, ok := c.time(p.zone); ok {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("the time %s is no date; if it is a Unix time, say time_format: %s", message.Quote(s), Unix)
}

// parseDays reads days since 1899-12-30.
func (p *Parser) parseDays(s string) (time.Time, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Time{}, Invalid(s)
	}
	if v < 0 || v >= 2_958_466 { // the year 10000
		return time.Time{}, fmt.Errorf("the time %s is outside of the days 0 to 2958465 of a spreadsheet", message.Quote(s))
	}
	day, part := math.Modf(v)
	at := time.Duration(math.Round(part*86_400_000)) * time.Millisecond
	return atZone(time.Date(1899, 12, 30+int(day), 0, 0, 0, int(at), time.UTC), cmp.Or(p.zone, time.UTC)), nil
}

// Understood says what Parse reads.
const Understood = "dates (2026-01-02, 20260102), ISO 8601 (2026-01-02T15:04:05Z, 2026-01-02 15:04+01:00, 20260102T150405Z, 20260102150405), HTTP dates (Tue, 15 Nov 1994 08:12:31 GMT), /Date(…)/, and Unix seconds, milliseconds, microseconds, nanoseconds"

// Invalid is the error for a text that is no time.
func Invalid(s string) error {
	return fmt.Errorf("the time %s does not parse; understood are %s; name others by time_format", message.Quote(s), Understood)
}

// A civil is a date and time of day as a text has them.
type civil struct {
	year, month, day, hour, minute, second int

	nano   int64
	offset int  // in seconds east of UTC
	zoned  bool // whether the text has an offset
}

// time returns the instant. It reports false if there is none.
func (c civil) time(zone *time.Location) (t time.Time, ok bool) {
	if c.month < 1 || c.month > 12 || c.day < 1 || c.hour > 23 || c.minute > 59 || c.second > 60 {
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
		// A leap second stands at the end of a day of UTC only. It becomes the
		// first second of the next day.
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

// atZone is when the clock of a zone shows what shown shows in UTC: of two times either, and of one that it leaves out that by
// the offset before.
func atZone(shown time.Time, zone *time.Location) time.Time {
	year, month, day := shown.Date()
	hour, minute, second := shown.Clock()
	t := time.Date(year, month, day, hour, minute, second, shown.Nanosecond(), zone)
	if !clock.Shows(t, shown) {
		return clock.At(shown, zone).In(zone)
	}
	return t
}

// IsSkippedTime reports whether a text is a time without an offset that the clock of the parser's zone leaves out.
func (p *Parser) IsSkippedTime(s string) bool {
	if p.zone == nil {
		return false
	}
	in := *p
	in.zone = nil
	shown, err := in.ParseLocal(s)
	t, _ := p.ParseLocal(s)
	return err == nil && t.Location() == p.zone && !clock.Shows(t, shown)
}

// readZone reads what follows a time of day: nothing, UTC by one of its names, or an offset.
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

// fraction reads the nanoseconds that follow a second, 0 where there are none, and
// returns what is left of s.
func fraction(s string) (nano int64, rest string, ok bool) {
	if len(s) == 0 || s[0] != '.' && s[0] != ',' {
		return 0, s, true
	}
	nano, n := part(s[1:], 1e9)
	return nano, s[1+n:], n > 0
}

// part reads the digits that s begins with, which stand behind the point of a unit of so many nanoseconds, and
// returns how many there are.
func part(s string, unit int64) (nano int64, n int) {
	for ; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		unit /= 10
		nano += int64(s[n]-'0') * unit
	}
	return nano, n
}

// parseISO reads the forms of ISO 8601: a date, with a time of day or without, each compact or not.
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
		if c.nano, rest, ok = fraction(rest); !ok {
			return t, false
		}
	}
	if !c.readZone(rest) {
		return t, false
	}
	return c.time(p.zone)
}

// numbers reads at most three numbers, the first of n digits and the others of two, with a mark between all or
// none of them. It returns how many there are, and what follows them.
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

// digits returns the value of a text of at most four decimal digits.
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

// From these magnitudes on a Unix time is in milliseconds, microseconds, nanoseconds.
// Each is the year 1973 in its own unit and the year 5138 in the unit before.
const (
	unixMilli = 1e11
	unixMicro = 1e14
	unixNano  = 1e17
)

// ParseUnix reads the time since 1970 in seconds, milliseconds, microseconds or
// nanoseconds, which the number's magnitude tells. A fraction is exact to the
// nanosecond, unless the number has an exponent or is beyond the nanoseconds of 2262.
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
	nano, read := part(fraction, unit)
	if err != nil || read < len(fraction) {
		// An exponent, no digit before the point, or nanoseconds after 2262.
		f := math.Floor(v / float64(perSecond))
		return time.Unix(int64(f), int64(math.Round((v-f*float64(perSecond))*float64(unit)))).UTC(), nil
	} else if s[0] == '-' {
		nano = -nano
	}
	return time.Unix(n/perSecond, n%perSecond*unit+nano).UTC(), nil
}
