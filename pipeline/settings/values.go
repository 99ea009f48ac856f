package settings

import (
	"fmt"
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
