package domain

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"hafvf/internal/message"
)

// Wildcards says what a pattern of keys may have.
const Wildcards = "* stands for any text, ? for one character, [a-c] for one of them"

// ofLabels begins a pattern of labels. What follows is written as the key of a series is, with patterns as values.
const ofLabels = "\x00"

// nameLabel is the label that the name of a metric is.
const nameLabel = "__name__"

// LabelPattern is the pattern of keys that are series, in which each of the labels has a value that matches its pattern. A
// label that a series does not have is empty.
func LabelPattern(labels map[string]string) string {
	var b strings.Builder
	b.WriteString(ofLabels + "{")
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

// ShowPattern is a pattern as messages show it: quoted, or as the labels that it is of.
func ShowPattern(pattern string) string {
	if labels, is := strings.CutPrefix(pattern, ofLabels); is {
		return message.Shorten(labels)
	}
	return message.Quote(pattern)
}

// PatternLabels are the labels of a pattern of LabelPattern, nil of another one.
func PatternLabels(pattern string) map[string]string {
	text, is := strings.CutPrefix(pattern, ofLabels)
	if !is {
		return nil
	}
	labels, _ := labelsOf(text)
	return labels
}

// labelsOf are the labels of the key of a series, name{a="b",…}; nil if it is none.
func labelsOf(key string) (labels map[string]string, is bool) {
	name, rest, is := strings.Cut(key, "{")
	if !is {
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

// CheckPattern says why a text is not a pattern of keys.
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

// Matches reports whether a text matches a pattern. A slash is a character as any other.
func Matches(pattern, text string) bool {
	if labels := PatternLabels(pattern); labels != nil {
		of, is := labelsOf(text)
		for name, pattern := range labels {
			is = is && Matches(pattern, of[name])
		}
		return is
	}
	const other = "\x00"
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", other), strings.ReplaceAll(text, "/", other))
	return ok
}

// head returns a pattern up to its first wildcard: the beginning of all texts that it matches.
func head(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`+ofLabels); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// Patterns is a list of patterns that finds the patterns of a key without trying all of them. It is immutable.
type Patterns struct {
	texts    []string
	heads    []string         // of texts
	literals map[string][]int // positions of the patterns without wildcards, by their text
	wild     []int            // positions of the others
}

// NewPatterns returns the list of the given patterns. CheckPattern accepts each of them.
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

// Text returns the pattern at a position.
func (p *Patterns) Text(i int) string { return p.texts[i] }

// Matching appends the positions of the patterns that match a text to dst, in ascending order.
func (p *Patterns) Matching(dst []int, text string) []int {
	from := len(dst)
	dst = append(dst, p.literals[text]...)
	for _, i := range p.wild {
		if Matches(p.texts[i], text) {
			dst = append(dst, i)
		}
	}
	slices.Sort(dst[from:])
	return dst
}

// Meeting returns the positions, in ascending order, of the patterns that some text may match together with the given
// pattern, as MayMeet reports.
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

// MayMeet reports whether some text may match both patterns. It is true if that is not plain.
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
