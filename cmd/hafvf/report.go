package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/hafvf/report"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/internal/times"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
	"hafvf/pipeline/records"
)

func reportCommand() *cobra.Command {
	var out, markFile string
	var set []string
	var period report.Since
	var zone *time.Location
	var o operation
	cmd := &cobra.Command{
		Use:   "report (RESULTS… | CONFIG) -o FILE",
		Short: "Write a page about all keys: incidents, alarms, silent keys, smoothed sessions",
		Long:  help("report"),
		Example: `  hafvf report alerts.jsonl -o week.html --since 7d
  hafvf report alerts.jsonl estimates.jsonl -o week.html
  hafvf report smoothed.jsonl -o sessions.html
  hafvf report pump.yaml -o pump.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.UsageError(errors.New("report needs -o FILE.html"))
			}
			if err := cmp.Or(readFlag(cmd, "since", &period, parseSince), readFlag(cmd, "zone", &zone, domain.Zone)); err != nil {
				return cli.UsageError(err)
			}
			if err := checkPage(out, args...); err != nil {
				return err
			}
			var marks []records.Mark
			if markFile != "" {
				var err error
				if marks, err = records.ReadMarks(markFile); err != nil {
					return cli.UsageError(fmt.Errorf("--marks: %w", err))
				}
			}
			hasConfig := slices.ContainsFunc(args, isConfig)
			var c *report.Collector
			var err error
			switch {
			case hasConfig && len(args) > 1:
				return cli.UsageError(errors.New("a config is given with other inputs: give one config, or only files of records"))
			case hasConfig:
				c, err = reportRun(cmd.Context(), args[0], out, set, period, zone, &o)
			case period.Last > 0 && slices.Contains(args, "-"):
				return cli.UsageError(errors.New("--since with a time span reads the input twice, and standard input can be read once: give a date, or a file"))
			case len(set) > 0:
				return cli.UsageError(errors.New("--set is for a config, but files of records were given: leave out --set"))
			default:
				c, err = report.Files(cmd.Context(), args, period, cmp.Or(zone, time.UTC))
			}
			if err != nil {
				return err
			}
			c.AddMarks(marks)
			return cmp.Or(writePage(c, out), o.rejected)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the page to write, `FILE`.html")
	cmd.Flags().StringVar(&markFile, "marks", "", "show the marks in `FILE`, as hafvf mark writes them")
	cmd.Flags().String("since", "", "start of the page: a time before the last record, such as 7d or 36h, or a date: `TIME`")
	cmd.Flags().String("zone", "", "the time zone of the page, an IANA `NAME` such as Europe/Berlin")
	cli.AddSet(cmd, &set)
	o.flags(cmd)
	return cmd
}

// parseSince parses a time span or a date.
func parseSince(s string) (report.Since, error) {
	d, err := parseSpan(s)
	if err == nil {
		return report.Since{Last: d}, nil
	}
	t, err := times.Parse(s)
	if err != nil {
		return report.Since{}, fmt.Errorf("%s is neither a time span (7d, 36h) nor a time (a date, or RFC 3339)", message.Quote(s))
	}
	return report.Since{From: t}, nil
}

// isConfig reports whether the file is a config, by its extension. A .json file is a config unless its first line is
// a record with a key.
func isConfig(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
		return true
	case ".json":
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer f.Close()
		line, _ := bufio.NewReader(f).ReadBytes('\n')
		var record struct{ Key *string }
		return json.Unmarshal(line, &record) != nil || record.Key == nil
	}
	return false
}

// reportRun runs a config and collects the content of a page. zone overrides the zone of the config, unless it is
// nil.
func reportRun(ctx context.Context, path, out string, set []string, period report.Since, zone *time.Location, o *operation) (*report.Collector, error) {
	cfg, graph, err := loadPast(path, set, "a report runs a config locally", "a report runs a config over a file, not over Kafka: give its alerts as a file")
	if err != nil {
		return nil, err
	}
	_, filters := graph.Filter()
	if _, alarms := graph.Alarms(); filters && !alarms {
		return nil, noAlarms(path)
	}
	if period.Last > 0 && graph.StandardInput() {
		return nil, cli.UsageError(errors.New("--since with a time span runs the config twice, and standard input can be read once: give a file, or a date"))
	}
	graph.Clock = cmp.Or(zone, graph.Clock)
	if err := checkPage(out, inputOf(cfg)); err != nil {
		return nil, err
	}
	if !filters {
		return o.smoothed(ctx, filepath.Base(path), graph, period)
	}
	b := backtester{operation: *o}
	if period.Last > 0 {
		// The period ends with the last record, which a first run finds.
		first, err := b.run(ctx, path, graph, nil)
		if err != nil {
			return nil, err
		}
		if !first.Last.IsZero() {
			period.From = first.Last.Add(-period.Last)
		}
	}
	c := report.NewCollector(period.From, graph.Clock)
	if graph.TakesMarks() {
		c.SendMarksTo(path)
	}
	_, err = b.run(ctx, filepath.Base(path), graph, c)
	o.rejected = b.rejected
	return c, err
}

// smoothed runs a graph that smooths, and collects its sessions.
func (o *operation) smoothed(ctx context.Context, name string, graph *pipeline.Graph, period report.Since) (c *report.Collector, err error) {
	passes := 1
	if period.Last > 0 {
		passes = 2 // the period ends with the last record, which a first run finds
	}
	for range passes {
		if c != nil && !c.Last().IsZero() {
			period.From = c.Last().Add(-period.Last)
		}
		c = report.NewCollector(period.From, graph.Clock)
		c.Source(name)
		if _, err = o.observe(ctx, pipeline.Run{Graph: graph.Trial(), Observer: c.Smoothed()}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkPage returns an error unless out can be the file of a page of the inputs.
func checkPage(out string, inputs ...string) error {
	if err := report.Check(inputs, out); err != nil {
		return cli.UsageError(err)
	}
	return outfile.CheckFolder(out)
}

// inputOf returns the path or pattern of the files that a config reads; empty without files.
func inputOf(cfg *config.Config) string {
	if files := cfg.Source.Files(); files != nil {
		return files.Path
	}
	return ""
}

// writePage writes the page to a file, and a summary of the page to standard error.
func writePage(c *report.Collector, out string) error {
	page := c.Page()
	size, err := page.WriteFile(out)
	if err != nil {
		return err
	}
	if sessions := page.Sessions; sessions != nil {
		fmt.Fprintf(os.Stderr, "%s of %s, %s; ", message.Count(sessions.Count, "session", "sessions"), message.Count(sessions.Keys, "key", "keys"), message.Count(sessions.Found, "change", "changes"))
	}
	fmt.Fprintf(os.Stderr, "%s, %s of %s: %s, %.1f MB\n", message.Count(page.IncidentCount, "incident", "incidents"),
		message.Count(page.Alarms, "alarm", "alarms"), message.Count(page.Alarmed, "key", "keys"), out, float64(size)/1e6)
	return nil
}
