// Package series formats and parses the names of series as Prometheus does: name{a="b",…}.
package series

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hafvf/internal/domain"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// nameLabel is the label for the name of a metric.
const nameLabel = model.MetricNameLabel

// Key returns the name of the series with the given labels; "" without labels.
func Key(labels map[string]string) string {
	var b strings.Builder
	b.WriteString(labels[nameLabel])
	separator := "{"
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if label == nameLabel {
			continue
		}
		fmt.Fprintf(&b, `%s%s="%s"`, separator, label, escapes.Replace(labels[label]))
		separator = ","
	}
	if separator == "," {
		b.WriteByte('}')
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Labels returns the labels of a key. If key has one part per name, see domain.JoinKey, the parts are the values of these labels.
// If it is a series, the name of its metric becomes the label metric, and a label metric becomes exported_metric. Any
// other key becomes the label key.
func Labels(key string, names []string) map[string]string {
	parts := []string{key}
	if len(names) > 1 {
		parts = domain.SplitKey(key)
	}
	if len(names) > 0 && len(parts) == len(names) {
		labels := map[string]string{}
		for i, name := range names {
			put(labels, name, parts[i])
		}
		return labels
	}
	brace := strings.IndexByte(key, '{')
	if brace < 0 {
		return map[string]string{"key": key}
	}
	const anyName = "series"
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(anyName + key[brace:] + " 0\n"))
	f := families[anyName]
	if err != nil || f == nil || len(families) != 1 || len(f.GetMetric()) != 1 {
		return map[string]string{"key": key}
	}
	labels := map[string]string{}
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	if name := key[:brace]; name != "" {
		put(labels, nameLabel, name)
	}
	return labels
}

// put adds a label. It stores the name of the metric as the label metric.
func put(labels map[string]string, name, value string) {
	if name == nameLabel {
		name = "metric"
		if old, exists := labels[name]; exists {
			labels["exported_metric"] = old
		}
	}
	labels[name] = value
}

// Values returns the values of each label of the keys that are series.
func Values(keys []string) map[string]map[string]bool {
	values := map[string]map[string]bool{}
	for _, key := range keys {
		_, braced, ok := strings.Cut(key, "{")
		if !ok {
			continue
		}
		for name, value := range Labels("{"+braced, nil) {
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][value] = true
		}
	}
	return values
}

// Groups returns labels suited for grouping the keys: at most five, with at least two values and at most half as
// many as there are keys, the fewest values first.
func Groups(keys []string) []string {
	const maxGroups = 5
	values := Values(keys)
	maps.DeleteFunc(values, func(_ string, set map[string]bool) bool { return len(set) < 2 || 2*len(set) > len(keys) })
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(values[a]), len(values[b])), cmp.Compare(a, b))
	})
	return names[:min(len(names), maxGroups)]
}
