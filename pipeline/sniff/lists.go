package sniff

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"hafvf/connectors"
	"hafvf/internal/message"
)

// manyFields is more than the number of fields of a record for one point in time.
const manyFields = 50

// unread describes values in the file that are in no column (lists, durations, JSON in a text), with a way to convert
// them. It is empty if there are none.
func (t *table) unread() string {
	if len(t.types) > 0 {
		return fmt.Sprintf("column %s, which cannot be read: write plain numbers, decimals, texts, booleans, dates or timestamps", t.types[0])
	}
	var lists, objects, rows []*column // of numbers and texts, of objects, and of lists
	for _, c := range t.columns {
		switch begins := strings.TrimLeft(strings.TrimPrefix(c.list, "["), " "); {
		case c.isDuration():
			return fmt.Sprintf("column %s holds durations, such as %s, which are not read: write numbers, such as seconds", message.Quote(c.name), example(c))
		case c.nested <= c.forms().present: // none, or in few records
			if example := c.json(); example != "" {
				how := "write its fields as columns, or as fields of JSON Lines"
				if t.format.Name == connectors.JSONLines {
					how = t.jq("("+jqPath(c.name)+" | strings) |= fromjson") + " makes fields of it"
				}
				return fmt.Sprintf("column %s holds JSON in a text, such as %s, which is not read: %s", message.Quote(c.name), message.Quote(example), how)
			}
		case strings.HasPrefix(begins, "{"):
			objects = append(objects, c)
		case strings.HasPrefix(begins, "["):
			rows = append(rows, c)
		default:
			lists = append(lists, c)
		}
	}
	if len(objects) > 0 {
		return t.perElement(objects[0], "lists of objects, which are not read", ".")
	}
	if len(rows) > 0 {
		return t.perElement(rows[0], "lists of lists, which are not read", "{time: .[0], x: .[1]}")
	}
	timeList, values := listOfTimes(lists)
	switch {
	case values == nil && t.records == 1 && len(t.columns) > manyFields && !t.format.Columns:
		return fmt.Sprintf("it holds one record of %d fields, %s: write a line for each observation", len(t.columns), message.Some(namesOf(t.columns), 4))
	case values == nil:
		return ""
	case timeList != nil:
		return fmt.Sprintf("its columns are lists, which layout: series of the source reads, with time: %s and values: [%s]", timeList.name, values.name)
	case slices.ContainsFunc(t.columns, (*column).timed):
		return t.perElement(values, "lists, which are not read as values", "{x: .}")
	}
	key := "none"
	for _, c := range t.columns {
		if f := c.forms(); c.nested == 0 && !c.numeric() && f.present == t.records && f.distinct == t.records && key == "none" {
			key = c.name
		}
	}
	return fmt.Sprintf("its columns are lists without times, which layout: series of the source reads under order: arrival, with key: %s, time: \"\" and values: [%s]", key, values.name)
}

// perElement describes the lists of a column, with a jq command that writes a record for each element. If the file
// has several records, the new records keep the other fields.
func (t *table) perElement(c *column, content, element string) string {
	name := jqPath(c.name)
	each := name + "[]"
	if c.nested < t.records { // other records keep their text
		each = "(" + name + " | arrays // [.])[]"
	}
	how := strings.TrimSuffix(each+" | "+element, " | .")
	if t.records > 1 {
		how = fmt.Sprintf(". as $r | %s | $r + %s | del(%s)", each, element, name)
	}
	return fmt.Sprintf("%s holds %s: %s writes a record for each", name, content, t.jq(how))
}

// jq returns a command that applies a jq filter to the file, which may be compressed, and writes the result to
// another file.
func (t *table) jq(filter string) string {
	name, dst := filepath.Base(t.path), "records.jsonl"
	if name == dst {
		dst = "rows.jsonl"
	}
	if unpack := map[string]string{".gz": "zcat", ".zst": "zstdcat"}[filepath.Ext(name)]; unpack != "" {
		return fmt.Sprintf("%s %s | jq -c '%s' > %s", unpack, name, filter, dst)
	}
	return fmt.Sprintf("jq -c '%s' %s > %s", filter, name, dst)
}

// jqPath returns the path of a column in jq's syntax. It quotes names that jq does not take as words.
func jqPath(name string) (path string) {
	for part := range strings.SplitSeq(name, ".") {
		if !jqWord.MatchString(part) {
			part = message.Quote(part)
		}
		path += "." + part
	}
	return path
}

// jqWord matches the names that jq takes without quotes.
var jqWord = regexp.MustCompile("^[A-Za-z_][A-Za-z_0-9]*$")

// json returns the first text of a column that contains only JSON objects or lists, and an empty text for other
// columns.
func (c *column) json() string {
	f := c.forms()
	if f.present == 0 || c.numeric() {
		return ""
	}
	for _, text := range f.different {
		if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
			return ""
		}
	}
	return f.different[0]
}

// listOfTimes returns the list column whose elements are times, and the last other list column of numbers. Each is
// nil if there is none.
func listOfTimes(lists []*column) (timeList, values *column) {
	for _, c := range lists {
		first, _, _ := strings.Cut(strings.Trim(c.list, "[ "), ",")
		switch first = strings.Trim(first, `"] `); {
		case isNumber(first) && (!isTime(first) || timeList != nil):
			values = c
		case isTime(first):
			timeList = c
		}
	}
	return timeList, values
}
