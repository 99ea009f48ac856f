package domain

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"hafvf/internal/message"
)

// Wildcards describes the wildcards of key patterns, for messages.
const Wildcards = "* stands for any text, ? for one character, [a-c] for one of them"

// labelMark is the first character of a pattern of labels. The key of a series follows, with patterns as values.
const labelMark = "\x00"

// nameLabel is the label for the name of a metric.
const nameLabel = "__name__"

// LabelPattern returns the pattern of keys of series whose labels match. The values of labels are patterns. A label
// that a series does not have is empty.
func LabelPattern(labels map[string]string) string {
	var b strings.Builder
	b.WriteString(labelMark + "{")
	for i, name := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%s="%s"`, name, escapes.Replace(labels[name]))
	}
	b.WriteByte('}')
	return b.String()
}

var (
	escapes   = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	unescapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// ShowPattern returns a pattern for messages: its labels, or the quoted text.
func ShowPattern(pattern string) string {
	if labels, ok := strings.CutPrefix(pattern, labelMark); ok {
		return message.Shorten(labels)
	}
	return message.Quote(pattern)
}

// PatternLabels returns the labels of a pattern of LabelPattern, and nil for other patterns.
func PatternLabels(pattern string) map[string]string {
	text, ok := strings.CutPrefix(pattern, labelMark)
	if !ok {
		return nil
	}
	labels, _ := labelsOf(text)
	return labels
}

// labelsOf returns the labels of the key of a series, name{a="b",…}. It reports false for other keys.
func labelsOf(key string) (labels map[string]string, ok bool) {
	name, rest, ok := strings.Cut(key, "{")
	if !ok {
		return nil, false
	}
	labels = map[string]string{}
	if name != "" {
		labels[nameLabel] = name
	}
	for rest != "}" {
		label, quoted, ok := strings.Cut(rest, `="`)
		end := 0
		for end < len(quoted) && quoted[end] != '"' {
			if quoted[end] == '\\' {
				end++
			}
			end++
		}
		if !ok || end >= len(quoted)-1 || quoted[end+1] != ',' && quoted[end+1:] != "}" {
			return nil, false
		}
		labels[label] = unescapes.Replace(quoted[:end])
		rest = strings.TrimPrefix(quoted[end+1:], ",")
	}
	return labels, true
}

// CheckPattern returns an error if text is not a pattern of keys.
func CheckPattern(text string) error {
	if labels := PatternLabels(text); labels != nil {
		for name, pattern := range labels {
			if err := CheckPattern(pattern); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	if _, err := path.Match(text, ""); err != nil {
		return fmt.Errorf("%s is not a pattern: %s", message.Quote(text), Wildcards)
	}
	return nil
}

// Matches reports whether text matches pattern. A slash has no special meaning.
func Matches(pattern, text string) bool {
	if labels := PatternLabels(pattern); labels != nil {
		values, ok := labelsOf(text)
		for name, pattern := range labels {
			ok = ok && Matches(pattern, values[name])
		}
		return ok
	}
	const other = "\x00"
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", other), strings.ReplaceAll(text, "/", other))
	return ok
}

// head returns the part of a pattern before its first wildcard. All texts that it matches start with it.
func head(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`+labelMark); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Patterns is a list of patterns that finds the patterns of a key without trying each pattern. It is immutable.
type Patterns struct {
	texts    []string
	heads    []string         // head of each text
	literals map[string][]int // indices of the patterns without wildcards, by text
	wild     []int            // indices of the other patterns
}

// NewPatterns returns the list of texts. CheckPattern must accept each of them.
func NewPatterns(texts []string) *Patterns {
	p := &Patterns{texts: texts, literals: map[string][]int{}}
	for i, text := range texts {
		p.heads = append(p.heads, head(text))
		if p.heads[i] == text {
			p.literals[text] = append(p.literals[text], i)
		} else {
			p.wild = append(p.wild, i)
		}
	}
	return p
}

// Text returns the pattern at index i.
func (p *Patterns) Text(i int) string { return p.texts[i] }

// Matching appends the indices of the patterns that match text to dst, in ascending order.
func (p *Patterns) Matching(dst []int, text string) []int {
	start := len(dst)
	dst = append(dst, p.literals[text]...)
	for _, i := range p.wild {
		if Matches(p.texts[i], text) {
			dst = append(dst, i)
		}
	}
	slices.Sort(dst[start:])
	return dst
}

// Meeting returns, in ascending order, the indices of the patterns for which MayMeet with pattern is true.
func (p *Patterns) Meeting(pattern string) (positions []int) {
	head := head(pattern)
	if head == pattern {
		return p.Matching(nil, pattern)
	}
	for i, text := range p.texts {
		if mayMeet(text, p.heads[i], pattern, head) {
			positions = append(positions, i)
		}
	}
	return positions
}

// MayMeet reports whether some text may match both patterns. It returns true if that is uncertain.
func MayMeet(a, b string) bool { return mayMeet(a, head(a), b, head(b)) }

func mayMeet(a, headA, b, headB string) bool {
	switch {
	case !strings.HasPrefix(headA, headB) && !strings.HasPrefix(headB, headA):
		return false
	case headA == a:
		return Matches(b, a)
	case headB == b:
		return Matches(a, b)
	}
	return true
}
