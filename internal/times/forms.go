package times

import (
	"regexp"
	"slices"
	"strings"
)

// Forms are common forms of times that need a format, by their usual frequency.
var Forms = func() (all []Form) {
	add := func(format string) {
		p, err := NewParser("", format)
		if err != nil {
			panic("times: " + format + ": " + err.Error())
		}
		all = append(all, Form{format, p})
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

// A Form is that of a text of a time.
type Form struct {
	Format  string
	*Parser // of times in UTC
}

// IsClock reports whether a text is a time of day.
func IsClock(s string) bool { return clockTime.MatchString(s) }

var clockTime = regexp.MustCompile(`^(?i:[012]?[0-9]:[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?( ?[ap]\.?m\.?)?|[012][0-9]\.[0-5][0-9]\.[0-5][0-9])$`)

// FormatsOf returns the formats of the Forms that all texts have.
func FormatsOf(texts []string) (fits []string) {
	for _, f := range Forms {
		if len(texts) > 0 && !slices.ContainsFunc(texts, func(s string) bool { return !f.Fits(s) }) {
			fits = append(fits, f.Format)
		}
	}
	return fits
}
