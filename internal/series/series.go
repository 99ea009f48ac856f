// Package series writes and reads the names of series as Prometheus does: name{a="b",…}.
package series

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// nameLabel is the label that holds the name of a metric.
const nameLabel = model.MetricNameLabel

// Key is the name of the series with those labels; empty if there are none.
func Key(labels map[string]string) string {
	var b strings.Builder
	b.WriteString(labels[nameLabel])
	between := "{"
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if label == nameLabel {
			continue
		}
		fmt.Fprintf(&b, `%s%s="%s"`, between, label, escapes.Replace(labels[label]))
		between = ","
	}
	if between == "," {
		b.WriteByte('}')
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Separator joins the parts of a key of several fields.
const Separator = "/"

// Escape and unescape a part of several, so that different parts make different keys.
var (
	escape   = strings.NewReplacer("%", "%25", Separator, "%2F")
	unescape = strings.NewReplacer("%25", "%", "%2F", Separator)
)

// Join makes a key of several parts.
func Join(parts []string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escape.Replace(part)
	}
	return strings.Join(escaped, Separator)
}

// Split are the parts of a key of several.
func Split(key string) []string {
	parts := strings.Split(key, Separator)
	for i, part := range parts {
		parts[i] = unescape.Replace(part)
	}
	return parts
}

// Labels are those of the series with that key. The name of its metric becomes the label
// metric; a label of that name is exported_metric then. names are the labels that the key
// joins, if it is not the whole series. A key that is neither has the label key.
func Labels(key string, names []string) map[string]string {
	parts := []string{key}
	if len(names) > 1 {
		parts = Split(key)
	}
	if len(names) > 0 && len(parts) == len(names) {
		all := map[string]string{}
		for i, name := range names {
			put(all, name, parts[i])
		}
		return all
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
	all := map[string]string{}
	for _, l := range f.GetMetric()[0].GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	if name := key[:brace]; name != "" {
		put(all, nameLabel, name)
	}
	return all
}

// put adds a label, under a name that is no name of a metric.
func put(all map[string]string, name, value string) {
	if name == nameLabel {
		name = "metric"
		if own, taken := all[name]; taken {
			all["exported_metric"] = own
		}
	}
	all[name] = value
}

// Values are the labels of the keys that are series, with the values that they have.
func Values(keys []string) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, key := range keys {
		_, braced, is := strings.Cut(key, "{")
		if !is {
			continue
		}
		for name, value := range Labels("{"+braced, nil) {
			if all[name] == nil {
				all[name] = map[string]bool{}
			}
			all[name][value] = true
		}
	}
	return all
}

// Groups are the labels that group the keys: at most five with between two values and half as many as there are
// keys, from the one with the fewest on.
func Groups(keys []string) []string {
	const most = 5
	values := Values(keys)
	maps.DeleteFunc(values, func(_ string, of map[string]bool) bool { return len(of) < 2 || 2*len(of) > len(keys) })
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(values[a]), len(values[b])), cmp.Compare(a, b))
	})
	return names[:min(len(names), most)]
}
