package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/outfile"
	"hafvf/cmd/hafvf/sessions"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/domain"
	"hafvf/internal/message"
)

func sessionsCommand() *cobra.Command {
	var out string
	var interval float64
	zone := time.UTC
	cmd := &cobra.Command{
		Use:     "sessions SMOOTHED -o FILE",
		Short:   "Write a table of the segments of smoothed sessions, a row each",
		Long:    help("sessions"),
		Example: "  hafvf sessions smoothed.jsonl -o sessions.csv\n  hafvf sessions smoothed.jsonl -o sessions.parquet --interval 0.8",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.UsageError(errors.New("sessions needs -o FILE.csv or -o FILE.parquet"))
			}
			if err := readFlag(cmd, "zone", &zone, domain.Zone); err != nil {
				return cli.UsageError(err)
			}
			if err := checkSessions(args[0], out, interval); err != nil {
				return cli.UsageError(err)
			}
			t, err := writeSessions(cmd.Context(), args[0], out, interval, zone)
			if errors.As(err, new(sessions.NotSmoothed)) {
				return cli.UsageError(err)
			}
			if err != nil {
				return err
			}
			if t.Incomplete > 0 {
				fmt.Fprintf(os.Stderr, "warning: records of %s are missing in the file: its segments may be incomplete\n", message.Count(t.Incomplete, "session", "sessions"))
			}
			fmt.Fprintf(os.Stderr, "%s of %s of %s: %s\n", message.Count(t.Segments, "segment", "segments"), message.Count(t.Sessions, "session", "sessions"), message.Count(t.Keys, "key", "keys"), out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the table to write, `FILE`.csv or .parquet")
	cmd.Flags().Float64Var(&interval, "interval", 0.95, "the `PROBABILITY` of the interval from lower to upper")
	cmd.Flags().String("zone", "", "the time zone, an IANA `NAME` such as Europe/Berlin; UTC by default")
	return cmd
}

// checkSessions returns an error unless out can be the table of results, and interval is above 0 and below 1.
func checkSessions(results, out string, interval float64) error {
	if err := cmp.Or(outfile.CheckTable(out), outfile.CheckInputs(out, results)); err != nil {
		return err
	}
	if !(interval > 0 && interval < 1) {
		return fmt.Errorf("--interval %g: give a probability above 0 and below 1", interval)
	}
	return nil
}

// writeSessions writes the table of the smoothed records in results to out, which must have passed checkSessions. An
// existing file is replaced only by a complete one.
func writeSessions(ctx context.Context, results, out string, interval float64, zone *time.Location) (sessions.Tally, error) {
	var c sessions.Collector
	if err := outfile.ForEachResult(ctx, results, nil, c.Add); err != nil {
		return sessions.Tally{}, err
	}
	table, tally := c.Table(interval, zone)
	if tally.Sessions == 0 {
		return tally, fmt.Errorf("%s contains no records", results)
	}
	return tally, outfile.WriteTable(out, table)
}
