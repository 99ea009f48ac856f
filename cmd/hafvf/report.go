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

	"hafvf/cmd/hafvf/output"
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
	var since report.Since
	var zone *time.Location
	var o operation
	cmd := &cobra.Command{
		Use:   "report (RESULTS… | CONFIG) -o FILE",
		Short: "Write a page of what happened to all keys: incidents, alarms, silent keys, smoothed sessions",
		Long:  help("report"),
		Example: `  hafvf report alerts.jsonl -o week.html --since 7d
  hafvf report alerts.jsonl estimates.jsonl -o week.html
  hafvf report smoothed.jsonl -o sessions.html
  hafvf report pump.yaml -o pump.html`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Usage(errors.New("report needs -o FILE.html"))
			}
			if err := cmp.Or(given(cmd, "since", &since, sinceOf), given(cmd, "zone", &zone, domain.Zone)); err != nil {
				return cli.Usage(err)
			}
			if err := checkPage(out, args...); err != nil {
				return err
			}
			var marks []records.Mark
			if markFile != "" {
				var err error
				if marks, err = records.ReadMarks(markFile); err != nil {
					return cli.Usage(fmt.Errorf("--marks: %w", err))
				}
			}
			runs := slices.ContainsFunc(args, isConfig)
			var c *report.Collector
			var err error
			switch {
			case runs && len(args) > 1:
				return cli.Usage(errors.New("report takes either one config, or files of records"))
			case runs:
				c, err = reportRun(cmd.Context(), args[0], out, set, since, zone, &o)
			case since.Last > 0 && slices.Contains(args, "-"):
				return cli.Usage(errors.New("--since a time span needs the input twice, and standard input comes once: give a date, or a file"))
			case len(set) > 0:
				return cli.Usage(errors.New("--set is for a config, and files of records were given"))
			default:
				c, err = report.Files(cmd.Context(), args, since, cmp.Or(zone, time.UTC))
			}
			if err != nil {
				return err
			}
			c.AddMarks(marks)
			return cmp.Or(writePage(c, out), o.rejected)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the page to write, `FILE`.html")
	cmd.Flags().StringVar(&markFile, "marks", "", "show the marks of a `FILE`, as hafvf mark writes them")
	cmd.Flags().String("since", "", "what happened in this time before the last record, as 7d or 36h, or from a date on: `TIME`")
	cmd.Flags().String("zone", "", "the zone of the page, an IANA `NAME` such as Europe/Berlin")
	cli.AddSet(cmd, &set)
	o.flags(cmd)
	return cmd
}

// sinceOf reads a time span or a date.
func sinceOf(s string) (report.Since, error) {
	d, err := length(s)
	if err == nil {
		return report.Since{Last: d}, nil
	}
	at, err := times.Parse(s)
	if err != nil {
		return report.Since{}, fmt.Errorf("%s is neither a time span (7d, 36h) nor a time (a date, or RFC 3339)", message.Quote(s))
	}
	return report.Since{From: at}, nil
}

// isConfig tells a config from records by its name; a .json may be either.
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

// reportRun runs a config, and gathers what it finds. A zone takes the place of that of the config.
func reportRun(ctx context.Context, path, out string, set []string, since report.Since, zone *time.Location, o *operation) (*report.Collector, error) {
	cfg, graph, err := loadPast(path, set, "a report runs a config here", "a report runs a config over a file, not over Kafka: give its alerts as a file")
	if err != nil {
		return nil, err
	}
	_, filters := graph.Filter()
	if _, alarms := graph.Alarms(); filters && !alarms {
		return nil, noAlarms(path)
	}
	if since.Last > 0 && graph.StandardInput() {
		return nil, cli.Usage(errors.New("--since a time span runs the config twice, and standard input comes once: give a file, or a date"))
	}
	graph.Clock = cmp.Or(zone, graph.Clock)
	if err := checkPage(out, inputOf(cfg)); err != nil {
		return nil, err
	}
	if !filters {
		return o.smoothed(ctx, filepath.Base(path), graph, since)
	}
	b := backtester{operation: *o}
	if since.Last > 0 {
		// The period ends with the last record, which a first run finds.
		first, err := b.run(ctx, path, graph, nil)
		if err != nil {
			return nil, err
		}
		if !first.Last.IsZero() {
			since.From = first.Last.Add(-since.Last)
		}
	}
	c := report.NewCollector(since.From, graph.Clock)
	_, err = b.run(ctx, filepath.Base(path), graph, c)
	o.rejected = b.rejected
	return c, err
}

// smoothed runs a graph that smooths, and gathers its sessions.
func (o *operation) smoothed(ctx context.Context, name string, graph *pipeline.Graph, since report.Since) (c *report.Collector, err error) {
	passes := 1
	if since.Last > 0 {
		passes = 2 // the period ends with the last record, which a first run finds
	}
	for range passes {
		if c != nil && !c.Last().IsZero() {
			since.From = c.Last().Add(-since.Last)
		}
		c = report.NewCollector(since.From, graph.Clock)
		c.Source(name)
		if _, err = o.observe(ctx, pipeline.Run{Graph: graph.Trial(), Observer: c.Smoothed()}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// checkPage says why out is no file for a page of what is read.
func checkPage(out string, inputs ...string) error {
	if err := report.Check(inputs, out); err != nil {
		return cli.Usage(err)
	}
	return output.CheckFolder(out)
}

// inputOf is the file, or the pattern of files, that a config reads; empty if it reads none.
func inputOf(cfg *config.Config) string {
	if files := cfg.Source.Files(); files != nil {
		return files.Path
	}
	return ""
}

// writePage writes the page to a file, and says on standard error what is on it.
func writePage(c *report.Collector, out string) error {
	page := c.Page()
	size, err := page.WriteFile(out)
	if err != nil {
		return err
	}
	if all := page.Sessions; all != nil {
		fmt.Fprintf(os.Stderr, "%s of %s, %s; ", message.Count(all.Count, "session", "sessions"), message.Count(all.Keys, "key", "keys"), message.Count(all.Found, "change", "changes"))
	}
	fmt.Fprintf(os.Stderr, "%s, %s of %s: %s, %.1f MB\n", message.Count(page.IncidentCount, "incident", "incidents"),
		message.Count(page.Alarms, "alarm", "alarms"), message.Count(page.Alarmed, "key", "keys"), out, float64(size)/1e6)
	return nil
}
