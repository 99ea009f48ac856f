package promio

import (
	"regexp"
	"slices"
	"strings"

	"hafvf/internal/message"
)

var (
	// besides are the parts of an expression that name no metric: texts, selectors, ranges, and lists of labels.
	nonMetric = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\{[^}]*\}|\[[^]]*\]|\b(?:by|without)\s*\([^)]*\)`)
	word      = regexp.MustCompile(`[0-9.][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*(?:\s*\()?`)
	keyword   = regexp.MustCompile(`^(?i:and|or|unless|bool|offset|inf|nan)$`)
	// other makes values of something else than the metric, and rate those per second.
	otherQuantity = regexp.MustCompile(`[-+*/%^]|\b(?:count\w*|changes|resets|timestamp|absent\w*|group|on|ignoring)\s*\(`)
	rate          = regexp.MustCompile(`\b(?:i?rate|deriv)\s*\(`)
)

// Measured names what the values of a query are of, whose series have lost the name of their metric: that of the
// only metric in it, and otherwise the expression. perSecond reports whether they are a rate of the metric.
func (s Source) Measured() (metric string, perSecond bool) {
	text := nonMetric.ReplaceAllString(s.Query, "")
	names := word.FindAllString(text, -1)
	names = slices.DeleteFunc(names, func(name string) bool {
		return name[0] <= '9' || strings.HasSuffix(name, "(") || keyword.MatchString(name)
	})
	slices.Sort(names)
	if names = slices.Compact(names); len(names) != 1 || otherQuantity.MatchString(text) {
		return message.Shorten(strings.Join(strings.Fields(s.Query), " ")), false
	}
	if strings.Contains(text, "histogram_quantile") {
		return strings.TrimSuffix(names[0], "_bucket"), false
	}
	return names[0], rate.MatchString(text)
}
