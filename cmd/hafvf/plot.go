package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/plot"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/message"
	"hafvf/internal/times"
)

func plotCommand() *cobra.Command {
	var out string
	var c plot.Choice
	cmd := &cobra.Command{
		Use:     "plot RESULTS -o FILE",
		Short:   "Draw the estimates, or the smoothed sessions, of a run",
		Long:    help("plot"),
		Example: "  hafvf plot out.jsonl -o out.svg\n  hafvf plot out.jsonl -o pump.png --key pump-1 --key pump-2\n  hafvf plot out.jsonl -o hall.svg --keys 'hall-3/*'\n  hafvf plot out.jsonl -o week.png --last 7d\n  hafvf plot out.jsonl -o worst.png --alarm 1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.UsageError(errors.New("plot needs -o FILE.svg or -o FILE.png"))
			}
			if err := errors.Join(readFlag(cmd, "from", &c.From, times.Parse), readFlag(cmd, "to", &c.To, times.Parse), readFlag(cmd, "last", &c.Last, parseSpan)); err != nil {
				return cli.UsageError(err)
			}
			if cmd.Flags().Changed("alarm") && c.Alarm == 0 {
				c.Alarm = -1
			}
			if err := plot.Check(args[0], out, c); err != nil {
				return cli.UsageError(err)
			}
			return plot.Results(cmd.Context(), args[0], out, c)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the picture to write, `FILE`.svg or .png")
	cmd.Flags().StringVar(&c.Title, "title", "", "the title of the picture, `TEXT`, instead of the name of the file")
	cmd.Flags().StringArrayVar(&c.Keys, "key", nil, "draw only this key; may be repeated")
	cmd.Flags().StringVar(&c.Pattern, "keys", "", "draw only keys that match `PATTERN`: * and ? match any character")
	cmd.Flags().String("from", "", "draw the records from this `TIME`: a date, or RFC 3339")
	cmd.Flags().String("to", "", "draw the records until this `TIME`")
	cmd.Flags().String("last", "", "draw only the records of this time before the last record: 7d, 36h, …")
	cmd.Flags().IntVar(&c.Alarm, "alarm", 0, "draw the key and the records around the `N`-th largest alarm, from 1")
	cmd.Flags().StringVar((*string)(&c.Band), "band", string(plot.Usual), "filtered records: draw the band usual or predicted")
	cmd.Flags().Float64Var(&c.Odds, "odds", defaultOdds, "smoothed records: the --odds of the run, `ODDS` in favour of a change")
	return cmd
}

// readFlag parses a flag into dst, if the flag is set.
func readFlag[T any](cmd *cobra.Command, name string, dst *T, read func(string) (T, error)) (err error) {
	flag := cmd.Flags().Lookup(name)
	if !flag.Changed {
		return nil
	}
	if *dst, err = read(flag.Value.String()); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	return nil
}

// parseSpan parses a duration above 0, in days as 7d or as Go writes durations.
func parseSpan(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 && n < 1e5 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is not a time span: give one such as 7d, 36h or 90m", message.Quote(s))
	}
	return d, nil
}

// defaultOdds is the default odds in favour of a change of a smoothing run, in a family with a scale.
const defaultOdds = 10
