package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf/keyed"
	"hafvf/hafvf/usual"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

// Bounds of what an observation may cost: the work of one grows as the cube of the number of harmonics, and a
// run that is asked to stop has to come to its end.
const (
	maxHarmonics = 48 // of one season
	allHarmonics = 4 * maxHarmonics
	maxSeasons   = 16
	maxLevels    = 64
	maxMembers   = 64
)

// budget reads a duration, or a number of observations.
func budget(dst *keyed.AlarmConfig) keytable.ValueParser {
	r := timeOrNumber("168h", func(d *keytable.Decoder, path string, n *yaml.Node) { d.Number(path, n, domain.Budget, &dst.Budget) },
		func(d *keytable.Decoder, path string, n *yaml.Node, v time.Duration) {
			if v <= 0 {
				d.Fail(path, "must be above 0, not %s", n.Value)
				return
			}
			dst.BudgetTime = v
		})
	r.Initial = message.Duration(dst.BudgetTime)
	return r
}

// remainder reads a duration, or a number of observations.
func remainder(dst *keyed.AlarmConfig) keytable.ValueParser {
	r := timeOrNumber("7h", func(d *keytable.Decoder, path string, n *yaml.Node) { d.Whole(path, n, 0, &dst.Rest) },
		func(d *keytable.Decoder, path string, n *yaml.Node, v time.Duration) {
			switch {
			case v < 0:
				d.Fail(path, "must be at least 0, not %s", n.Value)
			case v == 0:
				dst.Rest = 0
			default:
				dst.RestTime = v
			}
		})
	r.Initial = "7h within 6 to 60 observations"
	return r
}

// timeOrNumber reads a duration, or a number of observations.
func timeOrNumber(example string, number func(*keytable.Decoder, string, *yaml.Node), duration func(*keytable.Decoder, string, *yaml.Node, time.Duration)) keytable.ValueParser {
	takes := "a duration such as " + example + ", or a number of observations"
	return keytable.ValueParser{Takes: takes, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		if _, ok := keytable.NumberOf(n); ok {
			number(d, path, n)
			return
		}
		v, err := keytable.DurationOf(n)
		if err != nil {
			d.WrongType(path, takes, n)
			return
		}
		duration(d, path, n, v)
	}}
}

// seasons reads a list of periods, or a mapping of periods to harmonics.
func seasons(dst *[]usual.Season) keytable.ValueParser {
	const takes = "a list of durations, or a mapping of durations to harmonics"
	var initial []string
	for _, s := range *dst {
		initial = append(initial, fmt.Sprintf("%s: %d", message.Duration(s.Period), s.Harmonics))
	}
	text := "[]"
	if len(initial) > 0 {
		text = "{" + strings.Join(initial, ", ") + "}"
	}
	return keytable.AtMost(maxSeasons, "cycles", keytable.ValueParser{Takes: takes, Initial: text, Read: func(d *keytable.Decoder, path string, n *yaml.Node) {
		all := []usual.Season{}
		add := func(p string, period, harmonics *yaml.Node) {
			s := usual.Season{Harmonics: 3}
			var err error
			s.Period, err = keytable.DurationOf(period)
			switch {
			case err != nil:
				d.WrongType(p, "a duration such as 24h", period)
				return
			case s.Period <= 0:
				d.Fail(p, "must be above 0, not %s", period.Value)
				return
			case slices.ContainsFunc(all, func(other usual.Season) bool { return other.Period == s.Period }):
				d.Fail(p, "the period stands there already")
				return
			}
			for _, standard := range usual.DefaultSeasons() {
				if standard.Period == s.Period {
					s.Harmonics = standard.Harmonics
				}
			}
			if harmonics != nil {
				if !d.Whole(p, harmonics, 1, &s.Harmonics) {
					return
				}
				if s.Harmonics > maxHarmonics {
					d.Fail(p, "must be at most %d harmonics, not %d", maxHarmonics, s.Harmonics)
					return
				}
			}
			all = append(all, s)
		}
		switch n.Kind {
		case yaml.SequenceNode:
			for i, e := range n.Content {
				add(d.Entry(path, i, e), e, nil)
			}
		case yaml.MappingNode:
			d.Entries(path, n, func(p string, k, v *yaml.Node) { add(p, k, v) })
		default:
			d.WrongType(path, takes, n)
			return
		}
		sum := 0
		for _, s := range all {
			sum += s.Harmonics
		}
		if sum > allHarmonics {
			d.Fail(path, "has %d harmonics in all; at most %d are allowed", sum, allHarmonics)
		}
		*dst = all
	}})
}

// dates reads a list of dates.
func dates(dst *[]string) keytable.ValueParser {
	r := keytable.ListOf("dates, such as 2026-12-25", dst, func(s *string) keytable.ValueParser {
		return keytable.Text(s, keytable.MayBeEmpty).Then(func() error {
			_, err := domain.Date(*s)
			return err
		})
	})
	r.Initial = "[]"
	return r
}

// Pattern reads a pattern of keys, or a mapping of labels to patterns.
func Pattern(dst *string) keytable.ValueParser {
	r := keytable.Checked(dst, "pattern: "+domain.Wildcards+"; or labels with patterns, such as {job: auth-*}", domain.CheckPattern)
	read := r.Read
	r.Read = func(d *keytable.Decoder, path string, n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			read(d, path, n)
			return
		}
		labels := map[string]string{}
		d.Entries(path, n, func(p string, k, v *yaml.Node) {
			var of string
			keytable.Checked(&of, "pattern: "+domain.Wildcards, domain.CheckPattern).Read(d, p, v)
			labels[k.Value] = of
		})
		if len(labels) == 0 && !d.Failed(path) {
			d.Fail(path, "has no label")
		}
		*dst = domain.LabelPattern(labels)
	}
	return r
}

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
