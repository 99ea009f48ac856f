package promio

import (
	"regexp"
	"slices"
	"strings"

	"hafvf/internal/message"
)

var (
	// besides are the parts of an expression that name no metric: texts, selectors, ranges, and lists of labels.
	besides = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\{[^}]*\}|\[[^]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	word    = regexp.MustCompile(`[0-9.][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
	words   = []string{"and", "or", "unless", "bool", "offset", "atan2", "group_left", "group_right", "inf", "nan", "start", "end"}
	rates   = []string{"rate", "irate", "deriv"}
	counts  = []string{"count", "count_values", "count_over_time", "changes", "resets", "timestamp", "absent", "group"}
)

// Measured names what the values of a query are of, whose series have lost the name of their metric: that of the
// only metric in it, and otherwise the expression. perSecond reports whether they are a rate of the metric.
func (s Source) Measured() (metric string, perSecond bool) {
	text := s.Query
	for before := ""; before != text; {
		before, text = text, besides.ReplaceAllString(text, "")
	}
	calculated := strings.ContainsAny(text, "+-*/%^")
	var metrics, functions []string
	for _, name := range word.FindAllString(text, -1) {
		switch called, is := strings.CutSuffix(name, "("); {
		case is:
			functions = append(functions, strings.TrimSpace(called))
		case name[0] > '9' && !slices.Contains(words, strings.ToLower(name)):
			metrics = append(metrics, name)
		}
	}
	uses := func(any []string) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return slices.Contains(any, f) })
	}
	slices.Sort(metrics)
	metrics = slices.Compact(metrics)
	if len(metrics) != 1 || calculated || uses(counts) {
		return message.Shorten(strings.Join(strings.Fields(s.Query), " ")), false
	}
	if uses([]string{"histogram_quantile"}) {
		return strings.TrimSuffix(metrics[0], "_bucket"), false
	}
	return metrics[0], uses(rates)
}
