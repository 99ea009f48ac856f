package sniff

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"hafvf/internal/message"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// repeats adds a remark if the numbers of the trials go back within some keys: a run that ended early and its repeat may
// share the key, or the file is not in the order of the trials. Blocks of equal lengths, and blocks in most keys, are
// part of a design.
func (s *sample) repeats(t *table, key []string) {
	columns := slices.DeleteFunc(slices.Clone(t.columns), func(c *column) bool { return !slices.Contains(key, c.name) })
	groups, n := t.groups(columns)
	for _, c := range t.columns {
		if !c.whole() || slices.Contains(columns, c) {
			continue
		}
		blocks := c.blocks(groups, n)
		repeated := slices.DeleteFunc(blocks, func(b [][]int) bool { return len(b) < 2 })
		design := func(b [][]int) bool { return len(b[0]) == len(b[1]) && c.texts[b[0][0]] == c.texts[b[1][0]] }
		if len(repeated) == 0 || n > 1 && 2*len(repeated) > n || !slices.ContainsFunc(repeated, func(b [][]int) bool { return !design(b) }) {
			continue
		}
		how := "remove one of the runs, or sort the file"
		if by := t.separator(repeated); by != "" {
			how = fmt.Sprintf("key: %s separates them", config.YAMLNames(append(slices.Clone(key), by)))
			if t.named(by) != nil {
				how += fmt.Sprintf(", or session: {by: %s} with transform: smooth", config.YAMLNames([]string{by}))
			}
		}
		b := repeated[0]
		s.result.Remarks.add(true, "session.by", "column %s numbers the trials, and goes back within %d of %s, such as from %s to %s: a run and its repeat may share the key: %s",
			message.Quote(c.name), len(repeated), message.Count(n, "key", "keys"), c.texts[b[0][len(b[0])-1]], c.texts[b[1][0]], how)
		return
	}
}

// blocks returns the records of each group, in blocks in which the numbers of the column rise by one. It returns nil if
// the column numbers no records: more than one of ten steps is another.
func (c *column) blocks(groups []int, n int) [][][]int {
	values, blocks, other := c.values(), make([][][]int, n), 0
	for i, g := range groups {
		own := blocks[g]
		last := len(own) - 1
		if last < 0 {
			blocks[g] = [][]int{{i}}
			continue
		}
		switch step := values[i] - values[own[last][len(own[last])-1]]; {
		case step < 0:
			blocks[g] = append(own, []int{i})
			continue
		case step != 1:
			other++
		}
		own[last] = append(own[last], i)
	}
	if 10*other > len(groups) || len(groups) < 10 {
		return nil
	}
	return blocks
}

// separator returns the name of a column, or of the part of the path, that has one text in each block and another one in
// the next; "" if there is none.
func (t *table) separator(repeated [][][]int) string {
	separates := func(code func(i int) int) bool {
		for _, blocks := range repeated {
			for k, b := range blocks {
				if k > 0 && code(b[0]) == code(blocks[k-1][0]) || slices.ContainsFunc(b, func(i int) bool { return code(i) != code(b[0]) }) {
					return false
				}
			}
		}
		return true
	}
	if c := t.first(func(c *column) bool { return separates(func(i int) int { return int(c.forms().codes[i]) }) }); c != nil {
		return c.name
	}
	if len(t.paths) < 2 || !separates(func(i int) int { return t.files[i] }) {
		return ""
	}
	part := filepath.Base(t.path)
	if strings.Count(part, "*") != 1 {
		part = strconv.Itoa(len(decode.PathParts(t.path)))
	}
	return config.PathPart(part)
}
