package times

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"hafvf/internal/domain"
	"hafvf/internal/message"
)

// NewParser returns a parser for times of which those without a zone are in that of the
// IANA name zone, "" being UTC, and of which some have a format: a layout of package time,
// or one of strftime, or the way to read numbers, Unix or Spreadsheet; "" is none.
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
		p.numbers = format
		return &p, nil
	}
	layout := format
	if strings.Contains(format, "%") {
		if layout, err = fromStrftime(format); err != nil {
			return nil, err
		}
	}
	if strings.Contains(layout, "MST") {
		return nil, errors.New("the abbreviation of a zone does not tell the zone: write UTC as it stands, or take the offset (-0700, %z)")
	}
	p.layouts = []string{layout}
	if strings.Contains(layout, strftimeOffset) {
		// Python reads both with %z.
		p.layouts = append(p.layouts, strings.ReplaceAll(layout, strftimeOffset, "Z0700"))
	}
	// What the layout writes it must read, with the date.
	text := probe.Format(layout)
	if t, err := time.Parse(layout, text); err != nil || t.YearDay() != probe.YearDay() || t.Year() != probe.Year() {
		return nil, fmt.Errorf("%s has no year, month and day: write a Go layout, of the moment 2006-01-02 15:04:05, or strftime, such as %%d/%%m/%%Y %%H:%%M", message.Quote(format))
	}
	return &p, nil
}

// probe differs from the moment of Go's layouts in every part.
var probe = time.Date(2031, 12, 23, 21, 43, 54, 0, time.UTC)

// strftimeOffset stands for %z.
const strftimeOffset = "Z07:00"

// strftime are the directives as parts of a layout. Months and days may have one digit.
var strftime = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "1", 'd': "2", 'e': "_2", 'j': "002",
	'b': "Jan", 'h': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
	'H': "15", 'I': "3", 'M': "04", 'S': "05", 'p': "PM", 'z': strftimeOffset,
	'F': "2006-1-2", 'T': "15:04:05", 'R': "15:04", 'D': "1/2/06", '%': "%",
}

// fromStrftime returns the layout for a format of strftime.
func fromStrftime(format string) (string, error) {
	var layout strings.Builder
	for rest := format; rest != ""; {
		literal, directive, found := strings.Cut(rest, "%")
		if probe.Format(literal) != literal {
			return "", fmt.Errorf("the text %s stands between directives, where it is read as a part of the time", message.Quote(literal))
		}
		rest = ""
		if found {
			if directive == "" {
				return "", errors.New("it ends with %: write %% for the sign itself")
			}
			d := directive[0]
			rest = directive[1:]
			if d == 'f' {
				// The fraction of a second belongs to the separator before it.
				if !strings.HasSuffix(literal, ".") && !strings.HasSuffix(literal, ",") {
					return "", errors.New("%f must follow a point or a comma, as in %S.%f")
				}
				layout.WriteString(literal + "999999999")
				continue
			}
			part, ok := strftime[d]
			if !ok {
				return "", fmt.Errorf("%%%c is not understood; these are: %%Y %%y %%m %%d %%e %%j %%b %%B %%a %%A %%H %%I %%M %%S %%f %%p %%z %%F %%T %%R %%D", d)
			}
			literal += part
		}
		layout.WriteString(literal)
	}
	return layout.String(), nil
}

// Fits reports whether a text has the parser's own format.
func (p *Parser) Fits(s string) bool {
	_, ok := p.parseLayouts(s)
	return ok
}

func (p *Parser) parseLayouts(s string) (t time.Time, ok bool) {
	zone := cmp.Or(p.zone, time.UTC)
	for _, layout := range p.layouts {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			unix := t.Unix()
			if strings.Contains(layout, "Z07") || strings.Contains(layout, "-07") { // the text has an offset
				t = t.UTC()
			}
			return t, unix >= minSecond && unix <= maxSecond
		}
	}
	return t, false
}
