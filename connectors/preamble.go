package connectors

import (
	"cmp"
	"slices"
	"strings"
)

// A Preamble describes the lines before and around the header of a delimited file, as settings of source.csv.
type Preamble struct {
	Delimiter string
	Skip      int
	Comment   string
}

// maxHeadLines is the number of lines in which a header is searched.
const maxHeadLines = 200

// PreambleOf finds the header in the beginning of a file, which Head returns: the first line with texts where the
// next lines have data. data and missing classify cells.
func PreambleOf(head []byte, data, missing func(cell string) bool) (p Preamble) {
	lines := strings.Split(strings.TrimPrefix(string(head), "\ufeff"), "\n")
	lines = lines[:min(len(lines), maxHeadLines)]
	delimiters := Delimiters
	if rest, ok := strings.CutPrefix(strings.Trim(lines[0], "\""), "sep="); ok && rest != "" {
		delimiters = []string{rest[:1]}
	}
	found, header := 0., 0
	for _, d := range delimiters {
		if line, score := findHeader(lines, d, data, missing); score > found {
			p.Delimiter, found, header = d, score, line
		}
	}
	if found == 0 { // use the delimiter with the most columns in the first line
		width := func(d string) int { return len(cellsOf(lines[0], d)) }
		p.Delimiter = slices.MaxFunc(delimiters, func(a, b string) int { return cmp.Compare(width(a), width(b)) })
		return p
	}
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	for i, s := range lines {
		switch {
		case blank(s):
		case i < header && !strings.HasPrefix(s, "#"):
			p.Skip = header
		case i != header && strings.HasPrefix(s, "#") && !slices.ContainsFunc(cellsOf(s, p.Delimiter), data):
			p.Comment = "#"
		}
	}
	if strings.HasPrefix(lines[header], "#") { // a comment prefix would hide the header
		p.Comment, p.Skip = "", header
	}
	return p
}

// findHeader returns the line of the header, from 0, and its score: the number of columns in which it differs from
// the next lines, plus less than 1 for its shape. The score is 0 if there is no header.
func findHeader(lines []string, delimiter string, data, missing func(string) bool) (line int, score float64) {
	var rows [][]string
	var numbers []int
	for i, s := range lines {
		if strings.TrimSpace(s) == "" {
			continue
		}
		// Comments are not skipped, because the header may be one.
		rows, numbers = append(rows, cellsOf(s, delimiter)), append(numbers, i)
	}
	for i := range len(rows) - 1 {
		header, next := rows[i], rows[i+1]
		shift := len(next) - len(header)
		trailing := shift == 1 && next[len(next)-1] == ""
		after := rows[min(i+2, len(rows)-1)]
		if shift != 0 && shift != 1 || len(after) != len(next) {
			continue
		}
		n := 0
		for k, name := range header {
			cell := k + shift
			if trailing {
				cell = k
			}
			a, b := next[cell], after[cell]
			if name != "" && !data(name) && (data(a) && (data(b) || missing(b)) || missing(a) && data(b)) {
				n++
			}
		}
		if n > 0 {
			// A header as wide as its rows is more certain than one that lacks a column of row names.
			return numbers[i], float64(n) + .5*float64(1-shift) + float64(len(next))/1e6
		}
	}
	return 0, 0
}

// cellsOf splits a line. Quotes enclose whole cells.
func cellsOf(line, delimiter string) (cells []string) {
	line = strings.TrimSuffix(line, "\r")
	for {
		if rest, quoted := strings.CutPrefix(line, `"`); quoted {
			if end := strings.Index(strings.ReplaceAll(rest, `""`, "\x00\x00"), `"`); end >= 0 {
				cells = append(cells, strings.ReplaceAll(rest[:end], `""`, `"`))
				if line, quoted = strings.CutPrefix(rest[end+1:], delimiter); !quoted {
					return cells
				}
				continue
			}
		}
		cell, rest, more := strings.Cut(line, delimiter)
		if cells = append(cells, strings.TrimSpace(cell)); !more {
			return cells
		}
		line = rest
	}
}
