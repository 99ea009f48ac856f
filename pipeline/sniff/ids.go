package sniff

import (
	"slices"
	"strconv"
	"strings"

	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// partNames are column names for numbers of parts of a series. Such numbers do not identify series.
var partNames = []string{"block", "trial", "run", "session", "phase", "epoch", "lap", "cycle", "condition"}

// mayBeID reports whether a column has whole numbers that may identify series. A name with a word of partNames
// excludes it.
func (c *column) mayBeID() bool {
	words := wordsOf(c.name)
	return c.whole() && c.forms().distinct > 1 && !slices.ContainsFunc(partNames, func(s string) bool { return slices.Contains(words, s) })
}

// isBlockNumber reports whether each number in column c covers one block of records, and the times start again in
// each block. Without a column of times, any other column of whole numbers may count within the blocks.
func (t *table) isBlockNumber(c, timeCol *column) bool {
	codes := c.forms().codes
	if !c.mayBeID() || t.runs(c)+1 != c.forms().distinct {
		return false
	}
	// The values go back at most block starts, and forward within blocks.
	restartsPerBlock := func(value func(i int) float64) bool {
		blocks, back, within, forward := 0, 0, 0, 0
		for i := 1; i < len(codes); i++ {
			switch {
			case t.pieces[i] != t.pieces[i-1]:
			case codes[i] != codes[i-1]:
				if blocks++; value(i) < value(i-1) {
					back++
				}
			default:
				if within++; value(i) > value(i-1) {
					forward++
				}
			}
		}
		return blocks > 0 && 10*back >= 9*blocks && within > 0 && 10*forward >= 9*within
	}
	if timeCol != nil {
		nanos := timeCol.stamp().nanos
		return restartsPerBlock(func(i int) float64 { return float64(nanos[i]) })
	}
	return slices.ContainsFunc(t.columns, func(o *column) bool {
		if o == c || !o.whole() {
			return false
		}
		numbers := o.values()
		return restartsPerBlock(func(i int) float64 { return numbers[i] })
	})
}

// hasAllAtMostTimes reports whether no number in column c occurs twice at a time, and more than half of the times
// have all numbers.
func (t *table) hasAllAtMostTimes(c, timeCol *column) bool {
	if !c.mayBeID() {
		return false
	}
	type moment struct {
		nanos int64
		code  int32
	}
	seen, times := map[moment]bool{}, map[int64]int{}
	codes := c.forms().codes
	for i, nanos := range timeCol.stamp().nanos {
		m := moment{nanos, codes[i]}
		if nanos == never || seen[m] {
			return false
		}
		seen[m] = true
		times[nanos]++
	}
	full := 0
	for _, n := range times {
		if n == c.forms().distinct {
			full++
		}
	}
	return 2*full > len(times)
}

// fileColumn returns the column that is constant within each file and differs between files, or nil. If there are
// several, it returns the one with the best name for a key.
func (t *table) fileColumn(timeCol *column) (key *column) {
	if len(t.files) == 0 || t.files[len(t.files)-1] == t.files[0] {
		return nil
	}
	return t.best(forKey, -2, func(c *column) bool {
		codes := c.forms().codes
		for i := 1; i < len(codes); i++ {
			if t.files[i] == t.files[i-1] && codes[i] != codes[i-1] {
				return false
			}
		}
		return c != timeCol && c.parts == nil && c.nested == 0 && c.forms().distinct > 1 && !c.partOfTime() && (!c.numeric() || c.whole())
	})
}

// pathColumns returns a column for each folder in the paths of several files. Its texts are the parts of the paths: the
// value in name=value, or the whole part.
func (t *table) pathColumns() (columns []*column) {
	if len(t.paths) < 2 {
		return nil
	}
	parts := decode.PathParts(t.paths[0])
	for i, folder := range parts[:len(parts)-1] {
		part := strconv.Itoa(i + 1)
		if name, _, ok := strings.Cut(folder, "="); ok {
			part = name + "=*"
		}
		c := &column{name: config.PathPart(part), inPath: true}
		for _, file := range t.files {
			text, _ := decode.PathText(part, t.paths[file])
			c.texts = append(c.texts, text)
		}
		columns = append(columns, c)
	}
	return columns
}
