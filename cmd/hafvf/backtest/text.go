package backtest

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hafvf/internal/message"
)

// kinds are the kinds of alerts, in the order of the report's columns. The report always has columns for the first
// two.
var kinds = []string{"novelty", "change", "outlier", "revision", "silent", "recovered"}

// String returns the report as text.
func (r *Report) String() string {
	var b strings.Builder
	r.Messages.write(&b, r.Last.Sub(r.First))
	fmt.Fprintf(&b, "%s: %s, %s (%d missing), %d rejected", r.Config, count(r.Keys, "key"), message.Count(r.Records, "record", "records"), r.Missing, r.Rejected)
	if !r.First.IsZero() {
		fmt.Fprintf(&b, ", from %s to %s", r.stamp(r.First), r.stamp(r.Last))
	}
	fmt.Fprintf(&b, "; %.1f s, %.0f records/s\n", r.Seconds, float64(r.Rate))
	if r.Stopped {
		b.WriteString("stopped before the end of the input\n")
	}
	shown := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool {
		return kind != kinds[0] && kind != kinds[1] && r.Alerts[kind] == 0
	})
	fmt.Fprintf(&b, "\nalerts: %s\n", r.Alerts.text(shown))
	fmt.Fprintf(&b, "budget: %s alarms over these records, %d raised; a key may exceed its budget by nine\n", decimal(r.Budget.Allowed), r.Budget.Spent)
	r.writeSuppressed(&b, r.Muted, "muted", "of keys that had spent their budget")
	r.writeSuppressed(&b, r.Resting, "resting", "that returned within an episode")
	r.writeIncidents(&b)
	r.writeLabels(&b)
	if r.Marks != nil {
		fmt.Fprintf(&b, "marks: %s\n", r.Marks)
	}

	if len(r.Weeks) > 0 {
		b.WriteString("\nby week\n")
		table(&b, func(w io.Writer) {
			fmt.Fprintf(w, "week of\t%s\n", strings.Join(shown, "\t"))
			for _, week := range r.Weeks {
				fmt.Fprint(w, week.Monday.In(r.zone).Format(time.DateOnly))
				for _, kind := range shown {
					fmt.Fprintf(w, "\t%d", week.Alerts[kind])
				}
				fmt.Fprintln(w)
			}
		})
	}
	r.writePlans(&b)
	r.writeMonthDay(&b)
	if r.Alerts.total() == 0 {
		return r.Against.append(&b, r)
	}
	fmt.Fprintf(&b, "\nthe noisiest keys\n")
	table(&b, func(w io.Writer) {
		fmt.Fprintf(w, "key\t%s\ta week\tbudget\traised\tmuted\tresting\tby week\n", strings.Join(shown, "\t"))
		for _, k := range r.ByKey[:min(len(r.ByKey), maxListed)] {
			if k.Alerts.total() == 0 {
				break
			}
			fmt.Fprint(w, message.Printable(k.Key))
			for _, kind := range shown {
				fmt.Fprintf(w, "\t%d", k.Alerts[kind])
			}
			var weeks []string
			for _, week := range k.Weeks {
				weeks = append(weeks, fmt.Sprintf("%s: %d", week.Monday.In(r.zone).Format(time.DateOnly), week.Alerts.total()))
			}
			if n := len(weeks); n > maxShownWeeks {
				weeks = append(weeks[:maxShownWeeks], fmt.Sprintf("… %d more", n-maxShownWeeks))
			}
			fmt.Fprintf(w, "\t%s\t%s\t%d\t%d\t%d\t%s\n", decimal(float64(k.PerWeek)), decimal(k.Budget.Allowed), k.Budget.Spent, k.Muted.Count, k.Resting.Count, strings.Join(weeks, ", "))
		}
	})
	fmt.Fprintf(&b, "\nthe largest events\n")
	r.writeEvents(&b, r.Largest)
	return r.Against.append(&b, r)
}

// writePlans writes the keys that follow a weekly plan, by decreasing number of alerts.
func (r *Report) writePlans(b *strings.Builder) {
	planned := slices.DeleteFunc(slices.Clone(r.ByKey), func(k Key) bool { return k.Plan == "" })
	if len(planned) > 0 {
		b.WriteString("\nweekly plans of keys\n")
	}
	list(b, "  ", planned, func(k Key) string { return fmt.Sprintf("%s  plan: %s", message.Printable(k.Key), k.Plan) })
}

// maxShownWeeks is the maximum number of weeks in the line of a key.
const maxShownWeeks = 4

func table(b *strings.Builder, write func(w io.Writer)) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	write(w)
	w.Flush()
	for line := range strings.Lines(text.String()) {
		b.WriteString("  " + strings.TrimRight(line, " \n") + "\n")
	}
}

func (r *Report) writeEvents(b *strings.Builder, events []Event) {
	list(b, "  ", events, func(e Event) string { return fmt.Sprintf("%s  %s  %s", r.place(e.Time, e.N), e.Kind, e.sentence()) })
}

// list writes one line for each of the first maxListed items, and the number of the remaining items.
func list[T any](w io.Writer, indent string, items []T, line func(T) string) {
	for _, item := range items[:min(len(items), maxListed)] {
		fmt.Fprintf(w, "%s%s\n", indent, line(item))
	}
	if n := len(items); n > maxListed {
		fmt.Fprintf(w, "%s… %d more\n", indent, n-maxListed)
	}
}

// count returns n with a noun whose plural ends in s.
func count(n int, one string) string { return message.Count(n, one, one+"s") }

// sentence returns the message with its key in printable form.
func (e Event) sentence() string {
	return strings.Replace(e.Message, e.Key, message.Printable(e.Key), 1)
}

func (c Counts) text(shown []string) string {
	var parts []string
	for _, kind := range shown {
		parts = append(parts, fmt.Sprintf("%d %s", c[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// decimal formats v with one decimal, and NaN as "-".
func decimal(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.1f", v)
}

func (r *Report) writeIncidents(b *strings.Builder) {
	found := r.Incidents
	if found == nil {
		return
	}
	fmt.Fprintf(b, "incidents: %d, of which %s; %s to a receiver of incidents only, instead of %s; %s in no incident\n", found.Opened, message.Count(found.Pages, "is a page", "are pages"),
		message.Count(found.Messages, "message", "messages"), message.Count(found.Alarms, "alarm", "alarms"), message.Count(found.Outside, "alarm is", "alarms are"))
	list(b, "  ", found.ByScore, func(e Incident) string {
		return fmt.Sprintf("%s  score %.1f  %s", r.stamp(e.Start), float64(e.Score), e.Message)
	})
}

// writeSuppressed writes the number of suppressed alarms and the reason. It writes nothing if the number is 0.
func (r *Report) writeSuppressed(b *strings.Builder, m Suppressed, name, why string) {
	if m.Count == 0 {
		return
	}
	fmt.Fprintf(b, "%s: %s %s, the largest of %s at %s", name, message.Count(m.Count, "alarm", "alarms"), why, message.Printable(m.Key), r.place(m.Time, m.N))
	if s := float64(m.Score); !math.IsNaN(s) {
		fmt.Fprintf(b, ", score %.1f", s)
	}
	b.WriteByte('\n')
}

// place returns the time of an observation or, without a time, its position in the key.
func (r *Report) place(t time.Time, n int64) string {
	if t.IsZero() {
		return fmt.Sprintf("observation %d", n)
	}
	return r.stamp(t)
}

// stamp formats t in the zone of the config. The JSON report has all times in UTC.
func (r *Report) stamp(t time.Time) string { return t.In(r.zone).Format(time.RFC3339) }

func (r *Report) writeLabels(b *strings.Builder) {
	s := r.Labels
	if s == nil {
		return
	}
	fmt.Fprintf(b, "labels: %s\n", s)
	if s.Outside > 0 {
		fmt.Fprintf(b, "  not counted, outside the records of the key: %s\n", count(s.Outside, "window"))
	}
	if n := len(s.Unknown); n > 0 {
		fmt.Fprintf(b, "  not in the data: %s, %s", count(n, "labelled key"), message.Printable(strings.Join(s.Unknown[:min(n, maxShownUnknown)], ", ")))
		if n > maxShownUnknown {
			b.WriteString(", …")
		}
		b.WriteByte('\n')
	}
	list(b, "  ", s.Missed, func(m Missed) string {
		return fmt.Sprintf("missed: %s, from %s to %s", message.Printable(m.Key), r.stamp(m.Start), r.stamp(m.End))
	})
}

// maxShownUnknown is the maximum number of unknown keys that a report names.
const maxShownUnknown = 5

// String returns the score as part of a line.
func (s *Score) String() string {
	text := fmt.Sprintf("%d of %s hit, %s", s.Hit, count(s.Windows, "window"), count(s.FalseAlarms, "false alarm"))
	if s.Hit > 0 {
		text += fmt.Sprintf(", delay %v (median), at most %v", seconds(s.MedianDelay), seconds(s.LargestDelay))
	}
	return text
}

func seconds(v Number) time.Duration {
	return time.Duration(math.Round(float64(v))) * time.Second
}

// append adds the comparison to the report text in b, and returns the whole text. a may be nil.
func (a *Against) append(b *strings.Builder, r *Report) string {
	if a == nil {
		return b.String()
	}
	other := &a.Report
	fmt.Fprintf(b, "\nagainst %s: %s in both, %d only in %s, %d only in %s\n", other.Config, count(a.Both, "event"), len(a.Only.This), r.Config, len(a.Only.Other), other.Config)
	table(b, func(w io.Writer) {
		fmt.Fprintf(w, "\t%s\t%s\n", r.Config, other.Config)
		row := func(name string, value func(*Report) any) {
			fmt.Fprintf(w, "%s\t%v\t%v\n", name, value(r), value(other))
		}
		for _, kind := range kinds {
			if r.Alerts[kind]+other.Alerts[kind] > 0 {
				row(kind, func(r *Report) any { return r.Alerts[kind] })
			}
		}
		row("budget", func(r *Report) any { return decimal(r.Budget.Allowed) })
		row("alarms raised", func(r *Report) any { return r.Budget.Spent })
		if r.Marks != nil {
			row("marked true, raised", func(r *Report) any { return fmt.Sprintf("%d of %d", r.Marks.True.Raised, r.Marks.True.Marks) })
			row("marked false, raised", func(r *Report) any { return fmt.Sprintf("%d of %d", r.Marks.False.Raised, r.Marks.False.Marks) })
		}
		if r.Labels != nil {
			row("windows hit", func(r *Report) any { return fmt.Sprintf("%d of %d", r.Labels.Hit, r.Labels.Windows) })
			row("false alarms", func(r *Report) any { return r.Labels.FalseAlarms })
			row("median delay", func(r *Report) any {
				if r.Labels.Hit == 0 {
					return "-"
				}
				return seconds(r.Labels.MedianDelay)
			})
		}
		row("records/s", func(r *Report) any { return fmt.Sprintf("%.0f", float64(r.Rate)) })
	})
	if len(a.Keys) > 0 {
		b.WriteString("\nkeys with different numbers of alerts\n")
		table(b, func(w io.Writer) {
			fmt.Fprintf(w, "key\t%s\t%s\n", r.Config, other.Config)
			list(w, "", a.Keys, func(k KeyDifference) string {
				return fmt.Sprintf("%s\t%d\t%d", message.Printable(k.Key), k.This, k.Other)
			})
		})
	}
	for _, side := range []struct {
		config string
		events []Event
	}{{r.Config, a.Only.This}, {other.Config, a.Only.Other}} {
		if len(side.events) > 0 {
			fmt.Fprintf(b, "\nonly in %s\n", side.config)
			r.writeEvents(b, side.events)
		}
	}
	return b.String()
}
