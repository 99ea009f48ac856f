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
		Use:   "plot RESULTS -o FILE",
		Short: "Draw the estimates, or the smoothed sessions, of a run",
		Long: `Plot draws the records in RESULTS, which run has written as JSON Lines, CSV or Parquet.

Estimates: per key the data with the prediction and its band of two standard
deviations, the expected weights E[w] and E[b], the effective memory, and the
surprise. With many keys, the data and the weights.

Estimates of a run with detect: the data with the estimate of the running regime,
and the band of what is usual, or with --band predicted that of the prediction;
alarms as filled triangles on the time axis. The second panel is the score, with the
threshold of an alarm if the records are full. Stretches in which nothing came are
shaded: they are ten times as long as the median step. Beliefs,
alarm or not: outliers in rings, and every change as a line at the start of the new
regime, with +n if it was found n observations later. A change that was revised is
drawn at the place of the last revision. An observation that a revision made the
first of a regime is not drawn as an outlier. Below, the
probabilities of an outlier and of a change; then weights, memory and surprise.
With many keys, the data and the score.

Smoothed records: per key the data with the smoothed estimate and its 95 % band
(1.96 standard deviations), the memory, and the change evidence with the evidence
that a change takes at ODDS: give the --odds of the run. If the run found segments,
the mean of each, and outliers in rings. If the run had levels, E[w] and the memory
of the forward and the backward pass. Vertical lines are the changes that the
records report, with their probabilities; the place of each is shaded, its interval
of 95 %. Without times sessions stand one behind the other, on an axis of trials.
Lines break between sessions, and with levels between the parts of a session that was
cut. If a record has several revisions, plot draws the latest. With many keys, the data
and the evidence.

--from, --to and --last draw a part of the records, and --alarm N the records about
the N-th largest alarm.

A picture shows at most 20 keys. Keys with alarms or smoothed changes come first, from
the largest, in standard deviations from what is usual or in nats of evidence; then the
others by name.

Values that are zeros and ones are drawn as rates: the estimate with a band of two
standard deviations inside [0, 1], on an axis of its own range, and arrows at the
observations of the rarer value.

The title is the name of the file, or --title. Records do not have the name and the unit
of the value: its axis is x, as their field is.`,
		Example: "  hafvf plot out.jsonl -o out.svg\n  hafvf plot out.jsonl -o pump.png --key pump-1 --key pump-2\n  hafvf plot out.jsonl -o hall.svg --keys 'hall-3/*'\n  hafvf plot out.jsonl -o week.png --last 7d\n  hafvf plot out.jsonl -o worst.png --alarm 1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return cli.Usage(errors.New("plot needs -o FILE.svg or -o FILE.png"))
			}
			if err := errors.Join(given(cmd, "from", &c.From, times.Parse), given(cmd, "to", &c.To, times.Parse), given(cmd, "last", &c.Last, length)); err != nil {
				return cli.Usage(err)
			}
			if cmd.Flags().Changed("alarm") && c.Alarm == 0 {
				c.Alarm = -1
			}
			if err := plot.Check(args[0], out, c); err != nil {
				return cli.Usage(err)
			}
			return plot.Results(cmd.Context(), args[0], out, c)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the picture to write, `FILE`.svg or .png")
	cmd.Flags().StringVar(&c.Title, "title", "", "the title of the picture, as `TEXT`, in place of the name of the file")
	cmd.Flags().StringArrayVar(&c.Keys, "key", nil, "draw only this key; may be repeated")
	cmd.Flags().StringVar(&c.Pattern, "keys", "", "draw only keys that match `PATTERN`: * and ? match any character")
	cmd.Flags().String("from", "", "draw the records from this `TIME`: a date, or RFC 3339")
	cmd.Flags().String("to", "", "draw the records until this `TIME`")
	cmd.Flags().String("last", "", "draw the records of this time before the last one: 7d, 36h, …")
	cmd.Flags().IntVar(&c.Alarm, "alarm", 0, "draw the key and the records about the `N`-th largest alarm, from 1")
	cmd.Flags().StringVar((*string)(&c.Band), "band", string(plot.Usual), "of filtered records: the band of what is usual, or predicted")
	cmd.Flags().Float64Var(&c.Odds, "odds", defaultOdds, "of smoothed records: the `ODDS` in favour of a change that the run asked for")
	return cmd
}

// given reads a flag into dst, if it is given.
func given[T any](cmd *cobra.Command, name string, dst *T, read func(string) (T, error)) (err error) {
	flag := cmd.Flags().Lookup(name)
	if !flag.Changed {
		return nil
	}
	if *dst, err = read(flag.Value.String()); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	return nil
}

// length reads a time span, which may have days.
func length(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n > 0 && n < 1e5 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is no time span: 7d, 36h, 90m", message.Quote(s))
	}
	return d, nil
}

// defaultOdds is what a smoothing run asks of a change in a family with a scale, where its config says
// nothing else.
const defaultOdds = 10
