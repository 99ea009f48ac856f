package incidents

import "strings"

// Groups of series: the keys are name{job="a",instance="b"}, and the groups of this one by job and
// instance are job="a" and job="a",instance="b".

// labelled is the narrowest group of a series: each label of by with its value as the key writes it, up
// to the first that the series lacks.
func labelled(key string, by []string) string {
	values := map[string]string{}
	_, rest, _ := strings.Cut(key, "{")
	for {
		name, after, found := strings.Cut(rest, `="`)
		end := quoted(after)
		if !found || end < 0 {
			break
		}
		values[strings.TrimSpace(name)] = after[:end]
		rest = strings.TrimPrefix(after[end+1:], ",")
	}
	var path []string
	for _, label := range by {
		value, there := values[label]
		if !there {
			break
		}
		path = append(path, label+`="`+value+`"`)
	}
	return strings.Join(path, ",")
}

// quoted is where the quote ends that a text begins in, -1 if it does not.
func quoted(s string) int {
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

// labelEnds calls visit with the length of each group that a group of series is in, itself included.
func labelEnds(group string, visit func(length int)) {
	for at := 0; at < len(group); at++ {
		if group[at] != '"' {
			continue
		}
		end := quoted(group[at+1:])
		if end < 0 {
			return
		}
		at += 1 + end
		visit(at + 1)
	}
}
