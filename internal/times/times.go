// Package times reads times as files and topics write them.
package times

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"hafvf/internal/message"
)

// Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const (
	minSecond = -62135596800
	maxSecond = 253402300799
)

// Parse reads RFC 3339 (with a space in place of the T too), 2006-01-02
// 15:04:05 in UTC, or Unix time as ParseUnix does. Fractions of a second go down
// to nanoseconds.
func Parse(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	if len(s) >= 19 && s[4] == '-' && s[7] == '-' {
		if t, ok := parseDateTime(s); ok {
			return t, nil
		}
		return time.Time{}, Invalid(s)
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return time.Time{}, Invalid(s)
		}
	}
	return ParseUnix(s)
}

// Invalid is the error for a text that is no time.
func Invalid(s string) error { return fmt.Errorf("the time %s does not parse", message.Quote(s)) }

// parseDateTime reads a text of at least 19 bytes.
func parseDateTime(s string) (t time.Time, ok bool) {
	year, ok1 := digits(s[0:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	hour, ok4 := digits(s[11:13])
	minute, ok5 := digits(s[14:16])
	second, ok6 := digits(s[17:19])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || s[13] != ':' || s[16] != ':' ||
		month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 60 {
		return t, false
	}
	sep, rest := s[10], s[19:]

	nano := 0
	if len(rest) > 0 && rest[0] == '.' {
		n := 1
		for scale := 100_000_000; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
			nano += int(rest[n]-'0') * scale
			scale /= 10
		}
		if n == 1 {
			return t, false
		}
		rest = rest[n:]
	}

	offset := 0 // seconds east of UTC
	switch {
	case rest == "Z" || rest == "z":
	case rest == "" && sep == ' ':
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		h, ok1 := digits(rest[1:3])
		m, ok2 := digits(rest[4:6])
		if !ok1 || !ok2 || h > 23 || m > 59 {
			return t, false
		}
		offset = h*3600 + m*60
		if rest[0] == '-' {
			offset = -offset
		}
	default:
		return t, false
	}
	if sep != 'T' && sep != 't' && sep != ' ' {
		return t, false
	}

	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day {
		return t, false
	}
	unix := date.Unix() + int64(hour*3600+minute*60+second-offset)
	if second == 60 && unix%86400 != 0 {
		// A leap second stands at the end of a day of UTC only. It becomes the
		// first second of the next day.
		return t, false
	}
	if unix < minSecond || unix > maxSecond {
		return t, false
	}
	return time.Unix(unix, int64(nano)).UTC(), true
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

// unixMilli is the magnitude from which on a Unix time is in milliseconds: as
// seconds it is the year 5138, as milliseconds 1973.
const unixMilli = 1e11

// ParseUnix reads seconds since 1970, or milliseconds where the number is 1e11
// or more in magnitude. A fraction is exact to the nanosecond, unless the number
// has an exponent.
func ParseUnix(s string) (time.Time, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return time.Time{}, Invalid(s)
	}
	perSecond := 1.0
	if math.Abs(v) >= unixMilli {
		perSecond = 1e3
	}
	if v/perSecond < minSecond || v/perSecond >= maxSecond+1 {
		return time.Time{}, fmt.Errorf("the time %s is outside the years 1 to 9999", strings.Clone(message.Shorten(s)))
	}

	unit := int64(1e9 / perSecond) // nanoseconds
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	var nano int64
	if err == nil {
		for i, scale := 0, unit/10; i < len(fraction) && err == nil; i++ {
			c := fraction[i] - '0'
			if c > 9 {
				err = strconv.ErrSyntax
			}
			nano += int64(c) * scale
			scale /= 10
		}
	}
	if err != nil {
		// An exponent, or no digit before the point.
		f := math.Floor(v)
		n, nano = int64(f), int64(math.Round((v-f)*float64(unit)))
	} else if s[0] == '-' {
		nano = -nano
	}
	if perSecond == 1 {
		return time.Unix(n, nano).UTC(), nil
	}
	return time.UnixMilli(n).Add(time.Duration(nano)).UTC(), nil
}
