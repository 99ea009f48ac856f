package times

import (
	"regexp"
	"slices"
	"strings"
)

// Forms lists common forms of times that need a format, the most frequent first. HourForms lists forms of a date and
// the number of an hour.
var Forms, HourForms = func() (forms, hours []Form) {
	form := func(format string) Form {
		p, err := NewParser("", format)
		if err != nil {
			panic("times: " + format + ": " + err.Error())
		}
		return Form{format, p}
	}
	for _, date := range []string{"%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%Y-%m-%d"} {
		hours = append(hours, form(date+" %H"))
		for _, clock := range clockForms {
			if date != "%Y-%m-%d" || strings.ContainsAny(clock, "I.") {
				forms = append(forms, form(date+clock))
			}
		}
	}
	for _, format := range []string{"%Y%m%d%H%M", "%Y%m%d%H%M%S", "%d/%b/%Y:%H:%M:%S %z", "%Y-%m", "%b-%y", "%b %Y", "%B %Y", "%Y-Q%q", "%YQ%q", "%Y Q%q", "%G-W%V", "%GW%V"} {
		forms = append(forms, form(format))
	}
	return forms, append(hours, form("%Y%m%d %H"))
}()

// clockForms are the formats of a time of day after a date.
var clockForms = []string{"", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H.%M.%S"}

// A Form is a format with its parser.
type Form struct {
	Format  string
	*Parser // reads times in UTC
}

// IsClock reports whether s is a time of day, such as 13:45 or 1:45 pm, or an interval of two.
func IsClock(s string) bool {
	first, last, interval := strings.Cut(s, betweenTimes)
	return clockTime.MatchString(first) && (!interval || clockTime.MatchString(last))
}

var clockTime = regexp.MustCompile(`^(?i:[012]?[0-9]:[0-5][0-9](:[0-5][0-9]([.,][0-9]+)?)?( ?[ap]\.?m\.?)?|[012][0-9]\.[0-5][0-9]\.[0-5][0-9])$`)

// FormatsOf returns the formats of the Forms that fit all texts. Without texts it returns nil.
func FormatsOf(texts []string) (formats []string) {
	for _, f := range Forms {
		if len(texts) > 0 && !slices.ContainsFunc(texts, func(s string) bool { return !f.Fits(s) }) {
			formats = append(formats, f.Format)
		}
	}
	return formats
}
