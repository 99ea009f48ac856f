package promio

import (
	"regexp"
	"slices"
	"strings"

	"hafvf/internal/message"
)

var (
	// nonMetric matches parts of an expression that name no metric: strings, selectors, ranges and lists of labels.
	nonMetric = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\{[^}]*\}|\[[^]]*\]|\b(?:by|without)\s*\([^)]*\)`)
	word      = regexp.MustCompile(`[0-9.][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*(?:\s*\()?`)
	keyword   = regexp.MustCompile(`^(?i:and|or|unless|bool|offset|inf|nan)$`)
	// otherQuantity matches operators and functions whose results measure something else than the metric. rate
	// matches functions whose results are rates of the metric per second.
	otherQuantity = regexp.MustCompile(`[-+*/%^]|\b(?:count\w*|changes|resets|timestamp|absent\w*|group|on|ignoring)\s*\(`)
	rate          = regexp.MustCompile(`\b(?:i?rate|deriv)\s*\(`)
)

// Measured names the quantity that a query returns. Series of a query may lack the metric's name; Measured takes it
// from the expression if it contains only one metric. Otherwise it returns the shortened expression. perSecond
// reports whether the values are a rate of the metric.
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
