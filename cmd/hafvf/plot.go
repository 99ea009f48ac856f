package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"hafvf/cmd/hafvf/plot"
)

func plotCommand() *cobra.Command {
	var out string
	var keys plot.Choice
	var odds float64
	cmd := &cobra.Command{
		Use:   "plot RESULTS -o FILE",
		Short: "Draw the estimates, or the smoothed sessions, of a run",
		Long: `Plot draws the records in RESULTS, JSON Lines as run writes them.

Estimates: per key the data with the prediction and its band of two standard
deviations, the expected weights E[w] and E[b], the effective memory, and the
surprise. With many keys, the data and the weights.

Estimates of a run with detect: the data with the estimate of the running regime,
and the band of the prediction; alarms as filled triangles on the time axis. Beliefs,
alarm or not: outliers in rings, and every change as a line at the start of the new
regime, with +n if it was found n observations later. A change that was revised is
drawn at the place of the last revision. An observation that a revision made the
first of a regime is not drawn as an outlier. Below, the
probabilities of an outlier and of a change; then weights, memory and surprise.
With many keys, the data and the probabilities.

Smoothed records: per key the data with the smoothed estimate and its 95 % band
(1.96 standard deviations), the memory, and the change evidence with log ODDS.
If the run found segments, the mean of each, and outliers in rings; an edge takes
more evidence than log ODDS, as it could be anywhere. If the run had levels, E[w]
and the memory of the forward and the backward pass; then log ODDS is the threshold
of a change, so give the --odds of the run. Vertical lines are the
changes that the records report. Lines break between sessions, and with levels
between the parts of a session that was cut. If a record has several revisions, plot
draws the latest. With many keys, the data and the evidence.

A picture shows at most 20 keys. Keys with alarms or smoothed changes come first, from
the largest, in standard deviations of the prediction or in nats of evidence; then the
others by name.

Values that are zeros and ones are drawn as rates: the estimate with a band of two
standard deviations inside [0, 1], on an axis of its own range, and arrows at the
observations of the rarer value.`,
		Example: "  hafvf plot out.jsonl -o out.svg\n  hafvf plot out.jsonl -o pump.png --key pump-1 --key pump-2\n  hafvf plot out.jsonl -o hall.svg --keys 'hall-3/*'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("plot needs -o FILE.svg or -o FILE.png")}
			}
			if !(odds > 0 && odds < math.Inf(1)) {
				return usageError{fmt.Errorf("--odds %g: odds are finite and above zero", odds)}
			}
			if err := plot.Check(out, keys); err != nil {
				return usageError{err}
			}
			return plot.Results(cmd.Context(), args[0], out, keys, odds)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "the picture to write, `FILE`.svg or .png")
	cmd.Flags().StringArrayVar(&keys.Keys, "key", nil, "draw only this key; may be repeated")
	cmd.Flags().StringVar(&keys.Pattern, "keys", "", "draw only keys that match `PATTERN`: * and ? match any character")
	cmd.Flags().Float64Var(&odds, "odds", defaultOdds, "of smoothed records: the threshold of the change evidence, as `ODDS`")
	return cmd
}

// defaultOdds is what a smoothing run asks of a change, where its config says
// nothing else.
const defaultOdds = 10
