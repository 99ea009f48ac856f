// Package message formats parts of messages: user input, durations and causes of errors in readable form, and
// suggestions for misspelt names.
package message

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxText = 80   // bytes of a user's text in an error, up to the end of the last character
	maxLine = 2000 // bytes of a line that may repeat several texts
)

// Shorten cuts a user's text to the length for a message.
func Shorten(s string) string { return cut(s, maxText) }

// Bound cuts each line of a message that repeats several user texts.
func Bound(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = cut(lines[i], maxLine)
	}
	return strings.Join(lines, "\n")
}

func cut(s string, length int) string {
	for i := range s {
		if i >= length {
			return s[:i] + "…"
		}
	}
	return s
}

// Quote quotes s, shortened.
func Quote(s string) string { return strconv.Quote(Shorten(s)) }

// ShellWord quotes s as one word of a shell command. It writes characters that are not printable, such as escapes, as
// \x codes, which bash, ksh and zsh understand.
func ShellWord(s string) string {
	if s != "" && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r))
	}) {
		return s
	}
	if IsPrintable(s) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	b := []byte("$'")
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\'' || r == '\\':
			b = append(b, '\\', s[i])
		case unicode.IsPrint(r) && !(r == utf8.RuneError && n == 1):
			b = append(b, s[i:i+n]...)
		default:
			for _, c := range []byte(s[i : i+n]) {
				b = fmt.Appendf(b, `\x%02x`, c)
			}
		}
		i += n
	}
	return string(append(b, '\''))
}

// Printable returns s shortened; if s cannot be read in one line, it is also quoted.
func Printable(s string) string {
	if !IsPrintable(s) {
		return Quote(s)
	}
	return Shorten(s)
}

// Line returns s, or s quoted if it cannot be read in one line.
func Line(s string) string {
	if !IsPrintable(s) {
		return strconv.Quote(s)
	}
	return s
}

// IsPrintable reports whether s can be read in one line: it is UTF-8 without control or format characters.
func IsPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Duration formats d without zeros at the end: 10m instead of 10m0s.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Span formats d in everyday units: 40 s, 5 min, 1 h 20 min, 3 days, 19.6 years.
func Span(d time.Duration) string {
	minutes, seconds := d.Round(time.Minute)/time.Minute, d.Round(time.Second)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2g s", d.Seconds())
	case d < 2*time.Minute && seconds%time.Minute != 0:
		return fmt.Sprintf("%d s", seconds/time.Second)
	case minutes < 60:
		return fmt.Sprintf("%d min", minutes)
	case d == math.MaxInt64:
		return "over 292 years"
	case d >= 365*24*time.Hour:
		return fmt.Sprintf("%.3g years", d.Hours()/24/365.25)
	case minutes >= 48*60:
		return fmt.Sprintf("%d days", d.Round(24*time.Hour)/(24*time.Hour))
	}
	return strings.TrimSuffix(fmt.Sprintf("%d h %d min", minutes/60, minutes%60), " 0 min")
}

// Clock formats t for a reader in zone: the time of day, with the date if it is not the date of now.
func Clock(t, now time.Time, zone *time.Location) string {
	t, now = t.In(zone), now.In(zone)
	text := t.Format("15:04")
	if t.Second() != 0 {
		text = t.Format(time.TimeOnly)
	}
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		text = t.Format(time.DateOnly) + " " + text
	}
	return text
}

// Drift describes the drift of a session from level start to level end. It adds the relative change if all values
// are positive, and the start of the session. first and last are the times of the session, or zero if there are
// none.
func Drift(start, end float64, positive bool, first, last time.Time, zone *time.Location) string {
	share, sinceText := "", ""
	if positive && start > 0 {
		share = fmt.Sprintf(" (%+.3g %%)", 100*(end-start)/start)
	}
	first, last = first.In(zone), last.In(zone)
	switch {
	case first.IsZero():
	case last.Sub(first) < 48*time.Hour:
		sinceText = " since " + Clock(first, last, zone)
	case first.Year() == last.Year():
		sinceText = " since " + first.Format("2 Jan")
	default:
		sinceText = " since " + first.Format("2 Jan 2006")
	}
	return fmt.Sprintf("drifts from %s to %s%s%s", Level(start), Level(end), share, sinceText)
}

// Level formats v with three significant digits, and all digits before the point below 1e7.
func Level(v float64) string {
	if a := math.Abs(v); a >= 100 && a < 1e7 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Count formats n with the singular or the plural of a noun.
func Count[N int | int64](n N, noun, plural string) string {
	if n != 1 {
		noun = plural
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// List joins names for a sentence: "a, b and c".
func List(names []string) string { return join(names, " and ") }

// Choice joins names that can be chosen, for a sentence: "a, b or c".
func Choice(names []string) string { return join(names, " or ") }

func join(names []string, last string) string {
	n := len(names) - 1
	if n <= 0 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n], ", ") + last + names[n]
}

// Cause returns err without the operation and paths that package os adds.
func Cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// CannotWrite returns the error for a file that cannot be opened or created at path.
func CannotWrite(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be written: its folder %s does not exist; create it first", path, filepath.Dir(path))
	}
	return fmt.Errorf("%s cannot be written: %w", path, Cause(err))
}

// Nearest returns the name with the fewest edits to want, at most a third of want's length or two, whichever is
// larger. It returns "" if there is none.
func Nearest(want string, names []string) string {
	best, minEdits := "", max(2, len(want)/3)+1
	for _, n := range names {
		if d := Edits(strings.TrimSpace(n), want); d < minEdits {
			best, minEdits = n, d
		}
	}
	return best
}

// Closest returns the name with the fewest edits to want; of several, the first in alphabetical order. names must
// not be empty.
func Closest(want string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(Edits(want, a), Edits(want, b)), cmp.Compare(a, b))
	})
}

// Edits returns the minimum number of insertions, deletions, substitutions and swaps of neighbours that turn a into
// b (optimal string alignment), ignoring case. If the lengths differ by more than 40, it returns only that
// difference.
func Edits(a, b string) int {
	if d := len(a) - len(b); d > 40 || d < -40 {
		return max(d, -d)
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	previous, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], previous[j-2]+1)
			}
		}
		previous, row, next = row, next, previous
	}
	return row[len(b)]
}

// Suggest asks whether the most similar known name was meant. If none is similar, it lists all known names.
func Suggest(name string, known []string) string {
	best, minShare := "", 0.5
	for _, k := range known {
		if d := float64(Edits(name, k)) / float64(max(len(name), len(k))); d < minShare || d == minShare && best == "" {
			best, minShare = k, d
		}
	}
	if best == "" {
		return "known here: " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// SingleSessions warns that most sessions have one record. The sessions end at gaps from minGap to maxGap; step is
// the time between the records of a key.
func SingleSessions(single, sessions int, minGap, maxGap, step time.Duration) string {
	return fmt.Sprintf("%d of %d sessions have one record: session.gap is %s, and the records of a key are %s apart: use a much longer session.gap",
		single, sessions, Range(minGap, maxGap), Duration(RoundUp(step)))
}

// AtLeast formats a duration of at least d: for a setting or, if d is a year or more, as Span does.
func AtLeast(d time.Duration) string {
	if d >= 365*24*time.Hour {
		return Span(d)
	}
	return Duration(RoundUp(d))
}

// Range formats a range of durations.
func Range(minimum, maximum time.Duration) string {
	if minimum == maximum {
		return Duration(minimum)
	}
	return Duration(minimum) + " to " + Duration(maximum)
}

// RoundUp rounds d up to whole seconds, minutes or hours. It does not change the longest durations, which would
// overflow.
func RoundUp(d time.Duration) time.Duration {
	if d > math.MaxInt64-time.Hour {
		return d
	}
	unit := time.Second
	switch {
	case d >= 6*time.Hour:
		unit = time.Hour
	case d >= time.Minute:
		unit = time.Minute
	}
	return (d + unit - 1) / unit * unit
}

// Percent formats the share n of total. Only 0 of total is shown as 0 %, and only total as 100 %.
func Percent(n, total int) string {
	if total == 0 {
		return "0 %"
	}
	p := 100 * float64(n) / float64(total)
	switch {
	case n > 0 && p < .1:
		return "< 0.1 %"
	case n < total && p > 99.9:
		return "> 99.9 %"
	case p == math.Trunc(p):
		return fmt.Sprintf("%g %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}

// Some lists the first maxNames names.
func Some(names []string, maxNames int) string {
	var printed []string
	for _, n := range names[:min(len(names), maxNames)] {
		printed = append(printed, Printable(n))
	}
	if len(names) > maxNames {
		printed = append(printed, "…")
	}
	return strings.Join(printed, ", ")
}
