package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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
		Use:   "sessions SMOOTHED -o FILE",
		Short: "Write a table of the segments of smoothed sessions, a row each",
		Long: `Sessions writes a table, FILE.csv or FILE.parquet, from the smoothed records in
SMOOTHED, which run has written as JSON Lines, CSV or Parquet. It has a row for each
segment: key, session (its start), segment (its number in the session), start, end, n,
mean, sd, lower and upper. Without times session is the values of session.by, and start
and end are numbers of trials; where trials are missing, end is the last number before
the next segment, and with levels both may be empty. Lower and upper are the interval of
the segment's mean under a normal approximation, for the probability --interval. Of
vectors the columns are mean.0, mean.1 and so on.

If a change begins the segment, change_interval says where it is (95 %), as times, if
there are some, and as positions in the session; change_probability says how probable a
change there is, and evidence is its log Bayes factor in nats. outliers counts the
observations that are more probably accidents than not.

If the run had levels, the segments are the stretches between the changes, mean is the
average of the estimates, and sd, lower, upper and outliers are empty.

If a session has several revisions, the table has the latest, which needs all its
records: also those that the revision has not changed. Sessions that lack records are
counted on standard error. Memory holds a row for each segment, not the records.

Times of a .csv are on the clock of --zone, with its offset, as in
2025-10-14T00:00:00+02:00: pandas reads them by to_datetime(…, utc=True). Those of a
.parquet are instants.`,
		Example: "  hafvf sessions smoothed.jsonl -o sessions.csv\n  hafvf sessions smoothed.jsonl -o sessions.parquet --interval 0.8",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Usage(errors.New("sessions needs -o FILE.csv or -o FILE.parquet"))
			}
			if err := given(cmd, "zone", &zone, domain.Zone); err != nil {
				return cli.Usage(err)
			}
			if err := sessions.Check(args[0], out, interval); err != nil {
				return cli.Usage(err)
			}
			t, err := sessions.Write(cmd.Context(), args[0], out, interval, zone)
			if errors.As(err, new(sessions.NotSmoothed)) {
				return cli.Usage(err)
			}
			if err != nil {
				return err
			}
			if t.Incomplete > 0 {
				fmt.Fprintf(os.Stderr, "warning: the file has not all records of %s: segments may be missing there\n", message.Count(t.Incomplete, "session", "sessions"))
			}
			fmt.Fprintf(os.Stderr, "%s of %s of %s: %s\n", message.Count(t.Segments, "segment", "segments"), message.Count(t.Sessions, "session", "sessions"), message.Count(t.Keys, "key", "keys"), out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the table to write, `FILE`.csv or .parquet")
	cmd.Flags().Float64Var(&interval, "interval", 0.95, "the `PROBABILITY` of lower to upper")
	cmd.Flags().String("zone", "", "the zone of the times, an IANA `NAME` such as Europe/Berlin; UTC by default")
	return cmd
}
