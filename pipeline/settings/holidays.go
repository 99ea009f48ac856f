package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// holidays reads dates, or a mapping with the day that they are like.
func holidays(dst *usual.Holidays) keytable.ValueParser {
	var listed, filed []string
	file, like := "", weekdays[dst.Like]
	keys := []keytable.Key{
		{Name: "dates", Doc: "Local dates.", Read: dates(&listed)},
		{Name: "file", Doc: "File with a date on each line. What follows a # is a comment. It is read at the start.", Read: keytable.Text(&file, keytable.NotEmpty).Then(func() (err error) {
			filed, err = readDates(file)
			return err
		})},
		{Name: "like", Doc: "The day of the week that they are like.", Read: keytable.Choice(&like, weekdays...)},
	}
	const takes = "list of dates, or {dates: […], file: …, like: Sun}"
	return keytable.ValueParser{Takes: takes, Initial: "[]", Keys: keys, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		switch n.Kind {
		case yaml.SequenceNode:
			keys[0].Read.Read(d, path, n)
		case yaml.MappingNode:
			d.Mapping(path, n, keys)
		default:
			d.WrongType(path, "a "+takes, n)
			return
		}
		*dst = usual.Holidays{Dates: append(listed, filed...), Like: time.Weekday(slices.Index(weekdays, like))}
	}}
}

// readDates reads a file of dates. An error names the line.
func readDates(path string) (all []string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if _, err := domain.Date(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %v", message.Printable(path), i+1, err)
		}
		all = append(all, line)
	}
	return all, nil
}

// HolidayRemarks are what a check says of holidays that have no effect where one may look for it.
func (c *Settings) HolidayRemarks() (all []string) {
	if c.Detect == nil {
		return nil
	}
	named := c.Detect.Holidays.Dates
	alone := func(s *usual.RhythmConfig) bool {
		return s != nil && slices.ContainsFunc(s.Holidays, func(date string) bool { return !slices.Contains(named, date) })
	}
	if alone(c.Model.Season) || slices.ContainsFunc(c.Keys, func(k KeyRule) bool { return alone(k.Season) }) {
		all = append(all, "alarms do not go by model.holidays: the season of the model does not learn them; detect.holidays are for alarms")
	}
	week := func(s usual.Season) bool { return s.Period == 7*24*time.Hour }
	if len(named) > 0 && !slices.ContainsFunc(c.Detect.Seasons, week) {
		all = append(all, "detect.holidays have no effect on what is usual: detect.season has no 168h")
	}
	return all
}
