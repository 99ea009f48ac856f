// Package message writes parts of messages: what users wrote, durations and causes as they
// can read them, and the name that they may have meant.
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
	longest      = 80   // bytes of a user's text that an error repeats, to the end of the last character
	longestWhole = 2000 // bytes of a line that may repeat several
)

// Shorten cuts a user's text that is too long for a message.
func Shorten(s string) string { return cut(s, longest) }

// Bound cuts each line of a message that repeats too much of what a user wrote.
func Bound(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = cut(lines[i], longestWhole)
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

// Printable returns s as it stands, shortened, where that can be read in one
// line, and quoted elsewhere.
func Printable(s string) string {
	if !IsPrintable(s) {
		return Quote(s)
	}
	return Shorten(s)
}

// Line returns s as it stands where that can be read in one line, and quoted elsewhere.
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

// Duration is d without the zeros at its end: 10m rather than 10m0s.
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

// Span is d as a person says it: 40 s, 5 min, 1 h 20 min, 3 days, 19.6 years.
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

// Clock is the time at as a person in a zone reads it at the time now.
func Clock(at, now time.Time, zone *time.Location) string {
	at, now = at.In(zone), now.In(zone)
	text := at.Format("15:04")
	if at.Second() != 0 {
		text = at.Format(time.TimeOnly)
	}
	if at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		text = at.Format(time.DateOnly) + " " + text
	}
	return text
}

// Drift says from which level to which a session drifts that lasts from first to last, with the share of that if all
// of its values are positive. Times are zero if there are none.
func Drift(from, to float64, positive bool, first, last time.Time, zone *time.Location) string {
	share, since := "", ""
	if positive && from > 0 {
		share = fmt.Sprintf(" (%+.3g %%)", 100*(to-from)/from)
	}
	first, last = first.In(zone), last.In(zone)
	switch {
	case first.IsZero():
	case last.Sub(first) < 48*time.Hour:
		since = " since " + Clock(first, last, zone)
	case first.Year() == last.Year():
		since = " since " + first.Format("2 Jan")
	default:
		since = " since " + first.Format("2 Jan 2006")
	}
	return fmt.Sprintf("drifts from %s to %s%s%s", level(from), level(to), share, since)
}

// level is v with three digits and those before the point.
func level(v float64) string {
	if a := math.Abs(v); a >= 100 && a < 1e7 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Count is n of something, by its singular and its plural.
func Count[N int | int64](n N, one, many string) string {
	if n != 1 {
		one = many
	}
	return fmt.Sprintf("%d %s", n, one)
}

// List is names as part of a sentence: "a, b and c".
func List(names []string) string {
	n := len(names) - 1
	if n <= 0 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n], ", ") + " and " + names[n]
}

// Cause is err without the operation and the paths that package os puts before it.
func Cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}

// CannotWrite is the error of a file that cannot be opened, or made in its folder.
func CannotWrite(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be written: its folder %s does not exist; create it first", path, filepath.Dir(path))
	}
	return fmt.Errorf("%s cannot be written: %w", path, Cause(err))
}

// Nearest returns the name that is at most a third of want's length (and at
// least two) edits away and nearest to it, or "".
func Nearest(want string, names []string) string {
	best, least := "", max(2, len(want)/3)+1
	for _, n := range names {
		if d := Edits(strings.TrimSpace(n), want); d < least {
			best, least = n, d
		}
	}
	return best
}

// Closest returns the name that is fewest edits away from want, the first by name of
// several. There has to be one.
func Closest(want string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(Edits(want, a), Edits(want, b)), cmp.Compare(a, b))
	})
}

// Edits is the least number of insertions, deletions, substitutions and
// swaps of neighbours that turn a into b (optimal string alignment), without
// regard to case: how far an unknown name is from a known one. Where the lengths
// differ by more than a name's worth, it is only that difference.
func Edits(a, b string) int {
	if d := len(a) - len(b); d > 40 || d < -40 {
		return max(d, -d)
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
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
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// Suggest names the known name that is nearest to name, for its length, or all
// of them where none is near.
func Suggest(name string, known []string) string {
	best, least := "", 0.5
	for _, k := range known {
		if d := float64(Edits(name, k)) / float64(max(len(name), len(k))); d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	if best == "" {
		return "known here: " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// SingleSessions says that most sessions have one record, of such that end at gaps from least to largest. step is the time
// between the records of a key.
func SingleSessions(single, sessions int, least, largest, step time.Duration) string {
	return fmt.Sprintf("%d of %d sessions have one record: session.gap is %s, and the records of a key are %s apart; give a session.gap of many times that",
		single, sessions, Range(least, largest), Duration(RoundUp(step)))
}

// AtLeast is a duration that is at least d, for a setting; or for a person, if that is more than a year.
func AtLeast(d time.Duration) string {
	if d >= 365*24*time.Hour {
		return Span(d)
	}
	return Duration(RoundUp(d))
}

// Range is a range of durations.
func Range(least, largest time.Duration) string {
	if least == largest {
		return Duration(least)
	}
	return Duration(least) + " to " + Duration(largest)
}

// RoundUp rounds a time up to whole seconds, minutes or hours. The longest durations stay as
// they are.
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

// Percent is n of all, rounded so that only none is 0 % and only all is 100 %.
func Percent(n, all int) string {
	if all == 0 {
		return "0 %"
	}
	p := 100 * float64(n) / float64(all)
	switch {
	case n > 0 && p < .1:
		return "< 0.1 %"
	case n < all && p > 99.9:
		return "> 99.9 %"
	case p == math.Trunc(p):
		return fmt.Sprintf("%g %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}

// Some lists the first names.
func Some(names []string, most int) string {
	var all []string
	for _, n := range names[:min(len(names), most)] {
		all = append(all, Printable(n))
	}
	if len(names) > most {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}
