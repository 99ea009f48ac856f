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
			if err := sessions.Check(args[0], out, interval); err != nil {
				return cli.UsageError(err)
			}
			t, err := sessions.Write(cmd.Context(), args[0], out, interval, zone)
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
