package incidents

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Groups of series: for keys such as name{job="a",rack="b"}, the groups by job and rack are job="a", rack="b" and
// job="a",rack="b". The order of the labels has no effect.

const (
	maxLabels    = 5 // labels of a grouping, which gives a key at most 16 groups
	minGroupKeys = 3 // keys of a group by labels
)

// eachLabel calls visit for each label of a series, with the value as it is escaped in the key.
func eachLabel(key string, visit func(name, value string)) {
	_, rest, _ := strings.Cut(key, "{")
	for {
		name, after, found := strings.Cut(rest, `="`)
		end := quoteEnd(after)
		if !found || end < 0 {
			return
		}
		visit(strings.TrimSpace(name), after[:end])
		rest = strings.TrimPrefix(after[end+1:], ",")
	}
}

// matchingLabels returns the labels of a series with one of the names, as label="value" with the value as in the key.
func matchingLabels(key string, names []string) (labels []string) {
	labels = make([]string, len(names))
	eachLabel(key, func(name, value string) {
		if i := slices.Index(names, name); i >= 0 {
			labels[i] = name + `="` + value + `"`
		}
	})
	return slices.DeleteFunc(labels, func(l string) bool { return l == "" })
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// seriesLabels returns the labels of a series, with its name as the label metric.
func seriesLabels(key string) map[string]string {
	labels := map[string]string{}
	eachLabel(key, func(name, value string) { labels[name] = unescape.Replace(value) })
	if metric, _, series := strings.Cut(key, "{"); series && metric != "" {
		if own, exists := labels["metric"]; exists {
			labels["exported_metric"] = own
		}
		labels["metric"] = metric
	}
	return labels
}

// labels returns the labels that all members of an incident share, and the labels of its group.
func (f *Fleet) labels(inc *incident) (shared map[string]string) {
	for name := range inc.members {
		own := f.cfg.Labels(name)
		if shared == nil {
			shared = own
		}
		maps.DeleteFunc(shared, func(name, value string) bool {
			other, ok := own[name]
			return !ok || other != value
		})
		if len(shared) == 0 {
			break
		}
	}
	if len(f.cfg.By) > 0 {
		if shared == nil {
			shared = map[string]string{}
		}
		maps.Copy(shared, seriesLabels("{"+inc.group))
	}
	return shared
}

// containsLabels reports whether labels contains all of part.
func containsLabels(labels, part map[string]string) bool {
	for name, value := range part {
		if other, ok := labels[name]; !ok || other != value {
			return false
		}
	}
	return true
}

// quoteEnd returns the index of the quote that ends a quoted text, or −1 if there is none.
func quoteEnd(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// labelsOf splits the name of a group into its labels.
func labelsOf(group string) (labels []string) {
	for group != "" {
		start := strings.IndexByte(group, '"') + 1
		end := quoteEnd(group[start:])
		if start == 0 || end < 0 {
			return labels
		}
		labels = append(labels, group[:start+end+1])
		group = strings.TrimPrefix(group[start+end+1:], ",")
	}
	return labels
}

// labelPaths returns the groups of a series: the fleet, its labels, and their pairs.
func labelPaths(key string, names []string) []groupPath {
	paths := []groupPath{{name: ""}}
	values := matchingLabels(key, names)
	for _, v := range values {
		paths = append(paths, groupPath{v, []int{0}})
	}
	for i, v := range values {
		for j, w := range values[:i] {
			paths = append(paths, groupPath{w + "," + v, []int{1 + j, 1 + i}})
		}
	}
	return paths
}

// commonOfLabels returns the smallest group that covers two groups: a, b, one of their labels, or the fleet.
func (f *Fleet) commonOfLabels(a, b string) string {
	best, minKeys := "", 0
	for _, name := range slices.Concat([]string{a, b}, labelsOf(a), labelsOf(b)) {
		if g := f.groups[name]; g != nil && f.covers(name, a) && f.covers(name, b) && (minKeys == 0 || cmp.Or(cmp.Compare(g.keys, minKeys), cmp.Compare(name, best)) < 0) {
			best, minKeys = name, g.keys
		}
	}
	return best
}
