package incidents

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Groups of series: the keys are name{job="a",rack="b"}, and the groups of this one by job and rack are
// job="a", rack="b" and job="a",rack="b". The order of the labels has no effect.

const (
	maxLabels    = 5 // of a grouping, which makes at most 16 groups a key
	minGroupKeys = 3 // of a group by labels
)

// eachLabel calls visit with the labels of a series, each with its value as the key writes it.
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

// labelled are the labels of by that a series has, each with its value as the key writes it.
func matchingLabels(key string, by []string) (all []string) {
	all = make([]string, len(by))
	eachLabel(key, func(name, value string) {
		if i := slices.Index(by, name); i >= 0 {
			all[i] = name + `="` + value + `"`
		}
	})
	return slices.DeleteFunc(all, func(l string) bool { return l == "" })
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// seriesLabels are the labels of a series.
func seriesLabels(key string) map[string]string {
	all := map[string]string{}
	eachLabel(key, func(name, value string) { all[name] = unescape.Replace(value) })
	if metric, _, series := strings.Cut(key, "{"); series && metric != "" {
		if own, taken := all["metric"]; taken {
			all["exported_metric"] = own
		}
		all["metric"] = metric
	}
	return all
}

// labels are those that all members of an incident share, and those of its group.
func (f *Fleet) labels(inc *incident) (all map[string]string) {
	for name := range inc.members {
		own := f.cfg.Labels(name)
		if all == nil {
			all = own
		}
		maps.DeleteFunc(all, func(name, value string) bool {
			other, has := own[name]
			return !has || other != value
		})
		if len(all) == 0 {
			break
		}
	}
	if len(f.cfg.By) > 0 {
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, seriesLabels("{"+inc.group))
	}
	return all
}

// quoted is where the quote ends that a text begins in, -1 if it does not.
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

// labelsOf are the labels of the name of a group.
func labelsOf(group string) (all []string) {
	for group != "" {
		from := strings.IndexByte(group, '"') + 1
		end := quoteEnd(group[from:])
		if from == 0 || end < 0 {
			return all
		}
		all = append(all, group[:from+end+1])
		group = strings.TrimPrefix(group[from+end+1:], ",")
	}
	return all
}

// byLabel are the groups of a series: the fleet, its labels, and their pairs.
func labelPaths(key string, by []string) []groupPath {
	all := []groupPath{{name: ""}}
	values := matchingLabels(key, by)
	for _, v := range values {
		all = append(all, groupPath{v, []int{0}})
	}
	for i, v := range values {
		for j, w := range values[:i] {
			all = append(all, groupPath{w + "," + v, []int{1 + j, 1 + i}})
		}
	}
	return all
}

// commonOfLabels is the smallest group that covers two: one of both, of one of their labels, or the fleet.
func (f *Fleet) commonOfLabels(a, b string) string {
	best, least := "", 0
	for _, name := range slices.Concat([]string{a, b}, labelsOf(a), labelsOf(b)) {
		if g := f.groups[name]; g != nil && f.covers(name, a) && f.covers(name, b) && (least == 0 || cmp.Or(cmp.Compare(g.keys, least), cmp.Compare(name, best)) < 0) {
			best, least = name, g.keys
		}
	}
	return best
}
